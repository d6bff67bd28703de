"""A function of three arguments over Dify."""

from __future__ import annotations

from functools import partial

import pytest

from context_engine.adapters.sources.dify import dify_kb_adapter
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import NOBODY, AccessRule, Classification, DomainSpec, Principal, Registry
from context_engine.core.policy.access import ManifestPolicy
from context_engine.errors import ConfigError, InvalidRequest, SourceForbidden, UnknownDomain
from context_engine.rag import retrieve
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify, FakeDocument

DATASETS = [
    FakeDataset("SOP", documents=[FakeDocument("S", ["The approval limit is 5 million."])]),
    FakeDataset("Web", "economy", [FakeDocument("W", ["An approval limit is a good idea."])]),
]


def refused(name):
    raise ConfigError(f"unknown connection {name!r}")


@pytest.fixture
def dify():
    with FakeDify(DATASETS) as server:
        yield server


@pytest.fixture
def adapter(dify):
    rows = [("sop", "bank_sop", "SOP"), ("web", "general_web", "Web")]
    sources = [
        {"id": one, "type": kind, "adapter": "dify", "connection": "dify", "dataset_ids": (dify.dataset_id(name),)}
        for one, kind, name in rows
    ]
    domains = {
        "NPA": DomainSpec(version=1, domain="NPA", sources=[*sources, {"id": "local", "type": "bank_sop"}]),
        "LOCAL": DomainSpec(version=1, domain="LOCAL", sources=[{"id": "other", "type": "bank_sop"}]),
    }
    connection = Connection(base_url=dify.base_url, api_key=dify.api_key)
    made = dify_kb_adapter(Registry(domains=domains), lambda name: connection, SystemClock())
    yield made
    made.close()
    made.close()


def test_chunk_dicts_that_speak_for_themselves(adapter, dify):
    found = adapter("approval limit", "NPA", 10)
    assert [(one["source_id"], one["authority_tier"], one["trust_class"]) for one in found] == [
        ("sop", 2, "TRUSTED"),
        ("web", 5, "UNTRUSTED"),
    ]
    assert {one["domain"] for one in found} == {"NPA"}
    assert found[0]["dataset_id"] == dify.dataset_id("SOP")
    assert found[0]["content"] == "The approval limit is 5 million."
    assert len(adapter("approval limit", "NPA", 1)) == 1


def test_it_is_an_adapter_of_retrieve(adapter, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    found = retrieve("approval limit", "NPA", {"adapter": adapter})
    assert [one["_provenance"]["source_id"] for one in found] == ["sop", "web"]
    assert [one["_provenance"]["authority_tier"] for one in found] == [2, 5]


def test_what_is_missing_is_told(adapter, dify, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    dify.inject("forbidden", dataset="Web", endpoint="retrieve")
    found = adapter("approval limit", "NPA", 10)
    assert [one["source_id"] for one in found] == ["sop"]
    assert [error.source_id for error in found.failures] == ["web"]
    with pytest.warns(match="switched off"):
        result = retrieve("approval limit", "NPA", {"adapter": adapter}).result
    assert (str(result.status), result.sources[0].state) == ("degraded", "partial")


def test_nothing_at_all_is_an_error(adapter, dify):
    dify.inject("forbidden", endpoint="retrieve")
    with pytest.raises(SourceForbidden):
        adapter("approval limit", "NPA", 10)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (("approval", "NONE", 10), UnknownDomain),
        (("approval", "LOCAL", 10), InvalidRequest),
        (("  ", "NPA", 10), InvalidRequest),
        (("approval", "NPA", 0), InvalidRequest),
        (("approval", "NPA", True), InvalidRequest),
    ],
)
def test_calls_that_cannot_be_made(call, error, adapter, dify):
    with pytest.raises(error):
        adapter(*call)
    assert dify.requests == ()


def test_a_connection_that_is_not_there(dify):
    spec = {
        "id": "s",
        "type": "bank_sop",
        "adapter": "dify",
        "connection": "no",
        "dataset_ids": (dify.dataset_id("SOP"),),
    }
    registry = Registry(domains={"NPA": DomainSpec(version=1, domain="NPA", sources=[spec])})
    with pytest.raises(ConfigError, match="unknown connection"):
        dify_kb_adapter(registry, partial(refused), SystemClock())("approval", "NPA", 5)


# -- access -----------------------------------------------------------------------------------------------------------

DESK = Principal(id="dora", roles=frozenset({"desk"}), clearance=Classification.INTERNAL)


@pytest.fixture
def governed(dify):
    rows = [("sop", "bank_sop", "SOP", {"access": AccessRule(roles=("desk",))}), ("web", "general_web", "Web", {})]
    sources = [
        {"id": one, "type": kind, "adapter": "dify", "connection": "dify", "dataset_ids": (dify.dataset_id(name),)}
        | own
        for one, kind, name, own in rows
    ]
    domains = {"NPA": DomainSpec(version=1, domain="NPA", sources=sources)}
    domains["CLOSED"] = domains["NPA"].model_copy(update={"domain": "CLOSED", "access": AccessRule(roles=("board",))})
    connection = Connection(base_url=dify.base_url, api_key=dify.api_key)
    made = dify_kb_adapter(
        Registry(domains=domains), lambda name: connection, SystemClock(), access=ManifestPolicy(domains)
    )
    yield made
    made.close()


def test_only_what_the_principal_may_search_is_asked(governed, dify):
    nobody, desk = governed.acting_as(NOBODY), governed.acting_as(DESK)
    assert nobody == governed.acting_as(NOBODY) != desk
    assert {one["source_id"] for one in nobody("approval limit", "NPA", 5)} == {"web"}
    assert not any(dify.dataset_id("SOP") in str(request.path) for request in dify.requests)
    assert {one["source_id"] for one in governed("approval limit", "NPA", 5)} == {"web"}
    assert {one["source_id"] for one in desk("approval limit", "NPA", 5)} == {"sop", "web"}
    for function in (nobody, desk):
        with pytest.raises(UnknownDomain, match="Registered: NPA"):
            function("approval limit", "CLOSED", 5)


def test_documents_that_are_raised_above_the_clearance_are_not_in_what_it_returns():
    fields = {"metadata": {"classification": "class"}}
    documents = [
        FakeDocument("Open", ["The approval limit is 5 million."]),
        FakeDocument("Raised", ["The approval limit of the board is 7 million."], metadata={"class": "restricted"}),
    ]
    with FakeDify([FakeDataset("SOP", documents=documents)]) as dify:
        source = {"id": "sop", "type": "bank_sop", "adapter": "dify", "connection": "dify", "settings": fields}
        spec = DomainSpec(version=1, domain="NPA", sources=[source | {"dataset_ids": (dify.dataset_id("SOP"),)}])
        domains, connection = {"NPA": spec}, Connection(base_url=dify.base_url, api_key=dify.api_key)
        found = {}
        for principal in (DESK, Principal(clearance=Classification.RESTRICTED)):
            made = dify_kb_adapter(
                Registry(domains=domains), lambda name: connection, SystemClock(),
                access=ManifestPolicy(domains), principal=principal,
            )  # fmt: skip
            found[principal] = [one["content"] for one in made("approval limit", "NPA", 5)]
            made.close()
    assert found[DESK] == ["The approval limit is 5 million."]
    assert len(found[Principal(clearance=Classification.RESTRICTED)]) == 2
