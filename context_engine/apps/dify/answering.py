"""The tool `answer`: a question answered sentence by sentence, by quotes or by a chat model, each checked."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from context_engine.answer.answering import Answerer, Event, Stated
from context_engine.answer.asking import answerer_of
from context_engine.answer.composed import Answer
from context_engine.answer.gathering import Gathering
from context_engine.answer.writing import Writer, messages_of
from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.answer_output import answer_output, stated_text
from context_engine.apps.dify.conversation import conversation
from context_engine.apps.dify.failure import refuse_incomplete
from context_engine.apps.dify.form import SearchForm, choice_field, read_search_form
from context_engine.apps.dify.model_prompt import AskedBeforehand, ModelText, PluginModel, Prompt
from context_engine.apps.dify.node_output import without_register
from context_engine.core.models import AnswerPolicy, Caller, ChatMessage, Principal, SearchRequest, SearchResult
from context_engine.core.protocols import ChatModel
from context_engine.jobs.asking import workflow_finder
from context_engine.service.deployment import Deployment
from context_engine.service.kept import KeptAnswer

Answering = Generator[str | ToolOutput, None, None]
"""Yields the text of an answer as its sentences are checked, and then the whole output."""

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
