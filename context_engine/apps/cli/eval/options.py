"""Options, session, reports and table cells that the `eval` commands share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import FAILURE
from context_engine.apps.cli.console import error_line, note, print_json, print_line, writing, written
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context
from context_engine.apps.cli.options import FILE, Day, with_options
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.evaluation.blocks import ReportDocument
    from context_engine.evaluation.evaluate import Compared
    from context_engine.evaluation.metrics import Paired
    from context_engine.evaluation.session import Session

DEMO_DAY: Final = date(2026, 3, 2)
"""The demo's questions are asked as of this day, so that their answers do not change."""

_ADAPTER_CAUTION: Final = (
    "An adapter is in force. Its training questions get better answers than new ones will: measure on other questions, "
    "or see its effect on held-out questions in 'kb adapter list'."
)
_ADAPTER_SUFFIX: Final = re.compile(r"\+[0-9a-f]{12}$")  # <model>+<first 12 digits of the adapter's hash>
default_options = with_options(
    click.option("--domain", "-d", metavar="NAME", help="Domain of questions that name none."),
    click.option("--as-of", type=Day(), metavar="DAY", help="Day of questions that name none [default: today]."),
)
question_options = with_options(
    click.option("--qrels", type=FILE, metavar="FILE", help="Judgements: JSON Lines, tab-separated or TREC."),
    click.option("--queries", type=FILE, metavar="FILE", help="Questions: JSON Lines, or id, tab, text."),
    default_options,
)
judgements_option = click.option(
    "--judgements", is_flag=True, help="Use the judgements that readers gave on the pages, instead of --qrels."
)
top_k_option = click.option(
    "--top-k", "-k", type=click.IntRange(1, 1000), metavar="N", help="Chunks read [default: stage2_top_k]."
)
measure_options = with_options(
    click.option(
        "--measure", "-m", "measures", multiple=True, metavar="NAME", help="Measure this, e.g. R@10, MAP@10, Success@5."
    ),
    click.option("--by", multiple=True, metavar="FIELD", help="Group the results by this field of the questions."),
)
report_options = with_options(
    click.option("--report", type=FILE, metavar="FILE", help="Write a report as Markdown."),
    click.option("--html", type=FILE, metavar="FILE", help="Write the report as one HTML page with charts."),
    click.option("--title", metavar="TEXT", help="Title of the report."),
    click.option("--json", "as_json", is_flag=True, help="Write one JSON object to stdout."),
)


def check_writable(path: Path) -> None:
    """Check that a file can be written, before hours of work depend on it; leaves no file or folder behind.

    Raises:
        ConfigError: it cannot be written.
    """
    is_new, new_folders = not path.exists(), [folder for folder in path.parents if not folder.exists()]
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a", encoding="utf-8").close()
        if is_new:
            path.unlink()
        for folder in new_folders:
            folder.rmdir()


def check_outputs(options: dict[str, Any], *inputs: Path) -> None:
    """Check that the output files can be written and overwrite neither an input nor each other.

    Raises:
        InvalidRequest: a file is named twice.
        ConfigError: a file cannot be written.
    """
    read = [*inputs, *(options.get(name) for name in ("queries", "qrels", "collections", "inside", "outside"))]
    taken = {path.resolve() for path in read if path is not None}
    for name in ("report", "html", "save_run", "write"):
        path = options.get(name)
        if path is None:
            continue
        if path.resolve() in taken:
            raise InvalidRequest(f"--{name.replace('_', '-')} {path}: this file is named twice: give another")
        taken.add(path.resolve())
        check_writable(path)


def open_evaluation(location: ConfigLocation, options: dict[str, Any], *inputs: Path) -> tuple[CliContext, Session]:
    """Return the context and the session; the demo's questions if nothing is configured or named.

    Args:
        inputs: further input files, which outputs must not overwrite.
    """
    from context_engine.evaluation.session import open_session

    check_outputs(options, *inputs)
    context = open_context(location)
    queries, as_of = options["queries"], options["as_of"]
    qrels = _of_readers(context, options) if options.get("judgements") else options["qrels"]
    if queries is None and qrels is None:
        if not context.demo:
            raise InvalidRequest(
                "there is nothing to evaluate: give --queries FILE and --qrels FILE, or judge some results with "
                "'context-engine eval judge QUERY --domain NAME --qrels FILE'"
            )
        from context_engine import demo

        queries, as_of = demo.QUESTIONS, as_of or DEMO_DAY
    session = open_session(
        context.known, context.data_dir, queries=queries, qrels=qrels,
        domain=options["domain"], as_of=as_of, principal=context.principal,
    )  # fmt: skip
    for notice in session.notices:
        note(notice.message)
    return context, session


def _of_readers(context: CliContext, options: dict[str, Any]) -> Path:
    """Return the file of the judgements that readers gave on the pages.

    Raises:
        InvalidRequest: --qrels is given too, or nobody has judged a passage.
    """
    from context_engine.service.judgements import PASSAGES

    path = context.data_dir / PASSAGES
    if options["qrels"] is not None:
        raise InvalidRequest("--judgements and --qrels both name judgements: give one of the two")
    if not path.exists():
        raise InvalidRequest(f"nobody has judged a passage on the pages yet: there is no {path}")
    return path


def chosen_measure(options: dict[str, Any]) -> str:
    """Return the checked name of the one --measure that is optimised."""
    from context_engine.evaluation.metrics import read_measures

    return read_measures([options["measure"]])[0]


def write_reports(report: ReportDocument, options: dict[str, Any], *compared: Compared) -> None:
    """Write a report in the requested formats, with the cautions about what was compared among its notes."""
    from context_engine.evaluation.blocks import to_html, to_markdown

    report = replace(report, notes=[*report.notes, *adapter_cautions(*compared)])
    if options["report"] is not None:
        written(options["report"], to_markdown(report))
    if options["html"] is not None:
        written(options["html"], to_html(report))


def write_json(value: dict[str, Any], *, demo: bool) -> None:
    """Write one JSON object to stdout; NaN and infinity are refused, as JSON has neither."""
    print_json(json.dumps({**value, "demo": demo}, ensure_ascii=False, allow_nan=False, default=str))


def under_adapter(model: str) -> bool:
    """Return whether the id of an embedding model includes a domain's adapter."""
    return _ADAPTER_SUFFIX.search(model) is not None


def adapter_cautions(*compared: Compared) -> list[str]:
    """Return a caution if any of the numbers was measured under an adapter, else nothing."""
    runs = [scored.run for comparison in compared for scored in comparison.both if scored.run is not None]
    return (
        [_ADAPTER_CAUTION] if any(under_adapter(answer.embedded_by) for run in runs for answer in run.answers) else []
    )


def print_warnings(warnings: Iterable[object]) -> None:
    """Print one yellow line for each warning."""
    for warning in warnings:
        print_line(str(warning), "yellow")


def change_style(pair: Paired) -> str:
    """Return green for a gain and red for a loss, dim for one within noise."""
    return ("green" if pair.mean > 0 else "red") if pair.beyond_noise else "dim"


def change_cells(pair: Paired, style: str) -> tuple[Text, Text]:
    """Return the cells of a mean difference and of its 95 % interval."""
    return Text(f"{pair.mean:+.4f}", style), Text(f"{pair.low:+.3f} to {pair.high:+.3f}", "dim")


def refuse_to_write(reason: str) -> None:
    """Print why nothing is written, and exit with code 1."""
    error_line(f"nothing is written: {reason} (--force writes it anyway)")
    click.get_current_context().exit(FAILURE)


def split_values(text: str) -> Sequence[str]:
    """Split V1,V2 at its commas, except those inside brackets, braces or quotes."""
    values, depth, quoted, start = [], 0, False, 0
    for place, char in enumerate(text):
        quoted ^= char == '"'
        depth += 0 if quoted else (char in "[{") - (char in "]}")
        if char == "," and depth == 0 and not quoted:
            values.append(text[start:place])
            start = place + 1
    return [value.strip() for value in [*values, text[start:]]]
