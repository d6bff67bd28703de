"""What a running Dify 1.12.1 was seen to do where no recording of a search shows it, FakeDify does; and what we make
of it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import SourceQuery, SourceSpec
from context_engine.errors import SourceForbidden, SourceUnavailable
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify, FakeDocument
from context_engine.testing.fake_dify import RegistrationRefused
from context_engine.testing.fake_dify.stored import keywords_of

RECORDINGS = Path(__file__).parent / "recordings"
MANY = FakeDataset("Many", documents=[FakeDocument("M", [f"Approval limit number {number}." for number in range(44)])])


def source_of(dify: FakeDify, *names: str) -> DifySource:
    connection = Connection(base_url=dify.base_url, api_key=dify.api_key)
    spec = SourceSpec(
        id="s", type="bank_sop", adapter="dify", connection="c", settings={"attempts": 1},
        dataset_ids=tuple(map(dify.dataset_id, names)),
    )  # fmt: skip
    return DifySource(spec, Workspace(lambda: connection, SystemClock()), SystemClock())


def search(dify: FakeDify, *names: str, text: str = "approval limit") -> Any:
    source = source_of(dify, *names)
    try:
        return source.search(SourceQuery(text=text, domain="NPA", top_k=10))
    finally:
        source.close()


def call(dify: FakeDify, method: str, path: str, key: str | None = None, body: Any = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key or dify.api_key}"}
    return httpx.request(method, f"{dify.base_url}/v1/datasets{path}", headers=headers, json=body, trust_env=False)


def asked(method: str, top_k: int = 10) -> dict[str, Any]:
    model = {"search_method": method, "reranking_enable": False, "top_k": top_k, "score_threshold_enabled": False}
    return {"query": "approval limit", "retrieval_model": model}


# another workspace's dataset: 403 in the words of a permission, after the key was found right (the order of the checks)


def test_a_dataset_of_another_workspace_is_forbidden_after_the_key_and_before_the_body() -> None:
    with FakeDify([FakeDataset("Foreign", documents=MANY.documents, foreign=True), MANY]) as dify:
        path = f"/{dify.dataset_id('Foreign')}"
        for method, where, body in (("GET", path, None), ("POST", f"{path}/retrieve", {"query": 5})):
            refused = call(dify, method, where, body=body)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
            assert refused.json()["message"] == "You do not have permission to access this dataset."
        body = asked("semantic_search")
        assert call(dify, "POST", f"{path}/retrieve", key="dataset-wrong", body=body).status_code == 401
        assert call(dify, "GET", f"{path}/documents").status_code == 404
        assert [row["name"] for row in call(dify, "GET", "").json()["data"]] == ["Many"]


def test_we_say_that_it_belongs_to_another_workspace_and_answer_from_the_others() -> None:
    with FakeDify([FakeDataset("Foreign", documents=MANY.documents, foreign=True), MANY]) as dify:
        with pytest.raises(SourceForbidden, match="belongs to another workspace"):
            search(dify, "Foreign")
        answer = search(dify, "Foreign", "Many")
        assert len(answer.chunks) == 10
        assert [type(one) for one in answer.failures] == [SourceForbidden]


# pgvector's HNSW index gave 40 of 44 chunks where 100 were asked for, and all 44 where 1000 were


@pytest.mark.parametrize(("top_k", "given"), [(10, 10), (40, 40), (100, 40), (1000, 44)])
def test_the_vector_index_gives_no_more_than_forty_unless_the_table_is_read(top_k: int, given: int) -> None:
    with FakeDify([MANY]) as dify:
        answer = call(dify, "POST", f"/{dify.dataset_id('Many')}/retrieve", body=asked("semantic_search", top_k))
        assert len(answer.json()["records"]) == given


# an outage in a hybrid search is said once by each leg, joined by a semicolon and a line break (recording 44-hybrid)


def recorded_message(name: str) -> str:
    return str(json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))["response"]["body"]["message"])


@pytest.mark.parametrize(
    ("fault", "recording"),
    [
        ("vector_store_down", "162-vector-db-down-semantic"),
        ("plugin_daemon_down", "99-plugin-daemon-down-40-query-only"),
    ],
)
def test_an_outage_is_said_twice_by_a_hybrid_search_and_is_an_outage_to_us(fault: str, recording: str) -> None:
    assert recorded_message("44-hybrid_search-on-economy").count(";\n") == 1
    reranked = FakeDataset("Hybrid", documents=MANY.documents, reranker=("langgenius/fake/fake", "fake-rerank"))
    with FakeDify([MANY, reranked]) as dify:
        dify.inject(fault, endpoint="retrieve")
        path = f"/{dify.dataset_id('Many')}/retrieve"
        once = call(dify, "POST", path, body=asked("semantic_search")).json()["message"]
        twice = call(dify, "POST", path, body=asked("hybrid_search")).json()["message"]
        assert once[:20] == recorded_message(recording)[:20]
        assert twice == f"{once};\n{once}"
        with pytest.raises(SourceUnavailable, match="behind Dify is down"):
            search(dify, "Hybrid")
        assert b"hybrid_search" in json.dumps(dify.requests[-1].body).encode()


# Chinese: the ten best words of a text, of two to four characters (the numbers are those of Dify's analyser)


@pytest.mark.parametrize(
    ("text", "theirs"),
    [
        ("银行应当建立完善的资本充足率管理制度，确保核心一级资本充足率不低于百分之五，并定期向监管机构报告。", 10),
        ("新产品审批委员会应在三十个工作日内完成对新产品申请材料的审查，并出具书面意见。", 10),
        ("资本充足率是多少", 3),
        ("新产品审批需要多长时间", 4),
        ("不良贷款拨备覆盖率的最低要求是什么", 6),
        ("客户尽职调查", 3),
    ],
)
def test_a_chinese_text_has_about_as_many_keywords_as_in_dify(text: str, theirs: int) -> None:
    assert abs(len(keywords_of(text)) - theirs) <= 1


def test_a_chinese_question_finds_the_text_that_shares_most_words() -> None:
    texts = ["资本充足率不低于百分之八。", "新产品审批需要三十个工作日。", "客户尽职调查每年一次。"]
    with FakeDify([FakeDataset("E", "economy", [FakeDocument("D", texts)])]) as dify:
        assert [chunk.content for chunk in search(dify, "E", text="资本充足率是多少").chunks] == texts[:1]
        assert [chunk.content for chunk in search(dify, "E", text="客户尽职调查").chunks] == texts[2:]


# registering an External Knowledge API: only 403, 404, 502, what is asked again in vain and no answer are refused


class Endpoint(ThreadingHTTPServer):
    """Gives the statuses it was told to, the last one for ever."""

    daemon_threads = True

    def __init__(self) -> None:
        self.statuses, self.probes = [200], list[tuple[str, dict[str, str], bytes]]()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = self.server
        server.probes.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(server.statuses.pop(0) if len(server.statuses) > 1 else server.statuses[0])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


Register = Callable[[str], int]


@pytest.fixture
def register(endpoint: Endpoint) -> Register:
    return lambda version: FakeDify(version=version).register_external_knowledge(endpoint.url, "token-1")


@pytest.mark.parametrize("status", [200, 201, 400, 401, 415, 422, 424])
def test_every_other_answer_registers(status: int, endpoint: Endpoint, register: Register) -> None:
    endpoint.statuses = [status]
    assert register("1.12.1") == status
    assert len(endpoint.probes) == 1


@pytest.mark.parametrize("status", [403, 404])
def test_forbidden_and_not_found_are_refused_at_once(status: int, endpoint: Endpoint, register: Register) -> None:
    endpoint.statuses = [status]
    with pytest.raises(RegistrationRefused, match="Forbidden" if status == 403 else "Not Found"):
        register("1.12.1")
    assert len(endpoint.probes) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_pass_is_asked_four_times_before_it_is_refused(
    status: int, endpoint: Endpoint, register: Register
) -> None:
    endpoint.statuses = [status]
    with pytest.raises(RegistrationRefused, match="failed to connect"):
        register("1.12.1")
    assert len(endpoint.probes) == 4
    endpoint.statuses = [status, status, 200]
    assert register("1.12.1") == 200


def test_the_probe_has_an_empty_body_and_a_json_body_in_newer_versions(endpoint: Endpoint, register: Register) -> None:
    for version in ("1.12.1", "1.16.0"):
        register(version)
        path, headers, body = endpoint.probes[-1]
        assert (path, headers["authorization"], headers.get("content-type"), body) == (
            "/retrieval", "Bearer token-1", None, b"",
        )  # fmt: skip
    register("1.17.0")
    assert json.loads(endpoint.probes[-1][2]) == {
        "knowledge_id": "",
        "query": "",
        "retrieval_setting": {"top_k": 1, "score_threshold": 0.0},
    }


def test_nobody_there_no_key_and_no_address_are_refused() -> None:
    dify = FakeDify()
    for endpoint, key, words in (
        ("http://127.0.0.1:9", "t", "failed to connect"),
        ("http://127.0.0.1:9", "", "api_key is required"),
        ("", "t", "endpoint is required"),
        ("knowledge.example", "t", "invalid endpoint"),
    ):
        with pytest.raises(RegistrationRefused, match=words):
            dify.register_external_knowledge(endpoint, key)
