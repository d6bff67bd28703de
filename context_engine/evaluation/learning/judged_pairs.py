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
"""A gold id that names more chunks (a whole document) does not tell which chunk answers."""


class JudgedPairs(NamedTuple):
    """Pairs of judged questions.

    Attributes:
        ids: question ids, in the order of the pairs.
        pairs: sorted by a digest of the question's text, so that the order of the questions does not matter.
        untaught: ids of questions whose gold ids name no chunk of the store, or more than eight.
    """

    ids: list[str]
    pairs: TrainingPairs
    untaught: list[str]


def judged_pairs(
    questions: Iterable[EvalQuestion], qrels: Mapping[str, Mapping[str, int]], held: HeldVectors
) -> JudgedPairs:
    """Return the training pairs of judged questions. A gold id that names more than eight chunks is ignored.

    Args:
        questions: questions of one domain; unjudged ones are skipped.
    """
    named = _named({gold for rows in qrels.values() for gold in rows}, held)
    ids: list[str] = []
    pairs = TrainingPairs([], [])
    untaught: list[str] = []
    for question in sorted(questions, key=_digest):
        if question.id not in qrels:
            continue
        rows = {row for gold in qrels[question.id] for row in named[gold] if len(named[gold]) <= _MOST_NAMED}
        if not rows:
            untaught.append(question.id)
            continue
        ids.append(question.id)
        pairs.questions.append(question.text)
        pairs.passages.append(sorted(rows))
    return JudgedPairs(ids, pairs, untaught)


def _digest(question: EvalQuestion) -> tuple[bytes, str]:
    return hashlib.sha256(question.text.encode("utf-8", "surrogatepass")).digest(), question.id


def _named(gold: set[str], held: HeldVectors) -> dict[str, list[int]]:
    """Return {gold id: rows of the chunks that it names}."""
    rows: dict[str, list[int]] = {name: [] for name in gold}
    hashes = {name for name in gold if not holders([name])}
    for row, (source_id, chunk) in enumerate(zip(held.source_ids, held.chunks, strict=True)):
        identity = identity_of(source_id, chunk.chunk_id, chunk)
        for name in gold_of(identity, hashes | gold & {*identity.names, EXACT + identity.chunk_id}):
            rows[name].append(row)
    return rows
