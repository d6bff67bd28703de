"""What the radar has read and compared, so that a run after an ingest reads and compares only what is new."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from context_engine.answer.conflicts import LEAST_ALIKE, ConflictDifference, compared_statements
from context_engine.answer.reading import CONTENT, MeaningKind, MeaningToken
from context_engine.answer.sentences import StatementKind
from context_engine.answer.values import Evidence
from context_engine.core.models import Chunk
from context_engine.core.text import stems
from context_engine.insight.alike import alike_pairs, pairs_with
from context_engine.insight.differences import ReadStatement, in_order, statement_differences

LEAST_WORDS: Final = 3
_PLACES_IN_TEXTS: Final = """
    table figure section part appendix annex chapter clause article paragraph step item page version
"""
_REFERENCES: Final = frozenset(stems(_PLACES_IN_TEXTS.split()))
_VERSION: Final = re.compile(r"v\d[\w.]*")

Pair = tuple[int, int]
Differences = tuple[ConflictDifference, ...]


class StatementPlace(NamedTuple):
    """Where a passage says a statement: its number, and characters of the passage's text, end exclusive."""

    statement: int
    start: int
    end: int


class RadarMemory(NamedTuple):
    """The statements of passages, each once, and what is known about their pairs.

    Attributes:
        statements: in the order in which the passages say them.
        passages: the places of each passage, by `passage_key`.
        pairs: the statements that share `LEAST_ALIKE` of their words, as (i, j) with i < j, and what the one that is
            first by `in_order` and the other say otherwise.
    """

    statements: tuple[ReadStatement, ...] = ()
    passages: Mapping[str, tuple[StatementPlace, ...]] = MappingProxyType({})
    pairs: Mapping[Pair, Differences] = MappingProxyType({})


NOTHING: Final = RadarMemory()


def passage_key(chunk: Chunk) -> str:
    """Return the SHA-256 of what the reading of a passage depends on: its text and the headings above it."""
    return hashlib.sha256(json.dumps((chunk.content, _headings(chunk))).encode()).hexdigest()


def remembered(chunks: Iterable[Chunk], memory: RadarMemory = NOTHING) -> RadarMemory:
    """Return the memory of exactly these passages; only what `memory` lacks is read and compared.

    The result does not depend on `memory`.
    """
    statements = list(memory.statements)
    numbers = {statement: number for number, statement in enumerate(statements)}
    passages = dict[str, tuple[StatementPlace, ...]]()
    for chunk in chunks:
        key = passage_key(chunk)
        if key not in passages:
            known = memory.passages.get(key)
            passages[key] = tuple(_places(chunk, statements, numbers)) if known is None else known
    present = dict.fromkeys(place.statement for places in passages.values() for place in places)
    pairs = _pairs(statements, present, memory)
    return _renumbered(statements, passages, pairs, {old: new for new, old in enumerate(present)})


def _places(
    chunk: Chunk, statements: list[ReadStatement], numbers: dict[ReadStatement, int]
) -> Iterator[StatementPlace]:
    """Read a passage; new statements are added at the end."""
    passage = Evidence("", "", chunk.chunk_id, chunk.content, tuple(_headings(chunk)), 1, None, None, None)
    for item in compared_statements(passage):
        tokens = tuple(_without_references(item.tokens))
        words = item.words & {token.key for token in tokens}
        if item.kind is StatementKind.LEAD or len(words) < LEAST_WORDS:
            continue
        statement = ReadStatement(item.named, tokens, words, item.kind is not StatementKind.SENTENCE)
        number = numbers.setdefault(statement, len(statements))
        if number == len(statements):
            statements.append(statement)
        yield StatementPlace(number, item.quote.start, item.quote.end)


def _headings(chunk: Chunk) -> list[str]:
    return list(dict.fromkeys(filter(None, (chunk.title, *chunk.heading_path))))


def _without_references(tokens: Sequence[MeaningToken]) -> Iterator[MeaningToken]:
    """Yield the tokens without what names a place: the numbers of tables and sections, and "SOP-4 v2 §3"."""
    refers = False
    for place, token in enumerate(tokens):
        following = tokens[place + 1].key if place + 1 < len(tokens) else ""
        if token.kind is MeaningKind.REFERENCE and (_VERSION.fullmatch(following) or _VERSION.fullmatch(token.key)):
            refers = True
            continue
        if token.key in _REFERENCES:
            refers = True
        elif token.kind in CONTENT and token.kind is not MeaningKind.VALUE:
            refers = False
        if not (refers and token.kind is MeaningKind.VALUE):
            yield token


def _pairs(
    statements: Sequence[ReadStatement], present: Mapping[int, None], memory: RadarMemory
) -> dict[Pair, Differences]:
    """Return the pairs of the statements that are present; those without a new statement are known."""
    known = len(memory.statements)
    pairs = {
        pair: differences for pair, differences in memory.pairs.items() if pair[0] in present and pair[1] in present
    }
    order = list(present)
    words = [statements[number].words for number in order]
    fresh = [place for place, number in enumerate(order) if number >= known]
    alike = (
        pairs_with(words, fresh, LEAST_ALIKE, least=LEAST_WORDS)
        if known
        else alike_pairs(words, LEAST_ALIKE, least=LEAST_WORDS)
    )
    for left, right in alike:
        first, second = order[left], order[right]
        if statements[first].named == statements[second].named:
            pairs[first, second] = _compared(statements[first], statements[second])
    return pairs


def _compared(first: ReadStatement, second: ReadStatement) -> Differences:
    ordered = (first, second) if in_order(first, second) else (second, first)
    return statement_differences(*ordered)


def _renumbered(
    statements: Sequence[ReadStatement],
    passages: Mapping[str, tuple[StatementPlace, ...]],
    pairs: Mapping[Pair, Differences],
    numbers: Mapping[int, int],
) -> RadarMemory:
    """Leave out statements that no passage says any more; `numbers` maps the old numbers to the new ones."""
    moved = {(numbers[first], numbers[second]): differences for (first, second), differences in pairs.items()}
    return RadarMemory(
        statements=tuple(statements[number] for number in numbers),
        passages={
            key: tuple(place._replace(statement=numbers[place.statement]) for place in places)
            for key, places in passages.items()
        },
        pairs=dict(sorted(((min(pair), max(pair)), differences) for pair, differences in moved.items())),
    )
