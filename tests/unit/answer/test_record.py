"""The record of an answer: what is masked in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from context_engine.answer.answering import Answerer, last_of
from context_engine.answer.composed import answer_record
from context_engine.answer.values import AnswerRefusal, Quote, Sentence, SentenceFinding, Verdict
from context_engine.answer.writing import ModelCall
from context_engine.core.models import Principal, SearchRequest
from context_engine.service.deployment import Deployment
from context_engine.settings import Setting
from context_engine.settings.layers import with_layer

QUESTION = "Within how many hours must a loss event be reported?"


def fail(_: str) -> str:
    raise AssertionError("nothing is masked here")


@pytest.fixture
def answer(bank: Deployment) -> Any:
    request = SearchRequest(query=QUESTION, domain="ORM", principal=Principal(id="clerk"))
    return last_of(Answerer(bank.engine).stream(request))


def test_a_question_is_masked_where_stored_questions_are(answer: Any) -> None:
    settings = with_layer(answer.result.settings, {"mask_stored_queries": Setting(True, "test")})
    answer.result, answer.asked = replace(answer.result, settings=settings), "And 555-0100?"
    words = answer_record(answer, lambda text: text.replace("555-0100", "X").replace("hours", "Y")).words
    assert (words["asked"], words["question"]) == ("And X?", QUESTION.replace("hours", "Y"))
    assert "hours" in words["sentences"][0]["text"], "passages are masked by their own setting"


def test_what_a_model_wrote_is_masked_with_the_question(answer: Any) -> None:
    settings = with_layer(answer.result.settings, {"mask_stored_queries": Setting(True, "test")})
    finding = SentenceFinding("number", '"555-0100" is not in the passage like this')
    quotes = (Quote("[1]", 0, 4, "555-"),)
    answer.sentences = [Sentence("Call 555-0100.", quotes, Verdict.UNSUPPORTED, 0.5, (finding,))]
    answer.result, answer.mode = replace(answer.result, settings=settings), "model"
    answer.written = ModelCall("a-model", text="Call 555-0100. [1]")
    answer.refusal = AnswerRefusal("unsupported", "Nothing about 555-0100.")
    words = answer_record(answer, lambda text: text.replace("555-0100", "X")).words
    assert (words["written"], words["masked"], words["refusal"]) == ("Call X. [1]", True, "Nothing about X.")
    assert words["sentences"][0]["text"] == "Call X."
    assert words["sentences"][0]["findings"][0]["detail"] == '"X" is not in the passage like this'
    assert words["sentences"][0]["quotes"][0]["text"] == "555-", "passages are masked by their own setting"
    assert not answer_record(answer, lambda text: text).words["masked"]


def test_elsewhere_the_mask_is_not_used(answer: Any) -> None:
    assert answer_record(answer, fail).words["question"] == QUESTION
