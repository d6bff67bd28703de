"""Misspelt words: what the sources suggest for words that they hold nowhere, and the search in the other spelling.

A suggestion is offered. It takes the place of what was written only where nothing was found, no source failed, and
each word that no text holds has a suggestion that is confident: else the question may be of another subject.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from context_engine.core.engine.refill import Pass
from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.models import Chunk, PreparedQuery, RawAnswer, UnknownWord
from context_engine.core.query.spelling import confident, edits, is_offered, reworded, words_to_check
from context_engine.core.ranking.candidates import label_of
from context_engine.core.text import terms

Prepare = Callable[[str], PreparedQuery]
_MOST_EDITS: Final = 2


def unknown_words(text: str, answers: Sequence[RawAnswer]) -> list[UnknownWord]:
    """Return the words of a query that no source holds, each with the nearest word that some source suggests.

    A source that lists unknown words holds those that it does not list; of one that lists none, its chunks tell.
    """
    lists = [answer.unknown_words for answer in answers if answer.unknown_words is not None]
    listing = [{one.word: one.suggestion for one in listed} for listed in lists]
    others = [chunk for answer in answers if answer.unknown_words is None for chunk in answer.chunks]
    words = [word for word in words_to_check(text) if listing and all(word in listed for listed in listing)]
    held = _terms_of(others) if words else frozenset()
    return [
        UnknownWord(word, _nearest(word, [listed[word] for listed in listing]))
        for word in words
        if held.isdisjoint(terms(word))
    ]


def with_suggestions(plan: SearchPlan, answers: Sequence[RawAnswer]) -> SearchPlan:
    """Return the plan with what the sources suggest for unknown words beside the suggestions of the glossary.

    A word that nothing is near tells of another subject ("who wins the world cup"): beside one, a short word that is
    near to another is more likely a word of that subject, so confident suggestions alone are offered.
    """
    prepared = plan.prepared
    if prepared is None or prepared.corrected:
        return plan
    unknown = unknown_words(prepared.text, answers)
    known_subject = all(one.suggestion for one in unknown)
    found = [(one.word, one.suggestion) for one in unknown if one.suggestion and (known_subject or confident(*one))]
    suggestions = tuple(dict.fromkeys((*prepared.suggestions, *found)))
    return replace(plan, prepared=replace(prepared, suggestions=suggestions)) if found else plan


def corrected_plan(plan: SearchPlan, first: Pass, prepare: Prepare) -> SearchPlan | None:
    """Return the plan of a search in the suggested spelling; None where there is no reason for one.

    Args:
        plan: with its suggestions.
        first: what came of it.
        prepare: reads the other wording as the first was read.
    """
    prepared, failed = plan.prepared, any(status.error is not None for status in first.recalled.statuses)
    if prepared is None or not prepared.suggestions or prepared.corrected or first.output.chunks or failed:
        return None
    unknown = unknown_words(prepared.text, first.recalled.answers)
    if not all(_is_replaced(one, prepared.suggestions) for one in unknown):
        return None
    other = replace(
        prepare(reworded(prepared.text, prepared.suggestions)),
        original=prepared.original,
        suggestions=prepared.suggestions,
        notices=prepared.notices,
        corrected=True,
    )
    return replace(plan, prepared=other)


def _is_replaced(unknown: UnknownWord, suggestions: Iterable[tuple[str, str]]) -> bool:
    """Whether a word has a confident suggestion, or is part of a misspelt name of the glossary."""
    return confident(*unknown) or any(
        unknown.word in written.split() for written, known in suggestions if (written, known) != unknown
    )


def _terms_of(chunks: Iterable[Chunk]) -> frozenset[str]:
    return frozenset(term for chunk in chunks for term in (*terms(chunk.content), *terms(label_of(chunk))))


def _nearest(word: str, suggestions: Iterable[str]) -> str:
    """Return the suggestion that is parted from the word by the fewest slips, the first source's of several."""
    usable = [one for one in suggestions if is_offered(one)]
    small = word.casefold()
    return min(usable, key=lambda one: edits(small, one.casefold(), _MOST_EDITS) or _MOST_EDITS + 1, default="")
