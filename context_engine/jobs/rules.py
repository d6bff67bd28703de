"""A policy without a model: the whole question, its parts, what the passages cite, and what is still missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from context_engine.answer.gathering import is_cited
from context_engine.answer.wants import read_question
from context_engine.core.models import RankedChunk, TrustClass
from context_engine.core.policy.injection import INJECTION_SUSPECTED
from context_engine.core.query.features import codes
from context_engine.core.query.prepare import clean, sub_questions
from context_engine.core.text import terms, words
from context_engine.jobs.workflow import NextSearch, NextStep, Stop, WorkflowState

_COVERED: Final = 0.9
_READ: Final = 2
_LEAST_MISSING: Final = 2
_ITEMS: Final = re.compile(r"(?:\(\w{1,4}\))+$")
_CLAUSE: Final = r"(?:sections?|clauses?|paragraphs?|part|§)\s*([A-Z]?\d[\w.]*(?:\(\w{1,4}\))*)"
_CLAUSE_OF: Final = rf"{_CLAUSE}\s+(?:of|in)\s+(?:the\s+)?$"
_AFTER: Final = rf"^,?\s+{_CLAUSE}"


class CitedDocument(NamedTuple):
    """A document that a passage names.

    Attributes:
        code: its id, or its kind and number, as written.
        clause: the number or the items of a clause; "" if the whole document is named.
    """

    code: str
    clause: str

    @property
    def query(self) -> str:
        """The name as it is searched."""
        return f"{self.code}{self.clause}" if self.clause.startswith("(") else f"{self.code} {self.clause}".strip()


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
            for citation in citations(chunk.content):
                if not any(is_cited(read, citation.code) for read in _all_passages(state)):
                    query = " ".join([citation.query, *_missing(state, [chunk])])
                    yield NextSearch(query, "citation", citation.code, state.rounds[number].hops + 1)


def _is_followed(chunk: RankedChunk) -> bool:
    return chunk.trust_class is TrustClass.TRUSTED and INJECTION_SUSPECTED not in chunk.flags


def citations(text: str) -> list[CitedDocument]:
    """Return the documents that a text names, each once, with the clause beside the name.

    >>> citations("In every other case section 5.1 of ORM-SOP-001 applies.")
    [CitedDocument(code='ORM-SOP-001', clause='5.1')]
    """
    return list(dict.fromkeys(_citation(text, name) for name in codes(text)))


def _citation(text: str, name: str) -> CitedDocument:
    code = _ITEMS.sub("", name)
    return CitedDocument(code, name.removeprefix(code) or _clause(text, name))


def _clause(text: str, code: str) -> str:
    before, _, after = text.partition(code)
    beside = re.search(_CLAUSE_OF, before, re.IGNORECASE) or re.search(_AFTER, after, re.IGNORECASE)
    return beside[1] if beside else ""


def _all_passages(state: WorkflowState) -> list[RankedChunk]:
    return [chunk for number in range(len(state.rounds)) for chunk in state.passages(number)]


def _terms(chunk: RankedChunk) -> frozenset[str]:
    known = chunk.chunk
    return frozenset(terms(" ".join(filter(None, (known.title, *known.heading_path, known.content)))))
