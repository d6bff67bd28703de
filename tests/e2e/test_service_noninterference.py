"""The certificate of access over HTTP and MCP: what a caller may not read changes no byte of any answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from context_engine.core.models import Authenticated, Principal, SearchRequest, filter_to_dict
from context_engine.core.policy.access import AccessViews
from context_engine.evaluation import access_proof
from context_engine.evaluation.access_proof import prove_access
from context_engine.evaluation.access_trial import StoreTrial
from context_engine.service.deployment import Deployment
from context_engine.wiring.setup import Setup, load_setup
from tests.unit.evaluation.test_access_proof import CLERK, DEAL, OPS, written
from tests.unit.service.small_bank import client_of

pytestmark = pytest.mark.slow

_TIMES = re.compile(r'("[a-z_]*_ms": ?)[0-9.e+-]+')
_MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
_NEVER_THERE = ["board_papers-0", "deal_files-0", "raised", "no-such-document"]


class WhoeverIsSet:
    """Lets in whoever is set."""

    principal = Principal()

    def authenticate(self, authorization: str | None) -> Authenticated:
        return Authenticated(principal=self.principal)

    def close(self) -> None:
        pass


class ServiceTrial(StoreTrial):
    """A base that is asked through the service, HTTP and MCP alike."""

    _client: TestClient | None = None
    _deployment: Deployment
    _who = WhoeverIsSet()

    def close(self) -> None:
        if self._client is not None:
            self._client.__exit__(None, None, None)
        self._client = None
        super().close()

    reopen = close

    def answer(self, request: SearchRequest) -> Mapping[str, Any]:
        client = self._served()
        self._who.principal = request.principal
        body = _body(request)
        found = {
            "query": _told(client.post("/api/v1/rag/query", json=body)),
            "retrieve": _told(client.post("/api/v1/rag/retrieve", json=body)),
            "domains": _told(client.get("/api/v1/rag/domains")),
            "fetch": _told(client.post("/api/v1/rag/fetch", json=_fetched(request.domain))),
            "retrieval": _told(client.post("/retrieval", json=_external(request))),
            **self._tools(request),
        }
        for search_id in re.findall(r'"search_id": ?"([^"]+)"', found["query"]):
            found["mcp explain"] = self._called("explain", {"search_id": search_id})
            found["explanation"] = _told(client.get(f"/api/v1/rag/records/{search_id}/explanation"))
        status = found["query"].partition(" ")[0]
        return {"outcome": status, **found}

    def _called(self, name: str, arguments: dict[str, Any]) -> str:
        params = {"name": name, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return _told(self._served().post("/mcp", json=body, headers=_MCP))

    def _tools(self, request: SearchRequest) -> dict[str, str]:
        """Return what the tools answer at `/mcp`."""
        given: dict[str, dict[str, Any]] = {
            "search": {"question": request.query, "domain": request.domain, "detail": "full"},
            "fetch": {"document_id": _NEVER_THERE[0], "domain": request.domain},
            "domains": {},
        }
        return {f"mcp {name}": self._called(name, arguments) for name, arguments in given.items()}

    def _served(self) -> TestClient:
        if self._client is None:
            self._deployment = Deployment(
                setup=self.setup,
                engine=self._opened(),
                views=AccessViews(self.setup.registry, self.setup.access),
                data_dir=self._data_dir,
            )
            self._client = client_of(self._deployment, self._who)
            self._client.headers["X-Request-Id"] = "trial"
            self._client.base_url = "http://localhost"
            self._client.__enter__()
        return self._client


def _body(request: SearchRequest) -> dict[str, Any]:
    return {
        "query": request.query,
        "domain": request.domain,
        "filters": filter_to_dict(request.filters),
        "as_of": request.as_of.isoformat() if request.as_of else None,
        "require_sources": list(request.require_sources),
        "settings": dict(request.overrides),
        "compare": True,
    }


def _fetched(domain: str) -> dict[str, Any]:
    return {"domain": domain, "document_ids": _NEVER_THERE, "chunk_ids": [f"{one}#1" for one in _NEVER_THERE]}


def _external(request: SearchRequest) -> dict[str, Any]:
    setting = {"top_k": 5, "score_threshold": 0.0}
    return {"knowledge_id": request.domain, "query": request.query, "retrieval_setting": setting}


def _told(answer: Any) -> str:
    return f"{answer.status_code} " + _TIMES.sub(r"\g<1>0", answer.text)


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> tuple[Setup, Path]:
    folder = tmp_path_factory.mktemp("bank")
    for place in ("config", "manifests"):
        (folder / place).mkdir()
    (folder / "manifests/ops.yaml").write_text(OPS, "utf-8")
    (folder / "manifests/deal.yaml").write_text(DEAL, "utf-8")
    (folder / "config/rag-pipeline.json").write_text('{"server": {"server_rate_per_minute": 0}}', "utf-8")
    setup = load_setup(env={}, cwd=folder)
    written(setup, folder / "data")
    return setup, folder / "data"


def test_no_answer_of_the_service_changes(bank: tuple[Setup, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_proof, "StoreTrial", ServiceTrial)
    (found,) = prove_access(*bank, [CLERK], changes=18, questions=6)
    assert found.first is None, found.first
    assert found.holds and found.insider_saw
    assert {"200", "404"} <= set(found.outcomes)


def test_a_service_that_shows_what_is_hidden_is_caught(
    bank: tuple[Setup, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_proof, "StoreTrial", ServiceTrial)
    monkeypatch.setattr("context_engine.adapters.sources.local.writer.partition_key", lambda *_: 1)
    (found,) = prove_access(*bank, [CLERK], changes=15, questions=6)
    assert not found.holds and found.first is not None
