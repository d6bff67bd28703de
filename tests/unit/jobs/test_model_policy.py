"""Policies that ask a chat model: what it may answer, what it is told, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from decimal import Decimal

import pytest

from context_engine.answer.budget import Budget, CostLimits, PriceTable, Spender, Spending
from context_engine.answer.gathering import RunLimits
from context_engine.answer.writing import Writer
from context_engine.core.models import ChatMessage, ChatPart, ChatUsage, FinishReason, Price
from context_engine.jobs.asking import ModelPolicy, TranslatingPolicy
from context_engine.jobs.rules import RuleBasedPolicy
from context_engine.jobs.workflow import WorkflowState, run
from context_engine.testing import FixedClock
from tests.unit.jobs.library import Library

QUESTION = "Who signs the mandate?"


class Answers:
    """A chat model that gives one answer after the other.

    Attributes:
        asked: the messages of each call.
    """

    name, model, max_tokens = "scripted", "scripted-1", 500

    def __init__(self, *texts: str) -> None:
        self.asked: list[Sequence[ChatMessage]] = []
        self._texts = iter(texts)

    def chat(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> Iterator[ChatPart]:
        self.asked.append(messages)
        yield ChatPart(next(self._texts))
        yield ChatPart("", FinishReason.STOP, ChatUsage(100, 20))


def decided(*texts: str, limits: RunLimits | None = None) -> tuple[WorkflowState, ModelPolicy, Answers]:
    model = Answers(*texts)
    policy = ModelPolicy(Writer(model), nonce=lambda: "0f0f0f")
    return (
        run(WorkflowState(question=QUESTION, limits=limits or RunLimits()), Library().kit(policy)),
        policy,
        model,
    )


def test_the_model_names_each_search_until_it_stops():
    state, policy, model = decided('{"search": " loss  register "}', '{"stop": true}')
    assert [(searched.why, searched.query) for searched in state.rounds] == [
        ("question", QUESTION),
        ("model", "loss register"),
    ]
    assert state.stopped == "complete"
    assert [call.usage for call in policy.calls] == [ChatUsage(100, 20)] * 2
    assert len(model.asked) == 2


def test_the_model_is_told_what_was_found_behind_a_fence():
    _, _, model = decided('{"stop": true}')
    system, told = model.asked[0]
    assert "<<<untrusted 0f0f0f" in system.content
    assert told.content.startswith("<<<untrusted 0f0f0f")
    assert told.content.endswith("0f0f0f>>>")
    assert "The head of the desk signs the mandate." in told.content


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Search for the mandate.",
        "[]",
        '{"search": ""}',
        '{"search": 3}',
        '{"stop": false}',
        '{"search": "a", "stop": true}',
        '{"search": "a", "search": "b"}',
        f'{{"search": "{"x" * 301}"}}',
    ],
)
def test_an_answer_in_another_form_ends_the_workflow(text):
    state, _, _ = decided(text)
    assert (len(state.rounds), state.stopped) == (1, "policy_failed")


def test_a_model_that_never_stops_is_stopped_by_the_limit():
    state, _, _ = decided('{"search": "loss"}', '{"search": "desk"}', '{"search": "hour"}', limits=RunLimits(rounds=3))
    assert (len(state.rounds), state.stopped) == (3, "rounds")


def test_a_model_that_never_stops_spends_no_more_than_its_limit(tmp_path):
    price = Price(
        model="scripted-1",
        valid_from=date(2026, 1, 1),
        currency="EUR",
        input_per_million=Decimal(1),
        output_per_million=Decimal(2),
    )
    budget, spender = Budget(tmp_path, PriceTable([price]), FixedClock()), Spender("r-1", "OPS")
    limit = Decimal("0.0016")
    model = Answers(*(f'{{"search": "loss {number}"}}' for number in range(20)))
    writer = Writer(model, spending=Spending(budget, spender, CostLimits(request=limit)))
    state = run(WorkflowState(question=QUESTION, limits=RunLimits(rounds=20)), Library().kit(ModelPolicy(writer)))

    assert state.stopped == "budget"
    # each call costs (100 * 1 + 20 * 2) / 1,000,000
    assert budget.spent(spender)["request"].amount == len(model.asked) * Decimal("0.00014")
    assert 1 <= len(model.asked) == len(state.rounds) - 1
    assert budget.spent(spender)["request"].amount <= limit


def translated(question: str, languages: Sequence[str], *texts: str) -> WorkflowState:
    policy = TranslatingPolicy(RuleBasedPolicy(), Writer(Answers(*texts)), languages)
    return run(WorkflowState(question=question, limits=RunLimits()), Library().kit(policy))


def test_a_question_is_searched_in_the_language_of_the_documents_too():
    state = translated("谁签署授权？", ["en"], '{"search": "Who signs the mandate?"}')
    assert [searched.query for searched in state.rounds[:2]] == ["谁签署授权？", "Who signs the mandate?"]
    assert state.rounds[1].why == "translation"
    assert [chunk.chunk_id for chunk in state.passages(1)] == ["OPS-SOP-003", "OPS-SOP-004"]


def test_a_question_in_the_language_of_the_documents_is_not_translated():
    assert len(translated(QUESTION, ["en"]).rounds) == 1


def test_a_translation_that_fails_ends_the_workflow():
    assert translated("谁签署授权？", ["en"], '{"stop": true}').stopped == "policy_failed"
