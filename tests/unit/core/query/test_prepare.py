""""""

from __future__ import annotations

import pytest

from context_engine.core.models import Expansion, Notice, NoticeCode, PreparedQuery, Refinement
from context_engine.core.query import clean, prepare, sub_questions, variants
from context_engine.core.query.prepare import MOST_EXPANSIONS, refined, unchanging, unrefined
from context_engine.errors import RefinerError


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("  two \t words\r\n", "two words"),
        ("no\u00a0break\u2003space", "no break space"),
        ("zero\u200bwidth \ufeffmark so\u00adft", "zerowidth mark soft"),
        ("bell\x07 and \x1bescape", "bell and escape"),
        ("“material change”", '"material change"'),
        ("「重大な変更」とは", '"重大な変更"とは'),
        ("bank’s own", "bank's own"),
        ("NPA\u2011001 and NPA\u2010002", "NPA-001 and NPA-002"),
        ("NPA\u2013001", "NPA-001"),
        ("2019\u20132020 and cost \u2013 benefit", "2019\u20132020 and cost \u2013 benefit"),
        ("ＮＰＡ－００１　４．２．１（ｂ）", "NPA-001 4.2.1(b)"),
        ("Cafe\u0301", "Café"),
        ("10 m² ① ½", "10 m² ① ½"),
        ("4.2.1(b) MAS Notice 637 NPA-001", "4.2.1(b) MAS Notice 637 NPA-001"),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_one_spelling(given: str, text: str) -> None:
    assert clean(given).text == text


def test_a_query_of_nothing_visible_stays() -> None:
    assert clean("\u200b\u200b").text == "\u200b\u200b"


@pytest.mark.parametrize(
    ("given", "most", "text"),
    [
        ("one two three", 13, "one two three"),
        ("one two three", 12, "one two"),
        ("one two three", 7, "one two"),
        ("one two three", 6, "one"),
        ("abcdefgh", 5, "abcde"),
    ],
)
def test_a_long_query_is_cut_between_words(given: str, most: int, text: str) -> None:
    assert clean(given, most) == (text, text != given)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "Who approves a new product and when must Compliance be told?",
            ("Who approves a new product", "when must Compliance be told"),
        ),
        (
            "What records are kept? How long are records retained?",
            ("What records are kept", "How long are records retained"),
        ),
        (
            "Which approvals are needed for: (a) a new product, (b) a variation, and (c) a withdrawal?",
            (
                "Which approvals are needed for a new product",
                "Which approvals are needed for a variation",
                "Which approvals are needed for a withdrawal",
            ),
        ),
        (
            "What is the difference between a pilot launch and a material variation?",
            ("a pilot launch", "a material variation"),
        ),
        ("审批标准是什么？谁负责批准产品？", ("审批标准是什么", "谁负责批准产品")),
        (
            'what is a "change and how it is made" and when does it apply to products?',
            ('what is a "change and how it is made"', "when does it apply to products"),
        ),
        (
            'Which "change and what" rules apply to: (a) a "new one" of a desk, (b) an old desk?',
            (
                'Which "change and what" rules apply to a "new one" of a desk',
                'Which "change and what" rules apply to an old desk',
            ),
        ),
        ("What is a new product?", ()),
        ("limits and controls of the desk", ()),
        ("limits under 4.2.1. See NPA-001", ()),
        ("Who signs? Why?", ()),
        ("difference between A and B", ()),
    ],
)
def test_parts_of_a_question(text: str, parts: tuple[str, ...]) -> None:
    assert sub_questions(text) == parts


def test_at_most_six_parts() -> None:
    text = " ".join(f"What is rule number{place} about banks?" for place in range(9))
    assert len(sub_questions(text)) == 6


ENTRIES = {"NPA": ["New Product Approval", "Non-Performing Asset"], "KYC": ["Know Your Customer"]}


def test_everything_about_a_query() -> None:
    asked = "  What does “material change” mean for NPA under section 4.2.1(b) of NPA\u2011001? Who signs the change? "
    assert prepare(asked, entries=ENTRIES, expansion_weight=0.2, multi_query=True) == PreparedQuery(
        original=asked,
        text='What does "material change" mean for NPA under section 4.2.1(b) of NPA-001? Who signs the change?',
        language="en",
        codes=("NPA-001",),
        references=("4.2.1(b)",),
        phrases=("material change",),
        expansions=(
            Expansion("NPA", "New Product Approval", 0.2, "glossary"),
            Expansion("NPA", "Non-Performing Asset", 0.2, "glossary"),
        ),
        sub_queries=(
            'What does "material change" mean for NPA under section 4.2.1(b) of NPA-001',
            "Who signs the change",
        ),
    )


def test_without_a_glossary_and_parts_a_query_is_only_cleaned() -> None:
    assert prepare("NPA criteria") == PreparedQuery(original="NPA criteria", text="NPA criteria", language="en")


def test_a_name_the_query_has_already_is_no_expansion() -> None:
    expansions = prepare("New Product Approval (NPA)", entries={"NPA": ["New Product Approval"]}).expansions
    assert expansions == ()


def test_no_weight_is_no_expansion() -> None:
    assert prepare("NPA criteria", entries=ENTRIES, expansion_weight=0.0).expansions == ()


def test_a_likely_spelling_is_offered_and_counts_half() -> None:
    prepared = prepare("new prodcut approval", entries=ENTRIES, expansion_weight=0.2)
    assert prepared.text == "new prodcut approval"
    assert prepared.suggestions == (("new prodcut approval", "New Product Approval"),)
    assert prepared.expansions == (
        Expansion("new prodcut approval", "New Product Approval", 0.5 * 0.2, "spelling"),
        Expansion("new prodcut approval", "NPA", 0.5 * 0.2, "spelling"),
    )


def test_expansions_are_bounded() -> None:
    many = {"NPA": [f"name {place}" for place in range(40)]}
    assert len(prepare("NPA", entries=many).expansions) == MOST_EXPANSIONS == 16


def test_a_cut_query_says_so() -> None:
    prepared = prepare("one two three", most_chars=8)
    (notice,) = prepared.notices
    assert (prepared.text, notice.code, notice.detail) == ("one two", NoticeCode.QUERY_SHORTENED, {"characters": 7})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("criteria", ()),
        ("NPA criteria", ("New Product Approval criteria", "Non-Performing Asset criteria")),
        (
            "NPA and know-your-customer, NPA-001",
            ("New Product Approval and KYC, NPA-001", "Non-Performing Asset and KYC, NPA-001"),
        ),
    ],
)
def test_wordings(query: str, expected: tuple[str, ...]) -> None:
    assert variants(prepare(query, entries=ENTRIES)) == expected


class TestRefinement:
    QUERY = prepare('sign-off of NPA-001 under 4.2.1(b), "material change"', entries={"NPA": ["x y"]})

    def test_a_wording_is_searched_beside_and_concepts_count_less(self) -> None:
        given = Refinement('Who approves a "material change" of NPA-001 under 4.2.1(b)?', ("approval authority", " "))
        prepared = refined(self.QUERY, given, refiner="m", weight=0.2)
        assert prepared.text == self.QUERY.text
        assert prepared.sub_queries == (given.text,)
        assert prepared.concepts == ("approval authority",)
        assert prepared.expansions[-1] == Expansion("", "approval authority", 0.2 * 0.2, "refiner")
        assert (prepared.refiner, prepared.notices) == ("m", ())

    @pytest.mark.parametrize(
        ("text", "lost"),
        [
            ('"material change" under 4.2.1(b)', "NPA-001"),
            ('NPA-001 "material change" under 4.2.1', "4.2.1(b)"),
            ("NPA-001 under 4.2.1(b), change that is material", "material change"),
            ('NPA-0011 "material change" under 4.2.1(b)', "NPA-001"),
        ],
    )
    def test_a_wording_that_lost_something_is_not_used(self, text: str, lost: str) -> None:
        prepared = refined(self.QUERY, Refinement(text), refiner="m", weight=0.2)
        assert prepared.sub_queries == ()
        (notice,) = prepared.notices
        assert notice.code is NoticeCode.REFINEMENT_UNUSED
        assert notice.detail == {"refiner": "m", "lost": [lost]}

    @pytest.mark.parametrize("given", [None, "text", ("a", ("b",)), Refinement(None), Refinement("a", (1,))])  # type: ignore[arg-type]
    def test_what_is_no_refinement(self, given: object) -> None:
        with pytest.raises(RefinerError, match="m gave no wording that can be used"):
            refined(self.QUERY, given, refiner="m", weight=0.2)

    def test_the_same_words_again_add_nothing(self) -> None:
        assert refined(self.QUERY, Refinement(self.QUERY.text.upper()), refiner="m", weight=0.2).sub_queries == ()

    def test_a_failure_is_a_notice(self) -> None:
        prepared = unrefined(self.QUERY, "m gave nothing within 3 s", refiner="m")
        detail = {"refiner": "m", "problem": "m gave nothing within 3 s"}
        assert prepared.notices == (
            Notice(NoticeCode.QUERY_NOT_REFINED, "", "query not refined: m gave nothing within 3 s", detail),
        )
        assert prepared.text == self.QUERY.text


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Wer genehmigt NPA-001 nach MiFID?", ("NPA-001", "MiFID")),
        ("Welche Regel gilt nach Abschnitt 4.2.1(b)?", ("4.2.1(b)",)),
        ("NPA 的审批标准", ("NPA",)),
        ("Harbour Note 的面值是多少", ("Harbour", "Note")),
        ("WER GENEHMIGT DAS PRODUKT?", ()),
        ("Wer genehmigt das Produkt?", ()),
    ],
)
def test_names_that_no_translation_changes(question: str, names: tuple[str, ...]) -> None:
    assert unchanging(prepare(question)) == names


@pytest.mark.parametrize(
    ("question", "translation", "kept"),
    [
        ("Gilt die Grenze von 1.000.000 Euro?", "Does the limit of 1,000,000 euros apply?", True),
        ("Gilt die Grenze von 5,5 %?", "Does the limit of 5.5% apply?", True),
        ("Sind es 5, 10 oder 15 Tage?", "Is it 5, 10 or 15 days?", True),
        ("Gilt die Grenze von 5,5 %?", "Does the limit of 5% apply?", False),
        ("Wer zeichnet?", "Who signs?", True),
        ("Wer zeichnet?", "  ", False),
        ("Wer zeichnet?", "wer zeichnet?", False),
    ],
)
def test_numbers_survive_a_translation_in_any_grouping(question: str, translation: str, kept: bool) -> None:
    answer = Refinement("", (), (translation,))
    assert refined(prepare(question), answer, refiner="m", weight=1.0).translations == ((translation,) if kept else ())
