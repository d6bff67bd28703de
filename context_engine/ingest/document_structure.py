"""How a document is cut, what its title is, and which tables of contents are left out of its chunks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from context_engine.core.chunking.contents import ContentsTable, contents_of, without_contents
from context_engine.core.chunking.heading import Heading
from context_engine.core.chunking.outline import RECORD, TextStructure, headings, structure_of
from context_engine.core.chunking.strategy import (
    DEFAULT_STRATEGIES,
    ChunkingStrategy,
    get_profile,
    get_strategy,
    strategy_for,
)
from context_engine.core.models import DocumentRule, Notice
from context_engine.core.text import PLACEHOLDER, without_markup
from context_engine.ingest.declared_fields import DeclaredFields
from context_engine.ingest.loaded_document import LoadedDocument, contents_left_out, page_at

_MOST_TOKENS: Final = 512
_MOST_TITLE: Final = 300
_MOST_LINE: Final = 120
_TOP: Final = 4_000  # characters from the start within which the title may be
_MOST_BEFORE: Final = 300  # characters allowed above the title: a document number, a version, a logo
_NO_TITLE_END: Final = tuple(".;,")
_SECTION: Final = re.compile(
    r"(?:(?:table of )?contents|introduction|purpose|scope|overview|background|summary|executive summary|abstract"
    r"|preface|foreword|disclaimer|general|objectives?|definitions|glossary|index|appendix|references|confidential"
    r"|internal|public|draft|document control|(?:version|revision|document|change) (?:history|log)|errata|cover|title"
    r"|vorwort|einleitung|einführung|zusammenfassung|inhalt(?:sverzeichnis)?|préface|avant-propos|résumé|sommaire"
    r"|prefacio|introducción|prólogo|resumen|introduzione|sommario|voorwoord|inleiding|前言|引言|目录|目次|はじめに"
    r"|(?:slide|sheet|page|part|chapter|section|tabelle|feuil|hoja|foglio|blad)\s*\d+|readme)\W*",
    re.IGNORECASE,
)
"""Headings that name a part of a document ("Introduction"), never the document itself."""
_MARGINS: Final = re.compile(r"\A(?:Page (?:header|footer|header and footer): .*(?:\n+|\Z))+")
"""Page headers and footers as loaders write them; they name a bank or a form as often as the document."""
_GAP: Final = re.compile(r"_+|(?<![A-Z0-9])-+|-+(?![0-9])|%20")


def set_aside(loaded: LoadedDocument) -> tuple[ContentsTable, ...]:
    """Return the tables of contents to leave out; none if the document has no other text."""
    tables = () if loaded.record else contents_of(loaded.text)
    return tables if without_contents(loaded.text, tables).strip() else ()


def contents_notices(loaded: LoadedDocument, contents: Sequence[ContentsTable], body: str) -> tuple[Notice, ...]:
    """Return the notice about tables of contents that are left out; `body` is the rest of the text."""
    rows = [row for table in contents for row in loaded.text[table.start : table.end].splitlines() if row.strip()]
    lines = [without_markup(row).lstrip("# ") for row in rows]
    pages = sorted({page for table in contents for page in _pages(loaded, table)})
    return (contents_left_out(lines, body, pages),) if lines else ()


def _pages(loaded: LoadedDocument, table: ContentsTable) -> Sequence[int]:
    first, last = page_at(loaded.pages, table.start), page_at(loaded.pages, table.end - 1)
    return () if first is None or last is None else range(first, last + 1)


def structure_shown(
    loaded: LoadedDocument,
    rule: DocumentRule | None,
    declared: DeclaredFields,
    strategies: Mapping[str, ChunkingStrategy] | None,
    body: str,
) -> TextStructure | None:
    """Return the structure of the text; None if the rule's profile or a known type already decides how it is cut."""
    declared_type = declared.text("doc_type")
    table = DEFAULT_STRATEGIES if strategies is None else strategies
    if rule is not None and (rule.profile or "doc_type" in rule.model_fields_set):
        return None
    if declared_type is not None and declared_type in table:
        return None
    return RECORD if loaded.record else structure_of(body)


def strategy_of(
    rule: DocumentRule | None,
    doc_type: str,
    structure: TextStructure | None,
    strategies: Mapping[str, ChunkingStrategy] | None,
    most: int | None,
) -> ChunkingStrategy:
    """Return the rule's profile, else the strategy for the structure, else the table row of the declared type.

    Args:
        most: most tokens of a chunk; None: 512, or the profile's own size.
    """
    if rule is not None and rule.profile:
        profile = get_profile(rule.profile, strategies)
        return profile if most is None else profile.capped(most)
    row = get_strategy(doc_type, strategies) if structure is None else strategy_for(structure, strategies)
    return row.capped(_MOST_TOKENS if most is None else most)


def document_title(loaded: LoadedDocument, declared_title: str | None) -> str:
    """Return the title: the declared one, else the first heading, file property, first line or file name.

    A heading is the title if it is at the top and is neither one of several numbered headings of its rank ("1 Scope",
    "2 Limits") nor a common section name ("Introduction"). The title of a record is the first line of its text.
    """
    if loaded.record:
        return loaded.text.split("\n", 1)[0][:_MOST_TITLE]
    own = None if loaded.properties else declared_title
    property_title = declared_title if loaded.properties else None
    return own or _first_heading(loaded.text) or property_title or _first_line(loaded.text) or readable_name(loaded)


def readable_name(loaded: LoadedDocument) -> str:
    """Return the file name as words: `hr-travel_policy_v3.md` is "hr travel policy v3"; a sheet's name follows.

    A hyphen before a digit is kept if it may be part of a code: `NPA-001`, `sp800-63b`.
    """
    name = loaded.file_stem
    words = " ".join(_GAP.sub(" ", name).split()) or name
    return f"{words} {loaded.part}" if loaded.part else words


def _first_heading(text: str) -> str | None:
    top_headings = [heading for heading in headings(text) if heading.start < _TOP]
    if not top_headings:
        return None
    first = min(top_headings, key=lambda heading: (heading.rank, heading.start))
    if len(without_markup(text[: first.start])) > _MOST_BEFORE or not _names(first, headings(text)):
        return None
    return first.text[:_MOST_TITLE]


def _names(heading: Heading, every: tuple[Heading, ...]) -> bool:
    """Whether a heading names the whole document."""
    if not _may_be_title(heading.text):
        return False
    if heading.label:
        return heading.marked and not any(other.rank <= heading.rank and other is not heading for other in every)
    return True


def _first_line(text: str) -> str | None:
    """Return the first line if it is a separate line like a title and not a numbered heading."""
    if any(not text[: first.start].strip() for first in headings(text)[:1]):
        return None
    line, _, rest = _MARGINS.sub("", text.lstrip()).partition("\n")
    line = without_markup(line).strip("*_# ")
    alone = rest[:1] in ("", "\n") and len(line) <= _MOST_LINE and not line.endswith(_NO_TITLE_END)
    return line if line and alone and _may_be_title(line) else None


def _may_be_title(text: str) -> bool:
    return _SECTION.fullmatch(text) is None and any(map(str.isalpha, PLACEHOLDER.sub("", text)))
