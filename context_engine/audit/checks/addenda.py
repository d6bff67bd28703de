"""What entries name by digest against what is kept: changed, gone, kept though erased, or named by nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, select

from context_engine.audit.checks.findings import Finding, Place
from context_engine.audit.ledger.database import parts
from context_engine.audit.ledger.derive import named_digests
from context_engine.audit.ledger.named import named_contents
from context_engine.audit.ledger.schema import addendum, erasure
from context_engine.errors import LedgerCorrupt

_BY_DIGEST: Final = select(
    addendum.c.digest, addendum.c.kind, addendum.c.salt, addendum.c.data, addendum.c.content_key
).where(addendum.c.digest.in_(bindparam("digests", expanding=True)))
_PREFIX_BYTES: Final = 8

Erased = dict[bytes, list[int]]
"""The entries that say that an addendum was erased, by its digest."""


class Names:
    """Which digests the entries of a log name, in few bytes.

    What one record owns is remembered by the first 8 bytes of its digest, without the record; what many share by the
    whole digest and the first record that names it.

    Attributes:
        shared: {digest: index of the first record that names it}.
        own: 8 bytes for each.
    """

    def __init__(self) -> None:
        self.shared: dict[bytes, int] = {}
        self.own = bytearray()

    def share(self, digests: Iterable[bytes], index: int) -> None:
        """Note what a record shares with others."""
        for digest in digests:
            self.shared.setdefault(digest, index)

    def owns(self, digest: bytes) -> None:
        """Note what a record owns."""
        self.own += digest[:_PREFIX_BYTES].ljust(_PREFIX_BYTES, b"\x00")

    def join(self, later: Names) -> None:
        """Note what the entries of a later stretch name."""
        for digest, index in later.shared.items():
            self.shared.setdefault(digest, index)
        self.own += later.own

    def test(self) -> Callable[[bytes], bool]:
        """Return a function that says whether a digest is named."""
        own = memoryview(bytes(self.own))
        step = _PREFIX_BYTES
        prefixes = {bytes(own[place : place + step]) for place in range(0, len(own), step)}
        return lambda digest: digest in self.shared or digest[:step] in prefixes


class KeptAddendum(NamedTuple):
    """An addendum that is what its digest was made of."""

    kind: str
    data: bytes
    shared: bool


def digests_of(entry: Mapping[str, Any]) -> dict[bytes, str]:
    """Return what an entry names: {digest: kind}."""
    return {digest: kind for kind, digest in named_digests(entry).items()}


def contents_in(candidates: bytes | None) -> list[bytes]:
    """Return the digests of the contents that candidates name, none where they cannot be read.

    Args:
        candidates: the addendum, whose digest was checked; None where it is gone.
    """
    if candidates is None:
        return []
    try:
        return named_contents(candidates)
    except LedgerCorrupt:
        return []


def read_named(
    connection: Connection, digests: Collection[bytes], named_by: Callable[[bytes], int | None]
) -> tuple[dict[bytes, KeptAddendum | None], list[Finding]]:
    """Return the addenda of the digests that are there, None for one that was changed, and what is wrong with those.

    Args:
        named_by: returns the index of a record that names a digest.
    """
    kept: dict[bytes, KeptAddendum | None] = {}
    findings: list[Finding] = []
    for part in parts(digests):
        for digest, kind, salt, data, key in connection.execute(_BY_DIGEST, {"digests": part}).all():
            problem = _changed(digest, kind, salt, data, key)
            digest = bytes(digest)
            kept[digest] = None if problem else KeptAddendum(str(kind), bytes(data), key is not None)
            if problem:
                findings.append(
                    Finding("addendum_hash", Place("addendum", named_by(digest), name=digest.hex()), problem)
                )
    return kept, findings


def missing_addenda(missing: Mapping[bytes, int], erased: Erased) -> Iterator[Finding]:
    """Yield the addenda that are gone, and no entry says that they were erased.

    Args:
        missing: {digest: index of a record that names it}.
    """
    for digest, index in sorted(missing.items(), key=lambda pair: pair[1]):
        if digest not in erased:
            problem = "the addendum is gone, and no entry says that it was erased"
            yield Finding("addendum_missing", Place("addendum", index, name=digest.hex()), problem)


def unnamed_addenda(connection: Connection, names: Names | None, erased: Erased) -> Iterator[Finding]:
    """Yield the addenda that are kept though an entry says that they were erased, or that no entry names.

    Args:
        names: what entries name; None: not all of them can be read, and the latter are not looked for.
    """
    is_named = (lambda _digest: True) if names is None else names.test()
    for (digest,) in connection.exec_driver_sql("SELECT digest FROM addendum"):
        if not isinstance(digest, bytes):
            yield Finding("addendum_unnamed", Place("addendum"), "an addendum stands under what is no digest")
        elif digest in erased:
            problem = "the addendum is kept, and an entry says that it was erased"
            yield Finding("addendum_not_erased", Place("addendum", erased[digest][0], name=digest.hex()), problem)
        elif not is_named(digest):
            yield Finding("addendum_unnamed", Place("addendum", name=digest.hex()), "no record names the addendum")


def compare_erasures(connection: Connection, erased: Erased, minimum: int, size: int) -> Iterator[Finding]:
    """Yield the rows of `erasure` that are not what entries say.

    Args:
        erased: what entries say.
        minimum: entries below this index may be gone; what they said is not compared.
        size: of the log when it was read; later entries are not compared.
    """
    left = dict(erased)
    for digest, index in connection.execute(select(erasure.c.digest, erasure.c.idx)):
        stated = left.pop(digest, ())
        if index in stated or (isinstance(index, int) and not stated and (0 <= index < minimum or index >= size)):
            continue
        name = digest.hex() if isinstance(digest, bytes) else None
        problem = "the row says that an entry erased an addendum, and that entry does not say so"
        yield Finding("erasure_row", Place("erasure", index if isinstance(index, int) else None, name=name), problem)
    for digest, indices in left.items():
        problem = "an entry says that an addendum was erased, and the look-up row for that is gone"
        yield Finding("erasure_row", Place("erasure", indices[0], name=digest.hex()), problem)


def _changed(digest: object, kind: object, salt: object, data: object, key: object) -> str | None:
    if not (isinstance(digest, bytes) and isinstance(salt, bytes) and isinstance(data, bytes)):
        return "the addendum has values that are no bytes"
    if hashlib.sha256(salt + data).digest() != digest:
        return "salt and data are not those that the digest was made of"
    if key is not None and hashlib.sha256(str(kind).encode() + b"\x00" + data).digest() != key:
        return "kind and data are not those that its content key was made of: later records could name it by mistake"
    return None
