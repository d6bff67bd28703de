"""The path of every search: recall, rank, refill, search again in a suggested spelling, assemble."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from context_engine.core.engine.assemble import assemble
from context_engine.core.engine.candidate_table import RerankStep, StageTwoInput, StageTwoOutput
from context_engine.core.engine.search_plan import Recalled, RefillRequest, Retriever, SearchPlan
from context_engine.core.engine.stage2 import Watch, rank, unwatched
from context_engine.core.models import (
    MAX_TOP_K,
    Chunk,
    Fate,
    PreparedQuery,
    RawAnswer,
    SearchResult,
    Settings,
    SourceStatus,
    UnknownWord,
)
from context_engine.core.query.spelling import confident, edits, is_offered, reworded, words_to_check
from context_engine.core.ranking.candidates import AnalysedText, label_of
from context_engine.core.ranking.dedup import Deduplicate, deduplicate
from context_engine.core.text import terms

_FACTOR: Final = 5
"""Measured on 400 questions over 40 rulebooks with `max_per_document` 2: with 40 candidates 160 answers had fewer than
8 chunks, with 200 none."""

_NOT_FOR_RELEVANCE: Final = ("filter", "as_of", "expiry", "dedup")


class Pass(NamedTuple):
    """One pass of a search through both stages."""

    recalled: Recalled
    output: StageTwoOutput


def refill_request(first: Pass, settings: Settings) -> RefillRequest | None:
    """Return which sources to call for more candidates; None if the answer is full, or short for lack of relevance."""
    top_k = min(_FACTOR * settings.stage1_top_k, MAX_TOP_K)
    missing = settings.stage2_top_k - len(first.output.chunks)
    if not 0 < missing <= sum(map(_taken_away, first.output.fates)) or top_k == settings.stage1_top_k:
        return None
    places = tuple(
        place for place, status in enumerate(first.recalled.statuses) if _candidates(status) >= settings.stage1_top_k
    )
    return RefillRequest(places, top_k) if places else None


def better_pass(first: Pass, second: Pass) -> Pass:
    """Return the second pass, or the first if the second returns fewer chunks or lost its reranking."""
    unranked = second.output.rerank_failed is not None and first.output.rerank_failed is None
    return first if unranked or len(second.output.chunks) < len(first.output.chunks) else second


def _taken_away(fate: Fate) -> bool:
    return fate.stage in _NOT_FOR_RELEVANCE or fate.reason == "document_limit"


def _candidates(status: SourceStatus) -> int:
    """Number of chunks that a source gave, including those cut or refused."""
    return status.chunks + status.cut + status.rejected


Prepare = Callable[[str], PreparedQuery]
_MOST_EDITS: Final = 2


def unknown_words(text: str, answers: Sequence[RawAnswer]) -> list[UnknownWord]:
    """Return the words of a query that no source contains, each with the nearest suggestion of any source.

    If a source lists unknown words, it contains all others. If it does not, its chunks are searched for the word.
    """
    lists = [answer.unknown_words for answer in answers if answer.unknown_words is not None]
    listing = [{word.word: word.suggestion for word in listed} for listed in lists]
    others = [chunk for answer in answers if answer.unknown_words is None for chunk in answer.chunks]
    words = [word for word in words_to_check(text) if listing and all(word in listed for listed in listing)]
    contained = _terms_of(others) if words else frozenset()
    return [
        UnknownWord(word, _nearest(word, [listed[word] for listed in listing]))
        for word in words
        if contained.isdisjoint(terms(word))
    ]


def with_suggestions(plan: SearchPlan, answers: Sequence[RawAnswer]) -> SearchPlan:
    """Return the plan with the sources' suggestions for unknown words added to those of the glossary.

    An unknown word without any suggestion points to another subject ("who wins the world cup"). Beside one, other
    unknown words are probably correct words of that subject, so only confident suggestions are offered.
    """
    prepared = plan.prepared
    if prepared is None or prepared.corrected:
        return plan
    unknown = unknown_words(prepared.text, answers)
    known_subject = all(word.suggestion for word in unknown)
    pairs = [
        (word.word, word.suggestion) for word in unknown if word.suggestion and (known_subject or confident(*word))
    ]
    suggestions = tuple(dict.fromkeys((*prepared.suggestions, *pairs)))
    return replace(plan, prepared=replace(prepared, suggestions=suggestions)) if pairs else plan


def corrected_plan(plan: SearchPlan, first: Pass, prepare: Prepare) -> SearchPlan | None:
    """Return the plan of a search in the suggested spelling; None if none is needed.

    Args:
        plan: with its suggestions.
        first: the pass in the original spelling.
        prepare: prepares the corrected query.
    """
    prepared, failed = plan.prepared, any(status.error is not None for status in first.recalled.statuses)
    if prepared is None or not prepared.suggestions or prepared.corrected or first.output.chunks or failed:
        return None
    unknown = unknown_words(prepared.text, first.recalled.answers)
    if not all(_is_replaced(word, prepared.suggestions) for word in unknown):
        return None
    corrected = replace(
        prepare(reworded(prepared.text, prepared.suggestions)),
        original=prepared.original,
        suggestions=prepared.suggestions,
        notices=prepared.notices,
        corrected=True,
    )
    return replace(plan, prepared=corrected)


def _is_replaced(unknown: UnknownWord, suggestions: Iterable[tuple[str, str]]) -> bool:
    """Whether a word has a confident suggestion, or is part of a misspelt name of the glossary."""
    return confident(*unknown) or any(
        unknown.word in written.split() for written, known in suggestions if (written, known) != unknown
    )


def _terms_of(chunks: Iterable[Chunk]) -> frozenset[str]:
    return frozenset(term for chunk in chunks for term in (*terms(chunk.content), *terms(label_of(chunk))))


def _nearest(word: str, suggestions: Iterable[str]) -> str:
    """Return the suggestion with the fewest edits to the word; of several, that of the first source."""
    usable = [suggestion for suggestion in suggestions if is_offered(suggestion)]
    small = word.casefold()
    return min(
        usable, key=lambda suggestion: edits(small, suggestion.casefold(), _MOST_EDITS) or _MOST_EDITS + 1, default=""
    )


@dataclass(frozen=True, slots=True)
class SearchPipeline:
    """Both stages. A search, a recomputation and a ranking of given chunks differ only in these parts.

    Attributes:
        retriever: gives the answers of stage 1.
        rerank: gives the scores of the model reranker; None for no reranking.
        timer: seconds, for the times of the stages; the default measures nothing.
        analyse: analyses a text; an engine passes its cache.
        match: finds near-duplicates.
        prepare: prepares a query in the suggested spelling; None to search in the original spelling only.
        watch: shows the work of each step in a trace.
    """

    retriever: Retriever
    rerank: RerankStep | None = None
    timer: Callable[[], float] = float
    analyse: Callable[[str], AnalysedText] = AnalysedText
    match: Deduplicate = deduplicate
    prepare: Prepare | None = None
    watch: Watch = unwatched

    def run(self, plan: SearchPlan) -> SearchResult:
        """Carry out a plan."""
        with self.watch("recall"):
            recalled = self.retriever.recall(plan)
        first = self._searched(plan, recalled)
        plan = with_suggestions(plan, first.recalled.answers)
        return self._corrected(plan, first) or assemble(plan, first.recalled, first.output)

    def _searched(self, plan: SearchPlan, recalled: Recalled) -> Pass:
        if not plan.settings.graph_hops:
            return self._refilled(plan, self._ranked(plan, recalled))
        return self._expanded(plan, recalled)

    def _expanded(self, plan: SearchPlan, recalled: Recalled) -> Pass:
        """Return the pass with what the best chunks lead to; the reranker is called only once, at the end."""
        plain = replace(self, rerank=None)
        first = plain._refilled(plan, plain._ranked(plan, recalled))
        returned = first.output.chunks if first.output.in_scope else ()
        more = self.retriever.recall_linked(plan, first.recalled, returned)
        return first if more is None and self.rerank is None else self._ranked(plan, more or first.recalled)

    def _corrected(self, plan: SearchPlan, first: Pass) -> SearchResult | None:
        """Return the result in the suggested spelling; None if none is needed, or nothing relevant is found."""
        corrected = None if self.prepare is None else corrected_plan(plan, first, self.prepare)
        recalled = None if corrected is None else self.retriever.recall_again(corrected, first.recalled)
        if corrected is None or recalled is None:
            return None
        second = self._searched(corrected, recalled)
        is_relevant = second.output.chunks and second.output.in_scope
        return assemble(corrected, second.recalled, second.output) if is_relevant else None

    def _ranked(self, plan: SearchPlan, recalled: Recalled) -> Pass:
        inputs = StageTwoInput(plan, recalled.answers)
        return Pass(recalled, rank(inputs, self.rerank, self.timer, self.analyse, self.match, self.watch))

    def _refilled(self, plan: SearchPlan, first: Pass) -> Pass:
        """Return the first pass, or a second one over more candidates if the first answer is too short."""
        refill = refill_request(first, plan.settings)
        more = None if refill is None else self.retriever.recall_more(plan, first.recalled, refill)
        return first if more is None else better_pass(first, self._ranked(plan, more))
