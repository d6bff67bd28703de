"""`audit export`: records as JSON lines, CSV or transparency log tiles."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

import click

from context_engine.apps.cli.audit.ledger import (
    LedgerLocation,
    opened_ledger,
    say_unknown_domain,
    say_unproved,
    unproved,
    with_ledger,
)
from context_engine.apps.cli.console import note, publish, writing
from context_engine.apps.cli.options import PLACE, period_options, with_options
from context_engine.apps.cli.progress import progress_bar
from context_engine.core.text import counted

if TYPE_CHECKING:
    from context_engine.audit.ledger.export import Rows
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.audit.ledger.read import StoredEntry


_OWNER_ALONE: Final = 0o600
_REPORTED: Final = 100  # records between two steps of the progress bar

EXPORT: Final = """\b
Examples:
  context-engine audit export --format csv --rows chunks --since 2026-01-01 --out shown.csv
  context-engine audit export --format jsonl | jq -r 'select(.entry.decision == "no_match") | .entry.id'
  context-engine audit export --format tiles --out /srv/www/log
"""


@click.command(epilog=EXPORT)
@click.option("--format", "form", type=click.Choice(["jsonl", "csv", "tiles"]), required=True, help="What is written.")
@click.option("--out", type=PLACE, metavar="PATH", help="The file, or the folder for tiles; default: stdout.")
@click.option(
    "--rows", type=click.Choice(["records", "chunks"]), default="records", show_default=True, help="The rows of a csv."
)
@click.option("--with-texts", is_flag=True, help="Include questions, candidates and texts; not in a csv.")
@with_options(
    *period_options("Records from this moment on (UTC); not for tiles.", "Records before this moment; not for tiles.")
)
@click.option("--domain", metavar="DOMAIN", help="Records of this domain; not for tiles.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object about the export; needs --out.")
@with_ledger
def export(
    at: LedgerLocation,
    form: Literal["jsonl", "csv", "tiles"],
    out: Path | None,
    rows: Rows,
    with_texts: bool,
    since: datetime | None,
    until: datetime | None,
    domain: str | None,
    as_json: bool,
) -> None:
    """Write the records for other programs.

    jsonl: one line per record, with the exact bytes of the entry that were hashed. csv: one row per record, or per
    chunk that was shown; no cell is a formula. tiles: a folder in the form of a C2SP transparency log, which any
    monitor or web server can use. A repeated export to the same folder adds new files and removes erased data.
    """
    chosen = since is not None or until is not None or domain is not None
    _check(form, out, with_texts=with_texts, chosen=chosen, as_json=as_json)
    with opened_ledger(at) as opened:
        ledger = opened.ledger
        if form == "tiles" and out is not None:
            facts = _tiles(ledger, out, with_texts=with_texts)
        else:
            ledger.integrate()
            indices = _indices(ledger, since, until, domain) if chosen else None
            facts = _lines(ledger, form, out, indices, rows, with_texts=with_texts)
            if indices == []:
                say_unknown_domain(opened, domain)
        missing = unproved(opened, ledger.checkpoints(newest=1)[0]) if form == "tiles" else ()
    if as_json:
        publish({"format": form, **facts, "not_proved": missing})
    say_unproved(missing)


def _check(form: str, out: Path | None, *, with_texts: bool, chosen: bool, as_json: bool) -> None:
    if form == "tiles" and out is None:
        raise click.UsageError("--format tiles writes a folder: give --out.")
    if form == "tiles" and chosen:
        raise click.UsageError("Tiles always hold the whole log: leave out --since, --until and --domain.")
    if form == "csv" and with_texts:
        raise click.UsageError("--with-texts works with jsonl and tiles only.")
    if out is None and as_json:
        raise click.UsageError("--json describes the file written to --out: give --out.")
    if out is None and sys.stdout.isatty():
        raise click.UsageError("An export is not for a terminal: give --out, or pipe it into a program.")


def _tiles(ledger: Ledger, folder: Path, *, with_texts: bool) -> dict[str, Any]:
    from context_engine.audit.ledger.export import export_tiles

    tiles = export_tiles(ledger, folder, with_texts=with_texts)
    note(
        f"written: {folder}: {counted(tiles.size, 'record')}; {counted(tiles.written, 'file')} new, {tiles.kept} there "
        f"already, {tiles.removed} removed"
    )
    return {"out": str(folder), **tiles._asdict()}


def _lines(
    ledger: Ledger, form: str, out: Path | None, indices: list[int] | None, rows: Rows, *, with_texts: bool
) -> dict[str, Any]:
    from context_engine.audit.ledger.export import exported_entries

    total = ledger.size - ledger.minimum_index if indices is None else len(indices)
    with progress_bar("Exporting …", quiet=True) as progress:
        entries = _followed(exported_entries(ledger, indices), lambda done: progress(done, total, ""))
        count = _written(_bytes(ledger, form, entries, rows, with_texts=with_texts), out)
    count -= form == "csv"  # its header line is no row
    note(f"{'' if out is None else f'written: {out}: '}{counted(count, 'row' if form == 'csv' else 'record')}")
    return {"out": str(out), "count": count}


def _bytes(
    ledger: Ledger, form: str, entries: Iterator[StoredEntry], rows: Rows, *, with_texts: bool
) -> Iterator[bytes]:
    from context_engine.audit.ledger.export import csv_lines, json_lines

    if form == "csv":
        yield from (line.encode("utf-8", "backslashreplace") for line in csv_lines(entries, rows))
    else:
        yield from (line + b"\n" for line in json_lines(ledger, entries, with_texts=with_texts))


def _followed(entries: Iterator[StoredEntry], done: Callable[[int], None]) -> Iterator[StoredEntry]:
    """Yield entries, and report their number now and then."""
    for count, entry in enumerate(entries, start=1):
        if count % _REPORTED == 0:
            done(count)
        yield entry


def _written(lines: Iterator[bytes], out: Path | None) -> int:
    """Write lines to a file or stdout; return their number."""
    count = 0
    with _opened(out) as file:
        for line in lines:
            file.write(line)
            count += 1
    return count


@contextmanager
def _opened(out: Path | None) -> Iterator[BinaryIO]:
    """Yield stdout, or a file that appears only when it is complete and that only its owner may read."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    unfinished = out.with_name(f"{out.name}.unfinished")
    try:
        with writing(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ALONE)
            with open(handle, "wb") as file:
                yield file
            unfinished.replace(out)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _indices(ledger: Ledger, since: datetime | None, until: datetime | None, domain: str | None) -> list[int]:
    from context_engine.audit.ledger.look_up import Criteria

    return sorted(row.index for row in ledger.rows(Criteria(since=since, until=until, domain=domain)))
