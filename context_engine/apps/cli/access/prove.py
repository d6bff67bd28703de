"""`access prove`: show that answers do not depend on documents that a principal may not read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine import __version__
from context_engine.apps.cli.access.check import Somebody, access_context, principal_of, with_somebody
from context_engine.apps.cli.app import FAILURE
from context_engine.apps.cli.console import note, print_line, publish
from context_engine.apps.cli.context import CliContext, ConfigLocation, with_location
from context_engine.apps.cli.options import with_json
from context_engine.apps.cli.progress import progress_bar
from context_engine.apps.web.files.access import principal_words
from context_engine.core.models import Principal, SearchResult

if TYPE_CHECKING:
    from context_engine.testing.noninterference import AccessCertificate


PROVE: Final = """\b
Examples:
  context-engine access prove
  context-engine access prove --as npa-desk --changes 200 --questions 50
"""


@click.command(epilog=PROVE)
@with_somebody
@click.option("--changes", type=click.IntRange(1), default=1000, show_default=True, help="How many changes to make.")
@click.option(
    "--questions",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="How many questions to make of the texts.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the draw of changes and questions.")
@click.option("--adapter", default="local", show_default=True, metavar="NAME", help="Prove the store of this adapter.")
@with_json
@with_location
def prove(
    location: ConfigLocation, somebody: Somebody, changes: int, questions: int, seed: int, adapter: str, as_json: bool
) -> int:
    """Show that the answers to a principal do not depend on documents that it may not read.

    Copies the store to a temporary folder. There it writes, edits, deletes, renames and reclassifies documents that
    the principal may not read, adds sources and changes rules, all in the words of the questions, and compares every
    answer byte by byte. Without a principal, one that access.yaml does not name is used. Exit code 1 if an answer
    changed or nothing could be shown.
    """
    from context_engine.evaluation.access_proof import prove_access

    context = access_context(location)
    principal = principal_of(context, somebody)
    left_out = _left_out(context, adapter)
    with progress_bar("Changing what may not be read") as bar:
        (certificate,) = prove_access(
            context.setup,
            context.data_dir,
            [principal],
            changes=changes,
            questions=questions,
            seed=seed,
            outputs=forms(),
            adapter=adapter,
            progress=lambda _, done: bar(done, changes, ""),
        )
    trial = {"version": __version__, "seed": seed, "asked": {"changes": changes, "questions": questions}}
    if as_json:
        rights = {"rights": principal_words(principal), "adapter": adapter}
        publish({**certificate.to_dict(), **trial, **rights, "left_out": left_out, "demo": context.demo})
    else:
        _print(principal, certificate)
        print_line(f"made by version {__version__} with the seed {seed}", "dim")
    if left_out:
        note(f"not on trial, because their adapter is not {adapter!r}: {', '.join(left_out)}", style="yellow")
    return 0 if certificate.holds else FAILURE


def forms() -> Mapping[str, Any]:
    """Return the other outputs made from a result: the answers of Dify's tool and of External Knowledge, and the
    page.
    """
    from context_engine.apps.dify.answer import search_answer
    from context_engine.apps.dify.external import ExternalRequest, records_answer
    from context_engine.apps.web.files.answer import answer_page

    def external(result: SearchResult) -> Any:
        request = ExternalRequest(
            knowledge_id=result.domain, query=result.query, top_k=8, score_threshold=0.0, filters=None
        )
        return records_answer(result, request, notice_records=True).body

    return {"tool": lambda result: asdict(search_answer(result)), "external": external, "page": answer_page}


def _left_out(context: CliContext, adapter: str) -> list[str]:
    sources = (source for domain in context.registry.domains.values() for source in domain.sources)
    return sorted({source.id for source in sources if source.adapter != adapter})


def _print(principal: Principal, certificate: AccessCertificate) -> None:
    total, differing = sum(certificate.changes.values()), sum(certificate.differing.values())
    print_line(principal_words(principal), "bold")
    kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in certificate.changes.items())
    print_line(f"{total} changes of what it may not read: {kinds}", "dim")
    if differing:
        print_line(f"✗ {differing} of {certificate.answers} answers are not what they were before", "bold red")
        for where, count in certificate.differing.items():
            print_line(f"  {count} first differ at {where}")
    elif certificate.holds:
        same = f"✓ {certificate.answers} answers to {certificate.questions} questions are the same byte by byte"
        print_line(same, "green")
    else:
        print_line("✗ Nothing was shown: no change was made that one who may read everything can see", "red")
    if certificate.insider_saw is not None:
        print_line(f"  One who may read everything saw {certificate.insider_saw} answers change", "dim")
    if certificate.first is not None:
        first = certificate.first
        when = f"after {first.until} changes, not yet after {first.since}" if first.until else "before any change"
        print_line(f"  First {when}: {first.request}")
        for label, value in (("at", first.where), ("before", first.before), ("after", first.after)):
            print_line(f"  {label:>6}  {value}")
    print_line(f"digest {certificate.digest}", "dim")
