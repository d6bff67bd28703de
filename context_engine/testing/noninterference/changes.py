"""Hidden documents, and the changes made to them: added, changed, deleted, moved, reclassified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from itertools import count
from random import Random
from typing import Any, Final

from context_engine.core.models import Chunk, Classification, SearchRequest
from context_engine.core.protocols import Sink
from context_engine.core.text import content_sha256
from context_engine.testing.noninterference.requests import HiddenPlace, misspelt, sentence_of, unknown_word, words_of

_MOST_REPEATS: Final = 12
_MOST_CHUNKS: Final = 4
_CODES: Final = ("NPA-001", "4.2.1(b)", "7 %", "USD 5 000 000")


class HiddenTexts:
    """Makes the chunks of hidden documents.

    To provoke any influence on answers, the chunks repeat words of the questions, copy open texts exactly or with one
    word changed, contain the questions with their misspelt and unknown words, misspell other words, define words of
    the questions, have the fields that filters name, and claim to supersede open documents.

    Args:
        draw: source of randomness.
        readable: chunks that the caller may read.
        requests: requests of the caller.
    """

    def __init__(self, draw: Random, readable: Sequence[Chunk], requests: Sequence[SearchRequest]) -> None:
        self._draw, self._readable = draw, readable
        self._asked = [request.query for request in requests] or ["approval limit"]
        self._words = words_of(self._asked) or ["approval", "limit"]
        self._fields = sorted({name for chunk in readable for name in chunk.metadata} | {"owner", "project"})
        self.document_ids = sorted({chunk.document_id for chunk in readable if chunk.document_id})
        self._kinds: Sequence[Callable[[], str]] = (
            self._flood, self._copy, self._near_copy, self._question, self._slips, self._definition, self._memo,
        )  # fmt: skip

    def chunks(self, document_id: str, claim: Classification | None, *, foreign: bool) -> tuple[Chunk, ...]:
        """Return the chunks of a new document.

        Args:
            claim: the classification that each chunk claims.
            foreign: whether it is in another source than the open texts, so that it may reuse their ids.
        """
        number = self._draw.randint(1, _MOST_CHUNKS)
        return tuple(self._chunk(document_id, place, claim, foreign=foreign) for place in range(number))

    def _chunk(self, document_id: str, place: int, claim: Classification | None, *, foreign: bool) -> Chunk:
        draw = self._draw
        like = draw.choice(self._like(document_id)) if self._readable and draw.random() < 0.5 else Chunk(content="-")
        same = foreign and place == 0 and like.document_id == document_id and not _is_hash(like)
        return Chunk(
            content=draw.choice(self._kinds)(),
            chunk_id=like.chunk_id if same else "",
            document_id=document_id,
            title=like.title or draw.choice(self._asked)[:80],
            section=like.section,
            heading_path=like.heading_path,
            position=place,
            classification=claim,
            authority_tier=draw.choice((None, 1, 2)),
            effective_from=draw.choice((None, date(2020, 1, 1), date(2030, 1, 1))),
            superseded_by=like.document_id if foreign and draw.random() < 0.2 else None,
            metadata=self._metadata(),
        )

    def _like(self, document_id: str) -> Sequence[Chunk]:
        """Return the open chunks with the same document id, or all if there are none."""
        return [chunk for chunk in self._readable if chunk.document_id == document_id] or self._readable

    def _metadata(self) -> dict[str, Any]:
        draw = self._draw
        names = draw.sample(self._fields, min(2, len(self._fields)))
        return {name: draw.choice((draw.choice(self._words), 7, True)) for name in names}

    def _flood(self) -> str:
        word = self._draw.choice(self._words)
        return " ".join([word] * self._draw.randint(1, _MOST_REPEATS))

    def _copy(self) -> str:
        return self._draw.choice(self._readable).content if self._readable else self._memo()

    def _near_copy(self) -> str:
        words = self._copy().split()
        words[self._draw.randrange(len(words))] = self._draw.choice(self._words)
        return " ".join(words)

    def _question(self) -> str:
        return f"{self._draw.choice(self._asked)} {self._draw.choice(_CODES)}"

    def _slips(self) -> str:
        return " ".join(misspelt(word, self._draw) for word in self._draw.choices(self._words, k=6))

    def _definition(self) -> str:
        term = self._draw.choice(self._words)
        return f'"{term.capitalize()}" means {self._draw.choice(self._asked)}.'

    def _memo(self) -> str:
        sentence = sentence_of(self._draw.choice(self._readable), self._draw) if self._readable else ""
        words = " ".join(self._draw.choices(self._words, k=8))
        return f"Memo on project {unknown_word(self._draw)}: {words}. {sentence}"


def _is_hash(chunk: Chunk) -> bool:
    """Return whether a chunk's id is the hash of its text."""
    return chunk.chunk_id == content_sha256(chunk.content)


_MOST_DOCUMENTS: Final = 150
"""Most documents to add; above it, every change deletes one."""

_NEW_SOURCE_EACH: Final = 40
_NEW_RULE_EACH: Final = 70


class ChangeKind(StrEnum):
    """A kind of change to hidden documents."""

    INSERT = "insert"
    EDIT = "edit"
    DELETE = "delete"
    RENAME = "rename"
    RECLASSIFY = "reclassify"
    NEW_SOURCE = "new_source"
    NEW_RULE = "new_rule"


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenDocument:
    """A document that the caller may not read.

    Attributes:
        chunks: the written chunks; empty for a document that existed before the trial.
    """

    place: HiddenPlace
    document_id: str
    version: str = ""
    chunks: tuple[Chunk, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenChange:
    """One change at one place.

    Attributes:
        number: from 0; makes each content hash different.
        gone: the document before the change, or None.
        now: the document after the change, or None.
    """

    number: int
    kind: ChangeKind
    place: HiddenPlace
    gone: HiddenDocument | None = None
    now: HiddenDocument | None = None


def write_change(sink: Sink, change: HiddenChange) -> None:
    """Apply a change to a sink; the caller commits."""
    gone, now = change.gone, change.now
    if gone is not None and (now is None or _key(gone) != _key(now)):
        sink.delete(*_key(gone))
    if now is not None:
        sink.put(*_key(now), f"change-{change.number}", now.chunks)


def hidden_changes(
    places: Sequence[HiddenPlace],
    texts: HiddenTexts,
    draw: Random,
    *,
    existing: Iterable[HiddenDocument] = (),
    new_places: Iterable[HiddenPlace] = (),
    new_rules: bool = False,
) -> Iterator[HiddenChange]:
    """Yield an endless series of random changes.

    Args:
        places: places for hidden documents; may be empty if there are new places.
        existing: hidden documents that are already there.
        new_places: places in unregistered sources; each is added by a change of kind `new_source`.
        new_rules: whether the rule of a hidden source changes now and then; the source stays hidden.
    """
    making = _Changes(places, texts, draw, existing)
    fresh = iter(new_places)
    for number in count():
        place = next(fresh, None) if number % _NEW_SOURCE_EACH == 0 or not making.places else None
        if place is not None:
            making.places.append(place)
            yield HiddenChange(number=number, kind=ChangeKind.NEW_SOURCE, place=place, now=making.inserted(place))
        elif (
            new_rules and number % _NEW_RULE_EACH == _NEW_RULE_EACH // 2 and any(place.whole for place in making.places)
        ):
            yield HiddenChange(number=number, kind=ChangeKind.NEW_RULE, place=making.ruled())
        elif making.places:
            yield making.drawn(number)
        else:
            return


class _Changes:
    """The hidden documents after the changes so far."""

    def __init__(
        self, places: Sequence[HiddenPlace], texts: HiddenTexts, draw: Random, existing: Iterable[HiddenDocument]
    ) -> None:
        self.places = list(places)
        self._texts, self._draw = texts, draw
        self._documents = list(existing)
        self._most = len(self._documents) + _MOST_DOCUMENTS
        self._names = count(1)
        self._by_kind: Mapping[ChangeKind, Callable[[HiddenDocument], HiddenDocument | None]] = {
            ChangeKind.EDIT: self._edited,
            ChangeKind.DELETE: lambda _: None,
            ChangeKind.RENAME: self._renamed,
            ChangeKind.RECLASSIFY: self._reclassified,
        }

    def drawn(self, number: int) -> HiddenChange:
        """Make a random change and return it."""
        crowded = len(self._documents) > self._most
        if not self._documents or (not crowded and self._draw.random() < 0.4):
            place = self._draw.choice(self.places)
            return HiddenChange(number=number, kind=ChangeKind.INSERT, place=place, now=self.inserted(place))
        at = self._draw.randrange(len(self._documents))
        gone = self._documents[at]
        kind = ChangeKind.DELETE if crowded else self._draw.choice(tuple(self._by_kind))
        now = self._by_kind[kind](gone)
        self._documents[at : at + 1] = [] if now is None else [now]
        return HiddenChange(number=number, kind=kind, place=gone.place, gone=gone, now=now)

    def ruled(self) -> HiddenPlace:
        """Return a completely hidden source, whose rule is to change."""
        return self._draw.choice([place for place in self.places if place.whole])

    def inserted(self, place: HiddenPlace) -> HiddenDocument:
        """Add a new document and return it."""
        made = self._written(place, self._name(place))
        self._documents.append(made)
        return made

    def _edited(self, gone: HiddenDocument) -> HiddenDocument:
        return self._written(gone.place, gone.document_id, gone.version)

    def _renamed(self, gone: HiddenDocument) -> HiddenDocument:
        name = self._name(gone.place)
        if not gone.chunks:
            return self._written(gone.place, name)
        moved = tuple(chunk._replace(document_id=name, chunk_id="") for chunk in gone.chunks)
        return replace(gone, document_id=name, version="", chunks=moved)

    def _reclassified(self, gone: HiddenDocument) -> HiddenDocument:
        if not gone.chunks:
            return self._edited(gone)
        claim = self._draw.choice(gone.place.claims)
        return replace(gone, chunks=tuple(chunk._replace(classification=claim) for chunk in gone.chunks))

    def _written(self, place: HiddenPlace, document_id: str, version: str = "") -> HiddenDocument:
        claim = self._draw.choice(place.claims)
        chunks = self._texts.chunks(document_id, claim, foreign=place.whole)
        return HiddenDocument(place=place, document_id=document_id, version=version, chunks=chunks)

    def _name(self, place: HiddenPlace) -> str:
        """Return an id unused in the source; in a hidden source often the id of an open document."""
        taken = {document.document_id for document in self._documents if document.place.source_id == place.source_id}
        same = [name for name in self._texts.document_ids if name not in taken] if place.whole else []
        return self._draw.choice(same) if same and self._draw.random() < 0.3 else f"hidden-{next(self._names):04d}"


def _key(document: HiddenDocument) -> tuple[str, str, str]:
    return document.place.source_id, document.document_id, document.version
