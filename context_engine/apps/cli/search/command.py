"""`context-engine search`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import click

from context_engine.apps.cli.app import DEGRADED, NOT_ANSWERED, WRITTEN
from context_engine.apps.cli.console import note, out, print_json, print_json_line, write_text, written
from context_engine.apps.cli.context import (
    ConfigLocation,
    note_unwritten,
    open_context,
    require_operator,
    with_acting,
    with_domain,
    with_location,
)
from context_engine.apps.cli.options import FILE, Day, with_options
from context_engine.apps.cli.progress import busy
from context_engine.apps.cli.search.result_table import Places, open_place
from context_engine.core.models import And, Caller, Context, Decision, Filter, SearchRequest, SearchResult, Status
from context_engine.core.models.request import checked_query
from context_engine.errors import InvalidFilter, InvalidRequest, RetrievalFailed

_MOST_BYTES: Final = 1_000_000
EPILOG: Final = """\b
Examples:
  context-engine search "NPA classification criteria" --domain NPA
  context-engine search "limit breach escalation" -d DESK --filter "doc_type=sop_document" --explain
  context-engine search "client limit" -d DESK --namespace products --namespace desk_rules
  context-engine search "material change" -d NPA --as-of 2024-06-30 --require-tier 2 --strict
  cat question.txt | context-engine search - -d ORM --context --budget 2000
  context-engine search "default fund" -d DCE --json | jq '.chunks[]._provenance'
"""

_SET: Final = (
    "Change a setting for this search; 'config show' lists them under 'search'. Settings under index, limits and "
    "models are set in the configuration or by CONTEXT_ENGINE_... variables."
)
with_search = with_options(
    with_domain("Search this domain; 'domains' lists them"),
    click.option("--top-k", "-k", type=click.IntRange(1, 1000), metavar="N", help="Return N chunks [default: 8]."),
    click.option(
        "--filter",
        "-f",
        "filters",
        multiple=True,
        metavar="FILTER",
        help='Search only chunks that match, e.g. "version=3.2; year>=2024".',
    ),
    click.option(
        "--namespace",
        "namespaces",
        multiple=True,
        metavar="NAME",
        help="Search only the sources of this namespace, or the source of this id [default: all of the domain].",
    ),
    click.option("--as-of", type=Day(), metavar="DAY", help="Answer as of this day, e.g. 2025-06-30 [default: today]."),
    click.option("--persona", metavar="NAME", help="Use this profile of settings from personas.json."),
    click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=_SET),
    click.option(
        "--min-relevance",
        type=float,
        metavar="X",
        help="Drop chunks whose absolute relevance, 0 to 1, is lower [default: 0.15].",
    ),
    click.option(
        "--budget",
        type=click.IntRange(min=1),
        metavar="TOKENS",
        help="Limit a context to this many tokens [default: 6000].",
    ),
)
"""Gives a command the options that `search`, `compare` and `ask` share."""


@click.command(epilog=EPILOG)
@click.argument("query")
@with_search
@click.option(
    "--require-tier",
    type=click.IntRange(1, 5),
    multiple=True,
    metavar="TIER",
    help="Require evidence from a source of this tier.",
)
@click.option("--require-source", multiple=True, metavar="ID", help="Require evidence from this source.")
@click.option("--strict", is_flag=True, help="Fail if required evidence is missing.")
@click.option("--explain", is_flag=True, help="Also show funnel, sources, scores, fates, swaps, settings and warnings.")
@click.option("--context", is_flag=True, help="Write the context that a language model would read.")
@click.option(
    "--form",
    type=click.Choice(["markdown", "text", "full"]),
    default="markdown",
    help="Write the context in this form.",
)
@click.option("--json", "as_json", is_flag=True, help="Write the whole result as one JSON object.")
@click.option("--full", is_flag=True, help="With --json: add everything that 'audit replay --file' needs.")
@click.option("--jsonl", is_flag=True, help="Write each chunk as one line of JSON.")
@click.option("--open", "opened", type=click.IntRange(min=1), metavar="RANK", help="Open the passage with this rank.")
@click.option("--html", "page", type=FILE, metavar="FILE", help="Also write the answer as an HTML page.")
@click.option("--principal", metavar="ID", help="Record this name as the caller; it grants nothing.")
@click.option("--request-id", metavar="ID", help="Return your own id of this call in the result.")
@with_acting
@with_location
def search(query: str, location: ConfigLocation, **options: Any) -> int:
    """Search a domain and show the ranked, provenance-tagged answer.

    QUERY is a question or keywords; "-" reads it from stdin.
    Exit code: 0 answered, 3 answered but a source failed, 4 nothing relevant or required evidence missing,
    2 usage or configuration, 1 failure.
    """
    _check_forms(options)
    request_to = request_of(from_stdin() if query == "-" else query, options)
    context = open_context(location, domain=options["domain"], one_domain=True)
    if options["full"]:
        require_operator(context.setup.config.principals)
    request = request_to(domain=context.domain, principal=context.principal)
    from context_engine.wiring.build import build_engine

    read: Context | None = None
    with build_engine(context.setup, data_dir=context.data_dir) as engine:
        try:
            with busy("Searching …", quiet=True):
                result = engine.search(request)
        except RetrievalFailed as error:
            if options["as_json"] and error.result is not None:
                _write_json(error.result, demo=context.demo, full=options["full"])
                click.get_current_context().meta[WRITTEN] = True
            raise
        if options["context"]:  # made by the engine, which records what is read of an answer
            from context_engine.core.context import ApproxTokenCounter

            form = {"budget": options["budget"], "form": options["form"]}
            read = engine.context(result, counter=ApproxTokenCounter(), **form)
    places = Places(result, context.base)
    if options["as_json"]:
        _write_json(result, demo=context.demo, full=options["full"])
    elif options["jsonl"]:
        _write_lines(result)
    elif read is not None:
        _write_context(result, read)
    else:
        _write_table(result, places, explain=options["explain"])
    if options["page"] is not None:
        from context_engine.apps.web.files.answer import answer_page

        written(options["page"], answer_page(result, demo=context.demo))
    if options["opened"] is not None:
        open_place(result, options["opened"], places)
    note_unwritten()
    return outcome_code(result)


def outcome_code(result: SearchResult) -> int:
    """Return the exit code of a result: the decision counts before failed sources."""
    if result.decision is not Decision.ANSWERED:
        return NOT_ANSWERED
    return 0 if result.status is Status.COMPLETE else DEGRADED


def _check_forms(options: dict[str, Any]) -> None:
    names = {"as_json": "--json", "jsonl": "--jsonl", "context": "--context", "explain": "--explain"}
    chosen = [name for key, name in names.items() if options[key]]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} are two forms of the answer: choose one")
    if options["full"] and not options["as_json"]:
        raise click.UsageError("--full is for --json")
    if options["budget"] is not None and not options["context"]:
        raise click.UsageError("--budget is for --context")


def from_stdin() -> str:
    """Return the question from standard input.

    Raises:
        InvalidRequest: it is not UTF-8.
    """
    data = sys.stdin.buffer.read(_MOST_BYTES)
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise InvalidRequest("stdin is not UTF-8 text: send the query as UTF-8") from None


def request_of(query: str, options: dict[str, Any]) -> Callable[..., SearchRequest]:
    """Return the request without its domain and principal, so that bad options fail before anything is opened.

    Args:
        options: values of the options of `search`.

    Raises:
        InvalidRequest: the query or an option is invalid.
    """
    return partial(
        SearchRequest,
        query=checked_query(query),
        caller=Caller(principal=options["principal"]),
        request_id=options["request_id"],
        as_of=options["as_of"],
        filters=_all_of(options["filters"]),
        persona=options["persona"],
        overrides=_overrides(options),
        require_tiers=tuple(options["require_tier"]),
        require_sources=tuple(options["require_source"]),
        strict=options["strict"],
    )


def _all_of(texts: Sequence[str]) -> Filter | None:
    from context_engine.core.policy.filters import parse_filter

    if not all(map(str.strip, texts)):
        raise InvalidFilter("--filter is empty: give a condition, or omit it")
    parts = tuple(part for part in map(parse_filter, texts) if part is not None)
    return parts[0] if len(parts) == 1 else And(parts) if parts else None


_OPTIONS_OF: Final = {
    "top_k": "stage2_top_k",
    "namespaces": "sources",
    "min_relevance": "min_relevance_score",
    "budget": "context_max_tokens",
}
"""Options that are settings of the search."""


def _overrides(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of this call by name; refuse one that is set twice."""
    from context_engine.settings import call_layer
    from context_engine.settings.files import Unparsed

    assigned: dict[str, Any] = {}
    for text in options["settings"]:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"--set takes KEY=VALUE, got {text!r}")
        if name.strip() in assigned:
            raise click.UsageError(f"--set {name.strip()} is given twice")
        assigned[name.strip()] = Unparsed(value)
    overrides = {key: setting.value for key, setting in call_layer(assigned).items()}
    for option, key in _OPTIONS_OF.items():
        if options[option] not in (None, ()):
            if key in overrides:
                name = option.replace("_", "-").removesuffix("s")
                raise click.UsageError(f"--{name} and --set {key} set the same value: give one")
            overrides[key] = options[option]
    return overrides


def _write_json(result: SearchResult, *, demo: bool, full: bool) -> None:
    published = result.to_dict(demo=demo)
    if full:
        from context_engine import __version__
        from context_engine.audit.record.parts import save_result

        published["record"] = save_result(result, code_version=__version__)
    print_json(json.dumps(published, ensure_ascii=False, allow_nan=False, default=str))


def _write_lines(result: SearchResult) -> None:
    for chunk in result.chunks:
        print_json_line(json.dumps(chunk.to_dict(), ensure_ascii=False, allow_nan=False, default=str))
    _note_beside(result)


def _note_beside(result: SearchResult) -> None:
    """Write failures and narrowing to stderr: stdout holds only the chunks."""
    from context_engine.apps.cli.search.result_table import beside_the_answer

    for line in beside_the_answer(result):
        note(line.plain, style="yellow")


def _write_table(result: SearchResult, places: Places, *, explain: bool) -> None:
    from context_engine.apps.cli.search.result_table import print_result

    console = out()
    print_result(console, result, places)
    if explain:
        from context_engine.apps.cli.search.explanation import print_explanation

        print_explanation(console, result)


def _write_context(result: SearchResult, context: Context) -> None:
    from context_engine.apps.cli.search.result_table import summary

    write_text(context.text)
    _note_beside(result)
    tokens = f"{context.tokens} of {context.budget} tokens"
    used = f"{tokens}, {context.chunk_count} chunks, {len(context.left_out)} left out"
    note(f"{used} · {summary(result).plain}")
