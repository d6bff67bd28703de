"""`context-engine chunk`: show how one file is cut into chunks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from rich.table import Table

from context_engine.apps.cli.app import DEGRADED, FAILURE
from context_engine.apps.cli.console import note, out, print_line, publish, table
from context_engine.apps.cli.context import ConfigLocation, with_location
from context_engine.apps.web.naming import readable
from context_engine.core.models import Chunk, DocumentRule
from context_engine.core.text import counted
from context_engine.errors import InvalidRequest, nearest

if TYPE_CHECKING:
    from context_engine.core.protocols import TokenCounter
    from context_engine.ingest.documents import PreparedDocument
    from context_engine.ingest.loaded_document import Skipped
    from context_engine.wiring.setup import Setup

_MOST_SHOWN: Final = 20
_FIRST_WORDS: Final = 2_000  # characters of a chunk, enough for one line of readable words
_OTHER_COLUMNS: Final = 44  # width of the table without the words
_LEAST_WORDS: Final = 24
EPILOG: Final = """\b
Examples:
  context-engine chunk notice.md --doc-type regulatory_notice
  context-engine chunk handbook.md --profile funnel
  context-engine chunk records.jsonl --limit 3 --json
  context-engine chunk notice.md --counter tiktoken:/models/cl100k_base.tiktoken
"""


class _CutDocument(NamedTuple):
    document: PreparedDocument
    chunks: Sequence[Chunk]


@click.command(epilog=EPILOG)
@click.argument("path", metavar="FILE")
@click.option(
    "--doc-type", metavar="TYPE", help="Cut by this row of the chunking table, not by the file's own type or structure."
)
@click.option("--profile", metavar="NAME", help="Cut by this profile regardless of the type, e.g. funnel.")
@click.option("--counter", metavar="NAME", help="The token counter to use, instead of the configured one.")
@click.option(
    "--limit", default=_MOST_SHOWN, type=click.IntRange(min=0), help="Most documents of a file of records; 0: all."
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object, with the chunks as they would be stored.")
@with_location
def chunk(path: str, location: ConfigLocation, limit: int, as_json: bool, **options: str | None) -> int:
    """Show how FILE is cut into chunks; nothing is stored.

    Without --doc-type, --profile or a type of its own a file is cut by its structure: by sections if it has headings,
    records by fields, other text in windows. The detected structure is shown.

    Exit codes: 1 the file gives no document, 3 some of it cannot be read.
    """
    from context_engine.adapters.token_counters import open_counter
    from context_engine.ingest.files import shown_name

    file = _checked_file(path)
    setup = location.load()
    counter = open_counter(options["counter"] or setup.resolver.base().values.token_counter, env=setup.env)
    rule = _rule(setup, options["doc_type"], options["profile"])
    documents, skipped, more = _cut(file, setup, counter, rule, limit)
    if as_json:
        publish(_as_dict(shown_name(path), counter, documents, skipped, more=more))
    else:
        _print(documents)
    for skip in skipped:
        note(
            f"could not be read: {skip}" if skip.error else f"no passage: {skip}", style="red" if skip.error else "dim"
        )
    if more:
        note(f"Only the first {counted(limit, 'document')} of the file; --limit 0 cuts all.")
    unread = DEGRADED if any(skip.error for skip in skipped) else 0
    return FAILURE if skipped and not documents else unread


def _checked_file(path: str) -> Path:
    from context_engine.ingest.files import shown_name
    from context_engine.ingest.loaders.source_file import kind_of

    file, shown = Path(path), shown_name(path)
    try:
        kind = kind_of(file.stat().st_mode)
    except FileNotFoundError:
        raise InvalidRequest(f"{shown} does not exist") from None
    except OSError as error:
        raise InvalidRequest(f"{shown} cannot be opened: {error.strerror or error}") from None
    if kind:
        raise InvalidRequest(f"{shown} is {kind}: name a file{' in it' if file.is_dir() else ''}")
    return file


def _rule(setup: Setup, doc_type: str | None, profile: str | None) -> DocumentRule | None:
    """Return the rule that a manifest with these keys would give the file."""
    known = setup.config.chunking
    if doc_type is not None and doc_type not in known:
        raise InvalidRequest(f"document type {doc_type!r} has no row in the chunking table.{nearest(doc_type, known)}")
    keys = {key: value for key, value in (("doc_type", doc_type), ("profile", profile)) if value is not None}
    return DocumentRule.model_validate({"include": "*", **keys}) if keys else None


def _cut(
    file: Path, setup: Setup, counter: TokenCounter, rule: DocumentRule | None, limit: int
) -> tuple[list[_CutDocument], list[Skipped], bool]:
    """Return the documents, the parts that gave none, and whether there are more than the limit."""
    from context_engine.ingest.reading import CutDocument, IngestOptions
    from context_engine.ingest.workers import read_one

    options = IngestOptions(
        strategies=setup.config.chunking,
        max_chunk_tokens=setup.resolver.base().chunk_limit,
        counter=counter,
        settings=setup.config.ingest,
    )
    documents: list[_CutDocument] = []
    skipped: list[Skipped] = []
    with closing(read_one(file, rule, options)) as results:
        for result in results:
            if limit and len(documents) + len(skipped) == limit:
                return documents, skipped, True
            if isinstance(result, CutDocument):
                documents.append(_CutDocument(result.document, result.chunks or ()))
            else:
                skipped.append(result[1])
    return documents, skipped, False


def _as_dict(
    path: str, counter: TokenCounter, documents: Sequence[_CutDocument], skipped: Sequence[Skipped], *, more: bool
) -> dict[str, Any]:
    published = [
        {
            "document_id": document.document_id,
            "title": document.base.title,
            "doc_type": document.base.doc_type,
            "structure": document.structure.to_dict() if document.structure else None,
            "strategy": document.strategy.to_dict(),
            "warnings": list(document.warnings),
            "chunks": [chunk.to_dict() for chunk in chunks],
        }
        for document, chunks in documents
    ]
    return {
        "file": path,
        "counter": counter.name,
        "documents": published,
        "skipped": [skip._asdict() for skip in skipped],
        "more": more,
    }


def _print(documents: Sequence[_CutDocument]) -> None:
    for number, (document, chunks) in enumerate(documents):
        if number:
            print_line()
        _print_document(document, chunks)
    if len(documents) > 1:
        print_line()
        total = sum(len(chunks) for _, chunks in documents)
        print_line(f"{counted(len(documents), 'document')}, {counted(total, 'chunk')}", "bold")


def _print_document(document: PreparedDocument, chunks: Sequence[Chunk]) -> None:
    strategy, structure = document.strategy, document.structure
    print_line(f"{document.base.title} ({document.document_id})", "bold")
    method = f"{strategy.method}, at most {strategy.chunk_size} tokens, overlap {strategy.overlap}"
    reason = f"{structure.reason} ({method})" if structure else f"{document.base.doc_type}: {method}"
    print_line(reason, "dim")
    print_line(_table(chunks, max(_LEAST_WORDS, out().width - _OTHER_COLUMNS)))
    tokens = sorted(chunk.metadata["token_count"] for chunk in chunks)
    if tokens:
        spread = f"{tokens[0]} to {tokens[-1]}, median {median(tokens):.0f}"
        print_line(f"{counted(len(tokens), 'chunk')}, {sum(tokens)} tokens ({spread})")
    for warning in document.warnings:
        print_line(f"warning: {warning}", "yellow")


def _table(chunks: Sequence[Chunk], width: int) -> Table:
    paged = any("page" in chunk.metadata for chunk in chunks)
    rows = []
    for chunk in chunks:
        start, end = chunk.span or (0, 0)
        cells = [chunk.position, chunk.section or "", chunk.metadata["token_count"], f"{start}-{end}"]
        page = [chunk.metadata.get("page", "")] if paged else []
        words = readable(chunk.content[:_FIRST_WORDS])
        words = words if len(words) <= width else f"{words[: width - 1]}…"
        rows.append((*cells, *page, words))
    return table((">!#", "!section", ">!tokens", ">!span", *((">!page",) if paged else ()), "!first words"), rows)
