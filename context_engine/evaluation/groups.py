"""Questions in groups: by the best tier of what answers them, by domain, by the labels of their file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from context_engine.errors import InvalidRequest, nearest
from context_engine.evaluation.gold import Identity, gold_of
from context_engine.evaluation.qrels import EXACT
from context_engine.evaluation.session import Session

Groups = Mapping[str, Mapping[str, Sequence[str]]]
"""Name of a grouping to value to question ids."""

_MOST_VALUES: Final = 12
_UNKNOWN: Final = "not known"


def grouped(session: Session, by: Sequence[str] = ()) -> Groups:
    """Return the groupings of the judged questions that say anything, of two groups at least, or that are asked for.

    Args:
        by: labels to group by beside tier and domain; empty takes every label with 2 to 12 values.

    Raises:
        InvalidRequest: a label that no question has.
    """
    judged = [(question, domain) for question, domain in session.questions if question.id in session.qrels]
    tiers = tier_of_gold(session.qrels, session.corpus.identities.values())
    groups: dict[str, dict[str, list[str]]] = {"tier": {}, "domain": {}}
    labels = {label for question, _ in judged for label in question.labels}
    for label in by:
        if label not in labels and label not in groups:
            raise InvalidRequest(f"no question has a field {label!r} to group by.{nearest(label, labels)}")
    chosen = labels.intersection(by) if by else labels
    for question, domain in judged:
        tier = tiers.get(question.id)
        values = {"tier": _UNKNOWN if tier is None else str(tier), "domain": domain}
        values |= {label: question.labels.get(label, _UNKNOWN) for label in sorted(chosen)}
        for name, value in values.items():
            groups.setdefault(name, {}).setdefault(value, []).append(question.id)
    kept = {name: dict(sorted(held.items())) for name, held in groups.items() if len(held) > 1 or name in by}
    return {name: held for name, held in kept.items() if name in by or len(held) <= _MOST_VALUES}


def tier_of_gold(qrels: Mapping[str, Mapping[str, int]], identities: Iterable[Identity]) -> Mapping[str, int]:
    """Return the best tier among the gold answers of each question, as far as it is known."""
    wanted = {gold for held in qrels.values() for gold in held}
    hashes = [gold for gold in wanted if gold_of(Identity("", "", frozenset(), gold.removeprefix("sha256:")), (gold,))]
    tiers: dict[str, int] = {}
    for one in identities:
        if one.tier is None:
            continue
        for gold in [*(wanted & {*one.names, EXACT + one.chunk_id}), *gold_of(one, hashes)]:
            tiers[gold] = min(tiers.get(gold, one.tier), one.tier)
    known = {question: [tiers[gold] for gold in held if gold in tiers] for question, held in qrels.items()}
    return {question: min(found) for question, found in known.items() if found}
