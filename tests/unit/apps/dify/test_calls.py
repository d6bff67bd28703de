"""Whole calls against a Dify on the loopback interface: health, the list of domains, the endpoint, ranking again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from context_engine.apps.dify.answer import search_answer
from context_engine.apps.dify.backend import Engines, answer_retrieval
from context_engine.apps.dify.catalogue import catalogue, health, refuse_unhealthy
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.external import read_request, records_answer
from context_engine.apps.dify.plugin_settings import load_plugin
from context_engine.apps.dify.reranking import rerank_passages
from context_engine.apps.dify.tools import OpenEngine, open_engine
from context_engine.core.models import NOBODY, Caller, NoticeCode, SearchRequest
from context_engine.errors import ConfigError, UnknownDomain
from context_engine.testing import FakeDataset, FakeDify, FakeDocument

TOKEN = "t" * 32
RULES = ["A loan is approved by two officers.", "A loan above EUR 5 million is approved by the board."]
WEB = ["Any loan is approved within a day, a blog says."]


@pytest.fixture
def dify() -> Iterator[FakeDify]:
    datasets = [
        FakeDataset("rules", "economy", [FakeDocument("Rules", RULES)]),
        FakeDataset("web", "economy", [FakeDocument("Blog", WEB)]),
        FakeDataset("blank", None),
        FakeDataset("far", "economy", provider="external"),
        FakeDataset("closed", "economy", [FakeDocument("D", ["text"])], enable_api=False),
    ]
    with FakeDify(datasets) as fake:
        yield fake


def form(dify: FakeDify, **sources: str) -> dict[str, Any]:
    rows = [
        {
            "id": name,
            "title": f"The {name}",
            "type": kind,
            "adapter": "dify",
            "connection": "dify",
            "dataset_ids": [dify.dataset_id(name)],
            "settings": {"cache_ttl_s": 0, "attempts": 1},
        }
        for name, kind in (sources or {"rules": "bank_sop", "web": "general_web"}).items()
    ]
    manifest = {"version": 1, "domain": "LOANS", "title": "Loans", "sources": rows}
    return {"dify_base_url": dify.base_url, "dify_api_key": dify.api_key, "domains": json.dumps(manifest)}


def with_broken_manifests(dify: FakeDify) -> dict[str, Any]:
    """Return the form with two more manifests: of a domain that cannot be used, and of none that can be told."""
    fields = form(dify)
    broken = {"version": 1, "domain": "LEASES", "sources": [{"id": "l", "type": "sop", "ttl": 5}]}
    manifests = [json.loads(fields["domains"]), broken, {"version": 1, "domian": "X", "sources": []}]
    return {**fields, "domains": json.dumps(manifests)}


@contextmanager
def opened(fields: dict[str, Any], tmp_path: Path, **env: str) -> Iterator[OpenEngine]:
    plugin = load_plugin(Credentials.read(fields), root=tmp_path, env={"HOME": str(tmp_path), **env})
    one = open_engine(plugin)
    try:
        yield one
    finally:
        one.engine.close()


class TestHealth:
    @pytest.mark.wording
    def test_each_dataset_says_how_it_is(self, dify: FakeDify, tmp_path: Path) -> None:
        kinds = dict.fromkeys(("rules", "blank", "far", "closed"), "bank_sop")
        with opened(form(dify, **kinds), tmp_path) as one:
            found = {entry.source_id: entry for entry in health(one, one.known_to(NOBODY).domains.values())}
        assert {name: entry.state for name, entry in found.items()} == {
            "rules": "ok",
            "blank": "empty",
            "far": "failed",
            "closed": "failed",
        }
        assert (found["rules"].name, found["rules"].documents) == ("rules", 1)
        assert "lies outside Dify" in str(found["far"].problem)
        assert "switch it on" in str(found["closed"].problem)

    @pytest.mark.wording
    def test_one_wrong_key_is_told_once(self, dify: FakeDify, tmp_path: Path) -> None:
        with (
            opened({**form(dify), "dify_api_key": "dataset-wrong"}, tmp_path) as one,
            pytest.raises(ConfigError) as raised,
        ):
            refuse_unhealthy(one)
        told = str(raised.value)
        assert told.startswith("2 of 2 sources cannot be searched. LOANS/rules (dataset ")
        assert told.count("the API key was refused") == 1 and "LOANS/web" in told

    def test_a_sound_one_passes_and_is_asked_once_for_each_dataset(self, dify: FakeDify, tmp_path: Path) -> None:
        with opened(form(dify), tmp_path) as one:
            refuse_unhealthy(one)
        assert sorted((request.method, request.path) for request in dify.requests) == sorted(
            ("GET", f"/v1/datasets/{dify.dataset_id(name)}") for name in ("rules", "web")
        )

    def test_an_embedded_source_that_holds_nothing(self, tmp_path: Path) -> None:
        manifest = {"version": 1, "domain": "HR", "sources": [{"id": "hr", "type": "bank_sop"}]}
        with (
            opened({"domains": json.dumps(manifest)}, tmp_path) as one,
            pytest.raises(ConfigError, match=r"1 of 1 sources cannot be searched\. HR/hr: "),
        ):
            refuse_unhealthy(one)

    def test_the_demo_bank_is_sound(self, demo_data: Path, tmp_path: Path) -> None:
        with opened({"demo_bank": True}, tmp_path, CONTEXT_ENGINE_DATA_DIR=str(demo_data)) as one:
            refuse_unhealthy(one)
            assert len(health(one, one.known_to(NOBODY).domains.values())) == 20


class TestCatalogue:
    @pytest.mark.wording
    def test_a_source_with_tier_freshness_and_health(self, dify: FakeDify, tmp_path: Path) -> None:
        dify.inject("status_500", dataset="web", endpoint="get")
        with opened(form(dify), tmp_path) as one:
            answer = catalogue(one, NOBODY, "LOANS")
        rules, web = answer.variables["domains"][0]["sources"]
        assert (rules["authority_tier"], rules["freshness"]["fresh_for"]) == (2, "1 hour")
        assert rules["health"] == {"state": "ok", "problem": None}
        assert rules["datasets"] == [
            {"dataset_id": dify.dataset_id("rules"), "name": "rules", "documents": 1, "state": "ok"}
        ]
        assert web["health"]["state"] == "failed" and "Dify failed inside (500)" in web["health"]["problem"]
        assert "| The rules | 2 | bank_sop | 1 hour | ok |" in answer.text
        assert answer.variables["healthy"] is False and answer.json["domains"] == answer.variables["domains"]

    def test_unchecked_is_not_healthy_or_ill(self, dify: FakeDify, tmp_path: Path) -> None:
        with opened(form(dify), tmp_path) as one:
            answer = catalogue(one, NOBODY, check=False)
        assert {source["health"]["state"] for source in answer.json["domains"][0]["sources"]} == {"unchecked"}
        assert answer.variables["personas_text"] == (
            "analyst, auditor, builder, compliance_officer, creator, educator, front_desk, researcher"
        )
        assert all(persona["description"] in answer.text for persona in answer.variables["personas"])
        assert dify.requests == ()

    def test_a_domain_that_lacks_a_variable(self, dify: FakeDify, tmp_path: Path) -> None:
        fields = form(dify)
        fields["domains"] = fields["domains"].replace(dify.dataset_id("rules"), "${MISSING}")
        with opened(fields, tmp_path) as one:
            answer = catalogue(one, NOBODY)
            assert "the variable MISSING is not set" in answer.json["domains"][0]["problem"]
            assert "Cannot be searched" in answer.text and answer.variables["healthy"] is False
            with pytest.raises(ConfigError):
                catalogue(one, NOBODY, "LOANS")

    def test_an_unknown_domain(self, dify: FakeDify, tmp_path: Path) -> None:
        with opened(form(dify), tmp_path) as one, pytest.raises(UnknownDomain):
            catalogue(one, NOBODY, "NPA")

    def test_manifests_that_cannot_be_used_are_named_and_the_others_are_searched(
        self, dify: FakeDify, tmp_path: Path
    ) -> None:
        with opened(with_broken_manifests(dify), tmp_path) as one:
            answer = catalogue(one, NOBODY)
            assert [(row["domain"], row["problem"] is None) for row in answer.json["domains"]] == [
                ("LEASES", False),
                ("LOANS", True),
            ]
            problem = answer.json["domains"][0]["problem"]
            assert "sources.l.type: must be one of" in problem
            assert "sources.l.ttl: unknown key" in problem, "all that is wrong with it"
            assert answer.variables["healthy"] is False
            warnings = answer.variables["warnings"]
            assert "manifests/3.yaml: domian: unknown key. Did you mean 'domain'?" in warnings
            assert all(one in answer.text for one in warnings)
            with pytest.raises(ConfigError, match=r"manifests/3\.yaml: .* \| manifests/leases\.yaml: "):
                refuse_unhealthy(one)


class TestRetrieval:
    @pytest.fixture
    def call(self, dify: FakeDify, tmp_path: Path) -> Any:
        engines = Engines(
            lambda credentials: open_engine(load_plugin(credentials, root=tmp_path, env={"HOME": str(tmp_path)}))
        )

        def called(body: Any, header: str | None = f"Bearer {TOKEN}", **settings: Any) -> Any:
            given = {**form(dify), "access_token": TOKEN, **settings}
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            answer = answer_retrieval(given, header, raw, engines.use)
            return answer.status, json.loads(answer.encoded())

        return called

    @staticmethod
    def asked(**fields: Any) -> dict[str, Any]:
        return {"knowledge_id": "LOANS", "query": "who approves a loan", "retrieval_setting": {"top_k": 3}, **fields}

    def test_records(self, call: Any) -> None:
        status, body = call(self.asked())
        assert status == 200 and [one["metadata"]["source_id"] for one in body["records"]][:2] == ["rules", "rules"]

    @pytest.mark.parametrize(
        ("body", "status", "code"),
        [
            (b"{", 400, 4000),
            ({"knowledge_id": "LOANS", "query": " "}, 400, 4000),
            ({"knowledge_id": "LOANS", "query": "q", "metadata_condition": 5}, 400, 4000),
        ],
    )
    def test_a_request_that_cannot_be_used_is_not_asked_again(
        self, call: Any, dify: FakeDify, body: Any, status: int, code: int
    ) -> None:
        assert (call(body)[0], call(body)[1]["error_code"]) == (status, code)
        assert not [one for one in dify.requests if one.method == "POST"]

    @staticmethod
    def only_notice(answer: Any) -> dict[str, Any]:
        """The one record of an answer that tells of a failure in a form that Dify keeps and shows."""
        status, body = answer
        (notice,) = body["records"]
        assert status == 200 and set(notice) == {"content", "score", "title", "metadata"}
        assert notice["metadata"]["notice"] is True and 0 < notice["score"] < 0.1
        return notice

    def test_an_unknown_domain_is_a_record_that_says_so(self, call: Any, caplog: Any) -> None:
        notice = self.only_notice(call(self.asked(knowledge_id="LAONS")))
        assert "unknown domain 'LAONS'" in notice["content"] and "Did you mean 'LOANS'" in notice["content"]
        assert "Correct the External Knowledge ID" in notice["content"]
        assert "'LAONS' is not a searchable domain" in caplog.text
        status, body = call(self.asked(knowledge_id="LAONS"), notice_records=False)
        assert (status, body["error_code"]) == (400, 2001) and "unknown domain" in body["error_msg"]

    def test_settings_that_cannot_be_used(self, call: Any, caplog: Any) -> None:
        notice = self.only_notice(call(self.asked(), domains=""))
        assert notice["title"] == "Knowledge incomplete: the search failed"
        assert "no domain is configured" in notice["content"] and "failed with ConfigError" in caplog.text
        status, body = call(self.asked(), domains="", notice_records=False)
        assert status == 424 and "no domain is configured" in body["error_msg"]
        assert call(self.asked(), variables="[", notice_records=False)[0] == 424

    def test_a_persona_of_the_endpoint(self, call: Any, dify: FakeDify) -> None:
        config = {"personas.json": {"narrow": {"namespaces": ["web"]}}}
        line = json.loads(form(dify)["domains"])
        domains = json.dumps({"version": 1, "manifests": [line], "config": config})
        _, body = call(self.asked(), domains=domains, persona="narrow")
        assert {one["metadata"]["source_id"] for one in body["records"]} == {"web"}
        notice = self.only_notice(call(self.asked(), domains=domains, persona="wide"))
        assert "unknown persona 'wide'" in notice["content"]

    @pytest.mark.parametrize("notices", [True, False])
    def test_a_refusal_holds_no_secret(self, call: Any, dify: FakeDify, notices: bool) -> None:
        domains = json.dumps({"manifests": [{"domain": dify.api_key, "x": 1}]})
        status, body = call(self.asked(), domains=domains, notice_records=notices)
        assert status == (200 if notices else 400), "the domain that is asked for is not there"
        assert dify.api_key not in json.dumps(body) and TOKEN not in json.dumps(body)

    @pytest.mark.wording
    def test_manifests_that_cannot_be_used_are_named_beside_the_records_of_another_domain(
        self, call: Any, dify: FakeDify
    ) -> None:
        status, body = call(self.asked(), domains=with_broken_manifests(dify)["domains"])
        assert (status, len(body["records"])) == (200, 3)
        assert len(body["warnings"]) == 2
        assert any("domain 'LEASES' cannot be searched" in one for one in body["warnings"])
        status, body = call(self.asked(knowledge_id="LEASES"), domains=with_broken_manifests(dify)["domains"])
        (record,) = body["records"]
        assert (status, "sources.l.ttl: unknown key" in record["content"]) == (200, True)

    @pytest.mark.parametrize("header", [None, "Basic eDp5", "Bearer x", f"Bearer {TOKEN}x"])
    @pytest.mark.parametrize(
        "body", [b"", b"{", {"knowledge_id": "", "query": ""}, {"knowledge_id": "X", "query": "q"}]
    )
    def test_a_wrong_token_is_403_whatever_is_asked(
        self, call: Any, dify: FakeDify, header: str | None, body: Any, caplog: Any
    ) -> None:
        """Dify refuses a registration on 403, 404 and 502 alone."""
        status, answer = call(body, header, domains="{")
        bearer = header is not None and header.startswith("Bearer ")
        assert status == 403 and answer["error_code"] == (1002 if bearer else 1001)
        assert "access token" in answer["error_msg"]
        assert dify.requests == () and "access token is missing or wrong" in caplog.text

    def test_everything_down(self, call: Any, dify: FakeDify) -> None:
        dify.inject("status_500", endpoint="retrieve")
        status, body = call(self.asked())
        (notice,) = body["records"]
        assert status == 200 and notice["metadata"]["sources"] == ["rules", "web"]
        assert notice["content"].startswith("Knowledge incomplete: The rules, The web unavailable")
        assert "Dify failed inside (500)" in notice["content"] and dify.api_key not in notice["content"]
        assert call(self.asked(), notice_records="false")[0] == 424


class TestNamesOfOlderVersions:
    """They end in a key, which Dify needed; nobody is shown it."""

    @pytest.fixture
    def fields(self, tmp_path: Path) -> Iterator[dict[str, Any]]:
        built_in = {"document_name": "LOAN-SOP 2.1 Loans [ce-4c52b60fa1e9]"}
        documents = [
            FakeDocument("LOAN-SOP 2.1 Loans [ce-4c52b60fa1e9]", RULES[:1], metadata=built_in),
            FakeDocument("LOAN-SOP 2.2 Loans [ce-0123456789ab.3]", RULES[1:]),
        ]
        with FakeDify([FakeDataset("rules", "economy", documents)]) as fake:
            yield form(fake, rules="bank_sop")

    def test_no_output_shows_the_key(self, fields: dict[str, Any], tmp_path: Path) -> None:
        with opened(fields, tmp_path) as one:
            result = one.engine.search(SearchRequest(query="who approves a loan", domain="LOANS"))
        answer = search_answer(result)
        assert "LOAN-SOP 2.1 Loans" in answer.text and len(answer.variables["result"]) == 2
        request = read_request(json.dumps({"knowledge_id": "LOANS", "query": "q"}).encode())
        assert request is not None
        records = records_answer(result, request, notice_records=True).body["records"]
        assert {one["title"] for one in records} == {"LOAN-SOP 2.1 Loans", "LOAN-SOP 2.2 Loans"}
        for output in (answer.text, json.dumps(answer.json), json.dumps(answer.variables), json.dumps(records)):
            assert "[ce-" not in output


class TestRerank:
    def passages(self, dify: FakeDify, tmp_path: Path) -> list[dict[str, Any]]:
        with opened(form(dify), tmp_path) as one:
            result = one.engine.search(SearchRequest(query="who approves a loan", domain="LOANS"))
        return search_answer(result).variables["result"]

    def ranked(self, one: OpenEngine, passages: Any, **fields: Any) -> Any:
        given = {"query": "who approves a loan", "passages": passages, **fields}
        return rerank_passages(given, one, Caller(principal="u"), NOBODY, lambda *_: ())[0]

    def test_the_same_order_comes_out(self, dify: FakeDify, tmp_path: Path) -> None:
        passages = self.passages(dify, tmp_path)
        with opened(form(dify), tmp_path) as one:
            result = self.ranked(one, passages, domain_name="LOANS")
        assert {chunk.source_id for chunk in result.chunks} == {"rules", "web"}
        assert [chunk.source_id for chunk in result.chunks][-1] == "web"
        assert (result.domain, result.caller.principal) == ("LOANS", "u")

    def test_manifests_that_cannot_be_used_are_named(self, dify: FakeDify, tmp_path: Path) -> None:
        """Passages of their sources count as general web: whoever wonders learns why."""
        passages = self.passages(dify, tmp_path)
        with opened(with_broken_manifests(dify), tmp_path) as one:
            result = self.ranked(one, passages)
        named = [notice.subject for notice in result.notices if notice.code is NoticeCode.MANIFEST_UNUSABLE]
        assert named == ["manifests/3.yaml", "manifests/leases.yaml"]

    def test_copies_are_merged(self, dify: FakeDify, tmp_path: Path) -> None:
        with opened(form(dify), tmp_path) as one:
            result = self.ranked(one, [{"content": RULES[0]}, {"content": RULES[0] + " "}, {"content": RULES[1]}])
        assert len(result.chunks) == 2 and [str(fate.outcome) for fate in result.fates].count("merged") == 1

    def test_no_more_than_top_k(self, dify: FakeDify, tmp_path: Path) -> None:
        with opened(form(dify), tmp_path) as one:
            assert len(self.ranked(one, self.passages(dify, tmp_path), top_k=1).chunks) == 1

    def test_what_the_search_lacked_is_lacking_still(self, dify: FakeDify, tmp_path: Path) -> None:
        dify.inject("status_500", dataset="rules", endpoint="retrieve")
        passages = self.passages(dify, tmp_path)
        assert passages[0]["title"] == "Knowledge incomplete: The rules unavailable"
        with opened(form(dify), tmp_path) as one:
            result = self.ranked(one, passages)
        assert str(result.status) == "degraded"
        assert {source.source_id: source.state for source in result.sources} == {"rules": "failed", "web": "ok"}
        assert search_answer(result).variables["result"][0]["title"] == passages[0]["title"]

    def test_nothing_in_nothing_out(self, dify: FakeDify, tmp_path: Path) -> None:
        with opened(form(dify), tmp_path) as one:
            result = self.ranked(one, [])
        assert (result.chunks, str(result.status), str(result.decision)) == ((), "complete", "no_match")
        assert search_answer(result).text == "No relevant information found"
