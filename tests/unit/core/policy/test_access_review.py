"""Who may search what, as a table."""

from __future__ import annotations

from context_engine.core.models import AccessReason, Classification, DomainSpec, Principal
from context_engine.core.policy.access import ManifestPolicy
from context_engine.core.policy.access_review import (
    Holder,
    access_matrix,
    cedar_entities,
    cedar_policies,
    holders_in_rules,
)

SOPS = {"id": "sops", "type": "bank_sop", "classification": "confidential", "access": {"roles": ["analyst"]}}

OPEN = {"id": "open", "type": "general_web", "classification": "restricted"}

CLEARED = {"id": "cleared", "type": "bank_sop", "access": {"clearance": "restricted"}}

NPA = DomainSpec.model_validate({"version": 1, "domain": "NPA", "sources": [SOPS, OPEN, CLEARED]})

ORM = DomainSpec.model_validate(
    {"version": 1, "domain": "ORM", "access": {"groups": ["risk"], "roles": ["analyst"]}, "sources": [OPEN]}
)

POLICY = ManifestPolicy({"NPA": NPA, "ORM": ORM})


def test_the_rules_name_roles_and_groups() -> None:
    assert holders_in_rules([NPA, ORM]) == (Holder("role", "analyst"), Holder("group", "risk"))


def test_for_each_holder_the_least_clearance_that_opens_a_source() -> None:
    found = access_matrix([NPA, ORM], POLICY, holders=holders_in_rules([NPA, ORM]), principals=[])
    assert [(row.domain, row.source.id) for row in found.sources] == [
        ("NPA", "sops"),
        ("NPA", "open"),
        ("NPA", "cleared"),
        ("ORM", "open"),
    ]
    public, confidential, restricted = Classification.PUBLIC, Classification.CONFIDENTIAL, Classification.RESTRICTED
    assert found.needed == {
        None: (None, public, restricted, None),
        Holder("role", "analyst"): (confidential, public, restricted, restricted),
        Holder("group", "risk"): (None, public, restricted, restricted),
    }
    assert found.policy_hash == POLICY.policy_hash


def test_for_each_principal_what_decides() -> None:
    desk = Principal(id="desk", roles=frozenset(["analyst"]), clearance=Classification.INTERNAL)
    found = access_matrix([NPA, ORM], POLICY, holders=[], principals=[desk])
    assert [(one.allowed, one.reason) for one in found.principals[desk]] == [
        (False, AccessReason.CLEARANCE),
        (True, AccessReason.NO_RULE),
        (False, AccessReason.SOURCE_RULE),
        (False, AccessReason.CLEARANCE),
    ]


def domain(**more: object) -> DomainSpec:
    sources = [
        {
            "id": "sops",
            "type": "bank_sop",
            "title": "SOPs",
            "classification": "confidential",
            "access": {"roles": ["npa-analyst", "auditor"], "groups": ["sg"], "clearance": "internal"},
        },
        {"id": "web", "type": "general_web", "classification": "public"},
    ]
    return DomainSpec.model_validate(
        {"version": 1, "domain": "NPA", "title": "New\nproducts", "sources": sources, **more}
    )


def test_a_source_has_one_policy_with_all_that_it_asks_for() -> None:
    assert """\
@id("NPA/sops")
permit (
  principal,
  action in [Action::"search", Action::"read"],
  resource in Source::"NPA/sops"
)
when { principal in [Role::"auditor", Role::"npa-analyst", Group::"sg"] }
when { principal in Clearance::"internal" }
when { principal in Clearance::"confidential" };
""" in cedar_policies([domain()])


def test_a_source_without_a_rule_asks_for_nothing() -> None:
    assert 'resource in Source::"NPA/web"\n);\n' in cedar_policies([domain()])


def test_a_rule_of_the_domain_stands_before_that_of_the_source() -> None:
    text = cedar_policies([domain(access={"roles": "npa"})])
    assert 'when { principal in [Role::"npa"] }\nwhen { principal in [Role::"auditor"' in text
    assert 'Source::"NPA/web"\n)\nwhen { principal in [Role::"npa"] };' in text, "and what is public needs no clearance"


def test_a_rule_that_names_nothing_admits_nobody() -> None:
    assert "when { false }" in cedar_policies([domain(access={})])


def test_a_document_that_raises_its_classification_is_forbidden_without_the_clearance() -> None:
    text = cedar_policies([domain()])
    assert text.endswith("when { resource has raised_to }\nunless { principal in resource.raised_to };\n")


def test_names_are_written_as_cedar_reads_them() -> None:
    text = cedar_policies([domain(access={"roles": 'a"b\\c\td'})])
    assert r'Role::"a\"b\\c\u{9}d"' in text
    assert "// NPA: New products\n" in text


def test_a_clearance_stands_in_every_lower_one() -> None:
    found = {(one["uid"]["type"], one["uid"]["id"]): one for one in cedar_entities([])}
    above = {name: [parent["id"] for parent in one["parents"]] for (_, name), one in found.items()}
    assert above == {
        "public": [],
        "internal": ["public"],
        "confidential": ["internal"],
        "restricted": ["confidential"],
    }


def test_sources_and_principals_are_entities() -> None:
    desk = Principal(id="desk", roles=frozenset(["npa"]), clearance=Classification.CONFIDENTIAL)
    found = {(one["uid"]["type"], one["uid"]["id"]): one for one in cedar_entities([domain()], [desk])}
    assert found["Source", "NPA/sops"] == {
        "uid": {"type": "Source", "id": "NPA/sops"},
        "attrs": {
            "title": "SOPs",
            "tier": 2,
            "classification": {"__entity": {"type": "Clearance", "id": "confidential"}},
        },
        "parents": [{"type": "Domain", "id": "NPA"}],
    }
    assert found["Principal", "desk"]["parents"] == [
        {"type": "Role", "id": "npa"},
        {"type": "Clearance", "id": "confidential"},
    ]


def test_roles_groups_and_domains_are_sorted() -> None:
    many = [f"role-{letter}" for letter in "fbdaec"]
    found = holders_in_rules([domain(access={"roles": many, "groups": many})])
    roles = [one.name for one in found if one.kind == "role"]
    assert roles == sorted(roles) and roles[2:] == sorted(many)
    desk = Principal(id="desk", roles=frozenset(many), groups=frozenset(many))
    entities = cedar_entities([ORM, NPA], [desk])
    assert [one["uid"]["id"] for one in entities if one["uid"]["type"] == "Domain"] == ["NPA", "ORM"]
    assert [one["id"] for one in entities[-1]["parents"]] == [*sorted(many), *sorted(many), "public"]
