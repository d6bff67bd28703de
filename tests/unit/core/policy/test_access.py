""""""

from __future__ import annotations

import pytest

from context_engine.core.models import (
    NOBODY,
    AccessDecision,
    AccessReason,
    AccessRule,
    Classification,
    DomainSpec,
    Principal,
    Registry,
    SourceAccess,
)
from context_engine.core.policy.access import OPEN_ACCESS, AccessViews, ManifestPolicy, visible
from context_engine.errors import ConfigError, PolicyError, UnknownDomain
from context_engine.settings.registry import LoadedRegistry

DESK = Principal(id="dora", roles=frozenset({"desk"}), clearance=Classification.INTERNAL)

RULE = AccessRule(roles=("desk",))


@pytest.fixture
def domains(spec_of):
    def domain(name, *sources, **fields):
        return DomainSpec(version=1, domain=name, sources=sources, **fields)

    return {
        "OPEN": domain("OPEN", spec_of(2), spec_of(5)),
        "MIXED": domain(
            "MIXED", spec_of(2), spec_of(1, access=RULE), settings={"sources": ["t1", "t2"], "stage2_top_k": 3}
        ),
        "CLOSED": domain("CLOSED", spec_of(3), access=RULE),
    }


def test_what_may_not_be_searched_is_gone_and_the_rest_is_as_declared(domains):
    seen = visible(Registry(domains=domains), ManifestPolicy(domains), NOBODY)
    assert seen.names == ("MIXED", "OPEN")
    assert seen.domain("OPEN") is domains["OPEN"]
    assert [source.id for source in seen.domain("MIXED").sources] == ["t2"]
    assert seen.domain("MIXED").settings == {"sources": ["t2"], "stage2_top_k": 3}
    with pytest.raises(UnknownDomain) as caught:
        seen.domain("CLOSED")
    assert caught.value.known == ("MIXED", "OPEN")


def test_whoever_is_admitted_sees_all_of_it(domains):
    assert visible(Registry(domains=domains), ManifestPolicy(domains), DESK).domains == domains


def test_a_setting_that_names_denied_sources_alone_is_gone(domains):
    domains["MIXED"] = domains["MIXED"].model_copy(update={"settings": {"sources": ["t1"], "stage2_top_k": 3}})
    seen = visible(Registry(domains=domains), ManifestPolicy(domains), NOBODY)
    assert seen.domain("MIXED").settings == {"stage2_top_k": 3}


def test_without_a_policy_the_registry_is_as_it_is(domains):
    registry = LoadedRegistry(domains=domains, broken={"X": ConfigError("no good", file="x.yaml")})
    assert visible(registry, OPEN_ACCESS, NOBODY) is registry


def test_manifests_that_cannot_be_used_have_no_rule_to_go_by(domains):
    registry = LoadedRegistry(
        domains=domains,
        broken={"X": ConfigError("no good", file="x.yaml")},
        unread=(ConfigError("no YAML", file="y.yaml"),),
        files={"OPEN": "open.yaml", "CLOSED": "closed.yaml", "X": "x.yaml"},
    )
    seen = visible(registry, ManifestPolicy(domains), NOBODY)
    assert (seen.names, seen.notices, seen.problems, dict(seen.files)) == (
        ("MIXED", "OPEN"), (), (), {"OPEN": "open.yaml"},
    )  # fmt: skip
    without = LoadedRegistry(domains={name: domains[name] for name in ("MIXED", "OPEN")})
    for name in ("X", "CLOSED", "NOWHERE", "OPE"):
        with pytest.raises(UnknownDomain) as hidden:
            seen.domain(name)
        with pytest.raises(UnknownDomain) as absent:
            without.domain(name)
        assert str(hidden.value) == str(absent.value)


class ByHand:
    """Lets everybody search the sources that are listed, under a hash that can be changed."""

    def __init__(self, *allowed):
        self.allowed, self.policy_hash, self.asked = allowed, "1", 0

    def decide(self, principal, domain):
        self.asked += 1
        sources = tuple(
            SourceAccess(one.id, True, AccessReason.ADMITTED) for one in domain.sources if one.id in self.allowed
        )
        return AccessDecision(principal=principal, domain=domain.domain, sources=sources)

    def rules_of(self, source_id):
        return ""


def test_what_a_policy_does_not_name_is_denied(domains):
    seen = visible(Registry(domains=domains), ByHand("t5"), DESK)
    assert [(name, [one.id for one in seen.domain(name).sources]) for name in seen.names] == [("OPEN", ["t5"])]


def test_a_policy_is_asked_once_for_a_principal_and_again_when_its_rules_are_others(domains):
    policy = ByHand("t5")
    views = AccessViews(Registry(domains=domains), policy)
    first = views.of(DESK)
    assert views.of(Principal(id="dora", roles=frozenset({"desk"}), clearance=Classification.INTERNAL)) is first
    assert policy.asked == 3
    policy.allowed, policy.policy_hash = (), "2"
    assert views.of(DESK).registry.names == ()
    assert policy.asked == 6


def test_a_policy_that_fails_denies(domains):
    class Down(ByHand):
        def decide(self, principal, domain):
            raise OSError("connection refused by http://opa.internal:8181")

    with pytest.raises(PolicyError) as caught:
        visible(Registry(domains=domains), Down(), DESK)
    assert "opa" not in str(caught.value)
