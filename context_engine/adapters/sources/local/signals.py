"""The absolute relevance of what a base finds for a question, without a search's account: for many questions at once.

The same signal as in stage 2, over the best few candidates: the best one is hardly ever further down.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from context_engine.adapters.sources.local.base import LocalBase
from context_engine.core.engine.refining import prepared_query
from context_engine.core.models import DomainSpec, RawAnswer, Settings
from context_engine.core.query import variants
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.ranking.candidates import pool
from context_engine.core.ranking.relevance import measure

if TYPE_CHECKING:
    from context_engine.adapters.sources.local.domain_adapter import DomainAdapter


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
        return max((signal for text, signal in self._signals(sentence) if not _holds(text, sentence)), default=None)

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


def _holds(text: str, sentence: str) -> bool:
    return sentence in " ".join(text.split())
