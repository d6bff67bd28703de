"""Sources of one base that are searched together answer as each does by itself."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase, LocalSource, candidates
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.core.models import Chunk, Condition, SourceQuery
from context_engine.errors import EmbedderError, SourceNotFound
from context_engine.testing.fakes import FakeEmbedder

WORDS = [
    "limit",
    "desk",
    "report",
    "breach",
    "officer",
    "approval",
    "committee",
    "record",
    "archive",
    "client",
    "gift",
    "outage",
    "regulator",
    "review",
]
SOURCES = ("big", "small", "tiny")


def filled(base: LocalBase) -> LocalBase:
    """Sixty texts of random words in three sources of uneven size."""
    draws = random.Random(3)
    with base.writer() as writer:
        for number in range(60):
            source = SOURCES[0 if number < 45 else 1 if number < 57 else 2]
            text = " ".join(draws.choices(WORDS, k=12))
            chunk = Chunk(content=text, chunk_id=f"c{number}", title=f"Notice {number}", metadata={"part": number % 3})
            if number % 5 == 0:
                chunk = chunk._replace(effective_from=date(2026, 1 + number % 12, 1))
            writer.put(source, f"doc-{number}", "", str(number), [chunk])
    return base


@pytest.mark.parametrize("vectors", [False, True])
def test_together_they_answer_as_each_by_itself(folder: Path, vectors: bool) -> None:
    if vectors:
        pytest.importorskip("numpy", reason="the extra 'vectors'")
    draws = random.Random(5)
    with filled(LocalBase.open(folder, create=True, embedder=FakeEmbedder(32) if vectors else None)) as base:
        sources = [LocalSource(base, name) for name in SOURCES]
        for _ in range(40):
            text = " ".join([*draws.sample(WORDS, 3), draws.choice(("lmiit", "comittee", "Notice 7", "4.2.1", ""))])
            query = SourceQuery(
                text=text,
                domain="NPA",
                top_k=draws.choice((1, 5, 40)),
                filters=draws.choice((None, Condition("part", "eq", 1))),
                as_of=draws.choice((None, date(2026, 6, 1))),
            )
            assert sources[0].search_together(sources, query) == [one.search(query) for one in sources]


@pytest.mark.parametrize("vectors", [False, True])
def test_in_a_large_base_they_answer_as_in_a_small_one(
    folder: Path, vectors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 60 rows of 50,000: whatever share of the best 16 a source has, its answer stays."""
    if vectors:
        pytest.importorskip("numpy", reason="the extra 'vectors'")
    draws, scoped = random.Random(7), []
    read = candidates._read
    monkeypatch.setattr(candidates, "FEW_ROWS", 16)
    monkeypatch.setattr(candidates, "_read", lambda *given: scoped.append(given) or read(*given))
    embedder, options = FakeEmbedder(32) if vectors else None, SearchOptions(depth=4)
    reads = {0: 0, 61: 0}
    with filled(LocalBase.open(folder, create=True, embedder=embedder, options=options)) as base:
        for _ in range(60):
            source = LocalSource(base, draws.choice(SOURCES))
            query = SourceQuery(
                text=" ".join(draws.choices(WORDS, k=3)),
                domain="NPA",
                top_k=draws.choice((1, 5, 8)),
                as_of=draws.choice((None, date(2026, 6, 1))),
            )
            answers = []
            for many in reads:
                scoped.clear()
                monkeypatch.setattr(candidates, "_MANY_ROWS", many)
                answers.append(source.search(query))
                reads[many] += len(scoped)
            assert answers[0] == answers[1]
    assert 5 < reads[61] - reads[0] < 55


def test_of_a_source_that_was_never_ingested_the_answer_says_so(folder: Path) -> None:
    with filled(LocalBase.open(folder, create=True)) as base:
        sources = [LocalSource(base, name) for name in ("big", "never")]
        found, missing = sources[0].search_together(sources, SourceQuery(text="limit", domain="NPA", top_k=3))
        assert len(found.chunks) == 3
        assert isinstance(missing, SourceNotFound)
        assert missing.source_id == "never"


def test_without_the_model_each_answers_by_text_and_says_so(folder: Path) -> None:
    pytest.importorskip("numpy", reason="the extra 'vectors'")

    class Failing(FakeEmbedder):
        asked = 0

        away = False

        def embed_query(self, text: str):
            self.asked += self.away
            if self.away:
                raise EmbedderError("the model is away")
            return super().embed_query(text)

    model = Failing(32)
    with filled(LocalBase.open(folder, create=True, embedder=model)) as base:
        model.away = True
        sources = [LocalSource(base, name) for name in SOURCES]
        answers = sources[0].search_together(sources, SourceQuery(text="limit", domain="NPA", top_k=3))
        assert [[str(one) for one in answer.failures] for answer in answers] == [
            [f"source '{name}': no search by vectors: the model is away"] for name in SOURCES
        ]
        assert model.asked == 1
