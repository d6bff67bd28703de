"""Readiness, reload, and work in slots, over a small bank."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.core.engine import Engine
from context_engine.errors import ConfigError, Overloaded
from context_engine.service.deployment import Deployment, LiveDeployment
from tests.unit.apps.server.small_service import small_service
from tests.unit.service.small_bank import AUDITOR, CLERK, Tokens, as_, small_bank


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bank")


def client_of(service: Service) -> TestClient:
    return TestClient(create_app(service))


def test_readiness_says_to_each_what_they_may_know(folder: Path) -> None:
    service = Service(LiveDeployment(lambda: small_bank(folder)), Tokens())
    with client_of(service) as client:
        told = {name: client.get("/readyz", headers=given).json() for name, given in CALLERS.items()}
    service.close()
    assert {one["state"] for one in told.values()} == {"ready"}
    assert told["nobody"]["sources"] is told["stranger"]["sources"] is None
    assert [one["source_id"] for one in told["clerk"]["sources"]] == ["sops", "web"]
    assert [one["source_id"] for one in told["auditor"]["sources"]] == ["sops", "board", "web"]


def test_the_watched_recall_is_told_to_an_operator_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "watched_recall", lambda _engine: {("ORM", "web"): 0.912})
    service = Service(LiveDeployment(lambda: small_bank(folder)), Tokens())
    with client_of(service) as client:
        told = {name: client.get("/readyz", headers=CALLERS[name]).json()["sources"] for name in ("clerk", "auditor")}
    service.close()
    assert {one["ann_recall"] for one in told["clerk"]} == {None}
    assert [one["ann_recall"] for one in told["auditor"]] == [None, None, 0.912]


def test_a_source_that_is_down_degrades_what_those_are_told_who_may_know_it(folder: Path) -> None:
    service = Service(LiveDeployment(lambda: small_bank(folder)), Tokens())
    with client_of(service) as client:
        client.get("/readyz")
        found = service.readiness._found
        assert found is not None
        service.readiness._found = replace(found, problems={**found.problems, ("ORM", "board"): "it is gone"})
        told = {name: client.get("/readyz", headers=given).json()["state"] for name, given in CALLERS.items()}
        service.readiness._found = replace(found, problems={**found.problems, ("ORM", "web"): "it is gone"})
        everybody = {client.get("/readyz", headers=given).json()["state"] for given in CALLERS.values()}
    service.close()
    assert told == {"nobody": "ready", "stranger": "ready", "clerk": "ready", "auditor": "degraded"}
    assert everybody == {"degraded"}


@pytest.mark.parametrize(("text", "domain"), [("domain: HR\nsauces: []\n", "HR"), ("- no manifest\n", "")])
def test_a_manifest_that_cannot_be_used_degrades_what_everybody_is_told_and_an_operator_is_told_which(
    tmp_path: Path, text: str, domain: str
) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/hr.yaml").write_text(text)
    service = Service(LiveDeployment(lambda: small_bank(tmp_path)), Tokens())
    with client_of(service) as client:
        told = {name: client.get("/readyz", headers=given) for name, given in CALLERS.items()}
    service.close()
    assert {one.json()["state"] for one in told.values()} == {"degraded"}
    assert [name for name, one in told.items() if "hr.yaml" in one.text or '"HR"' in one.text] == ["auditor"]
    first = told["auditor"].json()["sources"][0]
    assert (first["domain"], first["source_id"], first["state"]) == (domain, "", "failed")


CALLERS = {"nobody": {}, "stranger": {"Authorization": "Bearer x"}, "clerk": as_(CLERK), "auditor": as_(AUDITOR)}


def test_probes_may_ask_for_the_status_alone(folder: Path) -> None:
    service = Service(LiveDeployment(lambda: small_bank(folder)), Tokens())
    with client_of(service) as client:
        for path in ("/healthz", "/readyz"):
            asked, told = client.head(path), client.get(path)
            assert (asked.status_code, asked.headers["content-length"]) == (told.status_code, str(len(told.content)))
            assert asked.content == b""
    service.close()


def test_a_base_that_is_gone_is_told_to_operators_with_its_reason(tmp_path: Path) -> None:
    deployment = small_bank(tmp_path)
    deployment.close()
    for file in (tmp_path / "data").rglob("*"):
        if file.is_file():
            file.unlink()
    service = Service(LiveDeployment(lambda: deployment), Tokens())
    with client_of(service) as client:
        answers = {name: client.get("/readyz", headers=given) for name, given in CALLERS.items()}
    service.close()
    assert {one.status_code for one in answers.values()} == {503}
    told = {name: [one["pointer"] for one in answer.json()["errors"]] for name, answer in answers.items()}
    assert told["nobody"] == told["stranger"] == []
    assert told["clerk"] == ["ORM/sops", "ORM/web"]
    assert "ORM/board" in told["auditor"]


class Counted:
    """Opens the same deployment again and again, or fails."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.opened, self.fails = folder, list[Deployment](), False

    def __call__(self) -> Deployment:
        if self.fails:
            raise ConfigError("a key that is not known", file="config/rag-pipeline.json", key="top")
        self.opened.append(small_bank(self.folder))
        return self.opened[-1]


def test_a_reload_that_fails_changes_nothing(folder: Path) -> None:
    load, renewed = Counted(folder), list[Deployment]()
    service = Service(LiveDeployment(load), Tokens(), renew=renewed.append)
    service.reload()
    assert service.live.current is renewed[0] is load.opened[1]
    load.fails = True
    with pytest.raises(ConfigError):
        service.reload()
    assert service.live.current is load.opened[1]
    with client_of(service) as client:
        told = {name: client.get("/readyz", headers=given).json() for name, given in CALLERS.items()}
    assert {one["state"] for one in told.values()} == {"degraded"}
    assert all(one["reload_failed"] for one in told.values())
    assert [name for name, one in told.items() if one["reload_problem"]] == ["auditor"]
    load.fails = False
    service.reload()
    assert service.readiness.reload_problem is None
    service.close()


def test_tokens_that_cannot_be_used_refuse_the_whole(folder: Path) -> None:
    load = Counted(folder)

    def renew(_deployment: Deployment) -> None:
        raise ConfigError("no token is left")

    service = Service(LiveDeployment(load), Tokens(), renew=renew)
    with pytest.raises(ConfigError):
        service.reload()
    assert service.live.current is load.opened[0]
    service.close()


def test_a_caller_who_goes_holds_its_slot_until_the_work_is_done() -> None:
    service = small_service(server_max_concurrent=1, server_max_waiting=0)
    begun, end = threading.Event(), threading.Event()

    def work(_deployment: Any) -> str:
        begun.set()
        end.wait(10)
        return "done"

    async def gone_and_next() -> str:
        first = asyncio.create_task(service.run(work))
        await asyncio.to_thread(begun.wait, 10)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        with pytest.raises(Overloaded):
            await service.run(lambda _deployment: "too early")
        end.set()
        while service.slots.at_work:
            await asyncio.sleep(0.001)
        return await service.run(lambda _deployment: "next")

    assert asyncio.run(gone_and_next()) == "next"


def test_what_work_raises_is_raised_and_frees_the_slot() -> None:
    service = small_service()

    def fail(_deployment: Any) -> str:
        raise ConfigError("it fails")

    async def failing() -> int:
        with pytest.raises(ConfigError):
            await service.run(fail)
        await asyncio.sleep(0)
        return service.slots.at_work

    assert asyncio.run(failing()) == 0
