"""An answer by a workflow over a small bank: from several documents, recorded, shown and replayed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from context_engine.answer.answering import last_of
from context_engine.answer.asking import answer_events, answer_question, answerer_of
from context_engine.answer.composed import Answer
from context_engine.answer.contract import AnswerRequest, response_of
from context_engine.answer.replay import replay_answer
from context_engine.apps.cli.audit.show import _searches
from context_engine.apps.mcp.answer import answer as assistant_answer
from context_engine.apps.mcp.answers import CheckedAnswer
from context_engine.apps.mcp.arguments import AnswerArguments
from context_engine.apps.mcp.reply import Call
from context_engine.audit.ledger.costs import _uses
from context_engine.audit.record.entry import read_entry
from context_engine.audit.review.account import account_of
from context_engine.audit.review.stored import find_record, recorded_result
from context_engine.core.context import ApproxTokenCounter
from context_engine.core.models import Authenticated, Caller, SearchRequest, Settings
from context_engine.errors import InvalidRequest
from context_engine.insight.gaps import _asked
from context_engine.jobs.asking import finder_of, workflow_finder
from context_engine.jobs.rules import changed_decision, replayed
from context_engine.service.deployment import Deployment
from context_engine.wiring.audit_writers import close_writers
from tests.unit.jobs.test_model_policy import Answers
from tests.unit.service.small_bank import CLERK, small_bank

pytestmark = pytest.mark.slow
DOCUMENTS = {
    "rules/losses.md": "# 1 Losses\n\nA loss event must be reported to Operational Risk within 24 hours.\n",
    "rules/travel.md": "# 1 Travel\n\nBusiness travel is booked by the travel office.\n",
    "board/minutes.md": "# 1 Minutes\n\nThe board wants each loss event reported to its chair first.\n",
    "web/losses.txt": "Somebody on the web says that losses need no report.\n",
}
QUESTION = "Within how many hours must a loss event be reported, and who books business travel?"


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    settings = {"audit": {"audit_mode": "required", "audit_timeout_s": 60.0}, "answers": {"workflow_rounds": 4}}
    deployment = small_bank(tmp_path_factory.mktemp("bank"), documents=DOCUMENTS, settings=settings)
    yield deployment
    deployment.close()
    close_writers()


def request(**fields: object) -> AnswerRequest:
    return AnswerRequest.model_validate({"query": QUESTION, "domain": "ORM", "workflow": "agentic", **fields})


def answered(bank: Deployment, **fields: object) -> Answer:
    asked = request(**fields)
    return last_of(answer_events(bank, asked, principal=CLERK, caller=Caller(), finder=finder_of(bank, asked)))


def test_each_part_is_answered_from_its_own_document(bank):
    answer = answered(bank)
    texts = " ".join(sentence.text for sentence in answer.shown)
    assert "within 24 hours" in texts
    assert "travel office" in texts
    assert [chunk.rank for chunk in answer.result.chunks] == list(range(1, len(answer.result.chunks) + 1))


def test_the_searches_are_published_in_order(bank):
    asked = request()
    response = answer_question(bank, asked, principal=CLERK, caller=Caller(), finder=finder_of(bank, asked))
    assert response.workflow is not None
    assert [searched.why for searched in response.workflow.rounds] == ["question", "part", "part"]
    assert response.search_id == response.workflow.rounds[0].search_id
    assert {passage.round for passage in response.workflow.passages} <= {1, 2, 3}
    assert {citation.citation_label for citation in response.citations} <= {
        passage.label for passage in response.workflow.passages
    }
    assert all(bank.kept.holds(CLERK, searched.search_id) for searched in response.workflow.rounds)


def test_only_the_search_for_the_question_counts_as_one_of_the_caller(bank):
    answer, ledger = answered(bank), bank.ledger.opened()
    first, *further = [searched.search_id for searched in answer.gathering.rounds]
    parts = [read_entry(find_record(ledger, each).entry).get("part_of") for each in (first, *further, answer.answer_id)]
    assert parts == [None, *[first] * len(further), None]
    assert len(further) >= 2


def test_a_part_without_an_answer_is_named(bank):
    answer = answered(bank, query="Within how many hours must a loss event be reported, and who paints the office?")
    assert "No sentence answers this part: who paints the office." in answer.warnings


def test_the_answer_replays_from_its_record(bank):
    answer = answered(bank)
    ledger = bank.ledger.opened()
    record = find_record(ledger, answer.answer_id)
    again = replay_answer(ledger, answer.answer_id, counter=lambda _: ApproxTokenCounter(), decided=changed_decision)
    assert (again.identical, again.explanation) == (True, "")
    assert again.sentences == len(answer.sentences)

    lines = _searches(account_of(record.entry, record.index, ledger))
    assert len(lines) == len(answer.gathering.rounds) + 1
    assert lines[-1].startswith("stopped: ")
    results = [
        recorded_result(ledger, searched.search_id, find_record(ledger, searched.search_id).entry, None)
        for searched in answer.gathering.rounds
    ]
    assert replayed(answer.gathering, results).rounds == answer.gathering.rounds


def test_a_step_that_would_be_another_one_is_told(bank):
    answer = answered(bank)
    again = replay_answer(
        bank.ledger.opened(),
        answer.answer_id,
        counter=lambda _: ApproxTokenCounter(),
        decided=lambda gathering, results: "another step",
    )
    assert (again.identical, again.explanation) == (False, "another step")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"rounds": 5}, "rounds may be at most 4"),
        ({"workflow": None, "rounds": 2}, "rounds are for the agentic workflow"),
        ({"compare": True}, "a comparison is of one search"),
    ],
)
def test_what_a_workflow_cannot_do_is_refused(bank, fields, problem):
    with pytest.raises(InvalidRequest, match=problem):
        answered(bank, **fields)


def test_what_a_model_was_asked_to_decide_is_recorded_and_counted(bank, monkeypatch):
    settings = Settings(workflow="agentic", workflow_policy="model", workflow_languages=("de",))
    monkeypatch.setattr("context_engine.jobs.asking.settings_of", lambda *_: settings)
    model = Answers('{"search": "Wann wird ein Schaden gemeldet?"}', '{"stop": true}', "NO ANSWER")
    answerer = answerer_of(bank, use_model=True, policy=None, model=model)
    asked = SearchRequest(query=QUESTION, domain="ORM", principal=CLERK)
    find = workflow_finder(bank, workflow=None, rounds=None)(asked, answerer.writer)
    answer = last_of(answerer.stream(asked, find=find))

    assert [searched.why for searched in answer.gathering.rounds] == ["question", "translation"]
    assert (answer.gathering.policy, answer.gathering.stopped) == ("model+translation", "complete")
    usage = response_of(answer).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (3 * 100, 3 * 20)
    record = find_record(bank.ledger.opened(), answer.answer_id)
    uses = list(_uses(read_entry(record.entry)))
    assert [(use.model, use.input_tokens) for use in uses] == [("scripted", 100)] * 3


def test_an_assistant_is_told_what_was_searched(bank):
    caller = Authenticated(principal=CLERK, operator=False)
    arguments = AnswerArguments(question=QUESTION, domain="ORM", workflow="agentic")
    reply = assistant_answer(Call(bank, caller, None), arguments)
    assert isinstance(reply.content, CheckedAnswer)
    assert reply.content.searches[0] == QUESTION
    assert f"Searched: {QUESTION}" in reply.text


def test_the_steps_of_a_workflow_are_nobodys_questions(bank):
    answer = answered(bank)
    first, *others = [searched.search_id for searched in answer.gathering.rounds]
    since = datetime.now(UTC) - timedelta(days=1)
    ledger = bank.ledger.opened()
    asked = {question.search_id for question in _asked(ledger, "ORM", since)}
    assert first in asked
    assert not asked.intersection(others)


def test_one_search_is_the_default(bank):
    assert answered(bank, workflow=None).gathering is None


def test_a_question_of_another_subject_is_refused(bank):
    answer = answered(bank, query="Who won the football world cup in 1998?")
    assert answer.refusal is not None
    assert answer.shown == ()
