"""A chat model that is set up in Dify, as a chat model of the engine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from context_engine.apps.dify.reranking import ModelChoice, read_model
from context_engine.core.models import ChatMessage, ChatPart, ChatUsage, FinishReason
from context_engine.errors import ChatModelError

_MOST_TOKENS: Final = 1024
"""Most tokens of an answer if the form sets no `max_tokens`; every chat model can write that many."""

_REASONS: Final = {
    "stop": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.FILTERED,
}


class ChatChoice(NamedTuple):
    """The value of a model selector for chat models.

    Attributes:
        mode: chat or completion, as Dify names it.
        parameters: of the form, for each call.
    """

    model: ModelChoice
    mode: str
    parameters: Mapping[str, Any]


AskChat = Callable[[ChatChoice, Sequence[ChatMessage], Mapping[str, Any]], Iterator[ChatPart]]
"""(model, messages, parameters of the call) -> the parts of the answer as Dify streams them."""


def read_chat_model(value: Any) -> ChatChoice | None:
    """Return the chosen chat model, or None.

    Raises:
        InvalidRequest: not the value of a model selector.
    """
    model = read_model(value, field="model", kind="chat")
    if model is None:
        return None
    mode, parameters = value.get("mode"), value.get("completion_params")
    return ChatChoice(
        model,
        mode if isinstance(mode, str) and mode else "chat",
        parameters if isinstance(parameters, Mapping) else {},
    )


def finish_reason(reason: str | None) -> FinishReason | None:
    """Return the reason of an end as a model's provider names it; None while there is none.

    >>> [finish_reason(reason) for reason in (None, "stop", "tool_calls")]
    [None, <FinishReason.STOP: 'stop'>, <FinishReason.OTHER: 'other'>]
    """
    return _REASONS.get(reason.casefold(), FinishReason.OTHER) if reason else None


class DifyChat:
    """Calls a chat model of Dify. Safe for several threads at once.

    Args:
        choice: from the form; its `max_tokens` is the longest answer.
        ask: has Dify call the model.
    """

    def __init__(self, choice: ChatChoice, ask: AskChat) -> None:
        self.name = self.model = choice.model.model
        most = choice.parameters.get("max_tokens")
        self.max_tokens = most if isinstance(most, int) and not isinstance(most, bool) and most > 0 else _MOST_TOKENS
        self._choice, self._ask = choice, ask

    def chat(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> Generator[ChatPart, None, None]:
        """Yield the answer's text as Dify streams it, then the reason of its end and the tokens that Dify counted.

        Raises:
            ChatModelError: the call failed.
        """
        most = min(max_tokens, self.max_tokens)
        parameters = {**self._choice.parameters, "max_tokens": most, "temperature": temperature}
        text, finish, usage, problem = "", None, None, ""
        try:
            for part in self._ask(self._choice, messages, parameters):
                finish, usage = part.finish or finish, part.usage or usage
                text += part.text
                if part.text:
                    yield ChatPart(part.text)
                if cancelled is not None and cancelled():
                    finish = FinishReason.CANCELLED
                    break
        except Exception as error:  # noqa: BLE001  any error of the model's plugin; the answer is then quoted
            problem = f"{self.name} could not be called ({type(error).__name__}): check the model in Dify's settings"
        if problem:
            raise failed(problem, text, usage)
        yield ChatPart("", finish or FinishReason.OTHER, usage)


def failed(problem: str, text: str, usage: ChatUsage | None) -> ChatModelError:
    """Return the error of a model that wrote `text` before it failed."""
    error = ChatModelError(problem, retryable=True)
    error.text, error.usage = text, usage
    return error
