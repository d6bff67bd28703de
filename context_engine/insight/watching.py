"""Compares what each subscription shows now with its last look, and sends an event if that has changed.

A new state is written together with its event before the event is sent. A look that was cut off after that sends the
same event again, by which a receiver recognises it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_engine.core.engine import Engine
from context_engine.core.models import NOBODY, Event, FetchRequest, Principal, SearchRequest, Status, utc_text
from context_engine.core.policy.trust import in_force, superseded
from context_engine.errors import (
    AuditError,
    ConfigError,
    ContextEngineError,
    InvalidRequest,
    SourceUnavailable,
    nearest,
)
from context_engine.insight.rehearsal import AnswerChange, AnswerState, AnswerText, answer_text, compared, shown_answer
from context_engine.insight.subscriptions import (
    FILE,
    KeptSubscription,
    Subscription,
    keep,
    kept_subscriptions,
    locked,
    new_id,
)
from context_engine.settings.principals import Principals
from context_engine.wiring.audit import open_ledger
from context_engine.wiring.build import build_engine
from context_engine.wiring.events import open_events
from context_engine.wiring.setup import Setup

_MOST_NAMED: Final = 100
_FETCH_S: Final = 60.0
ShowingRecords = Callable[[str, Sequence[AnswerText]], Sequence[str] | None]
"""(source id, texts) -> ids of the records that showed one of the texts; None if nothing is recorded."""


class Looked(NamedTuple):
    """The result of a look at a subscription.

    Attributes:
        event: what has changed, or what an earlier look could not deliver; None if there is neither.
        problem: why it could not be looked at, or the event not be delivered; "" if all went well.
    """

    subscription: Subscription
    event: Event | None
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        event = None if self.event is None else self.event.to_dict()
        return {
            "subscription": self.subscription.subscription_id,
            "event": event,
            "problem": self.problem or None,
        }


def look_at_all(setup: Setup, data_dir: Path, sources: Collection[str] | None = None) -> list[Looked]:
    """Look at the subscriptions that a change of sources may touch, and send the events.

    Args:
        sources: ids of the sources that have changed; None: look at every subscription.

    Raises:
        ConfigError: subscriptions cannot be read or written, or an event sink cannot be opened.
        StoreLocked: another process is looking at them.
    """
    file = Path(data_dir) / FILE
    if not file.exists():
        return []
    with locked(file), ExitStack() as stack:
        touched = [kept for kept in kept_subscriptions(file).values() if _is_touched(kept, setup, sources)]
        if not touched:
            return []
        engine = stack.enter_context(closing(build_engine(setup, data_dir=data_dir, recorded=False)))
        events = stack.enter_context(closing(open_events(setup, data_dir)))
        showing = stack.enter_context(_showing_records(setup, data_dir))
        watch = Watch(file, lambda each: shown_now(engine, setup.config.principals, each), showing, events.send)
        return [watch.look(kept) for kept in touched]


def subscribe(setup: Setup, data_dir: Path, principal: Principal, *, by: str, **about: str) -> KeptSubscription:
    """Keep a new subscription with what it shows now.

    Args:
        principal: whose rights it has.
        by: the user who makes it.
        about: the other fields of a `Subscription`.

    Raises:
        InvalidRequest: the principal can read no such document.
    """
    at = utc_text(datetime.now(UTC).replace(microsecond=0))
    made = Subscription(new_id(), principal=principal.id, by=by, at=at, **about)
    with closing(build_engine(setup, data_dir=data_dir, recorded=False)) as engine:
        if made.document_id:
            made = made._replace(source_id=_source_of(setup, principal, engine, made))
        kept = KeptSubscription(made, shown_now(engine, setup.config.principals, made))
    file = data_dir / FILE
    with locked(file):
        keep(file, kept)
    return kept


def _source_of(setup: Setup, principal: Principal, engine: Engine, wanted: Subscription) -> str:
    """Return the source that holds a document.

    Raises:
        InvalidRequest: none that the principal can read does, or several do.
    """
    visible = setup.visible(principal).domain(wanted.domain)
    named = [source.id for source in visible.sources if wanted.source_id in ("", source.id)]
    if not named:
        known = [source.id for source in visible.sources]
        raise InvalidRequest(f"{wanted.domain} has no source {wanted.source_id!r}.{nearest(wanted.source_id, known)}")
    holding, problems = [], []
    for source_id in named:
        try:
            shown = shown_now(engine, setup.config.principals, wanted._replace(source_id=source_id))
            holding += [source_id] if shown.texts else []
        except ContextEngineError as error:
            problems.append(str(error))
    if len(holding) == 1:
        return holding[0]
    if holding:
        raise InvalidRequest(f"{' and '.join(holding)} have a document {wanted.document_id!r}: name one with --source")
    unread = f" ({'; '.join(problems)})" if problems else ""
    raise InvalidRequest(f"{wanted.domain} has no document {wanted.document_id!r} in force{unread}")


def shown_now(engine: Engine, principals: Principals, subscription: Subscription) -> AnswerState:
    """Return what a subscription shows now, with the rights that its principal has now.

    Raises:
        ContextEngineError: the principal is gone, a source does not answer, or the question cannot be asked.
    """
    principal = _principal(principals, subscription.principal)
    if subscription.query:
        return _asked(engine, subscription, principal)
    wanted = FetchRequest(domain=subscription.domain, document_ids=(subscription.document_id,), timeout_s=_FETCH_S)
    chunks = engine.fetch(subscription.source_id, wanted, principal)
    today = datetime.now(UTC).date()
    current_chunks = [(subscription.source_id, chunk) for chunk in chunks if in_force(chunk, today) is None]
    replaced = superseded(current_chunks, today=True)
    current = [chunk for index, (_, chunk) in enumerate(current_chunks) if index not in replaced]
    current.sort(key=lambda chunk: (chunk.document_version or "", chunk.position or 0, chunk.chunk_id))
    return AnswerState("", tuple(answer_text(subscription.source_id, chunk) for chunk in current))


@dataclass(frozen=True, slots=True)
class Watch:
    """Looks at subscriptions one by one.

    Attributes:
        file: where they are kept.
        shown: returns what a subscription shows now.
        showing: names the records that showed texts.
        send: delivers an event.
    """

    file: Path
    shown: Callable[[Subscription], AnswerState]
    showing: ShowingRecords
    send: Callable[[Event], None]

    def look(self, kept: KeptSubscription) -> Looked:
        """Compare a subscription with its last state; keep and send what has changed."""
        event = None if kept.delivered else kept.event
        try:
            if not kept.delivered:
                kept = self._delivered(kept)
            shown = self.shown(kept.subscription)
            change = event_of(kept, shown, self.showing, datetime.now(UTC))
            if change is not None:
                event, kept = (
                    change,
                    kept._replace(shown=shown, changes=kept.changes + 1, event=change, delivered=False),
                )
                keep(self.file, kept)
                self._delivered(kept)
        except ContextEngineError as error:
            return Looked(kept.subscription, event, str(error))
        return Looked(kept.subscription, event)

    def _delivered(self, kept: KeptSubscription) -> KeptSubscription:
        if kept.event is not None:
            self.send(kept.event)
        delivered = kept._replace(delivered=True)
        keep(self.file, delivered)
        return delivered


def event_of(kept: KeptSubscription, shown: AnswerState, showing: ShowingRecords, now: datetime) -> Event | None:
    """Return the event of the change since the last look; None if the same is shown.

    Its id is that of the subscription with the number of the change.
    """
    subscription = kept.subscription
    difference = _of_question(kept.shown, shown) if subscription.query else _of_document(kept, shown, showing)
    if difference is None:
        return None
    about = (
        ("domain", "principal", "query", "persona")
        if subscription.query
        else ("domain", "principal", "source_id", "document_id")
    )
    data = {"subscription": subscription.subscription_id, **{name: getattr(subscription, name) for name in about}}
    return Event(
        event_id=f"{subscription.subscription_id}-{kept.changes + 1}",
        kind="answer_changed" if subscription.query else "document_changed",
        subject=subscription.subscription_id,
        time=now,
        data={**data, **difference},
    )


def _of_question(before: AnswerState, after: AnswerState) -> dict[str, Any] | None:
    answer = compared(before, after)
    if answer.change is AnswerChange.SAME:
        return None
    return {
        "change": str(answer.change),
        "decisions": list(answer.decisions),
        "lost": _rows(answer.lost),
        "gained": _rows(answer.gained),
    }


def _of_document(kept: KeptSubscription, shown: AnswerState, showing: ShowingRecords) -> dict[str, Any] | None:
    before, after = kept.shown.texts, shown.texts
    blocks = SequenceMatcher(None, [text.sha256 for text in before], [text.sha256 for text in after], autojunk=False)
    added, removed, changed = list[AnswerText](), list[AnswerText](), list[tuple[AnswerText, AnswerText]]()
    for _, start, end, new_start, new_end in (block for block in blocks.get_opcodes() if block[0] != "equal"):
        pairs = list(zip(before[start:end], after[new_start:new_end]))
        changed += pairs
        removed += before[start + len(pairs) : end]
        added += after[new_start + len(pairs) : new_end]
    if not (added or removed or changed):
        return None
    old = [*removed, *(text for text, _ in changed)]
    records = showing(kept.subscription.source_id, old)
    answers = None if records is None else {"count": len(records), "record_ids": list(records[:_MOST_NAMED])}
    return {
        "added": _rows(added),
        "removed": _rows(removed),
        "changed": [{"before": first._asdict(), "after": second._asdict()} for first, second in changed],
        "answers_that_showed_it": answers,
    }


def _rows(texts: Sequence[AnswerText]) -> list[dict[str, Any]]:
    return [text._asdict() for text in texts]


def _is_touched(kept: KeptSubscription, setup: Setup, sources: Collection[str] | None) -> bool:
    subscription = kept.subscription
    if sources is None or not kept.delivered or subscription.source_id in sources:
        return True
    domain = setup.registry.domains.get(subscription.domain)
    return bool(subscription.query and domain is not None and any(source.id in sources for source in domain.sources))


def _principal(principals: Principals, name: str) -> Principal:
    if not name:
        return NOBODY
    if name not in principals.named:
        raise InvalidRequest(f"principal {name!r} is no longer in {principals.file}: cancel the subscription")
    return principals.named[name]


def _asked(engine: Engine, subscription: Subscription, principal: Principal) -> AnswerState:
    persona = subscription.persona or None
    request = SearchRequest(query=subscription.query, domain=subscription.domain, persona=persona, principal=principal)
    result = engine.search(request)
    if result.status is not Status.COMPLETE:
        problems = "; ".join(f"{source.source_id}: {source.problem}" for source in result.sources if source.problem)
        raise SourceUnavailable(f"the answer is incomplete and cannot be compared: {problems}")
    return shown_answer(result)


@contextmanager
def _showing_records(setup: Setup, data_dir: Path) -> Iterator[ShowingRecords]:
    """Yield what names the records that showed texts."""
    try:
        ledger = open_ledger(setup, data_dir, create=False)
    except (AuditError, ConfigError):
        yield lambda _source_id, _texts: None
        return
    from context_engine.audit.ledger.look_up import MentionCriteria

    def showing(source_id: str, texts: Sequence[AnswerText]) -> Sequence[str]:
        records: dict[str, None] = {}
        for text in texts:
            wanted = MentionCriteria(content_sha256=text.sha256, source_id=source_id, fates=("returned",))
            records |= dict.fromkeys(mention.record.record_id for mention in ledger.mentions(wanted))
        return list(records)

    with closing(ledger):
        ledger.integrate()
        yield showing
