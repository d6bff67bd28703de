"""What a chunk's section, its siblings and its neighbours add to its text score."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from context_engine.adapters.sources.local import LocalBase, SearchOptions
from context_engine.core.models import Chunk, ScoreKind

ALONE = {"section_weight": 0.0, "sibling_weight": 0.0, "neighbour_weight": 0.0}
RULES = (
    Chunk(content="Limits of a desk are approved yearly.", chunk_id="a", heading_path=("Limits",)),
    Chunk(content="The committee decides within ten days.", chunk_id="b", heading_path=("Limits",)),
    Chunk(content="The committee keeps minutes.", chunk_id="c", heading_path=("Minutes",)),
)

Score = Callable[..., dict[str, float]]


@pytest.fixture
def scores(base: LocalBase) -> Score:
    """Writes RULES as one document and returns the text score of each chunk found."""
    with base.writer() as writer:
        writer.put("sop", "rules", "", "h", RULES)

    def search(text: str, **options: float) -> dict[str, float]:
        base.options = SearchOptions(**{**ALONE, **options})  # type: ignore[arg-type]
        found = base.search(text, source_id="sop", top_k=10)
        return {chunk.chunk_id: chunk.score(ScoreKind.BM25) or 0.0 for chunk in found}

    return search


def test_the_section_tells_apart_what_reads_alike(scores: Score) -> None:
    """Only the section of b speaks of approved limits."""
    query = "committee for approved limits"
    alone, within = scores(query), scores(query, section_weight=1.0)
    assert within["b"] - alone["b"] > within["c"] - alone["c"] > 0.0
    half = scores(query, section_weight=0.5)
    assert half["b"] - alone["b"] == pytest.approx((within["b"] - alone["b"]) / 2)


def test_the_best_of_the_section_lends_its_score(scores: Score) -> None:
    alone, lent = scores("committee yearly limits"), scores("committee yearly limits", sibling_weight=0.4)
    best = max(alone["a"], alone["b"])
    assert lent["a"] == pytest.approx(alone["a"] + 0.4 * best)
    assert lent["b"] == pytest.approx(alone["b"] + 0.4 * best)
    assert lent["c"] == pytest.approx(alone["c"] + 0.4 * alone["c"])


def test_neighbours_that_were_found_lend_theirs(scores: Score) -> None:
    alone, lent = scores("committee yearly"), scores("committee yearly", neighbour_weight=0.1)
    assert lent["b"] == pytest.approx(alone["b"] + 0.1 * (alone["a"] + alone["c"]))
    assert lent["c"] == pytest.approx(alone["c"] + 0.1 * alone["b"])


def test_another_document_is_no_neighbour(base: LocalBase) -> None:
    base.options = SearchOptions(**{**ALONE, "neighbour_weight": 1.0})  # type: ignore[arg-type]
    with base.writer() as writer:
        for name in ("one", "two"):
            writer.put("sop", name, "", "h", [Chunk(content="limit", chunk_id=name)])
    lent = {chunk.chunk_id: chunk.score(ScoreKind.BM25) for chunk in base.search("limit", source_id="sop", top_k=2)}
    base.options = SearchOptions(**ALONE)  # type: ignore[arg-type]
    alone = {chunk.chunk_id: chunk.score(ScoreKind.BM25) for chunk in base.search("limit", source_id="sop", top_k=2)}
    assert lent == alone


def test_a_bare_heading_is_no_answer_but_counts_for_its_section(base: LocalBase) -> None:
    heading = Chunk(
        content="Collateral haircuts", chunk_id="h", heading_path=("Part 2",), metadata={"is_heading": True}
    )
    rule = Chunk(content="They are reviewed each quarter.", chunk_id="r", heading_path=("Part 2",))
    other = Chunk(content="They are reviewed each quarter.", chunk_id="o", heading_path=("Part 3",))
    with base.writer() as writer:
        writer.put("sop", "d", "", "h", [heading, rule, other])
    found = [chunk.chunk_id for chunk in base.search("reviewed haircuts", source_id="sop", top_k=5)]
    assert found == ["r", "o"]
    assert base.search("haircuts", source_id="sop", top_k=5) == []
    assert base.get("sop", "h") is not None and base.verify().ok


def test_bare_headings_do_not_change_what_length_counts_for(base: LocalBase) -> None:
    """Texts of 1 and of 5 words and ten headings of a mean text's 3.

    1 / (1 + k1 * (1 - b + b * length / mean)) of both with k1 = 1.2 and b = .75, the one divided by the other.
    """
    base.options = SearchOptions(**ALONE)  # type: ignore[arg-type]
    texts = [Chunk(content=text) for text in ("margin", "margin collateral desk haircut ledger")]
    headings = [Chunk(content=f"Part{n}", metadata={"is_heading": True}) for n in range(10)]
    with base.writer() as writer:
        writer.put("sop", "d", "", "h", [one._replace(chunk_id=str(n)) for n, one in enumerate([*texts, *headings])])
    short, long = (chunk.score(ScoreKind.BM25) or 0.0 for chunk in base.search("margin", source_id="sop", top_k=5))
    mean = (1 + 5 + 10 * 3) / 12
    assert short / long == pytest.approx((1.3 + 0.9 * 5 / mean) / (1.3 + 0.9 * 1 / mean))


def test_a_document_of_nothing_but_a_heading_can_be_found(base: LocalBase) -> None:
    with base.writer() as writer:
        writer.put("sop", "d", "", "h", [Chunk(content="Haircuts", chunk_id="h", metadata={"is_heading": True})])
    assert [chunk.chunk_id for chunk in base.search("haircuts", source_id="sop", top_k=5)] == ["h"]


class TestBoosts:
    @pytest.fixture
    def filled(self, base: LocalBase) -> LocalBase:
        chunks = [
            Chunk(content="A material change needs approval.", chunk_id="uses", title="Approvals"),
            Chunk(
                content="A change that needs approval is one of limits or booking.",
                chunk_id="defines",
                metadata={"defines": ["Material Change"]},
            ),
            Chunk(content="A material change is told to the desk.", chunk_id="titled", title="Material change"),
        ]
        with base.writer() as writer:
            for chunk in chunks:
                writer.put("sop", chunk.chunk_id, "", "h", [chunk])
        return base

    def order(self, base: LocalBase, **options: float) -> list[str]:
        base.options = SearchOptions(**{**ALONE, **options})  # type: ignore[arg-type]
        found = base.search("what is a material change?", source_id="sop", top_k=3)
        return [chunk.chunk_id for chunk in found]

    def test_a_defined_term(self, filled: LocalBase) -> None:
        assert self.order(filled)[-1] == "defines"
        assert self.order(filled, definition_boost=2.0)[0] == "defines"

    def test_a_title(self, filled: LocalBase) -> None:
        assert self.order(filled, head_weight=0.0)[0] == "uses"
        assert self.order(filled, head_weight=0.0, title_boost=1.0)[0] == "titled"


class TestChineseAndJapanese:
    """Pairs of characters need no dictionary: a word is found inside a longer one, and a sentence by its parts."""

    @pytest.mark.parametrize(
        ("query", "wanted"),
        [
            ("风险限额审批", "zh"),
            ("新产品", "zh"),
            ("担保の評価", "ja"),
            ("ヘアカット率", "ja"),
            ("CRR 风险", "zh"),
            ("NPA-001 承認", "mixed"),
        ],
    )
    def test_found(self, base: LocalBase, query: str, wanted: str) -> None:
        texts = {
            "zh": "新产品的风险限额须经委员会审批。",
            "ja": "担保資産の評価にはヘアカット率を適用する。",
            "mixed": "NPA-001 の承認は委員会が行う。",
            "en": "The committee approves the limit of a product.",
        }
        with base.writer() as writer:
            for name, text in texts.items():
                writer.put("sop", name, "", "h", [Chunk(content=text, chunk_id=name)])
        assert base.search(query, source_id="sop", top_k=1)[0].chunk_id == wanted
