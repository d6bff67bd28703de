"""Datasets of a Dify workspace as one source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Final

from context_engine.adapters.http import Access, RetryBudget
from context_engine.adapters.sources.dify.answer import Found, Part, answered
from context_engine.adapters.sources.dify.api import drops_filters
from context_engine.adapters.sources.dify.dataset import LEGS, MAIN, DatasetInfo, SearchMethod, choose, possible_kinds
from context_engine.adapters.sources.dify.examine import EXTERNAL, DatasetExaminer
from context_engine.adapters.sources.dify.fair_queue import Ticket, ask_each
from context_engine.adapters.sources.dify.fetch import DatasetFetch, fetched
from context_engine.adapters.sources.dify.metadata import MARKED, MetadataReader
from context_engine.adapters.sources.dify.query import MOST_CHARACTERS, Pushed, push_down, shortened
from context_engine.adapters.sources.dify.reading import divided, may_withhold, read_chunks
from context_engine.adapters.sources.dify.settings import DifySettings, check_dify, without_dataset
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.models import (
    Chunk,
    Examination,
    ExaminationRequest,
    FetchRequest,
    Filter,
    Notice,
    NoticeCode,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
    checked_query,
)
from context_engine.core.policy.filters import chunk_fields, matches, own_fields
from context_engine.core.policy.trust import effective_authority, in_force
from context_engine.core.protocols import Clock
from context_engine.errors import (
    ConfigError,
    SourceBusy,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceUnavailable,
)

_WIDE: Final = 100
_WIDER: Final = 500


@dataclass(frozen=True, slots=True)
class _Asked:
    query: SourceQuery
    text: str
    access: Access
    calls: RetryBudget


class DifySource:
    """Searches datasets of one workspace in parallel; a `Source` that is `Examinable` and `Fetchable`.

    Raises:
        ConfigError: the specification is unusable.
    """

    def __init__(self, spec: SourceSpec, workspace: Workspace, clock: Clock, timezone: str = "UTC") -> None:
        self.settings: DifySettings = check_dify(spec)
        self.source_id, self.score_kinds = spec.id, possible_kinds(self.settings)
        self.dataset_ids = tuple(dict.fromkeys(dataset_id.lower() for dataset_id in spec.dataset_ids))
        self.spec, self.workspace, self.clock = spec, workspace, clock
        self._timezone = timezone
        self._claims = MetadataReader(self.settings, timezone)

    def __repr__(self) -> str:
        return f"DifySource({self.source_id!r}, {len(self.dataset_ids)} datasets)"

    def search(self, query: SourceQuery) -> SourceAnswer:
        """Return the best chunks of all datasets; datasets that failed are in `failures`.

        Raises:
            InvalidRequest: the query has no text.
            SourceError: no dataset answered.
        """
        checked_query(query.text)
        if problem := without_dataset(self.spec):
            raise SourceNotFound(problem, source_id=self.source_id)
        left = self._time(query.timeout_s)
        access = self._access()
        jobs, notices = self._planned(access)
        asked = jobs[: self.settings.max_calls]
        calls = RetryBudget(self.settings.attempts, self.settings.max_calls - len(asked))
        search = _Asked(query, shortened(query.text), access, calls)
        if search.text != query.text:
            message = (
                f"query_shortened: from {len(query.text)} to {len(search.text)} characters, because Dify takes "
                f"{MOST_CHARACTERS}; ranked by the whole query"
            )
            detail = {"given": len(query.text), "characters": len(search.text), "limit": MOST_CHARACTERS}
            notices.append(Notice(NoticeCode.QUERY_SHORTENED, self.source_id, message, detail))
        results = self._answers(asked, search, left)
        problem = f"not asked: a search makes at most {self.settings.max_calls} calls (max_calls)"
        results += [SourceBusy(problem) for _ in jobs[len(asked) :]]
        return answered(query, self.source_id, [dataset for dataset, _ in jobs], results, notices)

    def examine(self, request: ExaminationRequest) -> Examination:
        """Examine each dataset and the server.

        Raises:
            ConfigError: the connection is unusable.
        """
        if problem := without_dataset(self.spec):
            return Examination(problems=(Notice(NoticeCode.DATASET_EMPTY, self.source_id, problem),))
        examiner = DatasetExaminer(
            workspace=self.workspace, clock=self.clock, settings=self.settings, search=self._search_alone
        )
        return examiner.examine(self.dataset_ids, self.spec.connection or "dify", request)

    def fetch(self, request: FetchRequest) -> Sequence[Chunk]:
        """Return the requested chunks: chunks of the named documents, and chunks named by id.

        Raises:
            SourceError: a dataset that may hold missing chunks could not be read, or is too large to search for ids.
        """
        reader = DatasetFetch(self.workspace, self.spec, self.settings, self._claims, self._access())
        return fetched(reader, self.dataset_ids, request, self._time(request.timeout_s))

    def _search_alone(self, dataset_id: str, query: SourceQuery) -> SourceAnswer:
        spec = self.spec.model_copy(update={"dataset_ids": (dataset_id,)})
        return DifySource(spec, self.workspace, self.clock, self._timezone).search(query)

    def close(self) -> None:
        """Close the connections; a later search opens them again."""
        self.workspace.close()

    def _time(self, timeout_s: float) -> Callable[[], float]:
        """Return a function for the seconds left; they end just before the engine's, so that partial answers arrive."""
        due = self.clock.monotonic() + timeout_s - min(0.5, timeout_s / 10)
        return lambda: due - self.clock.monotonic()

    def _access(self) -> Access:
        try:
            return self.workspace.access()
        except ConfigError as error:
            problem = f"its connection is unusable: {error}"
        raise SourceUnavailable(problem, source_id=self.source_id)

    def _planned(self, access: Access) -> tuple[list[tuple[str, str]], list[Notice]]:
        """Return (dataset, leg) for each call; two legs only if calls and rate budget allow them."""
        once = [(dataset, MAIN) for dataset in self.dataset_ids]
        if not self.settings.legs:
            return once, []
        twice = [(dataset, leg) for leg in LEGS for dataset in self.dataset_ids]
        free = self.workspace.free_calls(access)
        if len(twice) <= (self.settings.max_calls if free is None else min(free, self.settings.max_calls)):
            return twice, []
        message = "one leg was searched instead of two: the call budget does not cover both"
        return once, [Notice(NoticeCode.LEG_NOT_ASKED, self.source_id, message)]

    def _answers(
        self, asked: Sequence[tuple[str, str]], search: _Asked, left: Callable[[], float]
    ) -> list[Found | SourceError]:
        """Ask the slowest datasets first, so that none starts last; return the answers in order."""
        access, workspace = search.access, self.workspace
        order = sorted(range(len(asked)), key=lambda place: -workspace.expected_s(access, asked[place][0]))
        results: list[Found | SourceError] = ask_each(
            [partial(self._ask, *asked[place], search) for place in order],
            width=access.connection.max_connections,
            left=left,
            datasets=[asked[place][0] for place in order],
        )
        by_place = dict(zip(order, results, strict=True))
        return [by_place[place] for place in range(len(asked))]

    def _ask(self, dataset: str, leg: str, search: _Asked, ticket: Ticket) -> Found:
        info, notices = self._info(dataset, search, ticket)
        if info is not None and info.external:
            raise SourceForbidden(EXTERNAL)
        if info is not None and not info.api_enabled:
            raise SourceForbidden("API access to the dataset is switched off: switch it on in the dataset's settings")
        method = choose(dataset, info, self.settings, leg)
        if method is None or (info is not None and info.documents == 0):
            return Found(Part(dataset, (), True), notices)
        part = self._retrieved(dataset, method, info, search, ticket)
        empty = not part.part.chunks and not part.withheld and part.failure is None
        if empty and method.name == "hybrid_search" and search.calls.more():
            # A reranker that fails inside Dify gives 200 with no records.
            plain = choose(dataset, info, self.settings, "semantic")
            assert plain is not None
            part = self._retrieved(dataset, plain, info, search, ticket)
            if part.part.chunks:
                message = (
                    f"dataset {dataset}: its hybrid search found nothing, its semantic search did: {_suspect(info)}"
                )
                detail = {"dataset_id": dataset, "reranker": info.reranker if info else None}
                notices += (Notice(NoticeCode.HYBRID_SEARCH_EMPTY, self.source_id, message, detail),)
        return part._replace(notices=notices + part.notices)

    def _info(self, dataset: str, search: _Asked, ticket: Ticket) -> tuple[DatasetInfo | None, tuple[Notice, ...]]:
        info, failure = self.workspace.info(
            dataset,
            search.access,
            ticket,
            ttl_s=self.settings.lookup_ttl_s,
            attempts=self.settings.attempts,
            needed=self.settings.indexing_technique is None,
        )
        if failure is None:
            return info, ()
        if info is None and self.settings.indexing_technique is None:
            raise failure
        known = "its last description" if info is not None else "the manifest's indexing_technique"
        message = f"dataset {dataset}: Dify did not report how it is indexed ({failure.code}), {known} was used"
        detail = {"dataset_id": dataset, "problem": failure.code, "used": "cache" if info is not None else "manifest"}
        return info, (Notice(NoticeCode.DATASET_NOT_DESCRIBED, self.source_id, message, detail),)

    def _retrieved(
        self, dataset: str, method: SearchMethod, info: DatasetInfo | None, search: _Asked, ticket: Ticket
    ) -> Found:
        query = search.query
        fields = info.fields if info else {}
        names, line = self.settings.metadata.used(), self.settings.chunk_line
        pushed = push_down(query.filters, fields, names, chunk_line=line)
        body = {
            "query": search.text,
            "retrieval_model": method.retrieval_model(self._top_k(query, method, pushed, fields), pushed.conditions),
        }
        answer, age, stale = self.workspace.retrieve(
            dataset, body, search.access, ticket, search.calls,
            ttl_s=self.settings.cache_ttl_s, stale_s=self.settings.stale_s,
        )  # fmt: skip
        notices: list[Notice] = []
        if stale is not None:
            message = f"dataset {dataset}: an answer {age:.0f} s old was used, because Dify gave none ({stale.code})"
            detail = {"dataset_id": dataset, "age_s": round(age), "problem": stale.code}
            notices.append(Notice(NoticeCode.STALE_ANSWER, self.source_id, message, detail))
        records = divided(answer.records.good, self.spec, self._claims, query.access)
        chunks = read_chunks(records.readable, dataset, method, self._claims, notices)
        by_filter, in_force_chunks = self._kept(chunks, query)
        if pushed.conditions and pushed.complete and len(by_filter) < len(chunks):
            message = f"dataset {dataset}: Dify ignored the filter; it was applied here"
            notices.append(Notice(NoticeCode.FILTER_IGNORED, self.source_id, message, {"dataset_id": dataset}))
        bad = answer.records.bad
        # A field that only withheld documents have would reveal that they exist.
        may_tell_fields = info is not None and not self._may_withhold(query, fields)
        return Found(
            Part(dataset, in_force_chunks, method.ordered),
            tuple(notices),
            answer.at,
            SourceProtocolError(f"{bad} record(s) could not be read and are missing") if bad else None,
            frozenset(fields).union(*map(own_fields, chunks)) if may_tell_fields else None,
            tuple(read_chunks(records.withheld, dataset, method, self._claims, [])),
        )

    def _top_k(self, query: SourceQuery, method: SearchMethod, pushed: Pushed, fields: Collection[str]) -> int:
        """Return how many records to request: more if results are filtered here or Dify's cut-off is arbitrary."""
        if not method.ordered:
            return max(query.top_k, _WIDE if query.filters is None else _WIDER)
        names = self.settings.metadata
        dated = names.effective_from or names.effective_to or MARKED in fields or self.settings.chunk_line
        sifted = not pushed.complete or (query.as_of is not None and dated) or self._may_withhold(query, fields)
        dropped = pushed.conditions is not None and drops_filters(self.workspace.version)
        return max(query.top_k, _WIDE) if sifted or dropped else query.top_k

    def _may_withhold(self, query: SourceQuery, fields: Collection[str]) -> bool:
        return may_withhold(self.spec, query.access, self.settings.metadata.classification, fields)

    def _kept(self, chunks: Sequence[Chunk], query: SourceQuery) -> tuple[list[Chunk], tuple[Chunk, ...]]:
        """Check filter and validity again, before anything is cut."""
        passed = [chunk for chunk in chunks if self._passes(chunk, query.filters, query.domain)]
        return passed, tuple(chunk for chunk in passed if _valid(chunk, query.as_of))

    def _passes(self, chunk: Chunk, filters: Filter | None, domain: str) -> bool:
        if filters is None:
            return True
        authority = effective_authority(chunk, self.spec)
        fields = chunk_fields(
            chunk,
            source_id=self.source_id,
            source_type=authority.source_type,
            tier=authority.tier,
            classification=authority.classification,
            domain=domain,
        )
        return matches(filters, fields)


def _suspect(info: DatasetInfo | None) -> str:
    """Return what to check if Dify hides a ranking failure."""
    if info is None or info.reranker is None:
        return "check its reranker or weights"
    return (
        f"check its reranker {info.reranker!r}, which Dify may not know: install the model's plugin, or choose another "
        "model in the dataset's retrieval settings"
    )


def _valid(chunk: Chunk, as_of: date | None) -> bool:
    return as_of is None or in_force(chunk, as_of) is None
