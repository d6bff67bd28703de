"""What `doctor` prints about adapters, privacy, the audit ledger and the service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.text import Text

from context_engine.apps.cli.context import CliContext
from context_engine.apps.cli.kb.adapter import adapter_lines
from context_engine.apps.web.inert import clean
from context_engine.core.models import utc_text
from context_engine.core.text import counted
from context_engine.errors import ConfigError, JobsUnavailable, StoreError

if TYPE_CHECKING:
    from context_engine.core.models import StoredAdapter
    from context_engine.wiring.audit_report import AuditReport, LedgerState
    from context_engine.wiring.callers import Openings
    from context_engine.wiring.privacy import PrivacyReport

_MARGIN: Final = 1.5


def adapter_text(context: CliContext, adapters: Sequence[StoredAdapter]) -> Iterator[Text]:
    """Yield a line for each domain with adapters, and a warning if a setting overrides them."""
    choice = context.setup.resolver.base().values.adapter
    for name, state in adapter_lines(adapters):
        yield Text(clean(f"{name}: {state}"), "dim")
    if adapters and choice != "auto":
        yield Text(clean(f"! the setting adapter = {choice} overrides the adapter in force"), "yellow")


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


class JobsReport(NamedTuple):
    """Where jobs are kept.

    Attributes:
        connection: of the database; None: the data folder.
        problem: why they cannot be kept there; None if they can.
    """

    connection: str | None
    problem: str | None = None


def jobs_report(context: CliContext) -> JobsReport:
    """Return where jobs are kept, and try the database."""
    from context_engine.wiring.jobs import job_database

    connection = context.setup.resolver.base().values.jobs_connection
    try:
        database = job_database(context.setup)
        if database is not None:
            from context_engine.jobs.postgres_store import PostgresJobs

            PostgresJobs(database).check()
    except (ConfigError, JobsUnavailable) as error:
        return JobsReport(connection, str(error))
    return JobsReport(connection)


class CacheReport(NamedTuple):
    """The cache of answers that processes share.

    Attributes:
        shared: whether one is named.
        problem: why it cannot be used; None if it can.
    """

    shared: bool
    problem: str | None = None


def cache_report(context: CliContext) -> CacheReport:
    """Try the cache that processes share."""
    from context_engine.core.engine import SystemClock
    from context_engine.wiring.build import open_shared_cache

    try:
        cache = open_shared_cache(context.setup, SystemClock())
        if cache is None:
            return CacheReport(shared=False)
        with closing(cache):
            cache.check()
    except (ConfigError, StoreError) as error:
        return CacheReport(shared=True, problem=str(error))
    return CacheReport(shared=True)


def cache_lines(report: CacheReport) -> Iterator[Text]:
    """Yield the line that `doctor` prints about the cache; none if processes share none."""
    if report.problem is not None:
        yield Text(f"✗ processes share no answers: {clean(report.problem)}", "red")
    elif report.shared:
        yield Text("answers are shared in Redis", "dim")


def jobs_lines(report: JobsReport) -> Iterator[Text]:
    """Yield the line that `doctor` prints about jobs; none if they are kept in the data folder."""
    if report.problem is not None:
        yield Text(f"✗ no job can be kept: {clean(report.problem)}", "red")
    elif report.connection is not None:
        yield Text(f"jobs are kept in the database of connection {clean(report.connection)}", "dim")


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
    from context_engine.apps.server.rate_trial import searches_per_minute
    from context_engine.wiring.callers import openings, unreachable_keys

    try:
        opened = openings(context.setup, context.data_dir, datetime.now(UTC))
    except ConfigError as error:
        return ServiceReport(None, str(error))
    return ServiceReport(
        opened,
        keys_problem=unreachable_keys(context.setup),
        rate_per_minute=context.setup.resolver.base().values.server_rate_per_minute,
        searches_per_minute=None if query is None else searches_per_minute(context.setup, context.data_dir, query),
    )


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
