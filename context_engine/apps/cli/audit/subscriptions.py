"""`audit subscriptions`, and `audit impact --subscribe`: tell somebody when a document or an answer changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from context_engine.apps.cli.app import DEGRADED
from context_engine.apps.cli.audit.ledger import LedgerLocation
from context_engine.apps.cli.console import note, outcome, print_line, print_table, publish
from context_engine.apps.cli.context import (
    CliContext,
    ConfigLocation,
    only_domain,
    operator_context,
    os_user,
    with_location,
)
from context_engine.apps.cli.options import with_json
from context_engine.core.text import counted
from context_engine.errors import ContextEngineError, InvalidRequest, nearest
from context_engine.insight.subscriptions import change_words

if TYPE_CHECKING:
    from context_engine.insight.subscriptions import KeptSubscription, Subscription
    from context_engine.insight.watching import Looked

SUBSCRIPTIONS: Final = """\b
Examples:
  context-engine audit subscriptions
  context-engine audit subscriptions --check
  context-engine audit subscriptions --cancel 5d2c9e0f41ab

\b
Exit code: 0, 3 with --check if a subscription could not be looked at, 1 failure, 2 usage or configuration.
"""


@click.command(epilog=SUBSCRIPTIONS)
@click.option("--check", is_flag=True, help="Look at every subscription now, and send what has changed.")
@click.option("--cancel", "cancelled", metavar="ID", help="End a subscription.")
@with_json
@with_location
def subscriptions(location: ConfigLocation, check: bool, cancelled: str | None, as_json: bool) -> None:
    """List the subscriptions that 'audit impact --subscribe' made, each with its last change.

    An ingest looks at those of its sources by itself. For sources that change elsewhere, such as Dify, run it with
    --check from time to time.
    """
    from context_engine.insight.subscriptions import FILE, kept_subscriptions
    from context_engine.insight.watching import look_at_all

    if check and cancelled is not None:
        raise click.UsageError("Give one of --check and --cancel.")
    context = operator_context(location)
    file = context.data_dir / FILE
    if cancelled is not None:
        _cancel(file, cancelled)
    elif check:
        looked = look_at_all(context.setup, context.data_dir)
        if as_json:
            publish({"looked": [each.to_dict() for each in looked]})
        else:
            print_changes(looked)
            note(f"{counted(len(looked), 'subscription')} looked at")
        click.get_current_context().exit(DEGRADED if any(each.problem for each in looked) else 0)
    else:
        _list(list(kept_subscriptions(file).values()), as_json=as_json)


def subscribe_to(
    at: LedgerLocation,
    domain: str | None,
    question: str | None,
    persona: str | None,
    *,
    document: str | None,
    source: str | None,
    **others: str | None,
) -> None:
    """Subscribe to a document or to a question.

    Raises:
        UsageError: the options name neither or both.
        InvalidRequest: the principal can read no such document.
    """
    if (document is None) == (question is None) or any(value is not None for value in others.values()):
        raise click.UsageError("--subscribe takes --document ID (and --source ID), or --question TEXT.")
    if persona is not None and question is None:
        raise click.UsageError("--persona goes with --question.")
    from context_engine.insight.watching import subscribe

    context = operator_context(at.configuration)
    kept = subscribe(
        context.setup,
        context.data_dir,
        context.principal,
        by=os_user(),
        domain=only_domain(context.setup.registry, domain),
        source_id=source or "",
        document_id=document or "",
        query=question or "",
        persona=persona or "",
    )
    outcome("subscribed", f"{kept.subscription.subscription_id}: {_summary(kept.subscription)}")
    if not context.setup.resolver.base().values.event_sinks:
        note("no event_sinks are configured, so only ingest and --check will tell of a change", style="yellow")


def look_after_writing(context: CliContext, source_ids: Sequence[str]) -> list[Looked]:
    """Look at the subscriptions to sources that were written to; a failure is noted and does not fail the command."""
    from context_engine.insight.watching import look_at_all

    try:
        return look_at_all(context.setup, context.data_dir, frozenset(source_ids))
    except ContextEngineError as error:
        again = "'context-engine audit subscriptions --check' looks again"
        note(f"subscriptions were not looked at: {error}; {again}", style="yellow")
        return []


def print_changes(looked: Iterable[Looked]) -> None:
    """Print what has changed, and what could not be looked at."""
    for each in looked:
        name = f"{each.subscription.subscription_id}  {_summary(each.subscription)}"
        if each.event is not None:
            print_line(f"{name}: {change_words(each.event)}", "yellow")
        if each.problem:
            note(f"{name}: {each.problem}", style="red")


def _cancel(file: Path, subscription_id: str) -> None:
    from context_engine.insight.subscriptions import cancel, kept_subscriptions, locked

    with locked(file):
        known = kept_subscriptions(file)
        if subscription_id not in known:
            raise InvalidRequest(f"there is no subscription {subscription_id!r}.{nearest(subscription_id, known)}")
        cancel(file, subscription_id)
    outcome("cancelled", f"{subscription_id}: {_summary(known[subscription_id].subscription)}")


def _list(kept: Sequence[KeptSubscription], *, as_json: bool) -> None:
    if as_json:
        publish({"subscriptions": [each.to_dict() for each in kept]})
        return
    rows = [
        (
            each.subscription.subscription_id,
            _summary(each.subscription),
            each.subscription.domain,
            each.subscription.principal,
            each.changes,
            "" if each.event is None else f"{each.event.time:%Y-%m-%d %H:%M} {change_words(each.event)}",
        )
        for each in kept
    ]
    if rows:
        print_table(("!id", "document or question", "domain", "principal", ">changes", "last change"), rows)
    note(counted(len(rows), "subscription"))
    if undelivered := sum(not each.delivered for each in kept):
        note(f"{counted(undelivered, 'change')} not delivered yet: --check sends them again", style="yellow")


def _summary(subscription: Subscription) -> str:
    return f'"{subscription.query}"' if subscription.query else subscription.subject
