"""A close look at the datasets of a source: what an operator wants to know before a user asks."""

from __future__ import annotations

from typing import Final, NamedTuple

from context_engine.adapters.sources.dify.dataset import DatasetInfo
from context_engine.adapters.sources.dify.fanout import Ticket, ask_each
from context_engine.adapters.sources.dify.inventory import problems, take_stock
from context_engine.adapters.sources.dify.metadata import MARKED
from context_engine.adapters.sources.dify.method import choose
from context_engine.adapters.sources.dify.source import EXTERNAL, DifySource
from context_engine.adapters.sources.dify.writes import Writes
from context_engine.core.models import SourceQuery, messages
from context_engine.errors import SourceAuthError, SourceError, SourceForbidden, SourceNotFound

__all__ = ["STORES_QUERIES", "DatasetReport", "examine"]

STORES_QUERIES: Final = "Dify stores the text of every query it is asked, in its own database (dataset_queries)."
_TIME_S: Final = 20.0
_MOST_NAMED: Final = 5


class DatasetReport(NamedTuple):
    """What was found out about one dataset; None: not found out.

    Attributes:
        reachable, key_valid, found: how far it can be asked.
        documents: how many can be found in it.
        search_method: how it is searched.
        records: chunks that the sample query found.
        missing_metadata: names the manifest expects and the dataset does not have.
        problem: why it cannot be searched, and how to mend it.
        warnings: what should be known of it.
    """

    dataset_id: str
    name: str | None = None
    reachable: bool | None = None
    key_valid: bool | None = None
    found: bool | None = None
    indexing_technique: str | None = None
    documents: int | None = None
    search_method: str | None = None
    metadata: tuple[str, ...] = ()
    missing_metadata: tuple[str, ...] = ()
    records: int | None = None
    problem: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it can be searched."""
        return self.problem is None


def examine(source: DifySource, domain: str, sample: str | None) -> list[DatasetReport]:
    """Return a report for each dataset of a source.

    Args:
        source: the source.
        domain: the domain it belongs to.
        sample: a query to ask each dataset; None asks none.

    Raises:
        ConfigError: its connection cannot be used.
    """
    access = source.workspace.access()
    clock = source.clock
    due = clock.monotonic() + _TIME_S

    def look(dataset_id: str, ticket: Ticket) -> DatasetReport:
        try:
            info, failure = source.workspace.info(dataset_id, access, ticket, ttl_s=0.0, attempts=1, needed=True)
        except SourceError as error:
            return _unknown(dataset_id, error)
        if info is None or failure is not None:
            return _unknown(dataset_id, failure)
        report = _described(dataset_id, info, source)
        if report.ok and MARKED in info.fields:
            report = report._replace(warnings=(*report.warnings, *_found_wrong(dataset_id, source)))
        return _sampled(report, source, domain, sample) if report.ok and sample is not None else report

    jobs = [lambda ticket, one=one: look(one, ticket) for one in source.dataset_ids]
    results = ask_each(jobs, width=access.connection.max_connections, left=lambda: due - clock.monotonic())
    return [
        _unknown(dataset_id, result) if isinstance(result, SourceError) else result
        for dataset_id, result in zip(source.dataset_ids, results, strict=True)
    ]


def _unknown(dataset_id: str, error: SourceError | None) -> DatasetReport:
    answered = isinstance(error, SourceAuthError | SourceForbidden | SourceNotFound)
    return DatasetReport(
        dataset_id,
        reachable=answered,
        key_valid=not isinstance(error, SourceAuthError) if answered else None,
        found=not isinstance(error, SourceNotFound) if answered and not isinstance(error, SourceAuthError) else None,
        problem=str(error) if error is not None else "Dify did not describe it",
    )


def _described(dataset_id: str, info: DatasetInfo, source: DifySource) -> DatasetReport:
    report = DatasetReport(
        dataset_id,
        name=info.name,
        reachable=True,
        key_valid=True,
        found=True,
        indexing_technique=info.technique,
        documents=info.documents,
        metadata=tuple(sorted(info.fields)),
        missing_metadata=tuple(sorted(set(source.settings.metadata.used().values()) - info.fields.keys())),
    )
    if info.external:
        return report._replace(problem=EXTERNAL)
    if not info.api_enabled:
        return report._replace(problem="API access is switched off: switch it on in the dataset's settings in Dify")
    if info.documents == 0:
        return report._replace(warnings=("it holds no document that can be found",))
    try:
        method = choose(dataset_id, info, source.settings)
    except SourceError as error:
        return report._replace(problem=str(error))
    assert method is not None
    return report._replace(search_method=method.name, warnings=_warnings(info, report, source))


def _warnings(info: DatasetInfo, report: DatasetReport, source: DifySource) -> tuple[str, ...]:
    found: list[str] = []
    declared = source.settings.indexing_technique
    if info.technique == "economy":
        found.append("economy index: its answers are unranked, and replicas of Dify may disagree on them")
    elif info.reranking is None:
        found.append("no reranker and no weights: it is searched by meaning alone")
    if declared is not None and info.technique is not None and declared != info.technique:
        found.append(f"the manifest says indexing_technique {declared}, Dify says {info.technique}")
    if report.missing_metadata:
        found.append(f"the manifest expects metadata it does not have: {', '.join(report.missing_metadata)}")
    return tuple(found)


def _found_wrong(dataset_id: str, source: DifySource) -> list[str]:
    """Name the documents that an ingest left in a state to be mended, by Dify's list alone."""
    writes = Writes(source.workspace, source.clock)
    try:
        found = take_stock(writes.all_documents(dataset_id), lambda row: row.as_written)
    except SourceError as error:
        return [f"its documents could not be listed: {error}"]
    found_wrong = [
        f"{len(names)} document{'s' * (len(names) != 1)} {what} ({', '.join(map(repr, names[:_MOST_NAMED]))}"
        f"{', …' * (len(names) > _MOST_NAMED)})"
        for what, names in problems(found).items()
    ]
    return [
        f"{one}: mend it with 'context-engine ingest DOCUMENTS --domain NAME --to dify --repair'" for one in found_wrong
    ]


def _sampled(report: DatasetReport, source: DifySource, domain: str, sample: str) -> DatasetReport:
    """Ask as a search would, this dataset alone."""
    alone = DifySource(
        source.spec.model_copy(update={"dataset_ids": (report.dataset_id,)}), source.workspace, source.clock
    )
    try:
        answer = alone.search(SourceQuery(text=sample, domain=domain, top_k=5, timeout_s=_TIME_S / 2))
    except SourceError as error:
        return report._replace(problem=f"the sample query failed: {error}")
    problem = "; ".join(map(str, answer.failures)) or None
    return report._replace(
        records=len(answer.chunks), problem=problem, warnings=(*report.warnings, *messages(answer.notices))
    )
