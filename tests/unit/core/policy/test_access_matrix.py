"""Who may search what, as a table."""

from __future__ import annotations

from context_engine.core.models import AccessReason, Classification, DomainSpec, Principal
from context_engine.core.policy.access import ManifestPolicy
from context_engine.core.policy.access_matrix import Holder, access_matrix, holders_in_rules

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
