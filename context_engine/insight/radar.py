"""The conflict radar: passages of a domain that say the same thing with another value, modal, negation or bound.

It compares sentences and table cells of the documents in force. Two documents that say nearly everything alike about
different things, such as the mandates of two desks, are parallel: their differences are marked, because they are
probably meant.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import combinations, product
from typing import Final, Literal, NamedTuple

from context_engine.answer.conflicts import ConflictDifference, Yields, heading_words, which_yields
from context_engine.answer.reading import content_keys, normalised, read
from context_engine.core.models import Chunk
from context_engine.core.policy.trust import in_force, superseded
from context_engine.insight.aligned import aligned_pairs
from context_engine.insight.differences import in_order
from context_engine.insight.remembered import NOTHING, Pair, RadarMemory, passage_key, remembered

_PARALLEL_SHARE: Final = 0.3
_PARALLEL_LEAST: Final = 4
_MOST_PLACES: Final = 20
"""Places of one sentence that are looked at: a boilerplate sentence stands in hundreds of documents."""
ConflictBasis = Literal["words", "rule"]
DocumentKey = tuple[str, str]


class RadarPassage(NamedTuple):
    """A chunk of the domain with the tier of its source: 1 (system of record) to 5 (web)."""

    source_id: str
    tier: int
    chunk: Chunk


class RadarSide(NamedTuple):
    """One of two statements that contradict each other, at its place of highest authority.

    Attributes:
        text: the sentence, or the row of the cell, as written.
        start, end: characters of the chunk's text, end exclusive.
        places: how many passages have the statement.
        cites: the version of the other side's document that the passage cites, if another one is in force; else "".
    """

    source_id: str
    tier: int
    chunk: Chunk
    text: str
    start: int
    end: int
    places: int
    cites: str = ""

    @property
    def effective_from(self) -> str | None:
        """ISO date on which it came into force; None if unknown."""
        return None if self.chunk.effective_from is None else self.chunk.effective_from.isoformat()


class RadarFinding(NamedTuple):
    """A contradiction.

    Attributes:
        finding_id: 12 hexadecimal digits, the same as long as the two documents say these sentences.
        first, second: the first has the lower tier number, if they differ.
        yields: which side has less authority.
        parallel: whether the two documents are parallel, so that the difference is probably meant.
        basis: "words": the sentences are nearly alike. "rule": they set a value for the same thing in other words.
    """

    finding_id: str
    first: RadarSide
    second: RadarSide
    differences: tuple[ConflictDifference, ...]
    yields: Yields
    parallel: bool
    basis: ConflictBasis = "words"


class RadarReport(NamedTuple):
    """What the radar read and found.

    Attributes:
        findings: the sides with most authority first.
        passages, statements: how many were compared.
        not_in_force: passages that were left out because of their dates or a newer version.
        memory: makes the next run over nearly the same passages short; see `radar`.
    """

    findings: tuple[RadarFinding, ...]
    passages: int
    statements: int
    not_in_force: int
    memory: RadarMemory = NOTHING


class _StatementPlace(NamedTuple):
    passage: int
    start: int
    end: int
    heading: str


class _ConflictCandidate(NamedTuple):
    """Two statements by their numbers, and what they say otherwise."""

    first: int
    second: int
    differences: tuple[ConflictDifference, ...]
    basis: ConflictBasis


def radar(passages: Iterable[RadarPassage], today: date, memory: RadarMemory = NOTHING) -> RadarReport:
    """Return the contradictions between the passages that are in force on a day.

    Args:
        memory: of an earlier run; the report is the same without it, only later.
    """
    given = list(passages)
    known = _current(given, today)
    made = remembered((passage.chunk for passage in known), memory)
    places = _places(known, made)
    parallel = _ParallelDocuments(known, places, made.pairs)
    findings = tuple(sorted(_findings(known, made, places, parallel), key=_by_authority))
    return RadarReport(findings, len(known), sum(map(len, places.values())), len(given) - len(known), made)


def _current(passages: Sequence[RadarPassage], today: date) -> list[RadarPassage]:
    in_time = [passage for passage in passages if in_force(passage.chunk, today) is None]
    replaced = superseded([(passage.source_id, passage.chunk) for passage in in_time], today=True)
    return [passage for place, passage in enumerate(in_time) if place not in replaced]


def _places(passages: Sequence[RadarPassage], memory: RadarMemory) -> Mapping[int, Sequence[_StatementPlace]]:
    """Return the places of each statement, in the order of the passages."""
    places: defaultdict[int, list[_StatementPlace]] = defaultdict(list)
    for number, passage in enumerate(passages):
        heading = heading_words(passage.chunk.heading_path)
        for place in memory.passages[passage_key(passage.chunk)]:
            places[place.statement].append(_StatementPlace(number, place.start, place.end, heading))
    return places


class _ParallelDocuments:
    """Knows which documents say nearly everything alike under titles that each name something else."""

    def __init__(
        self, passages: Sequence[RadarPassage], places: Mapping[int, Sequence[_StatementPlace]], pairs: Iterable[Pair]
    ) -> None:
        self._titles = {_document(passage): content_keys(read(passage.chunk.title or "")) for passage in passages}
        self._sizes: Counter[DocumentKey] = Counter()
        self._shared: Counter[frozenset[DocumentKey]] = Counter()
        holders = {
            number: sorted({_document(passages[place.passage]) for place in each}) for number, each in places.items()
        }
        for documents in holders.values():
            self._sizes.update(documents)
            self._count(combinations(documents[:_MOST_PLACES], 2))
        for first, second in pairs:
            self._count(product(holders[first][:_MOST_PLACES], holders[second][:_MOST_PLACES]))

    def _count(self, pairs: Iterable[tuple[DocumentKey, DocumentKey]]) -> None:
        self._shared.update(frozenset(pair) for pair in pairs if pair[0] != pair[1])

    def __contains__(self, pair: tuple[RadarPassage, RadarPassage]) -> bool:
        first, second = _document(pair[0]), _document(pair[1])
        titles = self._titles[first], self._titles[second]
        if not (titles[0] - titles[1] and titles[1] - titles[0]):
            return False
        least = max(_PARALLEL_LEAST, _PARALLEL_SHARE * min(self._sizes[first], self._sizes[second]))
        return self._shared[frozenset((first, second))] >= least


def _findings(
    passages: Sequence[RadarPassage],
    memory: RadarMemory,
    places: Mapping[int, Sequence[_StatementPlace]],
    parallel: _ParallelDocuments,
) -> Iterator[RadarFinding]:
    for candidate in _candidates(passages, memory, places):
        pair = _best_places(passages, places, candidate)
        if pair is not None:
            yield _finding(passages, places, candidate, pair, parallel)


def _candidates(
    passages: Sequence[RadarPassage], memory: RadarMemory, places: Mapping[int, Sequence[_StatementPlace]]
) -> Iterator[_ConflictCandidate]:
    """Yield the pairs that differ; the first words of a difference belong to the first statement."""
    for (first, second), differences in memory.pairs.items():
        if differences:
            ordered = in_order(memory.statements[first], memory.statements[second])
            yield _ConflictCandidate(*((first, second) if ordered else (second, first)), differences, "words")
    usable = [number for number in sorted(places) if _is_sentence(passages, memory, number, places[number][0])]
    for first, second, difference in aligned_pairs(memory.statements, usable):
        if (first, second) not in memory.pairs:
            yield _ConflictCandidate(first, second, (difference,), "rule")


def _is_sentence(passages: Sequence[RadarPassage], memory: RadarMemory, number: int, place: _StatementPlace) -> bool:
    """Return whether a statement is a whole sentence that has its values itself, not from the lead-in of a list."""
    statement = memory.statements[number]
    values = {token.value for token in statement.tokens if token.value}
    if statement.is_cell or not values:
        return False
    text = normalised(passages[place.passage].chunk.content[place.start : place.end])
    return text[:1].isupper() and text.endswith((".", ";")) and values <= {token.value for token in read(text)}


def _best_places(
    passages: Sequence[RadarPassage], places: Mapping[int, Sequence[_StatementPlace]], candidate: _ConflictCandidate
) -> tuple[_StatementPlace, _StatementPlace] | None:
    """Return the two places with most authority that speak of the same thing.

    They stand in different documents or, if the sentences are nearly alike, in one document under the same headings.
    """
    pairs = (
        (first, second)
        for first, second in product(places[candidate.first][:_MOST_PLACES], places[candidate.second][:_MOST_PLACES])
        if first.passage != second.passage
        and (
            _document(passages[first.passage]) != _document(passages[second.passage])
            or (candidate.basis == "words" and first.heading == second.heading)
        )
    )
    return min(pairs, key=lambda pair: sorted(passages[place.passage].tier for place in pair), default=None)


def _finding(
    passages: Sequence[RadarPassage],
    places: Mapping[int, Sequence[_StatementPlace]],
    candidate: _ConflictCandidate,
    pair: tuple[_StatementPlace, _StatementPlace],
    parallel: _ParallelDocuments,
) -> RadarFinding:
    both = (passages[pair[0].passage], passages[pair[1].passage])
    counts = (len(places[candidate.first]), len(places[candidate.second]))
    first, second = _side(both, pair[0], counts[0]), _side(both[::-1], pair[1], counts[1])
    differences = candidate.differences
    if _rank(second) < _rank(first):
        first, second = second, first
        differences = tuple(each._replace(first=each.second, second=each.first) for each in differences)
    yields = which_yields(first, second)
    return RadarFinding(
        _finding_id(first, second, differences), first, second, differences, yields, both in parallel, candidate.basis
    )


def _finding_id(first: RadarSide, second: RadarSide, differences: Iterable[ConflictDifference]) -> str:
    marks = sorted(f"{_document(side)} {normalised(side.text)}" for side in (first, second))
    marks += sorted(" ".join(sorted((each.first, each.second))) for each in differences)
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()[:12]


def _side(passages: tuple[RadarPassage, RadarPassage], place: _StatementPlace, places: int) -> RadarSide:
    """Return the side of the first passage; the other one is that of the other side."""
    passage, other = passages
    text = passage.chunk.content[place.start : place.end]
    cites = _cited(passage.chunk, other.chunk)
    return RadarSide(passage.source_id, passage.tier, passage.chunk, text, place.start, place.end, places, cites)


def _cited(chunk: Chunk, other: Chunk) -> str:
    """Return the version of another document that a passage cites ("SOP-4 v2"), if not the one at hand; else ""."""
    if not other.document_id or not other.document_version or other.document_id == chunk.document_id:
        return ""
    cited = re.search(rf"(?<!\w){re.escape(other.document_id)},? (?:v|version )(\d[\w.]*\w|\d)", chunk.content, re.I)
    version = cited[1] if cited else ""
    return "" if version == other.document_version.removeprefix("v") else version


def _document(passage: RadarPassage | RadarSide) -> DocumentKey:
    return passage.source_id, passage.chunk.document_id or passage.chunk.title or passage.chunk.chunk_id


def _rank(side: RadarSide) -> tuple[int, DocumentKey, str, int]:
    return side.tier, _document(side), side.chunk.chunk_id, side.start


def _by_authority(finding: RadarFinding) -> tuple[object, ...]:
    sides = (finding.first, finding.second)
    return finding.parallel, [side.tier for side in sides], finding.finding_id, [_rank(side) for side in sides]
