"""How a document is cut: by its declared type or a profile, else as its structure shows; without tables of contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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

__all__ = ["contents_notices", "set_aside", "strategy_of", "structure_shown"]


def set_aside(loaded: LoadedDocument) -> tuple[ContentsTable, ...]:
    """Return the tables of contents of a document that says something beside them."""
    found = () if loaded.record else contents_of(loaded.text)
    return found if without_contents(loaded.text, found).strip() else ()


def contents_notices(loaded: LoadedDocument, contents: Sequence[ContentsTable], body: str) -> Iterator[Notice]:
    """Yield what is to be said of tables of contents."""
    for table in contents:
        lines = [
            without_markup(line).lstrip("# ")
            for line in loaded.text[table.start : table.end].splitlines()
            if line.strip()
        ]
        first, last = page_at(loaded.pages, table.start), page_at(loaded.pages, table.end - 1)
        pages = range(first, last + 1) if first is not None and last is not None else ()
        yield contents_left_out(lines, body, pages)


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
    most: int,
) -> ChunkingStrategy:
    """Return the profile that the rule names, else what the structure asks for, else the row of the declared type."""
    if rule is not None and rule.profile:
        return get_profile(rule.profile, strategies)
    if structure is not None:
        return strategy_for(structure, strategies).capped(most)
    return get_strategy(doc_type, strategies).capped(most)
