"""Checks of `doctor` other than sources: models, adapters, privacy, audit and service."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx
from rich.text import Text

from context_engine.apps.cli.context import CliContext
from context_engine.apps.cli.kb.adapter import adapter_lines
from context_engine.apps.cli.words import counted
from context_engine.apps.web.inert import clean
from context_engine.core.concurrency.awaiting import awaited
from context_engine.core.concurrency.calls import Busy, DeadlineExceeded, call_within
from context_engine.core.models import ChatMessage, Chunk, scorer_name, utc_text
from context_engine.errors import ConfigError, ContextEngineError, StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from context_engine.core.models import ScopeThreshold, StoredAdapter
    from context_engine.core.protocols import ChatModel, Reranker
    from context_engine.wiring.audit_report import AuditReport, LedgerState
    from context_engine.wiring.callers import Openings
    from context_engine.wiring.models import Models
    from context_engine.wiring.privacy import Masking
    from context_engine.wiring.setup import Setup

logger = logging.getLogger(__name__)
MODEL_S: Final = 120.0  # large models load slowly
_MEASURED_S: Final = 0.5
_MARGIN: Final = 1.5
_WORD: Final = "approval"
_PASSAGES: Final = ("The committee approves a new product.", "Lunch is at noon.")


class ModelReport(NamedTuple):
    """The test of one model; `problem` is None if it works."""

    kind: str
    name: str
    problem: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the model works."""
        return self.problem is None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {**self._asdict(), "ok": self.ok}


def model_reports(setup: Setup, models: Models) -> Iterator[ModelReport]:
    """Test the embedder, the chat model and the rerankers that the settings name."""
    values = setup.resolver.base().values
    if values.embedder is not None:
        yield ModelReport("embedder", values.embedder, _tried(lambda: _embeds(models)))
    if values.chat_model is not None:
        yield ModelReport("chat model", values.chat_model, _tried(lambda: _answers(models.chat_model())))
    if not values.reranking_enabled:
        return
    if values.reranker != "noop":
        yield ModelReport("reranker", values.reranker, _tried(lambda: _reranks(models.reranker())))
    for name in values.rerankers:
        yield ModelReport("reranker", name, _tried(partial(_reranks_named, models, name)))


def _embeds(models: Models) -> str | None:
    embedder = models.embedder()
    if embedder is None:
        return None
    length = len(embedder.embed_query(_WORD))
    return None if length == embedder.dimension > 0 else f"gave {length} numbers, not {embedder.dimension}"


def _answers(model: ChatModel | None) -> str | None:
    """Ask for one token, which costs next to nothing; an answer without text is one too."""
    for _part in () if model is None else model.chat([ChatMessage("user", _WORD)], max_tokens=1):
        pass
    return None


def _reranks_named(models: Models, name: str) -> str | None:
    return _reranks(models.rerankers()[name])


def _reranks(reranker: Reranker | None) -> str | None:
    if reranker is None:
        return None
    scores = awaited(reranker.rerank(_WORD, [Chunk(content=text) for text in _PASSAGES]))
    scored = _PASSAGES if scores is None else list(scores)
    return None if len(scored) == len(_PASSAGES) else f"gave {len(scored)} scores for {len(_PASSAGES)} passages"


def _tried(test: Callable[[], str | None]) -> str | None:
    """Return the problem that a test finds, or None; the test of a hanging model ends after `MODEL_S` seconds."""

    def problem() -> str | None:
        try:
            return test()
        except ContextEngineError as error:
            return str(error)
        except BaseException as error:  # its text may contain secrets
            logger.debug("a model raised", exc_info=error)
            return f"failed with {type(error).__name__} (its text is in the debug log)"

    try:
        return call_within(MODEL_S, problem, name="doctor-model")
    except DeadlineExceeded:
        return f"no answer within {MODEL_S:g} s"
    except Busy as busy:
        return str(busy)


def stored_adapters(context: CliContext, only: str | None) -> tuple[list[StoredAdapter], str | None]:
    """Return the adapters stored for registered domains, and the id of the base's embedding model.

    An unreadable base counts as empty.

    Args:
        only: this domain only; None: all domains.
    """
    from context_engine.wiring.embedded_base import base_as_it_is, base_path

    stored: Sequence[StoredAdapter] = ()
    model_id = None
    with suppress(StoreError), base_as_it_is(base_path(context.data_dir)) as base:  # its sources report the error
        if base.exists():
            stored = base.adapters()
            model_id = base.stats().model_id
    names = context.setup.registry.domains
    return [adapter for adapter in stored if adapter.domain in names and only in (None, adapter.domain)], model_id


def thresholds(setup: Setup, data_dir: Path | None, only: str | None = None) -> dict[str, ScopeThreshold]:
    """Return the scope threshold in force for each domain, or for one."""
    from context_engine.wiring.scope import scope_in_force

    specs = {name: spec for name, spec in sorted(setup.registry.domains.items()) if only in (None, name)}
    return {name: scope_in_force(setup, spec, data_dir) for name, spec in specs.items()}


def blend_notes(
    context: CliContext, adapters: Sequence[StoredAdapter], model_id: str | None, only: str | None
) -> Iterator[str]:
    """Yield a note for each domain whose learnt blend is unused because other scorers computed the cosines.

    Args:
        adapters, model_id: from `stored_adapters`.
        only: this domain only; None: all domains.
    """
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
    """Yield a line for each domain with adapters, and a warning if a setting overrides them."""
    choice = context.setup.resolver.base().values.adapter
    for name, state in adapter_lines(adapters):
        yield Text(clean(f"{name}: {state}"), "dim")
    if adapters and choice != "auto":
        yield Text(clean(f"! the setting adapter = {choice} overrides the adapter in force"), "yellow")


class PrivacyReport(NamedTuple):
    """Where personal data is masked; `problem` says why masking fails, which blocks searches of these domains."""

    masking: Masking
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {**self.masking._asdict(), "problem": self.problem}


def privacy_report(setup: Setup) -> PrivacyReport:
    """Return where personal data is masked, and test the masking if it is on anywhere."""
    masking = setup.masking()
    try:
        if masking.on:
            setup.mask().opened()
    except ConfigError as error:
        return PrivacyReport(masking, str(error))
    return PrivacyReport(masking)


def privacy_lines(report: PrivacyReport) -> Iterator[Text]:
    """Yield the lines that `doctor` prints about masking."""
    masking = report.masking
    if not masking.on:
        yield Text("personal data is not masked (settings mask_contexts, mask_stored_queries, mask_logs)", "dim")
        return
    outputs = (
        f"contexts of {', '.join(map(clean, masking.contexts))}" if masking.contexts else "",
        f"stored questions of {', '.join(map(clean, masking.stored_queries))}" if masking.stored_queries else "",
        "logs" if masking.logs else "",
    )
    where = "; ".join(filter(None, outputs))
    key = f"key from {masking.key}" if masking.key else "a random key for each process"
    yield Text(f"personal data ({', '.join(map(clean, masking.kinds))}) is masked in {where}; {key}", "dim")
    if report.problem is not None:
        yield Text(f"✗ masking does not work, so texts to be masked are withheld: {clean(report.problem)}", "red")


def audit_summary(report: AuditReport) -> str:
    """Return in one line whether and where searches are recorded."""
    if report.ledger is None:
        return report.mode if report.problem is None else f"{report.mode}: {report.problem}"
    return f"{report.mode}, in {report.ledger}, " + (f"signed by {report.key}" if report.key else "not signed")


def audit_lines(report: AuditReport) -> Iterator[Text]:
    """Yield the lines that `doctor` prints about the record of searches."""
    if report.ledger is None and report.problem is None:
        yield Text("searches are not recorded (setting audit_mode)", "dim")
        return
    state = "no records yet" if report.state is None else _ledger_state(report.state)
    if report.problem is None:
        yield Text(f"audit: {clean(audit_summary(report))}; {state}", "dim")
    else:
        consequence = "searches are refused" if report.mode == "required" else "searches are not recorded"
        yield Text(f"✗ the audit ledger cannot be used, so {consequence}: {clean(report.problem)}", "red")
    for notice in report.notices:
        yield Text(f"! {clean(notice.message)}", "yellow")


def _ledger_state(state: LedgerState) -> str:
    records = counted(state.records, "record") + (f" and {state.pending} waiting" if state.pending else "")
    if state.checkpoint is None:
        return f"{records}, no checkpoint"
    written = utc_text(datetime.fromtimestamp(int(state.checkpoint.written), UTC))
    return f"{records}, last checkpoint at record {state.checkpoint.size} ({written})"


class ServiceReport(NamedTuple):
    """Who may use the HTTP service.

    Attributes:
        opened: the tokens that it accepts; None if the service would not start.
        problem: why it would not start.
        keys_problem: why the identity provider's keys cannot be fetched; None if they can, or without a provider.
        rate_per_minute: the requests that a caller may make; 0: any number.
        searches_per_minute: the searches of one caller that this machine was measured to serve; None: not measured.
    """

    opened: Openings | None
    problem: str | None = None
    keys_problem: str | None = None
    rate_per_minute: int = 0
    searches_per_minute: int | None = None

    @property
    def rate_is_low(self) -> bool:
        """Whether a caller of an idle service is turned away; the margin is for the network, which is not measured."""
        return 0 < _MARGIN * self.rate_per_minute < (self.searches_per_minute or 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        values = self._asdict()
        opened = values.pop("opened")
        return {"opened_by": None if opened is None else opened._asdict(), **values}


def service_report(context: CliContext, query: str | None) -> ServiceReport:
    """Return which tokens the service accepts, and try to fetch the keys of the identity provider.

    Args:
        query: a question to measure the rate of searches with; None: do not measure it.
    """
    from context_engine.wiring.callers import openings, unreachable_keys

    try:
        opened = openings(context.setup, context.data_dir, datetime.now(UTC))
    except ConfigError as error:
        return ServiceReport(None, str(error))
    return ServiceReport(
        opened,
        keys_problem=unreachable_keys(context.setup),
        rate_per_minute=context.setup.resolver.base().values.server_rate_per_minute,
        searches_per_minute=None if query is None else _searches_per_minute(context, query),
    )


def _searches_per_minute(context: CliContext, query: str) -> int | None:
    """Measure the service without its network, with a domain whose sources are all embedded; None if there is none.

    Not measured with a model, which may cost money at every call, nor without the extra `server`.
    """
    from context_engine.wiring.embedded_base import in_embedded_base

    values, domains = context.setup.resolver.base().values, context.setup.registry.domains.values()
    has_model = values.embedder is not None or values.reranker != "noop" or values.query_refiner is not None
    domain = next((spec for spec in domains if all(map(in_embedded_base, spec.sources))), None)
    if domain is None or has_model or not all(map(find_spec, ("fastapi", "prometheus_client"))):
        return None
    from context_engine.apps.server.app import create_app
    from context_engine.apps.server.service import Service
    from context_engine.service.callers import NoAuthentication
    from context_engine.service.deployment import LiveDeployment, open_deployment

    setup = context.setup.with_pipeline({"server_rate_per_minute": 0, "audit_mode": "off"})
    live = LiveDeployment(lambda: open_deployment(setup, data_dir=context.data_dir))
    service = Service(live, NoAuthentication())
    try:
        return asyncio.run(_asked_per_minute(create_app(service), {"query": query, "domain": domain.domain}))
    finally:
        service.close()


async def _asked_per_minute(app: Any, question: Mapping[str, str]) -> int | None:
    """Ask an app one question after the other, each a little different; None if it does not answer."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        count, begun = -1, time.monotonic()
        while (elapsed_s := time.monotonic() - begun) < _MEASURED_S:
            asked = {**question, "query": f"{question['query']} {count}"}
            if (await client.post("/api/v1/rag/query", json=asked)).status_code != 200:
                return None
            if count < 0:  # the first opened the base
                begun = time.monotonic()
            count += 1
    return int(60 * count / elapsed_s)


def service_lines(report: ServiceReport) -> Iterator[Text]:
    """Yield the lines that `doctor` prints about the service."""
    opened = report.opened
    if opened is None:
        yield Text(f"✗ the service would not start: {clean(report.problem or '')}", "red")
        return
    tokens = opened.stored + opened.in_file
    accepted = [
        *(["the API token"] if opened.api_token else []),
        *([counted(tokens, "token")] if tokens else []),
        *([f"access tokens of {opened.issuer}"] if opened.issuer is not None else []),
    ]
    expired = f" ({counted(opened.expired, 'token')} expired)" if opened.expired else ""
    text = f"accepts {', '.join(accepted)}" if accepted else "no token yet; 'context-engine token add NAME' makes one"
    yield Text(f"HTTP service: {clean(text)}{expired}", "dim")
    if report.rate_is_low:
        warning = (
            f"server_rate_per_minute allows a caller {report.rate_per_minute} requests a minute, and this machine "
            f"serves {report.searches_per_minute} searches one after the other: a caller is turned away while the "
            "service is idle"
        )
        yield Text(f"! {warning}", "yellow")
    if report.keys_problem is not None:
        warning = f"the identity provider's keys cannot be fetched, so its tokens are refused: {report.keys_problem}"
        yield Text(f"! {clean(warning)}", "yellow")
