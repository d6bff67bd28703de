"""Options, sessions and table of `eval run` and `eval gate` on several collections."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import DEGRADED
from context_engine.apps.cli.console import note, print_line, print_table
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context
from context_engine.apps.cli.eval.options import (
    adapter_cautions,
    change_cells,
    check_outputs,
    check_writable,
    print_warnings,
    write_json,
    write_reports,
)
from context_engine.apps.cli.options import FILE, with_options
from context_engine.core.text import counted
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.evaluation.collections import Collected, Collection
    from context_engine.evaluation.session import Session

_VERDICT_STYLES: Final = {"better": "green", "worse": "bold red"}

collection_options = with_options(
    click.option("--collections", type=FILE, metavar="FILE", help="YAML or JSON file of several named collections."),
    click.option("--collection", multiple=True, metavar="NAME=FOLDER", help="A collection: a folder's queries, qrels."),
)


def named_collections(options: dict[str, Any]) -> Mapping[str, Collection]:
    """Return the collections that --collections and --collection name.

    Raises:
        InvalidRequest: a collection is named twice, or questions are named beside collections.
        ConfigError: the file of collections is invalid.
    """
    from context_engine.evaluation.collections import collection_at, read_collections

    file: Path | None = options["collections"]
    collections = dict(read_collections(file)) if file is not None else {}
    for text in options["collection"]:
        name, collection = collection_at(text)
        if name in collections:
            raise InvalidRequest(f"collection {name!r} is named twice: give another name")
        collections[name] = collection
    if collections and (options["queries"] or options["qrels"]):
        raise InvalidRequest("--queries and --qrels name one collection: move them into --collections, or omit them")
    return collections


def open_named_collections(
    location: ConfigLocation, options: dict[str, Any], collections: Mapping[str, Collection]
) -> tuple[CliContext, dict[str, Session]]:
    """Return the context and a session for each collection."""
    from context_engine.evaluation.collections import open_collections, run_file

    files = [path for collection in collections.values() for path in (collection.queries, collection.qrels)]
    check_outputs({**options, "save_run": None}, *(path for path in files if path is not None))
    for name in collections if options["save_run"] is not None else ():
        check_writable(run_file(options["save_run"], name))
    context = open_context(location)
    sessions = open_collections(
        context.known, context.data_dir, collections,
        domain=options["domain"], as_of=options["as_of"], principal=context.principal,
    )  # fmt: skip
    for name, session in sessions.items():
        for notice in session.notices:
            note(f"{name}: {notice.message}")
    return context, sessions


def save_runs(folder: Path, measured: Collected) -> None:
    """Write the rankings of each collection to a run file named after it."""
    from context_engine.evaluation.collections import run_file
    from context_engine.evaluation.qrels import write_run

    for name, compared in measured.compared.items():
        write_run(run_file(folder, name), compared.ours.places, compared.ours.name)
    note(f"written: {counted(len(measured.compared), 'run')} in {folder}")


def finish_collections(measured: Collected, options: dict[str, Any], *, demo: bool) -> None:
    """Write the reports and print; exit with code 3 if a source, the embedder or the reranker failed."""
    from context_engine.evaluation.collections import collected_summary
    from context_engine.evaluation.report import collected_report

    report = collected_report(measured, title=options["title"] or "Retrieval evaluation")
    write_reports(report, options, *measured.compared.values())
    if options["as_json"]:
        write_json(collected_summary(measured), demo=demo)
    else:
        _print(measured)
    if any(compared.degraded for compared in measured.compared.values()):
        click.get_current_context().exit(DEGRADED)


def _print(measured: Collected) -> None:
    """Print a row for each collection; with a baseline, also the change of the primary measure and a verdict."""
    from context_engine.evaluation.collections import verdict_of

    columns = ["!collection", ">!questions", *(f">!{measure}" for measure in measured.measures)]
    columns += [f">!Δ {measured.primary}", ">!95 %", "!verdict"] if measured.has_baseline else []
    rows = []
    for name, compared in measured.compared.items():
        row = [Text(name, "bold"), Text(f"{len(compared.session.qrels)}")]
        row += [_mean_cell(measured, name, measure) for measure in measured.measures]
        if (pair := measured.against(name, measured.primary)) is not None:
            verdict = verdict_of(pair)
            style = _VERDICT_STYLES.get(verdict, "dim")
            words = verdict if verdict in _VERDICT_STYLES else f"{verdict} beyond noise"
            row += [*change_cells(pair, style), Text(words, style)]
        rows.append(row)
    means = ["mean", f"{measured.questions}", *(f"{measured.mean(measure):.4f}" for measure in measured.measures)]
    if measured.has_baseline:
        means.append(f"{measured.mean(measured.primary) - measured.mean(measured.primary, baseline=True):+.4f}")
    print_table(columns, [*rows, [Text(cell, "dim") for cell in means]])
    print_line()
    print_line(f"{measured.questions} judged questions · {measured.title}")
    for name, compared in measured.compared.items():
        print_warnings(f"{name}: {trouble}" for trouble in compared.troubles)
    print_warnings(adapter_cautions(*measured.compared.values()))


def _mean_cell(measured: Collected, name: str, measure: str) -> Text:
    """Return a mean, green or red if it differs from the baseline beyond noise."""
    from context_engine.evaluation.collections import verdict_of

    pair = measured.against(name, measure)
    style = "" if pair is None else _VERDICT_STYLES.get(verdict_of(pair), "")
    return Text(f"{measured.compared[name].ours.mean(measure):.4f}", style)
