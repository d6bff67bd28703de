"""The absolute relevance of what a base finds for a question, without a search's account: for many questions at once.

The same signal as in stage 2, over the best few candidates: the best one is hardly ever further down.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from context_engine.adapters.sources.local.base import LocalBase
from context_engine.adapters.sources.local.source import LocalSource
from context_engine.core.engine.refining import prepared_query
from context_engine.core.models import DomainSpec, Key, RawAnswer, Settings, SourceQuery, SourceSpec
from context_engine.core.query import variants
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.ranking.candidates import pool
from context_engine.core.ranking.relevance import measure

__all__ = ["SignalReader"]

_CANDIDATES: Final = 5
_MOST_TEXTS: Final = 10_000
_MOMENT: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Of the answers: the signal does not depend on it."""


class SignalReader:
    """Asks the sources of a domain in one base.

    Args:
        base: the base.
        domain: with sources that the base holds.
        settings: of its searches.
    """

    def __init__(self, base: LocalBase, domain: DomainSpec, settings: Settings) -> None:
        self._domain, self._settings = domain, settings
        self._sources = [(spec, LocalSource(base, spec.id, spec=spec)) for spec in domain.sources]
        self._analysed = lru_cache(maxsize=_MOST_TEXTS)(AnalysedText)

    def signals(self, question: str) -> Mapping[Key, float]:
        """Return the absolute relevance of the best candidates of each source, by their identity.

        Raises:
            SourceError: a source could not answer, or not with its vectors.
        """
        prepared = prepared_query(question, self._domain.glossary, self._settings, None)
        query = SourceQuery(
            text=prepared.text,
            words=prepared.words,
            domain=self._domain.domain,
            top_k=_CANDIDATES,
            expansions=prepared.expansions,
            timeout_s=self._settings.source_timeout_s,
        )
        answers, statistics = list[tuple[SourceSpec, RawAnswer]](), {}
        for spec, source in self._sources:
            answer = source.search(query)
            for failure in answer.failures:
                raise failure
            answers.append((spec, RawAnswer(source_id=spec.id, chunks=tuple(answer.chunks), retrieved_at=_MOMENT)))
            if answer.statistics is not None:
                statistics[spec.id] = answer.statistics
        candidates, _ = pool(answers, self._analysed)
        best: dict[Key, float] = {}
        for wording in (prepared.words or question, *variants(prepared)):
            for candidate, signal in zip(candidates, measure(wording, candidates, statistics).absolute, strict=True):
                best[candidate.key] = max(signal, best.get(candidate.key, 0.0))
        return best
