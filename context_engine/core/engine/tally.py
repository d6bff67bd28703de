"""Counts of searches, their stages and sources, and answers; they hold no question, no text and no caller."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from typing import Final, NamedTuple

from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import AnswerRecord, RankedChunk, SearchResult

SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the classes into which durations are counted."""


class Durations(NamedTuple):
    """How long something took.

    Attributes:
        counts: of durations in each class of `SECONDS`; the last counts those above all bounds.
        seconds: all of them together.
    """

    counts: tuple[int, ...]
    seconds: float


class SearchCounts(NamedTuple):
    """Counts since an engine was made.

    Attributes:
        searches: by domain, status and decision.
        stages: seconds by domain and stage.
        chunks: returned, by domain, authority tier and freshness: fresh, expired or unknown.
        calls: by domain, source and outcome: ok, empty, partial, or the code of the error.
        durations: of the calls, by domain and source.
        cache: look-ups in the cache of answers, by domain and outcome: hit or miss.
        answers: by domain, mode and outcome: answered, or the code of the refusal.
        sentences: of answers, by domain and verdict.
        tokens: of chat models, by domain, model and direction: input or output.
        costs: of chat models, by domain, model and currency.
    """

    searches: dict[tuple[str, str, str], int]
    stages: dict[tuple[str, str], float]
    chunks: dict[tuple[str, str, str], int]
    calls: dict[tuple[str, str, str], int]
    durations: dict[tuple[str, str], Durations]
    cache: dict[tuple[str, str], int]
    answers: dict[tuple[str, str, str], int]
    sentences: dict[tuple[str, str], int]
    tokens: dict[tuple[str, str, str], int]
    costs: dict[tuple[str, str, str], float]


class SearchTally:
    """Counts searches, the calls of their sources, and answers. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._searches, self._calls = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
        self._stages: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._chunks = Counter[tuple[str, str, str]]()
        self._durations: defaultdict[tuple[str, str], _Histogram] = defaultdict(_Histogram)
        self._answers, self._tokens = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
        self._sentences, self._cache = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self._costs: defaultdict[tuple[str, str, str], float] = defaultdict(float)

    def note(self, result: SearchResult) -> None:
        """Count a search; its stages and the calls of its sources unless its answer came from the cache."""
        domain = result.domain
        returned = Counter((domain, str(chunk.authority_tier), _age(chunk)) for chunk in result.chunks)
        with self._lock:
            self._searches[domain, str(result.status), str(result.decision)] += 1
            self._chunks.update(returned)
            if result.cache_age_s is not None:
                return
            for stage in result.stages:
                self._stages[domain, stage.name] += stage.elapsed_ms / 1000.0
            for source in result.sources:
                error = source.error if source.state == "failed" else None
                outcome = source.state if error is None else str(error["code"])
                self._calls[domain, source.source_id, outcome] += 1
                self._durations[domain, source.source_id].add(source.elapsed_ms / 1000.0)

    def note_cache(self, domain: str, *, hit: bool) -> None:
        """Count a look-up in the cache of answers."""
        with self._lock:
            self._cache[domain, "hit" if hit else "miss"] += 1

    def note_answer(self, domain: str, answer: AnswerRecord) -> None:
        """Count an answer."""
        facts = answer.facts
        calls = [call for call in (facts["rewriting"], *facts.get("deciding", ()), facts["model"]) if call is not None]
        with self._lock:
            self._answers[domain, facts["mode"], facts["refusal"] or "answered"] += 1
            self._sentences.update((domain, sentence["verdict"]) for sentence in facts["sentences"])
            for call in calls:
                usage, cost = call["usage"], call["cost"]
                for direction in ("input", "output") if usage else ():
                    self._tokens[domain, call["name"], direction] += usage[f"{direction}_tokens"]
                if cost:
                    self._costs[domain, call["name"], cost["currency"]] += float(cost["amount"])

    def read(self) -> SearchCounts:
        """Return the counts so far."""
        with self._lock:
            return SearchCounts(
                searches=dict(self._searches),
                stages=dict(self._stages),
                chunks=dict(self._chunks),
                calls=dict(self._calls),
                durations={key: histogram.read() for key, histogram in self._durations.items()},
                cache=dict(self._cache),
                answers=dict(self._answers),
                sentences=dict(self._sentences),
                tokens=dict(self._tokens),
                costs=dict(self._costs),
            )


def _age(chunk: RankedChunk) -> str:
    return str(chunk.provenance.extra.get("freshness", "unknown"))


class _Histogram:
    def __init__(self) -> None:
        self._counts, self._seconds = [0] * (len(SECONDS) + 1), 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(SECONDS, seconds)] += 1
        self._seconds += seconds

    def read(self) -> Durations:
        return Durations(tuple(self._counts), self._seconds)
