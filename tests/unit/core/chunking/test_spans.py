"""Where a text may be cut."""

import pytest

from context_engine.core.chunking.spans import atoms, sentences


def cut(text):
    return [text[start:end] for start, end in sentences(text, 0, len(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("See No. 5 and Art. 7 below. It binds.", ["See No. 5 and Art. 7 below.", "It binds."]),
        ("The limit is 5.5 % of capital. It is hard.", ["The limit is 5.5 % of capital.", "It is hard."]),
        ("Mr. A. Smith signs. He may delegate.", ["Mr. A. Smith signs.", "He may delegate."]),
        ("e.g. Notes count. Swaps do not.", ["e.g. Notes count.", "Swaps do not."]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        ("1. First rule. 2. Second rule.", ["1. First rule.", "2. Second rule."]),
        ("wrapped over\ntwo lines. And on.", ["wrapped over\ntwo lines.", "And on."]),
        ("Clause 4.2.1. The limit.", ["Clause 4.2.1.", "The limit."]),
        ("no stop at all", ["no stop at all"]),
        ("  \n ", []),
        ("限额为五百万元。超限须报告！为何？", ["限额为五百万元。", "超限须报告！", "为何？"]),
        ("他说：“停止。”然后离开。", ["他说：“停止。”", "然后离开。"]),
        ("限度を守る。報告する。", ["限度を守る。", "報告する。"]),
        ("한도를 지킨다. 보고한다.", ["한도를 지킨다.", "보고한다."]),
        ("Лимит жёсткий. Он действует с 5. мая.", ["Лимит жёсткий.", "Он действует с 5. мая."]),
        ("बैंक सूचना दे। यह नियम है।", ["बैंक सूचना दे।", "यह नियम है।"]),
        ("ما الحد؟ الحد ثابت.", ["ما الحد؟", "الحد ثابت."]),
        ("One... Two?! Three", ["One...", "Two?!", "Three"]),
    ],
)
def test_sentences(text, expected):
    assert cut(text) == expected


def parts(text):
    return [(text[atom.start : atom.end], atom.block, atom.whole) for atom in atoms(text, 0, len(text))]


def test_paragraphs_are_blocks_of_sentences():
    text = "One is here. Two is here.\n\nThree stands in a paragraph of its own."
    assert parts(text) == [
        ("One is here.", 0, False),
        ("Two is here.", 0, False),
        ("Three stands in a paragraph of its own.", 1, False),
    ]


def test_a_table_is_one_block_of_rows_and_its_head_stays_with_the_first_row():
    text = "Text before it.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nText after it."
    assert parts(text) == [
        ("Text before it.", 0, False),
        ("| a | b |\n|---|---|\n| 1 | 2 |", 1, True),
        ("| 3 | 4 |", 1, True),
        ("Text after it.", 2, False),
    ]


def test_a_list_is_one_block_of_items_with_their_further_lines():
    text = "(a) first item\nof two lines;\n\n(b) second. It has two sentences.\n\nText after it."
    assert parts(text) == [
        ("(a) first item\nof two lines;", 0, True),
        ("(b) second. It has two sentences.", 0, True),
        ("Text after it.", 1, False),
    ]


def test_a_heading_and_a_colon_stay_with_what_they_introduce():
    text = "## 4 Tests\n\nThe tests are:\n\n- one\n- two"
    assert parts(text) == [("## 4 Tests\n\nThe tests are:\n\n- one", 0, True), ("- two", 0, True)]


def test_code_is_one_block_and_nothing_in_it_is_a_list():
    text = "```\n- not an item\n\n| not a row |\n```\nText after it."
    assert [(block, whole) for _, block, whole in parts(text)] == [(0, True)] * 4 + [(1, False)]


def test_no_sentence_ends_inside_the_words_of_a_link():
    text = "As you know. [**A disaster… Now what?**](https://a.example/b) tells it. See [it](c.md). It ends."
    parts = [text[first:last] for first, last in sentences(text, 0, len(text))]
    assert parts == [
        "As you know.",
        "[**A disaster… Now what?**](https://a.example/b) tells it.",
        "See [it](c.md).",
        "It ends.",
    ]
