"""The engine of a server, `context-engine serve`, used instead of one in the plugin's process."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from pydantic import SecretStr, ValidationError

from context_engine.adapters.http import Api, ApiClient, Backoff, HttpAnswer, HttpCall, RetryBudget, retried
from context_engine.adapters.http.retry import retry_after
from context_engine.answer.answering import standalone
from context_engine.answer.writing import Writer
from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.answering import Answering
from context_engine.apps.dify.chat_model import AskChat, DifyChat, read_chat_model
from context_engine.apps.dify.conversation import conversation
from context_engine.apps.dify.credentials import Credentials, read_certificates
from context_engine.apps.dify.dify_json import plain
from context_engine.apps.dify.external import ExternalAnswer
from context_engine.apps.dify.failure import (
    ServerUnavailable,
    body_of,
    checked_hello,
    refused_by,
    renamed,
    unusable_answer,
)
from context_engine.apps.dify.form import GIVEN, query_field, text_field
from context_engine.apps.dify.model_prompt import PluginModel, Prompt, Rewriting, model_text
from context_engine.apps.dify.reranking import Ask, model_scores
from context_engine.apps.dify.retrieval import Retrieval
from context_engine.apps.dify.tools import ToolName
from context_engine.core.engine import SystemClock
from context_engine.core.models import Caller
from context_engine.errors import AuditUnavailable, ConfigError, SourceError, SourceUnavailable
from context_engine.settings.connections import Connection

_API: Final = Api(good=frozenset(range(200, 300)) | frozenset(range(400, 600)), bounded_elsewhere=True)
_PATH: Final = "api/v1/dify"
_PATIENCE_S: Final = 110.0
"""Seconds of a tool's call: Dify's runtime ends it after 120."""

_CHECK_S: Final = 15.0
_ON_THE_WAY_S: Final = 0.3
_LEAST_S: Final = 0.2
_BUSY: Final = 503
_PASSED_ON: Final = (200, 400, 424, 503)
_ATTEMPTS: Final = 3
_BACKOFF: Final = Backoff(0.3, 2.0)
_FIELDS: Final = {"base_url": "server_url", "api_key": "server_token", "proxy": "proxy"}
_OF_AN_ENGINE: Final = {
    "dify_base_url": "base_url",
    "dify_api_key": "api_key",
    "domains": "domains",
    "variables": "variables",
    "max_connections": "max_connections",
    "demo_bank": "demo_bank",
}


class RemoteEngine:
    """A backend that calls a server.

    Args:
        connection: to the server.
        folder: has the certificate; removed when this object is closed.
    """

    def __init__(self, connection: Connection, folder: tempfile.TemporaryDirectory[str]) -> None:
        self._url, self._folder = connection.base_url, folder
        self._clock = SystemClock()
        self._client = ApiClient(_API, lambda: connection, self._clock)

    def call(self, tool: ToolName, fields: Mapping[str, Any], caller: Caller, ask: Ask) -> ToolOutput:
        """Return a tool's output; a rerank model is called here, because the server cannot reach it."""
        more = {"rerank_scores": model_scores(fields, ask)} if tool == "rerank" else {}
        return self._called(tool, _without_conversation(fields), caller, more, _PATIENCE_S)

    def answer(self, fields: Mapping[str, Any], caller: Caller, ask: AskChat) -> Answering:
        """Yield the output of `answer` at once, because the server checks the whole text.

        A chat model is called here, because the server cannot reach it. The conversation stays here.
        """
        choice, asked = read_chat_model(fields.get("model")), _without_conversation(fields)
        if choice is None:
            yield self._called("answer", asked, caller, {}, _PATIENCE_S)
            return
        chat, query = DifyChat(choice, ask), query_field(fields)
        writer = Writer(chat)
        question, warnings = standalone(writer, query, conversation(fields))
        model = PluginModel(
            name=chat.name,
            max_tokens=chat.max_tokens,
            question=None if question == query else question,
            rewriting=Rewriting.of(writer.rewriting),
            warnings=tuple(warnings),
        )
        first = self._posted("answer", asked, caller, {"model": model.model_dump(mode="json")}, _PATIENCE_S)
        if "messages" not in first:
            yield self._output(first)
            return
        wrote = model_text(chat, self._prompt(first))
        whole = model.model_copy(update={"wrote": wrote}).model_dump(mode="json")
        yield self._called("answer", asked, caller, {"model": whole}, _PATIENCE_S)

    def check(self) -> None:
        """Check the server's greeting.

        Raises:
            ContextEngineError: the server is unreachable, refuses the token, or is too old for this plugin.
        """
        checked_hello(self._answer(HttpCall("GET", _PATH), _CHECK_S), self._url)

    def retrieve(self, asked: Retrieval, token: str) -> ExternalAnswer:
        """Let the server answer within the time limit, as the principal of the server's token (not of the endpoint's
        token).
        """
        how: dict[str, Any] = {"notice_records": str(asked.notice_records).lower()}
        how["deadline_s"] = round(max(asked.left_s - _ON_THE_WAY_S, _LEAST_S), 3)
        how |= {"persona": asked.persona} if asked.persona else {}
        call = HttpCall("POST", f"retrieval?{urlencode(how)}", plain(asked.request.raw))
        answer = self._answer(call, asked.left_s)
        body = body_of(answer)
        if answer.status in _PASSED_ON and body.keys() & {"records", "error_code"}:
            return ExternalAnswer(answer.status, body)
        raise unusable_answer(self._url) if answer.status == 200 else refused_by(answer, self._url)

    def close(self) -> None:
        """Close the connections and remove the folder."""
        self._client.close()
        self._folder.cleanup()

    def _called(
        self, tool: str, fields: Mapping[str, Any], caller: Caller, more: Mapping[str, Any], seconds: float
    ) -> ToolOutput:
        """Return a tool's output.

        Raises:
            ContextEngineError: the server's error, by its name, or an unusable answer.
        """
        return self._output(self._posted(tool, fields, caller, more, seconds))

    def _posted(
        self, tool: str, fields: Mapping[str, Any], caller: Caller, more: Mapping[str, Any], seconds: float
    ) -> Mapping[str, Any]:
        """Return the server's answer to a call of a tool."""
        body = plain({"parameters": fields, **_ids(caller), **more})
        answer = self._answer(HttpCall("POST", f"{_PATH}/{tool}", body), seconds)
        if answer.status != 200:
            raise refused_by(answer, self._url)
        return body_of(answer)

    def _output(self, content: Mapping[str, Any]) -> ToolOutput:
        """Return a tool's output from a server's answer."""
        text, data, variables = content.get("text"), content.get("json"), content.get("variables")
        if not isinstance(text, str) or not isinstance(data, Mapping) or not isinstance(variables, Mapping):
            raise unusable_answer(self._url)
        return ToolOutput(text=text, json=data, variables=variables)

    def _prompt(self, content: Mapping[str, Any]) -> Prompt:
        """Return what to ask a chat model from a server's answer."""
        try:
            return Prompt.model_validate(content)
        except ValidationError:
            raise unusable_answer(self._url) from None

    def _answer(self, call: HttpCall, seconds: float) -> HttpAnswer:
        """Return a server's answer; retried if unreachable or busy, because calls have no side effects."""
        due = self._clock.monotonic() + seconds

        def left() -> float:
            return due - self._clock.monotonic()

        def once() -> HttpAnswer:
            answer = self._client.call(call, self._client.access(), left, silence_s=seconds)
            if answer.status == _BUSY and not _is_final(body_of(answer)):
                pause = retry_after(answer.headers, self._clock.now())
                raise SourceUnavailable("it is busy or about to stop (503)", retryable=True, retry_after_s=pause)
            return answer

        problem = ""
        try:
            return retried(once, RetryBudget(_ATTEMPTS), left, _BACKOFF, outages=(SourceUnavailable,))
        except SourceError as error:
            problem = renamed(str(error))
        raise ServerUnavailable(f"the server {self._url} gave no answer: {problem}")


def _is_final(body: Mapping[str, Any]) -> bool:
    """Return whether asking again at once is useless after this body of a 503.

    Either the ledger cannot be written, or the search of a retrieval goes on, and Dify asks again after a pause.
    """
    return body.get("code") == AuditUnavailable.code or "error_code" in body


def open_remote(credentials: Credentials) -> RemoteEngine | None:
    """Return the backend for the form's server, or None if it names none.

    Raises:
        ConfigError: an invalid field, or a filled one that only an engine in the plugin's process would read.
    """
    if credentials.server_url is None:
        if credentials.server_token is not None:
            raise ConfigError("is empty, and server_token is filled in: give the server's address", key="server_url")
        return None
    filled = [name for name, attribute in _OF_AN_ENGINE.items() if getattr(credentials, attribute)]
    if filled:
        raise ConfigError(
            f"with a server, the values of {', '.join(filled)} have no effect: clear them, or clear server_url to "
            "search from the plugin itself",
            key="server_url",
        )
    folder = tempfile.TemporaryDirectory(prefix="context-engine-plugin-")
    try:
        return RemoteEngine(_connection(credentials, Path(folder.name)), folder)
    except ConfigError:
        folder.cleanup()
        raise


def _connection(credentials: Credentials, place: Path) -> Connection:
    settings: dict[str, Any] = {"base_url": credentials.server_url, "timeout_s": _CHECK_S}
    for field, value in (("api_key", credentials.server_token), ("proxy", credentials.proxy)):
        settings |= {field: SecretStr(value)} if value is not None else {}
    if credentials.ca_certificate is not None:
        settings["ca_bundle"] = place / "ca.pem"
        (place / "ca.pem").write_text(read_certificates(credentials.ca_certificate), "ascii")
    problem = key = ""
    try:
        return Connection.model_validate(settings)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        problem, key = str(first["msg"]).removeprefix("Value error, "), str((*first["loc"], "base_url")[0])
    raise ConfigError(renamed(problem), key=_FIELDS.get(key, key))


def _without_conversation(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields with a word in place of the conversation: that there is one is all that a search needs."""
    return {**fields, "history": GIVEN} if text_field(fields, "history") else fields


def _ids(caller: Caller) -> dict[str, Any]:
    return {
        "app_id": caller.app,
        "user_id": caller.principal,
        "conversation_id": caller.conversation,
        "message_id": caller.message,
    }
