"""The tool `answer`: a question answered sentence by sentence, by quotes or by a chat model, each checked.

Its output: the text with its labels, each sentence with its verdict, and what it rests on.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from context_engine.answer.answering import Answerer, Event, Stated
from context_engine.answer.asking import answerer_of
from context_engine.answer.composed import Answer, sentence_text, separator
from context_engine.answer.conflicts import Conflict, Side
from context_engine.answer.contract import AnswerResponse, citation_line, response_of
from context_engine.answer.gathering import Gathering
from context_engine.answer.values import AnswerRefusal, Verdict
from context_engine.answer.writing import Writer, messages_of
from context_engine.apps.dify.answer import ToolOutput, lines, search_answer
from context_engine.apps.dify.conversation import conversation
from context_engine.apps.dify.dify_json import fitted, plain
from context_engine.apps.dify.failure import refuse_incomplete
from context_engine.apps.dify.form import SearchForm, choice_field, read_search_form
from context_engine.apps.dify.model_prompt import AskedBeforehand, ModelText, PluginModel, Prompt
from context_engine.apps.dify.node_output import inert_values, subject_missing, without_register
from context_engine.apps.dify.reader_texts import Tongue, reader_text
from context_engine.core.context.fence import inert
from context_engine.core.models import AnswerPolicy, Caller, ChatMessage, Principal, SearchRequest, SearchResult
from context_engine.core.protocols import ChatModel, Mask
from context_engine.jobs.asking import workflow_finder
from context_engine.service.deployment import Deployment
from context_engine.service.kept import KeptAnswer

Answering = Generator[str | ToolOutput, None, None]
"""Yields the text of an answer as its sentences are checked, and then the whole output."""
_NO_SUBJECT: Final = "no_subject"
_TRANSLATED: Final = frozenset({"no_match", "out_of_scope", "incomplete", "no_sentence", "unsupported"})
_OF_THE_SEARCH: Final = ("result", "status", "decision", "warnings", "warnings_text", "search_id", "question")
"""The variables that `answer` shares with `search`."""
_CONFIGURED: Final = "configured"
_POLICIES: Final[tuple[str, ...]] = (_CONFIGURED, *get_args(AnswerPolicy))
Workflow = Literal["simple", "agentic"]
_WORKFLOWS: Final[tuple[str, ...]] = (_CONFIGURED, *get_args(Workflow))
_SEARCHING_S: Final = 45.0
"""Most seconds for the searches of a workflow: Dify's runtime ends the whole call after 120."""


class AnswerForm(NamedTuple):
    """The parsed form.

    Attributes:
        policy: for unsupported sentences; None: as configured.
        workflow: how the passages are found; None: as configured.
        history: the turns before the question.
    """

    search: SearchForm
    policy: AnswerPolicy | None
    workflow: Workflow | None
    history: Sequence[ChatMessage]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCall:
    """A call of the tool.

    Attributes:
        fields: of the form, as those of `search`, with `unsupported` and `workflow`.
        caller, principal: as for a search.
        request_id: of the request to a server, or None.
    """

    deployment: Deployment
    fields: Mapping[str, Any]
    caller: Caller
    principal: Principal
    request_id: str | None = None

    def answered(self, model: ChatModel | None) -> Answering:
        """Yield the text of the answer, then the output.

        Args:
            model: writes; None: the deployment's own model writes, and without one the sentences are quoted.

        Raises:
            InvalidRequest: an invalid field, or a looser treatment of unsupported sentences than configured.
            SourceMissing: a source did not answer, and the form says to fail then.
            AuditUnavailable: the answer could not be recorded and so must not be given.
            ContextEngineError: as `Engine.search`.
        """
        form = self._form()
        request = form.search.request
        answerer = answerer_of(self.deployment, request, use_model=True, policy=form.policy, model=model)
        alone, warnings = answerer.standalone(request, form.history)
        result, gathering = self._found(form, alone, answerer.writer)
        result = _decided(form, result)
        events = answerer.over(result, asked=request.query, warnings=warnings, gathering=gathering)
        yield from self._stated(form, events)

    def prepared(self, model: PluginModel) -> Prompt | ToolOutput:
        """Search for a model that somebody else calls: return what to ask it, or the output if nothing may be asked.

        Raises:
            ContextEngineError: as `answered`.
        """
        form = self._form()
        request = form.search.request
        result, gathering = self._found(form, replace(request, query=model.question or request.query), None)
        kept = KeptAnswer(result=result, gathering=gathering)
        self.deployment.kept.keep(self.principal, kept)
        answerer = answerer_of(self.deployment, use_model=False, policy=form.policy)
        answer, events = _begun(form, answerer, kept, model)
        if answer.refusal is not None:
            return output_of(self._stated(form, events))
        events.close()
        return Prompt.of(kept.result.search_id, messages_of(kept.result.answered_query, answer.context))

    def completed(self, model: PluginModel, wrote: ModelText) -> ToolOutput:
        """Return the output for what the model wrote from the prompt, or quoted sentences if it failed.

        Raises:
            CursorExpired: the search is no longer kept, or belongs to somebody else.
            ContextEngineError: as `answered`.
        """
        form = self._form()
        kept = self.deployment.kept.get(self.principal, wrote.search_id)
        stand_in = AskedBeforehand(model, wrote)
        answerer = answerer_of(self.deployment, use_model=False, policy=form.policy, model=stand_in)
        return output_of(self._stated(form, _begun(form, answerer, kept, model)[1]))

    def _found(
        self, form: AnswerForm, request: SearchRequest, writer: Writer | None
    ) -> tuple[SearchResult, Gathering | None]:
        """Return what one search found, or those of a workflow."""
        finder = workflow_finder(self.deployment, workflow=form.workflow, rounds=None, most_s=_SEARCHING_S)
        find = finder(request, writer)
        return (self.deployment.engine.search(request), None) if find is None else find(request)

    def _form(self) -> AnswerForm:
        known = self.deployment.known_to(self.principal)
        policy = choice_field(self.fields, "unsupported", _POLICIES, _CONFIGURED)
        workflow = choice_field(self.fields, "workflow", _WORKFLOWS, _CONFIGURED)
        search = read_search_form(self.fields, known, self.caller, self.principal)
        return AnswerForm(
            replace(search, request=replace(search.request, request_id=self.request_id)),
            None if policy == _CONFIGURED else cast(AnswerPolicy, policy),
            None if workflow == _CONFIGURED else cast(Workflow, workflow),
            conversation(self.fields),
        )

    def _stated(self, form: AnswerForm, events: Generator[Event, None, None]) -> Answering:
        """Yield each sentence as it is stated, and the output at the end."""
        demo, stated = self.deployment.demo, ""
        for event in events:
            answer = event.answer
            if isinstance(event, Stated):
                text = stated_text(event, form.search.tongue, demo=demo)
                stated += text
                yield text
        yield answer_output(answer, stated, form.search, demo=demo, mask=self.deployment.engine.mask)


def _begun(
    form: AnswerForm, answerer: Answerer, kept: KeptAnswer, model: PluginModel
) -> tuple[Answer, Generator[Event, None, None]]:
    """Return an answer of which nothing is stated, and its further events."""
    asked = form.search.request.query
    result, gathering = _decided(form, kept.result), kept.gathering
    events = answerer.over(result, asked=asked, warnings=model.warnings, gathering=gathering)
    answer = next(events).answer
    answer.rewriting = model.rewritten
    return answer, events


def _decided(form: AnswerForm, result: SearchResult) -> SearchResult:
    """Return the result with the decision that the form asks for.

    Raises:
        SourceMissing: a source did not answer, and the form says to fail then.
    """
    if form.search.fail_if_missing:
        refuse_incomplete(result)
    return without_register(result) if form.search.register_required else result


def output_of(answering: Answering) -> ToolOutput:
    """Return the output alone."""
    return next(item for item in answering if isinstance(item, ToolOutput))


def stated_text(stated: Stated, tongue: Tongue, *, demo: bool) -> str:
    """Return a sentence as it is streamed: with its labels, and with what stands between it and the one before."""
    answer, number, sentence = stated
    text = inert(sentence_text(sentence, marked=False))
    if answer.policy == "mark" and sentence.verdict is not Verdict.SUPPORTED:
        text = f"{text} {reader_text(f'verdict_{sentence.verdict}', tongue)}"
    return _fitted_text((_label_of_the_demo(tongue, demo) if number == 1 else separator(answer)) + text)


def answer_output(answer: Answer, stated: str, form: SearchForm, *, demo: bool, mask: Mask | None) -> ToolOutput:
    """Return the output of a finished answer.

    Args:
        stated: the sentences as they were streamed, joined; `answer` begins with them.
        form: of the search.
        demo: whether the knowledge is the fictitious bank's.
        mask: masks personal data if the domain sets `mask_contexts`.

    Raises:
        MaskingError: a masker failed.
    """
    refusal, tongue = answer.refusal, form.tongue
    without_subject = refusal is not None and refusal.code == _NO_SUBJECT
    searched = search_answer(
        answer.result,
        demo=demo,
        notices=form.notices,
        register_required=form.register_required,
        mask=mask,
        read=lambda *_, **__: answer.context,  # it is recorded already
        tongue=tongue,
        question="needs_subject" if without_subject else "complete",
    )
    response = response_of(answer, demo=demo)
    published = _published(response, with_citations=not without_subject)
    conflicts = [inert(_conflict_text(conflict, tongue)) for conflict in answer.conflicts]
    text = stated if refusal is None else _label_of_the_demo(tongue, demo) + _refused(refusal, tongue)
    text = "\n\n".join([text, *map(_fitted_text, conflicts)])
    warnings = (
        fitted("warnings", plain([*searched.variables["warnings"], *inert_values(answer.own_warnings)])).value or []
    )
    variables = {
        **{name: searched.variables[name] for name in _OF_THE_SEARCH},
        "answer": text,
        "refused": "" if refusal is None else refusal.code,
        "sentences": _fitted("sentences", [_sentence(sentence) for sentence in published["sentences"]]),
        "citations": _fitted("citations", published["citations"]),
        "citations_text": _citations_text(response),
        "conflicts_text": lines("conflicts_text", conflicts),
        "searched": plain(response.question),
        "answer_id": answer.answer_id,
        "warnings": warnings,
        "warnings_text": lines("warnings_text", warnings),
    }
    whole = _fitted("json", {**published, "warnings": warnings}) or {}
    return ToolOutput(text=text, json={**whole, "caller": searched.json["caller"]}, variables=variables)


def _published(response: AnswerResponse, *, with_citations: bool) -> dict[str, Any]:
    """Return the published answer; its citations without their mark, which only a context may have."""
    published = response.model_dump(mode="json")
    rows = published["citations"] if with_citations else []
    return {**published, "citations": [_without_mark(row) for row in rows]}


def _without_mark(citation: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in citation.items() if name != "attribution"}


def _sentence(sentence: Mapping[str, Any]) -> dict[str, Any]:
    quotes = [{name: quote[name] for name in ("label", "text")} for quote in sentence["quotes"]]
    return {"text": sentence["text"], "verdict": sentence["verdict"], "labels": sentence["labels"], "quotes": quotes}


def _citations_text(response: AnswerResponse) -> str:
    """Return the cited passages as a list; if the question is refused, nothing is cited."""
    cited = () if response.refusal is not None else response.citations
    return lines("citations_text", [inert(citation_line(citation)) for citation in cited])


def _refused(refusal: AnswerRefusal, tongue: Tongue) -> str:
    """Return the sentence of a refusal; one that is not ours stays English."""
    if refusal.code == _NO_SUBJECT:
        return subject_missing(tongue).content
    return reader_text(f"refused_{refusal.code}", tongue) if refusal.code in _TRANSLATED else refusal.message


def _conflict_text(conflict: Conflict, tongue: Tongue) -> str:
    """Return a disagreement in words, with both quotes and which of them yields."""
    codes = ", ".join(dict.fromkeys(difference.code for difference in conflict.differences))
    first, second = _side(conflict.first, tongue), _side(conflict.second, tongue)
    yields = {"first": conflict.first, "second": conflict.second}.get(conflict.yields)
    end = (
        reader_text("conflict_undecided", tongue)
        if yields is None
        else reader_text("conflict_yields", tongue, label=yields.quote.label)
    )
    return reader_text("conflict", tongue, codes=codes, first=first, second=second, end=end)


def _side(side: Side, tongue: Tongue) -> str:
    tier, date = side.tier, side.effective_from
    return reader_text(
        "conflict_side",
        tongue,
        label=side.quote.label,
        tier="" if tier is None else reader_text("conflict_tier", tongue, tier=str(tier)),
        date="" if date is None else reader_text("conflict_date", tongue, date=date),
        quote=" ".join(side.quote.text.split()),
    )


def _label_of_the_demo(tongue: Tongue, demo: bool) -> str:
    return f"{reader_text('demo', tongue)}\n\n" if demo else ""


def _fitted(name: str, value: Any) -> Any:
    return fitted(name, plain(inert_values(value))).value


def _fitted_text(text: str) -> str:
    return str(fitted("answer", plain(text)).value or "")
