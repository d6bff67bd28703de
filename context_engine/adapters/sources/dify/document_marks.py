"""The marks, metadata and names of documents that this package writes to Dify.

The marks are metadata fields. The hash and size of the stored text are assigned last, after reading back what Dify
holds, so a document that has them is complete. The name identifies nothing to this package; it is for people in Dify,
where two documents must not share a name, because Dify would overwrite one of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from hashlib import sha256
from itertools import count
from typing import Any, Final, NamedTuple, Self

from context_engine.adapters.sources.dify.metadata import CLAIMS, MARKED, MARKS
from context_engine.core.models import Chunk, utc_text
from context_engine.errors import SourceProtocolError

_FORM: Final = re.compile(r"(\d+):(\d+):([0-9a-f]{16})")


class ContentDigest(NamedTuple):
    """The size and a digest of a document's chunks.

    Attributes:
        characters: in all chunks; Dify's list of documents counts them too, as `word_count`.
        digest: of their texts, in order.
    """

    chunks: int
    characters: int
    digest: str

    @classmethod
    def of(cls, contents: Iterable[str]) -> Self:
        """Return the digest of chunks.

        >>> str(ContentDigest.of(["Keep records", "for seven years."]))
        '2:28:42f026b35770ec99'
        """
        chunks = characters = 0
        digest = sha256()
        for content in contents:
            chunks, characters = chunks + 1, characters + len(content)
            digest.update(sha256(content.encode("utf-8", "surrogatepass")).digest())
        return cls(chunks, characters, digest.hexdigest()[:16])

    @classmethod
    def read(cls, value: object) -> Self | None:
        """Return the digest in a mark, or None."""
        match = _FORM.fullmatch(value) if isinstance(value, str) else None
        return cls(int(match[1]), int(match[2]), match[3]) if match else None

    def __str__(self) -> str:
        return f"{self.chunks}:{self.characters}:{self.digest}"


MOST_NAME: Final = 200
"""Most characters of a document's name; Dify cuts off the rest."""
_MOST_VALUE: Final = 1000
_FILE: Final = "source_file"
_TAG: Final = re.compile(r"\[ce-[0-9a-f]{12}(?:\.\d+)?\]$")
"""The end of names written by earlier versions; documents left by their interrupted runs are recognised by it."""
Value = str | int | float | bool | date | datetime
Key = tuple[str, str, str]
"""Source id, document id, version."""


class DatasetDocument(NamedTuple):
    """A document of a dataset, as Dify lists it.

    Attributes:
        key: None if its metadata does not identify it as one of ours.
        content_hash: None if the document is incomplete.
        digest: of the chunks written to it; None if not recorded.
        characters: Dify's current count, or None.
        age: sorts the documents of a dataset, the oldest first.
        ours: whether this package made it.
        empty: created through the API without text or metadata, by a run killed before it marked the document.
        hidden: disabled or archived in Dify.
        ready: whether its indexing succeeded.
        file: the path of its source file, or None.
    """

    dify_id: str
    name: str
    key: Key | None
    content_hash: str | None
    digest: ContentDigest | None
    characters: int | None
    age: tuple[float, float, str]
    ours: bool
    empty: bool
    hidden: bool
    ready: bool
    file: str | None = None

    @property
    def as_written(self) -> bool:
        """Whether it is complete, and Dify's own character count matches what was written."""
        measured = self.digest is not None and self.characters in (None, self.digest.characters)
        return self.content_hash is not None and self.ready and measured


def document_name(key: Key, title: str | None, number: int = 1) -> str:
    """Return a readable name; the id (or path) and version in it distinguish documents.

    Args:
        number: distinguishes documents of the same name.

    >>> document_name(("sops", "NPA-SOP-001", "3.2"), "New products")
    'New products (NPA-SOP-001 3.2)'
    >>> document_name(("sops", "desks/rates.md", ""), None, 2)
    'desks/rates.md (2)'
    """
    _, document_id, version = key
    identity = " ".join(" ".join(part for part in (document_id, version) if part).split())
    shown = " ".join((title or "").split())
    alone = not shown or title == document_id
    suffix = "; ".join([*([] if alone else [identity]), *([str(number)] if number > 1 else [])])
    end = f" ({suffix})" if suffix else ""
    if len(end) > MOST_NAME // 2:
        end = f" (…{end[-MOST_NAME // 2 :]}"
    start = identity if alone else shown
    most = MOST_NAME - len(end)
    return (start if len(start) <= most else f"{start[: most - 1]}…") + end


_NUMBER: Final = re.compile(r"(?:; \d+(?=\)$)| \(\d+\)$)")


def without_number(name: str) -> str:
    """Return a name without the number that tells copies of a document apart.

    >>> without_number("New products (NPA-SOP-001 3.2; 702)"), without_number("desks/rates.md (2)")
    ('New products (NPA-SOP-001 3.2)', 'desks/rates.md')
    """
    return _NUMBER.sub("", name)


def free_name(key: Key, title: str | None, taken: Collection[str], first: int = 1) -> str:
    """Return the document's name with the first number, from `first`, that is not taken."""
    return next(name for number in count(first) if (name := document_name(key, title, number)) not in taken)


def read_row(row: Any) -> DatasetDocument:
    """Parse a document of Dify's list.

    Raises:
        SourceProtocolError: it cannot be read.
    """
    if not isinstance(row, Mapping) or not isinstance(row.get("id"), str):
        raise SourceProtocolError("Dify's list of documents cannot be read")
    rows = row.get("doc_metadata") if isinstance(row.get("doc_metadata"), list) else []
    fields = {
        str(entry.get("name")): entry.get("value")
        for entry in rows or ()
        if isinstance(entry, Mapping) and entry.get("id") != "built-in"
    }
    name, words = str(row.get("name", "")), row.get("word_count")
    source_id, document_id = fields.get(MARKS.source_id), fields.get(MARKED)
    known = bool(source_id and document_id)
    hashed = fields.get(MARKS.content_hash) if known else None
    return DatasetDocument(
        dify_id=row["id"],
        name=name,
        key=(str(source_id), str(document_id), str(fields.get(MARKS.version) or "")) if known else None,
        content_hash=str(hashed) if hashed else None,
        digest=ContentDigest.read(fields.get(MARKS.stored)),
        characters=words if isinstance(words, int) else None,
        age=(_number(row.get("created_at")), _number(row.get("position")), row["id"]),
        ours=known or _TAG.search(name) is not None,
        empty=not fields and not words and row.get("created_from") == "api",
        hidden=row.get("enabled") is False or row.get("archived") is True,
        ready=row.get("indexing_status") in ("completed", None),
        file=str(fields[_FILE]) if fields.get(_FILE) else None,
    )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def marks_of(source_id: str, document_id: str, version: str, title: str | None) -> dict[str, Value]:
    """Return the marks that identify a document."""
    marks = {MARKS.source_id: source_id, MARKED: document_id, MARKS.version: version, MARKS.title: title or ""}
    return {name: value for name, value in marks.items() if value}


def fields_of(chunks: Sequence[Chunk], names: Mapping[str, str]) -> dict[str, Value]:
    """Return the metadata of a document: its chunks' claims, and any other fields that all chunks share.

    `names` maps our field names to Dify's where the manifest renames them.
    """
    if not chunks:
        return {}
    first = chunks[0]
    claims = {names.get(name, name): getattr(first, name) for name in CLAIMS}
    shared = {
        name: value
        for name, value in first.metadata.items()
        if isinstance(value, str | int | float) and all(chunk.metadata.get(name) == value for chunk in chunks[1:])
    }
    return {name: value for name, value in {**shared, **claims}.items() if value is not None and value != ""}


def kind_of(value: Value) -> str:
    """Return the type of a new metadata field for a value."""
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else "string"


def fitted(value: Value, kind: str) -> str | int | float | None:
    """Return a value converted to a field's type, or None if it cannot be.

    A date is ISO text, a number such as 20260115, or unix seconds at midnight UTC.

    >>> fitted(date(2026, 1, 15), "string"), fitted(date(2026, 1, 15), "number"), fitted("soon", "number")
    ('2026-01-15', 20260115, None)
    """
    if isinstance(value, datetime):
        return utc_text(value) if kind == "string" else int(value.timestamp())
    if isinstance(value, date):
        if kind == "time":
            return int(datetime.combine(value, time(), UTC).timestamp())
        return value.isoformat() if kind == "string" else value.year * 10_000 + value.month * 100 + value.day
    if isinstance(value, bool) or kind == "string":
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return text if kind == "string" and len(text) <= _MOST_VALUE else None
    try:
        number = float(value)
    except ValueError:
        return None
    return int(number) if number.is_integer() else number
