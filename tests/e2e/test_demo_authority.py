"""Higher tiers above lower ones of about equal relevance; what contradicts a procedure below it."""

import pytest

from context_engine.core.ranking.select import overturnable_gap

QUERY = "NPA classification criteria"


def place(result, document, section=None):
    """The rank at which a section of a document stands, itself or merged into another."""
    for chunk in result.chunks:
        stands = [(chunk.chunk.document_id, chunk.chunk.section)]
        stands += [(one.document_id, one.section) for one in chunk.also_in]
        if any(name == document and section in (None, number) for name, number in stands):
            return chunk.rank
    raise AssertionError(f"{document} {section} is not among {[chunk.chunk_id for chunk in result.chunks]}")


def test_at_most_eight_chunks_with_higher_tiers_first(demo_bank):
    result = demo_bank.ask(QUERY, "NPA")
    assert 1 <= len(result.chunks) <= 8
    assert (result.status, result.decision) == ("complete", "answered")
    assert result.chunks[0].authority_tier in (1, 2)


def test_no_lower_tier_stands_above_a_higher_one_of_about_equal_relevance(answers):
    """About equal: the gap is one that the boosts make up, (b_high - b_low) * 0.4 / 0.6."""
    pairs = 0
    for name, result in answers.items():
        for chunk in result.chunks:
            for below in result.chunks[chunk.rank :]:
                if below.authority_tier < chunk.authority_tier:
                    gap = overturnable_gap(below.authority_tier, chunk.authority_tier, result.settings.values)
                    assert chunk.relevance - below.relevance >= gap - 1e-9, (name, chunk.chunk_id)
                    pairs += 1
    assert pairs > 0


def test_the_article_with_the_same_words_is_below_the_procedure_and_the_register(demo_bank):
    """The article matches the words best: without authority it comes first."""
    result = demo_bank.ask(QUERY, "NPA")
    assert place(result, "NPA-SOP-001", "4") < place(result, "NPA-REG-SCHEME") < place(result, "NPA-WEB-001")
    plain = demo_bank.ask(QUERY, "NPA", authority_weight=0.0)
    assert place(plain, "NPA-WEB-001") == 1


def test_the_swap_is_told_with_the_gap_it_overturned(demo_bank):
    result = demo_bank.ask(QUERY, "NPA")
    [swap] = [one for one in result.swaps if one.winner_tier == 2 and one.loser_tier == 5]
    ranked = {(chunk.source_id, chunk.chunk_id): chunk for chunk in result.chunks}
    assert (ranked[swap.winner].chunk.document_id, ranked[swap.loser].chunk.document_id) == (
        "NPA-SOP-001",
        "NPA-WEB-001",
    )
    assert swap.gap == ranked[swap.loser].relevance - ranked[swap.winner].relevance
    assert 0 < swap.gap <= (0.30 - 0.00) * 0.4 / 0.6


def test_the_copy_in_another_procedure_is_merged_and_listed(demo_bank):
    result = demo_bank.ask(QUERY, "NPA")
    procedure = result.chunks[place(result, "NPA-SOP-001", "4") - 1]
    [copy] = procedure.provenance.extra["also_in"]
    assert (copy["document_id"], copy["section"]) == ("NPA-SOP-003", "3.4")
    assert copy["similarity"] >= 0.85
    [fate] = [one for one in result.fates if one.chunk_id == copy["chunk_id"]]
    assert (fate.outcome, fate.into) == ("merged", (procedure.source_id, procedure.chunk_id))
    assert "NPA-SOP-003" not in [chunk.chunk.document_id for chunk in result.chunks]


@pytest.mark.parametrize(
    ("query", "domain", "procedure", "section", "article"),
    [
        ("Do variations need approval?", "NPA", "NPA-SOP-001", "4.3", "NPA-WEB-001"),
        ("Do near misses have to be reported?", "ORM", "ORM-SOP-001", "4.1", "ORM-WEB-001"),
        ("Must every near miss be reported?", "ORM", "ORM-SOP-001", "4.1", "ORM-WEB-001"),
        ("By what time must variation margin be called?", "DCE", "DCE-SOP-002", "3.1", "DCE-WEB-001"),
        ("Must a trader ask for approval before exceeding a limit?", "DESK", "DESK-SOP-002", "4.1", "DESK-WEB-002"),
        ("Who may approve a temporary limit excess?", "DESK", "DESK-SOP-002", "4.2", "DESK-WEB-002"),
    ],
)
def test_an_article_that_contradicts_a_procedure_stands_below_it(demo_bank, query, domain, procedure, section, article):
    result = demo_bank.ask(query, domain)
    assert place(result, procedure, section) == 1
    assert place(result, article) > 1


def test_eligible_collateral_is_answered_by_the_procedure_not_by_the_article(demo_bank):
    """DCE-SOP-002 §4.1 names what is eligible; the article offers shares in the counterparty."""
    result = demo_bank.ask("Which collateral is eligible for variation margin?", "DCE", stage2_top_k=40)
    assert place(result, "DCE-SOP-002", "4.1") < place(result, "DCE-WEB-001")
