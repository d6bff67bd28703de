"""The tool `answer` over a small bank: what is streamed, what is given back, and a model that is called elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("fastapi")

from context_engine.answer.answering import Answerer, Stated, last_of
from context_engine.answer.conflicts import Conflict, ConflictDifference, Side
from context_engine.answer.values import AnswerRefusal, Quote, Sentence, Verdict
from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.answering import AnswerCall, answer_output, output_of, stated_text
from context_engine.apps.dify.form import SearchForm, read_search_form
from context_engine.apps.dify.model_prompt import ModelTokens, PluginModel, Prompt, Rewriting, model_text
from context_engine.audit.record.entry import read_entry
from context_engine.audit.review.stored import find_record
from context_engine.core.models import Caller, Principal, SearchRequest
from context_engine.errors import ChatModelError, CursorExpired, InvalidRequest, UnknownDomain
from context_engine.service.deployment import Deployment
from context_engine.wiring.audit_writers import close_writers
from tests.unit.answer.conftest import DOCUMENTS, ScriptedModel
from tests.unit.service.small_bank import CHAIR, CLERK, small_bank

QUESTION = "Within how many hours must a loss event be reported?"
TRUE = "A loss event above EUR 5,000 must be reported to Operational Risk within 24 hours [1]. "
FALSE = "A loss event above EUR 5,000 must be reported to Operational Risk within 72 hours [1]. "
FIELDS = {"query": QUESTION, "domain_name": "ORM", "filter": "source_id=sops"}
IDS = ("search_id", "answer_id")


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    settings = {"audit": {"audit_mode": "required", "audit_timeout_s": 60.0}}
    deployment = small_bank(tmp_path_factory.mktemp("bank"), documents=DOCUMENTS, settings=settings)
    yield deployment
    deployment.close()
    close_writers()


def call(bank: Deployment, principal: Principal = CLERK, **fields: Any) -> AnswerCall:
    caller = Caller(principal="u", app="a")
    return AnswerCall(deployment=bank, fields={**FIELDS, **fields}, caller=caller, principal=principal)


def elsewhere(bank: Deployment, model: ScriptedModel, **fields: Any) -> ToolOutput:
    """Answer in two steps, as a plugin does whose server cannot reach the model."""
    plugin = PluginModel(name=model.name, max_tokens=model.max_tokens)
    first = call(bank, **fields).prepared(plugin)
    if isinstance(first, ToolOutput):
        return first
    return call(bank, **fields).completed(plugin, model_text(model, first))


class TestOutput:
    def test_the_streamed_texts_are_the_answer(self, bank: Deployment) -> None:
        *texts, output = call(bank).answered(None)
        assert isinstance(output, ToolOutput) and texts
        assert "".join(map(str, texts)) == output.variables["answer"] == output.text
        assert "within 24 hours" in output.text

    def test_its_variables_agree(self, bank: Deployment) -> None:
        variables = output_of(call(bank).answered(None)).variables
        first = variables["sentences"][0]
        assert set(first) == {"text", "verdict", "labels", "quotes"} and first["verdict"] == "supported"
        assert variables["answer"].startswith(f"{first['text']} {''.join(first['labels'])}")
        cited = [citation["citation_label"] for citation in variables["citations"]]
        assert set(first["labels"]) <= set(cited)
        assert [line.split()[1] for line in variables["citations_text"].splitlines()] == cited
        assert (variables["refused"], variables["question"], variables["searched"]) == ("", "complete", QUESTION)
        assert variables["search_id"] != variables["answer_id"] != ""

    def test_the_json_is_the_published_answer_with_the_caller(self, bank: Deployment) -> None:
        output = output_of(call(bank).answered(None))
        assert output.json["caller"]["app"] == "a" and output.json["text"] == output.text
        assert (output.json["version"], output.json["mode"]) == ("v1", "extractive")

    @pytest.mark.parametrize(
        ("query", "code", "question"),
        [
            ("Who won the football world cup in 1998?", "no_match", "complete"),
            ("And for retail clients?", "no_subject", "needs_subject"),
            ("How much does the report of a loss event cost?", "no_sentence", "complete"),
        ],
    )
    def test_a_refusal_is_a_code_and_a_sentence(self, bank: Deployment, query: str, code: str, question: str) -> None:
        told = set()
        for language in ("en_US", "zh_Hans", "ja_JP", "pt_BR"):
            (output,) = call(bank, query=query, language=language).answered(ScriptedModel("NO ANSWER"))
            assert isinstance(output, ToolOutput)
            variables = output.variables
            assert (variables["refused"], variables["question"], variables["sentences"]) == (code, question, [])
            assert variables["citations_text"] == "" and variables["answer"] == output.text != ""
            told.add(output.text)
        assert len(told) == 4

    def test_the_record_names_who_asked(self, bank: Deployment) -> None:
        output = output_of(call(bank, on_behalf_of="the desk").answered(None))
        assert output.json["caller"]["on_behalf_of"] == "the desk"

    def test_an_unknown_choice_and_a_looser_one_are_refused(self, bank: Deployment) -> None:
        with pytest.raises(InvalidRequest, match="unsupported has no choice 'hide'"):
            list(call(bank, unsupported="hide").answered(None))
        with pytest.raises(InvalidRequest, match="unsupported may not be 'show'"):
            list(call(bank, unsupported="show").answered(None))

    def test_a_principal_gets_what_a_search_gives_it(self, bank: Deployment) -> None:
        with pytest.raises(UnknownDomain):
            list(call(bank, domain_name="HR").answered(None))
        board = {"query": "Who wants each loss event reported first?", "filter": ""}
        sources = [
            {row["metadata"]["doc_metadata"]["source_id"] for row in output_of(made.answered(None)).variables["result"]}
            for made in (call(bank, CLERK, **board), call(bank, CHAIR, **board))
        ]
        assert "board" not in sources[0] and "board" in sources[1]


class TestModel:
    def test_what_is_not_supported_is_not_streamed(self, bank: Deployment) -> None:
        texts = [text for text in call(bank).answered(ScriptedModel(TRUE, FALSE)) if isinstance(text, str)]
        assert texts == [TRUE.strip().replace(" [1].", ". [1]")]

    def test_the_question_is_written_from_the_conversation(self, bank: Deployment) -> None:
        model = ScriptedModel(QUESTION)
        output = output_of(call(bank, query="And within how many hours?", history="user: a loss").answered(model))
        assert (output.variables["searched"], output.json["asked"]) == (QUESTION, "And within how many hours?")
        assert "user: a loss" in model.asked[0][1].content

    @pytest.mark.parametrize(
        "pieces",
        [(TRUE, FALSE), (FALSE,), ("NO ANSWER",), (TRUE, ChatModelError("it broke off")), (ChatModelError("down"),)],
    )
    @pytest.mark.parametrize("unsupported", ["withhold", "refuse"])
    def test_a_model_called_elsewhere_gives_the_same_output(
        self, bank: Deployment, pieces: tuple[Any, ...], unsupported: str
    ) -> None:
        def comparable(output: ToolOutput) -> tuple[Any, ...]:
            variables = {name: value for name, value in output.variables.items() if name not in (*IDS, "result")}
            return output.text, variables, {name: value for name, value in output.json.items() if name not in IDS}

        here = output_of(call(bank, unsupported=unsupported).answered(ScriptedModel(*pieces)))
        there = elsewhere(bank, ScriptedModel(*pieces), unsupported=unsupported)
        assert comparable(there) == comparable(here)

    def test_what_is_refused_before_a_model_is_asked_is_given_at_once(self, bank: Deployment) -> None:
        model = ScriptedModel(TRUE)
        output = elsewhere(bank, model, query="Who won the football world cup in 1998?")
        assert (output.variables["refused"], model.asked) == ("no_match", [])

    def test_a_prompt_is_answered_for_its_own_principal_alone(self, bank: Deployment) -> None:
        tokens = ModelTokens(input_tokens=70, output_tokens=9)
        made = Rewriting(prompt_sha256="0" * 64, max_tokens=200, finish="stop", tokens=tokens)
        plugin = PluginModel(name="m", max_tokens=9, question=QUESTION, rewriting=made, warnings=("It is slow.",))
        prompt = call(bank, query="And then?").prepared(plugin)
        assert isinstance(prompt, Prompt) and prompt.messages[1].content == QUESTION
        wrote = model_text(ScriptedModel(TRUE), prompt)
        output = call(bank, query="And then?").completed(plugin, wrote)
        assert output.variables["search_id"] == prompt.search_id
        assert "It is slow." in output.variables["warnings"]
        assert output.json["usage"]["input_tokens"] == 100 + 70, "the answer and its question"
        with pytest.raises(CursorExpired):
            call(bank, CHAIR).completed(plugin, wrote)


class TestWords:
    """The sentences for the reader that an answer adds to its own."""

    @pytest.fixture
    def form(self, bank: Deployment) -> SearchForm:
        return read_search_form(FIELDS, bank.known_to(CLERK), Caller(), CLERK)

    @pytest.fixture
    def answer(self, bank: Deployment) -> Any:
        return last_of(Answerer(bank.engine).stream(SearchRequest(query=QUESTION, domain="ORM", principal=CLERK)))

    @pytest.mark.parametrize(
        ("tongue", "mark"),
        [("en", "(not supported by the sources)"), ("zh", "（来源不支持）"), ("pt", "(sem apoio nas fontes)")],
    )
    def test_a_mark_is_in_the_language_of_the_reader(self, answer: Any, tongue: Any, mark: str) -> None:
        sentence = Sentence("It takes a week.", (), Verdict.UNSUPPORTED, 0.1)
        answer.policy = "mark"
        assert stated_text(Stated(answer, 1, sentence), tongue, demo=False) == f"It takes a week. {mark}"
        answer.policy = "show"
        assert stated_text(Stated(answer, 2, sentence), tongue, demo=False) == "\nIt takes a week."

    def test_the_demo_bank_is_named_once(self, answer: Any) -> None:
        stated = [Stated(answer, number, answer.sentences[0]) for number in (1, 2)]
        texts = [stated_text(item, "en", demo=True) for item in stated]
        assert [text.startswith("DEMO: ") for text in texts] == [True, False]

    def test_marks_of_a_fence_are_broken(self, answer: Any) -> None:
        sentence = Sentence("Read <<<untrusted x.", (), Verdict.SUPPORTED, 1.0)
        assert "<<<" not in stated_text(Stated(answer, 1, sentence), "en", demo=False)

    @pytest.mark.parametrize(
        ("tongue", "words"),
        [
            (
                "en",
                "The sources disagree (number, date): [1], tier 2, in force from 2026-01-01 says “24 h”; [2]",
            ),
            ("zh", "来源不一致（number, date）：[1]（第 2 级）（自 2026-01-01 起生效）：“24 h”；[2]：“48 h”。"),
            (
                "ja",
                "ソースの内容が一致しません（number, date）: [1]（レベル 2）（2026-01-01 から有効）：「24 h」、[2]",
            ),
            (
                "pt",
                "As fontes divergem (number, date): [1], nível 2, em vigor desde 2026-01-01 diz “24 h”; [2]",
            ),
        ],
    )
    def test_a_disagreement_follows_the_answer_in_the_language_of_the_reader(
        self, answer: Any, form: SearchForm, tongue: Any, words: str
    ) -> None:
        first = Side(Quote("[1]", 0, 5, "24\n h"), 2, "2026-01-01")
        second = Side(Quote("[2]", 0, 4, "48 h"), None, None)
        differences = (
            ConflictDifference("number", "24", "48"),
            ConflictDifference("date", "", "May"),
            ConflictDifference("number", "", "h"),
        )
        answer.conflicts = (Conflict(first, second, differences, "second"),)
        made = answer_output(answer, "Stated.", replace(form, tongue=tongue), demo=False, mask=None)
        assert made.variables["conflicts_text"].startswith(f"- {words}")
        assert made.text == f"Stated.\n\n{made.variables['conflicts_text'].removeprefix('- ')}"

    def test_sources_that_disagree_are_shown_beside_the_answer(self, bank: Deployment) -> None:
        output = output_of(call(bank, filter="").answered(None))
        assert "The sources disagree (number): [" in output.text and "48 hours" in output.variables["conflicts_text"]
        assert output.json["conflicts"] and output.variables["refused"] == ""

    def test_a_refusal_of_another_kind_keeps_its_words(self, answer: Any, form: SearchForm) -> None:
        answer.refusal, answer.conflicts = AnswerRefusal("cost_limit", "The budget of the day is used up."), ()
        made = answer_output(answer, "", form, demo=False, mask=None)
        assert (made.text, made.variables["refused"]) == ("The budget of the day is used up.", "cost_limit")


class TestWorkflow:
    PARTS = f"{QUESTION[:-1]}, and who paints the office?"

    def test_several_searches_are_made_and_published(self, bank: Deployment) -> None:
        output = output_of(call(bank, query=self.PARTS, workflow="agentic").answered(None))
        rounds = output.json["workflow"]["rounds"]
        assert [made["why"] for made in rounds[:2]] == ["question", "part"]
        assert output.variables["search_id"] == rounds[0]["search_id"]
        assert "within 24 hours" in output.text

    @pytest.mark.parametrize("workflow", ["", "configured", "simple"])
    def test_one_search_is_made_unless_the_domain_says_otherwise(self, bank: Deployment, workflow: str) -> None:
        assert output_of(call(bank, workflow=workflow).answered(None)).json["workflow"] is None

    def test_a_model_that_is_called_elsewhere_writes_from_all_searches(self, bank: Deployment) -> None:
        output = elsewhere(bank, ScriptedModel(TRUE), query=self.PARTS, workflow="agentic")
        assert output.json["mode"] == "model" and "within 24 hours" in output.text
        assert len(output.json["workflow"]["rounds"]) >= 2

    def test_the_searches_end_within_the_time_of_a_tool(self, bank: Deployment) -> None:
        record = output_of(call(bank, query=self.PARTS, workflow="agentic").answered(None))
        ledger = bank.ledger.opened()
        entry = read_entry(find_record(ledger, record.variables["answer_id"]).entry)
        assert entry["workflow"]["limits"]["deadline_s"] == 45.0

    def test_another_choice_is_refused(self, bank: Deployment) -> None:
        with pytest.raises(InvalidRequest, match="workflow has no choice 'agentik'"):
            list(call(bank, workflow="agentik").answered(None))
