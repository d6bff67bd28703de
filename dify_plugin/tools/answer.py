"""The tool `answer`: a question answered from a domain, each sentence checked against the passages."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import plugin_runtime
from dify_plugin import Tool
from dify_plugin.entities.model.llm import LLMModelConfig, LLMUsage
from dify_plugin.entities.model.message import AssistantPromptMessage, SystemPromptMessage, UserPromptMessage
from dify_plugin.entities.tool import ToolInvokeMessage

from context_engine.apps.dify.chat_model import ChatChoice, finish_reason
from context_engine.core.models import ChatMessage, ChatPart, ChatUsage

_MESSAGES = {"system": SystemPromptMessage, "user": UserPromptMessage, "assistant": AssistantPromptMessage}


class AnswerTool(Tool):
    """Answers a question."""

    def _invoke(self, tool_parameters: dict[str, Any]) -> Generator[ToolInvokeMessage, None, None]:
        yield from plugin_runtime.stated(self, tool_parameters, self._ask_model)

    def _ask_model(
        self, choice: ChatChoice, messages: Sequence[ChatMessage], parameters: Mapping[str, Any]
    ) -> Generator[ChatPart, None, None]:
        """Have Dify call the chat model that is set up there; yield its text as it comes."""
        provider, model = choice.model
        config = LLMModelConfig(provider=provider, model=model, mode=choice.mode, completion_params=dict(parameters))
        prompt = [_MESSAGES[message.role](content=message.content) for message in messages]
        for chunk in self.session.model.llm.invoke(model_config=config, prompt_messages=prompt, stream=True):
            delta = chunk.delta
            yield ChatPart(delta.message.get_text_content(), finish_reason(delta.finish_reason), _usage(delta.usage))


def _usage(usage: LLMUsage | None) -> ChatUsage | None:
    return None if usage is None else ChatUsage(usage.prompt_tokens, usage.completion_tokens)
