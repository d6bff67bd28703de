"""The routes of the Dify plugin's tools, for plugins that use this service; same code as inside the plugin."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from context_engine import __version__
from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.answering import AnswerCall, output_of
from context_engine.apps.dify.failure import SERVER, TOOLS_VERSION
from context_engine.apps.dify.form import query_field, whole_fields
from context_engine.apps.dify.model_prompt import PluginModel, Prompt
from context_engine.apps.dify.plugin_settings import PluginAudit
from context_engine.apps.dify.reranking import asked_beforehand
from context_engine.apps.dify.tools import ToolName, Tools
from context_engine.apps.server.openapi import operation_id
from context_engine.apps.server.problems import may_answer
from context_engine.apps.server.service import caller_of, request_id_of, service_of
from context_engine.apps.server.slots import Turn
from context_engine.core.models import Authenticated, Caller, Principal
from context_engine.service.deployment import Deployment
from context_engine.service.request import check_sizes
from context_engine.wiring.audit import audit_mode

router = APIRouter(prefix="/api/v1/dify", tags=["dify"], generate_unique_id_function=operation_id)
Score = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Hello(BaseModel):
    """Name and version of the service."""

    model_config = ConfigDict(frozen=True)

    service: str = Field(description="Always context-engine.")
    version: str
    tools_version: int = Field(description="Of these routes; a plugin of a later one needs a newer server.")
    gateway: bool = Field(description="The token acts as the app and the user that a call names.")


class ModelScores(BaseModel):
    """The scores that a rerank model of Dify gave the passages, called by the plugin."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scores: dict[str, Score] = Field(default_factory=dict, description="SHA-256 of a passage's text -> its score.")
    problem: str | None = Field(None, max_length=64, description="The name of the error if the model failed.")


class ToolCall(BaseModel):
    """A call of a tool, with the ids that Dify's runtime gives it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"parameters": {"query": "Who approves a new product?", "domain_name": "NPA"}}]
        },
    )

    parameters: dict[str, Any] = Field(description="The fields of the tool's form, by their names.")
    app_id: str | None = Field(None, max_length=255)
    user_id: str | None = Field(None, max_length=255)
    conversation_id: str | None = Field(None, max_length=255)
    message_id: str | None = Field(None, max_length=255)
    rerank_scores: ModelScores | None = Field(None, description="Of `rerank`, where its form names a model.")
    model: PluginModel | None = Field(None, description="Of `answer`, where its form names a model.")

    @property
    def caller(self) -> Caller:
        """Who calls, for the record."""
        return Caller(
            principal=self.user_id, app=self.app_id, conversation=self.conversation_id, message=self.message_id
        )


class ToolAnswer(BaseModel):
    """The messages of a tool."""

    model_config = ConfigDict(frozen=True, serialize_by_alias=True, validate_by_name=True)

    text: str = Field(description="Never empty.")
    whole: dict[str, Any] = Field(alias="json", description="The whole result, its texts as a model may read them.")
    variables: dict[str, Any] = Field(description="By name, as the tool's output schema declares them.")

    @classmethod
    def of(cls, output: ToolOutput) -> ToolAnswer:
        """Return the answer of a tool."""
        return cls(text=output.text, whole=dict(output.json), variables=dict(output.variables))


_REFUSALS: Final = may_answer(401, 404, 409, 422, 429, 500, 502, 503)
_DRIVE_REFUSALS: Final = may_answer(401, 404, 422, 429, 500, 501, 502, 503, 504)
_ANSWER_REFUSALS: Final = may_answer(401, 404, 409, 410, 422, 429, 500, 502, 503)


@router.get("", summary="Say who answers", response_model=Hello, responses=may_answer(401))
async def hello(request: Request) -> Response:
    """Return the name and version of this service, and the rights of the token."""

    def work(_deployment: Deployment, caller: Authenticated) -> Hello:
        return Hello(service=SERVER, version=__version__, tools_version=TOOLS_VERSION, gateway=caller.gateway)

    return await service_of(request).json(request, work)


@router.post("/search", summary="Search a domain", response_model=ToolAnswer, responses=_REFUSALS)
async def search(request: Request, body: ToolCall) -> Response:
    """Search a domain as the tool Search does."""
    return await _answered("search", request, body)


@router.post("/answer", summary="Answer a question", response_model=ToolAnswer | Prompt, responses=_ANSWER_REFUSALS)
async def answer(request: Request, body: ToolCall) -> Response:
    """Answer a question as the tool Answer does.

    With `model` and without `wrote` the search is made, and what to ask the model is returned; what it wrote is sent
    back in a second call, checked and recorded.
    """
    request_id = request_id_of(request)

    def work(deployment: Deployment, caller: Authenticated) -> ToolAnswer | Prompt:
        _check_sizes(deployment, body)
        call = AnswerCall(
            deployment=deployment,
            fields=body.parameters,
            caller=body.caller,
            principal=_principal(deployment, caller, body),
            request_id=request_id,
        )
        made = _answer(call, body.model)
        return made if isinstance(made, Prompt) else ToolAnswer.of(made)

    return await service_of(request).json(request, work, _turn(request, body, searches=True))


@router.post("/rerank", summary="Rank passages", response_model=ToolAnswer, responses=_REFUSALS)
async def rerank(request: Request, body: ToolCall) -> Response:
    """Rank passages that another node has found, as the tool Rank passages does."""
    return await _answered("rerank", request, body)


@router.post("/domains", summary="List the domains", response_model=ToolAnswer, responses=_REFUSALS)
async def domains(request: Request, body: ToolCall) -> Response:
    """List the searchable domains and the state of their sources, like the tool List domains."""
    return await _answered("domains", request, body)


@router.post("/browse", summary="Browse the documents", response_model=ToolAnswer, responses=_DRIVE_REFUSALS)
async def browse(request: Request, body: ToolCall) -> Response:
    """List the domains, the sources of a domain, or the documents of a source, as the data source Documents does."""
    return await _answered("browse", request, body)


@router.post("/download", summary="Download a document", response_model=ToolAnswer, responses=_DRIVE_REFUSALS)
async def download(request: Request, body: ToolCall) -> Response:
    """Return a document as a Markdown file, as the data source Documents does."""
    return await _answered("download", request, body)


async def _answered(tool: ToolName, request: Request, body: ToolCall) -> Response:
    request_id = request_id_of(request)

    def work(deployment: Deployment, caller: Authenticated) -> ToolAnswer:
        _check_sizes(deployment, body)
        principal = _principal(deployment, caller, body)
        scores = body.rerank_scores or ModelScores()
        ask = asked_beforehand(scores.scores, scores.problem)
        return ToolAnswer.of(_tools(deployment, request_id).call(tool, body.parameters, body.caller, principal, ask))

    return await service_of(request).json(request, work, _turn(request, body, searches=tool == "search"))


def _answer(call: AnswerCall, model: PluginModel | None) -> ToolOutput | Prompt:
    if model is None:
        return output_of(call.answered(None))
    return call.prepared(model) if model.wrote is None else call.completed(model, model.wrote)


def _check_sizes(deployment: Deployment, body: ToolCall) -> None:
    wanted = {"top_k": whole_fields(body.parameters).get("stage2_top_k")}
    check_sizes(query_field(body.parameters), wanted, deployment.settings)
    if body.model is not None and body.model.question is not None:
        check_sizes(body.model.question, {}, deployment.settings)


def _turn(request: Request, body: ToolCall, *, searches: bool) -> Turn:
    """Return how a call waits: in the line of its app and user if the token is a gateway."""
    caller, domain = caller_of(request), body.parameters.get("domain_name") or body.parameters.get("domain")
    line = f"{caller.principal.id} {body.app_id} {body.user_id}" if caller.gateway else None
    return Turn(line, domain if searches and isinstance(domain, str) else None)


def _tools(deployment: Deployment, request_id: str) -> Tools:
    return Tools(deployment=deployment, audit=PluginAudit(audit_mode(deployment.setup)), request_id=request_id)


def _principal(deployment: Deployment, caller: Authenticated, body: ToolCall) -> Principal:
    """Return the principal of a call: its app and user if the token is a gateway, else the token's own."""
    if not caller.gateway:
        return caller.principal
    return deployment.principals.for_dify(body.app_id, body.user_id)
