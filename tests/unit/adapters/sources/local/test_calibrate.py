"""A base is calibrated from its own sentences and headings and from off-topic questions, and keeps the result."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.local import partitions as table
from context_engine.adapters.sources.local.partitions import OPEN
from context_engine.core.engine import Engine
from context_engine.core.models import (
    Chunk,
    Decision,
    DomainSpec,
    NoticeCode,
    Registry,
    SearchRequest,
    SearchResult,
    SourceSpec,
    SourceType,
)
from context_engine.core.ranking.scope import SIGNAL_VERSION
from context_engine.learning.calibration import JudgedQuestion, calibrate, outside_questions
from tests.unit.adapters.sources.local.conftest import DESKS, RULES


def spec(domain: str = "HOUSE", *sources: str) -> DomainSpec:
    held = tuple(SourceSpec(id=name, type=SourceType.BANK_SOP) for name in sources or ("sop",))
    return DomainSpec(version=1, domain=domain, sources=held)


def documents(desks: Sequence[str] = DESKS) -> dict[str, Chunk]:
    return {
        f"{desk}-{number}": Chunk(content=rule.format(desk), heading_path=(f"Rules of the {desk} desk",))
        for desk in desks
        for number, rule in enumerate(RULES)
    }


def search(base: LocalBase, query: str, domain: DomainSpec, **settings: object) -> SearchResult:
    registry = Registry(domains={domain.domain: domain})
    with Engine(registry, lambda _, one: LocalSource(base, one.id, spec=one)) as engine:
        return engine.search(SearchRequest(query=query, domain=domain.domain, overrides=settings))


@pytest.fixture
def house(base: LocalBase, fill: Callable[..., None]) -> LocalBase:
    fill(documents())
    return base


class Bag:
    """Vectors of a few directions: a text points to those whose words it holds."""

    model_id = "bag"
    dimension = 4
    words = ("desk", "approval", "year", "client")

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed_query(self, text: str) -> list[float]:
        self.asked.append(text)
        return self._vector(text)

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        held = [float(word in text) for word in self.words]
        length = sum(held) ** 0.5 or 1.0
        return [value / length for value in held]


def test_off_topic_questions_are_turned_away_and_own_ones_answered(house: LocalBase):
    (found,) = calibrate(house, spec())
    assert (found.signal, found.model_id, found.chunks) == (SIGNAL_VERSION, "", 36)
    assert found.own == 36 + 6 and found.outside == 40
    assert 0.0 < found.threshold <= found.strong <= 1.0
    off_topic = search(house, "How long should I roast a whole chicken so that the skin gets crisp?", spec())
    assert off_topic.decision in (Decision.OUT_OF_SCOPE, Decision.NO_MATCH)
    answered = search(house, "Who approves a new product of the custody desk?", spec())
    assert answered.decision is Decision.ANSWERED
    assert answered.settings_in_force()["scope_threshold"] == {"value": found.threshold, "origin": "calibrated"}


def test_a_question_of_the_same_trade_is_a_near_miss(house: LocalBase):
    """Its words are in the rules, but none of the rules has many of them."""
    (found,) = calibrate(house, spec())
    assert found.near_miss is not None and found.near_miss > 0.0

    def is_near_miss(query: str) -> bool:
        result = search(house, query, spec(), scope_threshold=0.0)
        assert result.decision is Decision.ANSWERED
        return any(notice.code is NoticeCode.NEAR_MISS for notice in result.notices)

    assert not is_near_miss("Who approves a new product of the custody desk?")
    assert is_near_miss("Which canteen, parking space and training room may the custody staff book?")


def test_a_calibration_without_near_misses_is_made_again(house: LocalBase, folder: Path):
    (found,) = calibrate(house, spec())
    with closing(sqlite3.connect(folder / "base.sqlite3")) as connection, connection:
        connection.execute("UPDATE calibrations SET near_miss = NULL")
    assert calibrate(house, spec()) == (found,)


def test_it_is_kept_with_the_base_and_not_made_again(house: LocalBase, folder: Path):
    pytest.importorskip("numpy", reason="the extra 'vectors'")
    (first,) = calibrate(house, spec())
    assert house.calibration("HOUSE") == first
    assert house.calibration("OTHER") is None
    assert LocalBase(folder).stats().calibrations == (("HOUSE", OPEN, first),)
    embedder = Bag()
    with LocalBase(folder, embedder=embedder) as other:
        assert calibrate(other, spec()) == (first,)  # it has no vectors, so words alone count
    assert embedder.asked == []


def test_equal_content_gives_equal_thresholds_in_whatever_order_it_was_written(tmp_path: Path):
    found = []
    for name, chunks in (("a", documents()), ("b", dict(reversed(documents().items())))):
        with LocalBase.open(tmp_path / name, create=True) as base:
            with base.writer() as writer:
                for chunk_id, chunk in chunks.items():
                    writer.put("sop", f"doc-{chunk_id}", "", "1", [chunk._replace(chunk_id=chunk_id)])
            found.append(calibrate(base, spec()))
    assert found[0] == found[1]


def test_a_change_of_less_than_a_fifth_leaves_it_and_a_fifth_makes_it_anew(house: LocalBase, fill: Callable[..., None]):
    calibrate(house, spec())
    fill({f"new-{number}": f"The vault is opened by two officers, {number}." for number in range(7)})  # of 36
    assert calibrate(house, spec())[0].chunks == 36
    fill({"new-7": "The vault is shut by two officers."})
    assert calibrate(house, spec())[0].chunks == 44


def test_replaced_and_removed_chunks_count_too(house: LocalBase, fill: Callable[..., None]):
    calibrate(house, spec())
    fill({name: f"{chunk.content} Amended." for name, chunk in list(documents().items())[:7]})
    assert not house.calibration_plan("HOUSE", ["sop"]).parts  # 7 of 36 were replaced
    with house.writer() as writer:
        for name in list(documents())[-8:]:
            assert writer.delete("sop", f"doc-{name}", "")
    assert calibrate(house, spec())[0].chunks == 28


def test_a_base_that_grows_for_other_domains_is_calibrated_anew(house: LocalBase, fill: Callable[..., None]):
    """Their words are common in the base now, and what is common there says little."""
    calibrate(house, spec())
    fill({f"web-{number}": f"An article on cakes and weather, {number}." for number in range(20)}, source_id="web")
    assert house.calibration_plan("HOUSE", ["sop"]).parts
    calibrate(house, spec())
    with closing(sqlite3.connect(house.path / "base.sqlite3")) as connection:
        (after,) = table.read_all(connection)
        assert (after.calibration.chunks, after.base_chunks) == (36, 56)


def test_a_calibration_of_another_signal_is_not_used(house: LocalBase):
    calibrate(house, spec())
    with closing(sqlite3.connect(house.path / "base.sqlite3")) as connection, connection:
        connection.execute("UPDATE calibrations SET signal = '0'")
    assert house.calibration("HOUSE") is None
    result = search(house, "approval of the committee", spec())
    assert result.scope is not None and result.scope.origin == "measured default"
    assert calibrate(house, spec())[0].signal == SIGNAL_VERSION


def test_each_domain_of_a_base_has_its_own(house: LocalBase, fill: Callable[..., None]):
    fill({f"web-{number}": f"An article on cakes and weather, {number}." for number in range(20)}, source_id="web")
    calibrate(house, spec("HOUSE", "sop"))
    calibrate(house, spec("WEB", "web"))
    stored = house.stats().calibrations
    assert [(one.domain, one.calibration.chunks) for one in stored] == [("HOUSE", 36), ("WEB", 20)]


def test_with_an_embedder_both_signals_are_calibrated_and_each_search_has_its_own(tmp_path: Path):
    pytest.importorskip("numpy", reason="the extra 'vectors'")
    embedder = Bag()
    with LocalBase.open(tmp_path / "base", create=True, embedder=embedder) as base:
        with base.writer() as writer:
            for chunk_id, chunk in documents().items():
                writer.put("sop", f"doc-{chunk_id}", "", "1", [chunk._replace(chunk_id=chunk_id)])
        words, both = calibrate(base, spec())
        assert (words.model_id, both.model_id) == ("", "bag")
        assert base.calibration("HOUSE") == both
        assert base.calibration("HOUSE", by_vector=False) == words
        by_both = search(base, "approval of a new product", spec())
        assert by_both.scope is not None and by_both.scope.value == both.threshold
    with LocalBase(tmp_path / "base") as base:
        by_words = search(base, "approval of a new product", spec())
        assert by_words.scope is not None and by_words.scope.value == words.threshold


def test_judged_questions_are_kept(house: LocalBase):
    (plain,) = calibrate(house, spec())
    (judged,) = calibrate(house, spec(), judged=[JudgedQuestion("who tidies the kitchen of the desk")], anew=True)
    assert judged.judged == 1
    assert judged.threshold < plain.threshold


@pytest.mark.parametrize("held", [(), ("another",)])
def test_where_the_base_holds_nothing_of_the_domain_there_is_none(
    base: LocalBase, fill: Callable[..., None], held: Sequence[str]
):
    for source in held:
        fill({"a": "A text of another domain, long enough to be asked for."}, source_id=source)
    assert calibrate(base, spec()) == ()
    assert base.stats().calibrations == ()


def test_texts_that_hold_no_sentence_to_ask_for_leave_it_uncalibrated(base: LocalBase, fill: Callable[..., None]):
    fill({str(number): f"Item {number}" for number in range(10)})
    assert calibrate(base, spec()) == ()


def test_a_base_of_before_has_none_and_is_searched_with_the_measured_default(house: LocalBase):
    assert house.calibration("HOUSE") is None
    assert house.stats().calibrations == ()
    result = search(house, "approval of the committee", spec())
    assert result.scope is not None and result.scope.origin == "measured default"


def test_two_hundred_off_topic_questions_come_with_the_package():
    questions = outside_questions()
    assert len(questions) == len(set(questions)) == 200
