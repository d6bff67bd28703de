"""A chat model behind a server: an answer while it is written, with an end in any case and its tokens counted."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Annotated, Any, Final, NamedTuple, Protocol

from pydantic import Field

from context_engine.adapters.http import Api, HttpCall, HttpStream, server_events
from context_engine.adapters.model_access import ModelContext, Options
from context_engine.adapters.model_access.server import ModelServer, StreamLimits, open_server
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models import ChatMessage, ChatPart, ChatUsage, FinishReason
from context_engine.core.protocols import ChatModel
from context_engine.core.text.strict_json import read_strict
from context_engine.errors import ChatModelError, SourceError, SourceProtocolError, SourceUnavailable
from context_engine.secrecy import redacted

logger = logging.getLogger(__name__)
_MOST_LOGGED: Final = 500
_COUNTER: Final = ApproxTokenCounter()
_TOKENS_OF_A_MESSAGE: Final = 4
_MOST_TOKENS: Final = 100_000_000
"""No model reads or writes as many in one call: a greater number is a mistake of the server."""

_EVENTS: Final = "text/event-stream"
ACCEPT: Final = {"Accept": f"{_EVENTS}, application/json"}
"""The header of a call whose answer may be a stream."""


class ModelOptions(Options):
    """The model to ask.

    Attributes:
        connection: name of the connection.
        model: the server's name for the model.
    """

    connection: Annotated[str, Field(min_length=1)]
    model: Annotated[str, Field(min_length=1)]


class ChatOptions(ModelOptions):
    """Options of a chat model, in addition to those of the model.

    Attributes:
        max_tokens: most tokens of an answer, with those that the model thinks in.
        stream: request the answer as it is written.
        attempts: calls for one answer, as long as nothing of it has come.
        first_s: longest wait for the first byte, in seconds.
        silence_s: longest wait between two parts.
        total_s: longest time for an answer, with repeated calls and their pauses.
    """

    max_tokens: Annotated[int, Field(ge=1, le=32_000)] = 2048
    stream: bool = True
    attempts: Annotated[int, Field(ge=1, le=5)] = 3
    first_s: Annotated[float, Field(gt=0, le=600)] = 60.0
    silence_s: Annotated[float, Field(gt=0, le=600)] = 30.0
    total_s: Annotated[float, Field(gt=0, le=3600)] = 300.0

    @property
    def limits(self) -> StreamLimits:
        """How long an answer may take."""
        return StreamLimits(self.first_s, self.silence_s, self.total_s)


class ChatRequest(NamedTuple):
    """A question to a model; see `ChatModel.chat`."""

    messages: Sequence[ChatMessage]
    max_tokens: int
    temperature: float


class Wire(Protocol):
    """How an API writes questions and answers."""

    def call(self, request: ChatRequest) -> HttpCall:
        """Return the call of a question."""
        ...

    def streamed(self, events: Iterable[Mapping[str, Any]]) -> Iterator[ChatPart]:
        """Yield pieces of text, the usage and the reason of the end, as the events of an answer tell them.

        Raises:
            SourceError: the server reports a failure.
            KeyError, IndexError, TypeError, ValueError, AttributeError: an event of another form.
        """
        ...

    def whole(self, answer: Mapping[str, Any]) -> ChatPart:
        """Return text, usage and reason of an answer that came at once; raises as `streamed` does."""
        ...


class ServerChat:
    """Asks a model behind a server. Thread-safe.

    Args:
        name: shown in the answer and the record.
        limits: how long an answer may take.
    """

    def __init__(self, name: str, options: ChatOptions, wire: Wire, server: ModelServer, limits: StreamLimits) -> None:
        self.name, self.model, self.max_tokens = name, options.model, options.max_tokens
        self._wire, self._server, self._limits = wire, server, limits

    def chat(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> Generator[ChatPart, None, None]:
        """Yield the answer's text as it is written, then the part that ends it; see `ChatModel`."""
        request, stop, written = ChatRequest(messages, max_tokens, temperature), cancelled or _never, list[str]()

        def last(finish: FinishReason, usage: ChatUsage | None = None) -> ChatPart:
            return ChatPart("", finish, usage or _estimate(messages, written))

        failure: ChatModelError | None = None
        try:
            with closing(self._server.stream(self._wire.call(request), self._read, self._limits, stop)) as parts:
                for part in parts:
                    if part.finish is not None:
                        yield last(part.finish, part.usage)
                        return
                    written.append(part.text)
                    yield part
                    if stop():
                        break
        except ChatModelError as error:
            failure = error
        if failure is None or stop():
            yield last(FinishReason.CANCELLED)
            return
        failure.text, failure.usage = "".join(written), _estimate(messages, written) if written else None
        raise failure

    def _read(self, stream: HttpStream) -> Generator[ChatPart]:
        """Yield the pieces of an answer, then one part with its end and its usage, if the server gives it."""
        finish, usage, has_text = None, None, False
        with closing(stream):
            try:
                for part in _formed(self._told(stream)):
                    finish, usage = part.finish or finish, part.usage or usage
                    if part.text:
                        has_text = True
                        yield ChatPart(part.text)
            except SourceError:
                if finish is None:
                    raise  # else the text is whole, and only the count of its tokens may be missing
        if finish is None:
            raise SourceUnavailable("the answer broke off before its end", retryable=True)
        yield ChatPart("", finish, usage if usage is None or _is_possible(usage, has_text) else None)

    def _told(self, stream: HttpStream) -> Iterator[ChatPart]:
        if stream.headers.get("content-type", "").partition(";")[0].strip().lower() == _EVENTS:
            yield from self._wire.streamed(_objects(event.data for event in server_events(stream.parts())))
        else:
            yield self._wire.whole(stream.answer().json())


def open_chat(
    wire: Wire,
    api: Api,
    options: ChatOptions,
    context: ModelContext,
    *,
    label: str,
    name: str,
    limits: StreamLimits | None = None,
) -> ServerChat:
    """Return the model of a connection; nothing is sent yet.

    Args:
        label: begins the message of every error.
        name: shown in the answer and the record.
        limits: how long an answer may take; None: as the options say.

    Raises:
        ConfigError: the connection does not exist or cannot be used.
    """

    def error(problem: str, later: bool) -> ChatModelError:
        return ChatModelError(f"{label}: {problem}", retryable=later)

    server = open_server(api, context, options.connection, error, attempts=options.attempts)
    return ServerChat(name, options, wire, server, limits or options.limits)


def ask_json(model: ChatModel, rules: str, text: str) -> Any:
    """Return the JSON value that a model answers with.

    Args:
        rules: the system's message.
        text: the user's message.

    Raises:
        ChatModelError: the model failed, or its answer was cut at its limit of tokens.
        ValueError: the answer is not JSON, or an object in it has a key twice.
    """
    messages = (ChatMessage("system", rules), ChatMessage("user", text))
    parts = list(model.chat(messages, max_tokens=model.max_tokens))
    if parts[-1].finish is FinishReason.LENGTH:
        raise ChatModelError(f"{model.name} was cut at {model.max_tokens} tokens: raise max_tokens")
    try:
        return read_strict("".join(part.text for part in parts))
    except RecursionError:
        raise ValueError("nested too deep") from None


def counted(asked: Iterable[Any], written: Any, cached: Any) -> ChatUsage | None:
    """Return a usage by a server's counts; None if one of them is missing or cannot be.

    Args:
        asked: counts of the input, which add up.
        cached: the part of the input that came from the server's cache.
    """
    counts = [*asked, written, cached]
    if any(type(count) is not int or not 0 <= count <= _MOST_TOKENS for count in counts):
        return None
    return ChatUsage(sum(counts[:-2]), written, cached)


def mapping_at(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the mapping at a key; an empty one if there is none."""
    value = values.get(key)
    return value if isinstance(value, Mapping) else {}


def reported(error: object, *, may_pass: bool) -> SourceError:
    """Return the error for a failure that a server reports while it answers; its words go to the debug log."""
    logger.debug("a chat model's server reports: %s", redacted(str(error))[:_MOST_LOGGED])
    if may_pass:
        return SourceUnavailable("the server failed while it answered: its log says why", retryable=True)
    return SourceProtocolError("the server refused to go on: the debug log holds its words")


def _formed(parts: Iterator[ChatPart]) -> Iterator[ChatPart]:
    """Yield the parts of an answer; a mistake in its form becomes an error of the server."""
    try:
        yield from parts
        return
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError):
        pass  # raised below, because the parser's error holds the answer
    raise SourceProtocolError("the answer is of another form than the chat API's: check base_url and the adapter")


def _objects(texts: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a stream until its end or the mark of its end."""
    for text in texts:
        if text == "[DONE]":
            return
        value = json.loads(text)
        if not isinstance(value, dict):
            raise ValueError("no object")
        yield value


def _is_possible(usage: ChatUsage, has_text: bool) -> bool:
    """Return whether the counts fit together: no input is empty, and no text comes from nothing."""
    return 0 < usage.input_tokens >= usage.cached_tokens and usage.output_tokens >= has_text


def _estimate(messages: Sequence[ChatMessage], written: Sequence[str]) -> ChatUsage:
    asked = sum(_TOKENS_OF_A_MESSAGE + _COUNTER.count(message.content) for message in messages)
    return ChatUsage(asked, _COUNTER.count("".join(written)), estimated=True)


def _never() -> bool:
    return False
