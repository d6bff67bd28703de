"""`audit erase` and `audit prune`: delete questions, texts and old records."""

from __future__ import annotations

import getpass
import re
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.audit.ledger import LedgerLocation, OpenLedger, opened_ledger, with_ledger
from context_engine.apps.cli.console import note, outcome, publish
from context_engine.apps.cli.options import make_sure, with_json, with_yes
from context_engine.apps.cli.progress import busy
from context_engine.audit.review.stored import ledger_pseudonyms, missing_keys
from context_engine.core.text import counted
from context_engine.errors import AuditError, ConfigError, StoreError
from context_engine.settings.environment_secrets import AUDIT_FORMER_KEYS

if TYPE_CHECKING:
    from context_engine.audit.ledger.erase import Erased, Wanted
    from context_engine.audit.ledger.prune import Pruned, PruningPlan, Retention
    from context_engine.core.protocols import Clock
    from context_engine.wiring.setup import Setup


PRUNE: Final = """\b
Examples:
  context-engine audit prune --dry-run
  context-engine audit prune --yes
"""


@click.command(epilog=PRUNE)
@click.option("--dry-run", is_flag=True, help="Only report what would be removed.")
@with_yes
@with_json
@with_ledger
def prune(at: LedgerLocation, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove the oldest records, with their questions and texts, and free their space.

    The setting audit_retention_days, of the configuration and of each domain, limits how long records are kept. Records
    are removed only from the beginning of the log, in steps of 256, up to the first record that must stay; so a domain
    with a longer retention keeps older records of other domains. Proofs of the remaining records, and between all
    checkpoints, stay valid. A ledger in a file is then rewritten and becomes smaller; recorded searches wait meanwhile.
    """
    from context_engine.audit.ledger.prune import plan_pruning
    from context_engine.audit.ledger.prune import prune as prune_records

    with opened_ledger(at) as opened:
        ledger, retention = opened.ledger, _retention(opened.context.setup)
        ledger.integrate()
        plan, done = plan_pruning(ledger, retention, ledger.clock.now()), None
        count = plan.border - plan.minimum
        if count and not dry_run:
            make_sure(f"Remove {counted(count, 'record')}, those up to {plan.before}?", yes=yes)
            with busy("Removing records …", quiet=True):
                done = prune_records(ledger, retention, clock=ledger.clock)
            plan = done.plan
    if as_json:
        publish(_published(plan, done))
    else:
        _report_pruned(plan, removed=done is not None)
    _hold(plan)
    if done is not None:
        _leftovers(done)


def _retention(setup: Setup) -> Retention:
    """Return how long records are kept.

    Raises:
        ConfigError: no retention is configured.
    """
    from context_engine.audit.ledger.prune import Retention

    resolver, specs = setup.resolver, setup.registry.domains
    base = resolver.base().values.audit_retention_days
    domains = {name: resolver.base(spec).values.audit_retention_days for name, spec in specs.items()}
    if base is None and not any(domains.values()):
        raise ConfigError(
            "is set neither in the configuration nor for a domain: records are kept for ever",
            key="audit_retention_days",
        )
    return Retention(base, domains)


def _report_pruned(plan: PruningPlan, *, removed: bool) -> None:
    count = plan.border - plan.minimum
    if not count:
        outcome("nothing to remove", f"{counted(plan.size - plan.minimum, 'record')} stay")
        return
    described = f"{counted(count, 'record')}, those up to {plan.before}; {plan.size - plan.border} stay"
    outcome("removed" if removed else "would be removed", described)


def _hold(plan: PruningPlan) -> None:
    """Note the record that prevents further removal."""
    holder = plan.holder
    if holder is None:
        return
    whose = f"of domain {holder.domain!r}" if holder.domain else "of no domain"
    kept = "for ever" if holder.days is None else counted(holder.days, "day")
    waiting = holder.position - plan.border
    note(
        f"The first to stay is record {holder.position} ({holder.record_id}) of {holder.time}, {whose}, kept "
        f"{kept}." + (f" {counted(waiting, 'older record')} wait for the next step of 256." if waiting else "")
    )


def _leftovers(done: Pruned) -> None:
    if done.overwritten is None:
        note("PostgreSQL keeps deleted rows until it is vacuumed: run 'VACUUM FULL' on the ledger's tables.")
    elif not done.overwritten:
        note("The file could not be rewritten while others use it: its free space is reused later.", style="yellow")


def _published(plan: PruningPlan, done: Pruned | None) -> dict[str, Any]:
    return {
        "dry_run": done is None,
        "minimum": plan.minimum,
        "border": plan.border,
        "size": plan.size,
        "before": plan.before,
        "holder": None if plan.holder is None else plan.holder._asdict(),
        "addenda": None if done is None else done.addenda,
        "overwritten": None if done is None else done.overwritten,
    }


ERASE: Final = """\b
Examples:
  context-engine audit erase --caller jo@bank.example --reason "request of 2 March" --dry-run
  context-engine audit erase --query 019cad50-24a0-7afe-8262-0d28d32447a6 --reason "card number in the question" --yes
  context-engine audit erase --document sop-7 --version 3 --reason "published by mistake"
  context-engine audit erase --job job-20260302-091500-3f9a1c --reason "the mandate has ended" --yes
"""

_SHA256: Final = re.compile("[0-9A-Fa-f]{64}")
_TRIAL: Final = "only looked for"


@click.command(epilog=ERASE)
@click.option("--query", "queries", metavar="ID", multiple=True, help="The question of record ID; may be repeated.")
@click.option("--caller", "callers", metavar="NAME", multiple=True, help="The questions of a caller, by their id.")
@click.option("--text", "texts", metavar="SHA256", multiple=True, help="The text of a chunk, by its content_sha256.")
@click.option("--document", metavar="ID", help="The texts of a document's chunks.")
@click.option("--version", metavar="V", help="With --document: only this version.")
@click.option("--job", "jobs", metavar="ID", multiple=True, help="A job's questions, and the texts of its documents.")
@click.option("--reason", metavar="TEXT", help="The reason; it stays in the log for ever, so name nobody.")
@click.option("--by", metavar="NAME", help="Who erases; it stays in the log for ever. Default: your login name.")
@click.option("--dry-run", is_flag=True, help="Only report what would be erased.")
@with_yes
@with_json
@with_ledger
def erase(
    at: LedgerLocation,
    queries: tuple[str, ...],
    callers: tuple[str, ...],
    texts: tuple[str, ...],
    document: str | None,
    version: str | None,
    jobs: tuple[str, ...],
    reason: str | None,
    by: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete questions, or texts that were shown; every proof of every record stays valid.

    Judgements of such questions, and those that such a caller gave, are erased too.

    Entries stay: who asked (as a pseudonym), when, and which chunks were returned. A new entry records what was erased,
    why and by whom. A record without its question or texts can no longer be replayed. A ledger in a file is then
    rewritten, so that no page keeps a copy; recorded searches wait meanwhile. No answer kept in the cache before is
    given again.
    """
    if not (queries or callers or texts or document or jobs):
        raise click.UsageError("Name what to erase: --query, --caller, --text, --document or --job.")
    if version is not None and document is None:
        raise click.UsageError("--version needs --document.")
    if short := next((text for text in texts if _SHA256.fullmatch(text) is None), None):
        raise click.UsageError(f"--text takes a SHA-256, not {short!r}: 'audit show --json' has all 64 digits of it.")
    if reason is None and not dry_run:
        raise click.UsageError("Missing option '--reason'.")
    from context_engine.audit.ledger.erase import Wanted
    from context_engine.audit.ledger.erase import erase as erase_from

    with opened_ledger(at) as opened:
        ledger = opened.ledger
        if callers and (missing := missing_keys(ledger)):
            raise AuditError(
                f"records under the key {', '.join(missing)} cannot be matched with a name, so nothing was erased: "
                f"give the key ({AUDIT_FORMER_KEYS}). If it is lost, name the records: --query ID"
            )
        wanted = Wanted(
            record_ids=queries,
            # A caller may have asked under a former key, or before there was a key.
            callers=tuple(each.of_caller(name) for name in callers for each in ledger_pseudonyms(ledger)),
            texts=tuple(text.lower() for text in texts),
            documents=() if document is None else ((document, version),),
            sources=jobs,
        )
        erase_wanted = partial(
            erase_from, ledger, wanted, reason=reason or _TRIAL, by=by or _login(), clock=ledger.clock
        )
        erased, judged = erase_wanted(dry_run=True), _judged(opened, wanted, dry_run=True)
        if not dry_run:
            if erased.addenda or judged:
                make_sure(f"Erase {_what(erased, judged)}?", yes=yes)
            with busy("Erasing …", quiet=True):
                judged = _judged(opened, wanted, dry_run=False)
                erased = erase_wanted(dry_run=False)
            drop_kept_answers(opened.context.setup, ledger.clock)
    if as_json:
        publish({"dry_run": dry_run, **erased._asdict(), "judgements": judged})
    _report_erased(erased, judged, dry_run=dry_run, as_json=as_json)


def drop_kept_answers(setup: Setup, clock: Clock) -> None:
    """Delete the answers that replicas share; what was deleted before has made them, and those in memory, unusable."""
    from context_engine.wiring.build import open_shared_cache

    shared = open_shared_cache(setup, clock)
    if shared is None:
        return
    with closing(shared):
        try:
            shared.drop()
        except StoreError as error:
            note(f"{error}: no search uses them any more, and each ends with its lifetime.", style="yellow")


def _judged(opened: OpenLedger, wanted: Wanted, *, dry_run: bool) -> int:
    """Erase the judgements by the callers and those of the searches whose question is erased; return how many."""
    from context_engine.service.judgements import erase_judgements_of

    callers, record_ids = frozenset(wanted.callers), frozenset(wanted.record_ids)
    return erase_judgements_of(opened.context.data_dir, opened.ledger, callers, record_ids, dry_run=dry_run)


def _what(erased: Erased, judged: int) -> str:
    counts = ((erased.questions, "question"), (erased.answers, "answer"), (erased.texts, "text"))
    parts = [counted(count, noun) for count, noun in counts if count]
    parts += ["chunk metadata"] if erased.cards and not parts else []
    of_records = [f"{' and '.join(parts)} of {counted(erased.records, 'record')}"] if parts else []
    return " and ".join([*of_records, *([counted(judged, "judgement")] if judged else [])])


def _report_erased(erased: Erased, judged: int, *, dry_run: bool, as_json: bool) -> None:
    if not as_json:
        if not erased.addenda and not judged:
            outcome("nothing to erase", "the ledger does not have it, or it was erased before")
        else:
            outcome("would be erased" if dry_run else "erased", _what(erased, judged))
    if dry_run:
        return
    if erased.overwritten is None:
        note(
            "PostgreSQL keeps deleted rows until it is vacuumed: run 'VACUUM FULL addendum'. WAL archives, replicas "
            "and backups keep them until they are recycled.",
            style="yellow",
        )
    elif not erased.overwritten:
        note(
            "The file could not be rewritten while others use it, and may contain copies in unused pages: run the same "
            "command again.",
            style="yellow",
        )
    elif erased.addenda:
        note("Backups of the ledger keep the erased data until they are recycled.")
    if erased.texts:
        note("A text that is still in a source is recorded again when a search finds it.")


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"
