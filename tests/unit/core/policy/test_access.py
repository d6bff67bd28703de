""""""

from __future__ import annotations

import pytest

from context_engine.core.models import (
    NOBODY,
    AccessClass,
    AccessDecision,
    AccessReason,
    AccessRule,
    Classification,
    DomainSpec,
    Principal,
    Registry,
    SourceAccess,
)
from context_engine.core.policy.access import OPEN_ACCESS, AccessViews, ManifestPolicy, access_class, admits, visible
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


PUBLIC, INTERNAL, SECRET = Classification.PUBLIC, Classification.INTERNAL, Classification.RESTRICTED


@pytest.mark.parametrize(
    ("rules", "declared", "claimed", "expected"),
    [
        ("", INTERNAL, None, None),  # neither a rule nor a raised classification: open to everyone
        ("", INTERNAL, INTERNAL, None),
        ("", INTERNAL, PUBLIC, None),  # a document may not lower it
        ("", INTERNAL, SECRET, SECRET),
        ("rule", INTERNAL, None, INTERNAL),
        ("rule", INTERNAL, PUBLIC, INTERNAL),
        ("rule", INTERNAL, SECRET, SECRET),
    ],
)
def test_a_document_needs_the_higher_of_both_classifications(rules, declared, claimed, expected):
    assert access_class(rules, declared, claimed) == AccessClass(rules, expected)


def test_a_rule_is_met_by_one_role_or_group_and_by_the_clearance():
    rule = AccessRule(roles=("desk",), groups=("risk",), clearance=INTERNAL)
    both = {"roles": frozenset({"desk"}), "groups": frozenset({"risk"})}
    for name in ("roles", "groups"):
        assert admits(rule, Principal(clearance=INTERNAL, **{name: both[name]}))
        assert not admits(rule, Principal(clearance=PUBLIC, **{name: both[name]}))
    assert not admits(rule, Principal(clearance=SECRET))
    assert not admits(AccessRule(roles=("desk",)), Principal(clearance=SECRET))
    assert admits(AccessRule(clearance=INTERNAL), Principal(clearance=INTERNAL))


def test_a_scope_names_the_rules_that_admit(domains):
    """t1 has the rule of its own, t3 that of its domain; t2 and t5 are open and have none."""
    policy = ManifestPolicy(domains)
    assert policy.rules_of("t2") == policy.rules_of("t5") == policy.rules_of("unknown") == ""
    assert policy.rules_of("t1") != policy.rules_of("t3")
    for principal, admitted in ((DESK, {policy.rules_of("t1"), policy.rules_of("t3")}), (NOBODY, set())):
        scope = policy.decide(principal, domains["MIXED"]).scope
        assert (scope.rules, scope.clearance) == (admitted, principal.clearance)


def test_a_source_of_two_domains_is_searched_through_either(spec_of):
    """Its own rule and that of one of its domains must hold; a domain without a rule leaves its own alone."""
    own, outer, other = (AccessRule(roles=(role,)) for role in ("own", "outer", "other"))

    def scope(roles, *rules):
        names = {f"D{number}": rule for number, rule in enumerate(rules)}
        sources = (spec_of(2, access=own),)
        known = {name: DomainSpec(version=1, domain=name, sources=sources, access=rule) for name, rule in names.items()}
        return ManifestPolicy(known).decide(Principal(roles=frozenset(roles)), known["D0"]).scope.rules

    assert scope(["own"], None) and not scope(["outer"], None)
    assert scope(["own", "outer"], outer, other) and scope(["own", "other"], outer, other)
    assert not scope(["own"], outer, other) and not scope(["outer", "other"], outer, other)
    assert scope(["own"], outer, None)


def test_the_hash_of_a_policy_tells_its_rules_and_not_their_order(spec_of):
    def policy(*names, rule):
        return ManifestPolicy(
            {name: DomainSpec(version=1, domain=name, sources=(spec_of(2),), access=rule) for name in names}
        )

    rule = AccessRule(roles=("a", "b"), clearance=INTERNAL)
    same = AccessRule(roles=("b", "a"), clearance=INTERNAL)
    assert policy("X", "Y", rule=rule).policy_hash == policy("Y", "X", rule=same).policy_hash
    for other in (None, AccessRule(roles=("a", "b")), AccessRule(roles=("a", "b"), clearance=SECRET)):
        assert policy("X", "Y", rule=other).policy_hash != policy("X", "Y", rule=rule).policy_hash


def test_without_rules_every_source_is_open_and_belongs_to_no_class(domains):
    decision = OPEN_ACCESS.decide(NOBODY, domains["CLOSED"])
    assert decision.sources == (SourceAccess("t3", True, AccessReason.NO_RULE),)
    assert OPEN_ACCESS.rules_of("t3") == OPEN_ACCESS.policy_hash == ""


def test_settings_that_name_permitted_sources_alone_stay_the_same(domains):
    settings = {"sources": ["t2"], "stage2_top_k": 3}
    domains["MIXED"] = domains["MIXED"].model_copy(update={"settings": settings})
    assert visible(Registry(domains=domains), ManifestPolicy(domains), NOBODY).domain("MIXED").settings == settings


def test_the_views_and_scopes_of_1024_principals_are_kept(domains):
    everyone = [Principal(id=str(number)) for number in range(1025)]
    policy = ByHand("t5")
    views, scopes = AccessViews(Registry(domains=domains), policy), ManifestPolicy(domains)

    def both(principal):
        return views.of(principal), scopes.decide(principal, domains["OPEN"]).scope

    view, scope = [both(principal) for principal in everyone[:1024]][0]  # noqa: RUF015
    again = both(everyone[0])
    assert again[0] is view and again[1] is scope
    for principal in everyone[1:]:
        both(principal)
    anew = both(everyone[0])
    assert anew[0] is not view and anew[1] is not scope


def test_the_rules_of_a_source_are_kept_as_this_text(spec_of):
    """It is stored with the documents: another text for the same rules would have them moved."""
    rule = AccessRule(roles=("prüfer", "desk"), clearance=INTERNAL)
    domain = DomainSpec(version=1, domain="D", sources=(spec_of(2, access=rule),), access=AccessRule(groups=("risk",)))
    assert ManifestPolicy({"D": domain}).rules_of("t2") == (
        '{"domains":[{"clearance":null,"groups":["risk"],"roles":[]}],'
        '"source":{"clearance":"internal","groups":[],"roles":["desk","prüfer"]}}'
    )
