"""Conformance tests for graph stores: what chunks lead to, and what they must not lead to.

Use the class like those of `testing.capability_conformance`; it needs `open_sink` and `open_source` only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from context_engine.core.models import (
    AccessScope,
    Chunk,
    Condition,
    Edge,
    FilterOp,
    Link,
    LinkOrigin,
    LinkQuery,
)
from context_engine.core.protocols import GraphStore, Sink
from context_engine.core.query.features import citations
from context_engine.errors import SourceError
from context_engine.testing.capability_conformance import CLOSED_SOURCE, OPEN_SOURCE, StoreContract

_TRAVEL: Final = {
    "1": "Journeys are booked by the desk.",
    "2.1": "An upgrade needs the consent of section 3.2, and lodging follows LDG-SOP-002.",
    "2.2": "Tickets are kept for the auditor.",
    "3.1": "A request names the traveller, see section 3.2.",
    "3.2": "The head of the desk signs the consent.",
}
_LODGING: Final = {
    "1": "Rooms are booked early.",
    "2": "A night costs at most 200 crowns.",
    "3": "Breakfast is paid by the traveller.",
}
_BOARD: Final = {"1": "A night of the board costs 900 crowns at most.", "2": "The board travels as TRV-SOP-001 says."}
_SOURCES: Final = {"TRV-SOP-001": OPEN_SOURCE, "LDG-SOP-002": OPEN_SOURCE, "BRD-SOP-003": CLOSED_SOURCE}
_QUESTION: Final = "What does a night cost at most?"
_NOBODY: Final = AccessScope()
_EVERY: Final = frozenset(Edge)
_CITES: Final = frozenset({Edge.CITES})
_UPGRADE: Final = "TRV-SOP-001#2.1"
_CONSENT: Final = "TRV-SOP-001#3.2"


def _chunks(name: str, texts: Mapping[str, str], **fields: Any) -> list[Chunk]:
    return [
        Chunk(
            content=text,
            chunk_id=f"{name}#{section}",
            document_id=name,
            title=f"{name} rules",
            section=section,
            position=place,
            **fields,
        )
        for place, (section, text) in enumerate(texts.items())
    ]


def _put(sink: Sink, name: str, texts: Mapping[str, str], content_hash: str = "1", **fields: Any) -> None:
    sink.put(_SOURCES[name], name, "", content_hash, _chunks(name, texts, **fields))


_FILLED: Final[dict[type, TemporaryDirectory[str]]] = {}
"""The folder that the tests of each class read; it is removed when the process ends."""


class GraphStoreContract(StoreContract):
    """Tests of the sources of a store that are a `GraphStore`."""

    def test_offers_links(self) -> None:
        source = self.open_source(OPEN_SOURCE, self.filled())
        source.close()
        assert isinstance(source, GraphStore)

    def test_a_chunk_leads_to_the_clause_that_it_cites(self) -> None:
        assert self.ends(_UPGRADE, edges=_CITES) == [(_UPGRADE, Edge.CITES, _CONSENT)]

    def test_a_clause_of_another_document_is_reached(self) -> None:
        ends = self.ends(_UPGRADE, cites="See LDG-SOP-002, section 3.", edges=_CITES)
        assert ends == [(_UPGRADE, Edge.CITES, "LDG-SOP-002#3")]

    def test_a_document_cited_as_a_whole_is_reached_by_its_best_chunk(self) -> None:
        ends = self.ends(_UPGRADE, edges=frozenset({Edge.BELONGS_TO}))
        assert ends[:1] == [(_UPGRADE, Edge.BELONGS_TO, "LDG-SOP-002#2")]
        assert {end.partition("#")[0] for _, _, end in ends} == {"LDG-SOP-002"}

    def test_a_chunk_leads_to_those_beside_it(self) -> None:
        ends = self.ends(_UPGRADE, "LDG-SOP-002#3", cites="", edges=frozenset({Edge.NEXT_CHUNK}))
        assert {(begin, end) for begin, _, end in ends} == {
            (_UPGRADE, "TRV-SOP-001#1"),
            (_UPGRADE, "TRV-SOP-001#2.2"),
            ("LDG-SOP-002#3", "LDG-SOP-002#2"),
        }
        assert {edge for _, edge, _ in ends} == {Edge.NEXT_CHUNK}

    def test_every_kind_of_edge_is_followed_at_once(self) -> None:
        assert {edge for _, edge, _ in self.ends(_UPGRADE)} == _EVERY

    def test_the_best_origin_comes_first_and_each_chunk_once(self) -> None:
        request = "TRV-SOP-001#3.1"
        for first, second in ((_UPGRADE, request), (request, _UPGRADE)):
            ends = self.ends(first, second)
            assert [begin for begin, _, end in ends if end == _CONSENT] == [first]
            assert len({end for _, _, end in ends}) == len(ends)
            begins = [begin for begin, _, _ in ends]
            assert begins == sorted(begins, key=[first, second].index), "links of the best origin come first"

    def test_at_most_top_k_chunks_are_returned(self) -> None:
        every = self.ends(_UPGRADE)
        assert self.ends(_UPGRADE, top_k=2) == every[:2]

    def test_each_chunk_has_the_scores_of_a_search(self) -> None:
        links = self.links(_UPGRADE, cites="LDG-SOP-002")
        source = self.open_source(OPEN_SOURCE, self.filled())
        answer = source.search(self.query(_QUESTION, top_k=50))
        source.close()
        searched = {chunk.chunk_id: chunk.scores for chunk in answer.chunks}
        both = [link.chunk for link in links if link.chunk.chunk_id in searched]
        assert both, "the chunk that answers the question is found by a search, and linked"
        for chunk in both:
            others = searched[chunk.chunk_id]
            assert [(score.kind, score.scorer) for score in chunk.scores] == [(kind, by) for kind, _, by in others]
            for score, other in zip(chunk.scores, others, strict=True):
                assert abs(score.value - other.value) < 1e-6 * max(1.0, abs(other.value))

    def test_filter_and_day_hold_for_what_is_reached(self) -> None:
        with self.written() as data_dir:
            section = Condition("section", FilterOp.EQ, "3.2")
            assert {end for _, _, end in self.ends(_UPGRADE, filters=section, at=data_dir)} <= {_CONSENT}
            self._write_lodging(data_dir, _LODGING, effective_to=date(2020, 1, 1))
            lodging = {"cites": "LDG-SOP-002, section 3", "edges": _CITES}
            assert self.ends(_UPGRADE, **lodging, as_of=date(2019, 1, 1), at=data_dir)
            assert not self.ends(_UPGRADE, **lodging, as_of=date(2020, 1, 1), at=data_dir)

    def test_a_chunk_that_the_caller_may_not_read_is_not_reached(self) -> None:
        board = {"cites": "See BRD-SOP-003, section 1.", "source_id": CLOSED_SOURCE}
        assert self.ends(_UPGRADE, **board) == [(_UPGRADE, Edge.CITES, "BRD-SOP-003#1")]
        assert not self.ends(_UPGRADE, **board, access=_NOBODY)

    def test_a_chunk_that_the_caller_may_not_read_is_no_origin(self) -> None:
        begin, cites = "BRD-SOP-003#2", "See TRV-SOP-001, section 3.2."
        assert self.ends(begin, cites=cites) == [(begin, Edge.CITES, _CONSENT)]
        assert not self.ends(begin, cites=cites, access=_NOBODY)
        assert not self.ends(begin, source_id=CLOSED_SOURCE, access=_NOBODY)

    def test_an_origin_that_is_not_there_leads_nowhere(self) -> None:
        assert not self.ends("TRV-SOP-001#9")
        ends = self.ends("TRV-SOP-001#9", _UPGRADE, edges=_CITES)
        assert ends == [(_UPGRADE, Edge.CITES, _CONSENT)]
        assert not self.links()

    def test_a_chunk_of_another_store_leads_to_what_it_cites_by_name(self) -> None:
        begin = "TRV-SOP-001#2.1"
        elsewhere = {"origin_source": "elsewhere"}
        assert self.ends(begin, cites="See LDG-SOP-002, section 3, and section 3.2.", edges=_CITES, **elsewhere) == [
            (begin, Edge.CITES, "LDG-SOP-002#3")
        ]
        whole = self.ends(begin, cites="Lodging follows LDG-SOP-002.", **elsewhere)
        assert whole[:1] == [(begin, Edge.BELONGS_TO, "LDG-SOP-002#2")]
        assert {end.partition("#")[0] for _, _, end in whole} == {"LDG-SOP-002"}
        board = {"cites": "See BRD-SOP-003, section 1.", "source_id": CLOSED_SOURCE, **elsewhere}
        assert self.ends(begin, **board) and not self.ends(begin, **board, access=_NOBODY)

    def test_what_is_not_there_is_not_reached(self) -> None:
        for cites in ("See section 9.9.", "See XYZ-SOP-009.", "See LDG-SOP-002, section 9."):
            assert not self.ends(_UPGRADE, cites=cites, edges=_CITES)

    def test_a_changed_document_is_reached_as_it_is_now(self) -> None:
        cites = {"cites": "LDG-SOP-002, section 4", "edges": _CITES}
        with self.written() as data_dir:
            assert not self.ends(_UPGRADE, **cites, at=data_dir)
            self._write_lodging(data_dir, {**_LODGING, "4": "Bills are kept."})
            assert self.ends(_UPGRADE, **cites, at=data_dir) == [(_UPGRADE, Edge.CITES, "LDG-SOP-002#4")]
            with self.open_sink(data_dir) as sink:
                sink.delete(OPEN_SOURCE, "LDG-SOP-002", "")
                sink.commit()
            assert not self.ends(_UPGRADE, **cites, at=data_dir)

    def test_an_empty_store_leads_nowhere(self) -> None:
        with TemporaryDirectory() as name:
            with self.open_sink(Path(name)) as sink:
                sink.commit()
            try:
                assert not self.links(_UPGRADE, at=Path(name))
            except SourceError:
                return  # as a search does, where nothing was ever written

    def filled(self) -> Path:
        """Return a data folder with two open documents and a closed one; all tests of a class read the same one."""
        if type(self) not in _FILLED:
            folder = TemporaryDirectory()
            self._fill(Path(folder.name))
            _FILLED[type(self)] = folder
        return Path(_FILLED[type(self)].name)

    @contextmanager
    def written(self) -> Iterator[Path]:
        """Yield a data folder of its own with the same documents."""
        with TemporaryDirectory() as name:
            self._fill(Path(name))
            yield Path(name)

    def _fill(self, data_dir: Path) -> None:
        with self.open_sink(data_dir) as sink:
            for name, texts in (("TRV-SOP-001", _TRAVEL), ("LDG-SOP-002", _LODGING), ("BRD-SOP-003", _BOARD)):
                _put(sink, name, texts)
            sink.commit()

    def _write_lodging(self, data_dir: Path, texts: Mapping[str, str], **fields: Any) -> None:
        with self.open_sink(data_dir) as sink:
            _put(sink, "LDG-SOP-002", texts, "2", **fields)
            sink.commit()

    def ends(self, *begin: str, **options: Any) -> list[tuple[str, Edge, str]]:
        """Return (chunk that it begins at, edge, chunk that it leads to) of each link."""
        return [(link.origin[1], link.edge, link.chunk.chunk_id) for link in self.links(*begin, **options)]

    def links(
        self,
        *begin: str,
        at: Path | None = None,
        cites: str | None = None,
        edges: frozenset[Edge] = _EVERY,
        source_id: str = OPEN_SOURCE,
        access: AccessScope | None = None,
        top_k: int = 10,
        origin_source: str = "",
        **query: Any,
    ) -> list[Link]:
        """Return the links of a source from some chunks.

        Args:
            begin: ids of the chunks, best first.
            at: the data folder; None: that of `filled`.
            cites: takes the place of what each chunk says.
            origin_source: takes the place of the source of each chunk.
        """
        origins = [_origin(chunk_id, cites, origin_source) for chunk_id in begin]
        asked = replace(self.query(_QUESTION, access=access, top_k=top_k), **query)
        source = self.open_source(source_id, at or self.filled())
        assert isinstance(source, GraphStore)
        try:
            return list(source.linked(LinkQuery(query=asked, origins=origins, edges=edges)))
        finally:
            source.close()


def _origin(chunk_id: str, cites: str | None, source_id: str) -> LinkOrigin:
    name, _, section = chunk_id.partition("#")
    texts = {"TRV-SOP-001": _TRAVEL, "LDG-SOP-002": _LODGING, "BRD-SOP-003": _BOARD}[name]
    text = texts.get(section, "It follows section 3.2.")
    (chunk,) = _chunks(name, {section: text})
    return LinkOrigin((source_id or _SOURCES[name], chunk_id), chunk, citations(text if cites is None else cites))
