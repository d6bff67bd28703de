"""Answers in the form of the OpenAI chat API: a model is a domain, or a domain with a persona."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from context_engine.answer.answering import Event, Finished, Started, Stated
from context_engine.answer.composed import Answer, sentence_text, separator
from context_engine.answer.contract import (
    AnswerRequest,
    AnswerResponse,
    ChatTurn,
    citation_line,
    missing_sources,
    response_of,
)
from context_engine.core.models import Principal
from context_engine.errors import InvalidRequest, UnknownDomain
from context_engine.service.deployment import Deployment

_TURNS: Final = 20
_TURN_CHARS: Final = 100_000
_READ: Final = "text"
_OBJECT: Final = "chat.completion"


class _Sent(BaseModel):
    """What a chat client sends; fields that have no meaning here are ignored, as clients send many."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ContentPart(_Sent):
    """A part of a message; only text is read."""

    type: str
    text: str | None = None


class ChatMessageIn(_Sent):
    """A message of the conversation."""

    role: str
    content: str | tuple[ContentPart, ...] | None = None

    @property
    def text(self) -> str:
        """The text of the message."""
        if isinstance(self.content, tuple):
            return "\n".join(part.text for part in self.content if part.text)
        return self.content or ""


class StreamOptions(_Sent):
    """What a stream ends with."""

    include_usage: bool | None = None


class ResponseFormat(_Sent):
    """The form of an answer; only `text` is given."""

    type: str


class CompletionRequest(_Sent):
    """A chat; the domain's settings decide about model, temperature and length."""

    model: str = Field(min_length=1, max_length=200, description="A domain, or DOMAIN:PERSONA.")
    messages: tuple[ChatMessageIn, ...] = Field(
        min_length=1, description="The whole conversation; the last 20 turns before the question are read."
    )
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(None, description="Answers; only 1 is given.")
    response_format: ResponseFormat | None = None
    tool_choice: Any = Field(None, description="A tool is never called; `none` or `auto` if sent.")


class _Given(BaseModel):
    model_config = ConfigDict(frozen=True)


class ChatMessageOut(_Given):
    """The answer as a message."""

    role: Literal["assistant"] = "assistant"
    content: str


class CompletionChoice(_Given):
    """The only choice."""

    index: Literal[0] = 0
    message: ChatMessageOut
    finish_reason: Literal["stop"] = "stop"


class ChatUsageOut(_Given):
    """Tokens; zero where no model wrote."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(_Given):
    """An answer; `context_engine` holds its sentences, quotes and ids."""

    id: str
    object: Literal["chat.completion"] = _OBJECT
    created: int
    model: str
    choices: tuple[CompletionChoice, ...]
    usage: ChatUsageOut
    context_engine: AnswerResponse


class ChatError(_Given):
    """An error as chat clients read it."""

    message: str
    type: str
    code: str
    param: None = None


class ChatErrorAnswer(_Given):
    """The body of every answer that is an error."""

    error: ChatError


class ChatModelOut(_Given):
    """A domain."""

    id: str
    object: Literal["model"] = "model"
    created: Literal[0] = 0
    owned_by: Literal["context-engine"] = "context-engine"


class ModelList(_Given):
    """The domains."""

    object: Literal["list"] = "list"
    data: tuple[ChatModelOut, ...]


def chat_question(body: CompletionRequest) -> AnswerRequest:
    """Return the question of a chat: its last user message, with the turns before it.

    Raises:
        InvalidRequest: there is no user message with text; it has a picture, a sound or a file; the question or the
            model's name is too long; or the client asks for several answers, for JSON or for a call of a tool.
    """
    _refuse_other_forms(body)
    turns = [message for message in body.messages if message.role in ("user", "assistant") and message.text.strip()]
    if not turns or turns[-1].role != "user":
        raise InvalidRequest("messages must end with a user message that has text: it is the question")
    _refuse_other_parts(turns[-1])
    domain, _, persona = body.model.partition(":")
    try:
        history = tuple(ChatTurn(role=_role(turn), content=turn.text[:_TURN_CHARS]) for turn in turns[:-1][-_TURNS:])
        return AnswerRequest(query=turns[-1].text, domain=domain, persona_key=persona or None, history=history)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        if first["loc"][0] in ("domain", "persona_key"):
            raise InvalidRequest(f"model: {first['msg']}") from None
        raise InvalidRequest(f"messages: the last one is the question. {first['msg']}: shorten it") from None


def _refuse_other_forms(body: CompletionRequest) -> None:
    if body.n not in (None, 1):
        raise InvalidRequest("n: a question has one answer here; send 1 or leave it out")
    if body.response_format is not None and body.response_format.type != "text":
        raise InvalidRequest(
            "response_format: answers here are text; leave it out, and read 'context_engine' of the answer for JSON"
        )
    if body.tool_choice not in (None, "none", "auto"):
        raise InvalidRequest("tool_choice: no tool is called here; send 'auto' or leave it out")


def _refuse_other_parts(question: ChatMessageIn) -> None:
    parts = question.content if isinstance(question.content, tuple) else ()
    other = next((part.type for part in parts if part.type != _READ), None)
    if other is not None:
        raise InvalidRequest(
            f"messages: the question has a part of type {other[:40]!r}; only text is read: send it alone"
        )


def _role(message: ChatMessageIn) -> Literal["user", "assistant"]:
    return "user" if message.role == "user" else "assistant"


def chat_completion(answer: Answer, body: CompletionRequest, created: int, *, demo: bool) -> ChatCompletion:
    """Return an answer as a chat completion.

    Args:
        created: seconds since 1970.
    """
    response = response_of(answer, demo=demo)
    content = "\n\n".join([response.text, *_notes(answer, response)])
    return ChatCompletion(
        id=_completion_id(response.answer_id),
        created=created,
        model=body.model,
        choices=(CompletionChoice(message=ChatMessageOut(content=content)),),
        usage=_usage(response),
        context_engine=response,
    )


def chat_chunks(
    events: Iterable[Event], body: CompletionRequest, created: int, *, demo: bool
) -> Generator[str, None, None]:
    """Yield the events of an answer as the chunks of a stream; sentences come as soon as they are checked."""
    import json

    completion = ""

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        fields = {"id": completion, "object": f"{_OBJECT}.chunk", "created": created, "model": body.model}
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return f"data: {json.dumps({**fields, 'choices': [choice], **more}, ensure_ascii=False)}\n\n"

    for event in events:
        match event:
            case Started(answer):
                completion = _completion_id(answer.result.search_id)
                yield chunk({"role": "assistant", "content": ""})
            case Stated(answer, number, sentence):
                text = sentence_text(sentence, marked=answer.policy == "mark")
                yield chunk({"content": text if number == 1 else separator(answer) + text})
            case Finished(answer):
                given = response_of(answer, demo=demo)
                rest = _rest(answer, given)
                if rest:
                    yield chunk({"content": rest})
                yield chunk({}, "stop", context_engine=given.model_dump(mode="json"))
                if body.stream_options is not None and body.stream_options.include_usage:
                    usage = {**json.loads(chunk({})[6:]), "choices": [], "usage": _usage(given).model_dump()}
                    yield f"data: {json.dumps(usage)}\n\n"
    yield "data: [DONE]\n\n"


def _rest(answer: Answer, response: AnswerResponse) -> str:
    """Return what follows the sentences: the refusal, or the disagreements; then `_notes`."""
    notes = _notes(answer, response)
    if response.refusal is not None:
        return "\n\n".join([response.refusal.message, *notes])
    return "".join(f"\n\n{part}" for part in (*(conflict.message for conflict in response.conflicts), *notes))


def _notes(answer: Answer, response: AnswerResponse) -> list[str]:
    """Return the cited passages, unless the answer is refused; then missing sources and warnings about the answer."""
    cited = () if response.refusal is not None else response.citations
    sources = "\n".join(f"- {citation_line(citation)}" for citation in cited)
    return [part for part in (sources, *missing_sources(answer.result), *answer.own_warnings) if part]


def _usage(answer: AnswerResponse) -> ChatUsageOut:
    sent, written = (0, 0) if answer.usage is None else (answer.usage.input_tokens, answer.usage.output_tokens)
    return ChatUsageOut(prompt_tokens=sent, completion_tokens=written, total_tokens=sent + written)


def _completion_id(record_id: str) -> str:
    return f"chatcmpl-{record_id}"


def models_of(deployment: Deployment, principal: Principal) -> ModelList:
    """Return the domains that a principal may search, alone and with each persona, as models."""
    endings = ("", *(f":{persona}" for persona in deployment.setup.resolver.personas))
    names = (f"{domain}{ending}" for domain in deployment.known_to(principal).names for ending in endings)
    return ModelList(data=tuple(ChatModelOut(id=name) for name in names))


def model_of(deployment: Deployment, principal: Principal, name: str) -> ChatModelOut:
    """Return a model by its name.

    Raises:
        UnknownDomain: the principal may search no such domain, or there is no such persona.
    """
    models = models_of(deployment, principal).data
    for model in models:
        if model.id == name:
            return model
    raise UnknownDomain(name, [model.id for model in models if ":" not in model.id])
