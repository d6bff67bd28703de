"""A sentence compared with one clause: what it adds, leaves out and moves, or changes where it nearly repeats it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import fsum
from typing import Final, NamedTuple

from context_engine.answer.clauses import Clause, ClauseCell
from context_engine.answer.order import roles
from context_engine.answer.quantities import Value
from context_engine.answer.reading import CONTENT, MeaningKind, MeaningToken, Tokens, content_keys
from context_engine.answer.subjects import introduced, other_subject, segments
from context_engine.answer.values import SentenceFinding
from context_engine.core.ranking.guard import negated

Weight = Callable[[str], float]

_ABOUT_CONDITION: Final = 0.5
_LEAST_OWN: Final = 0.5
_MORE: Final = 0.1
"""How much more of it a clause must hold that has no pronoun, which could stand for words around it."""
_NEVER_OF_A_ROW: Final = frozenset(["by", "into"])
"""What makes a word the one that acts, or the aim: a row's name is what its cells speak of."""
_OF_CELLS: Final = (*CONTENT, MeaningKind.NEGATION)
_COUNTED: Final = (MeaningKind.NEGATION, MeaningKind.CONDITION, MeaningKind.EXCEPTION)
_EXACT: Final = (MeaningKind.VALUE, MeaningKind.DATE, MeaningKind.REFERENCE, MeaningKind.SIDE)


class ClauseComparison(NamedTuple):
    """What separates a sentence from a clause.

    Attributes:
        coverage: [0, 1], the share of the sentence's information that stands in the clause or around it.
    """

    findings: tuple[SentenceFinding, ...]
    coverage: float


def compared(claim: Tokens, clause: Clause, weight: Weight) -> ClauseComparison:
    """Compare a sentence with a clause.

    Args:
        claim: the sentence, read.
        weight: of a key, >= 0; rare words weigh more.
    """
    keys = _keys(clause)
    findings = [
        *_values(claim, clause),
        *_added(claim, clause, keys),
        *_differing(claim, clause),
        *_denied(claim, clause),
        *_conditions(claim, clause),
        *_elsewhere(claim, clause),
    ]
    findings += other_subject(claim, clause)
    findings += _misplaced(claim, clause) if clause.cells else ()
    if not findings and not clause.cells:
        findings += roles(claim, clause)
    return ClauseComparison(tuple(dict.fromkeys(findings)), covered(claim, clause, weight))


def covered(claim: Tokens, clause: Clause, weight: Weight) -> float:
    """Return the weighted share of the sentence's distinct content that stands in the clause or around it, [0, 1].

    1.0 for a sentence without content.
    """
    content = content_keys(claim)
    total = fsum(map(weight, content))  # exact: the same in every order of a set
    return fsum(map(weight, content & _keys(clause))) / total if total else 1.0


def _keys(clause: Clause) -> frozenset[str]:
    return content_keys(clause.tokens) | clause.context | clause.before


def _values(claim: Tokens, clause: Clause) -> Iterator[SentenceFinding]:
    """Yield the values of the sentence that are not in the clause as they are."""
    present = [token.value for token in clause.tokens if token.value]
    for token in claim:
        value = token.value
        if value and not any(_same(value, other, clause) for other in present):
            code = next((value.differs_in(other) for other in present if other.number == value.number), "number")
            yield SentenceFinding(code, f'"{token.written}" is not in the passage like this')


def _same(value: Value, other: Value, clause: Clause) -> bool:
    if value == other:
        return True
    if not clause.cells or value.number != other.number:
        return False
    unit = value.unit == other.unit or (not other.unit and value.unit in ("", "%"))
    currency = value.currency == other.currency or (not other.currency and value.currency in clause.context)
    return unit and currency and (value.bound == other.bound or (not other.bound and value.bound in ("within", "")))


def _added(claim: Tokens, clause: Clause, keys: frozenset[str]) -> Iterator[SentenceFinding]:
    """Yield dates, references, names and acts of the sentence that stand neither in the clause nor around it."""
    own = content_keys(clause.tokens) | clause.before
    for place, token in enumerate(claim):
        is_around = token.key in keys and not _is_other_name(claim, place, clause, own)
        if is_around or token.value:
            continue
        if token.kind in (MeaningKind.DATE, MeaningKind.REFERENCE, MeaningKind.SIDE):
            code = "currency" if token.key.isupper() else token.kind.value
            yield SentenceFinding(code, f'"{token.written}" is not in the passage')
        elif token.is_name:
            yield SentenceFinding("name", f'"{token.written}" is not in the passage')
    claimed = exact(claim)
    for (key, value), count in (claimed - exact(clause.tokens)).items():
        if key in keys and count < claimed[key, value]:
            yield SentenceFinding("number", f'the passage does not say "{key}" as often')
    unknown = {token.key for token in claim if token.kind is MeaningKind.WORD and token.key not in keys}
    if unknown and (negated(unknown, set(clause.keys)) or negated(set(clause.keys), unknown)):
        yield SentenceFinding("negation", f"{_listed(unknown)}: the passage says the contrary")


def _is_other_name(claim: Tokens, place: int, clause: Clause, own: frozenset[str]) -> bool:
    """Return whether the clause does not name what the sentence names at this place.

    Only the headings around the clause have the name, in another form ("Regulator" for "Regulation"), or the name takes
    the place of another word of the clause ("sends the New Product" for "sends the proposal").
    """
    token = claim[place]
    if not token.is_name or token.kind is not MeaningKind.WORD or clause.cells or token.key in own:
        return False
    claimed = content_keys(claim)
    before = next((each.key for each in reversed(claim[:place]) if each.key in own and each.kind in CONTENT), "")
    words = [each.key for each in clause.tokens if each.kind in CONTENT]
    behind = {following for word, following in pairwise(words) if word == before}
    is_replaced = bool(behind) and behind.isdisjoint(claimed)
    return is_replaced or token.written.removesuffix("s") not in clause.written


def exact(tokens: Iterable[MeaningToken]) -> Counter[tuple[str, Value | None]]:
    """Return how often each value, date, reference and side is said."""
    return Counter((token.key, token.value) for token in tokens if token.kind in _EXACT)


def _differing(claim: Tokens, clause: Clause) -> Iterator[SentenceFinding]:
    """Yield modals, bounds, the word "only", negations, conditions and exceptions that stand in one of the two alone.

    Of negations, conditions and exceptions it matters how many there are, and those of the lead-in may not be left out.
    """
    for kind in (MeaningKind.MODAL, MeaningKind.ONLY, MeaningKind.BOUND, *_COUNTED):
        claimed, stated = _counted(claim, kind), _counted(_told(claim, clause), kind)
        needed = _counted(clause.tokens if kind in _COUNTED else clause.own, kind)
        if kind not in _COUNTED:
            claimed, stated, needed = (Counter(dict.fromkeys(counts, 1)) for counts in (claimed, stated, needed))
        if clause.cells and kind is MeaningKind.MODAL and any(token.value for token in claim):
            claimed.pop("must", None)  # a row says "24 hours", a sentence "must ... within 24 hours"
        for key in claimed - stated:
            yield SentenceFinding(kind.value, f'the sentence says "{key}", the passage does not')
        for key in needed - claimed:
            yield SentenceFinding(kind.value, f'the passage says "{key}", the sentence does not')


def _denied(claim: Tokens, clause: Clause) -> Iterator[SentenceFinding]:
    """Yield a finding if one says "no ... may" and the other "no ... must": that may also say that there is no duty."""
    claimed, stated = (
        {token.written == "may" for token in tokens if token.denied} for tokens in (claim, clause.tokens)
    )
    if claimed and stated and claimed != stated:
        yield SentenceFinding("modal", 'one says "no ... may", the other "no ... must"')


def _told(claim: Tokens, clause: Clause) -> Tokens:
    """Return the clause with its lead-in, or without it if the sentence has no word of it: it then adds nothing."""
    lead = content_keys(clause.lead)
    return clause.tokens if not lead or lead & content_keys(claim) else clause.own


def _counted(tokens: Iterable[MeaningToken], kind: MeaningKind) -> Counter[str]:
    return Counter(token.key for token in tokens if token.kind is kind)


def _conditions(claim: Tokens, clause: Clause) -> Iterator[SentenceFinding]:
    """Yield conditions and exceptions of which the sentence leaves out most words."""
    claimed = content_keys(claim)
    for condition in clause.bound:
        keys = content_keys(condition)
        if len(keys & claimed) < _ABOUT_CONDITION * len(keys):
            words = " ".join(token.written for token in condition)
            yield SentenceFinding("condition", f'the sentence leaves out "{words}"')


def _elsewhere(claim: Tokens, clause: Clause) -> Iterator[SentenceFinding]:
    """Yield a finding for a part of the sentence of which the clause has no word, and the headings not all; for a
    sentence that says nothing of the clause beside its conditions; and for one most of which stands around the clause.
    """
    claimed, own = content_keys(claim), content_keys(clause.tokens)
    leans_back = any(token.key == "it" for token in clause.own)
    least = 1 if clause.cells else _LEAST_OWN * len(claimed) + (0.0 if leans_back else _MORE)
    if len(claimed & own) < least:
        yield SentenceFinding("coverage", "most of the sentence stands only in the headings or in the sentence before")
    own |= clause.before
    parts = segments(claim)
    bound = content_keys([token for part in parts if part[0].kind is MeaningKind.CONDITION for token in part])
    if bound and claimed - bound and not (claimed - bound) & own:
        yield SentenceFinding("coverage", "the passage says only the condition of the sentence")
    for segment in parts:
        keys = content_keys(segment)
        if keys and not keys & own and not keys <= clause.context:
            yield SentenceFinding("coverage", f'"{" ".join(token.written for token in segment)}" is not in the passage')


def _misplaced(claim: Tokens, clause: Clause) -> Iterator[SentenceFinding]:
    """Yield a finding if the sentence does not name the row, mixes cells or rows, names a column without what it says,
    or says words of a cell of another column.
    """
    head, *others = cells = clause.cells
    claimed = content_keys(claim)
    for token in claim:
        if token.kind is MeaningKind.WORD and token.key in clause.other_rows:
            yield SentenceFinding("row", f'"{token.written}" stands in other rows alone')
    names = list(_alternatives(head.tokens))
    if names and not any(name <= claimed for name in names):
        yield SentenceFinding("row", f'the row of these values is "{" ".join(token.written for token in head.tokens)}"')
    for first, second in pairwise(claim):
        if first.is_name and second.kind in CONTENT and _is_broken_off(first.key, second.key, cells):
            yield SentenceFinding("row", f'"{second.written}" does not stand behind "{first.written}"')
    named = content_keys(head.tokens)
    own_links = {token.key for token in head.tokens}
    for place, token in enumerate(claim):
        if token.key in named and (before := introduced(claim, place)) in _NEVER_OF_A_ROW - own_links:
            yield SentenceFinding("row", f'"{before}" stands before "{token.written}", which names the row')
    told = [cell for cell in others if frozenset() < content_keys(cell.column) - named <= claimed - named]
    if named and told and not any(cell.tokens for cell in told):
        yield SentenceFinding("column", "the sentence names a column, and says nothing that stands in it")
    columns = frozenset[str]().union(*(content_keys(cell.column) for cell in others))
    # of a record, which has no name, only values are compared: its fields describe each other
    compared = [token for token in claim if token.kind in _OF_CELLS and (named or token.value or token.key in columns)]
    words = [token for token in compared if token.key not in named]
    if columns & claimed and (misplaced := _before_column(words, others)) and _before_column(words[::-1], others):
        yield SentenceFinding("column", f'"{misplaced.written}" stands in another column')


def _before_column(words: Iterable[MeaningToken], cells: Sequence[ClauseCell]) -> MeaningToken | None:
    """Return the first word of a cell that does not follow the name of its column; None if all do.

    Args:
        words: the content of the sentence, in its order or reversed ("24 hours for the regulator").
    """
    current: Sequence[ClauseCell] = ()
    is_named = True
    for token in words:
        named = [cell for cell in cells if token.key in content_keys(cell.column)]
        if any(_holds(cell, token) for cell in current):
            current, is_named = [*current, *named], True  # a word of the cell may begin the name of the next column
        elif named:
            both = [cell for cell in named if cell in current]  # of "Head" and "Desk" together, one column
            current, is_named = named if is_named else both or [*current, *named], False
        elif any(_holds(cell, token) for cell in cells):
            return token
    return None


def _holds(cell: ClauseCell, token: MeaningToken) -> bool:
    """Return whether a cell has a word, "none", "not" or "no", or a number with no other unit."""
    same = [each for each in cell.tokens if each.kind in _OF_CELLS and each.key == token.key]
    units = [{each.value.unit, token.value.unit} - {""} if each.value and token.value else set() for each in same]
    return any(len(unit) < 2 for unit in units)


def _is_broken_off(first: str, second: str, cells: Iterable[ClauseCell]) -> bool:
    """Return whether words stand side by side of which the first is within a cell, and the second in other cells."""
    texts = [[token.key for token in cell.tokens if token.kind in CONTENT] for cell in cells]
    of_first = [text for text in texts if first in text]
    within = all((first, second) not in pairwise(text) and text[-1] != first for text in of_first)
    return bool(of_first) and within and any(second in text for text in texts if text not in of_first)


def _alternatives(name: Tokens) -> Iterator[frozenset[str]]:
    """Yield the keys of each name of a row: "Near Miss, Low" has two."""
    current: list[MeaningToken] = []
    for token in (*name, MeaningToken(MeaningKind.BREAK, ",", ",")):
        if token.kind is MeaningKind.BREAK and token.key in (",", "or", "and"):
            if keys := content_keys(current):
                yield keys
            current = []
        else:
            current.append(token)


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f'"{word}"' for word in sorted(words))
