"""`context-engine ingest`: documents into the embedded base."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from context_engine.cli.app import DEGRADED
from context_engine.cli.console import clean, note, out, print_json_line, show
from context_engine.cli.workspace import Place, Workspace, open_workspace, placed, progress_bar
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.models import Chunk, SourceSpec

if TYPE_CHECKING:
    from context_engine.ingest import IngestReport
    from context_engine.protocols import DocumentSink

__all__ = ["ingest"]

_MOST_SHOWN: Final = 10
EPILOG: Final = """\b
Examples:
  context-engine ingest documents --domain HANDBOOK --dry-run
  context-engine ingest documents --domain HANDBOOK --prune
  context-engine ingest notice.md --domain NPA --source npa_external_official
"""


@click.command(epilog=EPILOG)
@click.argument("path")
@click.option("--domain", "-d", required=True, metavar="NAME", help="The domain whose sources take the documents.")
@click.option("--source", "source_id", metavar="ID", help="Put every file into this source, whatever the rules say.")
@click.option("--prune", is_flag=True, help="Remove documents that the folder no longer holds.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Write the report as one JSON object.")
@placed
def ingest(
    path: str, place: Place, domain: str, source_id: str | None, prune: bool, dry_run: bool, as_json: bool
) -> None:
    """Bring the Markdown, text and JSONL files of PATH into the embedded knowledge base.

    What did not change is left alone. Exit code 3: some files or folders could not be read.
    """
    workspace = open_workspace(place, build_demo=False)
    if workspace.demo:
        raise ConfigError("there is no domain of your own to ingest for. Write one with 'context-engine init DIR'.")
    report = _run(Path(path), workspace, domain, source_id, prune=prune, dry_run=dry_run)
    if as_json:
        print_json_line(json.dumps(report.to_dict(), ensure_ascii=False))
    else:
        _print(out(), report, workspace.base)
    click.get_current_context().exit(DEGRADED if report.errors else 0)


def _run(
    path: Path, workspace: Workspace, domain: str, source_id: str | None, *, prune: bool, dry_run: bool
) -> IngestReport:
    from context_engine.ingest import IngestOptions
    from context_engine.ingest import ingest as run

    spec = workspace.setup.registry.domain(domain)
    local = [source for source in spec.sources if source.adapter == "local"]
    if not local:
        raise InvalidRequest(f"domain {domain!r} has no source of the embedded base (adapter: local)")
    settings = workspace.setup.resolver.base(spec).values
    options = IngestOptions(strategies=workspace.setup.config.chunking, max_chunk_tokens=settings.max_chunk_tokens)
    with progress_bar("Ingesting …") as progress, _sink(workspace.base, dry_run=dry_run) as sink:
        return run(
            path, _wanted(local, source_id), sink,
            source_id=source_id, options=options, prune=prune, dry_run=dry_run, progress=progress,
        )  # fmt: skip


def _wanted(local: Sequence[SourceSpec], source_id: str | None) -> Sequence[SourceSpec]:
    return [source for source in local if source.id == source_id] or local


class _Nothing:
    """An empty sink for a dry run where there is no base yet."""

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        return True

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        return False

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        return {}

    def commit(self) -> None:
        return None


@contextmanager
def _sink(base: Path, *, dry_run: bool) -> Iterator[DocumentSink]:
    from context_engine.sources.local.base import LocalBase

    with LocalBase(base) as opened:
        if dry_run and not opened.exists():
            yield _Nothing()
            return
        try:
            writer = opened.writer()
        except OSError as error:
            raise ConfigError(
                f"the knowledge base cannot be written to {base}: {error.strerror or error}. Name a folder that can be "
                "written to with --data-dir or CONTEXT_ENGINE_DATA_DIR."
            ) from error
        with writer:
            yield writer


def _print(console: Console, report: IngestReport, base: Path) -> None:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    rows = (
        ("files", report.files),
        ("documents", report.documents),
        ("  new", report.added),
        ("  replaced", report.replaced),
        ("  unchanged", report.unchanged),
        ("removed", report.removed),
        ("chunks written", report.chunks),
        ("skipped", len(report.skipped)),
    )
    for name, count in rows:
        table.add_row(name, Text(str(count), "" if count else "dim"))
    show(console, table)
    _skipped(console, report)
    for warning in report.warnings[:_MOST_SHOWN]:
        show(console, Text(f"warning: {clean(warning)}", "yellow"))
    if len(report.warnings) > _MOST_SHOWN:
        show(console, Text(f"and {len(report.warnings) - _MOST_SHOWN} more warnings (--json has all)", "dim"))
    done = "Dry run: nothing was written." if report.dry_run else f"{report.elapsed_s:.1f} s, {base}"
    note(done)


def _skipped(console: Console, report: IngestReport) -> None:
    """Print what should have worked file by file, the rest by reason."""
    if report.skipped:
        console.print()
    for one in report.errors[:_MOST_SHOWN]:
        show(console, Text(f"could not be read: {clean(str(one))}", "red"))
    if len(report.errors) > _MOST_SHOWN:
        show(console, Text(f"and {len(report.errors) - _MOST_SHOWN} more (--json has all)", "dim"))
    reasons = Counter(one.reason for one in report.skipped if not one.error)
    for reason, count in reasons.most_common(_MOST_SHOWN):
        example = next(one.path for one in report.skipped if one.reason == reason)
        told = f"{count} skipped: {reason} (e.g. {example})" if count > 1 else f"{example} skipped: {reason}"
        show(console, Text(clean(told), "dim"))
