"""How people see a passage: the name of its document, its place, and the piece that fits the query best."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from context_engine.apps.web.inert import clean
from context_engine.core.models import Chunk, Key, Member, RankedChunk, SearchResult
from context_engine.core.ranking.candidates import pool
from context_engine.core.text import has_cjk, terms, without_markup
from context_engine.core.text.spellings import CJK

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def chunk_name(chunk: Chunk | Member, chunk_id: str) -> str:
    """Return a chunk's name for people: document, version and section, e.g. "NPA-SOP-001 v3.2 §4".

    If the document's id is a UUID, its title is used, and without a section the position in the document, e.g.
    "Notice 12 #3".
    """
    document = " ".join(((chunk.title if _named_by_title(chunk) else chunk.document_id) or "").split())
    if not document:
        return clean(chunk_id)
    version = f" v{chunk.document_version.removeprefix('v')}" if chunk.document_version else ""
    section = f" §{chunk.section.removeprefix('§')}" if chunk.section else ""
    if not section and _named_by_title(chunk) and isinstance(chunk, Chunk) and chunk.position is not None:
        section = f" #{chunk.position + 1}"
    return clean(f"{document}{version}{section}")


def _named_by_title(chunk: Chunk | Member) -> bool:
    return bool(chunk.title) and (not chunk.document_id or _UUID.fullmatch(chunk.document_id) is not None)


def document_name(chunk: Chunk, chunk_id: str) -> tuple[str, str]:
    """Return the heading of a passage, and the document's title, or "" if the heading includes it.

    A document whose id is only its file name is named by its title; the file is shown below it.
    """
    stem = (chunk.path or "").rsplit("/", 1)[-1].rsplit(".", 1)[0]
    title = clean(" ".join((chunk.title or "").split()))
    if title and chunk.document_id and chunk.document_id in (stem, chunk.path):
        chunk = chunk._replace(document_id=None, position=None if location(chunk) else chunk.position)
    name = chunk_name(chunk, chunk_id)
    return name, "" if _named_by_title(chunk) or title == chunk.document_id else title


def location(chunk: Chunk) -> str:
    """Return the place of a passage in its file, or "" if unknown.

    >>> location(Chunk(content="x", metadata={"page": 7, "page_end": 9}))
    'pages 7-9'
    """
    sheet, row = chunk.metadata.get("sheet"), chunk.metadata.get("row")
    if chunk.page is not None:
        last = chunk.last_page or chunk.page
        return f"page {chunk.page}" if last <= chunk.page else f"pages {chunk.page}-{last}"
    if isinstance(row, int):
        return clean(f"sheet {sheet}, row {row}" if sheet else f"row {row}")
    return f"line {chunk.line}" if chunk.line is not None else ""


def heading(chunk: Chunk) -> str:
    """Return the innermost heading of a chunk, else its document's title unless that is already its name, else ""."""
    words = chunk.heading_path[-1] if chunk.heading_path else "" if _named_by_title(chunk) else chunk.title or ""
    bare = words.lstrip("#").strip()
    if chunk.section and bare.startswith(chunk.section):
        bare = bare[len(chunk.section) :].lstrip(". )")
    return clean(" ".join(bare.split()))


def also_in(chunk: RankedChunk) -> str:
    """Return the names of other chunks with the same text, or "" if there are none."""
    names = dict.fromkeys(chunk_name(member, member.chunk_id) for member in chunk.also_in)
    return f"also in {', '.join(names)}" if names else ""


def candidate_names(result: SearchResult) -> Mapping[Key, str]:
    """Return the `chunk_name` of each stage-1 candidate, by key."""
    specs = {spec.id: spec for spec in result.specs}
    candidates, _ = pool((specs[answer.source_id], answer) for answer in result.raw)
    return {candidate.key: chunk_name(candidate.chunk, candidate.key[1]) for candidate in candidates}


_HEADING: Final = re.compile(r"^[ \t]*#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_BULLET: Final = re.compile(r"^[ \t]*[-*+][ \t]+", re.MULTILINE)
_RULE: Final = re.compile(r"^[ \t]*\|?[ \t]*:?-{2,}[-:| \t]*$", re.MULTILINE)
_CELLS: Final = re.compile(r"[ \t]*\|[ \t]*")
_TARGET: Final = re.compile(r"^ {0,3}\[(?!\^)[^\[\]\n]{1,200}\]:[ \t]+\S.*$", re.MULTILINE)
_UNIT: Final = rf"{CJK}|[^\s{CJK[1:]}+"  # of a text in a script without spaces
_WORD: Final = re.compile(r"\w+(?:[-./,'’]\w+|\(\w{1,4}\))*")
_LEAD_IN: Final = 4
_MOST_CHARS: Final = 20_000
_MOST_HITS: Final = 200


class Snippet(NamedTuple):
    """A piece of text and the places of the query's words in it.

    Attributes:
        marks: character offsets [start, end) in `text`.
    """

    text: str
    marks: tuple[tuple[int, int], ...]


class _Unit(NamedTuple):
    start: int
    end: int
    found: frozenset[str]


def readable(content: str) -> str:
    """Return the visible text on one line: without Markdown, HTML, templating tags and link targets.

    >>> readable("# 4 Criteria\\n\\nA **new** [product](https://b.example/p).\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |")
    '4 Criteria — A new product. a · b 1 · 2'
    """
    text = _HEADING.sub(r"\1 —", _TARGET.sub("", content))
    text = _BULLET.sub("• ", _RULE.sub("", text))
    lines = (_CELLS.sub(" · ", line).strip(" ·") for line in text.splitlines())
    return without_markup(" ".join(" ".join(lines).split())).removeprefix("— ").removesuffix(" —")


def query_marks(text: str, query: str) -> tuple[tuple[int, int], ...]:
    """Return the character offsets [start, end) of the query's words in a text."""
    units = _units(text, frozenset(terms(query)))
    spans = [_core(text, unit) for unit in units if unit.found]
    return tuple((low, high) for low, high in spans if high > low)


def snippet(content: str, query: str, width: int, known: str = "") -> Snippet:
    """Return the piece of at most `width` characters that holds the most of the query's words.

    Args:
        content: the chunk's text.
        query: words match by their stems, as the search itself does.
        width: characters, including ellipses.
        known: a heading that is already shown; it is left out if the text begins with it.
    """
    text = _without(readable(content[:_MOST_CHARS]), known)
    units = _units(text, frozenset(terms(query)))
    all_of_it = len(text) <= width or not units
    start = 0 if all_of_it else units[_best_start(text, units, width - 4)].start
    lead = "… " if start else ""
    end = _end(text, units, start, width - len(lead) - 2)
    piece = lead + text[start:end] + (" …" if end < len(text) else "")
    shift = len(lead) - start
    marks = [_core(text, unit) for unit in units if unit.found and start <= unit.start and unit.end <= end]
    return Snippet(piece, tuple((low + shift, high + shift) for low, high in marks if high > low))


def _without(text: str, known: str) -> str:
    head, dash, rest = text.partition(" — ")
    return rest if known and dash and rest and head.endswith(known) else text


def _units(text: str, wanted: frozenset[str]) -> list[_Unit]:
    spans = [match.span() for match in re.finditer(_UNIT if has_cjk(text) else r"\S+", text)]
    words = [text[start:end] for start, end in spans]
    return [_Unit(*span, wanted & _terms(words, index)) for index, span in enumerate(spans)]


def _terms(words: Sequence[str], index: int) -> frozenset[str]:
    word = words[index]
    if not has_cjk(word):
        return _word_terms(word)
    before = words[index - 1] if index else ""
    after = words[index + 1] if index + 1 < len(words) else ""
    return frozenset((word, before + word, word + after))


@lru_cache(maxsize=8192)
def _word_terms(word: str) -> frozenset[str]:
    return frozenset(terms(word))


def _best_start(text: str, units: Sequence[_Unit], width: int) -> int:
    """Return the unit to begin with: most different words, then a sentence's beginning, then early and near."""
    hits = [index for index, unit in enumerate(units) if unit.found][:_MOST_HITS]
    sentences = {0, *(index + 1 for index, unit in enumerate(units[:-1]) if text[unit.end - 1] in ".!?:;—。")}

    def value(start: int) -> tuple[int, bool, int, int]:
        limit = units[start].start + width
        within = [index for index in hits if index >= start and units[index].end <= limit]
        different = len(frozenset().union(*(units[index].found for index in within)))
        return different, start in sentences, -min(within, default=0), start if within else -start

    return max(sentences | {max(index - _LEAD_IN, 0) for index in hits}, key=value)


def _end(text: str, units: Sequence[_Unit], start: int, width: int) -> int:
    if len(text) - start <= width:
        return len(text)
    ends = [unit.end for unit in units if start < unit.end <= start + width]
    return ends[-1] if ends else start + width


def _core(text: str, unit: _Unit) -> tuple[int, int]:
    """Return a unit's place without the punctuation around it."""
    word = _WORD.search(text, unit.start, unit.end)
    return word.span() if word else (unit.start, unit.start)
