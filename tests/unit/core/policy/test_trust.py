"""The manifest as a ceiling: every claim against every manifest, trusted and not."""

from itertools import product

import pytest

from context_engine.core.models import TIER_OF, Chunk, Classification, SourceType, TrustClass
from context_engine.core.policy.trust import effective_authority

TIERS = (1, 2, 3, 4, 5)
TYPES = list(SourceType)
T, U = TrustClass.TRUSTED, TrustClass.UNTRUSTED


def of(spec, **claims):
    return effective_authority(Chunk(content="x", **claims), spec)


@pytest.mark.parametrize(("manifest", "claim"), list(product(TIERS, TIERS)))
def test_a_document_may_lower_its_tier_and_never_raise_it(spec_of, manifest, claim):
    for claims in ({"authority_tier": claim}, {"source_type": TYPES[claim - 1]}):
        found = of(spec_of(manifest), **claims)
        assert found.tier == max(manifest, claim)
        assert TIER_OF[found.source_type] == found.tier
        assert found.claimed == ({"authority_tier": claim} if claim < manifest else {})
        trusted = of(spec_of(manifest, trust_document_metadata=True), **claims)
        assert (trusted.tier, trusted.claimed) == (claim, {})
        assert TIER_OF[trusted.source_type] == claim


@pytest.mark.parametrize(("tier", "kind"), list(product(TIERS, TIERS)))
def test_a_type_and_a_tier_that_disagree_count_as_the_lower(spec_of, tier, kind):
    spec = spec_of(5, trust_document_metadata=True)
    assert of(spec, authority_tier=tier, source_type=TYPES[kind - 1]).tier == max(tier, kind)


TRUST_TABLE = [
    # manifest tier, declared trust, claimed tier, claimed trust -> trust, refused · trust where documents are trusted
    (1, None, None, None, T, False, T),
    (1, None, None, U, U, False, U),
    (1, None, None, T, T, False, T),
    (1, None, 5, None, U, False, U),
    (1, None, 5, T, U, True, T),
    (1, None, 3, None, T, False, T),
    (1, U, None, None, U, False, U),
    (1, U, None, T, U, True, T),
    (1, U, 3, None, U, False, U),
    (1, U, 5, None, U, False, U),
    (5, None, None, None, U, False, U),
    (5, None, None, T, U, True, T),
    (5, None, 1, None, U, False, T),
    (5, None, 1, U, U, False, U),
    (5, None, 1, T, U, True, T),
    (5, T, None, None, T, False, T),
    (5, T, None, U, U, False, U),
    (5, T, 1, None, T, False, T),
]


@pytest.mark.parametrize(("tier", "declared", "claimed_tier", "claimed", "trust", "refused", "trusted"), TRUST_TABLE)
def test_trust_class(spec_of, tier, declared, claimed_tier, claimed, trust, refused, trusted):
    claims = {"authority_tier": claimed_tier, "trust_class": claimed}
    found = of(spec_of(tier, trust_class=declared), **claims)
    assert (found.trust, "trust_class" in found.claimed) == (trust, refused)
    found = of(spec_of(tier, trust_class=declared, trust_document_metadata=True), **claims)
    assert (found.trust, found.claimed) == (trusted, {})


def test_another_claim_does_not_make_an_untrusted_source_trusted(spec_of):
    for trusting in (False, True):
        spec = spec_of(2, trust_class=U, trust_document_metadata=trusting)
        assert of(spec).trust is U
        assert of(spec, classification=Classification.RESTRICTED).trust is U
        assert of(spec, authority_tier=2).trust is U


@pytest.mark.parametrize(("manifest", "claim"), list(product(Classification, Classification)))
def test_a_document_may_raise_its_classification_and_never_lower_it(spec_of, manifest, claim):
    found = of(spec_of(2, classification=manifest), classification=claim)
    assert found.classification is max(manifest, claim, key=lambda one: one.rank)
    assert found.claimed == ({"classification": claim.value} if claim.rank < manifest.rank else {})
    trusted = of(spec_of(2, classification=manifest, trust_document_metadata=True), classification=claim)
    assert (trusted.classification, trusted.claimed) == (found.classification, found.claimed)


def test_a_silent_document_stands_as_the_manifest_says(spec_of):
    spec = spec_of(3, classification=Classification.CONFIDENTIAL)
    found = of(spec)
    assert (found.tier, found.source_type, found.trust) == (3, SourceType.INDUSTRY_STANDARD, T)
    assert (found.classification, found.claimed, found.defaulted) == (Classification.CONFIDENTIAL, {}, ())


def test_where_documents_speak_for_themselves_their_silence_is_told(spec_of):
    spec = spec_of(5, trust_document_metadata=True)
    assert of(spec).defaulted == ("source_type", "authority_tier", "trust_class")
    assert of(spec, authority_tier=2).defaulted == ("source_type", "trust_class")
    assert of(spec, authority_tier=2, source_type=SourceType.BANK_SOP, trust_class=T).defaulted == ()


def test_a_claim_of_something_else_leaves_the_classification_as_declared(spec_of):
    found = of(spec_of(2, classification=Classification.RESTRICTED), authority_tier=3)
    assert (found.tier, found.classification, found.claimed) == (3, Classification.RESTRICTED, {})
