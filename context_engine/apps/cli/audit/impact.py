"""`audit impact`: the answers that used a document, a text or a chunk."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.audit.ledger import LedgerLocation, opened_ledger, with_ledger
from context_engine.apps.cli.audit.subscriptions import subscribe_to
from context_engine.apps.cli.console import note, print_table, publish, write_text
from context_engine.apps.cli.context import with_acting, with_domain
from context_engine.apps.cli.options import with_json
from context_engine.apps.cli.progress import busy
from context_engine.core.text import bare_version, counted

if TYPE_CHECKING:
    from context_engine.audit.ledger.look_up import MentionCriteria
    from context_engine.audit.review.impact import AffectedAnswer


_SHA256: Final = re.compile(r"[0-9a-f]{64}")

_COLUMNS: Final = (
    *("search_id", "index", "time", "kind", "domain", "caller", "status", "decision", "fate", "rank"),
    *("source_id", "chunk_id", "document_id", "document_version", "content_sha256"),
)

IMPACT: Final = """\b
Examples:
  context-engine audit impact --document NPA-SOP-001
  context-engine audit impact --document NPA-SOP-001 --version 3.1 --shown
  context-engine audit impact --chunk npa_sops/NPA-SOP-001@3.1#4 --csv > answers.csv
  context-engine audit impact --document NPA-SOP-001 --subscribe --domain NPA
  context-engine audit impact --question "Who approves a new product?" --subscribe --domain NPA
"""


@click.command(epilog=IMPACT)
@click.option("--document", metavar="ID", help="A document of any source.")
@click.option("--version", "document_version", metavar="V", help="With --document: only this version.")
@click.option("--content", metavar="SHA256", help="A text by its SHA-256, under any id.")
@click.option("--chunk", metavar="SOURCE/CHUNK", help="A chunk by its ids.")
@click.option("--source", metavar="ID", help="Only chunks of this source.")
@click.option("--shown", is_flag=True, help="Only answers that showed it.")
@with_json
@click.option("--csv", "as_csv", is_flag=True, help="Write one line for each chunk of each answer.")
@click.option("--subscribe", is_flag=True, help="Send an event when the document, or what is answered, changes.")
@click.option("--question", metavar="TEXT", help="With --subscribe: a question instead of a document.")
@click.option("--persona", metavar="NAME", help="With --question: the persona who asks.")
@with_domain("With --subscribe: the domain")
@with_acting
@with_ledger
def impact(
    at: LedgerLocation,
    shown: bool,
    as_json: bool,
    as_csv: bool,
    subscribe: bool,
    question: str | None,
    persona: str | None,
    domain: str | None,
    **wanted: str | None,
) -> None:
    """List the answers that used a document: that showed it, merged it into an equal text, or found and dropped it.

    A fetch by id counts as shown. Callers are named by their pseudonyms. Pruned records are still found, but without
    ranks.

    With --subscribe nothing is listed. From then on, each ingest into the domain looks at the document or asks the
    question again, with the rights of the principal (--as), and tells what has changed to the configured 'event_sinks'.
    'context-engine audit subscriptions' lists, checks and cancels.
    """
    from context_engine.audit.review.impact import impact as answers

    if subscribe:
        subscribe_to(at, domain, question, persona, **wanted)
        return
    if question is not None or persona is not None or domain is not None:
        raise click.UsageError("--question, --persona and --domain go with --subscribe.")

    if as_json and as_csv:
        raise click.UsageError("Give one of --json and --csv.")
    criteria = _criteria(shown=shown, **wanted)
    with opened_ledger(at) as opened, busy("Looking through the records …", quiet=True):
        opened.ledger.integrate()
        affected = list(answers(opened.ledger, criteria))
    asked = {name: value for name, value in wanted.items() if value is not None}
    if as_json:
        rows = [answer.to_dict() for answer in affected]
        publish({"asked": asked, "counts": _counts(affected), "answers": rows})
    elif as_csv:
        write_text(_csv(affected))
    else:
        _print(affected)


def _criteria(
    *,
    document: str | None,
    document_version: str | None,
    content: str | None,
    chunk: str | None,
    source: str | None,
    shown: bool,
) -> MentionCriteria:
    """Return the criteria that the options describe.

    Raises:
        UsageError: not exactly one of --document, --content and --chunk, or an unreadable value.
    """
    from context_engine.audit.ledger.look_up import MentionCriteria

    if sum(criterion is not None for criterion in (document, content, chunk)) != 1:
        raise click.UsageError("Give one of --document ID, --content SHA256 and --chunk SOURCE/CHUNK.")
    if document_version is not None and document is None:
        raise click.UsageError("--version goes with --document.")
    if content is not None and not _SHA256.fullmatch(content.strip().lower()):
        raise click.UsageError("--content takes a SHA-256: 64 hexadecimal digits.")
    source_id, _, chunk_id = chunk.partition("/") if chunk is not None else (source, "", None)
    if chunk is not None and not (source_id and chunk_id):
        raise click.UsageError("--chunk takes SOURCE/CHUNK, e.g. npa_sops/NPA-SOP-001@3.1#4.")
    if chunk is not None and source not in (None, source_id):
        raise click.UsageError(f"--chunk names source {source_id!r}, but --source names {source!r}.")
    return MentionCriteria(
        document_id=document,
        document_version=None if document_version is None else bare_version(document_version),
        content_sha256=None if content is None else content.strip().lower(),
        source_id=source_id,
        chunk_id=chunk_id,
        fates=("returned",) if shown else (),
    )


def _counts(affected: Sequence[AffectedAnswer]) -> dict[str, int]:
    fates = Counter(answer.fate for answer in affected)
    return {"answers": len(affected), **{fate: fates[fate] for fate in ("returned", "merged", "dropped")}}


def _rows(affected: Sequence[AffectedAnswer]) -> Iterator[dict[str, Any]]:
    for answer in affected:
        facts = answer.to_dict()
        for chunk in facts["chunks"]:
            yield {name: chunk[name] if name in chunk else facts[name] for name in _COLUMNS}


def _csv(affected: Sequence[AffectedAnswer]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in _rows(affected))
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Return a cell that a spreadsheet reads as text: ids come from documents and may begin like a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _print(affected: Sequence[AffectedAnswer]) -> None:
    if affected:
        print_table(("!time", "!search", "domain", "caller", "what", ">rank", "chunks"), map(_row, affected))
    counts = _counts(affected)
    summary = ", ".join(f"{count} {name}" for name, count in counts.items() if count and name != "answers")
    none = "No answer used it. Write an id exactly as it is: 'audit show' of an answer lists the ids of its chunks."
    note(f"{counted(counts['answers'], 'answer')} used it: {summary}." if affected else none)


def _row(answer: AffectedAnswer) -> tuple[object, ...]:
    record, chunks = answer.record, [chunk for chunk in answer.chunks if chunk.fate == answer.fate]
    fate = "fetched" if record.kind == "fetch" else answer.fate
    names = chunks[0].chunk_id + (f" and {len(chunks) - 1} more" if len(chunks) > 1 else "")
    facts = (record.time[:19], record.record_id, record.domain or "", (record.caller or "")[:12], fate)
    return (*facts, answer.rank or "", names)
