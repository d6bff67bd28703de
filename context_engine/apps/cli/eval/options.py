"""What the `eval` commands share: options, the session, progress, reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from context_engine.apps.cli.console import note, print_json, written
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context
from context_engine.apps.cli.progress import progress_bar
from context_engine.apps.cli.search.command import Day
from context_engine.apps.cli.words import under_adapter
from context_engine.errors import ConfigError, InvalidRequest

if TYPE_CHECKING:
    from context_engine.evaluation.blocks import ReportDocument
    from context_engine.evaluation.evaluate import Compared
    from context_engine.evaluation.session import Session


__all__ = [
    "DEMO_DAY",
    "PATH",
    "answers_of",
    "asking",
    "cautions_of",
    "check_outputs",
    "check_writable",
    "judged",
    "measured_by",
    "opened",
    "reported",
    "together",
    "write_json",
    "write_reports",
    "written",
]

DEMO_DAY: Final = date(2026, 3, 2)
"""The day the demo's questions are asked on, so that their answers stay what they are."""

_ADAPTED: Final = (
    "An adapter is in force. Questions that it was learnt from are answered better than new ones will be: measure on "
    "others, or read in 'kb adapter list' what it does to questions held out."
)

PATH: Final = click.Path(dir_okay=False, path_type=Path)

F = TypeVar("F", bound=Callable[..., Any])


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator that gives a command several options."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


judged = together(
    click.option("--qrels", type=PATH, metavar="FILE", help="Judgements: JSON Lines, tab-separated or TREC."),
    click.option("--queries", type=PATH, metavar="FILE", help="Questions: JSON Lines, or id, tab, text."),
    click.option("--domain", "-d", metavar="NAME", help="Domain of questions that name none."),
    click.option("--as-of", type=Day(), metavar="DAY", help="Day of questions that name none [default: today]."),
)

measured_by = together(
    click.option("--measure", "-m", "measures", multiple=True, metavar="NAME", help="e.g. R@10, MAP@10, Success@5."),
    click.option("--by", multiple=True, metavar="FIELD", help="Group by a field of the questions."),
)

reported = together(
    click.option("--report", type=PATH, metavar="FILE", help="Write a report as Markdown."),
    click.option("--html", type=PATH, metavar="FILE", help="Write it as one page with drawings."),
    click.option("--title", metavar="TEXT", help="Title of the report."),
    click.option("--json", "as_json", is_flag=True, help="Write one JSON object to stdout."),
)


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before hours are spent on what it is to hold.

    Raises:
        ConfigError: it cannot be written.
    """
    fresh, folders = not path.exists(), [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8"):
            pass
        if fresh:
            path.unlink()
        for folder in folders:
            folder.rmdir()
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(path)) from None


def check_outputs(options: dict[str, Any], *inputs: Path) -> None:
    """Refuse outputs that would overwrite an input or each other, or that cannot be written.

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


def opened(location: ConfigLocation, options: dict[str, Any], *inputs: Path) -> tuple[CliContext, Session]:
    """Return the context, and questions, judgements and corpus; the demo's where nothing is configured or named.

    Args:
        inputs: further files that are read, and so must not be written over.
    """
    from context_engine.evaluation.session import open_session

    check_outputs(options, *inputs)
    context = open_context(location)
    queries, qrels, as_of = options["queries"], options["qrels"], options["as_of"]
    if queries is None and qrels is None:
        if not context.demo:
            raise InvalidRequest(
                "there is nothing to evaluate: give --queries FILE and --qrels FILE, or judge some results with "
                "'context-engine eval judge QUERY --domain NAME --qrels FILE'"
            )
        from context_engine import demo

        queries, as_of = demo.QUESTIONS, as_of or DEMO_DAY
    session = open_session(
        context.known,
        context.data_dir,
        queries=queries,
        qrels=qrels,
        domain=options["domain"],
        as_of=as_of,
        principal=context.principal,
    )
    for notice in session.notices:
        note(notice.message)
    return context, session


@contextmanager
def asking(title: str = "Asking …") -> Iterator[Callable[[int, int, str], None]]:
    """Yield what shows how many questions are done."""
    with progress_bar(title) as show:
        yield show


def answers_of(text: str) -> Sequence[str]:
    """Return the values of KEY=V1,V2: a comma inside brackets, braces or quotes does not part them."""
    values, depth, quoted, start = [], 0, False, 0
    for place, char in enumerate(text):
        quoted ^= char == '"'
        depth += 0 if quoted else (char in "[{") - (char in "]}")
        if char == "," and depth == 0 and not quoted:
            values.append(text[start:place])
            start = place + 1
    return [value.strip() for value in [*values, text[start:]]]


def write_reports(report: ReportDocument, options: dict[str, Any], *measured: Compared) -> None:
    """Write a report in the forms asked for.

    Args:
        measured: what it reports; what is to be known of that stands among its notes.
    """
    from context_engine.evaluation.blocks import to_html, to_markdown

    report = replace(report, notes=[*report.notes, *cautions_of(*measured)])
    if options["report"] is not None:
        written(options["report"], to_markdown(report))
    if options["html"] is not None:
        written(options["html"], to_html(report))


def write_json(value: dict[str, Any], *, demo: bool) -> None:
    """Write one JSON object to stdout."""
    print_json(json.dumps({**value, "demo": demo}, ensure_ascii=False, allow_nan=False, default=str))


def cautions_of(*compared: Compared) -> list[str]:
    """Return what to know of numbers that were measured under an adapter; nothing where none was in force."""
    runs = [measured.run for each in compared for measured in each.both if measured.run is not None]
    return [_ADAPTED] if any(under_adapter(answer.embedded_by) for run in runs for answer in run.answers) else []
