"""Active and passive: a sentence turned round, with an agent ("by the desk") or without one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

from context_engine.answer.reading import CONTENT, MeaningKind, MeaningToken


def active(claim: Sequence[MeaningToken], own: Sequence[MeaningToken]) -> Sequence[MeaningToken]:
    """Return a passive without an agent in the order of the clause, if that is active: "must keep the file", for "the
    file must be kept".
    """
    acts = {act.key for modal, act in pairwise(own) if modal.kind is MeaningKind.MODAL and act.kind in CONTENT}
    places = (place for place, (be, act) in enumerate(pairwise(claim)) if be.key == "be" and act.key in acts)
    if (place := next(places, None)) is None:
        return claim
    modal = max((at for at in range(place) if claim[at].kind is MeaningKind.MODAL), default=place)
    commas = (at for at in range(modal) if claim[at].kind is MeaningKind.BREAK and claim[at].key not in ("and", "or"))
    start = max(commas, default=-1) + 1
    subject = claim[start:modal]
    if any(token.kind is MeaningKind.MODAL for token in subject):
        return claim
    return [*claim[:start], *claim[modal:place], claim[place + 1], *subject, *claim[place + 2 :]]


def is_passive(tokens: Sequence[MeaningToken], other: Sequence[MeaningToken]) -> bool:
    """Return whether an agent ("by the Board") of a text is a subject of another one without agents, before its act."""
    if _agents(other):
        return False
    keys = [token.key for token in other]
    for place in _agents(tokens):
        agent = _nearest_run([token.key for token in tokens[place:]], keys)
        acts = [key for key in _acts_before(tokens, place - 1) if key in keys]
        if agent is not None and acts and all(agent < keys.index(act) for act in acts):
            return True
    return False


def _nearest_run(sought: Sequence[str], keys: Sequence[str]) -> int | None:
    """Return the place of the longest run that begins as `sought` does; None if its first key is missing."""
    lengths = [
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(sought, keys[at:]))) for at in range(len(keys))
    ]
    return lengths.index(max(lengths)) if any(lengths) else None


def _acts_before(tokens: Sequence[MeaningToken], place: int) -> list[str]:
    """Return the keys of the content between the last "is" or "be" and a place; without one the last content."""
    start = next((at for at in range(place - 1, -1, -1) if tokens[at].key == "be"), 0)
    content = [token.key for token in tokens[start:place] if token.kind in CONTENT]
    return content if start else content[-1:]


def _agents(tokens: Sequence[MeaningToken]) -> list[int]:
    """Return the places of words after "by"."""
    return [
        place
        for place, token in enumerate(tokens)
        if place and tokens[place - 1].key == "by" and token.kind in (MeaningKind.WORD, MeaningKind.SIDE)
    ]
