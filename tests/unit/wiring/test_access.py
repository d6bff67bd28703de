"""The policy of a configuration, and what reaches engines, sources and the dict API of it."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from context_engine.core.models import (
    NOBODY,
    AccessDecision,
    AccessReason,
    AccessScope,
    Classification,
    Principal,
    SearchRequest,
    SourceAccess,
)
from context_engine.core.policy.access import OPEN_ACCESS, ManifestPolicy
from context_engine.errors import AllSourcesFailed, ConfigError, UnknownDomain
from context_engine.rag import create_rag_pipeline
from context_engine.wiring.adapters import ACCESS_POLICIES, BUILT_IN, GROUPS
from context_engine.wiring.build import SourceOpener, build_engine
from context_engine.wiring.setup import access_policy, load_setup

ROOT = Path(__file__).resolve().parents[3]
DESK = Principal(id="dora", roles=frozenset({"desk"}), clearance=Classification.INTERNAL)
OPEN = """
version: 1
domain: NPA
sources:
  - {id: sops, type: bank_sop}
  - {id: board, type: system_of_record%s}
"""
RULE = ", access: {roles: [desk]}"
BROKEN = "version: 1\ndomain: LOST\nsources: []\n"


@pytest.fixture
def setup_of(tmp_path, monkeypatch):
    """The setup of manifests in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)

    def load(**manifests):
        (tmp_path / "manifests").mkdir(exist_ok=True)
        for name, text in manifests.items():
            (tmp_path / "manifests" / f"{name}.yaml").write_text(text)
        return load_setup(env={"HOME": str(tmp_path)}, cwd=tmp_path)

    return load


class OnlySops:
    """A policy of another package: the one source `sops` for everybody."""

    policy_hash = "sops"

    def __init__(self, domains):
        self.domains = domains

    def decide(self, principal, domain):
        sources = tuple(SourceAccess(one.id, one.id == "sops", AccessReason.ADMITTED) for one in domain.sources)
        return AccessDecision(
            principal=principal, domain=domain.domain, sources=sources, scope=AccessScope(), policy_hash="sops"
        )

    def rules_of(self, source_id):
        return f"rule of {source_id}"


@pytest.fixture
def installed_policy(monkeypatch):
    package = ModuleType("bank_policy")
    package.__dict__.update(OnlySops=OnlySops, none=lambda domains: domains)
    monkeypatch.setitem(sys.modules, "bank_policy", package)
    points = {
        ACCESS_POLICIES: [
            EntryPoint("sops", "bank_policy:OnlySops", ACCESS_POLICIES),
            EntryPoint("none", "bank_policy:none", ACCESS_POLICIES),
        ]
    }
    monkeypatch.setattr("context_engine.wiring.adapters.entry_points", lambda *, group: points.get(group, []))


def test_without_a_rule_everybody_may_search_everything(setup_of):
    setup = setup_of(npa=OPEN % "", lost=BROKEN)
    assert setup.access is OPEN_ACCESS
    assert setup.visible(NOBODY) is setup.registry
    assert setup.visible(NOBODY).names == ("LOST", "NPA")


def test_one_rule_puts_the_manifests_rules_in_force(setup_of):
    setup = setup_of(npa=OPEN % RULE, lost=BROKEN)
    assert isinstance(setup.access, ManifestPolicy)
    assert [source.id for source in setup.visible(NOBODY).domain("NPA").sources] == ["sops"]
    assert (setup.visible(NOBODY).names, setup.visible(NOBODY).problems) == (("NPA",), ())
    assert (setup.registry.names, len(setup.registry.problems)) == (("LOST", "NPA"), 1)
    assert [source.id for source in setup.visible(DESK).domain("NPA").sources] == ["sops", "board"]


@pytest.mark.parametrize(
    "broken",
    [
        BROKEN + "access: {roles: [desk]}\n",
        "version: 1\ndomain: LOST\nsources:\n  - {id: a, type: nothing, access: {roles: [desk]}}\n",
        "version: 1\ndomain: LOST\n  access: {roles: [desk]}\nsources: [\n",
    ],
)
def test_a_rule_in_a_manifest_that_cannot_be_used_opens_nothing(setup_of, broken):
    setup = setup_of(npa=OPEN % "", lost=broken)
    assert isinstance(setup.access, ManifestPolicy)
    assert (setup.visible(NOBODY).names, len(setup.registry.problems)) == (("NPA",), 1)
    setup = setup_of(npa=OPEN % "", lost=BROKEN + "# access: none\n")
    assert setup.access is OPEN_ACCESS


def test_a_policy_is_named_as_adapters_are(setup_of, installed_policy):
    domains = setup_of(npa=OPEN % "").registry.domains
    assert isinstance(access_policy(domains, "sops"), OnlySops)
    assert isinstance(access_policy(domains, "manifest"), ManifestPolicy)
    assert isinstance(access_policy(domains, in_force=True), ManifestPolicy)
    with pytest.raises(ConfigError, match=r"access.yaml: policy: unknown access policy 'opa'\. Installed: manifest, n"):
        access_policy(domains, "opa", file="access.yaml", key="policy")
    with pytest.raises(ConfigError, match="access policy 'none' made a dict, which has no decide"):
        access_policy(domains, "none")


def test_pyproject_publishes_every_built_in_adapter() -> None:
    published = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    built_in = {(point.group, point.name, point.value) for point in BUILT_IN}
    assert {(group, name, value) for group in GROUPS for name, value in published.get(group, {}).items()} == built_in
    assert {group for group in published if group.startswith("context_engine.")} <= set(GROUPS)


def test_an_engine_decides_by_the_configuration_or_by_what_it_is_given(setup_of):
    setup = setup_of(npa=OPEN % RULE)
    with build_engine(setup) as engine:
        assert [source.id for source in engine.visible(NOBODY).domain("NPA").sources] == ["sops"]
    with build_engine(setup, access=OPEN_ACCESS) as engine:
        assert engine.visible(NOBODY) is setup.registry
    closed = setup_of(npa=(OPEN % "") + "access: {roles: [desk]}\n")
    with build_engine(closed) as engine, pytest.raises(UnknownDomain, match="No domain is registered"):
        engine.search(SearchRequest(query="limit", domain="NPA"))


def test_adapters_learn_the_rules_of_a_source(setup_of):
    setup = setup_of(npa=OPEN % RULE)
    context = SourceOpener(setup, {}, None, None, lambda: None).context(setup.registry.domain("NPA"))
    assert context.rules_of("sops") == ""
    assert context.rules_of("board") == ManifestPolicy(setup.registry.domains).rules_of("board") != ""


# -- the dict API -----------------------------------------------------------------------------------------------------


def test_the_dict_api_searches_for_the_principal_it_is_given(setup_of):
    setup_of(npa=(OPEN % "") + "access: {roles: [desk]}\n")
    with create_rag_pipeline() as pipeline:
        with pytest.warns(UserWarning, match="unknown domain 'NPA'. No domain is registered"):
            assert pipeline.retrieve("limit", "NPA") == []
        with pytest.warns(UserWarning, match="unknown domain"):
            pipeline.retrieve("limit", "NPA", {"caller": {"principal": "dora"}, "principal": None})
        for principal in (DESK, {"roles": ["desk"]}):
            with pytest.raises(AllSourcesFailed) as caught:  # nothing was ever ingested, but both are asked
                pipeline.retrieve("limit", "NPA", {"principal": principal})
            assert [status.source_id for status in caught.value.statuses] == ["sops", "board"]


def test_chunks_of_a_callers_own_function_need_the_clearance_where_a_policy_is_in_force(setup_of):
    def own(_query, _domain, _top_k):
        texts = {"internal": "The limit is 5.", "restricted": "The secret limit is 7."}
        return [{"content": text, "classification": name, "relevance_score": 0.9} for name, text in texts.items()]

    def found(principal):
        listed = pipeline.retrieve("limit", "ANY", {"adapter": own, "principal": principal})
        return sorted(chunk["content"] for chunk in listed)

    setup_of(npa=OPEN % "")
    with create_rag_pipeline() as pipeline:
        assert len(found(None)) == 2
    setup_of(npa=OPEN % RULE)
    with create_rag_pipeline() as pipeline:
        assert found(None) == ["The limit is 5."]
        assert len(found({"clearance": "RESTRICTED"})) == 2
