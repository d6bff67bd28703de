"""The conflict radar: passages of a domain that say the same thing with another value, modal, negation or bound.

It compares sentences and table cells of the documents in force. Two documents that say nearly everything alike about
different things, such as the mandates of two desks, are parallel: their differences are marked, because they are
probably meant.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import combinations, product
from typing import Final, NamedTuple

from context_engine.answer.conflicts import (
    LEAST_ALIKE,
    ConflictDifference,
    Yields,
    compared_statements,
    differs,
    same_subject,
    which_yields,
)
from context_engine.answer.reading import CONTENT, MeaningKind, MeaningToken, content_keys, normalised, read
from context_engine.answer.sentences import StatementKind
from context_engine.answer.values import Evidence
from context_engine.core.models import Chunk
from context_engine.core.policy.validity import in_force, superseded
from context_engine.core.text import stems
from context_engine.insight.alike import alike_pairs

_LEAST_WORDS: Final = 3
_PARALLEL_SHARE: Final = 0.3
_PARALLEL_LEAST: Final = 4
_MOST_PLACES: Final = 20
"""Places of one sentence that are looked at: a boilerplate sentence stands in hundreds of documents."""

_PLACES_IN_TEXTS: Final = """
    table figure section part appendix annex chapter clause article paragraph step item page version
"""
_REFERENCES: Final = frozenset(stems(_PLACES_IN_TEXTS.split()))
_NUMBERED: Final = re.compile(r"^(?:§ ?)?\d[\d.]*\.?\s+")
_WEAK_MODALS: Final = frozenset(("could", "might", "would"))
_BY_ACT: Final = (MeaningKind.MODAL.value, MeaningKind.NEGATION.value)
_MEANS: Final = stems(["means"])[0]


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
    """

    source_id: str
    tier: int
    chunk: Chunk
    text: str
    start: int
    end: int
    places: int

    @property
    def effective_from(self) -> str | None:
        """ISO date on which it came into force; None if unknown."""
        return None if self.chunk.effective_from is None else self.chunk.effective_from.isoformat()


class RadarFinding(NamedTuple):
    """A contradiction.

    Attributes:
        finding_id: 12 hexadecimal digits, the same as long as the two documents say these sentences.
        yields: which side has less authority.
        parallel: whether the two documents are parallel, so that the difference is probably meant.
    """

    finding_id: str
    first: RadarSide
    second: RadarSide
    differences: tuple[ConflictDifference, ...]
    yields: Yields
    parallel: bool


class RadarReport(NamedTuple):
    """What the radar read and found.

    Attributes:
        findings: the sides with most authority first.
        passages, statements: how many were compared.
        not_in_force: passages that were left out because of their dates or a newer version.
    """

    findings: tuple[RadarFinding, ...]
    passages: int
    statements: int
    not_in_force: int


class _Place(NamedTuple):
    passage: int
    start: int
    end: int
    heading: str


class _Said(NamedTuple):
    """A statement with all its places."""

    words: frozenset[str]
    named: frozenset[str]
    tokens: tuple[MeaningToken, ...]
    is_cell: bool
    places: list[_Place]


def radar(passages: Iterable[RadarPassage], today: date) -> RadarReport:
    """Return the contradictions between the passages that are in force on a day."""
    given = list(passages)
    known = _current(given, today)
    said = _read(known)
    alike = alike_pairs([item.words for item in said], LEAST_ALIKE, least=_LEAST_WORDS)
    pairs = [(said[first], said[second]) for first, second in alike if said[first].named == said[second].named]
    parallel = _ParallelDocuments(known, said, pairs)
    findings = tuple(sorted(_findings(known, pairs, parallel), key=_by_authority))
    return RadarReport(findings, len(known), sum(len(item.places) for item in said), len(given) - len(known))


def _current(passages: Sequence[RadarPassage], today: date) -> list[RadarPassage]:
    in_time = [passage for passage in passages if in_force(passage.chunk, today) is None]
    replaced = superseded([(passage.source_id, passage.chunk) for passage in in_time], today=True)
    return [passage for place, passage in enumerate(in_time) if place not in replaced]


def _read(passages: Sequence[RadarPassage]) -> list[_Said]:
    """Return the statements of all passages; those that say the same with the same words are one."""
    said: dict[tuple[frozenset[str], tuple[MeaningToken, ...]], _Said] = {}
    kept: dict[MeaningToken, MeaningToken] = {}
    for number, passage in enumerate(passages):
        for item in compared_statements(_evidence(number, passage)):
            tokens = tuple(kept.setdefault(token, token) for token in _without_references(item.tokens))
            if item.kind is not StatementKind.LEAD and len(item.words) >= _LEAST_WORDS:
                fresh = _Said(item.words, item.named, tokens, item.kind is not StatementKind.SENTENCE, [])
                entry = said.setdefault((item.named, tokens), fresh)
                entry.places.append(_Place(number, item.quote.start, item.quote.end, _heading(passage.chunk)))
    return list(said.values())


def _evidence(number: int, passage: RadarPassage) -> Evidence:
    chunk = passage.chunk
    headings = tuple(dict.fromkeys(filter(None, (chunk.title, *chunk.heading_path))))
    return Evidence(
        str(number), passage.source_id, chunk.chunk_id, chunk.content, headings, 1, None, passage.tier, None
    )


def _heading(chunk: Chunk) -> str:
    """Return the words of the headings above a chunk, without their numbers."""
    headings = (_NUMBERED.sub("", heading) for heading in chunk.heading_path)
    return " ".join(token.key for heading in headings for token in read(heading) if token.kind in CONTENT)


def _without_references(tokens: Sequence[MeaningToken]) -> Iterator[MeaningToken]:
    """Yield the tokens without the numbers of tables, sections and the like: they name a place, not a value."""
    refers = False
    for token in tokens:
        if token.key in _REFERENCES:
            refers = True
        elif token.kind in CONTENT and token.kind is not MeaningKind.VALUE:
            refers = False
        if not (refers and token.kind is MeaningKind.VALUE):
            yield token


class _ParallelDocuments:
    """Knows which documents say nearly everything alike under titles that each name something else."""

    def __init__(
        self, passages: Sequence[RadarPassage], said: Sequence[_Said], pairs: Sequence[tuple[_Said, _Said]]
    ) -> None:
        self._titles = {_document(passage): content_keys(read(passage.chunk.title or "")) for passage in passages}
        self._sizes: Counter[tuple[str, str]] = Counter()
        self._shared: Counter[frozenset[tuple[str, str]]] = Counter()
        holders = {id(item): sorted({_document(passages[place.passage]) for place in item.places}) for item in said}
        for documents in holders.values():
            self._sizes.update(documents)
            self._count(combinations(documents[:_MOST_PLACES], 2))
        for first, second in pairs:
            self._count(product(holders[id(first)][:_MOST_PLACES], holders[id(second)][:_MOST_PLACES]))

    def _count(self, pairs: Iterable[tuple[tuple[str, str], tuple[str, str]]]) -> None:
        self._shared.update(frozenset(pair) for pair in pairs if pair[0] != pair[1])

    def __contains__(self, pair: tuple[RadarPassage, RadarPassage]) -> bool:
        first, second = _document(pair[0]), _document(pair[1])
        titles = self._titles[first], self._titles[second]
        if not (titles[0] - titles[1] and titles[1] - titles[0]):
            return False
        least = max(_PARALLEL_LEAST, _PARALLEL_SHARE * min(self._sizes[first], self._sizes[second]))
        return self._shared[frozenset((first, second))] >= least


def _findings(
    passages: Sequence[RadarPassage], pairs: Iterable[tuple[_Said, _Said]], parallel: _ParallelDocuments
) -> Iterator[RadarFinding]:
    for pair in pairs:
        differences = _differences(*pair)
        places = _best_places(passages, *pair) if differences else None
        if places is not None:
            yield _finding(passages, pair, places, differences, parallel)


def _differences(first: _Said, second: _Said) -> tuple[ConflictDifference, ...]:
    """Return what two statements about the same thing say otherwise.

    Modals and negations are compared act by act. A bare number must stand in a sentence with a verb of its own, because
    captions and titles are numbered.
    """
    if _defined(first) != _defined(second) or not same_subject(first.tokens, second.tokens):
        return ()
    values = [each for each in differs(first.tokens, second.tokens) if each.code not in _BY_ACT]
    if not all(item.is_cell or _is_rule(item) for item in (first, second)):
        values = [each for each in values if each.code != MeaningKind.VALUE.value]
    return (*values, *_by_act(first, second))


def _by_act(first: _Said, second: _Said) -> Iterator[ConflictDifference]:
    """Yield the acts of both statements that have another modal, or are denied in one of them."""
    acts, others = _acts(first), _acts(second)
    for act in dict.fromkeys((*acts, *others)):
        if not (act in first.words and act in second.words):
            continue
        plain = _Act("", denied=False, written=act)
        said, other = acts.get(act, plain), others.get(act, plain)
        if said.denied != other.denied:
            written = said.written if act in acts else other.written
            sides = [f"not {written}" if each.denied else written for each in (said, other)]
            yield ConflictDifference(MeaningKind.NEGATION.value, *sides)
        elif said.modal and other.modal and said.modal != other.modal and not {said.modal, other.modal} & _WEAK_MODALS:
            yield ConflictDifference(MeaningKind.MODAL.value, said.modal, other.modal)


class _Act(NamedTuple):
    """How a statement speaks of an act: its modal ("" for none), and whether it is denied."""

    modal: str
    denied: bool
    written: str


def _acts(said: _Said) -> dict[str, _Act]:
    """Return the words that stand right after a modal or a negation."""
    acts = dict[str, _Act]()
    modal, denied = "", False
    for token in said.tokens:
        if token.kind is MeaningKind.MODAL:
            modal, denied = token.key.removesuffix(" not"), token.key.endswith(" not")
        elif token.kind is MeaningKind.NEGATION:
            denied = True
        elif token.kind in CONTENT:
            if modal or denied:
                acts.setdefault(token.key, _Act(modal, denied, token.written))
            modal, denied = "", False
    return acts


def _defined(said: _Said) -> frozenset[str] | None:
    """Return the words that a definition ("X means ...") defines; None if it is no definition."""
    keys = [token.key for token in said.tokens]
    return frozenset(keys[: keys.index(_MEANS)]) if _MEANS in keys else None


def _is_rule(said: _Said) -> bool:
    kinds = (MeaningKind.MODAL, MeaningKind.NEGATION, MeaningKind.BOUND)
    return any(token.kind in kinds or token.key == "be" or _counts(token) for token in said.tokens)


def _counts(token: MeaningToken) -> bool:
    """Return whether a token is a value with a unit, currency or bound."""
    value = token.value
    return value is not None and bool(value.unit or value.currency or value.bound)


def _best_places(passages: Sequence[RadarPassage], first: _Said, second: _Said) -> tuple[_Place, _Place] | None:
    """Return the two places with most authority that speak of the same thing.

    They stand in different documents, or in one document under the same headings.
    """
    pairs = (
        (one, other)
        for one, other in product(first.places[:_MOST_PLACES], second.places[:_MOST_PLACES])
        if one.passage != other.passage
        and (_document(passages[one.passage]) != _document(passages[other.passage]) or one.heading == other.heading)
    )
    return min(pairs, key=lambda pair: sorted(passages[place.passage].tier for place in pair), default=None)


def _finding(
    passages: Sequence[RadarPassage],
    said: tuple[_Said, _Said],
    places: tuple[_Place, _Place],
    differences: tuple[ConflictDifference, ...],
    parallel: _ParallelDocuments,
) -> RadarFinding:
    sides = [_side(passages, item, place) for item, place in zip(said, places, strict=True)]
    pair = (passages[places[0].passage], passages[places[1].passage])
    marks = sorted(f"{_document(passage)} {normalised(side.text)}" for passage, side in zip(pair, sides, strict=True))
    marks += sorted(" ".join(sorted((each.first, each.second))) for each in differences)
    finding_id = hashlib.sha256("\n".join(marks).encode()).hexdigest()[:12]
    yields = which_yields(sides[0], sides[1])
    return RadarFinding(finding_id, sides[0], sides[1], differences, yields, pair in parallel)


def _side(passages: Sequence[RadarPassage], said: _Said, place: _Place) -> RadarSide:
    passage = passages[place.passage]
    text = passage.chunk.content[place.start : place.end]
    return RadarSide(passage.source_id, passage.tier, passage.chunk, text, place.start, place.end, len(said.places))


def _document(passage: RadarPassage) -> tuple[str, str]:
    return passage.source_id, passage.chunk.document_id or passage.chunk.title or passage.chunk.chunk_id


def _by_authority(finding: RadarFinding) -> tuple[bool, list[int], str]:
    return finding.parallel, sorted((finding.first.tier, finding.second.tier)), finding.finding_id
