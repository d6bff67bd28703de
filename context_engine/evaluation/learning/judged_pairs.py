"""Training pairs from judged questions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from context_engine.core.models import HeldVectors
from context_engine.evaluation.gold import gold_of, holders, identity_of
from context_engine.evaluation.qrels import EXACT
from context_engine.evaluation.questions import EvalQuestion
from context_engine.learning.pairs import TrainingPairs

_MOST_NAMED: Final = 8
"""A judgement of a whole document does not say which of its passages answers."""


class JudgedPairs(NamedTuple):
    """Pairs of judged questions.

    Attributes:
        ids: of the questions, in the order of the pairs.
        pairs: by the digest of the question's text, so that the same questions in any order are the same pairs.
        untaught: ids of questions whose gold ids name no chunk that is held, or too many to say which one answers.
    """

    ids: list[str]
    pairs: TrainingPairs
    untaught: list[str]


def judged_pairs(
    questions: Iterable[EvalQuestion], qrels: Mapping[str, Mapping[str, int]], held: HeldVectors
) -> JudgedPairs:
    """Return what judged questions teach. A gold id that names more than eight chunks teaches nothing.

    Args:
        questions: those of one domain; one that the judgements do not mention is passed over.
        qrels: what is relevant.
        held: the chunks of the base.
    """
    named = _named({gold for rows in qrels.values() for gold in rows}, held)
    ids: list[str] = []
    pairs = TrainingPairs([], [])
    untaught: list[str] = []
    for one in sorted(questions, key=_digest):
        if one.id not in qrels:
            continue
        rows = {row for gold in qrels[one.id] for row in named[gold] if len(named[gold]) <= _MOST_NAMED}
        if not rows:
            untaught.append(one.id)
            continue
        ids.append(one.id)
        pairs.questions.append(one.text)
        pairs.passages.append(sorted(rows))
    return JudgedPairs(ids, pairs, untaught)


def _digest(question: EvalQuestion) -> tuple[bytes, str]:
    return hashlib.sha256(question.text.encode("utf-8", "surrogatepass")).digest(), question.id


def _named(gold: set[str], held: HeldVectors) -> dict[str, list[int]]:
    """Return the rows of the chunks that each gold id names."""
    found: dict[str, list[int]] = {name: [] for name in gold}
    hashes = {name for name in gold if not holders([name])}
    for row, (source_id, chunk) in enumerate(zip(held.source_ids, held.chunks, strict=True)):
        one = identity_of(source_id, chunk.chunk_id, chunk)
        for name in gold_of(one, hashes | gold & {*one.names, EXACT + one.chunk_id}):
            found[name].append(row)
    return found
