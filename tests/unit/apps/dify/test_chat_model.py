"""A chat model of Dify as a chat model of the engine, called here or beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from context_engine.apps.dify.chat_model import ChatChoice, DifyChat, read_chat_model
from context_engine.apps.dify.model_prompt import AskedBeforehand, PluginModel, Prompt, model_text
from context_engine.apps.dify.reranking import ModelChoice
from context_engine.core.models import ChatMessage, ChatPart, ChatUsage, FinishReason
from context_engine.core.protocols import ChatModel
from context_engine.errors import ChatModelError, InvalidRequest

SECRET = "sk-0123456789abcdef"
MESSAGES = [ChatMessage("system", "Answer."), ChatMessage("user", "How long?")]
END = ChatPart("", FinishReason.STOP, ChatUsage(7, 3))


def chat(*parts: ChatPart | Exception, **parameters: Any) -> DifyChat:
    """A model that streams these parts."""

    def ask(choice: ChatChoice, messages: Any, used: Any) -> Iterator[ChatPart]:
        for part in parts:
            if isinstance(part, Exception):
                raise part
            yield part

    return DifyChat(ChatChoice(ModelChoice("openai", "gpt"), "chat", parameters), ask)


def test_the_form_names_provider_model_mode_and_parameters() -> None:
    value = {"provider": "p", "model": "m", "mode": "completion", "completion_params": {"top_p": 1}, "other": 1}
    assert read_chat_model(value) == ChatChoice(ModelChoice("p", "m"), "completion", {"top_p": 1})
    assert read_chat_model({"provider": "p", "model": "m", "mode": None}) == ChatChoice(
        ModelChoice("p", "m"), "chat", {}
    )
    assert read_chat_model(None) is read_chat_model({}) is read_chat_model("") is None
    with pytest.raises(InvalidRequest, match=r"^model must name a provider and a model: choose one of Dify's chat"):
        read_chat_model("gpt")


def test_each_call_has_the_forms_parameters_but_its_own_length_and_temperature() -> None:
    seen: list[Any] = []
    choice = ChatChoice(ModelChoice("p", "m"), "chat", {"top_p": 0.5, "temperature": 0.9, "max_tokens": 300})
    model = DifyChat(choice, lambda *given: seen.append(given) or iter([END]))
    list(model.chat(MESSAGES, max_tokens=200))
    list(model.chat(MESSAGES, max_tokens=model.max_tokens))
    assert model.max_tokens == 300 and chat().max_tokens == chat(max_tokens=True).max_tokens == 1024
    assert [used for _, _, used in seen] == [
        {"top_p": 0.5, "temperature": 0.0, "max_tokens": 200},
        {"top_p": 0.5, "temperature": 0.0, "max_tokens": 300},
    ]
    assert isinstance(model, ChatModel) and seen[0][:2] == (choice, MESSAGES)


def test_the_texts_come_first_and_the_end_last() -> None:
    parts = list(
        chat(ChatPart("A"), ChatPart("", None, ChatUsage(7, 1)), ChatPart("b."), END).chat(MESSAGES, max_tokens=9)
    )
    assert parts == [ChatPart("A"), ChatPart("b."), ChatPart("", FinishReason.STOP, ChatUsage(7, 3))]
    assert list(chat(ChatPart("A")).chat(MESSAGES, max_tokens=9))[-1] == ChatPart("", FinishReason.OTHER, None)


def test_a_call_that_is_cancelled_asks_for_no_more() -> None:
    parts = chat(ChatPart("A"), ValueError(), END).chat(MESSAGES, max_tokens=9, cancelled=lambda: True)
    assert list(parts) == [ChatPart("A"), ChatPart("", FinishReason.CANCELLED)]


def test_a_failure_shows_its_type_alone_and_keeps_what_came_before() -> None:
    parts = chat(ChatPart("A", None, ChatUsage(7, 1)), ValueError(SECRET)).chat(MESSAGES, max_tokens=9)
    with pytest.raises(ChatModelError) as raised:
        list(parts)
    assert str(raised.value).startswith("gpt could not be called (ValueError)") and SECRET not in str(raised.value)
    assert (raised.value.text, raised.value.usage, raised.value.__context__) == ("A", ChatUsage(7, 1), None)


@pytest.mark.parametrize(
    "parts",
    [
        (ChatPart("A "), ChatPart("b."), END),
        (END,),
        (ChatPart("A", FinishReason.LENGTH),),
        (ChatPart("A"), ValueError(SECRET)),
        (ValueError(SECRET),),
    ],
)
def test_what_was_asked_beforehand_is_told_as_the_model_told_it(parts: Any) -> None:
    def told(model: ChatModel) -> tuple[Any, ...]:
        text, end = "", ChatPart()
        try:
            for part in model.chat(MESSAGES, max_tokens=9):
                text, end = text + part.text, part
        except ChatModelError as error:
            return text, error.text, error.usage, str(error)
        return text, end.finish, end.usage

    model = chat(*parts)
    prompt = Prompt.of("s-1", MESSAGES)
    wrote = model_text(model, Prompt.model_validate(prompt.model_dump(mode="json")))
    named = PluginModel(name=model.name, max_tokens=model.max_tokens, wrote=wrote)
    again = PluginModel.model_validate_json(named.model_dump_json())
    assert again.wrote is not None and again.wrote.search_id == "s-1"
    stand_in = AskedBeforehand(again, again.wrote)
    assert told(stand_in) == told(model)
    assert (stand_in.name, stand_in.max_tokens) == (model.name, model.max_tokens)
