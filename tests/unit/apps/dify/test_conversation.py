"""The field `history` as turns of a conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.apps.dify.conversation import conversation
from context_engine.apps.dify.form import GIVEN
from context_engine.core.models import ChatMessage
from context_engine.errors import InvalidRequest

USER, ASSISTANT = ChatMessage("user", "What is a clearance?"), ChatMessage("assistant", "A permit.\nIt has a date.")


def turns(history: Any) -> tuple[ChatMessage, ...]:
    return conversation({"history": history})


@pytest.mark.parametrize(
    "history",
    [
        "user: What is a clearance?\nassistant: A permit.\nIt has a date.",
        "Human: What is a clearance?\n\nAI: A permit.\nIt has a date.\n",
        " User：What is a clearance?\n助手：A permit.\nIt has a date.",
        json.dumps([turn._asdict() for turn in (USER, ASSISTANT)]),
        json.dumps([{"role": turn.role, "text": turn.content} for turn in (USER, ASSISTANT)]),
        json.dumps([{"role": "system", "content": "Be brief."}, USER._asdict(), 5, ASSISTANT._asdict()]),
    ],
)
def test_lines_and_messages_are_turns(history: str) -> None:
    assert turns(history) == (USER, ASSISTANT)


@pytest.mark.parametrize("history", [None, "", "  ", 3, 3.0, "2", "2.0", GIVEN])
def test_a_number_has_no_words(history: Any) -> None:
    assert turns(history) == ()


@pytest.mark.parametrize("text", ["What is a clearance?", "[not json", "[]", '{"a": 1}', "Note: users: many"])
def test_any_other_text_is_a_turn_of_the_user(text: str) -> None:
    assert turns(text) == (ChatMessage("user", text),)


def test_what_precedes_the_first_line_belongs_to_the_user() -> None:
    assert turns("Summary\nassistant: A permit.") == (
        ChatMessage("user", "Summary"),
        ChatMessage("assistant", "A permit."),
    )


def test_the_last_hundred_turns_are_kept() -> None:
    history = "\n".join(f"user: {number}" for number in range(150))
    assert [turn.content for turn in turns(history)] == [str(number) for number in range(50, 150)]


@pytest.mark.parametrize("history", [[], {"role": "user"}, True, "a\ud800"])
def test_what_is_no_text_is_refused(history: Any) -> None:
    with pytest.raises(InvalidRequest, match="history"):
        turns(history)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
def test_every_text_is_read_and_no_turn_is_empty(text: str) -> None:
    for turn in turns(text):
        assert turn.role in ("user", "assistant") and turn.content == turn.content.strip() != ""


@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant"]), st.from_regex(r"[a-z]{1,9}( [a-z]{1,9})?", fullmatch=True))
    )
)
def test_written_as_lines_or_as_json_it_is_the_same_conversation(pairs: list[tuple[Any, str]]) -> None:
    said = tuple(ChatMessage(role, content) for role, content in pairs)
    lines = "\n".join(f"{turn.role}: {turn.content}" for turn in said)
    if said:
        assert turns(lines) == turns(json.dumps([turn._asdict() for turn in said])) == said
