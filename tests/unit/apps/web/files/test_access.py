"""The page of who may search what."""

from __future__ import annotations

import html5lib

from context_engine.apps.web.files.access import access_page, decision_words, principal_words, rule_words
from context_engine.core.models import AccessReason, AccessRule, Classification, DomainSpec, Principal, SourceAccess
from context_engine.core.policy.access import ManifestPolicy
from context_engine.core.policy.access_review import access_matrix, holders_in_rules

DOMAIN = DomainSpec.model_validate(
    {
        "version": 1,
        "domain": "NPA",
        "access": {"roles": ["<b>desk</b>"]},
        "sources": [{"id": "sops", "title": "SOPs & more", "type": "bank_sop", "access": {"groups": ["sg"]}}],
    }
)

DESK = Principal(id="desk", roles=frozenset(["<b>desk</b>"]), clearance=Classification.INTERNAL)


def test_it_shows_names_as_they_are_and_runs_nothing() -> None:
    policy = ManifestPolicy({"NPA": DOMAIN})
    found = access_matrix([DOMAIN], policy, holders=holders_in_rules([DOMAIN]), principals=[DESK])
    page = access_page(found, [DOMAIN], demo=True)
    html5lib.HTMLParser(strict=True).parse(page)
    assert "SOPs &amp; more" in page
    assert "&lt;b&gt;desk&lt;/b&gt;" in page
    assert "<b>desk</b>" not in page
    assert "<b class=never>may not</b><small>the source requires group sg</small>" in page
    assert "DEMO" in page
    assert "http" not in page.partition("<body>")[2]


def test_a_rule_in_words() -> None:
    assert rule_words(AccessRule(roles=("a", "b"), groups=("g",))) == "role a or b, or group g"
    assert rule_words(AccessRule(clearance=Classification.RESTRICTED)) == "cleared for restricted"
    assert rule_words(AccessRule()) == "nobody"


def test_a_principal_in_words() -> None:
    assert principal_words(DESK) == "desk: role <b>desk</b>; cleared for internal"
    assert principal_words(Principal()) == "no role or group; cleared for public"


def test_a_decision_of_a_policy_without_rules_in_manifests() -> None:
    domain = DomainSpec.model_validate(
        {"version": 1, "domain": "X", "sources": [{"id": "s", "type": "bank_sop", "classification": "restricted"}]}
    )
    source = domain.sources[0]
    assert decision_words(SourceAccess("s", False, AccessReason.SOURCE_RULE), domain, source) == (
        "the policy says source_rule"
    )
    assert "restricted" in decision_words(SourceAccess("s", False, AccessReason.CLEARANCE), domain, source)
