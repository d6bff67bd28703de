"""The result of a search: chunks, and how each candidate was treated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import date, datetime
from typing import Any, Final, NamedTuple

from context_engine.core.models.access import WithheldChunk
from context_engine.core.models.chunk import Chunk, Decision, Key, Outcome, Status, utc_text
from context_engine.core.models.filters import filter_to_dict
from context_engine.core.models.graph import LinkedChunk
from context_engine.core.models.learnt import ScopeCalibration, ScopeThreshold, TermStatistics
from context_engine.core.models.notice import BESIDE_THE_ANSWER, Notice, NoticeCode, messages
from context_engine.core.models.published import RankedChunk
from context_engine.core.models.registry import SourceSpec
from context_engine.core.models.request import Caller, PreparedQuery, QueryEmbedding, SearchRequest, UnknownWord
from context_engine.core.models.settings import EffectiveSettings
from context_engine.errors import SourceError

SCHEMA_VERSION: Final = "1.1"
_UNPUBLISHED: Final = ("problem", "failure", "embedding")


class Fate(NamedTuple):
    """The outcome of one candidate and the reason.

    Attributes:
        stage: the stage that decided: filter, as_of, expiry, dedup, threshold, scope, relevance or select.
        reason: why. "beyond_top_k" also covers candidates that were dropped by their scores before their text was read.
        value, limit: the tested value and its limit, if any.
        into: the candidate it was merged into.
    """

    source_id: str
    chunk_id: str
    outcome: Outcome
    stage: str
    reason: str
    value: float | str | None = None
    limit: float | str | None = None
    into: Key | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fate as a dict without empty keys."""
        out = {name: value for name, value in self._asdict().items() if value is not None}
        if self.into is not None:
            out["into"] = _identity(self.into)
        return out


class Swap(NamedTuple):
    """A pair of candidates whose order the authority tier reversed.

    Attributes:
        winner, loser: identities; the winner ranks above the loser because of its tier.
        rank_with: (winner's rank, loser's rank) by final score, before any cut and before diversity (MMR).
        rank_without: their ranks by relevance alone.
        gap: the loser's relevance minus the winner's, > 0 and at most (boost difference) * 0.4 / 0.6.
    """

    winner: Key
    loser: Key
    winner_tier: int
    loser_tier: int
    rank_with: tuple[int, int]
    rank_without: tuple[int, int]
    gap: float

    def to_dict(self) -> dict[str, Any]:
        """Return the swap as a dict, identities spelled out."""
        return {**self._asdict(), "winner": _identity(self.winner), "loser": _identity(self.loser)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """How one source answered.

    Attributes:
        state: ok, empty, partial (some of its parts failed) or failed.
        asked: candidates requested; more than `stage1_top_k` after a second call.
        chunks: chunks that entered stage 1, after cutting at that number; `cut` counts the others.
        rejected: chunks that failed validation (no content, not a chunk).
        error: {"code", "message", "retryable", "retry_after_s"} if the state is failed or partial.
        problem: the error's message without the name of the source.
        failure: the error, with the adapter's exception as `__cause__`; neither compared nor published.
        embedding: the query's embedding, with the time of all calls; None without one, or if a server made it. Neither
            compared nor published.
    """

    source_id: str
    title: str
    source_type: str
    authority_tier: int
    state: str
    asked: int = 0
    chunks: int = 0
    cut: int = 0
    rejected: int = 0
    elapsed_ms: float = 0.0
    error: Mapping[str, Any] | None = None
    problem: str = ""
    failure: SourceError | None = field(default=None, compare=False, repr=False)
    notices: tuple[Notice, ...] = ()
    embedding: QueryEmbedding | None = field(default=None, compare=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """The messages of the notices."""
        return messages(self.notices)

    def to_dict(self) -> dict[str, Any]:
        """Return the published form, with the notices' messages as `notes`."""
        published = ("notes" if field.name == "notices" else field.name for field in fields(self))
        return {name: getattr(self, name) for name in published if name not in _UNPUBLISHED}


class StageTrace(NamedTuple):
    """One stage: how many candidates entered and left it, and its time.

    Attributes:
        name: recall, filter, as_of, expiry, measure, dedup, threshold, scope, relevance, rerank, select.
    """

    name: str
    entered: int
    left: int
    elapsed_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RawAnswer:
    """A source's answer as it entered stage 1, kept so that stage 2 can be computed again.

    Attributes:
        by_keywords, statistics, calibration, unknown_words, filter_fields: as in `SourceAnswer`.
        links: the chunks that others lead to; those that the source did not find stand last in `chunks`.
    """

    source_id: str
    chunks: tuple[Chunk, ...]
    retrieved_at: datetime
    by_keywords: bool = False
    statistics: TermStatistics | None = None
    unknown_words: tuple[UnknownWord, ...] | None = None
    filter_fields: tuple[str, ...] | None = None
    calibration: ScopeCalibration | None = None
    links: tuple[LinkedChunk, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SearchResult:
    """A ranked answer, and the fate of every candidate. Always: stage-1 candidates = returned + merged + dropped.

    Attributes:
        search_id: sortable by time; part of every log line, tag and error.
        fates: one per stage-1 candidate.
        swaps: reversed pairs with a returned chunk, at most 200; `swap_count` is the full number.
        stages: stage 1 and every step of stage 2 with counts and times.
        settings: the settings of the search; `settings_in_force` resolves a scope threshold of `auto`.
        scope: the scope threshold used; None if the result was not ranked.
        notices: about the query, the sources and the ranking.
        now, as_of: the time of the search and the day used; `today`: that day is not past in the domain's time zone.
        request, specs: the request, and the sources as declared at that time.
        raw, rerank_scores: the stage-1 answers, and the reranker's scores by identity; with them stage 2 can be
            recomputed to the same bytes.
        rerank_adapter: the id of the adapter under which the reranker compared vectors, or None.
    """

    query: str
    domain: str
    status: Status
    decision: Decision
    chunks: tuple[RankedChunk, ...]
    fates: tuple[Fate, ...]
    swaps: tuple[Swap, ...]
    swap_count: int
    sources: tuple[SourceStatus, ...]
    stages: tuple[StageTrace, ...]
    settings: EffectiveSettings
    notices: tuple[Notice, ...]
    search_id: str
    request_id: str | None
    caller: Caller
    now: datetime
    as_of: date
    today: bool = True
    prepared: PreparedQuery | None = None
    request: SearchRequest | None = None
    specs: tuple[SourceSpec, ...] = ()
    raw: tuple[RawAnswer, ...] = ()
    rerank_scores: Mapping[Key, float] = field(default_factory=dict)
    rerank_adapter: str | None = None
    scope: ScopeThreshold | None = None

    def __repr__(self) -> str:
        """Return the outcome in one line: a notebook, a log and a traceback show it, and no texts of candidates."""
        outcome = f"status={str(self.status)!r}, decision={str(self.decision)!r}, chunks={len(self.chunks)}"
        return f"SearchResult(search_id={self.search_id!r}, domain={self.domain!r}, {outcome})"

    @property
    def answered_query(self) -> str:
        """The query as ranked: the user's words, or their correction if they found nothing."""
        return self.prepared.text if self.prepared is not None and self.prepared.corrected else self.query

    @property
    def beside_the_answer(self) -> tuple[str, ...]:
        """The messages of the notices that change how to read the answer: every output shows them."""
        return messages(notice for notice in self.notices if notice.code in BESIDE_THE_ANSWER)

    @property
    def cache_age_s(self) -> int | None:
        """Seconds since the answer was made, if it was kept in the cache; None: it was made for this search."""
        ages = (notice.detail["age_s"] for notice in self.notices if notice.code is NoticeCode.FROM_CACHE)
        return next(ages, None)

    @property
    def failed_alike(self) -> list[tuple[SourceStatus, ...]]:
        """The sources that failed, wholly or in part, grouped by equal failure."""
        groups: dict[tuple[str, str, str], list[SourceStatus]] = {}
        for status in self.sources:
            if status.error is not None:
                failure = (status.state, str(status.error.get("code")), status.problem)
                groups.setdefault(failure, []).append(status)
        return [tuple(group) for group in groups.values()]

    def namespace_of(self, source_id: str) -> str:
        """Return the namespace of a source of this search; its id if it declares none."""
        return next((spec.in_namespace for spec in self.specs if spec.id == source_id), source_id)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The messages of the notices."""
        return messages(self.notices)

    def settings_in_force(self) -> dict[str, Any]:
        """Return {key: {"value", "origin"}} of the settings, with the scope threshold as a number."""
        settings = self.settings.to_dict()
        if self.scope is not None and self.scope.origin:
            settings["scope_threshold"] = {"value": self.scope.value, "origin": self.scope.origin}
        return settings

    def to_dict(self, *, demo: bool = False) -> dict[str, Any]:
        """Return the published form: what `search --json` writes; schema version 1.1."""
        return {
            "schema_version": SCHEMA_VERSION,
            "search_id": self.search_id,
            "request_id": self.request_id,
            "query": self.query,
            "domain": self.domain,
            "as_of": self.as_of.isoformat(),
            "now": utc_text(self.now),
            "caller": asdict(self.caller),
            "asked": _conditions(self.request),
            "searched": None if self.prepared is None else self.prepared.to_dict(),
            "status": str(self.status),
            "decision": str(self.decision),
            "chunks": [chunk.to_dict() for chunk in self.chunks],
            "fates": [fate.to_dict() for fate in self.fates],
            "swaps": [swap.to_dict() for swap in self.swaps],
            "swap_count": self.swap_count,
            "sources": [source.to_dict() for source in self.sources],
            "stages": [stage._asdict() for stage in self.stages],
            "settings": self.settings_in_force(),
            "rerank_adapter": self.rerank_adapter,
            "warnings": list(self.warnings),
            "notices": [notice.to_dict() for notice in self.notices],
            "demo": demo,
        }


class KeptSearch(NamedTuple):
    """A result in the cache.

    Attributes:
        result: as it was made for the first caller.
        withheld: chunks that the sources returned and that no caller of this access class may read; for the record.
        until: the moment from which it must not be given any more.
    """

    result: SearchResult
    withheld: tuple[WithheldChunk, ...]
    until: datetime


def _conditions(request: SearchRequest | None) -> dict[str, Any]:
    """Return the restrictions and requirements of a request."""
    if request is None:
        return {}
    return {
        "as_of": request.as_of.isoformat() if request.as_of else None,
        "filters": filter_to_dict(request.filters),
        "persona": request.persona,
        "require_tiers": list(request.require_tiers),
        "require_sources": list(request.require_sources),
        "strict": request.strict,
    }


def _identity(key: Key) -> dict[str, str]:
    return {"source_id": key[0], "chunk_id": key[1]}


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no white space; equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=str)
