"""Calibration of a base: which signal its own questions have, and which off-topic ones, in each of its partitions.

    with LocalBase.open(path) as base:
        calibrate(base, domain)

Nothing is drawn by chance: the passages asked for are those with the lowest digests, so that equal content gives equal
thresholds, in whatever order it was written.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.adapters.sources.local import calibrations, schema
from context_engine.adapters.sources.local.base import LocalBase
from context_engine.adapters.sources.local.calibrations import Extent, StoredCalibration
from context_engine.adapters.sources.local.options import SearchOptions
from context_engine.core.engine.defaults import default_settings
from context_engine.core.engine.refining import prepared_query
from context_engine.core.models import (
    DomainSpec,
    EffectiveSettings,
    RawAnswer,
    ScopeCalibration,
    SearchRequest,
    Settings,
)
from context_engine.core.query import variants
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.ranking.candidates import pool
from context_engine.core.ranking.relevance import measure
from context_engine.core.ranking.scope import SIGNAL_VERSION, CalibrationSignals, calibrated
from context_engine.core.text import terms

if TYPE_CHECKING:
    from context_engine.adapters.sources.local.domain_adapter import DomainAdapter


OUT_OF_SCOPE: Final = Path(__file__).resolve().with_name("out_of_scope.jsonl")
"""Two hundred questions of everyday life: cooking, sport, health, travel ... nothing a bank's rules could answer."""

_CHUNKS_A_SENTENCE: Final = 40

_LEAST_SENTENCES: Final = 10
"""With fewer sentences the measured default is better."""

_FEWEST_SENTENCES: Final = 40

_MOST_SENTENCES: Final = 100

_SENTENCES_A_HEADING: Final = 4

_FEWEST_OUTSIDE: Final = 40
"""So much is asked that the calibration takes a tenth of the ingestion at most, and of a small base a blink."""

_LEAST_TERMS: Final = 4

_MOST_WORDS: Final = 16
"""About as long as a question: a long sentence holds so many words that some are always found elsewhere."""

_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?:;。！？])\s+|\n+")

_AT_ONCE: Final = 8
"""An embedder may be a server that is far."""

_LEAST_HEADING_TERMS: Final = 2

_QUICK: Final = SearchOptions(section_weight=0.0, sibling_weight=0.0, depth=5)
"""What is found by words alone has the same signal in whatever order it is ranked."""

Resolve = Callable[[DomainSpec, SearchRequest], EffectiveSettings]


class JudgedQuestion(NamedTuple):
    """A question that a base is known to answer.

    Attributes:
        text: the question.
        gold: ids of the chunks and documents that answer it, one of which a partition must hold to be asked; empty:
            each is asked.
    """

    text: str
    gold: frozenset[str] = frozenset()


class _Questions(NamedTuple):
    own: Sequence[str]
    headings: Sequence[str]
    judged: Sequence[str]
    outside: Sequence[str]


def calibrate(
    base: LocalBase,
    domain: DomainSpec,
    *,
    resolve: Resolve = default_settings,
    judged: Sequence[JudgedQuestion] = (),
    outside: Sequence[str] | None = None,
    anew: bool = False,
    adapter_id: str | None = None,
) -> tuple[ScopeCalibration, ...]:
    """Calibrate the scope threshold of a domain to what a base holds, and keep the result in the base.

    Each partition is calibrated by itself: for words alone, for a search whose embedder fails goes on without it; with
    the base's embedder for both together; and under each adapter in force, whose cosines are others. What is calibrated
    already is left alone until a fifth of its partition has changed. Where documents are moved to other partitions
    meanwhile, nothing is kept.

    Args:
        base: the base, written and committed.
        domain: those of its sources that the base holds are asked.
        resolve: the settings of its searches.
        judged: questions that the base is known to answer.
        outside: questions that it cannot answer, at least one; None: those that come with the package.
        anew: calibrate whatever has changed.
        adapter_id: of an adapter that is about to be put in force: calibrate under it too.

    Returns:
        Those in force for who may read all: words alone first; empty where the base holds too little of the domain.

    Raises:
        StoreError: the base cannot be read, or not be written.
        EmbedderError: the model failed.
    """
    held = base.stats()
    specs = tuple(spec for spec in domain.sources if spec.id in held.sources)
    domain = domain.model_copy(update={"sources": specs})
    with LocalBase(base.path, options=_QUICK) as by_words:
        legs = list(_legs(by_words, base, domain.domain, adapter_id))
        with closing(schema.connect(base.path, write=False)) as connection:
            connection.execute("BEGIN")
            state = schema.read_state(connection, base.path)
            due, gone = _due(connection, domain, [leg.scorer_id for leg in legs], anew=anew)
            asked = {
                partition: _asked(connection, domain, partition, judged, outside or outside_questions())
                for partition in {partition for _, partition in due}
            }
        tried = [(leg, partition) for leg in legs for scorer_id, partition in due if scorer_id == leg.scorer_id]
        found = (_calibrated(leg, domain, resolve, partition, *asked[partition]) for leg, partition in tried)
        stored = [one for one in found if one is not None]
        keys = [(domain.domain, scorer_id, partition) for scorer_id, partition in (*due, *gone)]
        calibrations.replace(base.path, state.index_number, keys, stored)
    by = [False, True] if len(legs) > 1 else [False]
    in_force = (base.calibration(domain.domain, by_vector=by_vector) for by_vector in by)
    return tuple(one for one in in_force if one is not None)


class _Leg(NamedTuple):
    """One way of searching, whose signal is calibrated by itself.

    Attributes:
        base: opened for it.
        scorer_id: what its cosines are known by; "" without any.
        adapter: what they are taken under, where there is one.
    """

    base: LocalBase
    scorer_id: str = ""
    adapter: DomainAdapter | None = None


def _legs(by_words: LocalBase, base: LocalBase, domain: str, adapter_id: str | None) -> Iterator[_Leg]:
    """Yield words alone, the vectors as they are, and these under each adapter that is or will be in force."""
    yield _Leg(by_words)
    if not base.model_id or base.model_id != base.stats().model_id:
        return
    yield _Leg(base, base.model_id)
    wanted = {one.adapter_id for one in base.adapters(domain) if one.in_force}
    for name in sorted(wanted if adapter_id is None else wanted | {adapter_id}):
        adapter = base.read_adapter(domain, name)
        if adapter is not None:
            yield _Leg(base, adapter.scorer_id, adapter)


@cache
def outside_questions() -> tuple[str, ...]:
    """Return the off-topic questions that come with the package."""
    return tuple(json.loads(line)["text"] for line in OUT_OF_SCOPE.read_text("utf-8").splitlines())


def _due(
    connection: sqlite3.Connection, domain: DomainSpec, scorer_ids: Sequence[str], *, anew: bool
) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return the scorers and partitions to be calibrated, and those that hold nothing of the domain any more."""
    names = [spec.id for spec in domain.sources]
    wanted = [(one, key) for one in scorer_ids for key in calibrations.partitions_of(connection, names)]
    stored = [one for one in calibrations.read_all(connection) if one.domain == domain.domain]
    kept = {
        (one.calibration.model_id, one.partition)
        for one in stored
        if not anew and not calibrations.outdated(connection, one, names)
    }
    holding = {partition for _, partition in wanted}
    gone = [(one.calibration.model_id, one.partition) for one in stored if one.partition not in holding]
    return [one for one in wanted if one not in kept], gone


def _asked(
    connection: sqlite3.Connection,
    domain: DomainSpec,
    partition: int,
    judged: Sequence[JudgedQuestion],
    outside: Sequence[str],
) -> tuple[_Questions, Extent]:
    """Return what is asked of a partition, the more the larger it is, and how much it holds."""
    names = json.dumps([spec.id for spec in domain.sources])
    extent = calibrations.extent_of(connection, json.loads(names), partition)
    wanted = min(max(extent.chunks // _CHUNKS_A_SENTENCE, _FEWEST_SENTENCES), _MOST_SENTENCES)
    rows = connection.execute(
        "SELECT content, fields FROM chunks JOIN documents USING (doc_key) JOIN sources USING (source_key)"
        " WHERE removed IS NULL AND partition_key = ? AND source_id IN (SELECT value FROM json_each(?))"
        " ORDER BY digest LIMIT ?",
        (partition, names, 2 * wanted),
    ).fetchall()
    own = list(dict.fromkeys(text for content, _ in rows if (text := _sentence(content))))
    headings = dict.fromkeys(heading for _, fields in rows if (heading := _heading(json.loads(fields))))
    count = min(max(_FEWEST_OUTSIDE, wanted), len(outside))
    questions = _Questions(
        own=own[:wanted],
        headings=list(headings)[: wanted // _SENTENCES_A_HEADING],
        judged=[one.text for one in judged if not one.gold or _holds(connection, partition, names, one.gold)],
        outside=[outside[number * len(outside) // count] for number in range(count)],
    )
    return questions, extent


def _holds(connection: sqlite3.Connection, partition: int, sources: str, ids: Collection[str]) -> bool:
    """Return whether a partition holds one of some chunks or documents; `sources` is a JSON list."""
    found = connection.execute(
        "SELECT 1 FROM documents JOIN sources USING (source_key) WHERE removed IS NULL AND partition_key = :partition"
        " AND source_id IN (SELECT value FROM json_each(:sources))"
        " AND (document_id IN (SELECT value FROM json_each(:ids))"
        " OR doc_key IN (SELECT doc_key FROM chunks WHERE chunk_id IN (SELECT value FROM json_each(:ids)))) LIMIT 1",
        {"partition": partition, "sources": sources, "ids": json.dumps(sorted(ids))},
    )
    return found.fetchone() is not None


def _heading(fields: Mapping[str, Any]) -> str:
    """Return a chunk's heading, or "" if it has too few terms for a question."""
    heading = next(iter(reversed(fields.get("heading_path") or ())), fields.get("title") or "")
    return heading if len(set(terms(heading))) >= _LEAST_HEADING_TERMS else ""


def _sentence(text: str) -> str:
    """Return the sentence of a text with the lowest hash, as long as a question; "" where none says enough."""
    parts = (" ".join(part.split()[:_MOST_WORDS]) for part in _SENTENCE_ENDS.split(text))
    telling = [part for part in parts if len(set(terms(part))) >= _LEAST_TERMS]
    return min(telling, key=lambda part: hashlib.sha256(part.encode("utf-8", "replace")).digest(), default="")


def _calibrated(
    leg: _Leg, domain: DomainSpec, resolve: Resolve, partition: int, questions: _Questions, extent: Extent
) -> StoredCalibration | None:
    """Return the calibration of a partition, None where it says too little."""
    if len(questions.own) < _LEAST_SENTENCES:
        return None
    settings = resolve(domain, SearchRequest(query=questions.outside[0], domain=domain.domain)).values
    reader = SignalReader(leg.base, domain, settings, partition=partition, adapter=leg.adapter)

    with ThreadPoolExecutor(max_workers=_AT_ONCE if leg.scorer_id else 1) as threads:
        signals = CalibrationSignals(
            own=[signal for signal in threads.map(reader.best_beside, questions.own) if signal is not None],
            answered=list(threads.map(reader.best, (*questions.headings, *questions.judged))),
            outside=list(threads.map(reader.best, questions.outside)),
        )
    if len(signals.own) < _LEAST_SENTENCES:
        return None
    threshold, strong = calibrated(signals, by_vectors=bool(leg.scorer_id))
    calibration = ScopeCalibration(
        threshold=threshold,
        strong=strong,
        signal=SIGNAL_VERSION,
        model_id=leg.scorer_id,
        own=len(signals.own) + len(questions.headings),
        judged=len(questions.judged),
        outside=len(signals.outside),
        chunks=extent.chunks,
    )
    return StoredCalibration(domain.domain, partition, calibration, extent.base_chunks, extent.last_rid)


_CANDIDATES: Final = 5

_MOST_TEXTS: Final = 10_000

_MOMENT: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Of the answers: the signal does not depend on it."""


class SignalReader:
    """Asks the sources of a domain in one base. Safe for several threads.

    Args:
        base: the base.
        domain: its sources are those that the base holds, at least one.
        settings: of its searches.
        partition: the only one that is asked; None: all.
        adapter: what cosines are taken under; None: the model's own vectors.
    """

    def __init__(
        self,
        base: LocalBase,
        domain: DomainSpec,
        settings: Settings,
        *,
        partition: int | None = None,
        adapter: DomainAdapter | None = None,
    ) -> None:
        self._base, self._domain, self._settings = base, domain, settings
        self._partition, self._adapter = partition, adapter
        self._analysed = lru_cache(maxsize=_MOST_TEXTS)(AnalysedText)

    def best(self, question: str) -> float:
        """Return the best absolute relevance among the candidates of a question, 0 where there is none.

        Raises:
            EmbedderError, StoreError: the model failed, or the base cannot be read.
        """
        return max((signal for _, signal in self._signals(question)), default=0.0)

    def best_beside(self, sentence: str) -> float | None:
        """Return the best absolute relevance among the texts that do not hold the sentence that is asked for.

        None where all candidates hold it: a set phrase, of which the rest of the base cannot tell anything.

        Raises:
            EmbedderError, StoreError: as in `best`.
        """
        return max((signal for text, signal in self._signals(sentence) if not _repeats(text, sentence)), default=None)

    def _signals(self, question: str) -> Iterator[tuple[str, float]]:
        """Yield the text of each candidate with its signal, by each wording of the question."""
        prepared = prepared_query(question, self._domain.glossary, self._settings, None)
        names = [spec.id for spec in self._domain.sources]
        found = self._base.best_of(
            prepared.text,
            names,
            top_k=_CANDIDATES,
            words=prepared.words,
            expansions=prepared.expansions,
            partition=self._partition,
            adapter=self._adapter,
        )
        spec = self._domain.sources[0]
        answer = RawAnswer(source_id=spec.id, chunks=tuple(found.chunks), retrieved_at=_MOMENT)
        candidates, _ = pool([(spec, answer)], self._analysed)
        statistics = {} if found.statistics is None else {spec.id: found.statistics}
        for wording in (prepared.words or question, *variants(prepared)):
            for candidate, signal in zip(candidates, measure(wording, candidates, statistics).absolute, strict=True):
                yield candidate.chunk.content, signal


def _repeats(text: str, sentence: str) -> bool:
    return sentence in " ".join(text.split())
