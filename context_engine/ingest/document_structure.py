"""How a document is cut: by its declared type or a profile, else as its structure shows; without tables of contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from context_engine.core.chunking import (
    DEFAULT_STRATEGIES,
    RECORD,
    ChunkingStrategy,
    ContentsTable,
    TextStructure,
    contents_of,
    get_profile,
    get_strategy,
    strategy_for,
    structure_of,
    without_contents,
)
from context_engine.core.models import DocumentRule, Notice
from context_engine.core.text import without_markup
from context_engine.ingest.contents_notice import contents_left_out
from context_engine.ingest.declared_fields import DeclaredFields
from context_engine.ingest.loaded_document import LoadedDocument, page_at

_MOST_TOKENS: Final = 512


def set_aside(loaded: LoadedDocument) -> tuple[ContentsTable, ...]:
    """Return the tables of contents of a document that says something beside them."""
    found = () if loaded.record else contents_of(loaded.text)
    return found if without_contents(loaded.text, found).strip() else ()


def contents_notices(loaded: LoadedDocument, contents: Sequence[ContentsTable], body: str) -> tuple[Notice, ...]:
    """Return what is to be said of the tables of contents of a document, which otherwise says `body`."""
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
    """Return what a document shows where nothing says how it is cut: no profile, and no type that has a row."""
    said = declared.text("doc_type")
    table = DEFAULT_STRATEGIES if strategies is None else strategies
    if rule is not None and (rule.profile or "doc_type" in rule.model_fields_set):
        return None
    if said is not None and said in table:
        return None
    return RECORD if loaded.record else structure_of(body)


def strategy_of(
    rule: DocumentRule | None,
    doc_type: str,
    structure: TextStructure | None,
    strategies: Mapping[str, ChunkingStrategy] | None,
    most: int | None,
) -> ChunkingStrategy:
    """Return the profile that the rule names, else what the structure asks for, else the row of the declared type.

    Args:
        most: tokens of a chunk; None: 512 for the table, and a profile's own size.
    """
    if rule is not None and rule.profile:
        profile = get_profile(rule.profile, strategies)
        return profile if most is None else profile.capped(most)
    row = get_strategy(doc_type, strategies) if structure is None else strategy_for(structure, strategies)
    return row.capped(_MOST_TOKENS if most is None else most)
