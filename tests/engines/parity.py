"""Tests of every store in a server beside the embedded base: how it finds texts, and compares under adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from context_engine.adapters.sources.domain_adapter import DomainAdapter
from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.core.models import (
    AccessRule,
    AccessScope,
    Chunk,
    Classification,
    ExaminationRequest,
    ScoreKind,
    SourceQuery,
    UnknownWord,
)
from context_engine.errors import ConfigError, StoreError
from context_engine.testing import FakeEmbedder

DOCUMENTS = {
    "notice": [
        Chunk(content="Large exposures are reported every quarter.", title="Notice 637", section="1"),
        Chunk(content="A collateral haircut applies to each exposure.", title="Notice 637", section="2"),
    ],
    "policy": [
        Chunk(
            content="Collateral means an asset pledged against an exposure.",
            title="Policy",
            metadata={"defines": ["collateral"]},
        ),
        Chunk(content="The committee approves collateral above the limit.", title="Limits of collateral"),
    ],
    "letters": [
        Chunk(content="Notice of leave is given in writing, and notice of return too.", title="Leave"),
        Chunk(content="The approved collateral is reviewed by the committee every year.", title="Review"),
    ],
}
QUESTION = SourceQuery(text="custody of collateral", domain="NPA", top_k=10)
SUBJECTS = ("custody", "collateral", "dividends", "escrow", "factoring", "guarantees", "leasing", "netting")
OPEN = AccessScope(clearance=Classification.INTERNAL)


def fill(sink: Any) -> None:
    for name, chunks in DOCUMENTS.items():
        numbered = [chunk._replace(chunk_id=f"{name}-{place}") for place, chunk in enumerate(chunks)]
        sink.put("notes", name, "", "1", numbered)


def asked(source: Any, text: str, **fields: Any) -> Any:
    return source.search(SourceQuery(text=text, domain="NPA", top_k=10, **fields))


def ids(chunks: Any) -> list[str]:
    return [chunk.chunk_id for chunk in chunks]


def write(store: Any, rules: str = "board") -> None:
    with store.sink(store.spec("notes"), store.spec("board"), rules_of=rules_for(rules)) as writer:
        writer.put("notes", "d", "", "1", [chunk(number) for number in range(200)])
        writer.put("board", "e", "", "1", [chunk(number) for number in (1000, 1001)])


def rules_for(rules: str) -> Any:
    return lambda source_id: rules if source_id == "board" else ""


def chunk(number: int) -> Chunk:
    first, second = SUBJECTS[number % 8], SUBJECTS[number // 8 % 8]
    return Chunk(content=f"The {first} of {second} is reviewed by desk {number}.", chunk_id=f"c{number}")


def adapter_of(store: Any, seed: int = 1) -> DomainAdapter:
    noise = np.random.default_rng(seed).standard_normal((2, 64, 64))
    return DomainAdapter(store.embedder.model_id, *(np.eye(64) + 0.1 * noise))


def keep(store: Any, *source_ids: str, use: bool = True) -> str:
    """Keep an adapter learnt from some sources; return its id."""
    base = store.source().store
    origin = base.held_vectors(source_ids).origin
    adapter_id: str = base.keep_adapter("NPA", adapter_of(store), {"questions": 60}, origin).adapter_id
    if use:
        base.use_adapter("NPA", adapter_id)
    return adapter_id


def cosines(answer: Any) -> dict[str, float]:
    scores = {found.chunk_id: score for found in answer.chunks for score in found.scores}
    assert all(score.kind in (ScoreKind.WEIGHTED, ScoreKind.COSINE, ScoreKind.BM25) for score in scores.values())
    return {
        found.chunk_id: score.value
        for found in answer.chunks
        for score in found.scores
        if score.kind is ScoreKind.COSINE
    }


class TextParity:
    """Tests of a store's search by text; the fixture `vector_store` has an embedder of 64 numbers."""

    def reopened(self, store: Any, **settings: Any) -> Any:
        """Return an empty store on the same server, with settings."""
        raise TypeError(f"{type(self).__name__} must define reopened()")

    @pytest.mark.parametrize(
        ("question", "settings"),
        [
            ("collateral", {"title_boost": 0.5}),
            ("what is collateral", {"definition_boost": 0.5}),
            ("collateral haircut exposure", {"neighbour_weight": 0.3}),
            ("Notice 637", {}),
            ("quarterly notice 637", {"merge_method": "rrf"}),
        ],
    )
    def test_a_question_has_the_order_of_the_embedded_base(
        self, vector_store: Any, tmp_path: Path, question: str, settings: dict[str, Any]
    ) -> None:
        settings = {"section_weight": 0.0, **settings}
        embedder = FakeEmbedder(64)
        with LocalBase.open(
            tmp_path, create=True, embedder=embedder, options=SearchOptions.model_validate(settings)
        ) as base:
            with base.writer() as writer:
                fill(writer)
            expected = ids(base.search(question, source_id="notes", top_k=10))
        store = self.reopened(vector_store, **settings)
        with store.sink() as writer:
            fill(writer)
        assert ids(asked(store.source(), question).chunks)[:3] == expected[:3]

    def test_a_misspelt_word_gets_the_nearest_of_its_source(self, store: Any) -> None:
        with store.sink(store.spec(), store.spec("other")) as sink:
            fill(sink)
            sink.put("other", "d", "", "1", [Chunk(content="Colateral is a misspelling.")])
        found = asked(store.source(), "Which colaterals has the committee aproved?").unknown_words
        assert found == (UnknownWord("colaterals", "collateral"), UnknownWord("aproved", "approved"))

    def test_a_word_of_a_removed_text_is_not_suggested(self, store: Any) -> None:
        with store.sink() as sink:
            fill(sink)
            sink.put("notes", "old", "", "1", [Chunk(content="The haircuts are revised.")])
        assert asked(store.source(), "haircutss").unknown_words == (UnknownWord("haircutss", "haircuts"),)
        with store.sink() as sink:
            sink.delete("notes", "old", "")
        assert asked(store.source(), "haircutss").unknown_words == (UnknownWord("haircutss", "haircut"),)

    def test_a_hidden_text_suggests_no_word(self, store: Any) -> None:
        specs = [store.spec(), store.spec("board", access=AccessRule(roles=("board",)))]
        with store.sink(*specs, rules_of=lambda name: "board" if name == "board" else "") as sink:
            fill(sink)
            sink.put("board", "d", "", "1", [Chunk(content="The merger is secret.")])
        source = store.source()
        assert asked(source, "mergre", access=AccessScope()).unknown_words == (UnknownWord("mergre", ""),)


class AdapterParity:
    """Tests of a store's search under an adapter."""

    @pytest.fixture
    def filled(self, vector_store: Any) -> Any:
        """A store of 200 open texts and two of the board."""
        write(vector_store)
        return vector_store

    def test_the_cosines_are_those_of_the_mapped_vectors(self, filled: Any) -> None:
        adapter_id = keep(filled, "notes")
        answer = filled.source().search(QUESTION)
        assert answer.embedding.model == f"{filled.embedder.model_id}+{adapter_id}"
        assert answer.embedding.adapter.adapter_id == adapter_id
        held = filled.source().store.held_vectors(["notes"])
        adapter = adapter_of(filled)
        question = np.asarray(filled.embedder.embed_query(QUESTION.text)) @ adapter.query
        mapped = held.parts @ adapter.passage
        expected = mapped @ question / np.linalg.norm(mapped, axis=1) / np.linalg.norm(question)
        by_id = dict(zip(held.chunk_ids, expected.tolist(), strict=True))
        found = cosines(answer)
        assert len(found) == 10
        assert found == pytest.approx({chunk_id: by_id[chunk_id] for chunk_id in found}, abs=1e-5)

    def test_an_adapter_is_for_those_who_may_read_what_it_was_learnt_from(self, filled: Any) -> None:
        base = filled.source().store
        before = base.version(OPEN, 5.0)
        keep(filled, "notes", "board")
        assert base.adapters("NPA", access=OPEN) == [] and len(base.adapters("NPA")) == 1
        assert base.version(OPEN, 5.0) == before
        keep(filled, "notes")
        assert base.version(OPEN, 5.0) != before

    def test_a_copy_that_a_trial_left_is_named(self, filled: Any, tmp_path: Path) -> None:
        adapter_id, source = keep(filled, "notes"), filled.source()
        source.store.copy_to(tmp_path)
        request = ExaminationRequest(domain="NPA", timeout_s=60.0)
        assert len(source.examine(request).warnings) == 1
        filled.data_dir = tmp_path
        copied = filled.source()
        assert [kept.adapter_id for kept in copied.store.adapters("NPA") if kept.in_force] == [adapter_id]
        assert cosines(copied.search(QUESTION)) == cosines(source.search(QUESTION))
        source.store.drop_copy(tmp_path)
        assert not source.examine(request).warnings
        with pytest.raises(ConfigError, match="a trial is about one store"):
            filled.source()

    def test_documents_that_move_take_what_was_learnt_from_them_along(self, filled: Any) -> None:
        keep(filled, "board")
        base = filled.source().store
        origin = base.held_vectors(["board"]).origin
        write(filled, rules="committee")
        assert base.adapters() == []
        with pytest.raises(StoreError, match="learn the adapter again"):
            base.keep_adapter("NPA", adapter_of(filled), {}, origin)
