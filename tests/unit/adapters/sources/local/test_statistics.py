"""What an answer of a base says of how common the question's terms are, and what the engine makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from context_engine import Engine, Registry, SearchRequest, recompute
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.engine import stage_two_bytes
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Classification,
    DomainSpec,
    Expansion,
    SearchResult,
    SourceSpec,
    SourceType,
    TermStatistics,
)
from context_engine.core.text import terms

TEXTS = {
    "a": "The approval limit is five million.",
    "b": "Approvals above the limit go to the committee.",
    "c": "A limit of a limit.",
    "d": "Canteen hours.",
    "e": "NPA-001 applies.",
}
QUESTION = "approval limit of NPA-001 for zeppelins"


def statistics(base: LocalBase, question: str = QUESTION, source_id: str = "sop", **more: object) -> TermStatistics:
    found = base.answer(question, top_k=2, scope=Scope(source_id=source_id), **more).statistics  # type: ignore[arg-type]
    assert found is not None
    return found


def test_the_counts_are_those_by_hand(base: LocalBase, fill: Callable[..., None]) -> None:
    fill(TEXTS)
    known = statistics(base)
    by_hand = {
        term: sum(term in terms(text) for text in TEXTS.values())
        for term in ("approv", "limit", "npa001", "npa", "001", "zeppelin")
    }
    assert known.document_frequency == by_hand
    assert by_hand == {"approv": 2, "limit": 3, "npa001": 1, "npa": 1, "001": 1, "zeppelin": 0}
    assert known.chunks == len(TEXTS)


def test_a_heading_counts_as_its_chunk_does(base: LocalBase, fill: Callable[..., None]) -> None:
    fill({"a": Chunk(content="Five million.", heading_path=("Approval limits",)), "b": "The committee decides."})
    assert statistics(base, "approval committee").document_frequency == {"approv": 1, "committe": 1}


def test_other_words_for_the_question_are_counted(base: LocalBase, fill: Callable[..., None]) -> None:
    fill(TEXTS)
    known = statistics(base, "cap", expansions=(Expansion("cap", "upper limit", 0.5),))
    assert known.document_frequency == {"cap": 0, "upper": 0, "limit": 3}


def test_the_sources_of_a_base_are_one_collection(base: LocalBase, fill: Callable[..., None]) -> None:
    for number, (name, text) in enumerate(TEXTS.items()):
        fill({name: text}, source_id=f"s{number}")
    found = [statistics(base, source_id=f"s{number}") for number in range(len(TEXTS))]
    assert len({one.collection for one in found}) == 1
    assert all(one == found[0] for one in found)
    assert found[0].chunks == len(TEXTS)


def searched(base: LocalBase, *source_ids: str, question: str = QUESTION) -> SearchResult:
    specs = tuple(SourceSpec(id=one, type=SourceType.BANK_SOP) for one in source_ids)
    registry = Registry(domains={"NPA": DomainSpec(version=1, domain="NPA", sources=specs)})
    overrides = {"min_relevance_score": 0.0, "scope_threshold": 0.0}
    with Engine(registry, lambda _domain, spec: LocalSource(base, spec.id)) as engine:
        return engine.search(SearchRequest(query=question, domain="NPA", overrides=overrides))


@pytest.mark.parametrize("question", [QUESTION, "approval limit", "committee hours of zeppelins"])
def test_five_sources_of_a_base_give_the_signal_of_one(
    base: LocalBase, fill: Callable[..., None], question: str
) -> None:
    for number, (name, text) in enumerate(TEXTS.items()):
        fill({name: text}, source_id=f"s{number}")
        fill({name: text}, source_id="all")
    whole = {one.chunk_id: one.absolute for one in searched(base, "all", question=question).chunks}
    parts = {
        one.chunk_id: one.absolute
        for one in searched(base, *(f"s{number}" for number in range(len(TEXTS))), question=question).chunks
    }
    assert parts == whole
    assert len(whole) > 1


def test_stage_two_is_computed_again_with_the_same_statistics(base: LocalBase, fill: Callable[..., None]) -> None:
    fill({**TEXTS, **{f"more{number}": f"The limit of desk {number}." for number in range(60)}})
    result = searched(base, "sop", question="approval limit desk zeppelin")
    again = recompute(result)
    assert stage_two_bytes(again) == stage_two_bytes(result)
    assert again.raw == result.raw
    without = replace(result, raw=tuple(replace(one, statistics=None) for one in result.raw))
    assert stage_two_bytes(recompute(without)) != stage_two_bytes(result)


def test_a_word_the_base_lacks_turns_a_question_away_and_a_common_one_does_not_keep_it(
    base: LocalBase, fill: Callable[..., None]
) -> None:
    """Every text speaks of a "limit"; a question after the limit of zeppelins has no answer here."""
    fill({f"t{number}": f"The limit of desk {number} is agreed by the head of desk {number}." for number in range(50)})
    off, own = (searched(base, "sop", question=text) for text in ("zeppelin balloon limit", "limit of desk"))
    assert max(one.absolute for one in off.chunks) < 0.15
    assert max(one.absolute for one in own.chunks) == 1.0


def test_the_sources_of_one_search_share_those_of_all_that_its_caller_may_read(folder: Path) -> None:
    """Two partitions count as one collection for who reads both, and the hidden one not at all for who does not."""
    rules = {"web": "members", "board": "directors"}
    member = AccessScope(rules=frozenset({"members"}), clearance=Classification.INTERNAL)
    with LocalBase(folder, place=lambda source_id: SourcePlace(rules=rules.get(source_id, ""))) as base:
        with base.writer() as writer:
            for source_id, name, text in (("sop", *one) for one in TEXTS.items()):
                writer.put(source_id, name, "", "1", [Chunk(content=text)])
            writer.put("web", "w", "", "1", [Chunk(content="Another approval.")])
            writer.put("board", "b", "", "1", [Chunk(content="A zeppelin needs approval, the limit is one zeppelin.")])

        def asked(source_id: str, access: AccessScope | None) -> TermStatistics | None:
            return base.answer(QUESTION, top_k=2, scope=Scope(source_id=source_id, access=access)).statistics

        seen = asked("sop", member)
        assert seen is not None and seen == asked("web", member)
        assert (seen.chunks, seen.document_frequency["approv"], seen.document_frequency["zeppelin"]) == (6, 3, 0)
        everything = asked("sop", None)
        assert everything is not None and everything == asked("board", None)
        assert (everything.chunks, everything.document_frequency["zeppelin"]) == (7, 1)
