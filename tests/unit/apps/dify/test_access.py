"""Who may see what through the plugin: principals by app, user and token, and what the others do not learn.

The bank: LOANS has a page for all, rules for analysts and a memo for the board; BOARD is the board's alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.local.writer import BaseWriter
from context_engine.apps.dify.answer import search_answer
from context_engine.apps.dify.backend import Engines, answer_retrieval
from context_engine.apps.dify.catalogue import catalogue, refuse_unhealthy
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.failure import ToolFailure, guarded_tool
from context_engine.apps.dify.form import read_search_form
from context_engine.apps.dify.plugin_settings import load_plugin
from context_engine.apps.dify.reranking import rerank_passages
from context_engine.apps.dify.retrieval import EXTERNAL_KNOWLEDGE
from context_engine.apps.dify.tools import OpenEngine, open_engine
from context_engine.core.models import NOBODY, Caller, Chunk, Classification, Principal, SearchRequest, SearchResult
from context_engine.errors import ConfigError, InvalidRequest, UnknownDomain
from context_engine.settings.principals import token_hash
from context_engine.testing import FakeDataset, FakeDify, FakeDocument, FixedClock

APP, OTHER_APP = "3f2c7a90-5d1e-4b8a-9c6f-2e7d41b05a13", "70d1f4f2-0c5e-4d0a-8a55-3a0f9a2b1c6d"
LEAD = "8c0d4e17-6a2b-4f39-b1d5-90e3c72f684a"
TOKEN, ANALYST_TOKEN, OLD_TOKEN = "t" * 32, "a" * 32, "o" * 32
ACCESS = {
    "version": 1,
    "principals": {
        "analysts": {"roles": ["analyst"], "dify": [{"app": APP}], "tokens": [{"sha256": token_hash(ANALYST_TOKEN)}]},
        "lead": {"roles": ["analyst", "board"], "clearance": "restricted", "dify": [{"app": APP, "user": LEAD}]},
        "former": {"roles": ["board"], "tokens": [{"sha256": token_hash(OLD_TOKEN), "expires": "2026-01-01"}]},
    },
}
QUESTION = "who approves a loan"
RULE = "A loan is approved by two officers."
SECRET = "A loan to a director is approved by the chair."


def datasets(*, raised: bool = True) -> list[FakeDataset]:
    rules = [
        FakeDocument("Rules", [RULE]),
        *([FakeDocument("Annex", [SECRET], {"secrecy": "restricted"})] if raised else []),
    ]
    return [
        FakeDataset("web", "economy", [FakeDocument("Blog", ["Any loan is approved within a day, a blog says."])]),
        FakeDataset("rules", "economy", rules),
        FakeDataset("memo", "economy", [FakeDocument("Memo", ["The board wants every loan approved twice."])]),
        FakeDataset("minutes", "economy", [FakeDocument("Minutes", ["The loan was not approved."])]),
    ]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeDify]:
    with FakeDify(datasets()) as server:
        yield server


@pytest.fixture
def dify(server: FakeDify) -> Iterator[FakeDify]:
    yield server
    server.heal()


def form_of(dify: FakeDify, *, cache_ttl_s: float = 0) -> dict[str, Any]:
    def source(name: str, kind: str, **more: Any) -> dict[str, Any]:
        settings = {"attempts": 1, "cache_ttl_s": cache_ttl_s, "metadata": {"classification": "secrecy"}}
        row = {"id": name, "title": f"The {name}", "type": kind, "adapter": "dify", "connection": "dify"}
        return {**row, "dataset_ids": [dify.dataset_id(name)], "settings": settings, **more}

    loans = [
        source("web", "general_web"),
        source("rules", "bank_sop", access={"roles": ["analyst"]}),
        source("memo", "bank_sop", access={"roles": ["board"]}),
    ]
    board = {"version": 1, "domain": "BOARD", "title": "Board", "access": {"roles": ["board"]}}
    manifests = [
        {"version": 1, "domain": "LOANS", "title": "Loans", "sources": loans},
        {**board, "sources": [source("minutes", "bank_sop")]},
    ]
    line = {"manifests": manifests, "config": {"access.yaml": ACCESS}}
    return {"dify_base_url": dify.base_url, "dify_api_key": dify.api_key, "domains": json.dumps(line)}


@contextmanager
def open_form(form: dict[str, Any], tmp_path: Path) -> Iterator[OpenEngine]:
    one = open_engine(load_plugin(Credentials.read(form), root=tmp_path, env={"HOME": str(tmp_path)}))
    try:
        yield one
    finally:
        one.engine.close()


@pytest.fixture
def form(dify: FakeDify) -> dict[str, Any]:
    return form_of(dify)


@pytest.fixture(scope="module")
def opened(server: FakeDify, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenEngine]:
    with open_form(form_of(server), tmp_path_factory.mktemp("home")) as one:
        yield one


def searched(opened: OpenEngine, principal: Principal, **fields: Any) -> SearchResult:
    given = {"query": QUESTION, "domain": "LOANS", **fields}
    form = read_search_form(given, opened.known_to(principal), Caller(), principal)
    return opened.engine.search(form.request)


def sources(result: SearchResult) -> list[str]:
    return [status.source_id for status in result.sources]


def timeless(result: SearchResult) -> str:
    """A result as text, without its id and what a clock says."""
    text = json.dumps(result.to_dict()).replace(result.search_id, "ID")
    return re.sub(r'"(elapsed_ms|retrieved_at|fetched_at|now|ms|started_at)": ("[^"]*"|[\d.]+)', "", text)


class TestWhoAsks:
    @pytest.mark.parametrize(
        ("app", "user", "name"),
        [
            (APP, None, "analysts"),
            (APP, "anybody", "analysts"),
            (APP, LEAD, "lead"),
            (OTHER_APP, LEAD, ""),
            (None, LEAD, ""),
            ("", "", ""),
            (None, None, ""),
        ],
    )
    def test_the_app_decides_and_a_user_counts_in_the_app_alone(
        self, opened: OpenEngine, app: str | None, user: str | None, name: str
    ) -> None:
        assert opened.principals.for_dify(app, user).id == name

    def test_no_field_of_the_form_says_who_asks(self, opened: OpenEngine) -> None:
        claims = dict.fromkeys(("principal", "role", "roles", "groups", "clearance", "app_id", "user_id"), "lead")
        fields = {
            "query": QUESTION,
            "domain": "LOANS",
            "on_behalf_of": "lead",
            "access": {"roles": ["board"]},
            **claims,
        }
        form = read_search_form(fields, opened.known_to(NOBODY), Caller(), NOBODY)
        result = opened.engine.search(form.request)
        assert result.caller.on_behalf_of == "lead" and sources(result) == ["web"]

    def test_the_record_of_who_calls_grants_nothing(self, opened: OpenEngine) -> None:
        caller = Caller(principal=LEAD, app=APP, on_behalf_of="board")
        request = SearchRequest(query=QUESTION, domain="LOANS", caller=caller)
        assert sources(opened.engine.search(request)) == ["web"]


class TestTools:
    def test_a_denied_source_is_never_asked(self, opened: OpenEngine, dify: FakeDify) -> None:
        before = len(dify.requests)
        assert sources(searched(opened, NOBODY)) == ["web"]
        assert {request.path.split("/")[3] for request in dify.requests[before:]} == {dify.dataset_id("web")}
        lead = opened.principals.for_dify(APP, LEAD)
        assert sources(searched(opened, lead)) == ["web", "rules", "memo"]

    def test_a_raised_document_is_as_if_it_were_not_there(self, dify: FakeDify, tmp_path: Path) -> None:
        before = len(dify.requests)
        with open_form(form_of(dify, cache_ttl_s=60), tmp_path) as one:
            analyst, lead = one.principals.for_dify(APP, None), one.principals.for_dify(APP, LEAD)
            for _ in range(2):  # the second time from the answers that are kept for both
                assert SECRET in json.dumps(searched(one, lead).to_dict())
                hidden = json.dumps(searched(one, analyst).to_dict())
                assert SECRET not in hidden and "Annex" not in hidden and "restricted" not in hidden.casefold()
            counted = {status.source_id: status.chunks for status in searched(one, analyst).sources}
        assert counted == {"web": 1, "rules": 1}
        assert len([one for one in dify.requests[before:] if one.method == "POST"]) == 3, "one of each dataset"

    def test_the_answer_is_that_of_a_dataset_without_the_raised_documents(
        self, opened: OpenEngine, tmp_path: Path
    ) -> None:
        with FakeDify(datasets(raised=False)) as other, open_form(form_of(other), tmp_path) as one:
            analyst = one.principals.for_dify(APP, None)
            without = searched(one, analyst)
        assert timeless(searched(opened, analyst)) == timeless(without)
        assert timeless(searched(opened, opened.principals.for_dify(APP, LEAD))) != timeless(without)

    def test_a_domain_that_may_not_be_known_is_one_that_there_is_not(
        self, form: dict[str, Any], tmp_path: Path
    ) -> None:
        without = json.loads(form["domains"])
        del without["manifests"][1]
        said = []
        for line in (form["domains"], json.dumps(without)):
            with open_form({**form, "domains": line}, tmp_path) as one:
                for call in (
                    lambda one=one: searched(one, NOBODY, domain="BOARD"),
                    lambda one=one: searched(one, NOBODY, domain=""),
                    lambda one=one: catalogue(one, NOBODY, "BOARD"),
                    lambda one=one: rerank_passages(
                        {"query": "q", "passages": [], "domain": "BOARD"}, one, Caller(), NOBODY, lambda *_: ()
                    ),
                ):
                    with pytest.raises((UnknownDomain, InvalidRequest)) as raised:
                        call()
                    said.append((type(raised.value), str(raised.value)))
        assert said[:4] == said[4:] and "BOARD" not in said[1][1]

    def test_the_best_tier_is_that_of_what_may_be_searched(self, opened: OpenEngine) -> None:
        with pytest.raises(InvalidRequest, match="its best is tier 5"):
            searched(opened, NOBODY, authority="bank_sop")

    def test_a_failed_source_that_may_not_be_searched_fails_nothing(self, opened: OpenEngine, dify: FakeDify) -> None:
        dify.inject("status_500", dataset="rules")
        dify.inject("status_500", dataset="memo")
        answer = search_answer(searched(opened, NOBODY))
        assert (answer.variables["status"], answer.variables["warnings"]) == ("complete", [])


class TestCatalogue:
    def listed(self, opened: OpenEngine, principal: Principal) -> dict[str, list[str]]:
        rows = catalogue(opened, principal).json["domains"]
        return {row["domain"]: [one["source_id"] for one in row["sources"]] for row in rows}

    def test_what_may_be_searched_is_listed_and_nothing_else_is_asked(self, opened: OpenEngine, dify: FakeDify) -> None:
        before = len(dify.requests)
        assert self.listed(opened, NOBODY) == {"LOANS": ["web"]}
        assert {request.path for request in dify.requests[before:]} == {f"/v1/datasets/{dify.dataset_id('web')}"}
        lead = opened.principals.for_dify(APP, LEAD)
        assert self.listed(opened, lead) == {"LOANS": ["web", "rules", "memo"], "BOARD": ["minutes"]}

    def test_documents_are_counted_for_who_may_read_them_all(self, opened: OpenEngine) -> None:
        def counted(user: str | None) -> dict[str, Any]:
            rows = catalogue(opened, opened.principals.for_dify(APP, user), "LOANS").json["domains"][0]["sources"]
            return {one["source_id"]: one["datasets"][0]["documents"] for one in rows}

        assert counted(None) == {"web": None, "rules": None}
        assert counted(LEAD) == {"web": 1, "rules": 2, "memo": 1}

    def test_a_source_of_which_nothing_may_be_read_is_as_one_that_holds_nothing(self, tmp_path: Path) -> None:
        source = {"id": "notes", "type": "bank_sop", "documents": [{"include": "*"}]}
        manifest = {"version": 1, "domain": "DESK", "title": "loan", "sources": [source]}
        line = {"manifests": [manifest], "config": {"access.yaml": ACCESS}}
        form = {"domains": json.dumps(line)}
        said = []
        for held in ("others", "notes"):  # the base knows the source by a raised document alone, or not at all
            with open_form(form, tmp_path) as one:
                with BaseWriter(tmp_path / held / "base", now=FixedClock().now) as writer:
                    secret = Chunk(content=SECRET, chunk_id="s", classification=Classification.RESTRICTED)
                    writer.put(held, "annex", "", "1", [secret])
                said.append(catalogue(replace(one, data_dir=tmp_path / held), NOBODY).json["domains"][0]["sources"])
        assert said[0] == said[1]

    def test_manifests_that_cannot_be_used_are_told_to_nobody(self, form: dict[str, Any], tmp_path: Path) -> None:
        line = json.loads(form["domains"])
        line["manifests"] += [
            {"version": 1, "domain": "LEASES", "sources": [{"id": "l", "type": "sop"}]},
            {"domian": 1},
        ]
        with open_form({**form, "domains": json.dumps(line)}, tmp_path) as one:
            answer = catalogue(one, one.principals.for_dify(APP, LEAD))
            assert answer.variables["names"] == ["BOARD", "LOANS"]
            assert answer.variables["warnings"] == [] and answer.variables["healthy"] is True
            with pytest.raises(ConfigError, match="leases"):  # who saves the credentials learns all of it
                refuse_unhealthy(one)


class TestRerank:
    def ranked(self, opened: OpenEngine, principal: Principal, passages: Any) -> SearchResult:
        fields = {"query": QUESTION, "passages": passages}
        return rerank_passages(fields, opened, Caller(), principal, lambda *_: ())[0]

    def test_what_is_given_is_ranked_and_an_unknown_source_tells_nothing(self, opened: OpenEngine) -> None:
        lead = opened.principals.for_dify(APP, LEAD)
        passages = search_answer(searched(opened, lead)).variables["result"]
        assert {one.source_id for one in self.ranked(opened, lead, passages).chunks} == {"web", "rules", "memo"}
        ranked = self.ranked(opened, NOBODY, passages)
        assert {one.source_id for one in ranked.chunks} == {"web", "unregistered"}
        assert {one.authority_tier for one in ranked.chunks} == {5} and len(ranked.chunks) == len(passages)


class TestEndpoint:
    @pytest.fixture
    def call(self, form: dict[str, Any], tmp_path: Path) -> Callable[..., tuple[int, bytes]]:
        engines = Engines(
            lambda credentials: open_engine(load_plugin(credentials, root=tmp_path, env={"HOME": str(tmp_path)}))
        )

        def called(knowledge_id: str, token: str = TOKEN, **settings: Any) -> tuple[int, bytes]:
            body = {"knowledge_id": knowledge_id, "query": QUESTION, "retrieval_setting": {"top_k": 9}}
            given = {**form, "access_token": token, **settings}
            answer = answer_retrieval(given, f"Bearer {token}", json.dumps(body).encode(), engines.use)
            return answer.status, answer.encoded()

        return called

    @staticmethod
    def found(answer: tuple[int, bytes]) -> set[str]:
        return {one["metadata"]["source_id"] for one in json.loads(answer[1])["records"]}

    def test_each_token_is_its_principal(self, call: Callable[..., tuple[int, bytes]]) -> None:
        assert EXTERNAL_KNOWLEDGE.roles == frozenset() and EXTERNAL_KNOWLEDGE.clearance is Classification.PUBLIC
        assert self.found(call("LOANS")) == {"web"}
        assert self.found(call("LOANS", ANALYST_TOKEN)) == {"web", "rules"}
        assert self.found(call("LOANS", OLD_TOKEN)) == {"web"}, "expired"

    @pytest.mark.parametrize("notice_records", [True, False])
    def test_a_denied_knowledge_is_an_unknown_one_byte_for_byte(
        self, call: Callable[..., tuple[int, bytes]], form: dict[str, Any], notice_records: bool
    ) -> None:
        without = json.loads(form["domains"])
        del without["manifests"][1]
        for token in (TOKEN, ANALYST_TOKEN, OLD_TOKEN):
            denied = call("BOARD", token, notice_records=notice_records)
            unknown = call("BOARD", token, notice_records=notice_records, domains=json.dumps(without))
            assert denied == unknown and denied[0] == (200 if notice_records else 400)
            near = call("BORAD", token, notice_records=notice_records)
            assert b"BOARD" not in near[1] and b"LOANS" in near[1]

    def test_the_probes_of_a_registration_ask_for_no_role(self, form: dict[str, Any]) -> None:
        for body in (b"", b'{"knowledge_id": "", "query": "", "retrieval_setting": {"top_k": 1}}'):
            settings = {**form, "access_token": TOKEN}
            assert answer_retrieval(settings, f"Bearer {TOKEN}", body, None).status == 200  # type: ignore[arg-type]


class TestSaidDenials:
    @pytest.mark.wording
    def test_the_domain_says_so_in_every_output(self, form: dict[str, Any], tmp_path: Path) -> None:
        line = json.loads(form["domains"])
        line["manifests"][0]["denials"] = "said"
        with open_form({**form, "domains": json.dumps(line)}, tmp_path) as one:
            warnings = search_answer(searched(one, NOBODY)).variables["warnings_text"]
            assert "not searched" in warnings and "rules" not in warnings and "memo" not in warnings
            assert search_answer(searched(one, one.principals.for_dify(APP, LEAD))).variables["warnings_text"] == ""


def test_a_denied_call_fails_with_the_name_of_an_unknown_domain(form: dict[str, Any], tmp_path: Path) -> None:
    def call(credentials: Credentials) -> SearchResult:
        with open_form(form, tmp_path) as one:
            return searched(one, NOBODY, domain_name="BOARD")

    with pytest.raises(ToolFailure, match=r"^UnknownDomain: ") as raised:
        guarded_tool(form, call)
    assert type(raised.value).__name__ == "UnknownDomain"
