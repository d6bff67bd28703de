"""Turns of a conversation that have no subject of their own, and what the Search tool makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from context_engine.apps.dify.answer import search_answer
from context_engine.apps.dify.form import read_search_form
from context_engine.core.models import Caller, Principal, Registry, SearchResult
from context_engine.core.query.follow_up import needs_subject

ROOT = Path(__file__).resolve().parents[4]

FOLLOW_UPS = """And for retail clients?|and for retail clients|what about that?|How about the second tier?|Why?
Why is that?|Who approves it?|Is it mandatory?|How long does it take?|What does that mean?|Does this also apply?
And who approves?|and then?|Tell me more|Can you elaborate?|anything else?|But what if they refuse?|Are those required?
And how long is it valid when it is sent by registered mail?|But must they be told if the card of a client is lost?
那零售客户呢？|为什么？|还有吗？|这个需要审批吗？|它是什么？
個人のお客様の場合は？|それは誰が承認しますか？|なぜですか？|では、リテールは？
E para clientes de varejo?|Por quê?|E quanto a isso?|Quem aprova isso?|E no caso de pilotos?"""

COMPLETE = """And is it allowed to lend a key to a guard?
Who approves a new product?|What are the NPA classification criteria?|What is an NPA?|NPA|limits|IT
Who approves IT changes?|Is IT involved?|And how do I report incidents?|And in Singapore, who approves new products?
Then how do I report an incident?|In which cases is a pilot allowed?|For how long are records kept?
Does the policy apply to contractors?|capital requirements
零售客户的审批限额是多少？|谁批准新产品？|风险|新商品の承認基準は何ですか？|承認基準は？|リスクとは？|承認
Quem aprova um novo produto?|Quais são os limites de aprovação para clientes de varejo?|O que é risco operacional?"""


def lines(text: str) -> list[str]:
    return [question for line in text.splitlines() for question in line.split("|")]


@pytest.mark.parametrize("question", lines(FOLLOW_UPS))
def test_a_turn_without_a_subject_needs_one(question: str) -> None:
    assert needs_subject(question)


@pytest.mark.parametrize("question", ["", "  ", "?", *lines(COMPLETE)])
def test_a_question_with_a_subject_does_not(question: str) -> None:
    assert not needs_subject(question)


def test_no_question_that_ships_with_the_package_is_suspected() -> None:
    """The 200 questions about other things than banking: a false alarm may be at most 1 in 500, so none here."""
    text = (ROOT / "context_engine/learning/out_of_scope.jsonl").read_text("utf-8")
    questions = [json.loads(line)["text"] for line in text.splitlines()]
    assert len(questions) == 200
    assert [question for question in questions if needs_subject(question)] == []


def test_a_long_text_is_no_follow_up_and_read_at_once() -> None:
    assert not needs_subject("what about that " * 600)
    assert not needs_subject("e" * 10_000 + " isso")


def form(**fields: Any) -> Any:
    given = {"query": "And for retail clients?", "domain": "NPA", **fields}
    return read_search_form(given, Registry(domains={}), Caller(), Principal(id="p"))


def test_only_a_conversation_makes_a_question_a_follow_up() -> None:
    assert [form().needs_subject, form(history="").needs_subject, form(history="  ").needs_subject] == [False] * 3
    assert form(history="user: What are the limits?").needs_subject
    assert [form(history=count).needs_subject for count in (0, 1, "1", 2, "17")] == [False, False, False, True, True]
    assert not form(history="user: What are the limits?", query="Who approves a new product?").needs_subject


def test_the_text_says_how_to_ask_and_nothing_is_guessed(ask: Callable[..., SearchResult], chunk_of: Any) -> None:
    result = ask([(1, [chunk_of("a", 0.9, "The limit is 5 %.")])])
    answer = search_answer(result, question="needs_subject")
    assert "The question does not say what it is about" in answer.text
    assert '"What are the approval limits for retail clients?"' in answer.text
    assert answer.variables["question"] == "needs_subject"
    assert (answer.variables["decision"], answer.variables["status"]) == ("incomplete", "complete")
    (notice,) = answer.variables["result"]
    assert notice["title"] == "The question needs its subject"
    assert notice["metadata"]["doc_metadata"]["notice"] is True
    assert answer.variables["warnings"] == [answer.text] and answer.json["chunks"] == []
    assert "The limit is 5 %" not in json.dumps([answer.text, answer.json, answer.variables])
    assert search_answer(result, question="needs_subject", notices=False).variables["result"] == []


def test_a_complete_question_is_answered_as_before(ask: Callable[..., SearchResult], chunk_of: Any) -> None:
    result = ask([(1, [chunk_of("a", 0.9)])])
    answer, before = search_answer(result, question="complete"), search_answer(result)
    assert answer.variables == {**before.variables, "question": "complete"}
    assert "question" not in before.variables
    assert (answer.text, answer.json) == (before.text, before.json)


def test_a_topic_before_a_dash_is_a_subject() -> None:
    assert not needs_subject("MFA - what is that?") and not needs_subject("Night keys: is it allowed?")
    assert needs_subject("And then - what about that?")
