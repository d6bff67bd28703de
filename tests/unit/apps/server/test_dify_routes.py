"""What a plugin for Dify is answered by a server: who asks, what of, and how a failure is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.core.models import NOBODY, Authenticated, Classification, Principal
from context_engine.errors import NotAuthenticated, Overloaded
from context_engine.service.deployment import Deployment, LiveDeployment, open_deployment
from context_engine.settings import ConfigPaths, load_config
from context_engine.testing import FakeDataset, FakeDify, FakeDocument
from context_engine.wiring.audit import open_ledger
from context_engine.wiring.setup import usable_setup

APP, USER = "3f2c7a90-5d1e-4b8a-9c6f-2e7d41b05a13", "8c0d4e17-6a2b-4f39-b1d5-90e3c72f684a"
ANALYST = Principal(id="analyst", roles=frozenset({"analyst"}), clearance=Classification.INTERNAL)
RULES = ["A loan is approved by two officers.", "A loan above EUR 5 million is approved by the board."]
PRINCIPALS = {"intake": {"roles": ["analyst"], "dify": [{"app": APP}]}}


class Tokens:
    """An authenticator with three tokens."""

    known = {
        "open": Authenticated(principal=NOBODY, token_id="open"),
        "analyst": Authenticated(principal=ANALYST, token_id="analyst"),
        "dify": Authenticated(principal=NOBODY, token_id="dify", gateway=True),
    }

    def authenticate(self, authorization: str | None) -> Authenticated:
        token = (authorization or "").removeprefix("Bearer ")
        if token not in self.known:
            raise NotAuthenticated("no token that is in force")
        return self.known[token]

    def close(self) -> None:
        """Nothing runs beside it."""


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeDify]:
    datasets = [
        FakeDataset("rules", "economy", [FakeDocument("Rules", RULES)]),
        FakeDataset("web", "economy", [FakeDocument("Blog", ["Any loan is approved within a day, a blog says."])]),
    ]
    with FakeDify(datasets) as one:
        yield one


@pytest.fixture
def dify(fake: FakeDify) -> Iterator[FakeDify]:
    yield fake
    fake.heal()


def source(dify: FakeDify, name: str, kind: str, **more: Any) -> dict[str, Any]:
    settings = {"cache_ttl_s": 0, "attempts": 1}
    ids = [dify.dataset_id(name)]
    return {"id": name, "type": kind, "adapter": "dify", "connection": "kb", "dataset_ids": ids} | {
        "settings": settings,
        **more,
    }


@pytest.fixture
def settings() -> dict[str, Any]:
    """Of the service: the usual ones."""
    return {}


@pytest.fixture
def client(dify: FakeDify, tmp_path: Path, settings: dict[str, Any]) -> Iterator[TestClient]:
    """The domains LOANS, in which an analyst finds more, and BOARD, for analysts alone."""
    web = source(dify, "web", "general_web")
    rules = source(dify, "rules", "bank_sop", namespace="bank_rules", access={"roles": ["analyst"]})
    manifests = {
        "loans": {"version": 1, "domain": "LOANS", "title": "Loans", "sources": [web, rules]},
        "board": {"version": 1, "domain": "BOARD", "access": {"roles": ["analyst"]}, "sources": [web]},
    }
    files = {f"manifests/{name}.yaml": one for name, one in manifests.items()}
    files["config/access.yaml"] = {"version": 1, "principals": PRINCIPALS}
    files["config/rag-pipeline.json"] = settings
    files["config/personas.json"] = {"educator": {}, "narrow": {"namespaces": ["rules"]}}
    files["config/connections.yaml"] = {"kb": {"base_url": dify.base_url, "api_key": dify.api_key}}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    paths = ConfigPaths(
        origin="test", config_dir=tmp_path / "config", manifest_dir=tmp_path / "manifests", cwd=tmp_path
    )
    env = {"HOME": str(tmp_path)}

    def load() -> Deployment:
        return open_deployment(usable_setup(load_config(paths, env=env), env, tmp_path))

    service = Service(LiveDeployment(load), Tokens())
    with TestClient(create_app(service), raise_server_exceptions=False) as one:
        yield one
    service.close()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


class TestTools:
    @staticmethod
    def called(client: TestClient, tool: str, token: str = "open", **body: Any) -> Any:
        call = {"parameters": {}, **body}
        return client.post(f"/api/v1/dify/{tool}", json=call, headers=bearer(token))

    def searched(self, client: TestClient, token: str, **body: Any) -> set[str]:
        call = {"parameters": {"query": "who approves a loan", "domain_name": "LOANS"}, **body}
        answer = self.called(client, "search", token, **call)
        assert answer.status_code == 200, answer.text
        return {one["source_id"] for one in answer.json()["json"]["chunks"]}

    def test_it_says_who_it_is(self, client: TestClient) -> None:
        said = client.get("/api/v1/dify", headers=bearer("dify")).json()
        assert (said["service"], said["tools_version"], said["gateway"]) == ("context-engine", 1, True)
        assert client.get("/api/v1/dify", headers=bearer("open")).json()["gateway"] is False
        assert client.get("/api/v1/dify").status_code == 401

    def test_a_token_acts_as_its_principal(self, client: TestClient) -> None:
        assert self.searched(client, "open") == {"web"}
        assert self.searched(client, "analyst") == {"web", "rules"}

    def test_only_a_gateway_acts_as_the_app_that_it_names(self, client: TestClient) -> None:
        assert self.searched(client, "dify") == {"web"}
        assert self.searched(client, "dify", app_id=APP, user_id=USER) == {"web", "rules"}
        assert self.searched(client, "dify", app_id="another", user_id=USER) == {"web"}
        assert self.searched(client, "open", app_id=APP, user_id=USER) == {"web"}, "any caller can write an id"

    def test_an_answer_rests_on_what_a_search_of_the_same_caller_finds(self, client: TestClient) -> None:
        asked = {"query": "who approves a loan above EUR 5 million", "domain_name": "LOANS"}
        for token, body, sources in (
            ("open", {}, {"web"}),
            ("analyst", {}, {"web", "rules"}),
            ("dify", {"app_id": APP, "user_id": USER}, {"web", "rules"}),
            ("dify", {"app_id": "another"}, {"web"}),
        ):
            answer = self.called(client, "answer", token, parameters=asked, **body)
            assert answer.status_code == 200, answer.text
            found = answer.json()["variables"]["result"]
            assert {row["metadata"]["doc_metadata"]["source_id"] for row in found} == sources

    def test_a_model_called_elsewhere_gets_a_prompt_and_its_text_is_checked(self, client: TestClient) -> None:
        asked = {"query": "who approves a loan above EUR 5 million", "domain_name": "LOANS"}
        model = {"name": "m", "max_tokens": 100}
        call = {"parameters": asked, "app_id": APP}
        prompt = self.called(client, "answer", "dify", **call, model=model).json()
        assert set(prompt) == {"search_id", "messages"} and RULES[1] in prompt["messages"][0]["content"]
        label = next(
            line.split()[1]
            for line in prompt["messages"][0]["content"].split(RULES[1])[0].splitlines()[::-1]
            if line.startswith("### [")
        )
        texts = f"A loan above EUR 5 million is approved by the board {label}. It is approved by the clerk {label}."
        wrote = {"search_id": prompt["search_id"], "text": texts, "finish": "stop"}
        answer = self.called(client, "answer", "dify", **call, model={**model, "wrote": wrote}).json()
        assert answer["text"] == f"A loan above EUR 5 million is approved by the board. {label}"
        assert (answer["json"]["withheld"], answer["variables"]["search_id"]) == (1, prompt["search_id"])
        other = self.called(client, "answer", "dify", parameters=asked, app_id="x", model={**model, "wrote": wrote})
        assert (other.status_code, other.json()["code"]) == (410, "cursor_expired")
        unknown = self.called(client, "answer", "dify", **call, model={**model, "temperature": 1})
        assert unknown.status_code == 422

    def test_the_ids_stand_in_the_record(self, client: TestClient) -> None:
        call = {"query": "who approves a loan", "domain_name": "LOANS"}
        answer = self.called(client, "search", parameters=call, app_id=APP, user_id=USER, message_id="m")
        caller = answer.json()["json"]["caller"]
        assert (caller["app"], caller["principal"], caller["message"]) == (APP, USER, "m")

    def test_what_may_be_known_is_listed(self, client: TestClient) -> None:
        for token, names in (("open", ["LOANS"]), ("analyst", ["BOARD", "LOANS"])):
            answer = self.called(client, "domains", token, parameters={"check_health": False})
            assert answer.json()["variables"]["names"] == names
            assert answer.json()["json"]["audit"] == "off"

    def test_passages_are_ranked_with_the_scores_of_a_model_asked_elsewhere(self, client: TestClient) -> None:
        import hashlib

        passages = [{"content": text} for text in RULES]
        scores = {hashlib.sha256(text.encode()).hexdigest(): score for text, score in zip(RULES, (0.2, 0.9))}
        model = {"provider": "some/cohere/cohere", "model": "rerank-v3"}
        fields = {"query": "who approves", "passages": passages, "rerank_model": model}
        answer = self.called(client, "rerank", parameters=fields, rerank_scores={"scores": scores})
        assert "5 million" in answer.json()["json"]["chunks"][0]["content"]
        failed = {"scores": {}, "problem": "QuotaExceeded"}
        answer = self.called(client, "rerank", parameters=fields, rerank_scores=failed).json()
        assert answer["variables"]["status"] == "degraded"
        (notice,) = [one for one in answer["json"]["notices"] if one["code"] == "rerank_failed"]
        assert "(QuotaExceeded)" in notice["detail"]["problem"]

    @pytest.mark.parametrize(
        ("fields", "status", "code"),
        [
            ({"query": "q"}, 422, "invalid_request"),
            ({"query": "q", "domain_name": "NONE"}, 404, "unknown_domain"),
            ({"query": "q", "domain_name": "BOARD"}, 404, "unknown_domain"),
            ({"query": "q", "domain_name": "LOANS", "filter": "?"}, 422, "invalid_filter"),
        ],
    )
    def test_a_refusal_has_its_code(self, client: TestClient, fields: Any, status: int, code: str) -> None:
        answer = self.called(client, "search", parameters=fields)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.headers["content-type"] == "application/problem+json"

    def test_a_source_that_was_to_be_there(self, client: TestClient, dify: FakeDify) -> None:
        dify.inject("status_500", dataset="rules", endpoint="retrieve")
        fields = {"query": "who approves a loan", "domain_name": "LOANS", "if_source_missing": "fail"}
        answer = self.called(client, "search", "analyst", parameters=fields)
        assert (answer.status_code, answer.json()["code"]) == (409, "source_missing")
        assert "'If a source is missing'" in answer.json()["detail"]
        assert self.searched(client, "analyst") == {"web"}


class TestRetrieval:
    @staticmethod
    def asked(client: TestClient, token: str = "open", path: str = "/retrieval", **fields: Any) -> Any:
        setting = {"top_k": 4, "score_threshold": 0.0}
        body = {"knowledge_id": "LOANS", "query": "who approves a loan", "retrieval_setting": setting, **fields}
        return client.post(path, json={"metadata_condition": None, **body}, headers=bearer(token))

    def found(self, *given: Any, **fields: Any) -> set[str]:
        answer = self.asked(*given, **fields)
        assert answer.status_code == 200, answer.text
        return {one["metadata"].get("source_id", one["title"]) for one in answer.json()["records"]}

    def test_a_token_acts_as_its_principal(self, client: TestClient) -> None:
        assert self.found(client) == {"web"}
        assert self.found(client, "analyst") == {"web", "rules"}

    @pytest.mark.parametrize("path", ["http://testserver/retrieval", "http://testserver//retrieval"])
    def test_a_slash_at_the_end_of_the_registered_address_does_no_harm(self, client: TestClient, path: str) -> None:
        assert self.found(client, path=path) == {"web"}

    @pytest.mark.parametrize(
        "body", [b"", b'{"knowledge_id":"","query":"","retrieval_setting":{"top_k":1,"score_threshold":0.0}}']
    )
    def test_both_probes_of_a_registration(self, client: TestClient, body: bytes) -> None:
        kind = {"Content-Type": "application/json"} if body else {}
        answer = client.post("/retrieval", content=body, headers=bearer("open") | kind)
        assert (answer.status_code, answer.json()) == (200, {"records": []})
        refused = client.post("/retrieval", content=body, headers=bearer("wrong") | kind)
        assert (refused.status_code, refused.json()["error_code"]) == (403, 1002), "a 401 registers"

    @pytest.mark.parametrize("token", ["", "wrong"])
    def test_a_wrong_token_is_403_whatever_is_asked(self, client: TestClient, dify: FakeDify, token: str) -> None:
        before = len(dify.requests)
        assert self.asked(client, token).status_code == 403
        assert self.asked(client, token, knowledge_id="NONE").status_code == 403
        assert len(dify.requests) == before

    def test_a_persona_in_the_knowledge_id(self, client: TestClient) -> None:
        assert self.found(client, "analyst", knowledge_id="LOANS:narrow") == {"rules"}
        assert self.found(client, "analyst", knowledge_id=" LOANS : narrow ") == {"rules"}
        assert self.found(client, "analyst", knowledge_id="LOANS:educator") == {"web", "rules"}
        assert self.found(client, "analyst", "/retrieval?persona=narrow", knowledge_id="LOANS:educator") == {
            "web",
            "rules",
        }, "the id says more of this knowledge base than the address"
        assert self.found(client, "analyst", path="/retrieval?persona=narrow") == {"rules"}

    def test_a_namespace_in_the_knowledge_id(self, client: TestClient) -> None:
        assert self.found(client, "analyst", knowledge_id="LOANS:bank_rules") == {"rules"}
        (unknown,) = self.asked(client, "analyst", knowledge_id="LOANS:bank_rule").json()["records"]
        assert (
            "'bank_rule' is neither a persona nor a namespace of domain 'LOANS'. Did you mean 'bank_rules'?"
            in (unknown["content"])
        )
        (denied,) = self.asked(client, knowledge_id="LOANS:bank_rules").json()["records"]
        assert denied["metadata"]["notice"] is True and "Valid" in denied["content"]

    def test_an_unknown_persona_in_the_address_is_the_caller_s_mistake(self, client: TestClient) -> None:
        (notice,) = self.asked(client, path="/retrieval?persona=nobody").json()["records"]
        assert notice["metadata"]["notice"] is True and "nobody" in notice["content"]
        plain = self.asked(client, path="/retrieval?persona=nobody&notice_records=false")
        assert (plain.status_code, plain.json()["error_code"]) == (400, 4000)

    @pytest.mark.parametrize("knowledge", ["NONE", "BOARD", "BOARD:educator", "LOANS:nobody"])
    def test_what_is_not_there_is_a_record_that_says_so(self, client: TestClient, knowledge: str) -> None:
        answer = self.asked(client, knowledge_id=knowledge)
        (notice,) = answer.json()["records"]
        assert answer.status_code == 200 and notice["metadata"]["notice"] is True
        plain = self.asked(client, path="/retrieval?notice_records=false", knowledge_id=knowledge)
        assert (plain.status_code, plain.json()["error_code"]) == (400, 2001)

    def test_what_may_not_be_known_is_as_what_is_not_there(self, client: TestClient) -> None:
        for ending in ("", ":educator"):
            denied = self.asked(client, knowledge_id=f"BOARD{ending}")
            unknown = self.asked(client, knowledge_id=f"DROAB{ending}")
            assert denied.text.replace("BOARD", "DROAB") == unknown.text

    @pytest.mark.parametrize(
        "fields",
        [
            {"query": " "},
            {"retrieval_setting": {"top_k": 0}},
            {"retrieval_setting": {"score_threshold": 2}},
            {"metadata_condition": {"conditions": [{"name": "x", "comparison_operator": "roughly"}]}},
        ],
    )
    def test_a_request_that_cannot_be_used_is_not_asked_again(self, client: TestClient, fields: Any) -> None:
        answer = self.asked(client, **fields)
        assert (answer.status_code, answer.json()["error_code"]) == (400, 4000)

    @pytest.mark.parametrize(
        ("method", "content", "kind", "status"),
        [
            ("GET", b"", "application/json", 405),
            ("POST", b"{", "application/json", 400),
            ("POST", b"{}", "text/plain", 415),
            ("POST", b"x" * 1_100_000, "application/json", 413),
        ],
    )
    def test_what_is_refused_before_it_is_read_has_the_form_of_this_api(
        self, client: TestClient, method: str, content: bytes, kind: str, status: int
    ) -> None:
        headers = {**bearer("open"), "Content-Type": kind}
        answer = client.request(method, "/retrieval", content=content, headers=headers)
        assert (answer.status_code, answer.json()["error_code"]) == (status, 4000)
        assert ("allow" in answer.headers) == (status == 405)

    def test_no_source_answers(self, client: TestClient, dify: FakeDify) -> None:
        dify.inject("status_500", endpoint="retrieve")
        (notice,) = self.asked(client).json()["records"]
        assert notice["metadata"]["notice"] is True and notice["metadata"]["sources"] == ["web"]
        assert self.asked(client, path="/retrieval?notice_records=false").status_code == 424

    @pytest.mark.slow
    def test_a_source_that_is_late_is_left_out(self, client: TestClient, dify: FakeDify) -> None:
        dify.inject("delay", delay_s=20, dataset="rules", endpoint="retrieve")
        path = "/retrieval?deadline_s=3&retries=0"  # three seconds for the other, on a busy machine
        answer = self.asked(client, "analyst", path=path)
        notice, *others = answer.json()["records"]
        assert notice["metadata"]["sources"] == ["rules"] and len(others) == 1

    @staticmethod
    def slowed(client: TestClient, monkeypatch: Any, let_go: threading.Event) -> list[Any]:
        """Let every search wait until it is let go, and then take as long as it takes; return their requests."""
        engine = client.app.state.service.live.current.engine  # type: ignore[attr-defined]
        search, asked = engine.search, []

        def slow(request: Any) -> Any:
            asked.append(request)
            assert let_go.wait(60)
            patient = {**request.overrides, "deadline_s": 60.0, "source_timeout_s": 60.0}
            return search(replace(request, overrides=patient))

        monkeypatch.setattr(type(engine), "search", lambda _engine, request: slow(request))
        return asked

    def test_a_search_longer_than_a_try_answers_a_repeated_request(self, client: TestClient, monkeypatch: Any) -> None:
        let_go = threading.Event()
        asked = self.slowed(client, monkeypatch, let_go)
        refused = self.asked(client, path="/retrieval?deadline_s=0.2")
        assert (refused.status_code, refused.json()["error_code"]) == (503, 5030)
        assert refused.headers["retry-after"] == "1"
        let_go.set()
        answer = self.asked(client)
        assert [record["metadata"]["source_id"] for record in answer.json()["records"]] == ["web"]
        assert len(asked) == 1, "the repeated request took up the search of the first"

    def test_the_last_try_is_answered_whatever_happens(self, client: TestClient, monkeypatch: Any) -> None:
        let_go = threading.Event()
        self.slowed(client, monkeypatch, let_go)
        path = "/retrieval?deadline_s=0.2&retries=1"
        assert self.asked(client, path=path).status_code == 503
        last = self.asked(client, path=path)
        (notice,) = last.json()["records"]
        assert last.status_code == 200 and notice["metadata"]["notice"] is True
        let_go.set()
        assert len(client.app.state.service.late) == 0  # type: ignore[attr-defined]

    def test_a_service_that_is_full_says_so_in_a_record(self, client: TestClient, monkeypatch: Any) -> None:
        """After a 503 Dify asks three times more within four seconds, and then shows "nothing found"."""

        async def full(*_: Any) -> Any:
            raise Overloaded("too many wait")

        monkeypatch.setattr(client.app.state.service, "call", full)  # type: ignore[attr-defined]
        (notice,) = self.asked(client).json()["records"]
        assert notice["metadata"]["notice"] is True and "too many wait" in notice["content"]
        assert self.asked(client, path="/retrieval?notice_records=false").status_code == 424


class TestLimits:
    @pytest.mark.parametrize("settings", [{"server_max_top_k": 1, "server_max_query_chars": 30}])
    def test_a_tool_is_refused_what_the_service_takes_from_nobody(self, client: TestClient) -> None:
        for fields in ({"query": "q", "top_k": 2}, {"query": "q" * 31}):
            call = {"parameters": {"domain_name": "LOANS", **fields}}
            answer = client.post("/api/v1/dify/search", json=call, headers=bearer("open"))
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")

    @pytest.mark.parametrize("settings", [{"server_max_top_k": 1, "server_max_query_chars": 30}])
    def test_a_knowledge_base_that_asks_for_more_gets_as_many(self, client: TestClient) -> None:
        """Dify's node would show a refusal as "nothing found"."""
        assert len(TestRetrieval.asked(client, "analyst").json()["records"]) == 1
        assert TestRetrieval.asked(client, query="q" * 31).status_code == 400

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "settings",
        [{"server_max_concurrent": 1, "server_max_waiting": 0}, {"server_max_concurrent": 1, "server_max_waiting": 9}],
        ids=["full", "waiting"],
    )
    def test_a_knowledge_base_learns_in_time_that_the_service_is_full(self, client: TestClient, dify: FakeDify) -> None:
        dify.inject("delay", delay_s=30, endpoint="retrieve")
        with ThreadPoolExecutor(1) as other:
            waiting = other.submit(TestRetrieval.asked, client, path="/retrieval?deadline_s=1&retries=0")
            while not client.app.state.service.slots.at_work:  # type: ignore[attr-defined]
                time.sleep(0.01)
            (notice,) = TestRetrieval.asked(client, path="/retrieval?deadline_s=0.2&retries=0").json()["records"]
            assert notice["metadata"]["notice"] is True and "search failed" in notice["title"]
            assert waiting.result().status_code == 200


class TestRecords:
    @pytest.mark.parametrize("settings", [{"audit_mode": "required"}])
    def test_a_search_and_a_ranking_leave_records(self, client: TestClient) -> None:
        pytest.importorskip("sqlalchemy")
        found = TestTools.called(client, "search", parameters={"query": "who approves a loan", "domain_name": "LOANS"})
        passages = found.json()["variables"]["result"]
        TestTools.called(client, "rerank", parameters={"query": "who approves a loan", "passages": passages})
        TestRetrieval.asked(client)
        said = TestTools.called(client, "domains", parameters={"check_health": False}).json()
        assert said["json"]["audit"] == "required"
        deployment = client.app.state.service.live.current  # type: ignore[attr-defined]
        with open_ledger(deployment.setup, deployment.data_dir, create=False) as ledger:
            ledger.integrate()
            entries = [json.loads(one.entry or b"") for one in ledger.entries(0, ledger.size)]
        kinds = [one["kind"] for one in entries]
        assert (kinds.count("search"), kinds.count("rank"), kinds.count("context")) == (2, 1, 2)
        assert all(one["request_id"] for one in entries if one["kind"] != "context"), "of X-Request-Id"
