"""`audit rehearse`: ask recorded questions against a draft, without touching what is in force; its table and page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.app import DEGRADED
from context_engine.apps.cli.audit.cases import check_pages
from context_engine.apps.cli.audit.ledger import LedgerLocation, OpenLedger, opened_ledger, with_ledger
from context_engine.apps.cli.audit.many import Selection, selected_searches, with_selection
from context_engine.apps.cli.console import note, print_line, print_table, publish, written
from context_engine.apps.cli.context import with_acting
from context_engine.apps.cli.options import OLD_FILE, with_json, with_page
from context_engine.apps.cli.progress import progress_bar
from context_engine.core.text import counted
from context_engine.errors import ContextEngineError, QueryNotRecorded
from context_engine.insight.rehearsal import (
    CHANGES,
    RehearsedSearch,
    change_counts,
    quotes_of,
    rehearsed,
    text_name,
)

if TYPE_CHECKING:
    from context_engine.core.engine import Engine
    from context_engine.core.models import SearchRequest
    from context_engine.insight.rehearsal import AnswerText

_MOST_LINES: Final = 20
REHEARSE: Final = """\b
Examples:
  context-engine audit rehearse --manifest drafts/npa.yaml --since 2026-06-01 --domain NPA
  context-engine audit rehearse --documents drafts/sops --domain NPA --sample 200 --seed 84417
  context-engine audit rehearse --settings draft.json --since 2026-06-01 --json > rehearsal.json
  context-engine audit rehearse --documents drafts/sops --domain NPA --html rehearsal.html

\b
Exit code: 0 every answer stays as it is, 3 some change or failed, 1 failure, 2 usage or configuration.
"""


@click.command(epilog=REHEARSE)
@click.option("--draft", "draft_dir", metavar="DIR", help="A whole configuration in place of the one in force.")
@click.option(
    "--manifest",
    "manifests",
    multiple=True,
    type=OLD_FILE,
    help="A manifest in place of the one of its domain; may be repeated.",
)
@click.option(
    "--settings",
    type=OLD_FILE,
    metavar="FILE",
    help="A JSON object of settings, above those of files, personas and domains.",
)
@click.option(
    "--documents",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A folder that is ingested into a copy of the base; needs --domain.",
)
@with_selection
@with_page
@with_json
@with_acting
@with_ledger
def rehearse(
    at: LedgerLocation,
    draft_dir: str | None,
    manifests: tuple[Path, ...],
    settings: Path | None,
    documents: Path | None,
    selection: Selection,
    page: Path | None,
    as_json: bool,
) -> int:
    """Ask recorded questions again, today and under a draft, and tell which answers would change.

    The draft is a configuration, a manifest, settings, or a folder of documents, which is ingested into a copy of the
    base. Nothing in force is touched, and nothing is recorded. Of each question the table tells whether the decision
    flips, texts are lost or gained, or only the order or the scores change; the page quotes the texts. Questions are
    asked with the rights of the principal who runs the command (--as), as of the day that they were asked for, else
    today.
    """
    if draft_dir is None and not manifests and settings is None and documents is None:
        raise click.UsageError("Give a draft: --draft, --manifest, --settings or --documents.")
    if documents is not None and selection.domain is None:
        raise click.UsageError("--documents needs --domain: the domain whose sources take them.")
    if selection.results is not None:
        raise click.UsageError("--results is for replay and drift; a rehearsal writes --json.")
    if page is not None:
        check_pages("the page of a rehearsal")
    with opened_ledger(at) as opened, ExitStack() as stack:
        engines = stack.enter_context(_engines(opened, at, draft_dir, manifests, settings, documents, selection.domain))
        results = list(_rehearsed(opened, selection, *engines))
    if page is not None:
        draft = [Path(given).name for given in (draft_dir, *manifests, settings, documents) if given is not None]
        context = opened.context
        written(page, rehearsal_page(results, draft, mask=context.setup.mask(), demo=context.demo))
    if as_json:
        counts = Counter(result.change for result in results)
        rows = [result.to_dict() for result in results]
        publish({"counts": dict(counts), "searches": rows})
    elif page is None:
        _print(results)
    same = all(result.change == "same" for result in results)
    return 0 if same else DEGRADED


@contextmanager
def _engines(
    opened: OpenLedger,
    at: LedgerLocation,
    draft_dir: str | None,
    manifests: tuple[Path, ...],
    settings: Path | None,
    documents: Path | None,
    domain: str | None,
) -> Iterator[tuple[Engine, Engine]]:
    """Yield the engine in force and that of the draft; both record nothing."""
    from context_engine.wiring.build import build_engine
    from context_engine.wiring.draft import copied_data, draft_setup

    context, location = opened.context, at.configuration
    with ExitStack() as stack:
        draft = stack.enter_context(
            draft_setup(
                context.setup,
                config_dir=location.config_dir,
                draft_dir=draft_dir,
                manifests=manifests,
                settings=settings,
                stage=location.stage,
            )
        )
        data_dir = context.data_dir
        if documents is not None and domain is not None:
            data_dir = stack.enter_context(copied_data(context.setup, context.setup.registry.domain(domain), data_dir))
            _ingest(replace(context, setup=draft, data_dir=data_dir), at, documents, domain)
        engines = [
            build_engine(setup, data_dir=folder, recorded=False)
            for setup, folder in ((context.setup, context.data_dir), (draft, data_dir))
        ]
        for engine in engines:
            stack.callback(engine.close)
        yield engines[0], engines[1]


def _ingest(context: Any, at: LedgerLocation, documents: Path, domain: str) -> None:
    """Ingest a folder into the copy; the report goes to stderr."""
    import sys

    from context_engine.apps.cli.ingest import IngestCommand, ingest_once

    adapters = {source.adapter for source in context.setup.registry.domain(domain).sources}
    command = IngestCommand(
        path=documents,
        domain=domain,
        to=next(iter(sorted(adapters))),
        namespace=None,
        source_id=None,
        prune=False,
        allow_empty=False,
        dry_run=False,
        force=False,
        repair=False,
        jobs=0,
        as_json=False,
        write_ids=None,
        location=at.configuration,
    )
    with redirect_stdout(sys.stderr):
        ingest_once(context, command, rehearsed=True)


def _rehearsed(opened: OpenLedger, selection: Selection, now: Engine, draft: Engine) -> Iterator[RehearsedSearch]:
    rows = selected_searches(opened, selection)
    with progress_bar("Asking …") as progress:
        for number, row in enumerate(rows):
            progress(number, len(rows), row.record_id)
            asked = (row.record_id, row.time, row.domain or "", row.caller or "")
            try:
                request = _request(opened, row.record_id)
                results = (now.search(request), draft.search(request))
            except ContextEngineError as error:
                yield RehearsedSearch(*asked, "failed", None, str(error))
            else:
                answer = rehearsed(*results)
                quotes = quotes_of(answer, results)
                yield RehearsedSearch(*asked, str(answer.change), answer, "", request.query, quotes)


def _request(opened: OpenLedger, record_id: str) -> SearchRequest:
    """Return a recorded request, with the rights of the principal who runs the command.

    Raises:
        AuditError: the record or its question is gone.
    """
    from context_engine.audit.review.stored import find_record, recorded_result

    record = find_record(opened.ledger, record_id)
    request = recorded_result(opened.ledger, record_id, record.entry, None).request
    if request is None:
        raise QueryNotRecorded(f"the question of {record_id} is not in its record")
    return replace(request, principal=opened.context.principal, request_id=None, strict=False)


def _print(results: list[RehearsedSearch]) -> None:
    if not results:
        note("No search matches.")
        return
    rows = change_counts(results)
    print_table(("domain", "change", ">answers", ">askers"), rows)
    changed = [result for result in results if result.change not in ("same", "scores")]
    for result in changed[:_MOST_LINES]:
        print_line(f"{result.search_id}  {_described(result)}", "yellow")
    if len(changed) > _MOST_LINES:
        note(f"and {len(changed) - _MOST_LINES} more; --json has them.")
    note(f"{counted(len(results), 'question')} asked twice; nothing was changed or recorded")


def _described(result: RehearsedSearch) -> str:
    answer = result.answer
    if answer is None:
        return f"failed: {result.problem}"
    parts = [f"{answer.decisions[0]} becomes {answer.decisions[1]}"] if result.change == "decision" else []
    parts += [f"loses {_names(answer.lost)}"] if answer.lost else []
    parts += [f"gains {_names(answer.gained)}"] if answer.gained else []
    return "; ".join(parts) or "the same texts in another order"


def _names(texts: Iterable[AnswerText]) -> str:
    counts = Counter(map(text_name, texts))
    return ", ".join(name if count == 1 else f"{count} texts of {name}" for name, count in counts.items())


_QUIET: Final = ("same", "scores")
_MOST_CASES: Final = 500
_WORDS: Final = {
    "decision": "Another decision",
    "lost": "Lose a text",
    "gained": "Only gain texts",
    "order": "Another order",
    "scores": "Other scores",
    "failed": "Could not be asked",
    "same": "Stay the same",
}


def rehearsal_page(
    searches: Sequence[RehearsedSearch], draft: Sequence[str], *, mask: Callable[[str], str] | None, demo: bool
) -> str:
    """Return the page.

    Args:
        draft: what was rehearsed, such as the names of its files.
        mask: masks personal data in questions and texts.
    """
    from context_engine.apps.web.rendering import Page, standalone_page

    totals = Counter(search.change for search in searches)
    changed = sorted(
        (search for search in searches if search.change not in _QUIET), key=lambda each: CHANGES.index(each.change)
    )
    values = {
        "draft": draft,
        "asked": len(searches),
        "tiles": [(change, _WORDS[change], totals[change]) for change in CHANGES if totals[change]],
        "counts": change_counts(searches),
        "words": _WORDS,
        "askers": len({search.asker for search in searches}),
        "concerned": len({search.asker for search in changed}),
        "changed": changed[:_MOST_CASES],
        "more": max(len(changed) - _MOST_CASES, 0),
        "text_name": text_name,
        "masked": (lambda text: text) if mask is None else mask,
    }
    return standalone_page(Page("review/rehearsal.html", values), demo=demo)
