"""A bank of four documents in three sources, one of them the board's alone, as a deployment that records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from context_engine.adapters.sources.local.base import LocalBase
from context_engine.adapters.sources.stores.chunk_rows import places
from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.core.models import Authenticated, Classification, Principal, SearchRequest, SearchResult
from context_engine.core.protocols import Authenticator
from context_engine.errors import NotAuthenticated
from context_engine.ingest.run import ingest
from context_engine.service.deployment import Deployment, LiveDeployment, open_deployment
from context_engine.wiring.embedded_base import base_path
from context_engine.wiring.setup import access_policy, load_setup

QUESTION = "report a loss event"
CLERK = Principal(id="clerk", roles=frozenset({"front_desk"}))
CHAIR = Principal(id="chair", roles=frozenset({"board"}), clearance=Classification.RESTRICTED)
AUDITOR = Principal(id="auditor")
DOCUMENTS = {
    "rules/a.md": "# 1 Losses\n\nA loss event must be reported within 24 hours.\n\n# 2 Fines\n\nLate reports cost.\n",
    "rules/b.md": "# 1 Incidents\n\nAn incident is an event without a loss.\n",
    "board/minutes.md": "# 1 Minutes\n\nThe board wants each loss event reported to its chair first.\n",
    "web/c.txt": "Somebody on the web says that losses need no report.\n",
}


def manifest(*, rules: bool) -> dict[str, Any]:
    """Three sources; the board's has a rule where there are rules."""
    board = {"id": "board", "type": "bank_sop", "documents": [{"include": "board/*.md"}]}
    return {
        "version": 1,
        "domain": "ORM",
        "sources": [
            {"id": "sops", "type": "bank_sop", "documents": [{"include": "rules/*.md", "doc_type": "sop_document"}]},
            board | ({"access": {"roles": ["board"]}} if rules else {}),
            {"id": "web", "type": "general_web", "documents": [{"include": "web/*.txt"}]},
        ],
    }


def small_bank(
    folder: Path,
    *,
    rules: bool = True,
    documents: Mapping[str, str] = DOCUMENTS,
    settings: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
) -> Deployment:
    """Write and ingest the bank, and open it; the ledger is `ledger.db` unless the environment says otherwise."""
    for name, text in documents.items():
        (folder / "documents" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "documents" / name).write_text(text, "utf-8")
    for name in ("config", "manifests"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "config/rag-pipeline.json").write_text(json.dumps(settings or {}))
    (folder / "manifests/orm.yaml").write_text(json.dumps(manifest(rules=rules)))
    given = {"HOME": str(folder), "CONTEXT_ENGINE_AUDIT_LEDGER": str(folder / "ledger.db")}
    setup = load_setup(config_dir=folder, env={**given, **(env or {})}, cwd=folder)
    specs = setup.registry.domain("ORM").sources
    rules_of = access_policy({"ORM": setup.registry.domain("ORM")}).rules_of
    base = base_path(folder / "data")
    with (
        LocalBase.open(base, create=True, place=places(specs, rules_of)) as opened,
        opened.writer() as writer,
    ):
        ingest(folder / "documents", specs, writer)
    return open_deployment(setup, data_dir=folder / "data")


def searched(deployment: Deployment, principal: Principal, query: str = QUESTION, **fields: Any) -> SearchResult:
    """A search as the service makes it."""
    return deployment.engine.search(SearchRequest(query=query, domain="ORM", principal=principal, **fields))


class Tokens:
    """Each principal's id is its token; the auditor is an operator."""

    known = {one.id: Authenticated(principal=one, operator=one is AUDITOR) for one in (CLERK, CHAIR, AUDITOR)}

    def authenticate(self, authorization: str | None) -> Authenticated:
        found = self.known.get((authorization or "").removeprefix("Bearer "))
        if found is None:
            raise NotAuthenticated("a token is needed")
        return found

    def problems(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        pass


def caller(principal: Principal) -> Authenticated:
    """Whoever shows the token of a principal."""
    return Tokens.known[principal.id]


def client_of(deployment: Deployment, authenticator: Authenticator | None = None) -> TestClient:
    """The service over a deployment; to be used as a context manager."""
    return TestClient(create_app(Service(LiveDeployment(lambda: deployment), authenticator or Tokens(), threads=4)))


def as_(principal: Principal) -> dict[str, str]:
    """The header that names a principal."""
    return {"Authorization": f"Bearer {principal.id}"}
