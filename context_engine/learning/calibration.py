"""Calibrate a store: compare the signals of its own sentences with those of off-topic questions, part by part.

    with LocalBase.open(path) as base:
        calibrate(base, domain)

Nothing is random: equal content gives equal thresholds, whatever the order of writing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.core.engine.search_plan import default_settings, prepared_query
from context_engine.core.models import (
    CalibrationPart,
    Chunk,
    DomainSpec,
    EffectiveSettings,
    RawAnswer,
    ScopeCalibration,
    SearchRequest,
    Settings,
    SourceQuery,
)
from context_engine.core.protocols import Calibratable
from context_engine.core.query import variants
from context_engine.core.ranking.candidates import AnalysedText, pool
from context_engine.core.ranking.relevance import measure
from context_engine.core.ranking.scope import SIGNAL_VERSION, CalibrationSignals, calibrated, near_miss_threshold
from context_engine.core.text import terms

OUT_OF_SCOPE: Final = Path(__file__).resolve().with_name("out_of_scope.jsonl")
"""Two hundred questions of everyday life (cooking, sport, health, travel …) that no bank's rules answer."""

_CHUNKS_A_SENTENCE: Final = 40
_LEAST_SENTENCES: Final = 10
"""With fewer sentences the measured default is better."""

_FEWEST_SENTENCES: Final = 40
_MOST_SENTENCES: Final = 100
_SENTENCES_A_HEADING: Final = 4
_FEWEST_OUTSIDE: Final = 40
"""Chosen so that calibration takes at most a tenth of the ingestion, and well under a second for a small base."""

_LEAST_TERMS: Final = 4
_MOST_WORDS: Final = 16
"""About the length of a question: some words of a longer sentence always occur elsewhere."""

_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?:;。！？])\s+|\n+")
_AT_ONCE: Final = 8
"""Parallel searches, because an embedder may be a distant server."""

_LEAST_HEADING_TERMS: Final = 2
Resolve = Callable[[DomainSpec, SearchRequest], EffectiveSettings]


class JudgedQuestion(NamedTuple):
    """A question that a store is known to answer.

    Attributes:
        text: the question.
        gold: ids of chunks and documents that answer it. The question is used in parts that contain one of them; if
            empty, in all parts.
    """

    text: str
    gold: frozenset[str] = frozenset()


class _Questions(NamedTuple):
    own: Sequence[str]
    headings: Sequence[str]
    judged: Sequence[str]
    outside: Sequence[str]


def calibrate(
    store: Calibratable,
    domain: DomainSpec,
    *,
    resolve: Resolve = default_settings,
    judged: Sequence[JudgedQuestion] = (),
    outside: Sequence[str] | None = None,
    anew: bool = False,
    adapter_id: str | None = None,
) -> tuple[ScopeCalibration, ...]:
    """Calibrate the scope threshold of a domain to what a store holds, and keep the result in the store.

    Each part is calibrated separately: for words only, because a search continues without its embedder if that fails;
    for words and vectors; and under each adapter in force, because its cosines differ.

    Args:
        store: the store, written and committed.
        domain: its sources in the store are calibrated.
        resolve: returns the settings of its searches.
        judged: questions that the store is known to answer.
        outside: questions that it cannot answer, at least one; None: those that come with the package.
        anew: calibrate everything; else only what has changed enough.
        adapter_id: also calibrate under this adapter, which is about to be put in force.

    Returns:
        The calibrations for callers who may read everything, words only first; empty if the domain has too little text.

    Raises:
        StoreError: the store cannot be read, or not be written.
        EmbedderError: the model failed.
    """
    gold = frozenset[str]().union(*(question.gold for question in judged))
    names = [spec.id for spec in domain.sources]
    plan = store.calibration_plan(domain.domain, names, gold, anew=anew, adapter_id=adapter_id)
    specs = tuple(spec for spec in domain.sources if spec.id in plan.source_ids)
    domain = domain.model_copy(update={"sources": specs})
    calibrated_parts = []
    for part in plan.parts:
        questions = _asked(part, judged, outside or outside_questions())
        calibration = _calibrated(store, domain, resolve, part, questions)
        if calibration is not None:
            calibrated_parts.append((part, calibration))
    store.keep_calibrations(domain.domain, plan, calibrated_parts)
    by = [False, True] if plan.by_vector else [False]
    in_force = (store.calibration(domain.domain, by_vector=by_vector) for by_vector in by)
    return tuple(calibration for calibration in in_force if calibration is not None)


@cache
def outside_questions() -> tuple[str, ...]:
    """Return the off-topic questions that come with the package."""
    return tuple(json.loads(line)["text"] for line in OUT_OF_SCOPE.read_text("utf-8").splitlines())


def _asked(part: CalibrationPart, judged: Sequence[JudgedQuestion], outside: Sequence[str]) -> _Questions:
    """Return the questions for a part; larger parts get more."""
    wanted = min(max(part.chunks // _CHUNKS_A_SENTENCE, _FEWEST_SENTENCES), _MOST_SENTENCES)
    passages = part.passages[: 2 * wanted]
    own = list(dict.fromkeys(text for chunk in passages if (text := _sentence(chunk.content))))
    headings = list(dict.fromkeys(heading for chunk in passages if (heading := _heading(chunk))))
    count = min(max(_FEWEST_OUTSIDE, wanted), len(outside))
    return _Questions(
        own=own[:wanted],
        headings=headings[: wanted // _SENTENCES_A_HEADING],
        judged=[
            question.text for question in judged if not question.gold or not question.gold.isdisjoint(part.held_ids)
        ],
        outside=[outside[number * len(outside) // count] for number in range(count)],
    )


def _heading(chunk: Chunk) -> str:
    """Return a chunk's heading, or "" if it has too few terms for a question."""
    heading = next(iter(reversed(chunk.heading_path)), chunk.title or "")
    return heading if len(set(terms(heading))) >= _LEAST_HEADING_TERMS else ""


def _sentence(text: str) -> str:
    """Return the sentence of a text with the lowest hash, as long as a question; "" if none has enough terms."""
    parts = (" ".join(part.split()[:_MOST_WORDS]) for part in _SENTENCE_ENDS.split(text))
    telling = [part for part in parts if len(set(terms(part))) >= _LEAST_TERMS]
    return min(telling, key=lambda part: hashlib.sha256(part.encode("utf-8", "replace")).digest(), default="")


def _calibrated(
    store: Calibratable, domain: DomainSpec, resolve: Resolve, part: CalibrationPart, questions: _Questions
) -> ScopeCalibration | None:
    """Return the calibration of a part, None if it has too few sentences."""
    if len(questions.own) < _LEAST_SENTENCES:
        return None
    settings = resolve(domain, SearchRequest(query=questions.outside[0], domain=domain.domain)).values
    reader = _SignalReader(store, domain, settings, part)

    with ThreadPoolExecutor(max_workers=_AT_ONCE if part.scorer_id else 1) as threads:
        own = [signals for signals in threads.map(reader.best_beside, questions.own) if signals is not None]
        answered = list(threads.map(reader.best, (*questions.headings, *questions.judged)))
        outside = list(threads.map(reader.best, questions.outside))
    if len(own) < _LEAST_SENTENCES:
        return None
    by_vectors = bool(part.scorer_id)
    absolute, evidence = (
        CalibrationSignals(*([signals[index] for signals in of] for of in (own, answered, outside)))
        for index in range(len(_Signals._fields))
    )
    threshold, strong = calibrated(absolute, by_vectors=by_vectors)
    return ScopeCalibration(
        threshold=threshold,
        strong=strong,
        signal=SIGNAL_VERSION,
        model_id=part.scorer_id,
        own=len(own) + len(questions.headings),
        judged=len(questions.judged),
        outside=len(outside),
        chunks=part.chunks,
        near_miss=near_miss_threshold(evidence, by_vectors=by_vectors),
    )


_CANDIDATES: Final = 5
_MOST_TEXTS: Final = 10_000
_MOMENT: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""The time of the answers; the signal does not depend on it."""


class _Signals(NamedTuple):
    """The best absolute relevance and the best evidence among the candidates of a question."""

    absolute: float
    evidence: float


class _SignalReader:
    """Searches the sources of a domain, at least one, in one part of a store. Safe for several threads."""

    def __init__(self, store: Calibratable, domain: DomainSpec, settings: Settings, part: CalibrationPart) -> None:
        self._store, self._domain, self._settings, self._part = store, domain, settings, part
        self._analysed = lru_cache(maxsize=_MOST_TEXTS)(AnalysedText)

    def best(self, question: str) -> _Signals:
        """Return the best signals among the candidates of a question, 0 without any."""
        return _best(signals for _, signals in self._signals(question)) or _Signals(0.0, 0.0)

    def best_beside(self, sentence: str) -> _Signals | None:
        """Return the best signals among the texts that do not contain the sentence.

        None if all candidates contain it, because a stock phrase says nothing about the rest of the store.
        """
        return _best(signals for text, signals in self._signals(sentence) if not _repeats(text, sentence))

    def _signals(self, question: str) -> Iterator[tuple[str, _Signals]]:
        """Yield the text of each candidate with its signals, for each wording of the question."""
        prepared = prepared_query(question, self._domain.glossary, self._settings, None)
        query = SourceQuery(
            text=prepared.text,
            domain=self._domain.domain,
            top_k=_CANDIDATES,
            words=prepared.words,
            expansions=tuple(prepared.expansions),
        )
        searched = self._store.search_part(self._part, [spec.id for spec in self._domain.sources], query)
        spec = self._domain.sources[0]
        answer = RawAnswer(source_id=spec.id, chunks=tuple(searched.chunks), retrieved_at=_MOMENT)
        candidates, _ = pool([(spec, answer)], self._analysed)
        statistics = {} if searched.statistics is None else {spec.id: searched.statistics}
        for wording in (prepared.words or question, *variants(prepared)):
            measured = measure(wording, candidates, statistics)
            for candidate, *signals in zip(candidates, measured.absolute, measured.evidence, strict=True):
                yield candidate.chunk.content, _Signals(*signals)


def _best(signals: Iterable[_Signals]) -> _Signals | None:
    """Return the best of each signal; None without any."""
    all_signals = list(signals)
    return _Signals(*map(max, zip(*all_signals))) if all_signals else None


def _repeats(text: str, sentence: str) -> bool:
    return sentence in " ".join(text.split())
