"""What `doctor` checks beside the sources: models, adapters, privacy, audit and service."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.text import Text

from context_engine.apps.cli.console import clean
from context_engine.apps.cli.context import CliContext
from context_engine.apps.cli.kb.adapter import adapter_lines
from context_engine.apps.cli.words import counted
from context_engine.core.concurrency.calls import Busy, DeadlineExceeded, call_within
from context_engine.core.models import Chunk, scorer_name, utc_text
from context_engine.errors import ConfigError, ContextEngineError, StoreError

if TYPE_CHECKING:
    from context_engine.core.models import StoredAdapter
    from context_engine.core.protocols import Reranker
    from context_engine.wiring.audit_report import AuditReport, LedgerState
    from context_engine.wiring.callers import Openings
    from context_engine.wiring.models import Models
    from context_engine.wiring.privacy import Masking
    from context_engine.wiring.setup import Setup


logger = logging.getLogger(__name__)
MODEL_S: Final = 120.0
"""Large models take their time to load."""

_WORD: Final = "approval"
_PASSAGES: Final = ("The committee approves a new product.", "Lunch is at noon.")


class ModelReport(NamedTuple):
    """What came of trying one model."""

    kind: str
    name: str
    problem: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it can be used."""
        return self.problem is None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {**self._asdict(), "ok": self.ok}


def model_reports(setup: Setup, models: Models) -> Iterator[ModelReport]:
    """Try the embedder and the rerankers that the settings name; nothing is yielded where they name none."""
    values = setup.resolver.base().values
    if values.embedder is not None:
        yield ModelReport("embedder", values.embedder, _tried(lambda: _embeds(models)))
    if values.reranker != "noop" and values.reranking_enabled:
        yield ModelReport("reranker", values.reranker, _tried(lambda: _reranks(models.reranker())))
    for name in values.rerankers if values.reranking_enabled else ():
        yield ModelReport("reranker", name, _tried(partial(_reranks_named, models, name)))


def _embeds(models: Models) -> str | None:
    embedder = models.embedder()
    if embedder is None:
        return None
    length = len(embedder.embed_query(_WORD))
    return None if length == embedder.dimension > 0 else f"gave {length} numbers, not {embedder.dimension}"


def _reranks_named(models: Models, name: str) -> str | None:
    return _reranks(models.rerankers()[name])


def _reranks(reranker: Reranker | None) -> str | None:
    if reranker is None:
        return None
    scores = reranker.rerank(_WORD, [Chunk(content=text) for text in _PASSAGES])
    scored = _PASSAGES if scores is None else list(scores)
    return None if len(scored) == len(_PASSAGES) else f"gave {len(scored)} scores for {len(_PASSAGES)} passages"


def _tried(try_it: Callable[[], str | None]) -> str | None:
    """Return what is wrong, None if nothing is; a model that hangs holds up neither the next nor the end."""

    def problem() -> str | None:
        try:
            return try_it()
        except ContextEngineError as error:
            return str(error)
        except BaseException as error:  # its text may hold secrets
            logger.debug("a model raised", exc_info=error)
            return f"failed with {type(error).__name__} (its text is in the debug log)"

    try:
        return call_within(MODEL_S, problem, name="doctor-model")
    except DeadlineExceeded:
        return f"no answer within {MODEL_S:g} s"
    except Busy as busy:
        return str(busy)


def adapter_report(context: CliContext, only: str | None) -> list[StoredAdapter]:
    """Return the adapters that the embedded base keeps for the domains that there are; of one that cannot be read none.

    Args:
        only: of this domain alone; None: of all.
    """
    from context_engine.wiring.embedded_base import base_as_it_is, base_path

    names = context.setup.registry.domains
    try:
        with base_as_it_is(base_path(context.data_dir)) as base:
            stored = base.adapters() if base.exists() else []
    except StoreError:  # its sources have said so
        return []
    return [adapter for adapter in stored if adapter.domain in names and only in (None, adapter.domain)]


def blend_notes(context: CliContext, adapters: Sequence[StoredAdapter], only: str | None) -> Iterator[str]:
    """Yield the domains whose learnt blend is not used, for the base has its cosines from other scorers.

    Args:
        found: from `adapter_report`.
        only: of this domain alone; None: of all.
    """
    from context_engine.wiring.embedded_base import base_as_it_is, base_path

    try:
        with base_as_it_is(base_path(context.data_dir)) as base:
            model_id = base.stats().model_id if base.exists() else None
    except StoreError:  # its sources have said so
        return
    choice = context.setup.resolver.base().values.adapter
    for name, spec in sorted(context.setup.registry.domains.items()):
        blend = context.setup.resolver.base(spec).values.learnt_blend
        if model_id is None or only not in (None, name) or blend is None or blend.cosine is None:
            continue
        in_force = [
            adapter.adapter_id
            for adapter in adapters
            if adapter.domain == name and adapter.in_force and not adapter.problem
        ]
        used = in_force if choice == "auto" else [choice] if choice != "off" else []
        scorers = {scorer_name(model_id, adapter_id) for adapter_id in used or (None,)}
        if blend.cosine not in scorers:
            yield (
                f"learnt_blend of {name} is not used: it was learnt with cosines by {blend.cosine}, and they are by "
                f"{', '.join(sorted(scorers))}: switch the adapter ('context-engine kb adapter list'), or learn it anew"
            )


def adapter_text(context: CliContext, adapters: Sequence[StoredAdapter]) -> Iterator[Text]:
    """Yield a line for each domain that has adapters, and what the settings make of them."""
    choice = context.setup.resolver.base().values.adapter
    for name, state in adapter_lines(adapters):
        yield Text(clean(f"{name}: {state}"), "dim")
    if adapters and choice != "auto":
        yield Text(clean(f"! the setting adapter = {choice} overrides what is in force"), "yellow")


class PrivacyReport(NamedTuple):
    """What is masked where; `problem` says why nothing can be, so that the domains concerned are not searched."""

    masking: Masking
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {**self.masking._asdict(), "problem": self.problem}


def privacy_report(setup: Setup) -> PrivacyReport:
    """Return what is masked where; where anything is, whether it can be is tried."""
    masking = setup.masking()
    try:
        if masking.on:
            setup.mask().opened()
    except ConfigError as error:
        return PrivacyReport(masking, str(error))
    return PrivacyReport(masking)


def privacy_lines(report: PrivacyReport) -> Iterator[Text]:
    """Yield what a person should know, a line each."""
    masking = report.masking
    if not masking.on:
        yield Text("personal data is masked nowhere", "dim")
        return
    outputs = (
        f"contexts of {', '.join(map(clean, masking.contexts))}" if masking.contexts else "",
        f"kept questions of {', '.join(map(clean, masking.stored_queries))}" if masking.stored_queries else "",
        "logs" if masking.logs else "",
    )
    where = "; ".join(one for one in outputs if one)
    key = f"key of {masking.key}" if masking.key else "a random key of each process"
    yield Text(f"personal data ({', '.join(map(clean, masking.kinds))}) is masked in {where}; {key}", "dim")
    if report.problem is not None:
        yield Text(f"✗ personal data cannot be masked, so what should be is refused: {clean(report.problem)}", "red")


def audit_summary(report: AuditReport) -> str:
    """Return in one line whether searches are recorded, and where."""
    if report.ledger is None:
        return report.mode if report.problem is None else f"{report.mode}: {report.problem}"
    return f"{report.mode}, in {report.ledger}, " + (f"signed by {report.key}" if report.key else "not signed")


def audit_lines(report: AuditReport) -> Iterator[Text]:
    """Yield what a person should know, a line each."""
    if report.ledger is None and report.problem is None:
        yield Text("searches are not recorded (audit_mode)", "dim")
        return
    state = "nothing is recorded yet" if report.state is None else _held(report.state)
    if report.problem is None:
        yield Text(f"audit: {clean(audit_summary(report))}; {state}", "dim")
    else:
        consequence = "no answer is given" if report.mode == "required" else "answers are given unrecorded"
        yield Text(f"✗ nothing can be recorded, so {consequence}: {clean(report.problem)}", "red")
    for one in report.notices:
        yield Text(f"! {clean(one.message)}", "yellow")


def _held(state: LedgerState) -> str:
    records = counted(state.records, "record") + (f" and {state.pending} waiting" if state.pending else "")
    if state.checkpoint is None:
        return f"{records}, no checkpoint"
    written = utc_text(datetime.fromtimestamp(int(state.checkpoint.written), UTC))
    return f"{records}, the last checkpoint at {state.checkpoint.size} of {written}"


class ServiceReport(NamedTuple):
    """What opens the service.

    Attributes:
        opened: what does; None where it cannot be told.
        problem: why the service would not start.
        keys_problem: why the keys of the identity provider cannot be had now; None where they can, or there is none.
    """

    opened: Openings | None
    problem: str | None = None
    keys_problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        opened = None if self.opened is None else self.opened._asdict()
        return {"opened_by": opened, "problem": self.problem, "keys_problem": self.keys_problem}


def service_report(context: CliContext) -> ServiceReport:
    """Return what opens the service of a configuration; an identity provider is asked for its keys."""
    from context_engine.wiring.callers import openings, unreachable_keys

    try:
        opened = openings(context.setup, context.data_dir, datetime.now(UTC))
    except ConfigError as error:
        return ServiceReport(None, str(error))
    return ServiceReport(opened, keys_problem=unreachable_keys(context.setup))


def service_lines(report: ServiceReport) -> Iterator[Text]:
    """Yield what a person should know, a line each."""
    if report.opened is None:
        yield Text(f"✗ the service would not start: {clean(report.problem or '')}", "red")
        return
    yield Text(f"service: {clean(_opened_by(report.opened))}", "dim")
    if report.keys_problem is not None:
        warning = f"the keys of the identity provider cannot be had, so its tokens open nothing: {report.keys_problem}"
        yield Text(f"! {clean(warning)}", "yellow")


def _opened_by(opened: Openings) -> str:
    tokens = opened.stored + opened.in_file
    means = [
        *(["the API token"] if opened.api_token else []),
        *([counted(tokens, "token")] if tokens else []),
        *([f"access tokens of {opened.issuer}"] if opened.issuer is not None else []),
    ]
    expired = f" ({counted(opened.expired, 'token')} expired)" if opened.expired else ""
    return ("opened by " + ", ".join(means) if means else "nothing opens it") + expired
