"""A sentence that repeats a statement nearly word for word: what it changes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import combinations, pairwise, takewhile
from typing import Final, NamedTuple

from context_engine.answer.reading import MeaningKind, MeaningToken, Tokens, content_keys
from context_engine.answer.subjects import is_passive
from context_engine.answer.values import SentenceFinding
from context_engine.core.text import stems

LEAST_REPEATED: Final = 0.8
"""Least share of a sentence's tokens that stand in the statement in one order."""
_LEAST_TOKENS: Final = 6
_ARTICLES: Final = frozenset(["a", "an", "the", "any", "its", "their", "this", "that", "each", "all"])
_PREPOSITIONS: Final = frozenset(["in", "on", "at", "of", "for", "with", "from", "by", "under", "within"])
_MODALS: Final = frozenset(["must", "shall", "should", "may", "can", "will"])
_RELATIVES: Final = frozenset(["who", "which", "that", "whose", "whom"])
_MOST_LEFT_OUT: Final = 3
"""More tokens in a row are a part of the statement that the sentence does not speak of."""


class _Alteration(NamedTuple):
    """Tokens of the statement, and what the sentence has in their place.

    Attributes:
        is_part: whether a whole part of the statement is left out: its beginning, its end, many tokens, or the first of
            two predicates ("is valid for a year and").
        widens: whether only a restriction is left out, so that the sentence speaks of more: "new" of "new customers".
    """

    old: Tokens
    new: Tokens
    is_part: bool
    widens: bool


def altered(
    claim: Tokens,
    lead: Tokens,
    own: Tokens,
    words: Sequence[str] = (),
    claimed: Sequence[str] = (),
) -> Iterator[SentenceFinding]:
    """Yield what a sentence changes, if it repeats a statement nearly word for word; nothing otherwise.

    A value, name, modal, negation, condition, bound or side may only move: if it is added at one place, it must be
    missing at another, and the reverse. Plain words may be replaced by other words, and names by pronouns.

    Args:
        claim: the sentence, as `reading.read` returns it.
        lead, own: the statement's lead-in, which the sentence may leave out, and its own words.
        words, claimed: all words and marks of the statement and of the sentence, in lower case.
    """
    sentence = _content(claim)
    whole = max((own, (*lead, *own)), key=lambda tokens: _repeated(sentence, _content(tokens)))
    statement = _content(whole)
    if _repeated(sentence, statement) < LEAST_REPEATED * len(sentence):
        return
    yield from _unrestricted(claimed, words)
    if len(sentence) < _LEAST_TOKENS:
        return
    predicates = _predicates(whole) if _copulas(claim) < _copulas(whole) else ()
    name = sum(1 for _ in takewhile(lambda token: token.is_name, whole))
    changes = list(_changes(sentence, statement, predicates, name, words))
    put_in = _strict(token for change in changes for token in change.new)
    left_out = _strict(token for change in changes for token in change.old)
    for change in changes:
        if not any(token.key == "it" for token in (*change.old, *change.new)):
            yield from _findings(change, put_in - left_out, left_out - put_in)
    if _exchanges_modals(sentence, statement):
        yield SentenceFinding("modal", "two modals stand in each other's place")
    if _is_swap(changes) and not is_passive(claim, own):
        yield SentenceFinding("roles", "two names stand in each other's place")


def _content(tokens: Iterable[MeaningToken]) -> list[MeaningToken]:
    """Return the tokens with content, and pronouns."""
    without_content = (MeaningKind.LINK, MeaningKind.BREAK)
    return [token for token in tokens if token.kind not in without_content or token.key == "it"]


def _aligned(claim: Tokens, statement: Tokens) -> SequenceMatcher[tuple[str, object]]:
    old, new = ([(token.key, token.value) for token in tokens] for tokens in (statement, claim))
    return SequenceMatcher(None, old, new, autojunk=False)


def _repeated(claim: Tokens, statement: Tokens) -> int:
    """Return how many tokens of a sentence stand in a statement in one order."""
    return sum(block.size for block in _aligned(claim, statement).get_matching_blocks())


def _copulas(tokens: Iterable[MeaningToken]) -> int:
    return sum(token.key == "be" for token in tokens)


def _predicates(tokens: Tokens) -> list[tuple[int, int]]:
    """Return the ranges, in `_content(tokens)`, of what stands between a form of "be" and the next "and"."""
    ranges: list[tuple[int, int]] = []
    began: int | None = None
    place = 0
    for token in tokens:
        if token.key == "be":
            began = place
        elif token.kind is MeaningKind.BREAK:
            if token.key == "and" and began is not None:
                ranges.append((began, place))
            began = None
        place += bool(_content([token]))
    return ranges


def _restricts(tokens: Tokens, following: MeaningToken, words: Sequence[str], *, begins: bool) -> bool:
    """Return whether a few words may restrict what stands beside them: "new" in "new customers", "in the front office".

    Names are compared elsewhere, and an adverb ("promptly") says how.
    """
    plain = (token.kind is MeaningKind.WORD and not token.is_name for token in tokens)
    if not all(plain) or following.value or any(token.written.endswith("ly") for token in tokens):
        return False
    pairs = {(token.written, after.written) for token, after in pairwise((*tokens, following))}
    return pairs <= {*pairwise(words)} or (not begins and _is_phrase(tokens, words))


def _is_phrase(tokens: Tokens, words: Sequence[str]) -> bool:
    """Return whether a few words are a phrase with a preposition: "in the front office", not "on behalf of"."""
    for place, word in enumerate(words):
        before = [each for each in words[:place] if each not in _ARTICLES][-1:]
        around = {*words[place - 1 : place], *words[place + 1 : place + 2]}
        joins = len(tokens) == 1 and around <= _PREPOSITIONS | {"to"}
        if word == tokens[0].written and before and before[0] in _PREPOSITIONS and not joins:
            return True
    return False


def _changes(
    claim: Tokens,
    statement: Tokens,
    predicates: Sequence[tuple[int, int]],
    name: int,
    words: Sequence[str],
) -> Iterator[_Alteration]:
    """Yield what differs.

    Args:
        name: the number of tokens of the name that the statement begins with.
        words: all words and marks of the statement, in lower case.
    """
    for tag, first, last, start, end in _aligned(claim, statement).get_opcodes():
        if tag != "equal":
            is_cut = _is_in_name(statement, first, words)
            at_edge = (
                (first == 0 and last >= name) or (last == len(statement) and not is_cut) or (first, last) in predicates
            )
            is_part = (start == end and at_edge) or last - first > _MOST_LEFT_OUT
            left_out = statement[first:last]
            is_inside = start == end and last < len(statement) and (first, last) not in predicates
            widens = is_inside and _restricts(left_out, statement[last], words, begins=first == 0)
            yield _Alteration(left_out, claim[start:end], is_part, widens)


def _is_in_name(statement: Tokens, place: int, words: Sequence[str]) -> bool:
    """Return whether a name begins before a place of a statement and goes on there: "Asset | Class"."""
    if not 0 < place < len(statement):
        return False
    before, after = statement[place - 1 : place + 1]
    return before.is_name and after.is_name and (before.written, after.written) in pairwise(words)


def _findings(change: _Alteration, added: Counter[str], lost: Counter[str]) -> Iterator[SentenceFinding]:
    """Yield the tokens of a change that are added to the whole statement, or lost from it."""
    for key in _strict(change.new) & added:
        yield SentenceFinding("altered", f'"{key}" does not stand at this place of the passage')
    for key in Counter[str]() if change.is_part else _strict(change.old) & lost:
        yield SentenceFinding("altered", f'the sentence leaves out "{key}"')
    if change.widens:
        phrase = " ".join(token.written for token in change.old)
        yield SentenceFinding("altered", f'the sentence leaves out "{phrase}", which restricts what the passage says')


def _exchanges_modals(sentence: Tokens, statement: Tokens) -> bool:
    """Return whether a sentence has the words of a statement in their order, and its modals in another one."""
    texts = [[(token.key, token.kind is MeaningKind.MODAL) for token in tokens] for tokens in (sentence, statement)]
    words, others = ([key for key, is_modal in text if not is_modal] for text in texts)
    return words == others and texts[0] != texts[1]


def _unrestricted(claimed: Sequence[str], words: Sequence[str]) -> Iterator[SentenceFinding]:
    """Yield a finding if the sentence says of all of a kind what the statement says of some: "desks may".

    The statement restricts the word before the modal by a relative clause ("desks that hold cash may"), or refers back
    to some ("any such desk may").
    """
    if claimed[1:2] and claimed[1] in _MODALS:
        kind = stems([claimed[0]])
        if any(first == "such" and stems([second]) == kind for first, second in pairwise(words)):
            yield SentenceFinding("altered", f'the passage says it of "such {claimed[0]}", not of all')
    for word in dict.fromkeys(word for word, following in pairwise(claimed) if following in _MODALS):
        behind = {following for before, following in pairwise(words) if before == word}
        if behind and behind <= _RELATIVES:
            yield SentenceFinding("altered", f'the passage says it of "{word} {min(behind)} ...", not of all')


def _strict(tokens: Iterable[MeaningToken]) -> Counter[str]:
    """Count the tokens that may not be said in another word."""
    plain = (MeaningKind.WORD, MeaningKind.LINK)
    return Counter(token.key for token in tokens if token.is_name or token.kind not in plain)


def _is_swap(changes: Sequence[_Alteration]) -> bool:
    """Return whether two changes put in what the other leaves out, and a name is among it."""
    return any(
        content_keys(first.old) & content_keys(second.new)
        and content_keys(first.new) & content_keys(second.old)
        and any(token.is_name for token in (*first.old, *first.new))
        for first, second in combinations(changes, 2)
    )
