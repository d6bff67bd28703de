"""A17: windows of fixed size. One token is one word here."""

from unicodedata import category

from context_engine.core.chunking import fixed_pieces


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
