"""A misspelt question: the suggestion is offered; where nothing else is found it is searched for, and said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine import recompute
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.engine import Engine, stage_two_bytes
from context_engine.core.engine.pipeline import unknown_words
from context_engine.core.models import (
    Chunk,
    Condition,
    Decision,
    FilterOp,
    NoticeCode,
    RawAnswer,
    SearchRequest,
    SearchResult,
    SourceAnswer,
    SourceQuery,
    UnknownWord,
)
from context_engine.errors import SourceUnavailable

TEXTS = {
    "length": "Passwords have a minimum length of 14 characters.",
    "expiry": "Access rights end with the employment; the owner of the system checks that every quarter.",
    "vault": "Two keyholders open the vault together. Neither keeps both combinations.",
    "limits": "Counterparty limits are approved yearly by the credit committee of Harbour Bank.",
}
ASKED = "minimun pasword lenght"
MEANT = "minimum passwords length"


@pytest.fixture
def source(tmp_path: Path) -> Iterator[LocalSource]:
    with LocalBase.open(tmp_path / "base", create=True) as base:
        with base.writer() as writer:
            for name, text in TEXTS.items():
                writer.put("t2", name, "1", name, [Chunk(content=text, chunk_id=name)])
        yield LocalSource(base, "t2")


@pytest.fixture
def engine(source: LocalSource, make_engine: Callable[..., Engine]) -> Iterator[Engine]:
    with make_engine([(2, source)]) as engine:
        yield engine


def ask(engine: Engine, query: str, **fields: Any) -> SearchResult:
    overrides = {"scope_threshold": 0.3, **fields.pop("overrides", {})}
    return engine.search(SearchRequest(query=query, domain="NPA", overrides=overrides, **fields))


def codes(result: SearchResult) -> list[NoticeCode]:
    return [notice.code for notice in result.notices]


def test_where_nothing_is_found_the_suggested_spelling_is_searched_for_and_said(engine: Engine) -> None:
    result = ask(engine, ASKED)
    assert result.decision is Decision.ANSWERED
    assert [chunk.chunk_id for chunk in result.chunks] == ["length"]
    (notice,) = (one for one in result.notices if one.code is NoticeCode.QUERY_CORRECTED)
    assert notice.detail["searched"] == MEANT
    assert notice.detail["words"][0] == {"written": "minimun", "known_as": "minimum"}
    assert result.query == ASKED, "the question stays the user's"
    assert result.answered_query == MEANT
    searched = result.to_dict()["searched"]
    assert (searched["original"], searched["text"], searched["corrected"]) == (ASKED, MEANT, True)


def test_what_is_found_is_the_same_as_for_the_right_spelling(engine: Engine) -> None:
    wrong, right = ask(engine, ASKED), ask(engine, MEANT)
    assert [(one.chunk_id, one.relevance, one.absolute, one.final) for one in wrong.chunks] == [
        (one.chunk_id, one.relevance, one.absolute, one.final) for one in right.chunks
    ]
    assert [fate.to_dict() for fate in wrong.fates] == [fate.to_dict() for fate in right.fates]
    assert right.notices == ()


def test_where_something_is_found_the_suggestion_is_offered_only(engine: Engine) -> None:
    result = ask(engine, "password minimum lenght")
    assert [chunk.chunk_id for chunk in result.chunks] == ["length"]
    (notice,) = result.notices
    assert notice.code is NoticeCode.SPELLING_SUGGESTED
    assert notice.detail["suggested"] == "password minimum length"
    assert result.prepared is not None
    assert (result.prepared.suggestions, result.prepared.corrected) == ((("lenght", "length"),), False)
    assert result.answered_query == "password minimum lenght"


def test_a_word_that_nothing_is_near_keeps_the_question_out_of_scope(engine: Engine) -> None:
    """Of "pizza" the texts hold nothing near: what they say of vaults is no answer."""
    result = ask(engine, "pizza keyholdesr valut")
    assert result.decision is Decision.NO_MATCH
    assert result.chunks == ()
    assert codes(result) == [NoticeCode.SPELLING_SUGGESTED]


def test_a_short_word_is_offered_and_not_used_by_itself(engine: Engine) -> None:
    """ "vlaut" may be a vault; "limti" a limit. In five letters another word is as near."""
    result = ask(engine, "vautl")
    assert result.decision is Decision.NO_MATCH
    (notice,) = result.notices
    assert (notice.code, notice.detail["suggested"]) == (NoticeCode.SPELLING_SUGGESTED, "vault")


def test_a_short_word_beside_one_that_nothing_is_near_is_taken_for_one_of_another_subject(engine: Engine) -> None:
    assert codes(ask(engine, "pizza vautl")) == []


def test_a_suggested_spelling_that_finds_nothing_leaves_the_first_decision(engine: Engine) -> None:
    result = ask(engine, "wages of keyholdesr who travel by steamship", overrides={"scope_threshold": 0.9})
    plain = ask(engine, "wages of teachers who travel by steamship", overrides={"scope_threshold": 0.9})
    assert (result.decision, plain.decision) == (Decision.NO_MATCH, Decision.NO_MATCH)
    strict = ask(engine, ASKED, overrides={"scope_threshold": 1.0, "min_relevance_score": 1.0})
    assert strict.decision in (Decision.NO_MATCH, Decision.ANSWERED)


def test_the_scope_threshold_holds_for_the_suggested_spelling_too(
    tmp_path: Path, make_engine: Callable[..., Engine]
) -> None:
    """ "combinatoins" is meant for "combinations", one word of five: below a threshold of one half."""
    with LocalBase.open(tmp_path / "base", create=True) as base:
        with base.writer() as writer:
            for name, text in {"vault": TEXTS["vault"], "a": "wages", "b": "teachers", "c": "quarry"}.items():
                writer.put("t2", name, "1", name, [Chunk(content=text, chunk_id=name)])
        with make_engine([(2, LocalSource(base, "t2"))]) as engine:
            question = "combinatoins wages teachers quarry"
            low, high = (ask(engine, question, overrides={"scope_threshold": limit}) for limit in (0.1, 0.9))
    assert (low.decision, high.decision) == (Decision.ANSWERED, Decision.OUT_OF_SCOPE)
    assert codes(high) == [NoticeCode.SPELLING_SUGGESTED]


@pytest.mark.parametrize("query", [ASKED, "password minimum lenght", "pizza keyholdesr valut"])
def test_a_result_is_computed_again_to_the_same_bytes(engine: Engine, query: str) -> None:
    result = ask(engine, query)
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_quoted_words_and_names_are_searched_for_as_they_are(engine: Engine) -> None:
    assert ask(engine, '"pasword lenght"').chunks == ()
    assert not ask(engine, "what did Harbuor approve").prepared.suggestions  # type: ignore[union-attr]


def test_a_filter_holds_for_the_suggested_spelling_too(engine: Engine) -> None:
    other = Condition("document_id", FilterOp.EQ, "vault")
    assert ask(engine, ASKED, filters=other).chunks == ()
    assert [one.chunk_id for one in ask(engine, "keyholdesr", filters=other).chunks] == ["vault"]


def test_the_glossary_reads_the_suggested_spelling(source: LocalSource, make_engine: Callable[..., Engine]) -> None:
    glossary = {"passwords": ["credential"]}
    with make_engine([(2, source)], domain_fields={"glossary": glossary}) as engine:
        result = ask(engine, ASKED)
    assert result.prepared is not None
    assert [one.text for one in result.prepared.expansions] == ["credential"]


def test_a_source_that_failed_might_have_held_the_word(source: LocalSource, make_engine: Callable[..., Engine]) -> None:
    def down(_query: str, _domain: str, _top_k: int) -> list[Any]:
        raise SourceUnavailable("it is down")

    with make_engine([(1, down), (2, source)]) as engine:
        result = ask(engine, ASKED)
    assert result.decision is Decision.INCOMPLETE
    assert result.chunks == ()
    assert NoticeCode.SPELLING_SUGGESTED in codes(result)


class Suggesting:
    """An adapter that knows its vocabulary, and is asked twice."""

    source_id = "t3"
    score_kinds: frozenset[Any] = frozenset()

    def __init__(self, seconds: float = 0.0) -> None:
        self.asked: list[str] = []

    def search(self, query: SourceQuery) -> SourceAnswer:
        self.asked.append(query.text)
        if "tarriff" in query.text:
            return SourceAnswer(unknown_words=(UnknownWord("tarriff", "tariff"),))
        return SourceAnswer(chunks=[Chunk(content="The tariff of fees.", chunk_id="fees")], unknown_words=())

    def close(self) -> None:
        pass


def test_an_adapter_may_suggest(make_engine: Callable[..., Engine]) -> None:
    source = Suggesting()
    with make_engine([(3, source)]) as engine:
        result = ask(engine, "tarriff")
    assert source.asked == ["tarriff", "tariff"]
    assert [one.chunk_id for one in result.chunks] == ["fees"]


def test_the_rank_alone_suggests_nothing_twice() -> None:
    """A word is unknown where every source that looks says so, and no chunk of the others holds it."""
    now: Any = None
    listing = RawAnswer(source_id="a", chunks=(), retrieved_at=now, unknown_words=(UnknownWord("lenght", "length"),))
    holding = RawAnswer(source_id="b", chunks=(), retrieved_at=now, unknown_words=())
    silent = RawAnswer(source_id="c", chunks=(Chunk(content="as lenght is spelt", chunk_id="x"),), retrieved_at=now)
    farther = RawAnswer(source_id="d", chunks=(), retrieved_at=now, unknown_words=(UnknownWord("lenght", "lengths"),))
    assert unknown_words("pipe lenght", [listing]) == [UnknownWord("lenght", "length")]
    assert unknown_words("pipe lenght", [farther, listing]) == [UnknownWord("lenght", "length")]
    assert unknown_words("pipe lenght", [listing, holding]) == []
    assert unknown_words("pipe lenght", [listing, silent]) == []
    assert unknown_words("pipe lenght", [silent]) == []


def test_what_is_no_list_of_unknown_words_counts_as_not_known(make_engine: Callable[..., Engine]) -> None:
    class Odd(Suggesting):
        def search(self, query: SourceQuery) -> SourceAnswer:
            return SourceAnswer(unknown_words=(("a", 1),), filter_fields="title")  # type: ignore[arg-type]

    with make_engine([(3, Odd())]) as engine:
        result = ask(engine, "tarriff")
    assert [(one.code, one.detail["field"]) for one in result.notices] == [
        (NoticeCode.FIELD_UNUSABLE, "unknown_words"),
        (NoticeCode.FIELD_UNUSABLE, "filter_fields"),
    ]
