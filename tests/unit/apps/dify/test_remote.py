"""An engine in a server, asked by the plugin: what it answers, what it refuses, and what else may answer there."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.http import HttpAnswer
from context_engine.apps.dify.backend import Engines, answer_retrieval, open_backend
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.failure import SourceMissing, ToolFailure, guarded_tool, refused_by
from context_engine.apps.dify.remote import RemoteEngine, open_remote
from context_engine.apps.dify.reranking import model_scores
from context_engine.core.models import Caller, ChatPart, ChatUsage, FinishReason
from context_engine.errors import ConfigError, ContextEngineError, NotAuthenticated, UnknownDomain

TOKEN = "ce_harbour-0123456789-abcdefghij"
ACCESS = "endpoint-token-0123456789abcdefghij"
CALLER = Caller(principal="user", app="app", conversation="c", message="m")
HELLO = {"service": "context-engine", "version": "0.1.0", "tools_version": 1, "gateway": False}
OUTPUT = {"text": "t", "json": {"a": 1}, "variables": {"b": [2]}}
RECORDS = {"records": [{"content": "c", "score": 0.5, "title": "t", "metadata": {}}]}

Given = tuple[str, str, dict[str, str], bytes]
Answer = tuple[int, Any]


@contextmanager
def serving(
    answer: Callable[[Given], Answer], tls: ssl.SSLContext | None = None, **headers: str
) -> Iterator[tuple[str, list[Given]]]:
    """Serve with a function; yield the address and what was asked: (method, path, headers, body)."""
    asked: list[Given] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            status, said = answer(asked[-1])
            raw = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(raw)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(raw)

        do_POST = do_GET  # noqa: N815  the name is the base class's

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is written."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http{'s' * (tls is not None)}://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def remote(url: str, **fields: Any) -> RemoteEngine:
    opened = open_remote(Credentials.read({"server_url": url, "server_token": TOKEN, **fields}))
    assert opened is not None
    return opened


def no_model(*_: Any) -> Any:
    raise AssertionError("no model is chosen")


class TestForm:
    def test_without_a_server_the_plugin_searches_itself(self) -> None:
        assert open_remote(Credentials.read({"demo_bank": True})) is None

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("dify_base_url", "http://nginx/v1"),
            ("dify_api_key", "dataset-0123456789"),
            ("domains", "{}"),
            ("variables", '{"A": "b"}'),
            ("max_connections", "4"),
            ("demo_bank", True),
        ],
    )
    def test_a_field_that_a_server_would_not_read_is_refused(self, field: str, value: Any) -> None:
        with pytest.raises(ConfigError, match=field) as raised:
            remote("http://127.0.0.1:1", **{field: value})
        assert raised.value.key == "server_url" and str(value) not in str(raised.value).replace(field, "")

    def test_a_token_needs_an_address(self) -> None:
        with pytest.raises(ConfigError) as raised:
            open_remote(Credentials.read({"server_token": TOKEN}))
        assert raised.value.key == "server_url" and TOKEN not in str(raised.value)

    @pytest.mark.parametrize("url", ["host:8000", "ftp://host", "http://u:p@host", "http://host?x=1", "http://"])
    def test_an_address_that_is_none(self, url: str) -> None:
        with pytest.raises(ConfigError) as raised:
            remote(url)
        assert raised.value.key == "server_url" and "base_url" not in str(raised.value)

    def test_a_certificate_that_is_none(self) -> None:
        with pytest.raises(ConfigError) as raised:
            remote("https://host", ca_certificate="no")
        assert raised.value.key == "ca_certificate"

    def test_two_servers_are_two_engines(self) -> None:
        forms = [
            {"server_url": "http://a"},
            {"server_url": "http://b"},
            {"server_url": "http://b", "server_token": TOKEN},
        ]
        assert len({Credentials.read(one).fingerprint for one in forms}) == 3
        assert TOKEN not in repr(Credentials.read(forms[2])) and TOKEN not in Credentials.read(forms[2]).fingerprint


class TestCheck:
    def check(self, answer: Callable[[Given], Answer] | Answer, **fields: Any) -> None:
        handle = answer if callable(answer) else lambda _: answer
        with serving(handle) as (url, asked), closing(remote(url, **fields)) as one:
            one.check()
            assert [(method, path) for method, path, _, _ in asked] == [("GET", "/api/v1/dify")]
            assert asked[0][2]["authorization"] == f"Bearer {TOKEN}"

    def test_a_server_that_can_be_asked(self) -> None:
        self.check((200, HELLO))
        self.check((200, HELLO | {"tools_version": 2}))

    @pytest.mark.parametrize(
        ("answer", "name"),
        [
            ((404, {"detail": "Not Found"}), "NoServer"),
            ((404, {"code": "not_found", "detail": "there is nothing"}), "NoServer"),
            ((405, b"<html>"), "NoServer"),
            ((200, b"<html>sign in</html>"), "NoServer"),
            ((200, {"service": "another"}), "NoServer"),
            ((200, HELLO | {"tools_version": 0}), "NoServer"),
            ((200, {"service": "context-engine", "version": "0.0.9"}), "NoServer"),
            ((401, {"code": "not_authenticated", "detail": "no"}), "NotAuthenticated"),
            ((401, b""), "NotAuthenticated"),
            ((403, b""), "NotAuthenticated"),
            ((500, b"oops"), "ServerUnavailable"),
            ((302, b""), "ServerUnavailable"),
        ],
    )
    def test_what_else_may_answer_there(self, answer: Answer, name: str) -> None:
        with pytest.raises(ContextEngineError) as raised:
            self.check(answer)
        assert type(raised.value).__name__ == name
        assert TOKEN not in str(raised.value) and "base_url" not in str(raised.value)

    @pytest.mark.slow
    def test_nobody_answers(self) -> None:
        with serving(lambda _: (200, HELLO)) as (url, _):
            pass
        with closing(remote(url)) as one, pytest.raises(ContextEngineError, match=r"check server_url, proxy") as raised:
            one.check()
        assert type(raised.value).__name__ == "ServerUnavailable"

    def test_a_certificate_is_trusted_by_its_field_alone(self, own_ca: tuple[Path, ssl.SSLContext]) -> None:
        bundle, context = own_ca
        with serving(lambda _: (200, HELLO), context) as (url, _):
            with closing(remote(url)) as one, pytest.raises(ContextEngineError, match="is not trusted") as raised:
                one.check()
            assert "the CA certificate" in str(raised.value)
            with closing(remote(url, ca_certificate=bundle.read_text())) as one:
                one.check()

    def test_plain_http_where_tls_is_asked_for(self) -> None:
        with (
            serving(lambda _: (200, HELLO)) as (url, _),
            closing(remote(url.replace("http", "https", 1))) as one,
            pytest.raises(ContextEngineError, match="TLS failed"),
        ):
            one.check()


class TestTools:
    def test_a_call_carries_fields_and_ids(self) -> None:
        with serving(lambda _: (200, OUTPUT)) as (url, asked), closing(remote(f"{url}/engine/")) as one:
            output = one.call("search", {"query": "q", "top_k": 3}, CALLER, no_model)
        assert (output.text, output.json, output.variables) == ("t", {"a": 1}, {"b": [2]})
        method, path, headers, body = asked[0]
        assert (method, path, headers["content-type"]) == ("POST", "/engine/api/v1/dify/search", "application/json")
        ids = {"app_id": "app", "user_id": "user", "conversation_id": "c", "message_id": "m"}
        assert json.loads(body) == {"parameters": {"query": "q", "top_k": 3}, **ids}

    @pytest.mark.parametrize("answer", [b"<html>", [], {"text": "t"}, {**OUTPUT, "json": []}, {**OUTPUT, "text": 5}])
    def test_an_answer_of_another_form(self, answer: Any) -> None:
        with (
            serving(lambda _: (200, answer)) as (url, _),
            closing(remote(url)) as one,
            pytest.raises(ContextEngineError) as raised,
        ):
            one.call("search", {}, CALLER, no_model)
        assert type(raised.value).__name__ == "NoServer"

    @pytest.mark.parametrize(
        ("status", "code", "name"),
        [
            (404, "unknown_domain", "UnknownDomain"),
            (422, "invalid_filter", "InvalidFilter"),
            (409, "source_missing", "SourceMissing"),
            (502, "all_sources_failed", "AllSourcesFailed"),
            (503, "audit_unavailable", "AuditUnavailable"),
            (500, "config_error", "ConfigError"),
            (500, "internal_error", "InternalError"),
            (429, "rate_exceeded", "RateExceeded"),
        ],
    )
    def test_a_failure_has_the_name_that_it_has_in_the_plugin(self, status: int, code: str, name: str) -> None:
        problem = {"code": code, "detail": f"what is wrong, {TOKEN}", "instance": "r-1"}
        with serving(lambda _: (status, problem)) as (url, asked):
            form = {"server_url": url, "server_token": TOKEN}

            def call(credentials: Credentials) -> Any:
                with closing(open_backend(credentials, root=Path("/"))) as one:
                    return one.call("search", {}, CALLER, no_model)

            with pytest.raises(ToolFailure, match=f"^{name}: what is wrong") as raised:
                guarded_tool(form, call)
        assert type(raised.value).__name__ == name and TOKEN not in str(raised.value)
        assert ("r-1" in str(raised.value)) == (status >= 500), "the server's log has the reason under it"
        assert len(asked) == 1, "what the server has answered is not asked again"

    def test_every_error_of_the_engine_keeps_its_name(self) -> None:
        for kind in (UnknownDomain, SourceMissing, ConfigError):
            answer = HttpAnswer(400, {}, json.dumps({"code": kind.code, "detail": "d"}).encode())
            assert type(refused_by(answer, "http://h")).__name__ == kind.__name__
        answer = HttpAnswer(400, {}, json.dumps({"code": "Not A Name()", "detail": "d"}).encode())
        assert type(refused_by(answer, "http://h")).__name__ == "ServerUnavailable"

    def test_a_busy_server_is_asked_again(self) -> None:
        answers = iter([(503, {"code": "overloaded", "detail": "d"}), (200, OUTPUT)])
        with serving(lambda _: next(answers)) as (url, asked), closing(remote(url)) as one:
            assert one.call("search", {}, CALLER, no_model).text == "t"
        assert len(asked) == 2

    @pytest.mark.slow
    def test_one_that_stays_busy_is_asked_three_times(self) -> None:
        with (
            serving(lambda _: (503, b"")) as (url, asked),
            closing(remote(url)) as one,
            pytest.raises(ContextEngineError, match="busy") as raised,
        ):
            one.call("search", {}, CALLER, no_model)
        assert type(raised.value).__name__ == "ServerUnavailable" and len(asked) == 3


class TestModel:
    FIELDS = {
        "query": "q",
        "passages": [{"content": "one"}, {"content": "two"}, {"content": "one"}],
        "rerank_model": {"provider": "p", "model": "m"},
    }

    def test_the_plugin_asks_it_once_for_every_text(self) -> None:
        seen: list[Any] = []

        def ask(*given: Any) -> list[tuple[int, float]]:
            seen.append(given)
            return [(1, 0.75), (0, 0.25)]

        with serving(lambda _: (200, OUTPUT)) as (url, asked), closing(remote(url)) as one:
            one.call("rerank", self.FIELDS, CALLER, ask)
        assert [(query, texts) for _, query, texts in seen] == [("q", ["one", "two"])]
        sent = json.loads(asked[0][3])["rerank_scores"]["scores"]
        assert sorted(sent.values()) == [0.25, 0.75]

    def test_one_that_fails_is_told_by_name(self) -> None:
        def ask(*_: Any) -> Any:
            raise TimeoutError(TOKEN)

        assert model_scores(self.FIELDS, ask) == {"scores": {}, "problem": "TimeoutError"}
        assert model_scores({**self.FIELDS, "rerank_model": None}, no_model) is None


class TestAnswer:
    MODEL = {"provider": "p", "model": "m"}
    PROMPT = {"search_id": "s-1", "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "q"}]}
    FIELDS = {"query": "And then?", "domain_name": "NPA", "history": "user: pale harbour"}

    @staticmethod
    def answered(fields: dict[str, Any], answers: list[Answer], *texts: str | Exception) -> tuple[Any, Any, Any]:
        """Return the output, the bodies that the server got and the messages that the model got."""
        said, seen, rest = iter(texts), list[Any](), iter(answers)

        def ask(_choice: Any, messages: Any, _parameters: Any) -> Iterator[ChatPart]:
            seen.append(messages)
            text = next(said)
            if isinstance(text, Exception):
                raise text
            yield ChatPart(text, FinishReason.STOP, ChatUsage(7, 3))

        with serving(lambda _: next(rest)) as (url, asked), closing(remote(url)) as engine:
            (output,) = engine.answer(fields, CALLER, ask)
        assert {path for _, path, _, _ in asked} == {"/api/v1/dify/answer"}
        return output, [json.loads(body) for _, _, _, body in asked], seen

    def test_without_a_model_the_server_is_asked_once(self) -> None:
        output, bodies, _ = self.answered(self.FIELDS, [(200, OUTPUT)])
        assert (output.text, output.variables) == ("t", {"b": [2]})
        assert len(bodies) == 1 and "model" not in bodies[0]
        assert bodies[0]["parameters"]["history"] == "given" and "pale harbour" not in str(bodies)

    def test_a_model_is_called_here_and_its_text_is_checked_there(self) -> None:
        fields = {**self.FIELDS, "model": self.MODEL}
        output, bodies, seen = self.answered(
            fields, [(200, self.PROMPT), (200, OUTPUT)], "What of ports?", "It is. [1]"
        )
        assert output.text == "t" and [len(messages) for messages in seen] == [2, 2]
        assert "pale harbour" in seen[0][1].content and "pale harbour" not in str(bodies)
        assert list(map(tuple, seen[1])) == [("system", "S"), ("user", "q")]
        first, second = (body["model"] for body in bodies)
        assert (first["name"], first["question"], first["wrote"]) == ("m", "What of ports?", None)
        assert first["rewriting"]["tokens"] == {"input_tokens": 7, "output_tokens": 3, "estimated": False}
        assert (first["rewriting"]["finish"], first["rewriting"]["max_tokens"]) == ("stop", 200)
        assert second == {**first, "wrote": second["wrote"]} and bodies[0]["parameters"] == bodies[1]["parameters"]
        assert second["wrote"] == {
            "search_id": "s-1",
            "text": "It is. [1]",
            "finish": "stop",
            "tokens": {"input_tokens": 7, "output_tokens": 3, "estimated": False},
            "problem": "",
        }

    def test_a_model_that_fails_is_told(self) -> None:
        fields = {**self.FIELDS, "model": self.MODEL}
        error = TimeoutError(TOKEN)
        _, bodies, _ = self.answered(fields, [(200, self.PROMPT), (200, OUTPUT)], error, error)
        model = bodies[1]["model"]
        assert model["question"] is None and "TimeoutError" in model["warnings"][0]
        assert (model["wrote"]["text"], model["wrote"]["finish"]) == ("", None)
        assert "TimeoutError" in model["wrote"]["problem"] and TOKEN not in str(bodies)

    def test_a_refusal_of_the_server_asks_no_model(self) -> None:
        output, bodies, seen = self.answered({"query": "q", "model": self.MODEL}, [(200, OUTPUT)])
        assert (output.text, len(bodies), seen) == ("t", 1, [])

    @pytest.mark.parametrize("answer", [{"messages": "x"}, {"messages": [{"role": "tool", "content": ""}]}, []])
    def test_a_prompt_of_another_form(self, answer: Any) -> None:
        with pytest.raises(ContextEngineError) as raised:
            self.answered({"query": "q", "model": self.MODEL}, [(200, answer)])
        assert type(raised.value).__name__ == "NoServer"


class TestEndpoint:
    @staticmethod
    def asked(url: str, body: Any = None, **settings: Any) -> tuple[int, Any]:
        engines = Engines(lambda credentials: open_backend(credentials, root=Path("/")))
        form = {"server_url": url, "server_token": TOKEN, "access_token": ACCESS, **settings}
        given = {"knowledge_id": "NPA", "query": "q", "retrieval_setting": {"top_k": 2}, "metadata_condition": None}
        raw = json.dumps(given if body is None else body).encode()
        answer = answer_retrieval(form, f"Bearer {ACCESS}", raw, engines.use)
        return answer.status, json.loads(answer.encoded())

    def test_a_request_goes_on_as_it_came(self) -> None:
        with serving(lambda _: (200, RECORDS)) as (url, asked):
            assert self.asked(url, persona="researcher", notice_records=False) == (200, RECORDS)
        _, path, headers, body = asked[0]
        assert path.startswith("/retrieval?notice_records=false&deadline_s=4.")
        assert path.endswith("&persona=researcher") and headers["authorization"] == f"Bearer {TOKEN}"
        assert json.loads(body)["retrieval_setting"] == {"top_k": 2} and ACCESS not in str(asked)

    def test_a_probe_asks_nobody(self) -> None:
        with serving(lambda _: (500, b"")) as (url, asked):
            assert self.asked(url, {"knowledge_id": "", "query": ""}) == (200, {"records": []})
        assert asked == []

    @pytest.mark.parametrize("status", [400, 424, 503])
    def test_a_refusal_of_the_request_goes_back(self, status: int) -> None:
        refusal = {"error_code": 4000, "error_msg": "top_k"}
        with serving(lambda _: (status, refusal)) as (url, asked):
            assert self.asked(url) == (status, refusal)
        assert len(asked) == 1, "Dify itself repeats a request after a 503"

    @pytest.mark.parametrize("answer", [(403, {"error_code": 1002}), (200, b"<html>"), (404, {}), (500, b"")])
    def test_a_server_that_cannot_be_used_is_told_in_a_record(self, answer: Answer) -> None:
        """A 403 of the server is about its token: passed on, Dify would say that the access token is wrong."""
        with serving(lambda _: answer) as (url, _):
            status, body = self.asked(url)
            assert status == 200 and body["records"][0]["metadata"]["notice"] is True
            assert self.asked(url, notice_records=False)[0] == 424

    @pytest.mark.slow
    def test_a_silent_server_is_told_in_time(self) -> None:
        held = threading.Event()

        def silent(_: Given) -> Answer:
            held.wait(60)
            return 200, RECORDS

        with serving(silent) as (url, _):
            try:
                status, body = self.asked(url)
            finally:
                held.set()
        assert status == 200 and body["records"][0]["metadata"]["notice"] is True


def test_a_refused_token_says_where_one_is_made() -> None:
    assert isinstance(refused_by(HttpAnswer(401, {}, b""), "http://h"), NotAuthenticated)


def test_a_conversation_stays_in_the_plugin() -> None:
    """That there is one is all that the server needs to know."""
    with serving(lambda _: (200, OUTPUT)) as (url, asked), closing(remote(url)) as engine:
        engine.call("search", {"query": "q", "history": "user: pale harbour"}, CALLER, no_model)
        engine.call("search", {"query": "q", "history": " "}, CALLER, no_model)
    bodies = [body for _, _, _, body in asked]
    assert b"pale harbour" not in b"".join(bodies)
    assert [json.loads(body)["parameters"]["history"].strip() for body in bodies] == ["given", ""]
