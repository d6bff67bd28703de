"""The tools as a server of the protocol, in every revision of the SDK, for any transport.

This module needs the extra `mcp`, so only modules that run a server import it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from mcp.types import Tool as PublishedTool

from context_engine import __version__
from context_engine.apps.mcp.reply import Call, SentReply
from context_engine.apps.mcp.resources import PROMPTS, RESOURCES, PromptForm, prompt_named, resource_at
from context_engine.apps.mcp.tools import INSTRUCTIONS, TOOLS, Tool, tool_named
from context_engine.core.context.fence import inert
from context_engine.core.models import Authenticated
from context_engine.errors import AuditError, ContextEngineError, InvalidRequest, NotPermitted
from context_engine.service.deployment import Deployment

logger = logging.getLogger(__name__)
NAME: Final = "context-engine"
_LIST_TTL_MS: Final = 3_600_000
_LISTS: Final = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
_LONGEST_ERROR: Final = 2000
_LATER: Final = "Try again in a moment; if that does not help, say that the search is unavailable."
Work = Callable[[Deployment, Authenticated], SentReply]
Context = ServerRequestContext[Any, Any]
Desk = Callable[[Any, Work, str | None], Awaitable[SentReply]]
"""Runs the calls of a transport: it takes the HTTP request of a call (None on stdio), with its Authorization, the work
and the domain that a search names, and returns the work's result, called in a thread with the deployment in force and
the caller."""


def mcp_server(desk: Desk) -> Server[Any]:
    """Return the server of the tools, for any transport of the SDK."""

    async def list_tools(_context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=_PUBLISHED)

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        return await _called(desk, context.request, params)

    async def list_resources(_context: Context, _params: PaginatedRequestParams | None) -> ListResourcesResult:
        return ListResourcesResult(resources=_SINGLE)

    async def list_templates(_context: Context, _params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=_TEMPLATES)

    async def read_resource(context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        return await _resource(desk, context.request, params.uri)

    async def list_prompts(_context: Context, _params: PaginatedRequestParams | None) -> ListPromptsResult:
        return ListPromptsResult(prompts=[_prompt(form) for form in PROMPTS])

    async def get_prompt(_context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        return _filled(params)

    return Server(
        NAME,
        version=__version__,
        title="Context Engine",
        instructions=INSTRUCTIONS,
        cache_hints={method: CacheHint(ttl_ms=_LIST_TTL_MS, scope="public") for method in _LISTS},
        get_tool_input_schema=_input_schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


async def _called(desk: Desk, request: Any, params: CallToolRequestParams) -> CallToolResult:
    """Return the answer of a tool; errors are answers too, so that a model can read and correct them."""
    try:
        tool = tool_named(params.name)
        request_id = _request_id(request)

        def work(deployment: Deployment, caller: Authenticated) -> SentReply:
            return tool.answered(Call(deployment, caller, request_id), params.arguments).published()

        reply = await desk(request, work, _searched_domain(params))
    except ContextEngineError as error:
        return _failed(f"{_words(error)} [{error.code}]")
    except Exception:
        logger.exception("mcp: the tool %s failed", params.name[:100])
        return _failed("the tool failed; see the log of the service for the reason. Try again, or ask its operator.")
    return CallToolResult(content=[TextContent(type="text", text=reply.text)], structured_content=reply.structured)


def _searched_domain(params: CallToolRequestParams) -> str | None:
    domain = (params.arguments or {}).get("domain") if params.name == "search" else None
    return domain if isinstance(domain, str) else None


def _request_id(request: Any) -> str | None:
    return None if request is None else request.scope.get("state", {}).get("request_id")


async def _resource(desk: Desk, request: Any, uri: str) -> ReadResourceResult:
    """Return a resource.

    Raises:
        MCPError: it does not exist, or could not be read: there is no other form for errors of resources.
    """
    try:
        resource, parts = resource_at(uri)
        request_id = _request_id(request)

        def work(deployment: Deployment, caller: Authenticated) -> SentReply:
            return resource.read(Call(deployment, caller, request_id), *parts).published()

        reply = await desk(request, work, None)
    except ContextEngineError as error:
        raise MCPError(INVALID_PARAMS, f"{_words(error)} [{error.code}]") from None
    except Exception:
        logger.exception("mcp: the resource %s failed", uri[:100])
        raise MCPError(INTERNAL_ERROR, "the resource failed; see the log of the service for the reason") from None
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=resource.mime_type, text=reply.text)])


def _filled(params: GetPromptRequestParams) -> GetPromptResult:
    try:
        form = prompt_named(params.name)
        message = form.filled(params.arguments or {})
    except InvalidRequest as error:
        raise MCPError(INVALID_PARAMS, f"{_words(error)} [{error.code}]") from None
    content = TextContent(type="text", text=message)
    return GetPromptResult(description=form.description, messages=[PromptMessage(role="user", content=content)])


def _prompt(form: PromptForm) -> Prompt:
    arguments = [
        PromptArgument(name=name, description=description, required=name not in form.optional)
        for name, description in form.arguments.items()
    ]
    return Prompt(name=form.name, title=form.title, description=form.description, arguments=arguments)


def _words(error: ContextEngineError) -> str:
    """Return an error in words for a model: how to correct the call, or what to do instead."""
    message = inert(str(error))[:_LONGEST_ERROR]
    return message if isinstance(error, InvalidRequest | AuditError | NotPermitted) else f"{message} {_LATER}"


def _failed(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)


def _published(tool: Tool) -> PublishedTool:
    return PublishedTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=_plain(tool.arguments.model_json_schema()),
        output_schema=_plain(tool.answer.model_json_schema(mode="serialization")),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.reads_only,
            destructive_hint=False,
            idempotent_hint=tool.repeatable,
            open_world_hint=False,
        ),
    )


def _plain(schema: Any) -> Any:
    """Return a schema without the titles that pydantic generates, and without null defaults."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {key: _plain(part_schema) for key, part_schema in value.items()}
        if name in ("properties", "$defs")
        else _plain(value)
        for name, value in schema.items()
        if not (name == "title" and isinstance(value, str)) and not (name == "default" and value is None)
    }


_PUBLISHED: Final = [_published(tool) for tool in TOOLS]
_input_schemas: Final = {tool.name: tool.input_schema for tool in _PUBLISHED}
_SINGLE: Final = [
    Resource(uri=kind.uri, name=kind.kind, title=kind.title, description=kind.description, mime_type=kind.mime_type)
    for kind in RESOURCES
    if not kind.parts
]
_TEMPLATES: Final = [
    ResourceTemplate(
        uri_template=kind.uri,
        name=kind.kind,
        title=kind.title,
        description=kind.description,
        mime_type=kind.mime_type,
    )
    for kind in RESOURCES
    if kind.parts
]
