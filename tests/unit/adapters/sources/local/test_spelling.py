"""Words that a base does not hold, and the words of its texts that may be meant by them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.local import search as searching
from context_engine.core.models import Chunk, Condition, FilterOp, SourceQuery, UnknownWord

TEXTS = {
    "sop": {
        "length": Chunk(content="Passwords have a minimum length of 14 characters.", metadata={"owner": "IT"}),
        "change": Chunk(content="A password is changed at once after a suspected compromise.", metadata={"year": 2025}),
        "rota": Chunk(content="The rota of the branch names who opens the vault.", section="Keyholders"),
        "limits": Chunk(content="Counterparty limits are approved yearly. A limit is breached where it is exceeded."),
    },
    "web": {"lengths": Chunk(content="Fabric is sold in lengths of two metres, by lenght as some shops write.")},
}


@pytest.fixture
def base(tmp_path: Path) -> Iterator[LocalBase]:
    with LocalBase.open(tmp_path / "base", create=True) as base:
        with base.writer() as writer:
            for source, chunks in TEXTS.items():
                for name, chunk in chunks.items():
                    writer.put(source, name, f"{name}.md", name, [chunk._replace(chunk_id=name)])
        yield base


def unknown(base: LocalBase, text: str, source: str = "sop", **scope: object) -> dict[str, str]:
    answer = LocalSource(base, source).search(SourceQuery(text=text, domain="NPA", top_k=5, **scope))  # type: ignore[arg-type]
    assert answer.unknown_words is not None
    assert all(isinstance(one, UnknownWord) for one in answer.unknown_words)
    return dict(answer.unknown_words)


def test_words_that_no_text_holds_come_with_the_nearest_word_as_it_is_written(base: LocalBase) -> None:
    assert unknown(base, "minimun pasword lenght") == {"minimun": "minimum", "pasword": "password", "lenght": "length"}


def test_an_inflected_word_is_known_by_its_stem(base: LocalBase) -> None:
    assert unknown(base, "changing characters, compromised passwords and approvals") == {}


def test_a_suggestion_is_a_word_of_the_texts_and_no_stem(base: LocalBase) -> None:
    assert unknown(base, "suspectde charcters") == {"suspectde": "suspected", "charcters": "characters"}


def test_a_word_that_nothing_is_near_has_no_suggestion(base: LocalBase) -> None:
    assert unknown(base, "pizza dough") == {"pizza": "", "dough": ""}


def test_headings_and_metadata_are_held_too(base: LocalBase) -> None:
    assert unknown(base, "keyholders") == {}
    assert unknown(base, "keyhodlers") == {"keyhodlers": "keyholders"}


def test_what_another_source_holds_is_neither_known_nor_suggested(base: LocalBase) -> None:
    assert unknown(base, "lenght", source="web") == {}
    assert unknown(base, "fabirc", source="web") == {"fabirc": "fabric"}
    assert unknown(base, "fabirc", source="sop") == {"fabirc": ""}


def test_what_the_filter_leaves_out_is_not_suggested(base: LocalBase) -> None:
    recent = Condition("year", FilterOp.EQ, 2025)
    assert unknown(base, "minimun pasword", filters=recent) == {"minimun": "", "pasword": "password"}


def test_of_words_equally_near_the_one_that_more_texts_hold(tmp_path: Path) -> None:
    words = ("formation", "formations", "formatiom")
    with LocalBase.open(tmp_path / "base", create=True) as base:
        with base.writer() as writer:
            for place, word in enumerate((words[2], words[1], words[1])):
                chunk = Chunk(content=f"The {word} number {place}.", chunk_id=f"c{place}")
                writer.put("s", f"d{place}", f"{place}.md", str(place), [chunk])
        answer = LocalSource(base, "s").search(SourceQuery(text="formatiomx", domain="NPA", top_k=5))
        assert answer.unknown_words == (UnknownWord("formatiomx", "formatiom"),)  # one slip: before the two
        answer = LocalSource(base, "s").search(SourceQuery(text="fromations", domain="NPA", top_k=5))
        assert answer.unknown_words == (UnknownWord("fromations", "formations"),)


def test_the_first_letter_may_be_swapped_or_one_too_many(base: LocalBase) -> None:
    assert unknown(base, "apssword") == {"apssword": "password"}
    assert unknown(base, "xminimum") == {"xminimum": "minimum"}


def test_deleted_words_are_no_longer_suggested(base: LocalBase) -> None:
    assert unknown(base, "keyhodlers rotaa") == {"keyhodlers": "keyholders", "rotaa": "rota"}
    with base.writer() as writer:
        writer.delete("sop", "rota", "rota.md")
    assert unknown(base, "keyhodlers rotaa") == {"keyhodlers": "", "rotaa": ""}


def test_a_filter_brings_the_fields_of_the_source(base: LocalBase) -> None:
    source = LocalSource(base, "sop")
    wanted = Condition("ownr", FilterOp.EQ, "IT")
    fields = source.search(SourceQuery(text="password", domain="NPA", top_k=5, filters=wanted)).filter_fields
    assert fields is not None
    assert {"owner", "year", "section"} <= set(fields)
    other = LocalSource(base, "web").search(SourceQuery(text="fabric", domain="NPA", top_k=5, filters=wanted))
    assert other.filter_fields is not None
    assert "owner" not in other.filter_fields
    assert source.search(SourceQuery(text="password", domain="NPA", top_k=5)).filter_fields is None


def test_what_was_found_out_of_a_word_holds_until_the_source_is_written_to(base: LocalBase) -> None:
    for _ in range(2):
        assert unknown(base, "minimun pasword") == {"minimun": "minimum", "pasword": "password"}
        assert unknown(base, "pasword", source="web") == {"pasword": ""}
    with base.writer() as writer:
        writer.put("sop", "typo", "typo.md", "typo", [Chunk(content="The pasword of the printer.", chunk_id="typo")])
    assert unknown(base, "minimun pasword") == {"minimun": "minimum"}
    assert unknown(base, "pasword", source="web") == {"pasword": ""}


def test_what_was_found_out_of_a_word_under_a_filter_is_not_said_of_the_whole_source(base: LocalBase) -> None:
    it_alone = Condition("owner", FilterOp.EQ, "IT")
    for _ in range(2):
        assert unknown(base, "vault", filters=it_alone) == {"vault": ""}
        assert unknown(base, "vault") == {}


def test_no_more_words_are_kept_than_there_is_room_for(base: LocalBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_MOST_WORDS", 2)
    for _ in range(2):
        assert unknown(base, "pizza dough oven flour") == dict.fromkeys(("pizza", "dough", "oven", "flour"), "")
        with base._viewer.view() as view:
            assert len(view.words) <= 2


def test_capitals_of_a_question_are_no_slip(base: LocalBase) -> None:
    """A word in capitals alone is a code, of which no slip is looked for."""
    assert unknown(base, "Minimun Pasword PSWRD") == {"Minimun": "minimum", "Pasword": "password"}


def test_near_words_are_kept_while_there_is_room(base: LocalBase, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unknown(base, "minimun pasword") == {"minimun": "minimum", "pasword": "password"}
    with base._viewer.view() as view:
        assert {"m minimun", "p pasword"} <= view.near.keys()
    monkeypatch.setattr(searching, "_MOST_KEPT", 2)
    assert unknown(base, "lenght charcters") == {"lenght": "length", "charcters": "characters"}
    with base._viewer.view() as view:
        assert 1 <= len(view.near) <= 2
