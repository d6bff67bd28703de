"""`context-engine ask`: an answer, sentence by sentence, each with its passage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.text import Text

from context_engine.apps.cli.app import NOT_ANSWERED
from context_engine.apps.cli.console import note, out, print_json, show
from context_engine.apps.cli.context import (
    CliContext,
    ConfigLocation,
    only_domain,
    open_context,
    with_acting,
    with_location,
)
from context_engine.apps.cli.job.context import caller_of
from context_engine.apps.cli.progress import busy
from context_engine.apps.cli.search.command import from_stdin, outcome_code, request_of, with_search
from context_engine.apps.cli.search.result_table import Places, beside_the_answer
from context_engine.apps.cli.words import joined, tier_text
from context_engine.apps.web.inert import clean
from context_engine.apps.web.naming import document_name, heading, location

if TYPE_CHECKING:
    from context_engine.answer.composed import Answer
    from context_engine.answer.values import Sentence
    from context_engine.core.models import RankedChunk, SearchRequest
    from context_engine.jobs.owned import OwnedJobs
    from context_engine.service.deployment import Deployment

_MOST_ROUNDS: Final = 20
"""As `gathering.MOST_ROUNDS`, which a help text need not wait for."""

_NOT_OPTIONS: Final = {"require_tier": (), "require_source": (), "strict": False}
_VERDICTS: Final = {"partly": "yellow", "unsupported": "red", "uncited": "yellow"}
EPILOG: Final = """\b
Examples:
  context-engine ask "How soon is a loss above USD 10,000 reported?" --domain ORM
  context-engine ask "May a desk trade before the NPA is approved?" -d NPA --as-of 2025-06-30
  context-engine ask "Who approves a new product?" -d NPA --json | jq '.sentences[].quotes'
  context-engine ask "Who approves a new product?" -d NPA --no-model
  context-engine ask "Who signs, and how long are records kept?" -d NPA --workflow agentic
  context-engine ask "Which limits exceed USD 5 million?" --job job-20260302-091500-3f9a1c
"""


@click.command(epilog=EPILOG)
@click.argument("question")
@with_search
@click.option("--no-model", is_flag=True, help="Quote sentences only, even if a chat model is configured.")
@click.option(
    "--unsupported",
    type=click.Choice(["show", "mark", "withhold", "refuse"]),
    help="Treat sentences of a model that their passages do not support like this, if no looser than configured.",
)
@click.option(
    "--workflow",
    type=click.Choice(["simple", "agentic"]),
    help="simple: one search. agentic: search again for parts of the question, for what passages cite, and for what is "
    "missing. Default: as configured.",
)
@click.option(
    "--rounds", type=click.IntRange(1, _MOST_ROUNDS), metavar="N", help="Most searches of the agentic workflow."
)
@click.option("--job", "job_id", metavar="ID", help="Ask under the memory of this job, in its documents too.")
@click.option("--json", "as_json", is_flag=True, help="Write the answer as one JSON object.")
@click.option("--principal", metavar="ID", help="Record this name as the caller; it grants nothing.")
@click.option("--request-id", metavar="ID", help="Return your own id of this call in the answer.")
@with_acting
@with_location
def ask(question: str, location: ConfigLocation, **options: Any) -> None:
    """Answer a question with sentences that show their passages, or say why there is no answer.

    QUESTION is a question in words; "-" reads it from stdin. Without a chat model the sentences are quoted from the
    passages. With one, each sentence is checked against the passages that it cites, and what they do not support is
    left out. Exit code: 0 answered, 3 answered but a source failed, 4 no answer, 2 usage or configuration, 1 failure.
    """
    request_to = request_of(from_stdin() if question == "-" else question, {**options, **_NOT_OPTIONS})
    context = open_context(location, domain=options["domain"], one_domain=options["job_id"] is None)
    from context_engine.answer.contract import response_of
    from context_engine.jobs.owned import OwnedJobs
    from context_engine.service.deployment import open_deployment
    from context_engine.wiring.audit_writers import close_writers

    with closing(open_deployment(context.setup, data_dir=context.data_dir, demo=context.demo)) as deployment:
        jobs = OwnedJobs(deployment, caller_of(context, location))
        with busy("Answering …", quiet=True):
            answer = _answer(deployment, jobs, context, request_to, options)
    if options["as_json"]:
        print_json(response_of(answer, demo=context.demo).model_dump_json())
    else:
        print_answer(out(), answer, Places(answer.result, context.base))
    for sentence in close_writers():
        note(f"warning: {sentence}", style="yellow")
    refused = answer.refusal is not None
    click.get_current_context().exit(NOT_ANSWERED if refused else outcome_code(answer.result))


def _answer(
    deployment: Deployment,
    jobs: OwnedJobs,
    context: CliContext,
    request_to: Callable[..., SearchRequest],
    options: dict[str, Any],
) -> Answer:
    """Return the answer, of a job if one is named."""
    from context_engine.answer.answering import last_of
    from context_engine.answer.asking import answerer_of
    from context_engine.jobs.asking import workflow_finder

    job_id, domain = options["job_id"], options["domain"]
    name = only_domain(context.registry, domain) if job_id is None else domain or jobs.memory(job_id).domain
    request = request_to(domain=name, principal=context.principal)
    use_model, policy = not options["no_model"], options["unsupported"]
    steps = {"workflow": options["workflow"], "rounds": options["rounds"]}
    if job_id is not None:
        return jobs.ask(job_id, request, use_model=use_model, policy=policy, **steps)
    answerer = answerer_of(deployment, request, use_model=use_model, policy=policy)
    find = workflow_finder(deployment, **steps)
    return last_of(answerer.stream(request, find=find(request, answerer.writer)))


def print_answer(console: Console, answer: Answer, places: Places) -> None:
    """Print the sentences, the disagreements and the cited passages of an answer, or why there is none."""
    from context_engine.answer.composed import cited, conflict_text

    if answer.refusal is not None:
        show(console, Text(clean(answer.refusal.message), "bold"))
    for sentence in answer.shown:
        _print_sentence(console, sentence, quoted=answer.mode == "extractive")
    for conflict in answer.conflicts:
        show(console, Text(clean(f"\n{conflict_text(conflict)}"), "yellow"))
    passages = [(citation.label, citation.chunk_ids) for citation in cited(answer)]
    if passages:
        show(console, Text("\nPassages found:" if answer.refusal is not None else ""))
    chunks = {(chunk.source_id, chunk.chunk_id): chunk for chunk in answer.result.chunks}
    for citation in cited(answer):
        best = min((chunks[citation.source_id, key] for key in citation.chunk_ids), key=lambda chunk: chunk.rank)
        show(console, _passage(citation.label, best, places))
    console.print()
    for line in _searches(answer):
        show(console, line)
    for warning in answer.own_warnings:
        show(console, Text(clean(warning), "yellow"))
    for line in beside_the_answer(answer.result):
        show(console, line)
    show(console, _summary(answer))


def _print_sentence(console: Console, sentence: Sentence, *, quoted: bool) -> None:
    line = Text(clean(sentence.text)).append(clean(f" {''.join(sentence.labels)}"), "dim")
    if sentence.verdict.value in _VERDICTS:
        line.append(f" {sentence.verdict}", _VERDICTS[sentence.verdict.value])
    show(console, line)
    for finding in sentence.findings:
        show(console, Text(clean(f"  {finding.detail}"), "yellow"))
    if not quoted:
        for quote in sentence.quotes:
            show(console, Text(clean(f"  {quote.label} “{' '.join(quote.text.split())}”"), "dim"))


def _passage(label: str, chunk: RankedChunk, places: Places) -> Text:
    """Return a line about a passage: label, document, section, place, tier, link."""
    name, title = document_name(chunk.chunk, chunk.chunk_id)
    names = dict.fromkeys(filter(None, (name, title, heading(chunk.chunk))))
    path = chunk.chunk.path
    place = ", ".join(filter(None, (path, location(chunk.chunk))))
    link = places.link(chunk)
    first, *more = [Text(clean(name)) for name in names]
    parts = [*more, Text(clean(place), f"link {link}" if link else ""), tier_text(chunk.authority_tier)]
    return joined([Text(label, "dim").append(" ").append(first), *(part for part in parts if part.plain)])


def _searches(answer: Answer) -> Iterator[Text]:
    """Yield a line about each search of a workflow, and why it ended."""
    if answer.gathering is None:
        return
    for number, searched in enumerate(answer.gathering.rounds, start=1):
        yield Text(clean(f"search {number} ({searched.why}): {searched.query}"), "dim")
    yield Text(clean(f"stopped: {answer.gathering.stopped.replace('_', ' ')}"), "dim")


def _summary(answer: Answer) -> Text:
    count = len(answer.shown)
    withheld = len(answer.sentences) - count
    parts = [
        "refused" if answer.refusal is not None else "answered",
        f"written by {answer.written.model}" if answer.mode == "model" and answer.written else "quoted",
        *([f"{withheld} not supported and left out"] if withheld else []),
        *([f"answer {answer.answer_id}"] if answer.answer_id else []),
        f"search {answer.result.search_id}",
    ]
    return Text(clean(" · ".join(parts)), "dim")
