"""`eval judge`: a person grades the chunks of a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.console import note, progress_console, show
from context_engine.apps.cli.context import ConfigLocation, open_context, with_acting, with_domain, with_location
from context_engine.apps.cli.eval.options import check_writable
from context_engine.apps.cli.options import FILE, Day
from context_engine.apps.cli.words import tier_text
from context_engine.apps.web.inert import clean
from context_engine.apps.web.naming import chunk_name, heading
from context_engine.core.models import SearchRequest
from context_engine.core.models.request import checked_query
from context_engine.core.policy.masking import as_kept
from context_engine.core.text import counted

if TYPE_CHECKING:
    from context_engine.core.models import RankedChunk

JUDGE: Final = """\b
Examples:
  context-engine eval judge "notional threshold for a material change" -d NPA --qrels mine.jsonl --by ana
  context-engine eval run --qrels mine.jsonl
"""
_GRADES: Final = {"0": 0, "1": 1, "2": 2, "s": None, "q": None}
_PROMPT: Final = "0 no answer, 1 helps, 2 answers, s skip, q quit"


@click.command(epilog=JUDGE)
@click.argument("query")
@with_domain("Domain to search")
@click.option("--qrels", type=FILE, required=True, metavar="FILE", help="Append the judgements to this .jsonl file.")
@click.option("--top-k", "-k", type=click.IntRange(1, 1000), default=10, show_default=True, help="Chunks shown.")
@click.option("--as-of", type=Day(), metavar="DAY", help="Answer as of this day [default: today].")
@click.option("--id", "name", metavar="ID", help="Id of the question [default: made from its text].")
@click.option("--by", metavar="NAME", help="Name of the person who judges, written with each judgement.")
@click.option("--with-time", is_flag=True, help="Also write the time of each judgement.")
@with_acting
@with_location
def judge(query: str, location: ConfigLocation, **options: Any) -> None:
    """Show the chunks of a search one by one, and record your judgement of each.

    Chunks that the file already judges are not shown again. The file holds both questions and judgements: 'eval run
    --qrels FILE' and 'eval tune --adapter --qrels FILE' need no other.
    """
    from context_engine.evaluation.qrels import append_judgement, check_judgements, judgement, question_id, to_judge
    from context_engine.evaluation.run import troubles_in
    from context_engine.wiring.build import build_engine

    path: Path = options["qrels"]
    as_of: date | None = options["as_of"]
    check_judgements(path)
    check_writable(path)
    query = checked_query(query)
    context = open_context(location, domain=options["domain"], one_domain=True)
    overrides = {"stage2_top_k": options["top_k"]}
    with build_engine(context.setup, data_dir=context.data_dir) as engine:
        request = SearchRequest(
            query=query, domain=context.domain, as_of=as_of, overrides=overrides, principal=context.principal
        )
        result = as_kept(engine.search(request), engine.mask)
    question = question_id(path, result.query, context.domain, as_of, options["name"])
    waiting = to_judge(path, question, result)
    note(f"question {question}: {counted(len(waiting), 'chunk')} to judge, {len(result.chunks) - len(waiting)} judged")
    for trouble in troubles_in(result):
        note(f"{trouble.subject} failed: {trouble.message}", style="yellow")
    if not result.chunks:
        note(f"The search returned nothing ({result.decision}); 'context-engine search --explain' shows why.")
    grades: Counter[int] = Counter()
    for chunk, grade in _graded(waiting):
        at = datetime.now(UTC) if options["with_time"] else None
        row = judgement(question, result, chunk, grade, as_of=as_of, by=options["by"], at=at)
        append_judgement(path, row)  # written one by one, so that nothing is lost when the person stops
        grades[grade] += 1
    summary = f"{grades[2]} answer, {grades[1]} help, {grades[0]} do not"
    note(f"{counted(grades.total(), 'judgement')} written to {path}: {summary}")


def _graded(chunks: Sequence[RankedChunk]) -> Iterator[tuple[RankedChunk, int]]:
    """Show each chunk and yield it with its grade, unless it is skipped, until the person quits."""
    console = progress_console()
    for number, chunk in enumerate(chunks, start=1):
        console.print()
        line = Text(f"{number} of {len(chunks)}  ", "dim").append(chunk_name(chunk.chunk, chunk.chunk_id), "bold")
        line.append("  ").append_text(tier_text(chunk.authority_tier)).append(f"  {clean(chunk.source_id)}", "dim")
        show(console, line)
        if heading(chunk.chunk):
            show(console, Text(heading(chunk.chunk), "italic"))
        show(console, Text(clean(chunk.content)))
        key = _key()
        if key == "q":
            return
        grade = _GRADES[key]
        if grade is not None:
            yield chunk, grade


def _key() -> str:
    """Return the key that the person types; the end of the input counts as "q"."""
    while True:
        try:
            answer = click.prompt(_PROMPT, prompt_suffix=": ", err=True).strip().lower()[:1]
        except click.Abort:
            return "q"
        if answer in _GRADES:
            return str(answer)
        note(f"{answer!r} is not one of {', '.join(_GRADES)}", style="yellow")
