"""Who does what: what the modals and negations of a sentence govern, and the order of its words.

Words may stand elsewhere in a paraphrase where a phrase moves as a whole with what introduces it, or as the agent of a
passive. Otherwise a word in another place means another role.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations, dropwhile, pairwise, takewhile
from typing import Final

from context_engine.answer.clauses import Clause, pair_link
from context_engine.answer.quantities import Value
from context_engine.answer.reading import CONTENT, END, PERSONS, MeaningKind, MeaningToken, Tokens, content_keys
from context_engine.answer.subjects import active, introduced, is_passive, segments
from context_engine.answer.values import SentenceFinding
from context_engine.core.text import stems

_GOVERNING: Final = {
    MeaningKind.NEGATION: 2,
    MeaningKind.ONLY: 2,
    MeaningKind.CONDITION: 3,
    MeaningKind.EXCEPTION: 3,
    MeaningKind.BOUND: 3,
}
"""How many words after it a token governs, for this comparison."""
_FREE_BOUNDS: Final = frozenset(("at least", "at most", "more than", "less than", "within"))
_DENIED_SUBJECT: Final = 8
_STAND_ALONE: Final = frozenset(["it", "one", *PERSONS])
_VERBS: Final = (MeaningKind.WORD, MeaningKind.SIDE)
_NOUN: Final = re.compile(r"(?:[ts]ion|ment|[ae]nce|ness|ity|[ov]al)s?$")
_PERFORM: Final = frozenset(
    stems(["give", "make", "take", "do", "perform", "conduct", "carry", "provide", "undertake", "be"])
)
"""Verbs that say with a noun what the noun's own verb says: "must make an assessment"."""
_MAY_MOVE: Final = "^ in on at for with within before after if unless until while except only under through per"
_MOBILE: Final = frozenset(_MAY_MOVE.split())
"""What a phrase that may stand elsewhere in a sentence begins with."""


def roles(claim: Tokens, clause: Clause) -> Iterator[SentenceFinding]:
    """Yield a finding where words of the sentence govern or do something else than in the clause.

    Args:
        claim: the sentence, read; its words, modals and conditions stand in the clause too.
    """
    yield from _governed(claim, clause.tokens)
    yield from _moved(claim, clause.tokens)
    yield from _swapped(claim, clause.tokens)
    yield from _exchanged(claim, clause.tokens)
    yield from _without_subject(claim, clause.own)
    yield from _left_alone(claim, clause.tokens)
    yield from _other_act(claim, clause.tokens)
    yield from _crossed(claim, clause.own)


def _governed(claim: Tokens, own: Tokens) -> Iterator[SentenceFinding]:
    """Yield the tokens that govern other words in the sentence than in the clause.

    A further word may stand between a token and what it governs: of one of the two the first word counts.
    """
    several = len({token.key for token in own if token.kind is MeaningKind.MODAL}) > 1
    kinds = _GOVERNING | ({MeaningKind.MODAL: 2} if several else {})
    known = content_keys(own) | {token.key for token in own if token.kind is MeaningKind.MODAL}
    for place, token in enumerate(claim):
        if token.kind not in kinds or token.key in _FREE_BOUNDS:
            continue
        governed = [key for key in _after(claim, place, kinds[token.kind]) if key in known]
        others = [
            _after(own, other, kinds[token.kind])
            for other, counterpart in enumerate(own)
            if counterpart.kind is token.kind and counterpart.key == token.key
        ]
        if governed and not any(each and (governed[0] in each or each[0] in governed) for each in others):
            yield SentenceFinding(token.kind.value, f'"{token.key}" stands before other words than in the passage')


def _after(tokens: Tokens, place: int, most: int) -> list[str]:
    """Return the keys of the content that a token governs; of a modal also another modal: "may be required to".

    A "no" governs a whole subject with its predicate, and no condition behind it.
    """
    behind: Iterable[MeaningToken] = tokens[place + 1 :]
    if tokens[place].written == "no":
        most, behind = _DENIED_SUBJECT, takewhile(lambda token: token.kind is not MeaningKind.CONDITION, behind)
    kinds = CONTENT | ({MeaningKind.MODAL} if tokens[place].kind is MeaningKind.MODAL else set())
    return [token.key for token in behind if token.kind in kinds][:most]


def _moved(claim: Tokens, own: Tokens) -> Iterator[SentenceFinding]:
    """Yield a finding if words change their places in a way that changes who does what, or which value is whose.

    The longest common order of words stays in place. Other common words may have moved with their preposition or
    condition, to a comma, or as the agent of a passive.
    """
    claim, own = _told_apart(claim, own)
    if is_passive(claim, own) or is_passive(own, claim):
        return
    claim = active(claim, own)
    if _is_ordered(claim, own):
        return
    kept = _common_order(claim, own)
    repeated = _repeated(claim, own, kept)
    places: dict[tuple[str, Value | None], list[int]] = {}
    for place, token in enumerate(own):
        if token.kind in CONTENT:
            places.setdefault((token.key, token.value), []).append(place)
    for place, token in enumerate(claim):
        others = places.get((token.key, token.value)) if token.kind in CONTENT and place not in kept else None
        if (
            others
            and token.key not in repeated
            and not any(_same_place(claim, place, own, other, kept) for other in others)
        ):
            yield SentenceFinding("roles", f'"{token.written}" stands in another place than in the passage')


def _repeated(claim: Tokens, own: Tokens, kept: frozenset[int]) -> frozenset[str]:
    """Return the keys that the sentence says again where the clause has a pronoun."""
    if not any(token.kind is MeaningKind.LINK and token.key == "it" for token in own):
        return frozenset()
    claimed, stated = (Counter(token.written for token in tokens if token.kind in CONTENT) for tokens in (claim, own))
    return frozenset(claim[place].key for place in kept if claimed[claim[place].written] > stated[claim[place].written])


def _is_ordered(claim: Tokens, own: Tokens) -> bool:
    """Return whether the common words of each part of the sentence stand in one order in a part of the clause."""
    parts, known = segments(own), content_keys(own)
    return all(any(_stands_in(segment, part, known) for part in parts) for segment in segments(claim))


def _stands_in(segment: Tokens, part: Tokens, known: frozenset[str]) -> bool:
    common = sum(token.kind in CONTENT and token.key in known for token in segment)
    return len(_common_order(segment, part)) == common


def _same_place(claim: Tokens, place: int, own: Tokens, other: int, kept: frozenset[int]) -> bool:
    """Return whether a word follows the same word, or may have moved with what introduces it."""
    if (value := claim[place].value) and value.bound:
        return True  # `_swapped` looks at its neighbours
    intro, intro_too = introduced(claim, place), introduced(own, other)
    if claim[place].kind is MeaningKind.DATE and intro == intro_too:
        return True
    before, ends_phrase = _before(claim, place), _ends_phrase(claim, place, own, other, kept)
    last = next((at for at in range(place - 1, -1, -1) if claim[at].kind in CONTENT), place)
    follows = (last < place and last not in kept) or (ends_phrase and not before)
    if intro == intro_too and before == _before(own, other) and follows:
        return True
    return (intro == intro_too and intro in _MOBILE and ends_phrase) or _is_genitive(claim, place, own, other)


def _ends_phrase(claim: Tokens, place: int, own: Tokens, other: int, kept: frozenset[int]) -> bool:
    """Return whether the moved words from a place on stand together in both, to the end of a phrase of the clause."""
    leads = not content_keys(own[:other])
    still = {claim[at].key for at in kept}
    while other + 1 < len(own) and own[other + 1].kind in CONTENT and not (leads and own[other + 1].key in still):
        if place + 1 == len(claim) or place + 1 in kept or claim[place + 1].key != own[other + 1].key:
            return False
        place, other = place + 1, other + 1
    return True


def _is_genitive(claim: Tokens, place: int, own: Tokens, other: int) -> bool:
    """Return whether "the Officer's consent" and "the consent of the Officer" say the same of a word."""
    return _owner(own, other) == _before(claim, place) != "" == introduced(claim, place) or (
        _owner(claim, place) == _before(own, other) != "" == introduced(own, other)
    )


def _owner(tokens: Tokens, place: int) -> str:
    """Return the key of the last word of the phrase that follows a word and "of"; empty without one."""
    out = ""
    if place + 1 < len(tokens) and tokens[place + 1].key == "of":
        for token in tokens[place + 2 :]:
            if token.kind not in CONTENT:
                break
            out = token.key
    return out


def _before(tokens: Tokens, place: int) -> str:
    """Return the key of the content before a place, up to a comma or coordinator."""
    for token in reversed(tokens[:place]):
        if token.kind is MeaningKind.BREAK:
            return ""
        if token.kind in CONTENT:
            return token.key
    return ""


def _swapped(claim: Tokens, own: Tokens) -> Iterator[SentenceFinding]:
    """Yield a finding if a value, date, reference or currency stands in the part that belongs to another one, or two
    modals do.
    """
    stated = [(token, _neighbours(own, place)) for place, token in enumerate(own) if _measure(token)]
    modals: dict[str, SentenceFinding] = {}
    for place, token in enumerate(claim):
        measure = _measure(token)
        rivals = [(other, keys) for other, keys in stated if measure and _measure(other) == measure]
        near = _neighbours(claim, place) if len(rivals) > 1 else frozenset()
        shared = [(len(near & keys), (other.key, other.value) == (token.key, token.value)) for other, keys in rivals]
        its = max((count for count, is_same in shared if is_same), default=0)
        if any(count > its for count, is_same in shared if not is_same):
            told = f'"{token.written}" is said of something else than in the passage'
            if token.kind is MeaningKind.MODAL:
                modals[token.key] = SentenceFinding("modal", told)
            else:
                yield SentenceFinding("value", told)
    if len(modals) > 1:
        yield from modals.values()


def _exchanged(claim: Tokens, own: Tokens) -> Iterator[SentenceFinding]:
    """Yield a finding if two names have each other's preposition: "from Rome to Oslo", of "from Oslo to Rome"."""
    claimed, stated = (
        {token.key: introduced(tokens, place) for place, token in [*enumerate(tokens)][::-1] if token.is_name}
        for tokens in (claim, own)
    )
    shared = [key for key in claimed.keys() & stated.keys() if {claimed[key], stated[key]}.isdisjoint(("", "^"))]
    for first, second in combinations(sorted(shared), 2):
        if claimed[first] == stated[second] != claimed[second] == stated[first]:
            yield SentenceFinding("roles", f'"{first}" and "{second}" stand in each other\'s place')


def _without_subject(claim: Tokens, own: Tokens) -> Iterator[SentenceFinding]:
    """Yield a finding if the sentence begins with a modal, and the clause does not: "However, should report"."""
    first, own_first = (
        next((token for token in tokens if token.kind is not MeaningKind.BREAK), END) for tokens in (claim, own)
    )
    if first.kind is MeaningKind.MODAL and own_first.kind is not MeaningKind.MODAL:
        yield SentenceFinding("incomplete", f'"{first.written}" has no subject')


def _left_alone(claim: Tokens, own: Tokens) -> Iterator[SentenceFinding]:
    """Yield a finding if a preposition ends the sentence or stands before a modal, and before a word in the clause.

    A form of "be" never stands before a modal: "the choice should be, which must". A condition has words before a mark.
    """
    for last, after in pairwise(claim):
        if last.kind is MeaningKind.CONDITION and after.kind is MeaningKind.BREAK:
            kinds = {following.kind for token, following in pairwise(own) if token.key == last.key}
            if kinds and MeaningKind.BREAK not in kinds:
                yield SentenceFinding("incomplete", f'"{last.written}" has no word behind it')
    claimed, stated = ([token for token in (*tokens, END) if token.key != ","] for tokens in (claim, own))
    for last, after in pairwise(claimed):
        ends = after.kind is MeaningKind.MODAL or (after.kind is MeaningKind.BREAK and last.key != "be")
        if ends and last.kind is MeaningKind.LINK and last.key not in _STAND_ALONE:
            kinds = {following.kind for token, following in pairwise(stated) if token.key == last.key}
            if (kinds or last.key == "be") and kinds.isdisjoint((MeaningKind.BREAK, MeaningKind.MODAL)):
                yield SentenceFinding("incomplete", f'"{last.written}" has no word behind it')


def _other_act(claim: Tokens, own: Tokens) -> Iterator[SentenceFinding]:
    """Yield a finding if the verb after a modal is a noun in the clause, or the reverse, or the verb of something else.

    "May authenticate" is not supported by "may set terms of authentication", nor "must be classed" by "must say how
    each proposal is classed".
    """
    acts, own_acts = _acts(claim), _acts(own)
    if _PERFORM & {*acts, *own_acts}:
        return
    is_turned = any(key not in acts and _is_noun(key, claim) for key in own_acts)
    for key, written in acts.items():
        stated = own_acts.get(key, "")
        is_other = not stated or (_NOUN.search(stated) and not written.startswith(stated))
        if is_other and (is_turned or _is_noun(key, own) or (not stated and _is_of_other_words(key, claim, own))):
            yield SentenceFinding("roles", f'"{written}" is not what the passage says of its subject')


def _crossed(claim: Tokens, own: Tokens) -> Iterator[SentenceFinding]:
    """Yield a finding if the sentence says of one thing what the clause says of another, with the same verb.

    "Keys are kept by the Board" is not what "keys are kept by the desk and seals by the Board" says.
    """
    claimed, parts = content_keys(claim), segments(own)
    for place, part in enumerate(parts):
        if (link := pair_link(part)) is None or all(
            part[link].key != token.key for each in parts[:place] for token in each
        ):
            continue
        first, second = content_keys(part[:link]), content_keys(part[link:])
        others = content_keys([token for each in (*parts[:place], *parts[place + 1 :]) for token in each])
        if (second - others) & claimed and not first & claimed:
            told = " ".join(token.written for token in part[:link] if token.kind in CONTENT)
            yield SentenceFinding("roles", f'the passage says it of "{told}"')


def _acts(tokens: Tokens) -> dict[str, str]:
    """Return the words right behind modals, adverbs and forms of "be" left out, with how they are written."""
    out: dict[str, str] = {}
    for place, token in enumerate(tokens):
        if token.kind is MeaningKind.MODAL:
            behind = dropwhile(_is_beside_act, tokens[place + 1 :])
            out |= {act.key: act.written for act in [*behind][:1] if act.kind in _VERBS}
    return out


def _is_beside_act(token: MeaningToken) -> bool:
    return token.key == "be" or token.kind is MeaningKind.NEGATION or token.written.endswith("ly")


def _is_noun(key: str, tokens: Tokens) -> bool:
    """Return whether a text has a word, and only as a noun made of a verb: "collection"."""
    forms = [token.written for token in tokens if token.key == key and token.kind in _VERBS]
    return bool(forms) and all(map(_NOUN.search, forms))


def _is_of_other_words(key: str, claim: Tokens, own: Tokens) -> bool:
    """Return whether the clause has an act as a passive, and the sentence names none of its subjects."""
    subjects = [
        _before(own, place) for place, (be, act) in enumerate(pairwise(own)) if (be.key, act.key) == ("be", key)
    ]
    return bool(subjects) and all(subjects) and content_keys(claim).isdisjoint(subjects)


def _forms(tokens: Tokens) -> dict[str, list[str]]:
    """Return how each word is written, in order."""
    out: dict[str, list[str]] = {}
    for token in tokens:
        if token.kind in (MeaningKind.WORD, MeaningKind.SIDE):
            out.setdefault(token.key, []).append(token.written)
    return out


def _measure(token: MeaningToken) -> tuple[str, ...]:
    """Return in what a token is one of several: a value's unit and currency, a date, reference, currency or modal."""
    if token.kind is MeaningKind.MODAL:
        return (token.kind.value,)
    if token.value:
        return token.value.unit.split(" ")[-1], token.value.currency
    is_currency = token.kind is MeaningKind.SIDE and token.key.isupper()
    return (token.kind.value,) if token.kind in (MeaningKind.DATE, MeaningKind.REFERENCE) or is_currency else ()


def _neighbours(tokens: Tokens, place: int) -> frozenset[str]:
    """Return the keys of the content between the breaks around a place."""
    start = next((at for at in range(place, -1, -1) if tokens[at].kind is MeaningKind.BREAK), -1)
    end = next((at for at in range(place, len(tokens)) if tokens[at].kind is MeaningKind.BREAK), len(tokens))
    return content_keys([token for token in tokens[start + 1 : end] if not _measure(token)])


def _common_order(claim: Tokens, own: Tokens) -> frozenset[int]:
    """Return the places in the sentence of a longest common subsequence of content."""
    first = [place for place, token in enumerate(claim) if token.kind in CONTENT]
    second = [token for token in own if token.kind in CONTENT]
    lengths = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for row, place in enumerate(first):
        token, above, here = claim[place], lengths[row], lengths[row + 1]
        for column, other in enumerate(second):
            if token.key == other.key and token.value == other.value:
                here[column + 1] = above[column] + 1
            else:
                here[column + 1] = max(above[column + 1], here[column])
    out: list[int] = []
    row, column = len(first), len(second)
    while row and column:
        if lengths[row][column] == lengths[row - 1][column]:
            row -= 1
        elif lengths[row][column] == lengths[row][column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            out.append(first[row])
    return frozenset(out)


def _told_apart(*texts: Tokens) -> list[list[MeaningToken]]:
    """Return texts in which the forms of a name are words of their own if all write the same ones: Agency, Agencies."""
    forms = [_forms(tokens) for tokens in texts]
    told = {key for key, written in forms[0].items() if len({*written}) > 1}
    told = {key for key in told if all({*forms[0][key]} == {*each.get(key, ())} for each in forms)}
    return [
        [token._replace(key=f"{token.key} {token.written}") if token.key in told else token for token in tokens]
        for tokens in texts
    ]
