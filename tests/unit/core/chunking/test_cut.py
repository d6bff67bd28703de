"""A17: windows of fixed size. One token is one word here."""

from unicodedata import category

import pytest

from context_engine.core.chunking.cut import fixed_pieces, section_pieces


def count(text):
    return len(text.split())


def sentence(number, name):
    return " ".join([f"W{name}", *[name] * (number - 2), f"{name}."])


def test_windows_are_filled_with_whole_sentences():
    text = " ".join(sentence(10, name) for name in "abcdefg")
    pieces = fixed_pieces(text, 32, 0, count)
    assert [count(piece.content) for piece in pieces] == [30, 30, 10]
    assert [piece.position for piece in pieces] == [0, 1, 2]


def test_windows_overlap_by_whole_sentences():
    text = " ".join(sentence(10, name) for name in "abcdefg")
    pieces = fixed_pieces(text, 32, 10, count)
    # each window of three repeats one sentence: abc, cde, efg
    assert [piece.content[:2] for piece in pieces] == ["Wa", "Wc", "We"]
    assert [count(piece.content) for piece in pieces] == [30, 30, 30]


def test_an_overlap_below_the_shortest_sentence_repeats_nothing():
    text = " ".join(sentence(10, name) for name in "abcdefg")
    assert [count(piece.content) for piece in fixed_pieces(text, 32, 9, count)] == [30, 30, 10]


def test_a_window_goes_on_over_sections_and_has_the_path_that_holds_for_all_of_it():
    text = f"# Guide\n\n## 1 One\n\n{sentence(8, 'a')}\n\n## 2 Two\n\n{sentence(8, 'b')} {sentence(30, 'c')}"
    pieces = fixed_pieces(text, 32, 0, count)
    assert [(piece.section, piece.heading_path) for piece in pieces] == [
        (None, ("Guide",)),
        ("2", ("Guide", "2 Two")),
    ]


def test_a_text_that_fits_is_one_piece():
    (piece,) = fixed_pieces("  One two.\n\nThree. \n", 16, 4, count)
    assert (piece.content, piece.span) == ("One two.\n\nThree.", (2, 18))


def test_a_word_over_the_limit_is_cut_because_nothing_else_helps():
    pieces = fixed_pieces("x" * 50, 16, 4, len)
    assert [len(piece.content) for piece in pieces] == [16, 16, 16, 2]


def test_white_space_gives_nothing():
    assert fixed_pieces("", 16, 4, count) == fixed_pieces(" \n ", 16, 4, count) == []


def test_thai_is_cut_where_a_syllable_begins_and_no_mark_leaves_its_letter():
    text = "ธนาคารต้องรายงานธุรกรรมที่เกินกำหนดแก่หน่วยงานกำกับดูแลเสมอ"
    pieces = [piece.content for piece in fixed_pieces(text, 24, 0, len)]
    assert "".join(pieces) == text
    assert all(category(piece[0])[0] != "M" for piece in pieces)


def test_korean_is_cut_between_words():
    text = "이사회는 위험 한도를 매년 승인하고 감독 기관에 보고하여야 한다"
    pieces = [piece.content for piece in fixed_pieces(text, 16, 0, len)]
    assert [word for piece in pieces for word in piece.split()] == text.split()


def test_a_mark_stays_on_its_letter_inside_a_word_over_the_limit():
    word = "e\u0301" * 40
    assert all(piece.content[0] == "e" for piece in fixed_pieces(word, 17, 0, len))


def words(number, name="w"):
    """A sentence of `number` words."""
    return " ".join([f"W{name}", *[name] * (number - 2), f"{name}."])


def cut(text, size=64, overlap=0):
    return [
        (count(piece.content), piece.section, piece.heading_path)
        for piece in section_pieces(text, size, overlap, count)
    ]


def test_a_section_that_fits_is_one_piece_with_its_heading():
    text = f"# Rules\n\n{words(10)}\n\n## 4 Class\n\n{words(20)}\n\n{words(20)}\n"
    assert cut(text) == [(12, None, ("Rules",)), (43, "4", ("Rules", "4 Class"))]


def test_no_piece_crosses_a_section_though_both_would_fit():
    text = f"## 4 Class\n\n{words(10)}\n\n## 5 Route\n\n{words(10)}"
    assert [section for _, section, _ in cut(text)] == ["4", "5"]


def test_a_heading_without_text_opens_its_first_subsection():
    text = f"## 5 Route\n\n### 5.1 Sign-off\n\n{words(10)}\n\n### 5.2 Decision\n\n{words(10)}"
    pieces = section_pieces(text, 64, 0, count)
    assert [piece.section for piece in pieces] == ["5.1", "5.2"]
    assert pieces[0].content.startswith("## 5 Route\n\n### 5.1 Sign-off")
    assert pieces[0].heading_path == ("5 Route", "5.1 Sign-off")


def test_tiny_siblings_are_joined_under_the_number_of_the_first_and_the_path_of_the_parent():
    # tiny is at most 128 / 32 = 4 tokens, joined up to 128 / 8 = 16
    text = "# Terms\n\nThese terms are used in every other policy.\n\n## 1 A\n\none\n\n## 2 B\n\ntwo\n\n## 3 C\n\nthree"
    assert cut(text, 128) == [(10, None, ("Terms",)), (12, "1", ("Terms",))]
    assert [section for _, section, _ in cut(text, 127)] == [None, "1", "2", "3"]


def test_a_title_page_stays_in_the_first_piece():
    cover = "# Travel policy\n\nFinal\n\nOctober 2026\n\n"
    first = "# Preface\n\nThis policy says who may travel, and who pays for it."
    rest = "\n\n# 1 Scope\n\nIt is for all who work at the bank, wherever they do."
    pieces = section_pieces(cover + first + rest, 128, 0, count)
    assert [(piece.content, piece.heading_path) for piece in pieces] == [
        (cover + first, ("Preface",)),
        (rest.strip(), ("1 Scope",)),
    ]


def test_a_numbered_heading_begins_no_title_page():
    text = f"## 2 Access\n\n### Keys\n\nTwo people\n\n# 3 Vault\n\n{words(10)}"
    assert cut(text, 128) == [(7, None, ("2 Access", "Keys")), (13, "3", ("3 Vault",))]


@pytest.mark.parametrize(
    "lead",
    [
        "This policy says who may travel, and who pays for it.",
        "| Desk | Limit |\n| --- | --- |\n| Rates | 10 |",
        "- all desks\n- all branches",
        f"{words(20)}",
    ],
    ids=["a sentence", "a table", "a list", "many words"],
)
def test_an_opening_that_says_something_is_a_piece_of_its_own(lead):
    text = f"# Travel policy\n\n{lead}\n\n# 1 Scope\n\nIt is for all who work at the bank, wherever they do."
    assert [piece.heading_path for piece in section_pieces(text, 128, 0, count)] == [("Travel policy",), ("1 Scope",)]


def test_joining_tiny_siblings_stops_at_an_eighth_of_a_piece():
    text = "".join(f"## {number} A\n\nx\n\n" for number in range(1, 7))  # 4 tokens each
    assert [(tokens, section) for tokens, section, _ in cut(text, 128)] == [(16, "1"), (8, "5")]


def test_headings_joined_with_nothing_below_any_of_them_are_only_headings():
    def only(text):
        return [(piece.section, piece.heading_only) for piece in section_pieces(text, 256, 0, count)]

    bare = "# T\n\nThese terms are used in every other policy.\n\n## 3 E\n\n### 3.1 A\n\n### 3.2 B\n\n### 3.3 C\n\n"
    assert only(bare) == [(None, False), ("3.1", True)]
    assert only(bare + "one") == [(None, False), ("3.1", False)]
    assert only(bare.replace("A\n", "A\n\none\n")) == [(None, False), ("3.1", False)]


def test_a_tiny_section_beside_a_large_one_stays_alone():
    text = f"## 1 A\n\none\n\n## 2 B\n\n{words(30)}\n\n## 3 C\n\nthree"
    assert [section for _, section, _ in cut(text, 128)] == ["1", "2", "3"]


def test_tiny_sections_below_different_headings_are_not_joined():
    text = f"## 1 A\n\n{words(9)}\n\n### 1.1 X\n\none\n\n## 2 B\n\n{words(9)}\n\n### 2.1 Y\n\ntwo"
    assert [section for _, section, _ in cut(text, 128)] == ["1", "1.1", "2", "2.1"]


def test_a_long_section_is_cut_between_paragraphs():
    text = f"## 4 Class\n\n{words(30)}\n\n{words(30)}\n\n{words(30)}"
    # 3 + 30 + 30 = 63 fit into 64; the third paragraph stands alone
    assert [tokens for tokens, _, _ in cut(text)] == [63, 30]


def test_a_long_paragraph_is_cut_between_sentences():
    text = f"## 4 Class\n\n{words(20)} {words(20)} {words(20)} {words(20)}"
    # 3 + 20 * 3 = 63, then 20
    assert [tokens for tokens, _, _ in cut(text)] == [63, 20]


def test_a_long_sentence_is_cut_between_words_never_inside_one():
    text = "## 4 Class\n\n" + " ".join(f"word{number}" for number in range(150))
    pieces = section_pieces(text, 64, 0, count)
    assert [word for piece in pieces for word in piece.content.split()] == text.split()
    assert max(count(piece.content) for piece in pieces) <= 64


def test_overlap_is_whole_sentences_up_to_the_limit():
    text = "\n\n".join(["## 4 Class", words(30, "a"), words(8, "b"), words(8, "c"), words(30, "d")])
    first, second = section_pieces(text, 64, 16, count)
    assert (count(first.content), count(second.content)) == (49, 46)  # 3 + 30 + 8 + 8, then 8 + 8 + 30
    assert second.content.startswith("Wb b")
    assert second.span[0] < first.span[1]


def test_a_sentence_longer_than_the_overlap_is_not_repeated():
    text = "\n\n".join(["## 4 Class", words(30, "a"), words(17, "b"), words(30, "c")])
    first, second = section_pieces(text, 64, 16, count)
    assert second.span[0] > first.span[1]


def test_no_overlap_between_two_sections():
    text = f"## 4 Class\n\n{words(5)}\n\n## 5 Route\n\n{words(5)}"
    first, second = section_pieces(text, 64, 16, count)
    assert second.content.startswith("## 5 Route")
    assert first.span[1] < second.span[0]


def test_a_table_that_fits_is_kept_whole_and_the_overlap_makes_room():
    rows = "\n".join(f"| r{number} | v{number} |" for number in range(11))  # 5 tokens a row
    table = f"| a | b |\n|---|---|\n{rows}"  # 5 + 1 + 55 = 61 tokens
    text = f"## 4 Class\n\n{words(10, 'a')} {words(8, 'b')}\n\n{table}\n\n{words(9, 'c')}"
    pieces = section_pieces(text, 64, 16, count)
    assert [count(piece.content) for piece in pieces] == [21, 61, 9]
    assert pieces[1].content == table


def test_a_table_that_does_not_fit_is_cut_between_rows():
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| r{number} | v{number} |" for number in range(30))
    pieces = section_pieces(f"## 4 Class\n\n{table}", 64, 0, count)
    assert all(line.endswith("|") for piece in pieces[1:] for line in piece.content.split("\n"))
    assert len(pieces) == 3  # 3 + 6 + 150 = 159 tokens


def test_a_list_that_fits_stays_whole_with_the_sentence_that_introduces_it():
    items = "\n".join(f"({letter}) one two three four five six" for letter in "abcd")  # 7 tokens an item
    text = f"## 4 Class\n\n{words(40)}\n\nThe tests are:\n\n{items}"
    pieces = section_pieces(text, 64, 0, count)
    assert [count(piece.content) for piece in pieces] == [43, 31]
    assert pieces[1].content.startswith("The tests are:\n\n(a)")


def test_chinese_is_cut_at_its_full_stops():
    sentence = "交易员发现超限时须在三十分钟内通知分行市场风险控制部。"
    pieces = section_pieces("第一条 报告\n\n" + sentence * 6, 70, 0, len)
    assert len(sentence) == 27
    assert all(piece.content.endswith("。") for piece in pieces)
    assert [piece.section for piece in pieces] == ["第一条"] * 3


def test_a_near_empty_page_is_one_piece_and_white_space_is_none():
    assert cut("This page is intentionally left blank.") == [(6, None, ())]
    assert cut(" \n\t\n") == []


def test_content_is_the_text_of_the_span():
    text = f"intro\n\n# Rules\n\n{words(90)}\n\n## 4 Class\n\n{words(90)}"
    for piece in section_pieces(text, 64, 16, count):
        assert piece.content == text[slice(*piece.span)]


@pytest.mark.parametrize("text", ["1." * 5000, "# " + "word " * 2000, "word " * 2000 + "\n====\n"])
def test_a_very_long_line_is_no_heading_so_its_pieces_do_not_each_carry_all_of_it(text):
    pieces = section_pieces(text, 64, 0, lambda part: len(part) // 4 + 1)
    assert len(pieces) > 30
    assert {piece.heading_path for piece in pieces} == {()}
    assert sum(len(piece.content) for piece in pieces) >= 0.9 * len(text.strip())
