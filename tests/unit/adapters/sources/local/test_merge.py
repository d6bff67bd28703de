"""Two rankings become one: the arithmetic of each merge method and of the boosts."""

from __future__ import annotations

from inspect import signature

import pytest

from context_engine.adapters.sources.local.index_sync import IndexSync
from context_engine.adapters.sources.stores.options import SearchOptions, boosted, kind_of, lifted, merged, ranked
from context_engine.core.models import ScoreKind, Settings
from context_engine.errors import ConfigError

TEXT = {1: 8.0, 2: 2.0, 3: 0.0}
COSINE = {1: 0.5, 2: 0.9, 3: -0.2}


def test_weighted_takes_both_true_scores() -> None:
    options = SearchOptions(keyword_weight=0.4, vector_weight=0.6)
    found = merged(TEXT, 10.0, COSINE, options)
    assert found[1] == pytest.approx(0.4 * 8 / 10 + 0.6 * 0.5)
    assert found[2] == pytest.approx(0.4 * 2 / 10 + 0.6 * 0.9)
    assert found[3] == 0.0


def test_weights_count_by_their_share() -> None:
    half = merged(TEXT, 10.0, COSINE, SearchOptions(keyword_weight=0.2, vector_weight=0.2))
    assert half == merged(TEXT, 10.0, COSINE, SearchOptions(keyword_weight=1.0, vector_weight=1.0))
    assert half[1] == pytest.approx(0.5 * 0.8 + 0.5 * 0.5)


@pytest.mark.parametrize(("cosine", "near"), [(0.85, 0.5), (1.0, 1.0), (0.7, 0.0), (0.4, 0.0)])
def test_a_cosine_counts_from_its_model_s_floor(cosine: float, near: float) -> None:
    """(cosine - 0.7) / 0.3, at least 0."""
    options = SearchOptions(cosine_floor=0.7)
    assert merged({1: 8.0}, 10.0, {1: cosine}, options)[1] == pytest.approx(0.5 * 0.8 + 0.5 * near)


def test_without_a_match_in_the_text_the_cosine_decides() -> None:
    assert merged({1: 0.0}, 0.0, {1: 0.8}, SearchOptions())[1] == pytest.approx(0.5 * 0.8)


def test_a_row_without_vectors_has_its_text_score_alone() -> None:
    assert merged({1: 5.0}, 10.0, {}, SearchOptions())[1] == pytest.approx(0.5 * 0.5)


def test_weights_of_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="keyword_weight and vector_weight are both 0"):
        SearchOptions(keyword_weight=0.0, vector_weight=0.0)


class TestSeed004:
    """Vector: A 0.95, B 0.82, C 0.78; keyword: A 8.5, C 7.2, D 6.1; k = 60."""

    A, B, C, D = 1, 2, 3, 4
    vector = {A: 0.95, B: 0.82, C: 0.78}
    keyword = {A: 8.5, C: 7.2, D: 6.1}
    all_text = {**keyword, B: 0.0}

    def test_rrf(self) -> None:
        found = merged(self.all_text, 8.5, self.vector, SearchOptions(merge_method="rrf"))
        assert found[self.A] == 1 / 61 + 1 / 61
        assert found[self.C] == 1 / 62 + 1 / 63
        assert found[self.B] == 1 / 62
        assert found[self.D] == 1 / 63
        assert ranked(found) == [self.A, self.C, self.B, self.D]
        assert [f"{found[row]:.4f}" for row in ranked(found)] == ["0.0328", "0.0320", "0.0161", "0.0159"]

    def test_k_is_a_setting(self) -> None:
        found = merged(self.all_text, 8.5, self.vector, SearchOptions(merge_method="rrf", rrf_k=0))
        assert found[self.A] == 1 / 1 + 1 / 1 and found[self.C] == pytest.approx(1 / 2 + 1 / 3)

    def test_rrf_rerank_merges_as_rrf_does(self) -> None:
        options = SearchOptions(merge_method="rrf_rerank")
        assert merged(self.all_text, 8.5, self.vector, options) == merged(
            self.all_text, 8.5, self.vector, SearchOptions(merge_method="rrf")
        )
        assert kind_of(options) is ScoreKind.RRF and kind_of(SearchOptions()) is ScoreKind.WEIGHTED

    def test_boosts_of_title_and_definition(self) -> None:
        """Title +0.3, definition +0.4, over 1.7 so that nothing leaves [0, 1]."""
        options = SearchOptions(title_boost=0.3, definition_boost=0.4)
        found = boosted({1: 1.0, 2: 0.5, 3: 0.5}, {1: 1.0, 2: 0.5}, {1, 3}, options)
        assert found[1] == pytest.approx((1.0 + 0.3 + 0.4) / 1.7) == 1.0
        assert found[2] == pytest.approx((0.5 + 0.3 * 0.5) / 1.7)
        assert found[3] == pytest.approx((0.5 + 0.4) / 1.7)

    def test_a_boost_means_the_same_for_scores_of_any_scale(self) -> None:
        options = SearchOptions(title_boost=0.3)
        small, large = ({1: 0.02, 2: 0.03}, {1: 2.0, 2: 3.0})
        order = [ranked(boosted(scores, {1: 1.0}, (), options)) for scores in (small, large)]
        assert order[0] == order[1] == ranked({1: 2.0 + 3.0 * 0.3, 2: 3.0}) == [2, 1]


def test_what_holds_the_codes_is_lifted_above_all_else() -> None:
    scores = {1: 0.2, 2: 0.9, 3: 0.4}
    by_weight = lifted(scores, {1, 3}, ScoreKind.WEIGHTED)
    assert by_weight == {1: pytest.approx(0.6), 2: pytest.approx(0.45), 3: pytest.approx(0.7)}
    by_rank = lifted(scores, {1, 3}, ScoreKind.RRF)
    assert by_rank == {1: pytest.approx(1.1), 2: 0.9, 3: pytest.approx(1.3)}
    assert ranked(by_weight) == ranked(by_rank) == [3, 1, 2]


def test_equal_scores_are_ranked_by_age() -> None:
    assert ranked({7: 0.5, 3: 0.5, 5: 0.9}) == [5, 3, 7]


def test_settings_become_options() -> None:
    found = SearchOptions.of(Settings(merge_method="rrf", rrf_k=10, section_weight=0.0))
    assert (found.merge_method, found.rrf_k, found.section_weight) == ("rrf", 10, 0.0)
    assert SearchOptions.of(Settings()) == SearchOptions()


def test_a_row_that_neither_ranking_has_scores_nothing() -> None:
    options = SearchOptions(merge_method="rrf", rrf_k=60)
    assert merged({1: 5.0, 2: 0.0}, 5.0, {}, options) == {1: 1 / 61, 2: 0.0}


@pytest.mark.parametrize(
    ("text", "cosine", "expected"),
    [(5.0, 0.5, 0.5), (20.0, 0.5, 0.75), (0.0, 0.5, 0.25), (10.0, 1.5, 1.0), (0.0, -0.5, 0.0), (0.0, 0.0, 0.0)],
)
def test_both_scores_are_kept_within_0_and_1(text: float, cosine: float, expected: float) -> None:
    """Half of text / 10 and half of the cosine."""
    options = SearchOptions(keyword_weight=0.5, vector_weight=0.5)
    assert merged({1: text}, 10.0, {1: cosine}, options)[1] == pytest.approx(expected)


@pytest.mark.parametrize(("keyword", "vector"), [(0.0, 1.0), (1.0, 0.0)])
def test_one_weight_is_enough(keyword: float, vector: float) -> None:
    found = merged({1: 5.0}, 10.0, {1: 0.25}, SearchOptions(keyword_weight=keyword, vector_weight=vector))
    assert found[1] == pytest.approx(keyword * 0.5 + vector * 0.25)


def test_a_lift_by_ranks_adds_the_best_score_to_rows_with_the_codes() -> None:
    assert lifted({1: 0.5, 2: 0.25}, {2}, ScoreKind.RRF) == {1: 0.5, 2: 0.75}
    assert lifted({}, {2}, ScoreKind.RRF) == {}


def test_boosts_are_shares_of_the_best_score() -> None:
    """(4 + 8 * (0.5 * 0.25 + 0.25)) / 1.75 = 4, and 8 / 1.75 without either."""
    options = SearchOptions(title_boost=0.5, definition_boost=0.25)
    found = boosted({1: 4.0, 2: 8.0}, {1: 0.25}, {1}, options)
    assert found == {1: pytest.approx(7.0 / 1.75), 2: pytest.approx(8.0 / 1.75)}
    assert boosted({}, {}, set(), options) == {}


def test_the_defaults_are_those_that_were_measured() -> None:
    options = SearchOptions()
    assert (options.depth, options.approximate_from, options.probe) == (60, 200_000, 0.1)
    least = signature(IndexSync.__init__).parameters["approximate_from"].default
    assert least == options.approximate_from
