"""Cedar's own engine, given the exported policies, decides as the policy they were made from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import Classification, DomainSpec, Principal
from context_engine.core.policy.access import ManifestPolicy
from context_engine.core.policy.access_review import cedar_entities, cedar_policies

cedarpy = pytest.importorskip("cedarpy")

NAMES = st.sets(st.sampled_from(["npa", 'the "desk"', "a\\b", "größe"]), max_size=2)
CLASSES = st.sampled_from(list(Classification))
RULES = st.none() | st.fixed_dictionaries(
    {}, optional={"roles": NAMES.map(sorted), "groups": NAMES.map(sorted), "clearance": CLASSES}
)
PRINCIPALS = st.builds(
    Principal, id=st.sampled_from(["", "p"]), roles=NAMES.map(frozenset), groups=NAMES.map(frozenset), clearance=CLASSES
)


def source(name: str, classification: Classification, rule: Any) -> dict[str, Any]:
    return {"id": name, "type": "bank_sop", "classification": classification, "access": rule}


@st.composite
def domains(draw: st.DrawFn) -> dict[str, DomainSpec]:
    found = {}
    for name in ("A", "B"):
        rows = [source(f"s{number}", draw(CLASSES), draw(RULES)) for number in range(2)]
        found[name] = DomainSpec.model_validate({"version": 1, "domain": name, "access": draw(RULES), "sources": rows})
    return found


@given(domains=domains(), principal=PRINCIPALS, raised=CLASSES)
def test_cedar_decides_as_the_manifests_do(
    domains: dict[str, DomainSpec], principal: Principal, raised: Classification
) -> None:
    policy, cedar = ManifestPolicy(domains), cedarpy.PolicySet.from_str(cedar_policies(domains.values()))
    entities = cedar_entities(domains.values(), [principal])
    ours = {
        (domain, one.source_id): one.allowed
        for domain, spec in domains.items()
        for one in policy.decide(principal, spec).sources
    }
    documents = [
        {
            "uid": {"type": "Document", "id": f"{domain}/{name}/raised"},
            "attrs": {"raised_to": {"__entity": {"type": "Clearance", "id": str(raised)}}},
            "parents": [{"type": "Source", "id": f"{domain}/{name}"}],
        }
        for domain, name in ours
    ]
    known = cedarpy.Entities.from_json_str(json.dumps([*entities, *documents]))

    def permitted(action: str, kind: str, name: str) -> bool:
        request = {
            "principal": {"type": "Principal", "id": principal.id},
            "action": {"type": "Action", "id": action},
            "resource": {"type": kind, "id": name},
            "context": {},
        }
        return bool(cedarpy.is_authorized(request, cedar, known).allowed)

    assert {(d, s): permitted("search", "Source", f"{d}/{s}") for d, s in ours} == ours
    cleared = principal.clearance.rank >= raised.rank
    assert {(d, s): permitted("read", "Document", f"{d}/{s}/raised") for d, s in ours} == {
        place: allowed and cleared for place, allowed in ours.items()
    }
