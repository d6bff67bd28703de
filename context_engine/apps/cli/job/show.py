"""`job list`, `show` and `export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from context_engine.apps.cli.console import note, print_json, print_line, print_table, write_text, written
from context_engine.apps.cli.context import ConfigLocation, with_acting, with_location
from context_engine.apps.cli.job.context import owned_jobs
from context_engine.apps.cli.options import FILE, with_json
from context_engine.core.text import counted

if TYPE_CHECKING:
    from context_engine.jobs.memory import JobFinding, JobMemory, Stage

_MOST_FINDINGS: Final = 40
SHOW: Final = """\b
Examples:
  context-engine job show job-20260302-091500-3f9a1c
  context-engine job show job-20260302-091500-3f9a1c --compressed
"""
EXPORT: Final = "\b\nExample:\n  context-engine job export job-20260302-091500-3f9a1c memory.json"


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
