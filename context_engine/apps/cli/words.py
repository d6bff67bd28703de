"""Words for people: names of chunks and places, tiers, confidence, ages, flags, counts and times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from rich.text import Text

from context_engine.apps.web.inert import clean
from context_engine.core.models import Chunk, Confidence, Key, Member, RankedChunk, SearchResult, TrustClass
from context_engine.core.ranking.candidates import pool

_FILLED: Final = {Confidence.WEAK: 1, Confidence.FAIR: 2, Confidence.STRONG: 3}
_CONFIDENCE_STYLES: Final = {Confidence.STRONG: "green", Confidence.FAIR: "cyan", Confidence.WEAK: "yellow"}
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TIER_WORDS: Final = {1: "record", 2: "SOP", 3: "standard", 4: "official", 5: "web"}
_TIER_STYLES: Final = {1: "bold green", 2: "green", 3: "cyan", 4: "cyan", 5: "yellow"}
_FLAG_WORDS: Final = {
    "below_threshold": "below the relevance limit",
    "threshold_not_applicable": "threshold not applicable",
    "superseded": "superseded",
    "injection_suspected": "reads like instructions",
}
_SHOWN_AS_AGE: Final = frozenset({"expired", "effective_unknown"})


def tier_text(tier: int) -> Text:
    """Return a tier as number and word, e.g. "2 SOP"."""
    return Text(f"{tier} {_TIER_WORDS.get(tier, '?')}", _TIER_STYLES.get(tier, ""))


def confidence_text(confidence: Confidence) -> Text:
    """Return a confidence as bar and word, e.g. "▪▪· fair"."""
    filled = _FILLED[confidence]
    bar = Text("▪" * filled, _CONFIDENCE_STYLES[confidence]).append("·" * (len(_FILLED) - filled), "dim")
    return bar.append(f" {confidence}", _CONFIDENCE_STYLES[confidence])


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1.

    >>> counted(1, "source"), counted(2, "source")
    ('1 source', '2 sources')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def ms(milliseconds: float) -> str:
    """Return a duration with a readable precision and unit.

    >>> ms(0.42), ms(12.34), ms(2500.0)
    ('0.4 ms', '12 ms', '2.5 s')
    """
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"


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


def marks(chunk: RankedChunk) -> list[Text]:
    """Return the age and the flags of a chunk, one or two words each."""
    extra = chunk.provenance.extra
    ages = {
        "fresh": Text("fresh", "dim"),
        "expired": Text(f"expired (fetched {chunk.provenance.fetched_at[:10]})", "yellow"),
    }
    texts = [ages.get(str(extra.get("freshness")), Text("age unknown", "dim"))]
    if chunk.trust_class is TrustClass.UNTRUSTED:
        texts.append(Text("untrusted", "yellow"))
    if str(chunk.classification) in ("confidential", "restricted"):
        texts.append(Text(str(chunk.classification), "magenta"))
    for flag in chunk.flags:
        if flag not in _SHOWN_AS_AGE:
            texts.append(Text(_FLAG_WORDS.get(flag, flag), "yellow"))
    return texts


def also_in(chunk: RankedChunk) -> str:
    """Return the names of other chunks with the same text, or "" if there are none."""
    names = dict.fromkeys(chunk_name(member, member.chunk_id) for member in chunk.also_in)
    return f"also in {', '.join(names)}" if names else ""


def joined(parts: Iterable[Text]) -> Text:
    """Return the texts that are not empty, with a dot between them."""
    line = Text()
    for part in parts:
        if part.plain:
            line.append(" · " if line.plain else "", "dim").append_text(part)
    return line


def candidate_names(result: SearchResult) -> Mapping[Key, str]:
    """Return the `chunk_name` of each stage-1 candidate, by key."""
    specs = {spec.id: spec for spec in result.specs}
    candidates, _ = pool((specs[answer.source_id], answer) for answer in result.raw)
    return {candidate.key: chunk_name(candidate.chunk, candidate.key[1]) for candidate in candidates}
