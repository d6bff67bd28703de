"""Conformance tests for every source. Subclass `SourceContract` in your test file and run pytest.

class TestMySource(SourceContract):
    question = "capital requirements"

    def make_source(self):
        return MySource(...)

The optional protocols `Examinable`, `Listable` and `Fetchable` are tested if the source implements them. A source that
claims access classes (`access_classes = True`) must also pass `AccessContract`.
"""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import ClassVar, Final
from unittest import SkipTest

from context_engine.core.concurrency.awaiting import awaited
from context_engine.core.models import (
    TIERS,
    Chunk,
    Condition,
    Examination,
    ExaminationRequest,
    FetchRequest,
    FilterOp,
    Notice,
    ScoreKind,
    SourceAnswer,
    SourceQuery,
    TermStatistics,
    usable_score,
)
from context_engine.core.protocols import Examinable, Fetchable, Listable, Source
from context_engine.core.query.spelling import words_to_check
from context_engine.core.text import term_weights, terms
from context_engine.testing.access_conformance import AccessContract

ODD_QUERIES: Final = (
    "FCAA Notice 637(4)(b)?: [",
    '"unbalanced AND (OR NOT',
    "'; DROP TABLE chunks; --",
    "the of and",
    "…—“”😀",
    "新产品审批",
    "a" * 250,
    "limit " * 1500,
)
"""Unusual queries that occur in practice; a source answers each of them, possibly without chunks."""
ODD_IDS: Final = (
    "no-such-thing",
    "00000000-0000-4000-8000-00000000dead",
    "'; DROP TABLE chunks; --",
    "../..",
    "新",
    "",
)
"""Ids that no chunk or document has."""

_KEPT: Final = tuple(
    name
    for name in Chunk._fields
    if name not in ("content", "scores", "fetched_at", "fetched_at_basis", "metadata", "extra")
)


class SourceContract:
    """Tests of a source.

    Attributes:
        question: a query that finds at least two chunks.
        domain: the domain of every query.
    """

    question: ClassVar[str]
    domain: ClassVar[str] = "NPA"

    def make_source(self) -> Source:
        """Return a new source that is ready for searches; every test calls this."""
        raise TypeError(f"{type(self).__name__} must define make_source()")

    def ask(self, source: Source, text: str | None = None, top_k: int = 10, **more: object) -> SourceAnswer:
        """Ask a source as the engine does."""
        query = SourceQuery(text=text or self.question, domain=self.domain, top_k=top_k, **more)  # type: ignore[arg-type]
        return awaited(source.search(query))  # type: ignore[no-any-return]

    def chunks(self, source: Source, top_k: int = 10) -> list[Chunk]:
        """Return the chunks that answer the question."""
        return list(self.ask(source, top_k=top_k).chunks)

    def test_has_an_id_and_score_kinds(self) -> None:
        source = self.make_source()
        assert isinstance(source, Source)
        assert isinstance(source.source_id, str) and source.source_id
        assert isinstance(source.score_kinds, frozenset) and source.score_kinds <= frozenset(ScoreKind)
        source.close()

    def test_a_claim_of_access_classes_is_tested(self) -> None:
        source = self.make_source()
        claims = getattr(source, "access_classes", False)
        source.close()
        assert not claims or isinstance(self, AccessContract), (
            "a source with access_classes = True must be tested for them: derive its tests from AccessContract too"
        )

    def test_answers_with_chunks_that_have_text(self) -> None:
        source = self.make_source()
        answer = self.ask(source)
        assert isinstance(answer, SourceAnswer)
        assert len(answer.chunks) >= 2, "the question must find at least two chunks"
        for chunk in answer.chunks:
            assert isinstance(chunk, Chunk)
            assert isinstance(chunk.content, str) and chunk.content.strip()
        source.close()

    def test_keeps_to_top_k(self) -> None:
        source = self.make_source()
        for top_k in (1, 2, 1000):
            assert 1 <= len(self.chunks(source, top_k)) <= top_k
        source.close()

    def test_ids_are_stable_and_unique(self) -> None:
        source = self.make_source()
        first, second = self.chunks(source), self.chunks(source)
        assert [chunk.chunk_id for chunk in first] == [chunk.chunk_id for chunk in second]
        ids = [chunk.chunk_id for chunk in first if chunk.chunk_id]
        assert len(ids) == len(set(ids)), "a chunk id names one chunk"
        source.close()

    def test_the_same_question_gets_the_same_answer(self) -> None:
        source = self.make_source()
        assert self.chunks(source) == self.chunks(source)
        source.close()

    def test_scores_are_as_declared(self) -> None:
        source = self.make_source()
        for chunk in self.chunks(source):
            kinds = [score.kind for score in chunk.scores]
            assert len(kinds) == len(set(kinds)), "one score per kind"
            for score in chunk.scores:
                assert score.kind in source.score_kinds, f"{score.kind} is not declared in score_kinds"
                usable = usable_score(score.kind, score.value)
                assert usable is not None, f"{score.kind} score {score.value} is out of range"
        source.close()

    def test_term_statistics_count_the_question(self) -> None:
        source = self.make_source()
        answer = self.ask(source)
        known = answer.statistics
        source.close()
        if known is None:
            raise SkipTest("gives no term statistics")
        assert isinstance(known, TermStatistics)
        assert known.collection and known.chunks >= len(answer.chunks)
        counted = known.document_frequency
        assert counted.keys() >= term_weights(self.question).keys(), "every term of the question is counted"
        assert all(0 <= count <= known.chunks for count in counted.values())
        present = {term for chunk in answer.chunks for term in terms(chunk.content)} & counted.keys()
        assert all(counted[term] for term in present), "a term in an answer must occur in at least one chunk"

    def test_best_first(self) -> None:
        source = self.make_source()
        leading = [chunk.scores[0].value for chunk in self.chunks(source) if chunk.scores]
        assert leading == sorted(leading, reverse=True)
        source.close()

    def test_odd_queries_are_answered(self) -> None:
        source = self.make_source()
        for text in ODD_QUERIES:
            assert isinstance(self.ask(source, text), SourceAnswer), f"no answer for {text[:40]!r}"
        source.close()

    def test_takes_filters_and_a_day(self) -> None:
        source = self.make_source()
        nothing = Condition("no_such_field", FilterOp.EQ, "x")
        answer = self.ask(source, filters=nothing, as_of=date(2026, 1, 1))
        assert isinstance(answer, SourceAnswer)
        assert "no_such_field" not in (answer.filter_fields or ()), "filter_fields must be fields of the texts"
        source.close()

    def test_unknown_words_are_words_of_the_question(self) -> None:
        source = self.make_source()
        text = f"{self.question} qzxwvk"
        answer = self.ask(source, text)
        for word in answer.unknown_words or ():
            assert word.word in words_to_check(text), f"{word.word!r} is not a checked word of the question"
        if answer.unknown_words is not None:
            assert "qzxwvk" in {word.word for word in answer.unknown_words}, "an invented word must be unknown"
        source.close()

    def test_values_are_well_formed(self) -> None:
        source = self.make_source()
        for chunk in self.chunks(source):
            assert chunk.fetched_at is None or chunk.fetched_at.tzinfo is not None, "fetched_at needs a time zone"
            assert chunk.authority_tier is None or chunk.authority_tier in TIERS
            assert chunk.span is None or 0 <= chunk.span[0] < chunk.span[1]
            json.dumps(dict(chunk.metadata), default=str)
            assert pickle.loads(pickle.dumps(chunk)) == chunk
        source.close()

    def test_answers_many_threads_at_once(self) -> None:
        source = self.make_source()
        expected = self.chunks(source)
        with ThreadPoolExecutor(max_workers=8) as threads:
            for chunks in threads.map(lambda _: self.chunks(source), range(24)):
                assert chunks == expected
        source.close()

    def test_closes_twice(self) -> None:
        source = self.make_source()
        source.close()
        source.close()
        assert isinstance(source.source_id, str)

    def test_an_examination_finds_it_sound(self) -> None:
        source = self.make_source()
        for request in (
            ExaminationRequest(domain=self.domain),
            ExaminationRequest(domain=self.domain, query=self.question),
            ExaminationRequest(domain=self.domain, query=self.question, quick=True),
        ):
            examination = self.examined(source, request)
            assert examination.ok, f"the source answers, but its examination reports: {examination.problem}"
            for part in (examination, *examination.parts):
                assert part.documents is None or part.documents >= 0
                assert all(isinstance(notice, Notice) for notice in (*part.problems, *part.warnings))
                json.dumps(dict(part.details))
        source.close()

    def test_an_examination_asks_the_sample_query_or_none(self) -> None:
        source = self.make_source()
        asked = self.examined(source, ExaminationRequest(domain=self.domain, query=self.question))
        assert sum(part.records or 0 for part in (asked, *asked.parts)) >= 1, "the question finds chunks"
        silent = self.examined(source, ExaminationRequest(domain=self.domain))
        assert all(part.records is None for part in (silent, *silent.parts)), "no query was given"
        source.close()

    def test_lists_every_chunk_once(self) -> None:
        source = self.make_source()
        ids = [chunk.chunk_id for chunk in self.listed(source)]
        assert len(ids) == len(set(ids)), "a chunk is listed once"
        assert sorted(ids) == sorted(chunk.chunk_id for chunk in self.listed(source))
        source.close()

    def test_lists_what_a_search_finds(self) -> None:
        source = self.make_source()
        texts = {chunk.chunk_id: (chunk.content, chunk.document_id) for chunk in self.listed(source)}
        for chunk in self.chunks(source):
            assert texts.get(chunk.chunk_id) == (chunk.content, chunk.document_id), f"{chunk.chunk_id!r} is not listed"
        source.close()

    def test_fetches_what_a_search_finds(self) -> None:
        source = self.make_source()
        chunks = self.chunks(source)
        fetched = self.fetched(source, chunk_ids=tuple(chunk.chunk_id for chunk in chunks))
        by_id = {chunk.chunk_id: chunk for chunk in fetched}
        assert len(by_id) == len(fetched), "a chunk is fetched once"
        for chunk in chunks:
            assert chunk.chunk_id in by_id, f"{chunk.chunk_id!r} was found but cannot be fetched"
            for name in ("content", *_KEPT):
                got, expected = getattr(by_id[chunk.chunk_id], name), getattr(chunk, name)
                assert got == expected, (
                    f"{chunk.chunk_id!r} is fetched with {name} {got!r}, a search gives {expected!r}"
                )
        source.close()

    def test_fetches_documents_and_chunks_together(self) -> None:
        source = self.make_source()
        chunks = self.chunks(source)
        documents = {chunk.document_id: chunk.chunk_id for chunk in chunks if chunk.document_id}
        for document_id, chunk_id in documents.items():
            fetched = self.fetched(source, document_ids=(str(document_id),), chunk_ids=(chunk_id,))
            ids = [chunk.chunk_id for chunk in fetched]
            assert len(ids) == len(set(ids)), "a chunk asked for in two ways is fetched once"
            assert {chunk.document_id for chunk in fetched} == {document_id}
            assert {chunk.chunk_id for chunk in chunks if chunk.document_id == document_id} <= set(ids)
        source.close()

    def test_fetching_unknown_ids_gives_nothing(self) -> None:
        source = self.make_source()
        assert self.fetched(source) == []
        for nothing in ODD_IDS:
            assert self.fetched(source, chunk_ids=(nothing,), document_ids=(nothing,)) == []
        source.close()

    def examined(self, source: Source, request: ExaminationRequest) -> Examination:
        """Return the examination of a source; skip the test if the source cannot be examined."""
        if not isinstance(source, Examinable):
            raise SkipTest("cannot be examined")
        examination = awaited(source.examine(request))
        assert isinstance(examination, Examination)
        return examination

    def fetched(self, source: Source, **wanted: tuple[str, ...]) -> list[Chunk]:
        """Return chunks by their ids; skip the test if the source cannot fetch."""
        if not isinstance(source, Fetchable):
            raise SkipTest("does not fetch chunks by id")
        return list(awaited(source.fetch(FetchRequest(domain=self.domain, **wanted))))  # type: ignore[arg-type]

    def listed(self, source: Source) -> list[Chunk]:
        """Return all chunks; skip the test if the source cannot list them."""
        if not isinstance(source, Listable):
            raise SkipTest("cannot list its chunks")
        return list(source.list_chunks())
