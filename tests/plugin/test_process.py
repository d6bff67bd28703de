"""The plugin as Dify runs it: the real process, over its protocol."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

QUESTION = "What are the NPA classification criteria?"
CALLER = {"principal": "user-1", "app": "app-7", "conversation": "conv-8", "message": None, "on_behalf_of": None}
DEMO = {"demo_bank": True}
TOKEN = "endpoint-token-0123456789abcdefghij"
AUTHORISED = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


EVERY_MODULE = """
import importlib, json, sys
from pathlib import Path
folders = ("context_engine/**", "provider", "tools", "endpoints")
paths = [path for folder in folders for path in Path().glob(f"{folder}/*.py")]
for name in ("plugin_runtime", *sorted(".".join(path.with_suffix("").parts) for path in paths)):
    try:
        importlib.import_module(name.removesuffix(".__init__"))
    except ModuleNotFoundError as error:
        optional = ("stdnum", "phonenumbers", "sqlalchemy", "cryptography", "psycopg", "jwt", "neo4j")  # of extras
        if error.name.partition(".")[0] not in optional:
            raise
    except Exception as error:
        if getattr(error, "extra", None) not in ("audit", "aws"):
            raise
sys.stderr.write(json.dumps(len(paths)))
"""


def retrieval(knowledge_id: str = "NPA", query: str = QUESTION, top_k: int = 4, **more: Any) -> bytes:
    setting = {"top_k": top_k, "score_threshold": more.pop("score_threshold", 0.0)}
    body = {"knowledge_id": knowledge_id, "query": query, "retrieval_setting": setting, "metadata_condition": None}
    return json.dumps({**body, **more}).encode()


def logged(plugin: Any) -> list[str]:
    """The lines of the plugin's log so far."""
    return [line for line in plugin.lines if json.loads(line).get("event") == "log"]


def test_the_manifest_comes_first(plugin: Any) -> None:
    assert (plugin.manifest["name"], plugin.manifest["version"]) == ("context_engine", "0.1.0")
    assert json.loads(plugin.lines[0])["name"] == "context_engine"


def test_every_module_in_the_package_imports_beside_the_sdk(plugin_python: Path, plugin_folder: Path) -> None:
    run = subprocess.run([plugin_python, "-c", EVERY_MODULE], cwd=plugin_folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stderr.splitlines()[-1]) > 100


class TestCredentials:
    def test_good_ones_are_accepted_after_a_call_for_each_dataset(
        self, plugin: Any, dify: Any, credentials: Any
    ) -> None:
        before = len(dify.requests)
        assert plugin.validate(credentials) == [{"result": True}]
        asked = {request.path for request in dify.requests[before:]}
        assert {f"/v1/datasets/{one}" for one in dify.dataset_ids.values()} <= asked

    def test_the_demo_bank_needs_nothing_else(self, plugin: Any) -> None:
        assert plugin.validate(DEMO) == [{"result": True}]

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"dify_api_key": "dataset-wrong-0123456789"}, "the API key was refused"),
            ({"dify_base_url": "http://127.0.0.1:9"}, "Dify could not be reached"),
            ({"dify_base_url": "ftp://x"}, "must be an http or https URL"),
            ({"domains": None}, "no domain is configured"),
            ({"domains": "{"}, "is not JSON"),
            ({"ca_certificate": "no pem"}, "ca_certificate: is neither PEM nor base64"),
            ({"variables": "[]"}, "variables: is not a JSON object"),
            ({"demo_bank": True}, "'Demo bank' is True and domains are configured"),
        ],
    )
    def test_bad_ones_say_what_is_wrong(
        self, plugin: Any, driver: Any, credentials: Any, change: Any, told: str
    ) -> None:
        with pytest.raises(driver.Failed, match=told) as raised:
            plugin.validate({**credentials, **change})
        # The only name for which Dify shows the message without the traceback beside it.
        assert raised.value.error_type == "CredentialsValidateFailedError"
        assert credentials["dify_api_key"] not in raised.value.whole
        assert "dataset-wrong" not in raised.value.whole

    def test_an_unknown_dataset_is_named(self, plugin: Any, driver: Any, with_manifests: Any) -> None:
        unknown = "00000000-1111-4222-8333-444444444444"

        def change(manifests: Any) -> None:
            manifests[0]["sources"][0]["dataset_ids"] = [unknown]

        with pytest.raises(driver.Failed, match=f"dataset {unknown}.*no such dataset in the key's workspace"):
            plugin.validate(with_manifests(change))

    def test_a_missing_variable_is_named(self, plugin: Any, driver: Any, with_manifests: Any) -> None:
        def change(manifests: Any) -> None:
            manifests[0]["sources"][0]["dataset_ids"] = ["${KB_ID}"]

        with pytest.raises(driver.Failed, match="the variable KB_ID is not set"):
            plugin.validate(with_manifests(change))

    def test_a_variable_comes_from_the_form(self, plugin: Any, dify: Any, with_manifests: Any) -> None:
        def change(manifests: Any) -> None:
            manifests[0]["sources"][0]["dataset_ids"] = ["${KB_ID}"]

        given = with_manifests(change)
        identity = dify.dataset_id("dce_clearing_register")
        assert plugin.validate({**given, "variables": json.dumps({"KB_ID": identity})}) == [{"result": True}]

    def test_a_printed_line_is_pasted_without_its_line_breaks(
        self, plugin: Any, dify: Any, tmp_path: Path, with_manifests: Any
    ) -> None:
        (tmp_path / "manifests").mkdir()
        given = with_manifests(lambda manifests: None)
        manifest = json.loads(given["domains"])["manifests"][0]
        (tmp_path / "manifests/dce.yaml").write_text(json.dumps(manifest))
        (tmp_path / "config").mkdir()
        (tmp_path / "config/connections.yaml").write_text("dify: {base_url: '${DIFY}', api_key: '${KEY}'}")
        variables = json.dumps({"DIFY": dify.base_url, "KEY": dify.api_key}, indent=1).replace("\n", "")
        for form in ([], ["--base64"]):
            command = [
                sys.executable,
                "-m",
                "context_engine",
                "plugin",
                "settings",
                "--config-dir",
                str(tmp_path),
                *form,
            ]
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            pasted = {"domains": printed.replace("\n", ""), "variables": variables}
            assert plugin.validate(pasted) == [{"result": True}]
            assert plugin.invoke("domains", {}, pasted).variables["names"] == ["DCE"]


class TestSearch:
    def test_a_question_is_answered_from_dify(self, plugin: Any, credentials: Any) -> None:
        reply = plugin.invoke("search", {"query": QUESTION, "domain": "NPA"}, credentials)
        variables = reply.variables
        assert (variables["status"], variables["decision"]) == ("complete", "answered")
        assert reply.text == variables["context"] and "[1] [Source: " in reply.text
        assert reply.json["caller"] == variables["trace"]["caller"] == CALLER
        assert reply.json["demo"] is False and reply.json["search_id"] == variables["search_id"]
        assert variables["result"][0]["content"] in reply.text
        assert {one["source_id"] for one in variables["sources"]} >= {"npa_sops", "npa_product_register"}
        assert variables["trace"]["stages"][0]["name"] == "recall"

    def test_the_demo_bank_says_that_it_is_one(self, plugin: Any) -> None:
        reply = plugin.invoke("search", {"query": QUESTION, "domain_name": "NPA"}, DEMO)
        assert reply.text.startswith("DEMO: ") and reply.json["demo"] is True
        assert reply.variables["warnings"][0].startswith("DEMO: ")
        assert reply.variables["result"]

    def test_the_domain_name_wins(self, plugin: Any, credentials: Any) -> None:
        fields = {"query": "severity of an incident", "domain": "NPA", "domain_name": "ORM"}
        assert plugin.invoke("search", fields, credentials).json["domain"] == "ORM"

    def test_on_behalf_of_stands_beside_the_user(self, plugin: Any, credentials: Any) -> None:
        fields = {"query": QUESTION, "domain": "NPA", "on_behalf_of": "a.meyer"}
        reply = plugin.invoke("search", fields, credentials, user_id="service")
        assert reply.json["caller"] == {**CALLER, "principal": "service", "on_behalf_of": "a.meyer"}

    @pytest.mark.parametrize(
        ("fields", "error_type", "told"),
        [
            ({"query": QUESTION}, "InvalidRequest", "no domain is given.*Domains: BIG, DCE, DESK, NPA, ORM"),
            ({"query": QUESTION, "domain": "NPX"}, "UnknownDomain", "unknown domain 'NPX'.*Did you mean 'NPA'"),
            ({"query": " ", "domain": "NPA"}, "InvalidRequest", "query is empty"),
            ({"query": QUESTION, "domain": "NPA", "top_k": 0}, "InvalidRequest", "top_k must be a whole number"),
            ({"query": QUESTION, "domain": "NPA", "top_k": float("inf")}, "InvalidRequest", "top_k must be.*got 'inf'"),
            ({"query": QUESTION, "domain": "NPA", "top_k": float("nan")}, "InvalidRequest", "top_k must be.*got 'nan'"),
            ({"query": ["a"], "domain": "NPA"}, "InvalidRequest", "query must be a text, got list"),
            ({"query": QUESTION, "domain": "NPA", "as_of": "soon"}, "InvalidRequest", "as_of must be a date"),
            ({"query": QUESTION, "domain": "NPA", "filter": "version"}, "InvalidFilter", "cannot read 'version'"),
        ],
    )
    def test_a_field_that_cannot_be_used_fails_the_node(
        self, plugin: Any, driver: Any, credentials: Any, fields: Any, error_type: str, told: str
    ) -> None:
        with pytest.raises(driver.Failed, match=told) as raised:
            plugin.invoke("search", fields, credentials)
        assert raised.value.error_type == error_type == raised.value.message.partition(": ")[0]

    def test_nothing_found_is_said_in_words(self, plugin: Any, credentials: Any) -> None:
        fields = {"query": QUESTION, "domain": "NPA", "filter": "version=99.9"}
        reply = plugin.invoke("search", fields, credentials)
        note = "Note: no candidate passed the filter: check the names of its fields and its values."
        assert (reply.text, reply.variables["result"]) == (f"No relevant information found\n{note}", [])
        assert reply.variables["decision"] == "no_match"

    def test_system_of_record_only(self, plugin: Any, dify: Any, credentials: Any) -> None:
        before = len(dify.requests)
        fields = {"query": QUESTION, "domain": "NPA", "authority": "system_of_record"}
        reply = plugin.invoke("search", fields, credentials)
        assert {one["authority_tier"] for one in reply.json["chunks"]} == {1}
        asked = {request.path for request in dify.requests[before:] if request.method == "POST"}
        assert asked == {f"/v1/datasets/{dify.dataset_id('npa_product_register')}/retrieve"}

    def test_twenty_at_once(self, plugin: Any, driver: Any, credentials: Any) -> None:
        def ask(number: int) -> Any:
            session = {**driver.NODE, "conversation_id": f"conv-{number}"}
            fields = {"query": f"{QUESTION} ({number})", "domain": "NPA"}
            return plugin.invoke("search", fields, credentials, user_id=f"user-{number}", session=session)

        with ThreadPoolExecutor(20) as pool:
            replies = list(pool.map(ask, range(20)))
        for number, reply in enumerate(replies):
            assert reply.json["query"] == f"{QUESTION} ({number})"
            assert reply.json["caller"]["principal"] == f"user-{number}"
            assert reply.json["caller"]["conversation"] == f"conv-{number}"
            assert (reply.variables["status"], reply.variables["decision"]) == ("complete", "answered")
        assert len({reply.variables["search_id"] for reply in replies}) == 20

    def test_a_source_that_is_down(self, plugin: Any, driver: Any, dify: Any, credentials: Any) -> None:
        dify.inject("status_500", dataset="npa_sops", endpoint="retrieve")
        fields = {"query": QUESTION, "domain": "NPA"}
        reply = plugin.invoke("search", fields, credentials)
        assert reply.variables["status"] == "degraded"
        (down,) = [one for one in reply.variables["sources"] if one["state"] == "failed"]
        assert down["source_id"] == "npa_sops" and "Dify failed inside (500)" in down["error"]
        assert "NPA Operating Procedures" in reply.text
        with pytest.raises(driver.Failed, match="not every source answered: NPA Operating Procedures") as raised:
            plugin.invoke("search", {**fields, "if_source_missing": "fail"}, credentials)
        assert raised.value.error_type == "SourceMissing" and raised.value.message.startswith("SourceMissing: search ")

    def test_all_sources_down(self, plugin: Any, driver: Any, dify: Any, credentials: Any) -> None:
        dify.inject("unauthorized", endpoint="retrieve")
        with pytest.raises(driver.Failed, match=r"no source of domain 'NPA' answered.*API key was refused") as raised:
            plugin.invoke("search", {"query": QUESTION, "domain": "NPA"}, credentials)
        assert raised.value.error_type == "AllSourcesFailed"
        assert dify.api_key not in raised.value.whole

    def test_six_megabytes_are_cut_and_said_so(self, plugin: Any, credentials: Any) -> None:
        fields = {"query": "settlement ledger reconciliation of the nostro account", "domain": "BIG"}
        reply = plugin.invoke("search", fields, credentials)
        chunks = reply.json["chunks"]
        assert len(chunks) == 8 and all(one["content"].endswith("characters in all]") for one in chunks)
        assert any("result was cut to stay below 1024 KiB: 8 text(s)" in one for one in reply.variables["warnings"])
        assert any("json was cut" in one for one in reply.json["warnings"])
        assert plugin.longest < 1.2 * 1024 * 1024


def as_written(content: str) -> str:
    """Return the text of a passage without the fence around it."""
    lines = content.split("\n")
    return "\n".join(lines[2:-1]) if lines[1:2] and lines[1].startswith("<<<untrusted ") else content


class TestRerank:
    PASSAGES = (
        "A new product is classified within 3 business days of receipt of the proposal.",
        "Most banks classify a new product within a month of the proposal, says the web.",
        "The canteen is open from noon.",
    )

    def node_result(self, dify: Any) -> list[dict[str, Any]]:
        """What a Knowledge Retrieval node over two registered datasets and a stranger gives."""
        datasets = [dify.dataset_id("npa_sops"), dify.dataset_id("npa_web"), "99999999-0000-4000-8000-000000000000"]
        return [
            {
                "content": text,
                "title": f"Document {number}",
                "files": None,
                "metadata": {
                    "_source": "knowledge",
                    "position": number,
                    "dataset_id": dataset,
                    "dataset_name": f"Dataset {number}",
                    "document_id": f"00000000-0000-4000-8000-00000000000{number}",
                    "segment_id": f"00000000-0000-4000-9000-00000000000{number}",
                    "score": 0.1 * number,
                    "doc_metadata": {"authority_tier": 1},
                },
            }
            for number, (text, dataset) in enumerate(zip(self.PASSAGES, datasets), start=1)
        ]

    def test_a_nodes_passages_get_the_manifests_tiers(self, plugin: Any, dify: Any, credentials: Any) -> None:
        fields = {"query": "when is a new product classified", "passages": self.node_result(dify)}
        reply = plugin.invoke("rerank", fields, credentials)
        tags = {as_written(one["content"]): one["_provenance"] for one in reply.json["chunks"]}
        assert tags[self.PASSAGES[0]]["source_id"] == "npa_sops"
        assert [tags[text]["authority_tier"] for text in self.PASSAGES[:2]] == [2, 5]
        assert reply.variables["result"][0]["content"] == self.PASSAGES[0]
        assert reply.json["caller"] == CALLER
        assert any("in no manifest, so counted as general web" in one for one in reply.variables["warnings"])

    def test_the_result_of_a_search_can_be_ranked_again(self, plugin: Any, credentials: Any) -> None:
        found = plugin.invoke("search", {"query": QUESTION, "domain": "NPA"}, credentials)
        again = plugin.invoke("rerank", {"query": QUESTION, "passages": found.variables["result"]}, credentials)
        tier = {one["chunk_id"]: one["authority_tier"] for one in found.json["chunks"]}
        text = {one["chunk_id"]: one["content"] for one in found.json["chunks"]}
        assert again.json["chunks"]
        for chunk in again.json["chunks"]:
            assert chunk["authority_tier"] == tier[chunk["chunk_id"]]
            assert as_written(chunk["content"]) == as_written(text[chunk["chunk_id"]])

    def test_a_model_of_dify_is_asked(self, plugin: Any, dify: Any, credentials: Any) -> None:
        asked: list[Any] = []

        def answer(kind: str, request: Any) -> Any:
            asked.append((kind, request))
            docs = [
                {"index": place, "text": text, "score": 0.9 if "web" in text else 0.1}
                for place, text in enumerate(request["docs"])
            ]
            return {"model": request["model"], "docs": docs}

        model = {"provider": "langgenius/cohere/cohere", "model": "rerank-v3.5", "model_type": "rerank"}
        fields = {"query": "when is a new product classified", "passages": self.node_result(dify)}
        reply = plugin.invoke("rerank", {**fields, "rerank_model": model}, credentials, backwards=answer)
        ((kind, request),) = asked
        assert (kind, request["provider"], request["model"]) == ("rerank", model["provider"], "rerank-v3.5")
        assert set(request["docs"]) <= set(self.PASSAGES) and request["query"] == fields["query"]
        scores = {as_written(one["content"]): one["rerank_score"] for one in reply.json["chunks"]}
        assert (scores[self.PASSAGES[0]], scores[self.PASSAGES[1]]) == (0.1, 0.9)
        assert reply.variables["status"] == "complete"

    def test_a_model_that_fails_degrades_the_answer(self, plugin: Any, dify: Any, credentials: Any) -> None:
        def refuse(kind: str, request: Any) -> Any:
            raise ValueError("permission denied")

        model = {"provider": "langgenius/cohere/cohere", "model": "rerank-v3.5"}
        fields = {"query": "when is a new product classified", "passages": self.node_result(dify)}
        reply = plugin.invoke("rerank", {**fields, "rerank_model": model}, credentials, backwards=refuse)
        assert reply.variables["status"] == "degraded" and reply.json["chunks"]
        assert any("rerank-v3.5 could not be called" in one for one in reply.variables["warnings"])

    def test_what_is_no_list_fails(self, plugin: Any, driver: Any, credentials: Any) -> None:
        with pytest.raises(driver.Failed, match="passage 1 has no text in 'content'"):
            plugin.invoke("rerank", {"query": "x", "passages": ["not json"]}, credentials)

    def test_metadata_that_is_no_object_is_named(self, plugin: Any, driver: Any, credentials: Any) -> None:
        passages = [{"content": "A rule."}, {"content": "Another.", "metadata": [1]}]
        with pytest.raises(driver.Failed, match="passage 2 has a 'metadata' that is not an object but list") as raised:
            plugin.invoke("rerank", {"query": "rule", "passages": passages}, credentials)
        assert raised.value.error_type == "InvalidRequest"

    def test_what_json_cannot_say_does_not_reach_the_daemon(self, plugin: Any, credentials: Any) -> None:
        passage = {"content": "A rule.", "title": "a\udfffb", "metadata": {"ratio": float("nan"), "n": 10**40}}
        text = json.dumps([passage])  # as a Code node hands it over; the SDK itself reads no such request
        reply = plugin.invoke("rerank", {"query": "rule", "passages": text}, credentials)
        (found,) = reply.variables["result"]
        assert found["title"] == "a?b" and found["metadata"]["doc_metadata"]["ratio"] is None
        assert found["metadata"]["doc_metadata"]["n"] == str(10**40)


class TestDomains:
    def test_tiers_freshness_and_health(self, plugin: Any, dify: Any, credentials: Any) -> None:
        dify.inject("forbidden", dataset="npa_web", endpoint="get")
        reply = plugin.invoke("domains", {"domain_name": "NPA"}, credentials)
        assert reply.json["caller"] == CALLER
        (domain,) = reply.variables["domains"]
        sources = {one["source_id"]: one for one in domain["sources"]}
        assert sources["npa_product_register"]["authority_tier"] == 1
        assert sources["npa_product_register"]["freshness"]["ttl_seconds"] == 157680000
        assert sources["npa_product_register"]["health"] == {"state": "ok", "problem": None}
        assert sources["npa_web"]["health"]["state"] == "failed"
        assert "API access to the dataset is switched off" in reply.text
        assert reply.variables["healthy"] is False and reply.variables["names"] == ["NPA"]

    def test_without_a_check_nothing_is_asked(self, plugin: Any, dify: Any, credentials: Any) -> None:
        before = len(dify.requests)
        reply = plugin.invoke("domains", {"check_health": False}, credentials)
        assert reply.variables["names"] == ["BIG", "DCE", "DESK", "NPA", "ORM"]
        assert len(dify.requests) == before


class TestEndpoint:
    @pytest.fixture
    def settings(self, credentials: Any) -> dict[str, Any]:
        return {**credentials, "access_token": TOKEN}

    def test_records_of_a_domain(self, plugin: Any, settings: Any) -> None:
        status, body = plugin.endpoint(settings, retrieval(top_k=3), AUTHORISED)
        assert status == 200 and len(body["records"]) == 3
        scores = [one["score"] for one in body["records"]]
        assert scores == sorted(scores, reverse=True) and len(set(scores)) == 3 and 0 < scores[0] <= 1
        for record in body["records"]:
            assert set(record) == {"content", "score", "title", "metadata"} and record["title"]
            assert {"relevance", "final", "source_id", "authority_tier"} <= set(record["metadata"])

    @pytest.mark.parametrize("settings_token", [None, "", "short", TOKEN])
    @pytest.mark.parametrize(
        "header", [None, "Bearer ", "Bearer short", "Bearer wrong-0123456789-0123456789-0123456789"]
    )
    @pytest.mark.parametrize("body", [b"", retrieval()])
    def test_no_token_no_answer(
        self, plugin: Any, settings: Any, settings_token: str | None, header: str | None, body: bytes
    ) -> None:
        headers = {"Content-Type": "application/json"} | ({} if header is None else {"Authorization": header})
        status, answer = plugin.endpoint({**settings, "access_token": settings_token}, body, headers)
        assert status == 403 and "records" not in answer

    def test_both_probes_are_answered(self, plugin: Any, settings: Any) -> None:
        newer = retrieval("", "", 1)
        bare = {"Authorization": AUTHORISED["Authorization"]}
        assert plugin.endpoint(settings, None, bare) == (200, {"records": []})
        assert plugin.endpoint(settings, newer, AUTHORISED) == (200, {"records": []})

    def test_a_source_that_is_down_gives_a_notice(self, plugin: Any, dify: Any, settings: Any) -> None:
        dify.inject("status_503", dataset="npa_sops", endpoint="retrieve")
        status, body = plugin.endpoint(settings, retrieval(), AUTHORISED)
        notice, *rest = body["records"]
        assert status == 200 and notice["metadata"]["notice"] is True
        assert notice["title"] == "Knowledge incomplete: NPA Operating Procedures and Templates unavailable"
        assert len(rest) == 3 and all(one["score"] < notice["score"] for one in rest)
        _, body = plugin.endpoint({**settings, "notice_records": False}, retrieval(), AUTHORISED)
        assert body["records"] and all("notice" not in one["metadata"] for one in body["records"])

    def test_all_sources_down(self, plugin: Any, dify: Any, settings: Any) -> None:
        dify.inject("status_503", endpoint="retrieve")
        status, body = plugin.endpoint(settings, retrieval(), AUTHORISED)
        assert status == 200 and [one["metadata"]["notice"] for one in body["records"]] == [True]
        assert (
            body["records"][0]["score"] < 0.1 and "no source of domain 'NPA' answered" in body["records"][0]["content"]
        )
        status, body = plugin.endpoint({**settings, "notice_records": False}, retrieval(), AUTHORISED)
        assert status == 424 and "no source of domain 'NPA' answered" in body["error_msg"]

    def test_a_slow_source_does_not_take_longer_than_dify_waits(self, plugin: Any, dify: Any, settings: Any) -> None:
        dify.inject("delay", dataset="npa_sops", endpoint="retrieve", delay_s=20.0)
        status, body = plugin.endpoint(settings, retrieval(), AUTHORISED)
        assert status == 200 and body["records"][0]["metadata"]["notice"] is True

    def test_an_unknown_domain_is_named(self, plugin: Any, settings: Any) -> None:
        status, body = plugin.endpoint(settings, retrieval("NPX"), AUTHORISED)
        (notice,) = body["records"]
        assert status == 200 and notice["metadata"]["notice"] is True and "Did you mean 'NPA'" in notice["content"]
        assert any("'NPX' is not a searchable domain" in line for line in logged(plugin))
        status, body = plugin.endpoint({**settings, "notice_records": False}, retrieval("NPX"), AUTHORISED)
        assert status == 400 and body["error_code"] == 2001 and "Did you mean 'NPA'" in body["error_msg"]

    @pytest.mark.parametrize("number", ["Infinity", "NaN", "1e400", "-1", "0.5", '"5"', "[]"])
    def test_a_top_k_that_cannot_be_used_is_named(self, plugin: Any, settings: Any, number: str) -> None:
        body = b'{"knowledge_id": "NPA", "query": "q", "retrieval_setting": {"top_k": %s}}' % number.encode()
        status, answer = plugin.endpoint(settings, body, AUTHORISED)
        assert status == 400 and answer["error_msg"].startswith("top_k must be a whole number, 1 or more, got ")

    def test_a_condition_narrows(self, plugin: Any, settings: Any) -> None:
        conditions = [{"name": "authority_tier", "comparison_operator": "≤", "value": 2}]
        condition = {"logical_operator": "and", "conditions": conditions}
        _, body = plugin.endpoint(settings, retrieval(top_k=10, metadata_condition=condition), AUTHORISED)
        assert body["records"] and {one["metadata"]["authority_tier"] for one in body["records"]} <= {1, 2}


def test_no_secret_is_written_anywhere(plugin: Any, dify: Any, driver: Any, credentials: Any) -> None:
    """All that the process has written while the tests above ran."""
    secret = "kb-secret-value-778899"
    fields = {"query": QUESTION, "domain": "NPA"}
    given = {
        **credentials,
        "variables": json.dumps({"UNUSED": secret}),
        "proxy": "http://user:proxy-pass-5566@127.0.0.1:9",
    }
    with pytest.raises(driver.Failed, match="no source of domain 'NPA' answered"):
        plugin.invoke("search", fields, given)
    assert any("RAG pipeline" in line for line in logged(plugin))
    assert not any("classification criteria" in line for line in logged(plugin))
    written = plugin.everything
    assert len(written) > 10_000
    for one in (dify.api_key, secret, "proxy-pass-5566", TOKEN):
        assert one not in written


def test_a_package_without_the_engine_says_so_at_its_start(
    plugin_python: Path, plugin_folder: Path, tmp_path: Path
) -> None:
    for path in plugin_folder.glob("*.*"):
        if path.is_file():
            shutil.copy(path, tmp_path)
    kept = {"PATH": os.environ["PATH"]}  # a PYTHONPATH could name a checkout
    started = subprocess.run(
        [plugin_python, "-m", "main"], cwd=tmp_path, env=kept, capture_output=True, text=True, timeout=120
    )
    assert started.returncode == 1
    last = started.stderr.strip().splitlines()[-1]
    assert last == "this package lacks the folder context_engine: pack the plugin with 'context-engine plugin pack'"
