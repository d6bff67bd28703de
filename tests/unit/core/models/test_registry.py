"""Manifest values: a type and a tier agree, ids are unique, what is left out follows from the type."""

import pytest
from pydantic import ValidationError

from context_engine.core.models import TIER_OF, Classification, DomainSpec, Registry, SourceSpec, SourceType, TrustClass
from context_engine.errors import UnknownDomain


def source(**fields):
    return SourceSpec(**{"id": "sops", "type": "bank_sop", **fields})


@pytest.mark.parametrize(("kind", "tier"), TIER_OF.items())
def test_A12_the_tier_follows_from_the_type(kind, tier):
    assert source(type=kind).tier == source(type=kind, tier=tier).tier == tier
    assert source(type=kind).trust is (TrustClass.UNTRUSTED if tier == 5 else TrustClass.TRUSTED)


def test_A12_the_five_types_in_order():
    assert [str(kind) for kind in SourceType] == [
        "system_of_record",
        "bank_sop",
        "industry_standard",
        "external_official",
        "general_web",
    ]
    assert list(TIER_OF.values()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("tier", [0, 1, 3, 4, 5, 9, -1])
def test_a_type_and_a_tier_that_disagree_are_an_error(tier):
    message = f"type 'bank_sop' is tier 2, but tier {tier} is given: correct one of the two"
    with pytest.raises(ValidationError, match=message):
        source(tier=tier)


def test_defaults():
    spec = source()
    assert (spec.ttl_seconds, spec.classification, spec.adapter) == (3600, Classification.INTERNAL, "local")
    assert spec.trust_document_metadata is False
    assert source(trust_class="UNTRUSTED").trust is TrustClass.UNTRUSTED


@pytest.mark.parametrize(
    "fields",
    [
        {"id": ""},
        {"id": "has space"},
        {"id": "x" * 129},
        {"id": "-leading"},
        {"type": "bank_sops"},
        {"ttl_seconds": -1},
        {"trust_class": "trusted"},
        {"classification": "secret"},
        {"timeout_s": 0},
        {"timeout_s": 601},
        {"allowed_roles": ["trader"]},
    ],
)
def test_fields_that_cannot_be_used(fields):
    with pytest.raises(ValidationError):
        source(**fields)


def domain(**fields):
    return DomainSpec(**{"version": 1, "domain": "NPA", "sources": (source(),), **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"version": 2}, "version"),
        ({"domain": "N P A"}, "domain"),
        ({"sources": ()}, "at least 1"),
        ({"sources": (source(), source())}, "source id 'sops' appears twice in domain 'NPA'"),
        ({"timezone": "Mars/Olympus"}, "unknown time zone 'Mars/Olympus'; use an IANA name"),
        ({"timezone": "../../etc/passwd"}, "unknown time zone"),
        ({"access": {"allow": ["all"]}}, "access"),
    ],
)
def test_domains_that_cannot_be_used(fields, message):
    with pytest.raises(ValidationError, match=message):
        domain(**fields)


def test_a_registry_finds_and_lists():
    known = domain(sources=(source(), source(id="web", type="general_web")))
    registry = Registry(domains={"NPA": known, "DCE": domain(domain="DCE")})
    assert registry.names == ("DCE", "NPA")
    assert registry.domain("NPA") is known
    assert (known.source("web").tier, known.source("nope")) == (5, None)
    with pytest.raises(UnknownDomain, match=r"unknown domain 'npa'\. Registered: DCE, NPA\. Did you mean 'NPA'\?"):
        registry.domain("npa")
    with pytest.raises(UnknownDomain, match=r"No domain is registered\. Write one with 'context-engine init DIR'"):
        Registry().domain("NPA")


def test_sources_are_named_by_id_or_namespace():
    rows = [{"id": f"s{n}", "type": "bank_sop", "namespace": name} for n, name in enumerate(["a", "b", "a", None])]
    domain = DomainSpec(version=1, domain="NPA", sources=rows)
    assert domain.names == ("s0", "s1", "s2", "s3", "a", "b")
    assert [spec.id for spec in domain.named(("s3", "a"))] == ["s0", "s2", "s3"]
    assert [spec.in_namespace for spec in domain.sources] == ["a", "b", "a", "s3"]
    assert domain.unknown_name("a") is None


@pytest.mark.wording
def test_a_namespace_that_is_an_id_too_is_refused():
    rows = [{"id": "a", "type": "bank_sop"}, {"id": "b", "type": "bank_sop", "namespace": "a"}]
    with pytest.raises(ValidationError, match="namespace 'a' is the id of a source of domain 'NPA' too: rename one"):
        DomainSpec(version=1, domain="NPA", sources=rows)


@pytest.mark.parametrize("pattern", ["/srv/sops/**", "../sops/*.md", "sops/../web/*.md"])
def test_a_rule_that_matches_no_file_is_refused(pattern):
    with pytest.raises(ValidationError, match="matches no file"):
        source(documents=[{"include": pattern}])


def test_a_rule_may_begin_in_the_ingested_folder():
    assert source(documents=[{"include": "./sops/*.md"}]).documents[0].include == "./sops/*.md"
