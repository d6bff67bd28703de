"""Whatever a server does, an answer has an end, no text is lost, its tokens are counted and no key is shown."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import pytest

from context_engine.core.models import ChatMessage, ChatPart, ChatUsage, FinishReason
from context_engine.core.protocols import ChatModel
from context_engine.errors import ChatModelError

KEY = "sk-Harbour0123456789Zq"
QUESTION = (ChatMessage("system", "Answer from the rules."), ChatMessage("user", "Who approves a limit?"))
STOPPED = ChatPart("", FinishReason.STOP, ChatUsage(10, 5))
ASKED = 4 + 5 + 4 + 5
"""Tokens of the question by our own count: four for each message, and its words and marks."""


@pytest.fixture(autouse=True)
def no_key_in_any_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG):
        yield
    assert KEY not in caplog.text


def failed(parts: Iterator[ChatPart]) -> tuple[ChatModelError, str]:
    """Return the error of an answer and the text that came before it."""
    texts = []
    with pytest.raises(ChatModelError) as caught:
        for part in parts:
            texts.append(part.text)
    error = caught.value
    shown = repr(error) + str(error) + repr(vars(error)) + repr(error.to_dict())
    assert KEY not in shown
    assert error.__cause__ is None and error.__context__ is None
    return error, "".join(texts)


def test_a_stream_is_its_pieces_and_their_end(spoken: Any, model: Any, ask: Any, chat_server: Any) -> None:
    chat_server.will(spoken.stream("The desk ", "head."))
    chat = model(spoken.name)
    assert isinstance(chat, ChatModel)
    assert ask(chat) == [ChatPart("The desk "), ChatPart("head."), STOPPED]
    assert len(chat_server.requests) == 1


def test_characters_cut_by_the_network_are_whole(spoken: Any, model: Any, ask: Any, chat_server: Any) -> None:
    whole = b"".join(spoken.stream("Limit 5 %, «风险»"))
    chat_server.will([whole[place : place + 1] for place in range(len(whole))])
    assert ask(model(spoken.name)) == [ChatPart("Limit 5 %, «风险»"), STOPPED]


def test_lines_of_another_system_and_comments(spoken: Any, model: Any, ask: Any, chat_server: Any) -> None:
    whole = b"".join(spoken.stream("yes")).replace(b"\n", b"\r\n")
    chat_server.will([b": alive\r\n\r\n", whole])
    assert ask(model(spoken.name)) == [ChatPart("yes"), STOPPED]


def test_the_limit_of_tokens_is_told(spoken: Any, model: Any, ask: Any, chat_server: Any) -> None:
    end = {"finish": "length"} if spoken.name == "openai" else {"stop": "max_tokens"}
    chat_server.will(spoken.stream("The desk", **end))
    assert ask(model(spoken.name))[-1].finish is FinishReason.LENGTH


@pytest.mark.parametrize("piece", ["stall", "cut", "nothing", "no json", "failure"])
def test_what_ends_an_answer_too_early_is_an_error_that_holds_the_text(
    spoken: Any, model: Any, chat_server: Any, chats: Any, piece: str
) -> None:
    ends = {
        "stall": [chats.STALL],
        "cut": [chats.CUT],
        "nothing": [],
        "no json": [b'data: {"choi\n\n', chats.STALL],
        "failure": [spoken.failure(f"{KEY} is overloaded"), chats.STALL],
    }
    chat_server.will([spoken.piece("The desk "), spoken.piece("head"), *ends[piece]])
    error, text = failed(model(spoken.name, silence_s=0.5).chat(QUESTION, max_tokens=50))
    assert error.text == text == "The desk head"
    assert error.to_dict()["truncated"] is True
    assert error.usage == ChatUsage(ASKED, 3, estimated=True)
    assert len(chat_server.requests) == 1  # what has begun is not asked again


@pytest.mark.slow
def test_a_server_that_says_nothing_is_left_after_the_first_wait(
    spoken: Any, model: Any, chat_server: Any, chats: Any
) -> None:
    chat_server.will([chats.STALL])
    error, text = failed(model(spoken.name, first_s=0.5, attempts=2).chat(QUESTION, max_tokens=50))
    assert "127.0.0.1 was silent for 0.5 s" in str(error)
    assert (error.retryable, text, error.usage) == (True, "", None)
    assert len(chat_server.requests) == 2
    assert chat_server.left.acquire(timeout=10)


@pytest.mark.slow
def test_a_server_that_is_slow_is_left_when_the_whole_time_is_up(
    spoken: Any, model: Any, chat_server: Any, chats: Any
) -> None:
    chat_server.will([spoken.piece("word "), 0.05, *[spoken.piece("word "), 0.05] * 200])
    error, text = failed(model(spoken.name, total_s=0.8).chat(QUESTION, max_tokens=50))
    assert "did not answer in time" in str(error)
    assert error.text == text
    assert set(text.split()) == {"word"}
    assert chat_server.left.acquire(timeout=10)


def test_an_answer_without_end_is_cut_at_its_bytes(spoken: Any, model: Any, chat_server: Any, chats: Any) -> None:
    chat_server.will([spoken.piece("a" * 100_000), chats.FOR_EVER])
    error, text = failed(model(spoken.name).chat(QUESTION, max_tokens=50))
    assert "longer than 1 MiB" in str(error)
    assert error.text == text == "a" * 10 * 100_000  # the eleventh ends after 1,048,576 bytes
    assert chat_server.left.acquire(timeout=10)


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_a_server_without_room_is_asked_again_after_the_pause_that_it_asks_for(
    spoken: Any, model: Any, ask: Any, chat_server: Any, chats: Any, clock: Any, status: int
) -> None:
    busy = chats.as_json({"error": {"message": KEY}}, status, retry_after="7")
    chat_server.will(busy, spoken.stream("yes"))
    begun = clock.monotonic()
    assert ask(model(spoken.name)) == [ChatPart("yes"), STOPPED]
    assert clock.monotonic() - begun >= 7.0
    assert len(chat_server.requests) == 2


def test_a_failure_before_the_first_piece_is_asked_again(
    spoken: Any, model: Any, ask: Any, chat_server: Any, chats: Any
) -> None:
    chat_server.will([spoken.failure("busy")], [chats.CUT], spoken.stream("yes"))
    assert ask(model(spoken.name)) == [ChatPart("yes"), STOPPED]
    assert len(chat_server.requests) == 3


@pytest.mark.parametrize(
    ("status", "words"), [(400, "refused the request"), (401, "key was refused"), (404, "knows no")]
)
def test_a_refusal_is_not_asked_again(
    spoken: Any, model: Any, chat_server: Any, chats: Any, status: int, words: str
) -> None:
    chat_server.will(chats.as_json({"error": {"message": f"key {KEY}"}}, status))
    error, _ = failed(model(spoken.name).chat(QUESTION, max_tokens=50))
    assert words in str(error)
    assert not error.retryable
    assert len(chat_server.requests) == 1


def test_a_pause_that_does_not_fit_is_not_waited_out(
    spoken: Any, model: Any, chat_server: Any, chats: Any, clock: Any
) -> None:
    chat_server.will(chats.as_json({}, 429, retry_after="400"))
    error, _ = failed(model(spoken.name, total_s=300).chat(QUESTION, max_tokens=50))
    assert "it asks for a pause of 400 s" in str(error)
    assert clock.slept == []


@pytest.mark.parametrize("counts", [(-1, 5), (10, 10**12), ("ten", 5), (10.5, 5), (True, 5), (10, 0), (0, 5)])
def test_counts_that_cannot_be_are_replaced_by_our_own(
    spoken: Any, model: Any, ask: Any, chat_server: Any, counts: Any
) -> None:
    chat_server.will(spoken.stream("The desk head", usage=counts))
    parts = ask(model(spoken.name))
    assert parts[0].text == "The desk head"
    wrong_start = spoken.name == "anthropic" and counts == (10, 0)  # the first event's count of 1 then stands
    expected = ChatUsage(10, 1) if wrong_start else ChatUsage(ASKED, 3, estimated=True)
    assert parts[-1] == ChatPart("", FinishReason.STOP, expected)


def test_an_end_without_its_last_mark_is_an_end(
    spoken: Any, model: Any, ask: Any, chat_server: Any, chats: Any
) -> None:
    for last in ([], [chats.CUT], [b"data: {\n\n"]):
        chat_server.will([*spoken.stream("yes", done=False), *last])
        assert ask(model(spoken.name)) == [ChatPart("yes"), STOPPED]


def test_a_consumer_that_has_enough_ends_the_call(spoken: Any, model: Any, chat_server: Any, chats: Any) -> None:
    chat_server.will([spoken.piece("one "), spoken.piece("two "), chats.STALL])
    parts = model(spoken.name).chat(QUESTION, max_tokens=50)
    assert next(parts).text == "one "
    parts.close()
    assert chat_server.left.acquire(timeout=10)


def test_a_call_cancelled_while_it_waits_ends_and_says_what_it_used(
    spoken: Any, model: Any, chat_server: Any, chats: Any
) -> None:
    came = list[str]()
    chat_server.will([spoken.piece("The desk "), chats.STALL])
    for part in model(spoken.name).chat(QUESTION, max_tokens=50, cancelled=lambda: bool(came)):
        came.append(part.text)
        last = part
    assert came == ["The desk ", ""]
    assert last == ChatPart("", FinishReason.CANCELLED, ChatUsage(ASKED, 2, estimated=True))
    assert chat_server.left.acquire(timeout=10)


def test_a_call_cancelled_before_it_begins_asks_nobody(spoken: Any, model: Any, ask: Any, chat_server: Any) -> None:
    (last,) = ask(model(spoken.name), cancelled=lambda: True)
    assert (last.finish, chat_server.requests) == (FinishReason.CANCELLED, [])


def test_a_call_cancelled_in_a_pause_is_not_repeated(
    spoken: Any, model: Any, ask: Any, chat_server: Any, chats: Any, clock: Any
) -> None:
    chat_server.will(chats.as_json({}, 429, retry_after="60"))
    (last,) = ask(model(spoken.name), cancelled=lambda: sum(clock.slept) > 5)
    assert last.finish is FinishReason.CANCELLED
    assert 5 < sum(clock.slept) < 60
    assert len(chat_server.requests) == 1


def test_calls_at_once_do_not_mix(spoken: Any, model: Any, chat_server: Any) -> None:
    chat = model(spoken.name)
    chat_server.will(spoken.stream(*"abc"))
    first, second = (chat.chat(QUESTION, max_tokens=50) for _ in range(2))
    texts = [(next(first).text, next(second).text) for _ in range(3)]
    assert texts == [("a", "a"), ("b", "b"), ("c", "c")]
    assert list(takewhile(bool, first)) == list(second) == [STOPPED]
