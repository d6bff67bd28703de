"""`context-engine chunk`: how one file is cut."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.app import DEGRADED, FAILURE
from context_engine.apps.cli.console import clean, note, out, print_json, show, table
from context_engine.apps.cli.context import ConfigLocation, with_location
from context_engine.apps.cli.search.snippet import readable
from context_engine.apps.cli.words import counted
from context_engine.core.models import Chunk, DocumentRule
from context_engine.errors import InvalidRequest, nearest

if TYPE_CHECKING:
    from context_engine.core.protocols import TokenCounter
    from context_engine.ingest import PreparedDocument, Skipped
    from context_engine.wiring import Setup


SCHEMA_VERSION: Final = 1
_MOST_SHOWN: Final = 20
_FIRST_WORDS: Final = 2_000  # characters in which they are looked for
_OTHER_COLUMNS: Final = 44
_LEAST_WORDS: Final = 24
EPILOG: Final = """\b
Examples:
  context-engine chunk notice.md --doc-type regulatory_notice
  context-engine chunk handbook.md --profile funnel
  context-engine chunk records.jsonl --limit 3 --json
  context-engine chunk notice.md --counter tiktoken:/models/cl100k_base.tiktoken
"""


@dataclass(frozen=True, slots=True)
class _Cut:
    """One document of the file and its chunks."""

    document: PreparedDocument
    chunks: Sequence[Chunk]


@click.command(epilog=EPILOG)
@click.argument("path", metavar="FILE")
@click.option(
    "--doc-type", metavar="TYPE", help="Cut as this row of the chunking table; else as the document says or shows."
)
@click.option("--profile", metavar="NAME", help="Cut by this profile, whatever the type; e.g. funnel.")
@click.option("--counter", "counter_name", metavar="NAME", help="What counts tokens; else as the settings say.")
@click.option(
    "--limit", default=_MOST_SHOWN, type=click.IntRange(min=0), help="Most documents of a file of records; 0: all."
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object, with the chunks as they would be stored.")
@with_location
def chunk(
    path: str,
    location: ConfigLocation,
    doc_type: str | None,
    profile: str | None,
    counter_name: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show how FILE is cut; nothing is stored.

    Without --doc-type, --profile or a type of its own a file is cut as its structure shows: by sections where it has
    headings, records by fields, other text in windows. What was found is said.

    Exit codes: 1 the file gives no document, 3 some of it cannot be read.
    """
    from context_engine.adapters.token_counters import open_counter
    from context_engine.ingest import shown_name
    from context_engine.wiring import load_setup

    file = _file(path)
    setup = load_setup(config_dir=location.config_dir, stage=location.stage)
    counter = open_counter(counter_name or setup.resolver.base().values.token_counter, env=setup.env)
    cuts, skipped, more = _cut(file, setup, counter, _rule(setup, file, doc_type, profile), limit)
    if as_json:
        print_json(_as_dict(shown_name(path), counter, cuts, skipped, more=more))
    else:
        _print(out(), cuts)
    for one in skipped:
        note(f"could not be read: {one}" if one.error else f"no passage: {one}", style="red" if one.error else "dim")
    if more:
        note(f"Only the first {counted(limit, 'document')} of the file; --limit 0 cuts all.")
    unread = DEGRADED if any(one.error for one in skipped) else 0
    click.get_current_context().exit(FAILURE if skipped and not cuts else unread)


def _file(path: str) -> Path:
    from context_engine.ingest import shown_name
    from context_engine.ingest.loaders.source_file import kind_of

    file, shown = Path(path), shown_name(path)
    try:
        kind = kind_of(file.stat().st_mode)
    except OSError as error:
        raise InvalidRequest(f"{shown} {_why(error)}") from None
    if kind:
        raise InvalidRequest(f"{shown} is {kind}: name a file{' in it' if file.is_dir() else ''}")
    return file


def _why(error: OSError) -> str:
    return "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be opened: {error.strerror or error}"


def _rule(setup: Setup, file: Path, doc_type: str | None, profile: str | None) -> DocumentRule | None:
    """Return the rule that a manifest would give the file, had it one with these keys."""
    known = setup.config.chunking
    if doc_type is not None and doc_type not in known:
        raise InvalidRequest(f"document type {doc_type!r} has no row in the chunking table.{nearest(doc_type, known)}")
    keys = {key: value for key, value in (("doc_type", doc_type), ("profile", profile)) if value is not None}
    return DocumentRule.model_validate({"include": "*", **keys}) if keys else None


def _cut(
    file: Path, setup: Setup, counter: TokenCounter, rule: DocumentRule | None, limit: int
) -> tuple[list[_Cut], list[Skipped], bool]:
    """Return the documents, what could not be read, and whether there are more than the limit."""
    from context_engine.ingest import CutDocument, IngestOptions, read_one

    options = IngestOptions(
        strategies=setup.config.chunking,
        max_chunk_tokens=setup.resolver.base().chunk_limit,
        counter=counter,
        settings=setup.config.ingest,
    )
    cuts: list[_Cut] = []
    skipped: list[Skipped] = []
    with closing(read_one(file, rule, options)) as documents:
        for document in documents:
            if limit and len(cuts) + len(skipped) == limit:
                return cuts, skipped, True
            if isinstance(document, CutDocument):
                cuts.append(_Cut(document.document, document.chunks or ()))
            else:
                skipped.append(document[1])
    return cuts, skipped, False


def _as_dict(
    path: str, counter: TokenCounter, cuts: Sequence[_Cut], skipped: Sequence[Skipped], *, more: bool
) -> dict[str, Any]:
    documents = [
        {
            "document_id": one.document.document_id,
            "title": one.document.base.title,
            "doc_type": one.document.base.doc_type,
            "structure": one.document.structure.to_dict() if one.document.structure else None,
            "strategy": one.document.strategy.to_dict(),
            "warnings": list(one.document.warnings),
            "chunks": [chunk.to_dict() for chunk in one.chunks],
        }
        for one in cuts
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "file": path,
        "counter": counter.name,
        "documents": documents,
        "skipped": [one._asdict() for one in skipped],
        "more": more,
    }


def _print(console: Console, cuts: Sequence[_Cut]) -> None:
    for number, cut in enumerate(cuts):
        if number:
            console.print()
        _print_document(console, cut)
    if len(cuts) > 1:
        console.print()
        total = sum(len(cut.chunks) for cut in cuts)
        show(console, Text(f"{counted(len(cuts), 'document')}, {counted(total, 'chunk')}", "bold"))


def _print_document(console: Console, cut: _Cut) -> None:
    document, strategy = cut.document, cut.document.strategy
    show(console, Text(clean(f"{document.base.title} ({document.document_id})"), "bold"))
    how = f"{strategy.method}, at most {strategy.chunk_size} tokens, overlap {strategy.overlap}"
    shown = document.structure
    show(console, Text(clean(f"{shown.reason} ({how})" if shown else f"{document.base.doc_type}: {how}"), "dim"))
    show(console, _table(cut.chunks, max(_LEAST_WORDS, console.width - _OTHER_COLUMNS)))
    tokens = sorted(chunk.metadata["token_count"] for chunk in cut.chunks)
    if tokens:
        spread = f"{tokens[0]} to {tokens[-1]}, median {median(tokens):.0f}"
        show(console, Text(f"{counted(len(tokens), 'chunk')}, {sum(tokens)} tokens ({spread})"))
    for warning in document.warnings:
        show(console, Text(f"warning: {clean(warning)}", "yellow"))


def _table(chunks: Sequence[Chunk], width: int) -> Table:
    paged = any("page" in chunk.metadata for chunk in chunks)
    rows = []
    for chunk in chunks:
        start, end = chunk.span or (0, 0)
        cells = [str(chunk.position), chunk.section or "", str(chunk.metadata["token_count"]), f"{start}-{end}"]
        page = [str(chunk.metadata.get("page", ""))] if paged else []
        words = readable(chunk.content[:_FIRST_WORDS])
        words = words if len(words) <= width else f"{words[: width - 1]}…"
        rows.append((*cells, *page, words))
    return table((">!#", "!section", ">!tokens", ">!span", *((">!page",) if paged else ()), "!first words"), rows)
