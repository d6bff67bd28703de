"""`job start`, `add`, `run`, `close`, `delete`, `list`, `show` and `export`."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.app import DEGRADED
from context_engine.apps.cli.console import note, out, outcome, print_json, print_line, print_table, write_text, written
from context_engine.apps.cli.context import ConfigLocation, with_acting, with_domain, with_location
from context_engine.apps.cli.ingest_report import print_report
from context_engine.apps.cli.job.context import owned_jobs
from context_engine.apps.cli.options import FILE, PLACE, Amount, make_sure, with_json, with_options, with_yes
from context_engine.apps.cli.progress import progress_bar
from context_engine.core.text import counted
from context_engine.errors import RetrievalFailed

if TYPE_CHECKING:
    from context_engine.ingest.report import IngestReport
    from context_engine.jobs.memory import JobFinding, JobMemory, Stage
    from context_engine.jobs.owned import OwnedJobs


START: Final = """\b
Examples:
  context-engine job start "Review of the facility agreements" --domain NPA
  context-engine job start "Outsourcing review" -d ORM --budget 25 --constraint "Only contracts of 2026."
"""
ADD: Final = """\b
Examples:
  context-engine job add job-20260302-091500-3f9a1c --documents agreements/
  context-engine job add job-20260302-091500-3f9a1c --constraint "Amounts in USD." --risk "Two are unsigned."
"""
RUN: Final = """\b
Examples:
  context-engine job run job-20260302-091500-3f9a1c --question "What is the facility limit?"
  context-engine job run job-20260302-091500-3f9a1c        (goes on with the open stage)
"""
DELETE: Final = "\b\nExample:\n  context-engine job delete job-20260302-091500-3f9a1c --yes"
_KINDS: Final = ("constraint", "risk", "finding")
_with_notes = with_options(
    click.option("--constraint", multiple=True, metavar="TEXT", help="A rule for every later question; repeatable."),
    click.option("--risk", multiple=True, metavar="TEXT", help="Something that may go wrong; repeatable."),
    click.option("--finding", multiple=True, metavar="TEXT", help="A finding of your own; repeatable."),
)
_MOST_FINDINGS: Final = 40
SHOW: Final = """\b
Examples:
  context-engine job show job-20260302-091500-3f9a1c
  context-engine job show job-20260302-091500-3f9a1c --compressed
"""
EXPORT: Final = "\b\nExample:\n  context-engine job export job-20260302-091500-3f9a1c memory.json"


def _add_notes(jobs: OwnedJobs, job_id: str, options: dict[str, Any]) -> int:
    """Add constraints, risks and findings, and return their number."""
    notes = [(kind, text) for kind in _KINDS for text in options[kind]]
    for kind, text in notes:
        jobs.add(job_id, kind, text)  # type: ignore[arg-type]  # one of the three
    return len(notes)


@click.command(epilog=START)
@click.argument("title")
@with_domain("The domain whose rules and settings hold")
@click.option("--budget", type=Amount(), metavar="AMOUNT", help="Most money that the job's model calls may cost.")
@_with_notes
@with_acting
@with_location
def start(location: ConfigLocation, title: str, domain: str | None, budget: Decimal | None, **options: Any) -> None:
    """Start a job and print its id.

    A job has documents of its own, which no other search finds, and a memory: stages, findings with their quotes,
    constraints, risks, quality and cost. It is yours and the operators'.
    """
    with owned_jobs(location, domain=domain) as jobs:
        memory = jobs.start(title, domain, budget)
        _add_notes(jobs, memory.job_id, options)
    click.echo(memory.job_id)
    note(f"next: context-engine job add {memory.job_id} --documents FOLDER")


@click.command(epilog=ADD)
@click.argument("job_id", metavar="ID")
@click.option("--documents", type=PLACE, metavar="PATH", help="A folder of documents, or one document.")
@_with_notes
@with_acting
@with_location
def add(location: ConfigLocation, job_id: str, documents: Path | None, **options: Any) -> int:
    """Add documents, constraints, risks or findings to the job ID.

    The documents are cut and indexed in a base of the job's own. Constraints have at most 1,000 tokens together,
    because every question is asked under all of them. Exit code 3: some files could not be read.
    """
    if documents is None and not any(options[kind] for kind in _KINDS):
        raise click.UsageError("Name what to add: --documents, --constraint, --risk or --finding.")
    complete = True
    with owned_jobs(location) as jobs:
        count = _add_notes(jobs, job_id, options)
        if count:
            outcome("added", counted(count, "note"))
        if documents is not None:
            with progress_bar("Reading …") as progress:
                report = jobs.add_documents(job_id, documents, progress)
            complete = not report.errors and not report.refused
            _print_documents(report)
    return 0 if complete else DEGRADED


def _print_documents(report: IngestReport) -> None:
    from context_engine.core.protocols import SinkReport

    print_report(out(), report, SinkReport("the job's own base"))


@click.command(epilog=RUN)
@click.argument("job_id", metavar="ID")
@click.option("--question", "-q", metavar="TEXT", help="Begins a stage; without it the open stage goes on.")
@click.option("--no-model", is_flag=True, help="Quote sentences only, even if a chat model is configured.")
@click.option("--json", "as_json", is_flag=True, help="Write the memory as one JSON object.")
@with_acting
@with_location
def run(location: ConfigLocation, job_id: str, question: str | None, no_model: bool, as_json: bool) -> None:
    """Put a question to every document of the job ID, one after another, and keep the supported sentences.

    What a document gave is kept at once. An interrupted run, even a killed one, goes on where it was with the same
    command or without a question.
    """
    with owned_jobs(location) as jobs, progress_bar("Reading documents …") as progress:
        try:
            memory = jobs.run(job_id, question, use_model=not no_model, progress=progress)
        except RetrievalFailed:
            note(f"What was read before is kept: 'context-engine job run {job_id}' goes on.", style="yellow")
            raise
    if as_json:
        from context_engine.jobs.contract import job_out

        print_json(job_out(memory).model_dump_json())
    else:
        print_memory(memory, stage=len(memory.stages))


@click.command(epilog="\b\nExample:\n  context-engine job close job-20260302-091500-3f9a1c")
@click.argument("job_id", metavar="ID")
@with_acting
@with_location
def close(location: ConfigLocation, job_id: str) -> None:
    """Close the job ID: it can be read, and nothing is added any more."""
    with owned_jobs(location) as jobs:
        jobs.close(job_id)
    outcome("closed", job_id)


@click.command(epilog=DELETE)
@click.argument("job_id", metavar="ID")
@with_yes
@with_acting
@with_location
def delete(location: ConfigLocation, job_id: str, yes: bool) -> None:
    """Remove the job ID with its memory, its documents and their index.

    The record of searches keeps what the job's searches showed: 'audit erase --job ID' erases it. Backups of the disk
    keep the files until they are recycled; 'context-engine backup' holds no jobs.
    """
    with owned_jobs(location) as jobs:
        memory = jobs.memory(job_id)
        make_sure(f"Delete the job {memory.title!r} with {counted(len(memory.findings), 'finding')}?", yes=yes)
        jobs.delete(job_id)
    outcome("deleted", job_id)
    note(f"The record of its searches stays: context-engine audit erase --job {job_id} --reason TEXT")


@click.command("list", epilog="\b\nExample:\n  context-engine job list")
@with_json
@with_acting
@with_location
def list_jobs(location: ConfigLocation, as_json: bool) -> None:
    """List your jobs, newest first; an operator sees all jobs."""
    from context_engine.jobs.contract import JobList, job_line

    with owned_jobs(location) as jobs:
        memories = jobs.all()
    if as_json:
        print_json(JobList(jobs=tuple(map(job_line, memories))).model_dump_json())
        return
    if not memories:
        note("no jobs yet: 'context-engine job start TITLE' starts one")
        return
    columns = ("!job", "domain", "state", ">stages", ">findings", ">cost", "title")
    lines = [
        (
            *(memory.job_id, memory.domain, memory.state.replace("_", " "), len(memory.stages)),
            *(len(memory.findings), memory.cost_text, memory.title),
        )
        for memory in memories
    ]
    print_table(columns, lines)


@click.command("show", epilog=SHOW)
@click.argument("job_id", metavar="ID")
@click.option("--compressed", "short", is_flag=True, help="Write the text that a model reads with a question.")
@click.option("--json", "as_json", is_flag=True, help="Write the memory as one JSON object.")
@with_acting
@with_location
def show_job(location: ConfigLocation, job_id: str, short: bool, as_json: bool) -> None:
    """Show the stages, findings, constraints and risks of the job ID, its quality and its cost."""
    if short and as_json:
        raise click.UsageError("--compressed and --json are two forms of the memory: choose one")
    from context_engine.jobs.compressed import compressed
    from context_engine.jobs.contract import job_out

    with owned_jobs(location) as jobs:
        memory = jobs.memory(job_id)
    if as_json:
        print_json(job_out(memory).model_dump_json())
    elif short:
        made = compressed(memory)
        write_text(made.text)
        note(f"{counted(made.tokens, 'token')}, {counted(made.left_out, 'finding')} left out")
    else:
        print_memory(memory)


@click.command(epilog=EXPORT)
@click.argument("job_id", metavar="ID")
@click.argument("file", required=False, type=FILE)
@with_acting
@with_location
def export(location: ConfigLocation, job_id: str, file: Path | None) -> None:
    """Write the memory of the job ID to FILE, or to stdout, as one JSON object.

    It has the summary, the stages with their key findings, quality and cost, the constraints, the risks, and every
    finding with its citation.
    """
    from context_engine.jobs.contract import job_out

    with owned_jobs(location) as jobs:
        job = job_out(jobs.memory(job_id))
    if file is None:
        print_json(job.model_dump_json())
    else:
        written(file, job.model_dump_json(indent=2) + "\n")


def print_memory(memory: JobMemory, *, stage: int | None = None) -> None:
    """Print a memory for a person.

    Args:
        stage: only the findings of this stage; None: all.
    """
    print_line(memory.title, "bold")
    print_line(memory.numbers, "dim")
    if memory.stages:
        columns = (">stage", "question", ">read", ">answered", ">findings", ">quality", ">cost")
        print_table(columns, map(_stage_row, memory.stages))
    for title, notes in (("Constraints", memory.constraints), ("Risks", memory.risks)):
        if notes:
            print_line(f"\n{title}", "bold")
            for each in notes:
                print_line(f"- {each.text}")
    findings = [finding for finding in memory.findings if stage in (None, finding.stage)]
    if findings:
        print_line(f"\n{counted(len(findings), 'finding')}", "bold")
        print_table(("!id", "finding", "document"), map(_finding_row, findings[:_MOST_FINDINGS]))
    if len(findings) > _MOST_FINDINGS:
        note(f"and {len(findings) - _MOST_FINDINGS} more: 'context-engine job export {memory.job_id}' has all")


def _stage_row(stage: Stage) -> tuple[object, ...]:
    score = "-" if stage.quality.score is None else stage.quality.score
    read = f"{len(stage.read)} of {stage.documents}"
    return (
        stage.number,
        stage.question,
        read,
        stage.quality.answered,
        len(stage.key_findings),
        score,
        f"{stage.cost:f}",
    )


def _finding_row(finding: JobFinding) -> tuple[str, str, str]:
    cited = finding.citation
    if cited is None:
        return finding.id, finding.text, "by hand"
    place = [cited.document_id or cited.title, f"§{cited.section}" if cited.section else ""]
    place.append(f"page {cited.page}" if cited.page else "")
    return finding.id, finding.text, ", ".join(filter(None, place))
