"""Turn a loaded document into chunks: identity, declared fields, metadata, and a hash that detects changes."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal

from context_engine.core.chunking.contents import ContentsTable, without_contents
from context_engine.core.chunking.cut import CHUNKER_VERSION, cut
from context_engine.core.chunking.outline import StructureKind, TextStructure
from context_engine.core.chunking.pack import Piece
from context_engine.core.chunking.strategy import ChunkingStrategy
from context_engine.core.models import (
    Chunk,
    Classification,
    DocumentRule,
    FetchedAtBasis,
    Notice,
    NoticeCode,
    canonical_json,
    messages,
    sanitized_mapping,
    sanitized_text,
)
from context_engine.core.protocols import TokenCounter
from context_engine.core.text import bare_version
from context_engine.ingest.chunk_metadata import (
    chunk_locations,
    chunk_metadata,
    neighbours,
    piece_fields,
    shared_metadata,
)
from context_engine.ingest.declared_fields import ALIASES, DECLARED_FIELDS, ID_FIELDS, DeclaredFields, json_value
from context_engine.ingest.document_structure import (
    contents_notices,
    document_title,
    set_aside,
    strategy_of,
    structure_shown,
)
from context_engine.ingest.loaded_document import LoadedDocument, file_notice

CutBy = StructureKind | Literal["declared"]
"""What decided how a document is cut: its structure, or "declared" for its type or a profile."""
_MOST_TITLE: Final = 300
_ANY: Final = sys.maxsize
_INVALID: Final = "its text held characters that are not valid Unicode, or NUL: they were replaced by U+FFFD"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDocument:
    """A document that is ready to be cut.

    Attributes:
        document_id: from front matter, else the record, else the text, else the file's name.
        version: "" if it states none.
        named: whether the document states an id.
        content_hash: SHA-256 over everything its chunks are made of.
        strategy: how it is cut.
        structure: the structure that decided the strategy; None if its type or a profile did.
        contents: tables of contents, which are left out of the chunks.
        base: a chunk with the common fields of the document's chunks.
        notices: guesses and omissions of the loader, and invalid declared fields.
    """

    loaded: LoadedDocument
    document_id: str
    version: str
    named: bool
    content_hash: str
    strategy: ChunkingStrategy
    structure: TextStructure | None
    contents: tuple[ContentsTable, ...]
    base: Chunk
    fields: Mapping[str, Any]
    notices: tuple[Notice, ...]

    @property
    def cut_by(self) -> CutBy:
        """The decision on how it is cut: its structure, or "declared"."""
        return self.structure.kind if self.structure else "declared"

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences of the notices."""
        return messages(self.notices)


def prepare(
    loaded: LoadedDocument,
    rule: DocumentRule | None,
    counter: TokenCounter,
    *,
    strategies: Mapping[str, ChunkingStrategy] | None = None,
    max_chunk_tokens: int | None = None,
    document_id: str | None = None,
    stated: bool = True,
) -> PreparedDocument:
    """Return a document with its identity, declared fields and hash; nothing is cut yet.

    Declared values are kept unchanged: whether they may raise authority or lower a classification is decided at
    retrieval. The rule's classification is the least the document gets, the rule's tier its highest authority.

    Args:
        rule: the manifest rule that matched its file; None: the type comes from the document.
        strategies: the chunking table; None: the built-in one.
        max_chunk_tokens: upper bound for every chunk, over the table and profiles; None: 512, or the profile's size.
        document_id: the id, instead of the file's name, if the document states none.
        stated: whether an id that the document states counts.

    Raises:
        ConfigError: the rule names an unknown profile.
    """
    loaded, repairs = _sound(loaded)
    fields = _fields(loaded)
    declared = DeclaredFields(fields)
    names = ID_FIELDS[loaded.record] if stated else ()
    own_id = next((declared_id for name in names if (declared_id := declared.text(name))), None)
    identity = own_id or document_id or loaded.stem
    doc_type = _doc_type(loaded, rule, declared)
    contents = set_aside(loaded)
    body = without_contents(loaded.text, contents)
    structure = structure_shown(loaded, rule, declared, strategies, body)
    strategy = strategy_of(rule, doc_type, structure, strategies, max_chunk_tokens)
    shared, left_out = shared_metadata(loaded, fields, rule.fields if rule else ())
    metadata, too_much = sanitized_mapping(shared)
    title = document_title(replace(loaded, text=body), declared.text("title", _MOST_TITLE))
    base = _base(rule, declared, identity, doc_type)._replace(title=title, metadata=metadata)
    return PreparedDocument(
        loaded=loaded,
        document_id=identity,
        version=base.document_version or "",
        named=own_id is not None,
        content_hash=_content_hash(loaded, fields, base, strategy, counter),
        strategy=strategy,
        structure=structure,
        contents=contents,
        base=base,
        fields=fields,
        notices=(
            *(*loaded.notices, *repairs),
            *(_repaired(f"its metadata {change}") for change in too_much),
            *contents_notices(loaded, contents, body),
            *(*declared.notices, *left_out),
        ),
    )


def chunks_of(document: PreparedDocument, counter: TokenCounter, *, now: datetime | None = None) -> list[Chunk]:
    """Return the document's chunks in order.

    A chunk's id is `document@version#section`, with the position instead of a missing section number, and `~2`, `~3`
    for further parts of a section.

    Args:
        now: used for `created_at` if the strategy requests it and the document does not state it; None: current time.
    """
    pieces = cut(document.loaded.text, document.strategy, counter.count, document.contents)
    chunk_ids = _chunk_ids(document, pieces)
    owns = piece_fields(document.loaded, document.fields, pieces)
    locations = chunk_locations(document.loaded, pieces)
    return [
        _chunk(document, piece, {**location, **own}, chunk_ids, counter.count(piece.content), now)
        for piece, location, own in zip(pieces, locations, owns)
    ]


def _sound(loaded: LoadedDocument) -> tuple[LoadedDocument, tuple[Notice, ...]]:
    """Replace characters that no output can hold; return the document and notices of the changes."""
    text = sanitized_text(loaded.text)
    fields, changes = sanitized_mapping(loaded.fields, most_values=_ANY, most_characters=_ANY)
    if text is loaded.text and fields is loaded.fields:
        return loaded, ()
    sentences = [*([] if text is loaded.text else [_INVALID]), *(f"a field {change}" for change in changes)]
    return replace(loaded, text=text, fields=fields), tuple(map(_repaired, sentences))


def _repaired(sentence: str) -> Notice:
    return file_notice(NoticeCode.DOCUMENT_REPAIRED, sentence)


def _chunk(
    document: PreparedDocument,
    piece: Piece,
    own: Mapping[str, Any],
    chunk_ids: Sequence[str],
    tokens: int,
    now: datetime | None,
) -> Chunk:
    offset, base = document.loaded.offset, document.base
    path = piece.heading_path[1:] if piece.heading_path[:1] == (base.title,) else piece.heading_path
    return base._replace(
        content=piece.content,
        chunk_id=chunk_ids[piece.position],
        section=piece.section,
        heading_path=path,
        position=piece.position,
        span=(piece.span[0] + offset, piece.span[1] + offset),
        metadata={
            **own,
            **base.metadata,
            **chunk_metadata(piece, base, document.fields, document.strategy, tokens, now),
            **neighbours(chunk_ids, piece.position),
        },
    )


def _chunk_ids(document: PreparedDocument, pieces: Sequence[Piece]) -> list[str]:
    stem = f"{document.document_id}@{document.version}" if document.version else document.document_id
    used: dict[str, int] = {}
    return [_unused(f"{stem}#{piece.section or piece.position}".replace(" ", "-"), used) for piece in pieces]


def _fields(loaded: LoadedDocument) -> dict[str, Any]:
    """Return header fields overridden by front matter, named as in DECLARED_FIELDS; a record keeps its names."""
    if loaded.record:
        return dict(loaded.fields)
    named: dict[str, Any] = {}
    for key, value in loaded.fields.items():
        plain = key.strip().lower().replace(" ", "_").replace("-", "_")
        known = ALIASES.get(plain, plain)
        name = known if known in DECLARED_FIELDS else key
        if value is not None and (name == key or name not in loaded.fields):
            named[name] = value
    return {**loaded.header, **named}


def _doc_type(loaded: LoadedDocument, rule: DocumentRule | None, declared: DeclaredFields) -> str:
    """Return the rule's type if it states one, else the document's, else the default for its kind of file."""
    if rule is not None and "doc_type" in rule.model_fields_set:
        return rule.doc_type
    return declared.text("doc_type") or ("entity_record" if loaded.record else "default")


def _base(rule: DocumentRule | None, declared: DeclaredFields, identity: str, doc_type: str) -> Chunk:
    fetched_at = declared.moment("fetched_at")
    base = Chunk(
        content="",
        document_id=identity,
        document_version=bare_version(declared.text("version") or "") or None,
        doc_type=doc_type,
        source_type=declared.source_type("source_type"),
        authority_tier=_tier(rule, declared),
        trust_class=declared.trust("trust_class"),
        classification=_classification(rule, declared),
        fetched_at=fetched_at,
        fetched_at_basis=FetchedAtBasis.ORIGIN if fetched_at else None,
        ttl_seconds=declared.seconds("ttl_seconds"),
        effective_from=declared.date("effective_from"),
        effective_to=declared.date("effective_to"),
        superseded_by=declared.text("superseded_by"),
    )
    if base.effective_from and base.effective_to and base.effective_from >= base.effective_to:
        problem = f"effective_to {base.effective_to} is not after effective_from: never in force"
        declared.notices.append(file_notice(NoticeCode.NEVER_IN_FORCE, problem))
    return base


def _tier(rule: DocumentRule | None, declared: DeclaredFields) -> int | None:
    """Return the lower authority of rule and document, which is the higher number."""
    tiers = [declared.tier("authority_tier"), rule.tier if rule else None]
    return max((tier for tier in tiers if tier), default=None)


def _classification(rule: DocumentRule | None, declared: DeclaredFields) -> Classification | None:
    levels = [declared.classification("classification"), rule.classification if rule else None]
    return max((level for level in levels if level), key=lambda level: level.rank, default=None)


def _unused(chunk_id: str, used: dict[str, int]) -> str:
    """Return the id, with the first free `~n` if it is taken; `used` holds the last number tried for each id."""
    number = used.get(chunk_id, 0) + 1
    while (free := chunk_id if number == 1 else f"{chunk_id}~{number}") in used:
        number += 1
    used[chunk_id] = number
    used.setdefault(free, 1)
    return free


def _content_hash(
    loaded: LoadedDocument, fields: Mapping[str, Any], base: Chunk, strategy: ChunkingStrategy, counter: TokenCounter
) -> str:
    own = json_value(fields) if loaded.record else {}  # 5 and "5" give the same text but are two values to a filter
    place = {} if loaded.record else dict(loaded.location)  # a row inserted above others must not change their hashes
    parts = [CHUNKER_VERSION, counter.name, strategy.to_dict(), base.to_dict(), own, loaded.text, place, *loaded.pages]
    return hashlib.sha256(canonical_json(parts).encode("utf-8", "surrogatepass")).hexdigest()
