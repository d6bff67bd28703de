"""A policy without a model: the whole question, its parts, what the passages cite, and what is still missing.

A recorded workflow is replayed from its record and the records of its searches; no source, model or clock is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, cast

from context_engine.answer.gathering import Gathering, SearchRound
from context_engine.answer.wants import read_question
from context_engine.core.models import RankedChunk, SearchResult, TrustClass
from context_engine.core.policy.injection import INJECTION_SUSPECTED
from context_engine.core.query.features import belongs_to, citations
from context_engine.core.query.prepare import clean, sub_questions
from context_engine.core.text import terms, words
from context_engine.jobs.workflow import NextSearch, NextStep, Stop, Why, WorkflowState, with_round

_COVERED: Final = 0.9
_READ: Final = 2
_LEAST_MISSING: Final = 2


class RuleBasedPolicy:
    """Decides by rules, the same for all questions.

    In this order: each part of the question; the documents that the best passages cite, as long as a part is not
    covered; the words that no passage has. It stops when the parts are covered, or nothing is left to search.
    """

    name = "rules"

    def decide(self, state: WorkflowState) -> NextStep:
        """Return the next search, or why there is none."""
        done = {searched.query for searched in state.rounds}
        step = next((step for step in _steps(state) if step.query not in done), None)
        return step or Stop("nothing_new" if _uncovered(state) else "complete")


def _steps(state: WorkflowState) -> Iterator[NextSearch]:
    """Yield what could be searched, the most telling first."""
    yield from (NextSearch(part, "part") for part in _parts(state))
    if _uncovered(state):
        yield from _cited(state)
    missing = _missing(state)
    if len(missing) >= _LEAST_MISSING:
        yield NextSearch(" ".join(missing), "gap")


def _uncovered(state: WorkflowState) -> list[str]:
    """Return the parts of the question that no passage covers."""
    texts = [_terms(chunk) for chunk in _all_passages(state)]
    return [part for part in _parts(state) if max((_coverage(part, text) for text in texts), default=0.0) < _COVERED]


def _parts(state: WorkflowState) -> tuple[str, ...]:
    return sub_questions(clean(state.question).text) or (state.question,)


def _coverage(part: str, text: frozenset[str]) -> float:
    """Return the share of the information that a part of a question asks for and a text holds, [0, 1]."""
    weights = read_question(part).weights
    covered = sum(weight for term, weight in weights.items() if term in text)
    return covered / sum(weights.values()) if weights else 1.0


def _missing(state: WorkflowState, passages: Iterable[RankedChunk] | None = None) -> list[str]:
    """Return the words of the question that none of these passages has; default: of all that were read."""
    texts = frozenset[str]().union(*map(_terms, _all_passages(state) if passages is None else passages))
    wanted = read_question(state.question).weights
    return [
        word.strip("?.,;:!")
        for word in words(state.question)
        if any(term in wanted and term not in texts for term in terms(word))
    ]


def _cited(state: WorkflowState) -> Iterator[NextSearch]:
    """Yield a search of each document that a passage cites and that was not read, for what the passage lacks.

    What an unverified source cites, or a text that reads like instructions, is not followed.
    """
    followed = [number for number, searched in enumerate(state.rounds) if searched.hops < state.limits.hops]
    for number in followed:
        for chunk in filter(_is_followed, state.passages(number)[:_READ]):
            for cited in filter(lambda cited: cited.document, citations(chunk.content)):
                if not any(belongs_to(read.chunk, cited.document) for read in _all_passages(state)):
                    query = " ".join([cited.query, *_missing(state, [chunk])])
                    yield NextSearch(query, "citation", cited.document, state.rounds[number].hops + 1)


def _is_followed(chunk: RankedChunk) -> bool:
    return chunk.trust_class is TrustClass.TRUSTED and INJECTION_SUSPECTED not in chunk.flags


def _all_passages(state: WorkflowState) -> list[RankedChunk]:
    return [chunk for number in range(len(state.rounds)) for chunk in state.passages(number)]


def _terms(chunk: RankedChunk) -> frozenset[str]:
    known = chunk.chunk
    return frozenset(terms(" ".join(filter(None, (known.title, *known.heading_path, known.content)))))


def replayed(recorded: Gathering, results: Sequence[SearchResult]) -> WorkflowState:
    """Return the state in which a recorded workflow ended.

    Args:
        results: of the recorded searches, one for each round, in order.
    """
    state = _begun(recorded)
    for searched, result in zip(recorded.rounds, results, strict=True):
        state = _again(state, searched, result)
    return replace(state, step=Stop(recorded.stopped))


def changed_decision(recorded: Gathering, results: Sequence[SearchResult]) -> str:
    """Return which recorded decision the rules would now make otherwise, for people; "" if none, or a model decided.

    Args:
        results: as for `replayed`.
    """
    if recorded.policy != RuleBasedPolicy.name:
        return ""
    policy, state = RuleBasedPolicy(), _begun(recorded)
    for number, (searched, result) in enumerate(zip(recorded.rounds, results, strict=True), start=1):
        if number > 1 and (step := policy.decide(state)) != _step_of(searched):
            return f"instead of search {number} the rules would now {_described(step)}"
        state = _again(state, searched, result)
    return ""


def _begun(recorded: Gathering) -> WorkflowState:
    return WorkflowState(question=recorded.rounds[0].query, limits=recorded.limits)


def _step_of(searched: SearchRound) -> NextSearch:
    return NextSearch(searched.query, cast(Why, searched.why), searched.cites, searched.hops)


def _again(state: WorkflowState, searched: SearchRound, result: SearchResult) -> WorkflowState:
    return with_round(replace(state, step=_step_of(searched), results=(*state.results, result)))


def _described(step: NextStep) -> str:
    return f"stop ({step.why})" if isinstance(step, Stop) else f"make another one ({step.why})"
