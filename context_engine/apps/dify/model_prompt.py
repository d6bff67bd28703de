"""What the plugin and a server tell each other so that a chat model of Dify writes an answer.

The server searches and returns a prompt. The plugin has Dify's model answer it, and sends back what the model wrote; a
stand-in for the model then says it once more, so that the answer is checked and recorded as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from context_engine.answer.writing import ModelCall
from context_engine.apps.dify.chat_model import failed
from context_engine.core.models import ChatMessage, ChatPart, ChatUsage, FinishReason
from context_engine.core.protocols import ChatModel
from context_engine.errors import ChatModelError


class ModelTokens(BaseModel):
    """The tokens of a call."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input_tokens: int = Field(ge=0, strict=True)
    output_tokens: int = Field(ge=0, strict=True)
    estimated: bool = Field(False, strict=True, description="Counted by the plugin, because Dify reported none.")

    @classmethod
    def of(cls, usage: ChatUsage | None) -> ModelTokens | None:
        """Return the tokens of a call; None if they are not known."""
        if usage is None:
            return None
        return cls(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, estimated=usage.estimated)

    @property
    def usage(self) -> ChatUsage:
        """The tokens as a chat model reports them."""
        return ChatUsage(self.input_tokens, self.output_tokens, estimated=self.estimated)


class ModelText(BaseModel):
    """What a chat model of Dify wrote for `answer`, called by the plugin."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    search_id: str = Field(max_length=200, description="Of the search whose prompt it was given.")
    text: str = Field(max_length=1_000_000)
    finish: FinishReason | None = Field(None, description="Why it stopped; null: it failed.")
    tokens: ModelTokens | None = Field(None, description="Null: not known.")
    problem: str = Field("", max_length=500, description="What failed; the text is what came before.")

    @property
    def usage(self) -> ChatUsage | None:
        """The tokens as a chat model reports them."""
        return None if self.tokens is None else self.tokens.usage


class Rewriting(BaseModel):
    """The call in which the model wrote the question from the conversation, for the record."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt_sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="Of the messages, which stay in the plugin.")
    max_tokens: int = Field(ge=1, strict=True)
    finish: str = Field(max_length=20)
    tokens: ModelTokens | None = None

    @classmethod
    def of(cls, written: ModelCall | None) -> Rewriting | None:
        """Return a call of the plugin; None if there was none."""
        if written is None:
            return None
        return cls(
            prompt_sha256=written.prompt_sha256,
            max_tokens=written.parameters["max_tokens"],
            finish=written.finish,
            tokens=ModelTokens.of(written.usage),
        )


class PluginModel(BaseModel):
    """The chat model of Dify that the plugin calls for `answer`, because a server cannot."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=255)
    max_tokens: int = Field(ge=1, strict=True, description="Most tokens of its answer.")
    question: str | None = Field(
        None, max_length=10_000, description="The question as it wrote it from the conversation; null: as asked."
    )
    rewriting: Rewriting | None = Field(None, description="The call for that; null: there was none.")
    warnings: tuple[str, ...] = Field((), max_length=10, description="Sentences for people about that.")
    wrote: ModelText | None = Field(None, description="Null: search, and return the prompt.")

    @property
    def rewritten(self) -> ModelCall | None:
        """The call for the question, for the record of the answer."""
        made = self.rewriting
        if made is None:
            return None
        parameters = {"max_tokens": made.max_tokens, "temperature": 0.0}
        usage = None if made.tokens is None else made.tokens.usage
        return ModelCall(self.name, made.prompt_sha256, parameters, finish=made.finish, usage=usage)


class PromptMessage(BaseModel):
    """A message to a chat model."""

    model_config = ConfigDict(frozen=True)

    role: Literal["system", "user", "assistant"]
    content: str


class Prompt(BaseModel):
    """What the plugin asks its model after a search; the text goes back as `wrote`."""

    model_config = ConfigDict(frozen=True)

    search_id: str
    messages: tuple[PromptMessage, ...]

    @classmethod
    def of(cls, search_id: str, messages: Sequence[ChatMessage]) -> Prompt:
        """Return the prompt of a search."""
        made = (PromptMessage(role=message.role, content=message.content) for message in messages)
        return cls(search_id=search_id, messages=tuple(made))


class AskedBeforehand:
    """Stands for a model that the plugin has called: says what it wrote, or fails as it did."""

    def __init__(self, model: PluginModel, wrote: ModelText) -> None:
        self.name = self.model = model.name
        self.max_tokens, self._wrote = model.max_tokens, wrote

    def chat(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> Generator[ChatPart, None, None]:
        """Yield the text and the end of the earlier call.

        Raises:
            ChatModelError: the earlier call failed.
        """
        wrote = self._wrote
        if wrote.text:
            yield ChatPart(wrote.text)
        if wrote.problem:
            raise failed(wrote.problem, wrote.text, wrote.usage)
        yield ChatPart("", wrote.finish or FinishReason.OTHER, wrote.usage)


def model_text(model: ChatModel, prompt: Prompt) -> ModelText:
    """Return what a model writes for a server's prompt; its failure is part of that."""
    messages = [ChatMessage(message.role, message.content) for message in prompt.messages]
    text, end, problem = "", ChatPart(), ""
    try:
        for part in model.chat(messages, max_tokens=model.max_tokens):
            text, end = text + part.text, part
    except ChatModelError as error:
        problem, end = str(error), ChatPart(usage=error.usage)
    tokens = ModelTokens.of(end.usage)
    return ModelText(search_id=prompt.search_id, text=text, finish=end.finish, tokens=tokens, problem=problem)
