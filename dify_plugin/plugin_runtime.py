"""What the tools, the provider and the endpoint of this process share: what answers their calls, and its log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

from dify_plugin import Tool
from dify_plugin.config.logger_format import plugin_logger_handler
from dify_plugin.entities.tool import ToolInvokeMessage
from dify_plugin.file.file import File

from context_engine import Caller
from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.answering import Answering
from context_engine.apps.dify.backend import Engines, open_backend
from context_engine.apps.dify.chat_model import AskChat
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.failure import guarded_stream, guarded_tool
from context_engine.apps.dify.plugin_settings import FileReading, reading_of
from context_engine.apps.dify.reranking import Ask
from context_engine.apps.dify.tools import ToolName

ROOT = Path(__file__).resolve().parent
ENGINES = Engines(lambda credentials: open_backend(credentials, root=ROOT))

_logger = logging.getLogger("context_engine")
_logger.setLevel(logging.INFO)
_logger.addHandler(plugin_logger_handler)
_logger.propagate = False


def caller_of(tool: Tool) -> Caller:
    """Return the caller: the app and the user that Dify itself names, never a form field."""
    session = tool.session
    return Caller(
        principal=tool.runtime.user_id,
        app=session.app_id,
        conversation=session.conversation_id,
        message=session.message_id,
    )


def answered(
    tool: Tool, name: ToolName, parameters: Mapping[str, Any], ask: Ask = lambda *_: ()
) -> Generator[ToolInvokeMessage, None, None]:
    """Yield what a tool gives back as Dify's messages; `ask` calls a rerank model that is set up in Dify."""
    caller = caller_of(tool)

    def called(read: Credentials) -> ToolOutput:
        with ENGINES.use(read) as backend:
            return backend.call(name, parameters, caller, ask)

    yield from messages(tool, guarded_tool(tool.runtime.credentials, called))


def stated(tool: Tool, parameters: Mapping[str, Any], ask: AskChat) -> Generator[ToolInvokeMessage, None, None]:
    """Yield an answer as Dify's messages, each sentence once it is checked; `ask` calls a chat model of Dify."""
    caller = caller_of(tool)

    def called(read: Credentials) -> Answering:
        with ENGINES.use(read) as backend:
            yield from backend.answer(parameters, caller, ask)

    streamed = ""
    for item in guarded_stream(tool.runtime.credentials, called):
        text = item if isinstance(item, str) else item.text.removeprefix(streamed)
        if text:
            yield tool.create_text_message(text)
            yield tool.create_stream_variable_message("answer", text)
        streamed += text
        if not isinstance(item, str):
            others = {name: value for name, value in item.variables.items() if name != "answer"}
            if _read_by_an_agent(tool) and others.get("citations_text"):
                yield tool.create_text_message(f"\n\n{others['citations_text']}")
            yield from values(tool, item.json, others)


def documented(
    tool: Tool, parameters: Mapping[str, Any], call: Callable[[Mapping[str, Any], FileReading], ToolOutput]
) -> Generator[ToolInvokeMessage, None, None]:
    """Yield the output of a tool that processes a file, without an engine.

    Args:
        tool: the tool.
        parameters: of its form.
        call: gets the form, its files as plain objects, and how files are read; returns the answer.
    """
    fields = {name: _plain(value) for name, value in parameters.items()}

    def called(read: Credentials) -> ToolOutput:
        return call(fields, reading_of(read, root=ROOT))

    yield from messages(tool, guarded_tool(tool.runtime.credentials, called))


def _plain(value: Any) -> Any:
    """Return a file as Dify sent it, not as the SDK's object."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.model_dump(mode="json") if isinstance(value, File) else value


def messages(tool: Tool, answer: ToolOutput) -> Generator[ToolInvokeMessage, None, None]:
    """Yield an answer as Dify's messages.

    Texts are streamed: Dify's tool node closes every variable with an empty chunk, and an Answer node prints the chunks
    of a closed variable instead of its value. Lists and objects cannot be streamed.
    """
    yield tool.create_text_message(answer.text)
    yield from values(tool, answer.json, answer.variables)


def values(
    tool: Tool, data: Mapping[str, Any], variables: Mapping[str, Any]
) -> Generator[ToolInvokeMessage, None, None]:
    """Yield a JSON object and variables as Dify's messages; an agent, whose model would read the JSON, gets none."""
    if not _read_by_an_agent(tool):
        yield tool.create_json_message(dict(data))
    for name, value in variables.items():
        if isinstance(value, str):
            yield tool.create_stream_variable_message(name, value)
        else:
            yield tool.create_variable_message(name, value)


def _read_by_an_agent(tool: Tool) -> bool:
    """Return whether an agent called, who passes every text and JSON to its model and ignores variables.

    A node of a workflow names its app and no message; an Agent app names a message, and an agent strategy names no app.
    """
    session = tool.session
    return session.app_id is None or session.message_id is not None
