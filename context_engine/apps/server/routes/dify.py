"""The routes of the Dify plugin's tools, for plugins that use this service; same code as inside the plugin."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from context_engine import __version__
from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.failure import SERVER, TOOLS_VERSION
from context_engine.apps.dify.form import query_field, whole_fields
from context_engine.apps.dify.plugin_settings import PluginAudit
from context_engine.apps.dify.reranking import asked_beforehand
from context_engine.apps.dify.tools import ToolName, Tools
from context_engine.apps.server.problems import may_answer
from context_engine.apps.server.service import caller_of, request_id_of, service_of
from context_engine.apps.server.slots import Turn
from context_engine.core.models import Caller, Principal
from context_engine.service.callers import Authenticated
from context_engine.service.deployment import Deployment
from context_engine.service.request import check_sizes
from context_engine.wiring.audit import audit_mode

router = APIRouter(prefix="/api/v1/dify", tags=["dify"])
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


@router.post("/rerank", summary="Rank passages", response_model=ToolAnswer, responses=_REFUSALS)
async def rerank(request: Request, body: ToolCall) -> Response:
    """Rank passages that another node has found, as the tool Rank passages does."""
    return await _answered("rerank", request, body)


@router.post("/domains", summary="List the domains", response_model=ToolAnswer, responses=_REFUSALS)
async def domains(request: Request, body: ToolCall) -> Response:
    """List the searchable domains and the state of their sources, like the tool List domains."""
    return await _answered("domains", request, body)


async def _answered(tool: ToolName, request: Request, body: ToolCall) -> Response:
    request_id = request_id_of(request)

    def work(deployment: Deployment, caller: Authenticated) -> ToolAnswer:
        wanted = {"top_k": whole_fields(body.parameters).get("stage2_top_k")}
        check_sizes(query_field(body.parameters), wanted, deployment.settings)
        principal = _principal(deployment, caller, body)
        scores = body.rerank_scores or ModelScores()
        ask = asked_beforehand(scores.scores, scores.problem)
        return ToolAnswer.of(_tools(deployment, request_id).call(tool, body.parameters, body.caller, principal, ask))

    caller, domain = caller_of(request), body.parameters.get("domain_name") or body.parameters.get("domain")
    line = f"{caller.principal.id} {body.app_id} {body.user_id}" if caller.gateway else None
    return await service_of(request).json(
        request, work, Turn(line, domain if tool == "search" and isinstance(domain, str) else None)
    )


def _tools(deployment: Deployment, request_id: str) -> Tools:
    return Tools(deployment=deployment, audit=PluginAudit(audit_mode(deployment.setup)), request_id=request_id)


def _principal(deployment: Deployment, caller: Authenticated, body: ToolCall) -> Principal:
    """Return the principal of a call: its app and user if the token is a gateway, else the token's own."""
    if not caller.gateway:
        return caller.principal
    return deployment.principals.for_dify(body.app_id, body.user_id)
