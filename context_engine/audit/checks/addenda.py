"""Check addenda against the entries that name them: changed, missing, kept although erased, or named by no entry."""

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
_PREFIX_BYTES: Final = 8  # a collision would hide one unnamed addendum, with probability n / 2**64
Erased = dict[bytes, list[int]]
"""The indices of the entries that erase an addendum, by its digest."""


class Names:
    """The digests that the entries of a log name, stored compactly.

    An addendum of one record is remembered by the first 8 bytes of its digest, a shared one by its full digest.

    Attributes:
        shared: {digest: index of the first record that names it}.
        own: 8 bytes per digest.
    """

    def __init__(self) -> None:
        self.shared: dict[bytes, int] = {}
        self.own = bytearray()

    def share(self, digests: Iterable[bytes], index: int) -> None:
        """Add digests of shared addenda."""
        for digest in digests:
            self.shared.setdefault(digest, index)

    def owns(self, digest: bytes) -> None:
        """Add the digest of an addendum of one record."""
        self.own += digest[:_PREFIX_BYTES].ljust(_PREFIX_BYTES, b"\x00")

    def join(self, later: Names) -> None:
        """Add the digests that the entries of a later stretch name."""
        for digest, index in later.shared.items():
            self.shared.setdefault(digest, index)
        self.own += later.own

    def test(self) -> Callable[[bytes], bool]:
        """Return a predicate: is a digest named?"""
        own = memoryview(bytes(self.own))
        step = _PREFIX_BYTES
        prefixes = {bytes(own[place : place + step]) for place in range(0, len(own), step)}
        return lambda digest: digest in self.shared or digest[:step] in prefixes


class KeptAddendum(NamedTuple):
    """An addendum that matches its digest."""

    kind: str
    data: bytes
    shared: bool


def digests_of(entry: Mapping[str, Any]) -> dict[bytes, str]:
    """Return the addenda that an entry names, {digest: kind}."""
    return {digest: kind for kind, digest in named_digests(entry).items()}


def contents_in(candidates: bytes | None) -> list[bytes]:
    """Return the digests of the contents that candidates name; [] if the candidates are missing (None) or
    unreadable.
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
    """Return the addenda present, None for each that was changed, and the findings on those.

    Args:
        named_by: returns the index of a record that names the digest.
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
    """Yield the missing addenda that no entry erased, given {digest: index of a record that names it}."""
    for digest, index in sorted(missing.items(), key=lambda pair: pair[1]):
        if digest not in erased:
            problem = "the addendum is missing, and no entry records its erasure"
            yield Finding("addendum_missing", Place("addendum", index, name=digest.hex()), problem)


def unnamed_addenda(connection: Connection, names: Names | None, erased: Erased) -> Iterator[Finding]:
    """Yield the addenda that are kept although an entry erased them, or that no entry names.

    Args:
        names: what entries name; None if some entries are unreadable: then unnamed addenda are not looked for.
    """
    is_named = (lambda _digest: True) if names is None else names.test()
    for (digest,) in connection.exec_driver_sql("SELECT digest FROM addendum"):
        if not isinstance(digest, bytes):
            yield Finding("addendum_unnamed", Place("addendum"), "an addendum is stored under a key that is no digest")
        elif digest in erased:
            problem = "the addendum is present although an entry records its erasure"
            yield Finding("addendum_not_erased", Place("addendum", erased[digest][0], name=digest.hex()), problem)
        elif not is_named(digest):
            yield Finding("addendum_unnamed", Place("addendum", name=digest.hex()), "no record names the addendum")


def compare_erasures(connection: Connection, erased: Erased, minimum: int, size: int) -> Iterator[Finding]:
    """Yield the rows of `erasure` that differ from the erasures recorded in the entries.

    Args:
        minimum: entries below this index were pruned; their erasures are not compared.
        size: size of the log when it was read; later entries are not compared.
    """
    left = dict(erased)
    for digest, index in connection.execute(select(erasure.c.digest, erasure.c.idx)):
        stated = left.pop(digest, ())
        if index in stated or (isinstance(index, int) and not stated and (0 <= index < minimum or index >= size)):
            continue
        name = digest.hex() if isinstance(digest, bytes) else None
        problem = "the row names an entry as an erasure of the addendum, and that entry does not erase it"
        yield Finding("erasure_row", Place("erasure", index if isinstance(index, int) else None, name=name), problem)
    for digest, indices in left.items():
        problem = "an entry records the erasure of an addendum, and the look-up row for it is missing"
        yield Finding("erasure_row", Place("erasure", indices[0], name=digest.hex()), problem)


def _changed(digest: object, kind: object, salt: object, data: object, key: object) -> str | None:
    if not (isinstance(digest, bytes) and isinstance(salt, bytes) and isinstance(data, bytes)):
        return "the addendum has values that are not bytes"
    if hashlib.sha256(salt + data).digest() != digest:
        return "salt and data do not match the digest"
    if key is not None and hashlib.sha256(str(kind).encode() + b"\x00" + data).digest() != key:
        return "kind and data do not match the content key: later records could name the addendum by mistake"
    return None
