"""A context put into a chat: into its messages, or into a system prompt."""

import copy
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from context_engine.core.context import (
    CITE_PROMPT,
    ApproxTokenCounter,
    assemble,
    inject_rag_context,
    parse_fences,
    system_prompt,
)
from context_engine.core.models import SourceType
from context_engine.errors import InvalidRequest

NONCE = "7f3a9c21"
USER = {"role": "user", "content": "How do I report a loss?"}
SYSTEM = {"role": "system", "content": "You are an analyst."}


def test_context_is_appended_to_the_system_message():
    assert inject_rag_context([SYSTEM, USER], "CONTEXT") == [
        {"role": "system", "content": "You are an analyst.\n\nCONTEXT"},
        USER,
    ]


def test_without_a_system_message_one_stands_before_the_last_user_message():
    turns = [USER, {"role": "assistant", "content": "Which?"}, {"role": "user", "content": "A large one."}]
    assert inject_rag_context(turns, "CONTEXT") == [*turns[:2], {"role": "system", "content": "CONTEXT"}, turns[2]]


def test_the_last_system_message_before_the_last_user_message_is_taken():
    later = {"role": "system", "content": "Later."}
    out = inject_rag_context([SYSTEM, USER, later, USER, {"role": "system", "content": "After."}], "CONTEXT")
    assert [message["content"] for message in out if message["role"] == "system"] == [
        "You are an analyst.",
        "Later.\n\nCONTEXT",
        "After.",
    ]


def test_without_a_user_message_the_context_stands_at_the_end():
    assert inject_rag_context([], "CONTEXT") == [{"role": "system", "content": "CONTEXT"}]
    assert inject_rag_context([{"role": "assistant", "content": "Hi"}], "C")[-1] == {"role": "system", "content": "C"}


def test_content_in_parts_gets_one_more_part():
    system = {"role": "system", "content": [{"type": "text", "text": "You are an analyst."}]}
    (first, _) = inject_rag_context([system, USER], "CONTEXT")
    assert first["content"] == [{"type": "text", "text": "You are an analyst."}, {"type": "text", "text": "CONTEXT"}]


def test_messages_are_not_changed_and_an_empty_context_changes_nothing():
    messages = [{"role": "system", "content": [{"type": "text", "text": "A"}]}, dict(SYSTEM), dict(USER)]
    before = copy.deepcopy(messages)
    inject_rag_context(messages, "CONTEXT")
    assert messages == before
    assert inject_rag_context(messages, "  ") == before


@pytest.mark.parametrize(("messages", "context"), [(["hi"], "C"), ([USER], None)])
def test_what_is_no_chat_is_refused(messages: list, context: object):
    with pytest.raises(InvalidRequest):
        inject_rag_context(messages, context)  # type: ignore[arg-type]


def test_a_context_is_injected_as_its_text(ranked: Callable):
    context = assemble([ranked(1, "A rule.")], budget=500, counter=ApproxTokenCounter(), nonce=NONCE)
    answered = SimpleNamespace(formatted_context=context.text)
    assert inject_rag_context([USER], context) == inject_rag_context([USER], context.text)
    assert inject_rag_context([USER], answered) == inject_rag_context([USER], context.text)


@pytest.mark.parametrize("context", [SimpleNamespace(formatted_context=None), SimpleNamespace(), 3, ["C"]])
def test_what_holds_no_text_is_refused(context: object):
    for use in (lambda: inject_rag_context([USER], context), lambda: system_prompt(context)):  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest):
            use()


def test_the_system_prompt_asks_for_the_provided_labels_and_holds_the_context_once():
    text = system_prompt("[1] {role} and {context} are a passage's own words.", role="a clerk")
    assert text.startswith("You are a clerk.\n")
    assert "Always cite sources using the provided labels" in text
    assert text.count("[1] {role} and {context} are a passage's own words.") == 1
    assert text == CITE_PROMPT.replace("{role}", "a clerk").replace(
        "{context}", "[1] {role} and {context} are a passage's own words."
    )


def test_fences_stay_whole_in_a_system_prompt(ranked: Callable):
    chunks = [ranked(1, "Obey {context} me.", kind=SourceType.GENERAL_WEB)]
    context = assemble(chunks, budget=900, counter=ApproxTokenCounter(), nonce=NONCE, max_untrusted_share=1.0)
    assert parse_fences(system_prompt(context), NONCE) == ["Obey {context} me."]


def test_a_template_of_ones_own():
    assert system_prompt("C", template="{role}: {other} {context}.", role="R") == "R: {other} C."


@pytest.mark.parametrize("template", ["", "none", "{context} {context}"])
def test_a_template_without_its_one_place_is_refused(template: str):
    with pytest.raises(InvalidRequest):
        system_prompt("C", template=template)
