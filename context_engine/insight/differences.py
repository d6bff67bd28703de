"""What two statements about the same thing say otherwise: values, dates, bounds, and how each act is spoken of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from context_engine.answer.conflicts import ConflictDifference, differs, same_subject
from context_engine.answer.reading import CONTENT, MeaningKind, MeaningToken
from context_engine.core.text import stems

_WEAK_MODALS: Final = frozenset(("could", "might", "would"))
_BY_ACT: Final = (MeaningKind.MODAL.value, MeaningKind.NEGATION.value)
_MEANS: Final = stems(["means"])[0]
_LONGEST_LABEL: Final = 6


class ReadStatement(NamedTuple):
    """A sentence or the cell of a table, read.

    Attributes:
        named: keys of what names a cell's row and column; empty for a sentence.
        tokens: without the numbers of tables, sections and the like, which name a place.
        words: keys of its words, without values, modals and negations.
    """

    named: frozenset[str]
    tokens: tuple[MeaningToken, ...]
    words: frozenset[str]
    is_cell: bool


def in_order(first: ReadStatement, second: ReadStatement) -> bool:
    """Return whether two statements stand in the order in which they are compared: that of their words."""
    return _written(first) <= _written(second)


def statement_differences(first: ReadStatement, second: ReadStatement) -> tuple[ConflictDifference, ...]:
    """Return what two statements say otherwise; empty if they agree or are about something else.

    Modals and negations are compared act by act. A bare number must stand in a sentence with a verb of its own, because
    captions and titles are numbered.
    """
    if not _defines_the_same(first, second) or not same_subject(first.tokens, second.tokens):
        return ()
    values = [each for each in differs(first.tokens, second.tokens) if each.code not in _BY_ACT]
    if not all(item.is_cell or _is_rule(item) for item in (first, second)):
        values = [each for each in values if each.code != MeaningKind.VALUE.value]
    return (*values, *_by_act(first, second))


def _written(statement: ReadStatement) -> list[str]:
    return [token.written for token in statement.tokens]


def _by_act(first: ReadStatement, second: ReadStatement) -> Iterator[ConflictDifference]:
    """Yield the acts of both statements that have another modal, or are denied in one of them.

    Statements with equally many negations deny the same in other words.
    """
    acts, others = _acts(first), _acts(second)
    denies = _negations(first) != _negations(second)
    for act in dict.fromkeys((*acts, *others)):
        if not (act in first.words and act in second.words):
            continue
        plain = _Act("", denied=False, written=act)
        ours, theirs = acts.get(act, plain), others.get(act, plain)
        if ours.denied != theirs.denied:
            written = ours.written if act in acts else theirs.written
            sides = [f"not {written}" if each.denied else written for each in (ours, theirs)]
            if denies:
                yield ConflictDifference(MeaningKind.NEGATION.value, *sides)
        elif (
            ours.modal and theirs.modal and ours.modal != theirs.modal and not {ours.modal, theirs.modal} & _WEAK_MODALS
        ):
            yield ConflictDifference(MeaningKind.MODAL.value, ours.modal, theirs.modal)


class _Act(NamedTuple):
    """How a statement speaks of an act: its modal ("" for none), and whether it is denied."""

    modal: str
    denied: bool
    written: str


def _acts(statement: ReadStatement) -> dict[str, _Act]:
    """Return the words that stand right after a modal or a negation."""
    acts = dict[str, _Act]()
    modal, denied = "", False
    for token in statement.tokens:
        if token.kind is MeaningKind.MODAL:
            modal, denied = token.key.removesuffix(" not"), token.key.endswith(" not")
        elif token.kind is MeaningKind.NEGATION:
            denied = True
        elif token.kind in CONTENT:
            if modal or denied:
                acts.setdefault(token.key, _Act(modal, denied, token.written))
            modal, denied = "", False
    return acts


def _negations(statement: ReadStatement) -> int:
    return sum(
        token.kind is MeaningKind.NEGATION or (token.kind is MeaningKind.MODAL and token.key.endswith(" not"))
        for token in statement.tokens
    )


def _defines_the_same(first: ReadStatement, second: ReadStatement) -> bool:
    """Return whether two statements define or label the same thing, or at most one of them has a label."""
    if _before(first, _MEANS) != _before(second, _MEANS):
        return False
    labels = [_before(each, ":") for each in (first, second)]
    return labels[0] is None or labels[1] is None or labels[0] <= labels[1] or labels[1] <= labels[0]


def _before(statement: ReadStatement, mark: str) -> frozenset[str] | None:
    """Return the words before "means" or a colon near the beginning; None if there is none."""
    keys = [token.key for token in statement.tokens]
    keys = keys[:_LONGEST_LABEL] if mark == ":" else keys
    return frozenset(keys[: keys.index(mark)]) if mark in keys else None


def _is_rule(statement: ReadStatement) -> bool:
    kinds = (MeaningKind.MODAL, MeaningKind.NEGATION, MeaningKind.BOUND)
    return any(token.kind in kinds or token.key == "be" or counts(token) for token in statement.tokens)


def counts(token: MeaningToken) -> bool:
    """Return whether a token is a value with a unit, currency or bound."""
    value = token.value
    return value is not None and bool(value.unit or value.currency or value.bound)
