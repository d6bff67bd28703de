"""What the texts say of a question: the share that a row holds, and how far the best hit is trusted."""

from __future__ import annotations

from math import log
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase, SearchOptions
from context_engine.adapters.sources.stores.options import merged, trust
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import Chunk, Expansion, ScoreKind

TERM = SearchOptions(section_weight=0.0, sibling_weight=0.0, pairs_weight=0.0)


def base_of(folder: Path, texts: dict[str, str]) -> LocalBase:
    base = LocalBase.open(folder, create=True, options=TERM)
    with base.writer() as writer:
        for name, text in texts.items():
            writer.put("sop", name, "", "1", [Chunk(content=text, chunk_id=name)])
    return base


@pytest.fixture
def base(folder: Path) -> LocalBase:
    """Four texts of three words each: `limit` stands in two, `desk` in one, `haircut` in one."""
    texts = {"both": "limit desk open", "one": "limit book open", "other": "haircut book open", "none": "open book fee"}
    return base_of(folder, texts)


def text_scores(base: LocalBase, question: str, expansions: tuple[Expansion, ...] = ()) -> dict[str, float]:
    found = base.answer(question, top_k=9, scope=Scope(source_id="sop"), expansions=expansions)
    return {one.chunk_id: one.score(ScoreKind.BM25) or 0.0 for one in found.chunks}


def idf(frequency: int) -> float:
    """Of a word that so many of the four texts hold."""
    return log(1.0 + (4 - frequency + 0.5) / (frequency + 0.5))


class TestCoverage:
    def test_a_text_counts_by_a_root_of_the_share_that_it_holds(self, base: LocalBase) -> None:
        """All texts are of one length, so BM25 gives each word its idf."""
        found = text_scores(base, "desk limit")
        assert found["both"] == pytest.approx(idf(1) + idf(2), rel=1e-4)
        share = idf(2) / (idf(1) + idf(2))
        assert found["one"] == pytest.approx(idf(2) * share**0.3, rel=1e-4)

    def test_a_word_that_nothing_holds_is_missing_from_all(self, base: LocalBase) -> None:
        share = idf(2) / (idf(2) + idf(0))
        assert text_scores(base, "limit waiver")["one"] == pytest.approx(idf(2) * share**0.3, rel=1e-4)

    def test_a_word_is_held_by_its_other_name(self, base: LocalBase) -> None:
        """The score is that of the other name, and nothing is missing."""
        other = Expansion("markdown", "haircut", 1.0)
        assert text_scores(base, "markdown", (other,)) == {"other": pytest.approx(idf(1), rel=1e-4)}

    def test_words_for_the_whole_question_find_what_has_none_of_its_own(self, base: LocalBase) -> None:
        found = text_scores(base, "waiver", (Expansion("", "haircut", 0.5),))
        share = 0.5 * idf(1) / (0.5 * idf(1) + idf(0))
        assert found == {"other": pytest.approx(0.5 * idf(1) * share**0.3, rel=1e-4)}


class TestForms:
    """All texts are of one length, so BM25 gives each word its idf; `rates` and `rated` have one stem."""

    @pytest.fixture
    def base(self, folder: Path) -> LocalBase:
        texts = {"same": "rates desk", "other": "rated desk", "none": "cost desk", "short": "fee book"}
        return base_of(folder, texts)

    def test_a_word_in_another_form_is_held_by_six_tenths(self, base: LocalBase) -> None:
        both = idf(2)
        expected = {"same": pytest.approx(both, rel=1e-4), "other": pytest.approx(both * 0.6**0.3, rel=1e-4)}
        assert text_scores(base, "rates") == expected

    def test_one_of_several_forms_in_the_question_is_enough(self, base: LocalBase) -> None:
        assert list(text_scores(base, "rates rated").values()) == [pytest.approx(idf(2), rel=1e-4)] * 2

    def test_a_form_that_nothing_holds_changes_no_order(self, base: LocalBase) -> None:
        found = text_scores(base, "rating")
        assert found == {name: pytest.approx(idf(2) * 0.6**0.3, rel=1e-4) for name in ("same", "other")}

    def test_a_heading_may_have_the_form(self, base: LocalBase) -> None:
        with base.writer() as writer:
            chunk = Chunk(content="rated book", chunk_id="headed", heading_path=("Rates",))
            writer.put("sop", "headed", "", "1", [chunk])
        found = text_scores(base, "rates")
        assert found["headed"] > found["other"]

    @pytest.mark.parametrize("question", ["fee", "cost"])
    def test_short_words_and_words_in_the_same_form_count_fully(self, base: LocalBase, question: str) -> None:
        """The row of the other word is found too: they are synonyms."""
        assert max(text_scores(base, question).values()) == pytest.approx(idf(1), rel=1e-4)

    def test_another_name_is_as_good_in_any_form(self, base: LocalBase) -> None:
        """Where a glossary has other names for a word, the text may hold one of those."""
        names = (Expansion("rates", "prices", 1.0),)
        assert list(text_scores(base, "rates", names).values()) == [pytest.approx(idf(2), rel=1e-4)] * 2


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
