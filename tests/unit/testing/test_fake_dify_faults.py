"""Each injected fault, as a client sees it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from context_engine.testing import FAULTS, FakeDataset, FakeDify, FakeDocument, Fault

DATASETS = [FakeDataset(name, "economy", [FakeDocument("D", ["alpha beta"])]) for name in ("one", "two")]
BODY = {
    "query": "alpha",
    "retrieval_model": {
        "search_method": "keyword_search",
        "reranking_enable": False,
        "top_k": 3,
        "score_threshold_enabled": False,
    },
}
STATUS = {
    "status_500": 500, "status_502": 502, "status_503": 503, "status_504": 504, "status_429": 429, "rate_limited": 403,
    "forbidden": 403, "unauthorized": 401, "not_found": 404, "bad_request": 400, "plugin_daemon_down": 400,
    "vector_store_down": 400, "redirect": 302,
}  # fmt: skip
BROKEN_WIRE = {
    "truncated": httpx.RemoteProtocolError,
    "dropped": httpx.RemoteProtocolError,
    "reset": httpx.ReadError,
}
NOT_JSON = {"html", "empty_body", "not_utf8", "broken_json"}
ENDLESS = {"huge", "huge_chunked", "gzip_bomb"}
SLOW = {"delay", "slow_head", "slow_body"}


@pytest.fixture
def dify() -> Iterator[FakeDify]:
    with FakeDify(DATASETS) as dify:
        yield dify


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=30) as client:
        yield client


def request(client: httpx.Client, dify: FakeDify, dataset: str = "one") -> httpx.Request:
    url = f"{dify.base_url}/v1/datasets/{dify.dataset_id(dataset)}/retrieve"
    return client.build_request("POST", url, headers={"Authorization": f"Bearer {dify.api_key}"}, json=BODY)


def ask(client: httpx.Client, dify: FakeDify, dataset: str = "one") -> httpx.Response:
    return client.send(request(client, dify, dataset))


@pytest.mark.parametrize("name", sorted(STATUS))
def test_faults_with_a_status(client: httpx.Client, dify: FakeDify, name: str) -> None:
    dify.inject(name)
    assert ask(client, dify).status_code == STATUS[name]


def test_too_many_requests_says_when_to_come_back(client: httpx.Client, dify: FakeDify) -> None:
    dify.inject("status_429")
    assert ask(client, dify).headers["retry-after"] == "1"


@pytest.mark.parametrize("name", sorted(BROKEN_WIRE))
def test_faults_of_the_wire(client: httpx.Client, dify: FakeDify, name: str) -> None:
    dify.inject(name)
    with pytest.raises(BROKEN_WIRE[name]):
        ask(client, dify)


@pytest.mark.parametrize("name", sorted(NOT_JSON))
def test_bodies_that_are_not_json(client: httpx.Client, dify: FakeDify, name: str) -> None:
    dify.inject(name)
    answer = ask(client, dify)
    assert answer.status_code == 200
    with pytest.raises(ValueError):
        json.loads(answer.content)


@pytest.mark.parametrize("name", sorted(set(FAULTS) - set(STATUS) - set(BROKEN_WIRE) - NOT_JSON - ENDLESS - SLOW))
def test_bodies_of_the_wrong_types(client: httpx.Client, dify: FakeDify, name: str) -> None:
    whole = ask(client, dify).json()
    dify.inject(name)
    answer = ask(client, dify)
    assert answer.status_code == 200
    assert answer.json() != whole


@pytest.mark.parametrize("name", sorted(ENDLESS))
def test_huge_bodies(client: httpx.Client, dify: FakeDify, name: str) -> None:
    dify.inject(name)
    received = 0
    answer = client.send(request(client, dify), stream=True)
    for piece in answer.iter_bytes():
        received += len(piece)
        if received > 4_000_000:
            break
    answer.close()
    assert received > 4_000_000


@pytest.mark.parametrize("name", sorted(SLOW))
def test_slow_answers(client: httpx.Client, dify: FakeDify, name: str) -> None:
    dify.inject(name, delay_s=0.0001)
    assert len(ask(client, dify).json()["records"]) == 1
    dify.heal()
    dify.inject(name, delay_s=30)
    with pytest.raises(httpx.ReadTimeout):
        hasty = request(client, dify)
        hasty.extensions = {"timeout": {"connect": 30, "read": 0.05, "write": 30, "pool": 30}}
        client.send(hasty)


def test_a_fault_strikes_only_its_dataset_endpoint_and_calls(client: httpx.Client, dify: FakeDify) -> None:
    dify.inject("status_500", dataset="one", endpoint="retrieve", calls={2})
    assert [ask(client, dify).status_code for _ in range(3)] == [200, 500, 200]
    assert [ask(client, dify, "two").status_code for _ in range(3)] == [200, 200, 200]
    headers = {"Authorization": f"Bearer {dify.api_key}"}
    dify.inject("plugin_daemon_down", endpoint="get")
    url = f"{dify.base_url}/v1/datasets/{dify.dataset_id('one')}"
    assert client.get(url, headers=headers).status_code == 400
    assert client.get(f"{dify.base_url}/v1/datasets", headers=headers).status_code == 200


def test_a_fault_of_ones_own(client: httpx.Client, dify: FakeDify) -> None:
    dify.inject(Fault(change=lambda body: {**body, "records": body["records"] * 3}), dataset="one")
    assert len(ask(client, dify).json()["records"]) == 3


def test_heal_takes_faults_back(client: httpx.Client, dify: FakeDify) -> None:
    dify.inject("status_500")
    assert ask(client, dify).status_code == 500
    dify.heal()
    assert ask(client, dify).status_code == 200


def test_stopping_lets_go_of_a_waiting_call(client: httpx.Client) -> None:
    with ThreadPoolExecutor(1) as pool:
        with FakeDify(DATASETS) as dify:
            dify.inject("delay", delay_s=60)
            call = pool.submit(ask, client, dify)
            while not dify.requests:
                time.sleep(0.01)
        assert isinstance(call.exception(30), httpx.TransportError | None)


def test_calls_and_connections_at_one_time_are_counted(dify: FakeDify) -> None:
    meeting, two = threading.Barrier(2, timeout=30), httpx.Limits(max_connections=2)

    def met(body: Any) -> Any:
        meeting.wait()
        return body

    dify.inject(Fault(change=met))
    with httpx.Client(trust_env=False, timeout=30, limits=two) as client, ThreadPoolExecutor(4) as pool:
        assert [each.status_code for each in pool.map(lambda _: ask(client, dify), range(4))] == [200] * 4
    assert dify.most_busy == dify.most_connections == 2
