"""The metadata of a chunk: fields of its document and of its passage, and its location in the file.

`context_engine.core.chunking` lists the keys. Every chunk carries the short fields of its document's front matter. A
chunk of a record carries the identifying fields and the fields whose text is in that chunk, because copying all fields
of a large record to each of its chunks would multiply it. Fields that a manifest's rule names are in every chunk.

The terms that a text defines are found here: "X means ...", glossaries, terms set in bold, and terms named in brackets.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from context_engine.core.chunking.fields import field_spans
from context_engine.core.chunking.outline import section_title
from context_engine.core.chunking.pack import Piece
from context_engine.core.chunking.strategy import ChunkingStrategy
from context_engine.core.models import Chunk, Notice, NoticeCode, utc_text
from context_engine.core.text import content_sha256
from context_engine.ingest.declared_fields import DECLARED_FIELDS, ID_FIELDS, RECORD_FIELDS, json_value
from context_engine.ingest.loaded_document import LoadedDocument, file_notice, page_at

_INSTEAD: Final[Mapping[str, tuple[str, ...]]] = {
    "date": ("date", "effective_from"),
    "id": ("id", "notice_id", "document_id"),
    "template_id": ("template_id", "document_id"),
    "entity_id": ("entity_id", "document_id"),
    "created_at": ("created_at", "created"),
}
"""Fields of the chunking table, and the document fields that may hold each, in order of preference."""
_MOST_TERMS: Final = 200
_MOST_WORDS: Final = 8
_MOST_LENGTH: Final = 80
_OPEN: Final = "“\"'‘「『《*_"
_CLOSE: Final = "”\"'’」』》*_"
_SAYS: Final = (
    r"(?:means|mean|shall mean|has the (?:same )?meaning|have the (?:same )?meaning|is defined as|are defined as"
    r"|refers to|shall refer to|is taken to mean)\b"
)
_QUALIFIED: Final = (
    r"(?:[ \t]*,? (?:in relation to|for|with respect to|as regards|where)[^.;\n]{0,80}?,?| \([^()\n]{1,60}\))?"
)
_MARKED: Final = re.compile(
    rf"(?:“([^”\n]{{2,{_MOST_LENGTH}}})”|\"([^\"\n]{{2,{_MOST_LENGTH}}})\"|\*\*([^*\n]{{2,{_MOST_LENGTH}}})\*\*)"
    rf"{_QUALIFIED}[ \t:–—-]*{_SAYS}"
)
_PLAIN: Final = re.compile(
    r"(?:^|(?<=[.;:] )|(?<=\t))[ \t]*(?:[-*•][ \t]+|\(\w{1,4}\)[ \t]+|\d[\d.]{0,8}[ \t]+)?"
    r"(?:(?:An?|The|the term) )?"
    rf"([A-Z][\w&/’'-]*(?: [\w&/’'()-]+){{0,{_MOST_WORDS - 1}}}?){_QUALIFIED}[ \t]+{_SAYS}",
    re.MULTILINE,
)
_NAMED: Final = re.compile(r"\((?:(?:the|each,? an?|together,? the|collectively,? the) )?[“\"]([^”\"\n]{2,60})[”\"]\)")
_ASIAN: Final = re.compile(
    r"(?:所称|[“「『《])([^\s，。；：“”「」『』《》]{1,30})[”」』》]?"
    r"(?:[，,]?[ ]?(?:是指|系指|指的是|指)|とは[、]?|이란|란)"
)
_BOLD_ENTRY: Final = re.compile(
    rf"^[ \t]*(?:[-*•][ \t]+)?\*\*([^*\n]{{2,{_MOST_LENGTH}}}?)[:：]?\*\*[ \t]*(?:[:：–—-][ \t]*)?(?=\S.{{10,}})",
    re.MULTILINE,
)
_ENTRY: Final = re.compile(
    rf"^[ \t]*(?:[-*•][ \t]+)?([^\W\d_][^:：|\t\n.;]{{1,{_MOST_LENGTH - 1}}}?)"
    r"[ \t]*(?:[:：]|[ ][–—-][ ]|\t)[ \t]*(?=\S.{10,})",
    re.MULTILINE,
)
_ROW: Final = re.compile(rf"^[ \t]*\|[ \t]*([^|\n]{{2,{_MOST_LENGTH}}}?)[ \t]*\|[ \t]*([^|\n]*)\|", re.MULTILINE)
_TABLE_HEAD: Final = re.compile(
    r"^[ \t]*\|[ \t]*[*_]*(?:term|expression|abbreviation|acronym|word)s?[*_]*[ \t]*\|[ \t]*[*_]*"
    r"(?:definition|meaning|description|explanation)s?\b",
    re.IGNORECASE | re.MULTILINE,
)
_GLOSSARY: Final = re.compile(
    r"\b(?:glossary|definitions?|defined terms|interpretation|abbreviations|acronyms|terminology)\b"
    r"|术语|定义|释义|用語|定義",
    re.IGNORECASE,
)
_FIRST: Final = (
    "this it that which these those what note example he she in when where if for under by as on at to and or"
)
_INSIDE: Final = "must shall may should is are was be that which this these not it"
_NOT_FIRST: Final = frozenset(_FIRST.split())
_NOT_INSIDE: Final = frozenset(_INSIDE.split())
_PLACES: Final = ("sheet", "table")
_MOST_NAMED: Final = 100
_MOST_VALUE: Final = 2_000
_MOST_ALL: Final = 16_000
"""Most characters, as JSON, of one field (_MOST_VALUE) and of all fields (_MOST_ALL) copied to every chunk."""


def chunk_metadata(
    piece: Piece, base: Chunk, fields: Mapping[str, Any], strategy: ChunkingStrategy, tokens: int, now: datetime | None
) -> dict[str, Any]:
    """Return the metadata of one chunk that is not shared by the whole document.

    Args:
        base: the common fields of the document's chunks.
        strategy: names the metadata fields that chunks of this type carry if known.
        now: used as `created_at` if the document does not state it; None: the current time.
    """
    out: dict[str, Any] = {
        **_requested(piece, base, fields, strategy, now),
        **reference(piece.section, fields),
        "token_count": tokens,
        "content_sha256": content_sha256(piece.content),
    }
    title = section_title(piece.heading_path)
    if title:
        out["section_title"] = title
    if piece.heading_only:
        out["heading_only"] = True
    terms = defined_terms(piece.content, glossary=any(is_glossary(heading) for heading in piece.heading_path[-2:]))
    if terms:
        out["defines"] = list(terms)
    return out


def neighbours(chunk_ids: Sequence[str], position: int) -> dict[str, str]:
    """Return the ids of the previous and the next chunk, if any."""
    out: dict[str, str] = {}
    if position:
        out["previous_chunk_id"] = chunk_ids[position - 1]
    if position + 1 < len(chunk_ids):
        out["next_chunk_id"] = chunk_ids[position + 1]
    return out


def reference(section: str | None, fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the citation of a clause of a numbered notice: section 4 of notice 637 is `637(4)`."""
    notice = str(fields.get("notice_id") or "")
    return {"reference": f"{notice}({section})"} if section and notice.isalnum() else {}


def _requested(
    piece: Piece, base: Chunk, fields: Mapping[str, Any], strategy: ChunkingStrategy, now: datetime | None
) -> dict[str, Any]:
    """Return the fields that the chunking table requests and the document provides."""
    of_piece: dict[str, Any] = {
        "section_number": piece.section,
        "section": piece.section,
        "heading": piece.heading_path[-1] if piece.heading_path else None,
        "chunk_index": piece.position,
        "version": base.document_version,
        "document_id": base.document_id,
        "fetched_at": utc_text(base.fetched_at) if base.fetched_at else None,
    }
    known = ChainMap(of_piece, fields)  # type: ignore[arg-type]  # read only
    out: dict[str, Any] = {}
    for name in strategy.metadata_fields:
        value = next((known[field] for field in _INSTEAD.get(name, (name,)) if known.get(field) is not None), None)
        if value is None and name == "created_at":
            value = utc_text((now or datetime.now(UTC)).replace(microsecond=0))
        if value is not None:
            out[name] = json_value(value)
    return out


def chunk_locations(loaded: LoadedDocument, pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Return the location in the file for each piece, as metadata; {} if the format has none.

    `page` is the page (or slide) on which a piece begins, `page_end` the one on which it ends if different, `line` the
    line of a text file on which it begins; all are 1-based. A piece of a record has the location of its record.
    """
    if loaded.record or (loaded.location and "line" not in loaded.location):
        return [dict(loaded.location) for _ in pieces]
    if loaded.location:
        return _with_lines(loaded, pieces)
    return [span_pages(loaded.pages, piece.span) for piece in pieces]


def span_pages(pages: Sequence[tuple[int, int]], span: tuple[int, int]) -> dict[str, int]:
    """Return `page` and `page_end` of a span of a text, as chunk metadata.

    >>> span_pages(((0, 1), (900, 2)), (10, 950)), span_pages((), (10, 950))
    ({'page': 1, 'page_end': 2}, {})
    """
    first, last = page_at(pages, span[0]), page_at(pages, span[1] - 1)
    if first is None or last is None:
        return {}
    return {"page": first} if first == last else {"page": first, "page_end": last}


def _with_lines(loaded: LoadedDocument, pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    line, counted = loaded.location["line"], 0
    for piece in pieces:
        line += loaded.text.count("\n", counted, piece.span[0])
        counted = max(counted, piece.span[0])
        out.append({**loaded.location, "line": line})
    return out


def shared_metadata(
    loaded: LoadedDocument, fields: Mapping[str, Any], named: Sequence[str]
) -> tuple[dict[str, Any], tuple[Notice, ...]]:
    """Return the common metadata of a document's chunks, and notices about omitted fields.

    Args:
        fields: the document's declared fields, or the record.
        named: fields that the manifest rule requests for every chunk.
    """
    wanted = (*ID_FIELDS[True], *_PLACES) if loaded.record else tuple(fields)
    out: dict[str, Any] = {}
    left: list[str] = []
    room = _MOST_ALL
    for name in wanted:
        if name in DECLARED_FIELDS or name in named or fields.get(name) is None:
            continue
        value = json_value(fields[name])
        size = len(json.dumps(value, ensure_ascii=False))
        if size > min(_MOST_VALUE, room):
            left.append(name)
            continue
        out[name] = value
        room -= size
    out |= {name: json_value(fields[name]) for name in named if fields.get(name) is not None}
    return {**out, "source_file": loaded.path}, _left_out(left) if left and not loaded.record else ()


def piece_fields(loaded: LoadedDocument, fields: Mapping[str, Any], pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Return for each piece of a record the fields whose complete text it holds; {} for other documents."""
    if not loaded.record:
        return [{} for _ in pieces]
    if len(pieces) == 1:
        return [_plain(fields, tuple(fields))]
    spans = field_spans(loaded.text, {name: value for name, value in fields.items() if name not in RECORD_FIELDS})
    names = list(spans)
    starts = [span[0] for span in spans.values()]
    out: list[dict[str, Any]] = []
    for piece in pieces:
        inside = names[bisect_left(starts, piece.span[0]) : bisect_left(starts, piece.span[1])]
        out.append(_plain(fields, tuple(name for name in inside if spans[name][1] <= piece.span[1])))
    return out


def _plain(fields: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {
        name: json_value(fields[name]) for name in names if name not in DECLARED_FIELDS and fields[name] is not None
    }


def _left_out(names: Sequence[str]) -> tuple[Notice, ...]:
    shown = ", ".join(repr(name[:60]) for name in names[:5]) + (" …" if len(names) > 5 else "")
    subject = f"the field {shown} is" if len(names) == 1 else f"{len(names)} fields ({shown}) are"
    problem = f"{subject} too long for the metadata of every chunk, and left out; name fields in a rule to keep them"
    return (file_notice(NoticeCode.FIELDS_NOT_CARRIED, problem, fields=list(names[:_MOST_NAMED])),)


def is_glossary(heading: str) -> bool:
    """Return whether a section with this heading explains terms.

    >>> is_glossary("2 Definitions and interpretation"), is_glossary("3 Limits")
    (True, False)
    """
    return _GLOSSARY.search(heading) is not None


def defined_terms(text: str, *, glossary: bool = False) -> tuple[str, ...]:
    """Return the terms that a text defines, as it writes them, each once, in order; at most 200.

    Args:
        glossary: whether the section explains terms; then "Term: text" and bold terms count too.

    >>> defined_terms('"Client Money" means money held for a Client. A **limit** is hard.')
    ('Client Money',)
    """
    terms: dict[str, None] = {}
    known: set[str] = set()
    for _, term in sorted(_found(text, glossary or _TABLE_HEAD.search(text) is not None)):
        if term.casefold() not in known:
            known.add(term.casefold())
            terms[term] = None
    return tuple(terms)[:_MOST_TERMS]


def _found(text: str, glossary: bool) -> Iterator[tuple[int, str]]:
    patterns = [_MARKED, _ASIAN, _NAMED]
    if "mean" in text or "refer" in text or "defined as" in text:
        patterns.append(_PLAIN)
    if glossary:
        patterns += [_BOLD_ENTRY, _ENTRY]
    for pattern in patterns:
        for match in pattern.finditer(text):
            place = match.lastindex or 1
            yield from _term(match.start(place), match[place])
    for match in _ROW.finditer(text) if glossary else ():
        if match[2].strip(" -:") and not _TABLE_HEAD.match(match[0]):
            yield from _term(match.start(1), match[1])


def _term(start: int, raw: str) -> Iterator[tuple[int, str]]:
    term = " ".join(raw.split()).strip(_OPEN + _CLOSE + " ,:")
    words = term.split()
    if not 0 < len(words) <= _MOST_WORDS or len(term) < 2 or not term.strip("-:"):
        return
    if words[0].casefold() not in _NOT_FIRST and _NOT_INSIDE.isdisjoint(words):
        yield start, term
