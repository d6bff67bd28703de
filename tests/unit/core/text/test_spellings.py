"""Numbers, codes and words of scripts without spaces are found however they are written."""

import pytest

from context_engine.core.text import has_unspaced, term_weights, terms, tokens
from context_engine.core.text.spellings import other_spellings

FIVE_MILLION = (
    *("5,000,000", "5 000 000", "5\u00a0000\u00a0000", "5\u202f000\u202f000", "5.000.000", "5'000'000", "5’000’000"),
    *("50,00,000", "5,000,000.00", "5.000.000,00", "5 million", "5-million", "5 Mio.", "5m", "5mn", "5.0 million"),
    *("EUR 5,000,000", "EUR5m", "(5,000,000)", "0.005bn", "5000k"),
)


def spellings(text):
    return [spelling.term for spelling in other_spellings(text)]


@pytest.mark.parametrize("text", FIVE_MILLION)
def test_a_number_is_found_by_its_digits(text):
    assert "5000000" in terms(text)
    assert term_weights(text)["5000000"] == 1.0
    assert tokens(text) == tokens(text + " ")  # tokens, which dedup compares, have no other spelling


@pytest.mark.parametrize(
    "text",
    [
        *("5000000", "4.2.1", "1.500", "637 638", "12,5", "2026-01-31", "5 m", "1,23", "page 5"),
        *("12345678901234567,000", "5 kids", "12 miles", "3.5 times"),
    ],
)
def test_what_may_be_another_number_keeps_its_spelling(text):
    assert spellings(text) == []


def test_words_of_a_number_weigh_little_beside_it():
    assert term_weights("limit of 5 million EUR") == {
        "limit": 1.0,
        "5": 0.2,
        "million": 0.2,
        "eur": 1.0,
        "5000000": 1.0,
    }


def test_decimals_stay():
    assert spellings("1.25 million, 1,234.50 and 1.234,56") == ["1250000", "1234.5", "1234.56"]


@pytest.mark.parametrize("text", ["F-1208", "F1208", "F 1208", "f-1208", "f1208"])
def test_a_code_is_found_in_each_spelling(text):
    assert "f1208" in terms(f"Form {text} requests a waiver.")


@pytest.mark.parametrize("question", ["F-1208", "F1208", "F 1208"])
@pytest.mark.parametrize("text", ["F-1208", "F1208", "F 1208"])
def test_the_terms_of_a_code_that_weigh_most_are_in_each_text(question, text):
    weights = term_weights(question)
    assert {term for term, weight in weights.items() if weight == 1.0} <= set(terms(f"Form {text} is used."))


def test_words_beside_a_number_are_no_code_of_a_question():
    assert term_weights("CRD 36") == {"crd": 1.0, "36": 1.0}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("คณะกรรมการความเสี่ยงอนุมัติวงเงิน", "ความเสี่ยง"),
        ("คณะกรรมการความเสี่ยงอนุมัติวงเงิน", "คณะกรรมการ"),
        ("ຄະນະກຳມະການຄວາມສ່ຽງ", "ຄວາມສ່ຽງ"),
        ("គណៈកម្មាធិការហានិភ័យ", "ហានិភ័យ"),
        ("အန္တရာယ်စီမံခန့်ခွဲမှု", "စီမံ"),
        ("风险管理委员会", "管理"),
    ],
)
def test_a_word_inside_a_run_is_found(text, word):
    assert has_unspaced(text)
    assert set(terms(word)) <= set(terms(text))


@pytest.mark.parametrize("word", ["जोखिम", "ঝুঁকি", "അപകടസാധ്യത", "இடர்", "مُخاطَرة", "cafe\u0301"])
def test_a_word_with_combining_marks_is_one_word(word):
    assert len(tokens(word)) == 1
    assert terms(f"limit {word} desk")[1] == terms(word)[0]


def test_targets_of_links_are_no_terms():
    text = "See [the haircut ladder](https://intranet.example/haircuts/5,000,000) of 2026."
    assert terms(text) == ["see", "haircut", "ladder", "2026"]
    assert "intranet" in terms("at https://intranet.example")


@pytest.mark.parametrize(
    ("text", "found"),
    [("limits.³ The", "limit"), ("outlets³³", "outlet"), ("637¹", "637"), ("(2004).⁴⁷", "2004"), ("EU³⁸ law", "eu")],
)
def test_the_mark_of_a_footnote_is_no_part_of_a_word(text, found):
    assert found in terms(text)


def test_a_unit_keeps_its_power():
    assert terms("N/m² and CO₂") == ["n/m2", "n", "m2", "co2"]
