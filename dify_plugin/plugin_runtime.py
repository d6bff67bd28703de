"""What the tools, the provider and the endpoint of this process share: its engines and its log."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path

from dify_plugin import Tool
from dify_plugin.config.logger_format import plugin_logger_handler
from dify_plugin.entities import I18nObject, ParameterOption
from dify_plugin.entities.tool import ToolInvokeMessage

from context_engine import Caller
from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.catalogue import domain_titles
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.engines import Engines, OpenEngine, open_engine
from context_engine.apps.dify.failure import guarded
from context_engine.apps.dify.plugin_settings import load_plugin
from context_engine.core.models import Principal

ROOT = Path(__file__).resolve().parent
ENGINES = Engines(lambda credentials: open_engine(load_plugin(credentials, root=ROOT)))

_logger = logging.getLogger("context_engine")
_logger.setLevel(logging.INFO)
_logger.addHandler(plugin_logger_handler)
_logger.propagate = False


def caller_of(tool: Tool) -> Caller:
    """Return who calls, as Dify says; for the record."""
    session = tool.session
    return Caller(
        principal=tool.runtime.user_id,
        app=session.app_id,
        conversation=session.conversation_id,
        message=session.message_id,
    )


def principal_of(tool: Tool, opened: OpenEngine) -> Principal:
    """Return as whom a tool acts: by the app and the user that Dify itself names, and by no field of the form."""
    return opened.principals.for_dify(tool.session.app_id, tool.runtime.user_id)


def messages(tool: Tool, answer: ToolOutput) -> Generator[ToolInvokeMessage, None, None]:
    """Yield an answer as Dify's messages.

    Texts are streamed: Dify's tool node closes every variable with an empty chunk, and an Answer node prints the chunks
    of a closed variable instead of its value. Lists and objects cannot be streamed.
    """
    yield tool.create_text_message(answer.text)
    yield tool.create_json_message(dict(answer.json))
    for name, value in answer.variables.items():
        if isinstance(value, str):
            yield tool.create_stream_variable_message(name, value)
        else:
            yield tool.create_variable_message(name, value)


def domain_options(tool: Tool) -> list[ParameterOption]:
    """Return the domains as the options of a select: those that need no role, for Dify names no app here."""

    def titles(read: Credentials) -> list[tuple[str, str]]:
        with ENGINES.use(read) as opened:
            return domain_titles(opened, principal_of(tool, opened))

    found = guarded(tool.runtime.credentials, titles)
    return [ParameterOption(value=name, label=I18nObject(en_US=title)) for name, title in found]
