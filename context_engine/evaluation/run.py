"""Ask an engine every question, and keep the fields of each answer that evaluation needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from context_engine.core.context import from_result
from context_engine.core.engine import Engine
from context_engine.core.engine.recompute import recompute
from context_engine.core.models import (
    NOBODY,
    Fate,
    Key,
    Notice,
    NoticeCode,
    Principal,
    RankedChunk,
    SearchRequest,
    SearchResult,
    StageTrace,
)
from context_engine.core.models.chunk import NOTHING
from context_engine.core.protocols import TokenCounter
from context_engine.core.text import content_sha256
from context_engine.errors import RetrievalFailed
from context_engine.evaluation.gold import GoldHit, Identity, identity_of
from context_engine.evaluation.questions import EvalQuestion
from context_engine.settings import Setting
from context_engine.settings.layers import with_layer

if TYPE_CHECKING:
    from context_engine.adapters.embedders.openai import EmbedderUse


Progress = Callable[[int, int, str], None]
"""Receives (questions done, total, question id)."""
SILENT: Final = (Notice(NoticeCode.ALL_SOURCES_FAILED, "every source", "no answer"),)
"""The troubles of a search without a result."""
_NO_AUTHORITY: Final = {"authority_weight": Setting(0.0, "evaluation"), "relevance_weight": Setting(1.0, "evaluation")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """How far down the ranking is evaluated.

    Attributes:
        top_k: number of chunks that a reader gets, over which tokens, tiers and losses are counted; the largest if
            domains differ.
        ranked: number of chunks ranked for the measures, >= top_k.
        by_domain: number of chunks that a reader gets, if domains differ.
    """

    top_k: int
    ranked: int
    by_domain: Mapping[str, int] = field(default_factory=dict)

    def read(self, domain: str) -> int:
        """Return the number of chunks of a domain that a reader gets."""
        return self.by_domain.get(domain, self.top_k)

    def __str__(self) -> str:
        """Return the number of chunks that a reader gets: "8", "5 to 8"."""
        least = min(self.by_domain.values(), default=self.top_k)
        return f"{self.top_k}" if least == self.top_k else f"{least} to {self.top_k}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOutcome:
    """The outcome of one question.

    Attributes:
        hits: the ranking, `Depth.ranked` deep; `without_authority` the same with the boost at 0.
        pool: every stage-1 candidate, by the key of its fate.
        elapsed_ms: wall time of the search.
        context_tokens: tokens of the context made of the first top_k chunks.
        failed: whether no source answered.
        troubles: notices about components that failed (a source, the reranker).
        embedded_by: the model, or model and adapter, that embedded the question; "" without a vector.
    """

    question: EvalQuestion
    domain: str
    hits: tuple[GoldHit, ...] = ()
    without_authority: tuple[GoldHit, ...] = ()
    pool: Mapping[Key, Identity] = field(default_factory=dict)
    fates: tuple[Fate, ...] = ()
    stages: tuple[StageTrace, ...] = ()
    elapsed_ms: float = 0.0
    context_tokens: int = 0
    status: str = ""
    decision: str = ""
    failed: bool = False
    troubles: tuple[Notice, ...] = ()
    embedded_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The answers of one set-up to all questions, in their order.

    Attributes:
        settings: settings of each searched domain, with their origins.
        embedder: use of the embedder during the run; None without an embedder.
    """

    name: str
    depth: Depth
    answers: tuple[QuestionOutcome, ...]
    settings: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    embedder: EmbedderUse | None = None

    def read(self, *, authority: bool = True) -> list[tuple[GoldHit, ...]]:
        """Return for each question the chunks that a reader gets, with or without the authority boost."""
        rankings = ((answer.hits if authority else answer.without_authority, answer.domain) for answer in self.answers)
        return [hits[: self.depth.read(domain)] for hits, domain in rankings]


def run_questions(
    engine: Engine,
    questions: Sequence[tuple[EvalQuestion, str]],
    *,
    name: str,
    depth: Depth,
    counter: TokenCounter,
    as_of: date | None = None,
    principal: Principal = NOBODY,
    authority: bool = True,
    progress: Progress | None = None,
) -> Run:
    """Return the answers of an engine. The first question is also asked once before, to open the sources.

    Args:
        as_of: the day for questions that name none; None: today.
        authority: whether to rank everything also with the authority boost at 0.

    Raises:
        InvalidRequest, ConfigError: see `Engine.search`.
    """
    answers: list[QuestionOutcome] = []
    settings: dict[str, Mapping[str, Mapping[str, Any]]] = {}
    if questions:
        ask(engine, *questions[0], depth=depth, as_of=as_of, principal=principal)
    for number, (question, domain) in enumerate(questions, start=1):
        started = time.perf_counter()
        result, failed = ask(engine, question, domain, depth=depth, as_of=as_of, principal=principal)
        elapsed = (time.perf_counter() - started) * 1000.0
        if result is None:
            answers.append(
                QuestionOutcome(question=question, domain=domain, elapsed_ms=elapsed, failed=True, troubles=SILENT)
            )
        else:
            kept = answer_of(result, question, depth=depth, counter=counter, authority=authority)
            answers.append(replace(kept, elapsed_ms=elapsed, failed=failed))
            settings.setdefault(domain, result.settings_in_force())
        if progress is not None:
            progress(number, len(questions), question.id)
    return Run(name=name, depth=depth, answers=tuple(answers), settings=settings)


def ask(
    engine: Engine,
    question: EvalQuestion,
    domain: str,
    *,
    depth: Depth,
    as_of: date | None = None,
    principal: Principal = NOBODY,
    overrides: Mapping[str, Any] = NOTHING,
) -> tuple[SearchResult | None, bool]:
    """Return an engine's answer for a reader, and whether every source failed."""
    request = SearchRequest(
        query=question.text,
        domain=domain,
        principal=principal,
        as_of=question.as_of or as_of,
        overrides={"stage2_top_k": depth.read(domain), **overrides},
    )
    try:
        return engine.search(request), False
    except RetrievalFailed as error:
        return (error.result if isinstance(error.result, SearchResult) else None), True


def answer_of(
    result: SearchResult,
    question: EvalQuestion,
    *,
    depth: Depth,
    counter: TokenCounter | None = None,
    authority: bool = False,
) -> QuestionOutcome:
    """Return the evaluated fields of a result.

    The search returned as many chunks as a reader gets; lower ranks are computed from the sources' answers.

    Args:
        counter: counts context tokens; None: not counted.
        authority: whether to rank also with the authority boost at 0.
    """
    pool, ranking = identities_in(result), _with_rest(result.chunks, result, depth)
    tokens, plain = 0, tuple[GoldHit, ...]()
    if counter is not None:
        read = replace(result, chunks=ranking[: depth.read(result.domain)])
        tokens = from_result(read, counter=counter, mask=str).tokens  # no mask: the text is only counted
    if authority:
        plain = hits_of(with_settings(result, _NO_AUTHORITY), depth)
    return QuestionOutcome(
        question=question,
        embedded_by=next((source.embedding.model for source in result.sources if source.embedding is not None), ""),
        domain=result.domain,
        hits=_hits(ranking, pool),
        without_authority=plain,
        pool=pool,
        fates=result.fates,
        stages=result.stages,
        context_tokens=tokens,
        status=str(result.status),
        decision=str(result.decision),
        troubles=tuple(troubles_in(result)),
    )


def troubles_in(result: SearchResult) -> Iterator[Notice]:
    """Yield a notice for each component that failed in a search."""
    for source in result.sources:
        if source.error is not None:
            problem = source.problem or source.state
            detail = {"code": source.error.get("code"), "problem": problem}
            yield Notice(NoticeCode.SOURCE_FAILED, source.source_id, problem, detail)
        elif any(notice.code is NoticeCode.NO_VECTORS for notice in source.notices):
            message = "the base holds no vectors of this embedder: run 'context-engine kb rebuild'"
            yield Notice(NoticeCode.NO_VECTORS, source.source_id, message)
    for notice in result.notices:
        if notice.code is NoticeCode.RERANK_FAILED:
            yield Notice(notice.code, notice.subject, notice.detail["problem"], notice.detail)


def with_settings(result: SearchResult, layer: Mapping[str, Setting]) -> SearchResult:
    """Return a result with other settings; the caller must recompute its stage 2."""
    changed = replace(result, settings=with_layer(result.settings, layer))
    return changed if changed.settings.values.reranking_enabled else replace(changed, rerank_scores={})


def hits_of(result: SearchResult, depth: Depth) -> tuple[GoldHit, ...]:
    """Recompute stage 2 of a result and return its ranking, as deep as the measures need."""
    read: tuple[RankedChunk, ...] = ()
    if result.settings.values.mmr_lambda is not None:  # the first chunks then depend on the list's length
        read = _computed(result, depth.read(result.domain))
    return _hits(_with_rest(read, result, depth), identities_in(result))


def _with_rest(read: tuple[RankedChunk, ...], result: SearchResult, depth: Depth) -> tuple[RankedChunk, ...]:
    """Return the chunks that a reader gets, followed by the lower ranks."""
    if read and depth.read(result.domain) >= depth.ranked:
        return read
    keys = {(chunk.source_id, chunk.chunk_id) for chunk in read}
    rest = _computed(result, depth.ranked)
    return read + tuple(chunk for chunk in rest if (chunk.source_id, chunk.chunk_id) not in keys)


def _computed(result: SearchResult, top_k: int) -> tuple[RankedChunk, ...]:
    return recompute(with_settings(result, {"stage2_top_k": Setting(top_k, "evaluation")})).chunks


def identities_in(result: SearchResult) -> dict[Key, Identity]:
    """Return the identity of every candidate; tiers are unknown here."""
    pool: dict[Key, Identity] = {}
    for answer in result.raw:
        for chunk in answer.chunks:
            chunk_id = chunk.chunk_id or content_sha256(chunk.content)[:32]
            for source_id in {answer.source_id, chunk.source_id or answer.source_id}:
                pool[source_id, chunk_id] = identity_of(source_id, chunk_id, chunk)
    return pool


def _hits(chunks: Iterable[RankedChunk], pool: Mapping[Key, Identity]) -> tuple[GoldHit, ...]:
    return tuple(_hit(chunk, pool) for chunk in chunks)


def _hit(chunk: RankedChunk, pool: Mapping[Key, Identity]) -> GoldHit:
    own = pool.get((chunk.source_id, chunk.chunk_id)) or identity_of(chunk.source_id, chunk.chunk_id, chunk.chunk)
    copies = [
        pool.get((copy.source_id, copy.chunk_id))
        or Identity(copy.source_id, copy.chunk_id, frozenset({copy.chunk_id}), copy.content_sha256)
        for copy in chunk.also_in
    ]
    copies = [copy._replace(tier=member.authority_tier) for copy, member in zip(copies, chunk.also_in)]
    return GoldHit(own._replace(tier=chunk.authority_tier), chunk.final, tuple(copies))
