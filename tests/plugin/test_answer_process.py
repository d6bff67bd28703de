"""The tool `answer` as Dify runs it: the real process, with a chat model of Dify that streams."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytestmark = pytest.mark.slow

QUESTION = "How long is a host clearance valid?"
TRUE = "A host clearance is valid for 18 months {valid for 18 months}. "
FALSE = "A host clearance is valid for 36 months {valid for 18 months}. "


@pytest.fixture
def answer(plugin: Any, credentials: Any, chat_model: Any) -> Any:
    """Ask the plugin; with pieces, Dify's model writes them."""

    def ask(*pieces: str | Exception, query: str = QUESTION, **fields: Any) -> tuple[Any, Any]:
        stand_in = chat_model.StreamingModel(*pieces)
        chosen = {"model": chat_model.CHOICE} if pieces else {}
        given = {"query": query, "domain_name": "NPA", **chosen, **fields}
        return plugin.invoke("answer", given, credentials, backwards=stand_in), stand_in

    return ask


def streamed(reply: Any) -> list[str]:
    """The chunks of the variable `answer`."""
    return [one["variable_value"] for one in reply.of("variable") if one["variable_name"] == "answer" and one["stream"]]


def test_without_a_model_sentences_are_quoted(answer: Any) -> None:
    reply, stand_in = answer()
    variables = reply.variables
    assert stand_in.asked == [] and reply.json["mode"] == "extractive"
    assert (variables["refused"], variables["decision"], variables["question"]) == ("", "answered", "complete")
    assert "".join(streamed(reply)) == reply.text and "valid for 18 months" in reply.text
    first = variables["sentences"][0]
    assert first["verdict"] == "supported" and first["quotes"][0]["text"] in str(variables["result"])
    assert reply.json["caller"]["app"] == "app-7" and variables["answer_id"]


def test_a_model_of_dify_writes_and_only_checked_sentences_come(answer: Any) -> None:
    reply, stand_in = answer("A host clearance is val", "id for 18 months {valid for 18 months}. ", FALSE)
    assert len(streamed(reply)) == 1 and "18 months" in reply.text and "36 months" not in str(reply.messages)
    (asked,) = stand_in.asked
    assert (asked["provider"], asked["model"], asked["mode"], asked["stream"]) == (
        "langgenius/openai/openai", "gpt-4o-mini", "chat", True,
    )  # fmt: skip
    assert asked["completion_params"] == {"top_p": 0.5, "temperature": 0.0, "max_tokens": 1024}
    assert [message["role"] for message in asked["prompt_messages"]] == ["system", "user"]
    assert reply.json["mode"] == "model" and reply.json["withheld"] == 1
    usage = reply.json["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["estimated"]) == (100, 20, False)


def test_a_sentence_comes_before_the_model_has_ended(answer: Any) -> None:
    reply, _ = answer(TRUE, "A host clearance names the product, the segment and the channel {valid for 18 months}.")
    first, second = streamed(reply)
    assert "18 months" in first and second.startswith(" ") and first + second == reply.text


def test_nothing_supported_is_refused_in_the_language_of_the_reader(answer: Any) -> None:
    reply, _ = answer(FALSE, language="ja_JP")
    assert reply.variables["refused"] == "unsupported" and reply.variables["sentences"] == []
    assert "36" not in reply.text and "モデル" in reply.text
    assert streamed(reply) == [reply.text]


def test_a_model_that_fails_is_replaced_by_quotes(answer: Any) -> None:
    reply, _ = answer(ValueError("permission denied"))
    assert reply.json["mode"] == "extractive" and "valid for 18 months" in reply.text
    assert "gpt-4o-mini could not be called" in reply.variables["warnings_text"]
    assert "permission denied" not in str(reply.messages)


def test_a_follow_up_is_written_from_the_conversation(
    answer: Any, plugin: Any, credentials: Any, chat_model: Any
) -> None:
    replies = iter([("How long is a host clearance valid?",), (TRUE,)])
    stand_ins = []

    def backwards(kind: str, request: Any) -> Any:
        stand_ins.append(chat_model.StreamingModel(*next(replies)))
        return stand_ins[-1](kind, request)

    history = "user: What is a host clearance?\nassistant: A permit of Compliance."
    fields = {
        "query": "And how long is it valid?",
        "domain_name": "NPA",
        "model": chat_model.CHOICE,
        "history": history,
    }
    reply = plugin.invoke("answer", fields, credentials, backwards=backwards)
    assert reply.variables["searched"] == QUESTION and reply.json["asked"] == fields["query"]
    assert "18 months" in reply.text
    assert "What is a host clearance?" in stand_ins[0].asked[0]["prompt_messages"][1]["content"]
    reply, _ = answer(query="And for retail clients?", history="2")
    assert (reply.variables["refused"], reply.variables["question"]) == ("no_subject", "needs_subject")
    assert reply.variables["citations"] == []


def test_a_looser_treatment_than_configured_fails_the_node(answer: Any, driver: Any) -> None:
    with pytest.raises(driver.Failed, match=r"^InvalidRequest: InvalidRequest: unsupported may not be 'show'"):
        answer(unsupported="show")


def test_a_missing_register_refuses_the_answer(answer: Any, dify: Any, driver: Any) -> None:
    dify.inject("status_500", dataset="npa_product_register", endpoint="retrieve")
    reply, _ = answer()
    variables = reply.variables
    assert [variables[name] for name in ("refused", "decision", "status")] == ["incomplete", "incomplete", "degraded"]
    reply, _ = answer(register_required=False)
    assert reply.variables["refused"] == "" and "(tier 1) did not answer" in reply.variables["warnings_text"]
    with pytest.raises(driver.Failed, match=r"^SourceMissing: SourceMissing: search "):
        answer(if_source_missing="fail")


def test_ten_at_once(answer: Any) -> None:
    def ask(number: int) -> tuple[Any, Any]:
        return answer("A host clearance is val", f"id for 18 months {{valid for 18 months}}. No {number}.", top_k=8)

    with ThreadPoolExecutor(10) as pool:
        replies = list(pool.map(ask, range(10)))
    assert {len(stand_in.asked) for _, stand_in in replies} == {1}
    assert {reply.text for reply, _ in replies} == {replies[0][0].text} and "18 months" in replies[0][0].text
    assert len({reply.variables["answer_id"] for reply, _ in replies}) == 10
