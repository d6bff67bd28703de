"""`eval run` on several collections: options, sessions and the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import DEGRADED
from context_engine.apps.cli.console import clean, note, out, show, table
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context
from context_engine.apps.cli.eval.options import (
    PATH,
    cautions_of,
    check_outputs,
    check_writable,
    together,
    write_json,
    write_reports,
)
from context_engine.apps.cli.words import counted
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.evaluation.collections import Collected, Collection
    from context_engine.evaluation.session import Session


_STYLES: Final = {"better": "green", "worse": "bold red"}

collected = together(
    click.option("--collections", type=PATH, metavar="FILE", help="YAML or JSON: several collections, by name."),
    click.option("--collection", multiple=True, metavar="NAME=FOLDER", help="One of several; its queries and qrels."),
)


def given_collections(options: dict[str, Any]) -> Mapping[str, Collection]:
    """Return the collections that a command names; none where it names none.

    Raises:
        InvalidRequest: a collection is named twice, or questions are named beside collections.
        ConfigError: the file of collections cannot be used.
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
        raise InvalidRequest("--queries and --qrels are of one collection: put them into --collections, or leave them")
    return collections


def opened_collections(
    location: ConfigLocation, options: dict[str, Any], collections: Mapping[str, Collection]
) -> tuple[CliContext, dict[str, Session]]:
    """Return the context, and questions, judgements and corpus of each collection."""
    from context_engine.evaluation.collections import open_collections, run_file

    inputs = [path for one in collections.values() for path in (one.queries, one.qrels) if path is not None]
    check_outputs({**options, "save_run": None}, *inputs)
    for name in collections if options["save_run"] is not None else ():
        check_writable(run_file(options["save_run"], name))
    context = open_context(location)
    sessions = open_collections(
        context.known,
        context.data_dir,
        collections,
        domain=options["domain"],
        as_of=options["as_of"],
        principal=context.principal,
    )
    for name, session in sessions.items():
        for notice in session.notices:
            note(f"{name}: {notice.message}")
    return context, sessions


def save_runs(folder: Path, measured: Collected) -> None:
    """Write the rankings of each collection as a run file of its name."""
    from context_engine.evaluation.collections import run_file
    from context_engine.evaluation.qrels import write_run

    for name, compared in measured.compared.items():
        write_run(run_file(folder, name), compared.ours.places, compared.ours.name)
    note(f"written: {counted(len(measured.compared), 'run')} in {folder}")


def finish_collections(measured: Collected, options: dict[str, Any], *, demo: bool) -> None:
    """Write reports and print; exit code 3 where a source, the embedder or the reranker did not do its part."""
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
    """A row for each collection; with a baseline the difference by the primary measure, and what it says."""
    from context_engine.evaluation.collections import verdict_of

    console = out()
    columns = ["!collection", ">!questions", *(f">!{measure}" for measure in measured.measures)]
    columns += [f">!Δ {measured.primary}", ">!95 %", "!verdict"] if measured.has_baseline else []
    rows = []
    for name, compared in measured.compared.items():
        row = [Text(name, "bold"), Text(f"{len(compared.session.qrels)}")]
        row += [_mean(measured, name, measure) for measure in measured.measures]
        if (pair := measured.against(name, measured.primary)) is not None:
            verdict = verdict_of(pair)
            style = _STYLES.get(verdict, "dim")
            row += [Text(f"{pair.mean:+.4f}", style), Text(f"{pair.low:+.3f} to {pair.high:+.3f}", "dim")]
            row.append(Text(verdict if verdict in _STYLES else f"{verdict} beyond noise", style))
        rows.append(row)
    means = [Text("mean", "dim"), Text(f"{measured.questions}", "dim")]
    means += [Text(f"{measured.mean(measure):.4f}", "dim") for measure in measured.measures]
    if measured.has_baseline:
        means.append(
            Text(f"{measured.mean(measured.primary) - measured.mean(measured.primary, baseline=True):+.4f}", "dim")
        )
    show(console, table(columns, [*rows, means]))
    console.print()
    show(console, Text(f"{measured.questions} judged questions · {measured.title}"))
    for name, compared in measured.compared.items():
        for trouble in compared.troubles:
            show(console, Text(clean(f"{name}: {trouble}"), "yellow"))
    for caution in cautions_of(*measured.compared.values()):
        show(console, Text(caution, "yellow"))


def _mean(measured: Collected, name: str, measure: str) -> Text:
    """A mean; green or red where it differs from the baseline beyond noise."""
    from context_engine.evaluation.collections import verdict_of

    pair = measured.against(name, measure)
    style = "" if pair is None else _STYLES.get(verdict_of(pair), "")
    return Text(f"{measured.compared[name].ours.mean(measure):.4f}", style)
