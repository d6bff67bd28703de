"""What the texts say of a question: the share that a row holds, and how far the best hit is trusted."""

from __future__ import annotations

from math import log
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase, SearchOptions
from context_engine.adapters.sources.local.evidence import trust
from context_engine.adapters.sources.local.merge import merged
from context_engine.adapters.sources.local.search import Scope
from context_engine.core.models import Chunk, Expansion, ScoreKind

TERM = SearchOptions(section_weight=0.0, sibling_weight=0.0, pairs_weight=0.0)


@pytest.fixture
def base(folder: Path) -> LocalBase:
    """Four texts of three words each: `limit` stands in two, `desk` in one, `haircut` in one."""
    texts = {"both": "limit desk open", "one": "limit book open", "other": "haircut book open", "none": "open book fee"}
    base = LocalBase.open(folder, create=True, options=TERM)
    with base.writer() as writer:
        for name, text in texts.items():
            writer.put("sop", name, "", "1", [Chunk(content=text, chunk_id=name)])
    return base


def text_scores(base: LocalBase, question: str, expansions: tuple[Expansion, ...] = ()) -> dict[str, float]:
    found = base.answer(question, top_k=9, scope=Scope(source_id="sop"), expansions=expansions)
    return {one.chunk_id: one.score(ScoreKind.BM25) or 0.0 for one in found.chunks}


def idf(frequency: int) -> float:
    """Of a word that so many of the four texts hold."""
    return log(1.0 + (4 - frequency + 0.5) / (frequency + 0.5))


class TestCoverage:
    def test_a_text_counts_by_the_fourth_root_of_the_share_that_it_holds(self, base: LocalBase) -> None:
        """All texts are of one length, so BM25 gives each word its idf."""
        found = text_scores(base, "desk limit")
        assert found["both"] == pytest.approx(idf(1) + idf(2), rel=1e-4)
        share = idf(2) / (idf(1) + idf(2))
        assert found["one"] == pytest.approx(idf(2) * share**0.25, rel=1e-4)

    def test_a_word_that_nothing_holds_is_missing_from_all(self, base: LocalBase) -> None:
        share = idf(2) / (idf(2) + idf(0))
        assert text_scores(base, "limit waiver")["one"] == pytest.approx(idf(2) * share**0.25, rel=1e-4)

    def test_a_word_is_held_by_its_other_name(self, base: LocalBase) -> None:
        """The score is that of the other name, and nothing is missing."""
        other = Expansion("markdown", "haircut", 1.0)
        assert text_scores(base, "markdown", (other,)) == {"other": pytest.approx(idf(1), rel=1e-4)}

    def test_words_for_the_whole_question_find_what_has_none_of_its_own(self, base: LocalBase) -> None:
        found = text_scores(base, "waiver", (Expansion("", "haircut", 0.5),))
        share = 0.5 * idf(1) / (0.5 * idf(1) + idf(0))
        assert found == {"other": pytest.approx(0.5 * idf(1) * share**0.25, rel=1e-4)}


class TestTrust:
    @pytest.mark.parametrize(
        ("best", "expected"), [(0.0, 0.0), (log(100), 0.0), (2 * log(100), 0.25), (5 * log(100), 1.0), (99.0, 1.0)]
    )
    def test_evidence_counts_beyond_the_odds_against_any_one_text(self, best: float, expected: float) -> None:
        assert trust(best, 99, 0.0) == pytest.approx(expected)

    @pytest.mark.parametrize(("held", "expected"), [(0.5, 0.0625), (0.9, 0.6561), (1.0, 1.0)])
    def test_a_short_question_is_trusted_by_what_is_held_of_it(self, held: float, expected: float) -> None:
        assert trust(log(100), 99, held) == pytest.approx(expected)

    def test_a_base_of_one_text(self) -> None:
        assert trust(0.3, 1, 1.0) == 1.0
        assert trust(log(2), 1, 0.0) == 0.0

    def test_what_is_not_trusted_counts_less_against_the_vectors(self) -> None:
        found = merged({1: 10.0, 2: 0.0}, 10.0, {1: 0.2, 2: 0.6}, SearchOptions(), 0.25)
        assert found == {1: pytest.approx(0.5 * 0.25 + 0.5 * 0.2), 2: pytest.approx(0.5 * 0.6)}

    def test_the_order_of_the_text_alone_does_not_depend_on_it(self) -> None:
        options = SearchOptions(vector_weight=0.0)
        assert merged({1: 5.0, 2: 10.0}, 10.0, {}, options, 0.5) == {1: pytest.approx(0.25), 2: pytest.approx(0.5)}
