"""The steps between the hits of the index and the candidates of a search, one by one and by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from context_engine.adapters.sources.local import LocalBase, candidates, search
from context_engine.adapters.sources.local.candidates import (
    LocalQuery,
    SearchScope,
    _best,
    _boosts,
    _cited_first,
    _covering,
    _FirstRows,
    _Hits,
    _ScopeRows,
    _smoothed,
    _together,
    whole,
)
from context_engine.adapters.sources.local.queries import TextQuery, rows, text_query
from context_engine.adapters.sources.local.view import RowChunk
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.core.models import Chunk, ScoreKind

PLAIN = SearchOptions(section_weight=0.0, sibling_weight=0.0, neighbour_weight=0.0)
NO_VIEW: Any = None
"""For steps that ask nothing of the index."""


def query_of(text: str) -> TextQuery:
    query = text_query(text, PLAIN)
    assert query is not None
    return query


def test_a_row_gains_from_the_best_of_its_section_and_from_both_neighbours_in_its_document() -> None:
    """Sections {1, 2, 3} and {4}; rows 3 and 4 are neighbours, but of two documents."""
    hits = _Hits({}, {1: 1, 2: 1, 3: 1, 4: 4}, {1: 7, 2: 7, 3: 7, 4: 8})
    options = SearchOptions(section_weight=0.0, sibling_weight=0.5, neighbour_weight=0.25)
    text = {1: 4.0, 2: 1.0, 3: 2.0, 4: 8.0}
    assert _smoothed(NO_VIEW, query_of("limit"), hits, text, options) == {
        1: 4.0 + 0.5 * 4.0 + 0.25 * 1.0,
        2: 1.0 + 0.5 * 4.0 + 0.25 * (4.0 + 2.0),
        3: 2.0 + 0.5 * 4.0 + 0.25 * 1.0,
        4: 8.0 + 0.5 * 8.0,
    }


def test_without_weights_scores_stay_and_a_score_of_zero_is_one() -> None:
    hits = _Hits({}, {1: 1, 2: 1}, {})
    assert _smoothed(NO_VIEW, query_of("limit"), hits, {1: 0.0, 2: 3.0}, PLAIN) == {1: 0.0, 2: 3.0}
    siblings = SearchOptions(section_weight=0.0, sibling_weight=1.0, neighbour_weight=0.0)
    assert _smoothed(NO_VIEW, query_of("limit"), _Hits({}, {1: 1}, {}), {1: 0.0}, siblings) == {1: 0.0}


def test_the_whole_of_a_score_is_one_and_its_weights_with_two_neighbours() -> None:
    options = SearchOptions(section_weight=0.5, sibling_weight=0.25, neighbour_weight=0.125)
    assert whole(options) == 1.0 + 0.5 + 0.25 + 2 * 0.125
    assert whole(PLAIN) == 1.0


@pytest.mark.parametrize(("title", "definition", "expected"), [(0.0, 0.0, False), (0.1, 0.0, True), (0.0, 0.1, True)])
def test_one_boost_is_enough(title: float, definition: float, expected: bool) -> None:
    assert _boosts(SearchOptions(title_boost=title, definition_boost=definition)) is expected


def first_rows(*scopes: Sequence[int]) -> list[_FirstRows]:
    return [_FirstRows(_Hits(dict.fromkeys(rids, 0.0), dict.fromkeys(rids, 1), {}), False) for rids in scopes]


def test_the_best_rows_of_each_scope_are_those_that_are_smoothed() -> None:
    text = {1: 1.0, 2: 3.0, 3: 2.0, 4: 0.5}
    assert _best(first_rows([1, 2, 3], [4]), text, 2) == {2: 3.0, 3: 2.0, 4: 0.5}
    assert _best(first_rows([1, 2, 3], [4]), text, 3) == text


def test_hits_of_several_scopes_are_joined_and_those_of_some_rows_taken_in_their_order() -> None:
    first, second = _Hits({1: 0.5}, {1: 1}, {1: 7}), _Hits({2: 0.25}, {2: 2}, {})
    joined = _together([_FirstRows(first, False), _FirstRows(second, True)])
    assert joined == _Hits({1: 0.5, 2: 0.25}, {1: 1, 2: 2}, {1: 7})
    assert list(joined.of([2, 1]).text) == [2, 1] and joined.of([2, 1]).doc == {1: 7}
    assert _together([_FirstRows(first, False)]) is first


def test_a_row_that_covers_nothing_has_no_score() -> None:
    assert _covering({1: 8.0, 2: 5.0, 3: 2.0}, {1: 1.0, 3: 1 / 1024}) == {
        1: 8.0,
        2: 0.0,
        3: pytest.approx(2.0 / 8.0),  # (1 / 1024) ** 0.3 = 2 ** -3
    }


class TestCodes:
    """Rows with the code of a question, and half of the best text score or more, are lifted."""

    @pytest.fixture
    def rids(self, base: LocalBase, fill: Callable[..., None]) -> list[int]:
        fill({"a": "notice 637 on limits", "b": "notice 637 on fees", "c": "notice on limits"})
        with base._viewer.view() as view:
            return [rid for (rid,) in view.connection.execute("SELECT rid FROM chunks ORDER BY rid")]

    def lifted(self, base: LocalBase, question: str, text: dict[int, float], best: float) -> dict[int, float]:
        fused = dict.fromkeys(text, 0.5)
        with base._viewer.view() as view:
            return _cited_first(view, query_of(question), text, best, fused, ScoreKind.WEIGHTED)

    def test_half_of_the_best_score_is_enough(self, base: LocalBase, rids: list[int]) -> None:
        """(0.5 + 1) / 2 with the code, 0.5 / 2 without it or with less than half of the best score."""
        first, second, third = rids
        text = {first: 4.0, second: 3.9, third: 8.0}
        assert self.lifted(base, "notice 637", text, 8.0) == {first: 0.75, second: 0.25, third: 0.25}

    def test_a_code_that_no_row_has_changes_nothing(self, base: LocalBase, rids: list[int]) -> None:
        assert self.lifted(base, "notice 638", dict.fromkeys(rids, 4.0), 4.0) == dict.fromkeys(rids, 0.5)

    def test_without_a_code_nothing_is_lifted(self, base: LocalBase, rids: list[int]) -> None:
        assert self.lifted(base, "notice on fees", dict.fromkeys(rids, 4.0), 4.0) == dict.fromkeys(rids, 0.5)


class TestBest:
    """Rows are read in batches of as many as are wanted."""

    @pytest.fixture
    def read(self, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
        batches: list[list[int]] = []

        def chunks_of_rows(_view: object, rids: Sequence[int]) -> dict[int, RowChunk]:
            batches.append(list(rids))
            return {rid: row(rid) for rid in rids}

        monkeypatch.setattr(search, "chunks_of_rows", chunks_of_rows)
        return batches

    def test_the_first_batch_is_known_and_more_are_read_until_enough_pass(self, read: list[list[int]]) -> None:
        known = {1: row(1), 2: row(2)}
        found = search._best(NO_VIEW, [1, 2, 3, 4, 5, 6, 7], lambda chunk: chunk.content != "2", known, 2)
        assert [rid for rid, _ in found] == [1, 3]
        assert read == [[3, 4]]

    def test_nothing_is_read_where_the_first_are_enough(self, read: list[list[int]]) -> None:
        known = {1: row(1), 2: row(2)}
        assert [rid for rid, _ in search._best(NO_VIEW, [1, 2, 3], None, known, 2)] == [1, 2]
        assert read == []

    def test_rows_that_are_gone_are_passed_over(self, read: list[list[int]]) -> None:
        assert [rid for rid, _ in search._best(NO_VIEW, [1, 2, 3, 4], None, {2: row(2)}, 2)] == [2, 3]
        assert read == [[3, 4]]


def row(rid: int) -> RowChunk:
    return RowChunk(Chunk(content=str(rid), chunk_id=str(rid)))


def test_a_search_by_text_reads_no_documents_unless_neighbours_count(
    base: LocalBase, fill: Callable[..., None]
) -> None:
    fill({"a": "limit of the desk"})
    with base._viewer.view() as view:
        query = query_of("limit").text
        for weight, docs in ((0.0, 0), (0.1, 1)):
            hits = candidates._read(view, query, 10, SearchOptions(neighbour_weight=weight))
            assert (len(hits.text), len(hits.group), len(hits.doc)) == (1, 1, docs)


def test_a_scope_without_rows_has_none_to_compare(base: LocalBase, fill: Callable[..., None]) -> None:
    fill({"a": "limit of the desk"})
    with base._viewer.view() as view:
        scope = SearchScope(rows([1_000_000]), None, True, "sop")
        scope_rows = _ScopeRows(view, LocalQuery(query_of("limit"), [1.0], PLAIN), scope)
        assert (scope_rows.count(), scope_rows.all(0)) == (0, [])
        assert list(scope_rows.among([])) == []


def test_rows_that_a_scope_was_asked_for_keep_their_text_scores(base: LocalBase, fill: Callable[..., None]) -> None:
    fill({"a": "limit of the desk", "b": "fee of the desk", "c": "limit of the book"})
    with base._viewer.view() as view:
        first, second, third = (rid for (rid,) in view.connection.execute("SELECT rid FROM chunks ORDER BY rid"))
        scope = SearchScope(rows([first, second]), None, True, "sop")
        scope_rows = _ScopeRows(view, LocalQuery(query_of("limit"), [1.0], PLAIN), scope)
        assert (scope_rows.count(), sorted(scope_rows.all(2))) == (2, [first, second])
        inside = scope_rows.among([first, second, third])
        assert first in inside and second in inside and third not in inside
        assert scope_rows.read.text[first] > scope_rows.read.text[second] == 0.0


def test_without_an_embedder_no_vectors_are_held(base: LocalBase, fill: Callable[..., None]) -> None:
    pytest.importorskip("numpy", reason="the extra 'vectors'")
    from context_engine.adapters.sources.local.adapter_keeping import held_vectors

    fill({"a": "limit of the desk"})
    with base._viewer.view() as view:
        held = held_vectors(view, ["sop"])
    assert (held.chunks, held.parts.shape, held.lengths.tolist()) == ([], (0, 0), [])


def test_the_best_hit_asked_for_before_does_not_shorten_a_search(
    base: LocalBase, fill: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_MANY_ROWS", 0)
    fill({"a": "limit of the desk", "b": "fee of the desk", "c": "limit of the book"})
    with base._viewer.view() as view:
        query = query_of("limit")
        assert candidates.best_hit(view, query) is not None
        scope = SearchScope(candidates.Query.all_query(), 1, False, "sop")
        assert len(candidates._best_by_text(view, query, scope, 10, PLAIN).text) == 2
