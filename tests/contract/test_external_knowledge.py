"""The server as an External Knowledge API: what Dify was seen to send, and what it makes of each answer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

import uvicorn
from fastapi.testclient import TestClient

from context_engine import demo
from context_engine.apps.dify.conditions import OPERATORS
from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.core.models import NOBODY, Authenticated
from context_engine.errors import NotAuthenticated
from context_engine.service.deployment import Deployment, LiveDeployment, open_deployment
from context_engine.testing.fake_dify.external import (
    Dataset,
    RegistrationRefused,
    ask_external,
    console_result,
    node_error,
    node_result,
    register_external,
)
from context_engine.wiring.setup import load_setup

RECORDINGS = Path(__file__).parent / "node_recordings"
TOKEN = "ext-key-of-the-contract-tests-0123"
OURS = Dataset("41932eaf-86e9-4ea6-8f39-8d6b446d96cd", "the bank")


class OneToken:
    """Lets the holder of one token in."""

    def authenticate(self, authorization: str | None) -> Authenticated:
        if authorization != f"Bearer {TOKEN}":
            raise NotAuthenticated("no token that is in force")
        return Authenticated(principal=NOBODY)

    def close(self) -> None:
        """Nothing runs beside it."""


@pytest.fixture(scope="module")
def app(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The service over the demo bank."""
    home = tmp_path_factory.mktemp("home")
    env = {"HOME": str(home), "XDG_DATA_HOME": str(home)}

    def load() -> Deployment:
        setup = load_setup(manifest_dir=demo.MANIFESTS, env=env, cwd=home)
        return open_deployment(setup, data_dir=demo.data_dir(demo_data), demo=True)

    service = Service(LiveDeployment(load), OneToken(), threads=4)
    yield create_app(service)
    service.close()


@pytest.fixture(scope="module")
def address(app: Any) -> Iterator[str]:
    """The same over HTTP."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


def recorded(name: str) -> Any:
    return json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))


def recorded_requests() -> list[dict[str, Any]]:
    lines = (RECORDINGS / "external_kb_requests.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


class TestTheDouble:
    """The double of Dify does what Dify was seen to do."""

    @pytest.mark.parametrize(
        ("node", "console"),
        [
            ("171-node-kr-external-many", "125-console-external-hit-testing-many"),
            ("170e-node-kr-external-below-threshold", "125-console-external-hit-testing-below-threshold"),
            ("170e-node-kr-external-null-metadata", "125-console-external-hit-testing-null-metadata"),
            ("170e-node-kr-external-no-metadata", "125-console-external-hit-testing-no-metadata"),
        ],
    )
    def test_the_node(self, node: str, console: str) -> None:
        """The console shows an answer as it came: it says what the node was given."""
        answer = json.dumps({"records": recorded(console)["response"]["body"]["records"]}).encode()
        seen = recorded(node)["outputs"]["result"]
        metadata = seen[0]["metadata"] if seen else {"dataset_id": "", "dataset_name": ""}
        dataset = Dataset(metadata["dataset_id"], metadata["dataset_name"])
        assert node_result(200, answer, dataset) == seen
        assert console_result(200, answer) == (200, recorded(console)["response"]["body"]["records"])

    def test_the_node_of_1_14(self) -> None:
        """Its passages of external knowledge have all fields of Dify's own."""
        (seen,) = recorded("171-node-kr-external-1_14_1")["outputs"]["result"]
        own = seen["metadata"]["doc_metadata"]
        dataset = Dataset(own["dataset_id"], own["dataset_name"])
        record = {"content": seen["content"], "title": seen["title"], "score": own["score"], "metadata": own}
        answer = json.dumps({"records": [record]}).encode()
        assert node_result(200, answer, dataset, modern=True) == [seen]

    @pytest.mark.parametrize(("name", "status"), [("err-1001", 401), ("err-2001", 404)])
    def test_a_refusal(self, name: str, status: int) -> None:
        message = recorded(f"125-console-external-hit-testing-{name}")["response"]["body"]["message"]
        assert console_result(status, message.encode()) == (500, message)
        assert node_result(status, message.encode(), OURS) == []

    def test_the_node_of_1_16_fails_where_the_older_ones_found_nothing(self) -> None:
        """The beginning of each message as it was seen there."""
        null = recorded("125-console-external-hit-testing-null-metadata")["response"]["body"]["records"]
        for status, answer, seen in (
            (
                400,
                b'{"error_code": 1001, "error_msg": "bad request"}',
                '{"error_code": 1001, "error_msg": "bad request"}',
            ),
            (503, b"", "Reached maximum retries (3) for URL"),
            (200, json.dumps({"records": null}).encode(), "1 validation error for Document"),
        ):
            assert node_result(status, answer, OURS) == []
            assert (node_error(status, answer) or "").startswith(seen)
        assert node_error(200, b'{"records": []}') is None

    def test_what_is_no_answer(self) -> None:
        seen = recorded("125-console-external-hit-testing-not-json")["response"]["body"]["message"]
        assert console_result(200, b"<html>") == (500, seen)
        assert node_result(200, b"<html>", OURS) == [] == node_result(200, b'{"error_code": 1}', OURS)
        seen = recorded("125-console-external-hit-testing-err-500")["response"]["body"]["message"]
        assert seen.startswith(console_result(500, b"")[1])


class TestReplay:
    """Every request that Dify was seen to send."""

    @staticmethod
    def answered(app: Any, request: dict[str, Any], body: str) -> tuple[int, bytes]:
        headers = {**request["headers"], "Authorization": f"Bearer {TOKEN}"}
        del headers["Content-Length"], headers["Host"]
        with TestClient(app) as client:
            answer = client.post("/retrieval", content=body.encode(), headers=headers)
        return answer.status_code, answer.content

    @pytest.mark.parametrize("request_seen", recorded_requests())
    def test_as_it_came(self, app: Any, request_seen: dict[str, Any]) -> None:
        """None of the knowledge ids is a domain of ours: the node gets a passage that says so, not "nothing found"."""
        status, body = self.answered(app, request_seen, request_seen["raw_body"])
        assert status == 200
        if not request_seen["raw_body"]:
            assert json.loads(body) == {"records": []}
            return
        (passage,) = node_result(status, body, OURS)
        assert node_error(status, body) is None
        assert passage["metadata"]["doc_metadata"]["notice"] is True
        assert json.loads(request_seen["raw_body"])["knowledge_id"] in passage["content"]

    @pytest.mark.parametrize("request_seen", [one for one in recorded_requests() if one["raw_body"]])
    def test_of_a_domain_of_ours(self, app: Any, request_seen: dict[str, Any]) -> None:
        asked = json.loads(request_seen["raw_body"])
        asked["retrieval_setting"]["score_threshold"] = 0.0
        asked |= {"knowledge_id": "NPA", "query": "NPA classification criteria", "metadata_condition": None}
        status, body = self.answered(app, request_seen, json.dumps(asked))
        records = json.loads(body)["records"]
        assert status == 200 and len(records) == asked["retrieval_setting"]["top_k"]
        assert node_error(status, body) is None
        shown = node_result(status, body, OURS, top_k=100)
        assert [one["content"] for one in shown] == [one["content"] for one in records], "our order, and none is lost"
        assert all(one["metadata"]["doc_metadata"]["source_id"] for one in shown)
        assert console_result(status, body)[0] == 200


def asking(**fields: Any) -> dict[str, Any]:
    setting = {"top_k": 4, "score_threshold": 0.0}
    return {
        "knowledge_id": "NPA",
        "query": "NPA classification criteria",
        "retrieval_setting": setting,
        "metadata_condition": None,
        **fields,
    }


class TestOverHttp:
    @pytest.mark.parametrize("modern", [False, True])
    def test_it_registers(self, address: str, modern: bool) -> None:
        assert register_external(address, TOKEN, modern=modern) == 200
        assert register_external(f"{address}/", TOKEN, modern=modern) == 200

    @pytest.mark.parametrize("modern", [False, True])
    def test_a_wrong_token_does_not(self, address: str, modern: bool) -> None:
        with pytest.raises(RegistrationRefused, match="Authorization failed"):
            register_external(address, "wrong", modern=modern)
        with pytest.raises(RegistrationRefused, match="Not Found"):
            register_external(f"{address}/retrieval", TOKEN, modern=modern)

    def test_a_proxy_in_front_may_keep_its_prefix(self, app: Any) -> None:
        with TestClient(app, root_path="/base") as client:
            answer = client.post("/base/retrieval", json=asking(), headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200 and len(answer.json()["records"]) == 4

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_every_operator_is_asked_and_answered(self, address: str, operator: str) -> None:
        value = ["2", "3"] if operator in ("in", "not in") else "2025-01-01" if operator in ("before", "after") else "2"
        condition = {"name": "authority_tier", "comparison_operator": operator, "value": value}
        groups = {"logical_operator": "or", "conditions": [condition, {"conditions": [condition, condition]}]}
        for given in ({"logical_operator": "and", "conditions": [condition]}, groups):
            status, body = ask_external(address, TOKEN, asking(metadata_condition=given))
            assert status == 200 and all(isinstance(one["metadata"], dict) for one in json.loads(body)["records"])

    def test_a_refused_request_is_sent_once(self, address: str) -> None:
        pauses: list[float] = []
        status, body = ask_external(address, TOKEN, asking(query=" "), pause=pauses.append)
        assert (status, pauses) == (400, []) and console_result(status, body)[0] == 500
        assert "query is empty" in console_result(status, body)[1]
        assert node_result(status, body, OURS) == [], "succeeded, nothing found: the console alone says why"

    def test_a_token_that_was_revoked(self, address: str) -> None:
        status, body = ask_external(address, "revoked", asking())
        assert status == 403 and node_result(status, body, OURS) == []
