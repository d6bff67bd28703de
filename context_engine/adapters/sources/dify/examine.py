"""The examination of a source's datasets and servers for an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any, Final, NamedTuple

from context_engine.adapters.http import Access
from context_engine.adapters.sources.dify.api import EXTERNAL_TRIES_S, shortcomings
from context_engine.adapters.sources.dify.dataset import DatasetInfo, choose
from context_engine.adapters.sources.dify.fair_queue import Ticket, ask_each, finish_times
from context_engine.adapters.sources.dify.metadata import MARKED
from context_engine.adapters.sources.dify.settings import DifySettings
from context_engine.adapters.sources.dify.target import problems, take_inventory
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.adapters.sources.dify.writes import Writes
from context_engine.core.models import (
    Examination,
    ExaminationRequest,
    Notice,
    NoticeCode,
    SourceAnswer,
    SourceQuery,
    notices_about,
)
from context_engine.core.protocols import Clock
from context_engine.errors import SourceAuthError, SourceError, SourceForbidden, SourceNotFound

EXTERNAL: Final = (
    "its knowledge lies outside Dify (provider 'external') and Dify's API never searches it: connect the engine to "
    "that knowledge directly"
)
_MOST_NAMED: Final = 5
_BURST: Final = 24  # searches
_BURST_S: Final = 3.0


class Burst(NamedTuple):
    """Searches of datasets, as many at once as the connection allows: how many were answered, and when (monotonic)."""

    calls: int
    begun: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What an examination measured of a source's server.

    Attributes:
        version: as reported by the server, or None.
        max_connections: most parallel calls.
        seconds: for a call to each dataset of the source; empty if it was not reached.
        burst: searches at once; None if there were none, or one failed.
    """

    connection: str
    version: str | None
    max_connections: int
    search_timeout_s: float
    seconds: tuple[float, ...]
    burst: Burst | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DifyExamination(Examination):
    """The examination of a Dify source: one part for each dataset, and the server."""

    server: ServerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetExaminer:
    """Examines the datasets of one source; `search` searches one dataset as the source would."""

    workspace: Workspace
    clock: Clock
    settings: DifySettings
    search: Callable[[str, SourceQuery], SourceAnswer]

    def examine(self, dataset_ids: tuple[str, ...], connection: str, request: ExaminationRequest) -> DifyExamination:
        """Examine all datasets at the same time.

        Raises:
            ConfigError: the connection is unusable.
        """
        access = self.workspace.access()
        due = self.clock.monotonic() + request.timeout_s
        jobs = [
            lambda ticket, dataset_id=dataset_id: self._dataset(dataset_id, request, access, ticket)
            for dataset_id in dataset_ids
        ]
        results = ask_each(jobs, width=access.connection.max_connections, left=lambda: due - self.clock.monotonic())
        parts = tuple(
            _unknown(dataset_id, result) if isinstance(result, SourceError) else result
            for dataset_id, result in zip(dataset_ids, results, strict=True)
        )
        reached = any(part.details["reachable"] for part in parts)
        searched = [part.id for part in parts if part.ok and part.records is not None]
        server = ServerFacts(
            connection=connection,
            version=self.workspace.version,
            max_connections=access.connection.max_connections,
            search_timeout_s=request.search_timeout_s,
            seconds=tuple(self.workspace.expected_s(access, dataset_id) for dataset_id in dataset_ids)
            if reached
            else (),
            burst=self._burst(searched, request, access.connection.max_connections) if searched else None,
        )
        return DifyExamination(version=server.version, parts=parts, server=server)

    def _dataset(self, dataset_id: str, request: ExaminationRequest, access: Access, ticket: Ticket) -> Examination:
        try:
            info, failure = self.workspace.info(dataset_id, access, ticket, ttl_s=0.0, attempts=1, needed=True)
        except SourceError as error:
            return _unknown(dataset_id, error)
        if info is None or failure is not None:
            return _unknown(dataset_id, failure)
        part = _described(dataset_id, info, self.settings)
        if not part.ok or request.quick:
            return part
        if MARKED in info.fields:
            part = replace(part, warnings=(*part.warnings, *self._damage(dataset_id)))
        if self.settings.chunk_line:
            part = replace(part, warnings=(*part.warnings, *self._without_line(dataset_id)))
        return part if request.query is None else self._sampled(part, request.query, request)

    def _burst(self, dataset_ids: Sequence[str], request: ExaminationRequest, width: int) -> Burst | None:
        """Search for a moment with as many calls at once as many searches would make.

        Each question differs, because equal ones would be answered from the cache.
        """
        begun = self.clock.monotonic()
        stop, ends, numbers = begun + _BURST_S, list[float](), count()

        def search(dataset_id: str) -> None:
            if self.clock.monotonic() < stop:
                text = f"{request.query} {next(numbers)}"
                answer = self.search(
                    dataset_id, SourceQuery(text=text, domain=request.domain, top_k=5, timeout_s=request.timeout_s)
                )
                if answer.failures:
                    raise answer.failures[0]
                ends.append(self.clock.monotonic())

        jobs = [lambda _, place=place: search(dataset_ids[place % len(dataset_ids)]) for place in range(_BURST)]
        results = ask_each(jobs, width=width, left=lambda: begun + request.timeout_s - self.clock.monotonic())
        if not ends or any(isinstance(result, SourceError) for result in results):
            return None
        return Burst(len(ends), begun, max(ends))

    def _damage(self, dataset_id: str) -> Iterator[Notice]:
        """Report documents that an ingest left damaged, judged only by Dify's list."""
        writes = Writes(self.workspace, self.clock)
        try:
            inventory = take_inventory(writes.all_documents(dataset_id), lambda row: row.as_written)
        except SourceError as error:
            message, detail = f"its documents could not be listed: {error}", {"problem": str(error)}
            yield Notice(NoticeCode.DATASET_NOT_LISTED, dataset_id, message, detail)
            return
        for kind, names in problems(inventory).items():
            shown = ", ".join(map(repr, names[:_MOST_NAMED])) + ", …" * (len(names) > _MOST_NAMED)
            message = (
                f"{len(names)} document{'s' * (len(names) != 1)} {kind} ({shown}): repair it with 'context-engine "
                "ingest DOCUMENTS --domain NAME --to dify --repair'"
            )
            yield Notice(NoticeCode.DOCUMENTS_DAMAGED, dataset_id, message, {"count": len(names), "names": list(names)})

    def _without_line(self, dataset_id: str) -> Iterator[Notice]:
        """Report the newest documents whose chunks do not begin with the line that the manifest expects."""
        writes = Writes(self.workspace, self.clock)
        try:
            newest = islice((row for row in writes.documents(dataset_id) if row.ready and not row.hidden), _MOST_NAMED)
            names = [row.name for row in newest if not writes.first_line(dataset_id, row.dify_id)]
        except SourceError as error:
            message, detail = f"its documents could not be listed: {error}", {"problem": str(error)}
            yield Notice(NoticeCode.DATASET_NOT_LISTED, dataset_id, message, detail)
            return
        if names:
            shown = ", ".join(map(repr, names))
            message = (
                f"the manifest expects a line (chunk_line) that the first chunk of {shown} does not have: cut them "
                "with it (the tool 'Chunk by document type', 'context-engine ingest --to dify'), or remove chunk_line"
            )
            yield Notice(NoticeCode.CHUNK_LINE_MISSING, dataset_id, message, {"names": names})

    def _sampled(self, part: Examination, text: str, request: ExaminationRequest) -> Examination:
        """Run the sample query as a search of this dataset only."""
        query = SourceQuery(text=text, domain=request.domain, top_k=5, timeout_s=request.timeout_s / 2)
        try:
            answer = self.search(part.id, query)
        except SourceError as error:
            return replace(part, problems=notices_about(part.id, f"the sample query failed: {error.problem}"))
        return replace(
            part,
            records=len(answer.chunks),
            problems=notices_about(part.id, *(failure.problem for failure in answer.failures)),
            warnings=(*part.warnings, *notices_about(part.id, *answer.notes)),
        )


def _details(
    *,
    reachable: bool | None = None,
    key_valid: bool | None = None,
    exists: bool | None = None,
    metadata: tuple[str, ...] = (),
    missing_metadata: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return the details of a dataset, published with the common fields."""
    return {
        "reachable": reachable,
        "key_valid": key_valid,
        "found": exists,
        "metadata": list(metadata),
        "missing_metadata": list(missing_metadata),
    }


def _unknown(dataset_id: str, error: SourceError | None) -> Examination:
    answered = isinstance(error, SourceAuthError | SourceForbidden | SourceNotFound)
    key_valid = not isinstance(error, SourceAuthError) if answered else None
    return Examination(
        id=dataset_id,
        problems=notices_about(dataset_id, error.problem if error is not None else "Dify did not describe it"),
        details=_details(
            reachable=answered,
            key_valid=key_valid,
            exists=not isinstance(error, SourceNotFound) if key_valid else None,
        ),
    )


def _described(dataset_id: str, info: DatasetInfo, settings: DifySettings) -> Examination:
    missing = tuple(sorted(set(settings.metadata.used().values()) - info.fields.keys()))
    details = _details(
        reachable=True, key_valid=True, exists=True, metadata=tuple(sorted(info.fields)), missing_metadata=missing
    )
    part = Examination(
        id=dataset_id, name=info.name, kind=info.technique or "", documents=info.documents, details=details
    )
    if info.external:
        return replace(part, problems=(Notice(NoticeCode.DATASET_EXTERNAL, dataset_id, EXTERNAL),))
    if not info.api_enabled:
        message = "API access is switched off: switch it on in the dataset's settings in Dify"
        return replace(part, problems=(Notice(NoticeCode.DATASET_SWITCHED_OFF, dataset_id, message),))
    if info.documents == 0:
        message = "it has no searchable document"
        return replace(part, warnings=(Notice(NoticeCode.DATASET_EMPTY, dataset_id, message),))
    try:
        method = choose(dataset_id, info, settings)
    except SourceError as error:
        return replace(part, problems=notices_about(dataset_id, str(error)))
    assert method is not None
    return replace(
        part,
        search_method=method.name,
        warnings=tuple(_warnings(dataset_id, info, missing, settings.indexing_technique)),
    )


def _warnings(dataset_id: str, info: DatasetInfo, missing: tuple[str, ...], declared: str | None) -> Iterator[Notice]:
    if info.technique == "economy":
        message = "economy index: its answers are unranked, and replicas of Dify may give different ones"
        yield Notice(NoticeCode.INDEX_UNRANKED, dataset_id, message)
    elif info.reranking is None:
        message = "no reranker and no weights: it is searched by vectors only"
        yield Notice(NoticeCode.INDEX_WITHOUT_RERANKER, dataset_id, message)
    if declared is not None and info.technique is not None and declared != info.technique:
        message = f"indexing_technique is {declared} in the manifest, {info.technique} in Dify"
        detail = {"declared": declared, "found": info.technique}
        yield Notice(NoticeCode.INDEX_NOT_AS_DECLARED, dataset_id, message, detail)
    if missing:
        message = f"metadata named in the manifest is missing: {', '.join(missing)}"
        yield Notice(NoticeCode.METADATA_MISSING, dataset_id, message, {"names": list(missing)})


_STARVES: Final = 10  # parallel calls that Dify serves by default (SERVER_WORKER_CONNECTIONS)


def calls_per_s(bursts: Iterable[Burst]) -> float | None:
    """Return the calls a second that a server answered; the bursts of several sources may overlap. None without any."""
    calls, seconds, until = 0, 0.0, float("-inf")
    for burst in sorted(bursts, key=lambda burst: burst.begun):
        calls += burst.calls
        seconds += max(burst.ended - max(burst.begun, until), 0.0)
        until = max(until, burst.ended)
    return calls / seconds if seconds else None


def connections_advice(
    times: Sequence[float], connections: int, timeout_s: float, rate: float | None = None
) -> tuple[str, ...]:
    """Return advice on the number of connections, and how many searches at a time are served.

    Args:
        times: seconds that Dify takes for each dataset.
        timeout_s: seconds that a search may take.
        rate: searches of a dataset that Dify answers a second with so many connections; None: not measured.
    """
    calls = sorted(times, reverse=True)
    slowest, total = calls[0], sum(calls)
    enough = next(n for n in range(1, len(calls) + 1) if finish_times([calls], n)[0] <= 1.1 * slowest)
    (alone,) = finish_times([calls], connections)
    message = (
        f"Dify took {calls[-1]:.2g} to {slowest:.2g} s a dataset ({total:.2g} s for all {len(calls)}): with "
        f"max_connections {connections} one search takes about {alone:.2g} s, and {enough} would do for one search"
    )
    advice = [message]
    if rate is not None:
        within = (max(int(rate * seconds / len(calls)), 1) for seconds in (timeout_s, EXTERNAL_TRIES_S))
        advice.append(
            f"Dify answered {rate:.2g} calls a second, {connections} at once: {next(within)} searches at a time "
            f"are served within {timeout_s:g} s, and {next(within)} within the {EXTERNAL_TRIES_S:g} s of External "
            "Knowledge"
        )
    if connections > _STARVES:
        advice.append(
            f"Dify by default serves {_STARVES} calls at a time (SERVER_WORKER_CONNECTIONS) and starves above that: "
            "raise it there before max_connections"
        )
    return tuple(advice)


STORES_QUERIES: Final = "Dify stores the text of every query in its database (dataset_queries)."


def server_notes(examined: Sequence[tuple[str, Examination]]) -> Iterator[str]:
    """Yield notes about each server: known defects of its version, and a suitable number of connections.

    The advice is for the domain whose searches load it most; `examined` is (domain, examination) of each source.
    """
    yield STORES_QUERIES
    by_name: dict[str, dict[str, list[ServerFacts]]] = {}
    for domain, examination in examined:
        if isinstance(examination, DifyExamination) and examination.server.seconds:
            by_name.setdefault(examination.server.connection, {}).setdefault(domain, []).append(examination.server)
    for name, domains in by_name.items():
        first = next(iter(domains.values()))[0]
        yield f"connection {name}: Dify {first.version}" if first.version else f"connection {name}"
        yield from (f"connection {name}: {shortcoming}" for shortcoming in shortcomings(first.version))
        times = {
            domain: [call_s for server in servers for call_s in server.seconds] for domain, servers in domains.items()
        }
        domain = max(times, key=lambda name_of_domain: sum(times[name_of_domain]))
        if any(times[domain]):
            rate = calls_per_s(server.burst for server in domains[domain] if server.burst is not None)
            advice = connections_advice(times[domain], first.max_connections, first.search_timeout_s, rate)
            yield from (f"connection {name}, domain {domain}: {sentence}" for sentence in advice)
