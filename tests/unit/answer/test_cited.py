"""An answer cut into sentences with their labels and quotes, whole and while it arrives."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from context_engine.answer.cited import CitedSentence, SentenceReader

ANSWER = """# Time limits
A Severe Event is reported within 24 hours [1]. It is reviewed every year.[2][3] See No. 5 of Rule 3.2 [1, 3].

The Event Owner must:
- open an investigation within 2 Business Days [1: "within 2 Business Days of Discovery"]
- record it
1. Tell the Board. [4-6]
[2] The limit is 5 %.
| Rating | FCAA |
|---|---|
| Severe | 24 hours [1] |
In short, e.g. for a Severe Event, act at once
[7]
"""


def split_answer(text: str) -> list[CitedSentence]:
    """The sentences of a whole answer."""
    reader = SentenceReader()
    return [*reader.feed(text), *reader.close()]


def labels(answer: str) -> list[tuple[str, ...]]:
    return [sentence.labels for sentence in split_answer(answer)]


def test_labels_before_or_after_the_full_stop_belong_to_the_sentence() -> None:
    assert labels("Limits bind [1]. They are reviewed. [2][3] They end.[4] None.") == [
        ("[1]",),
        ("[2]", "[3]"),
        ("[4]",),
        (),
    ]


def test_a_label_at_the_beginning_of_a_line_belongs_to_what_follows() -> None:
    assert split_answer("[2] The limit is 5 %.") == [CitedSentence("The limit is 5 %.", ("[2]",), ())]


def test_labels_in_a_line_of_their_own_belong_to_the_line_before() -> None:
    assert labels("The limit is 5 %\n[2]\nIt binds.") == [("[2]",), ()]


def test_several_labels_in_one_bracket_and_ranges() -> None:
    assert labels("A limit [1, 3]. A rule [2-4]. A desk [1][1].") == [("[1]", "[3]"), ("[2]", "[3]", "[4]"), ("[1]",)]


def test_a_sentence_without_label_is_still_a_sentence() -> None:
    assert split_answer("# Summary\nHere is what applies.") == [
        CitedSentence("Summary", (), ()),
        CitedSentence("Here is what applies.", (), ()),
    ]


def test_quotes_stand_in_the_label() -> None:
    (sentence,) = split_answer('The limit is 5 % [1: "shall not exceed 5 %"; “of assets”].')
    assert sentence == CitedSentence("The limit is 5 %.", ("[1]",), ("shall not exceed 5 %", "of assets"))


def test_a_bracket_that_is_no_label_stays_in_the_sentence() -> None:
    assert split_answer("The owner [of the list] decides [1].")[0].text == "The owner [of the list] decides."


def test_an_item_of_a_list_has_its_lead_in_and_the_labels_of_the_lead_in() -> None:
    lead, first, second = split_answer("A bank must [1]:\n- keep records\n- tell the Board [2]")
    assert (lead.text, first.labels, second.labels) == ("A bank must:", ("[1]",), ("[2]",))
    assert first.claim == "A bank must keep records"


def test_a_lead_in_that_only_announces_the_answer_is_not_checked() -> None:
    reader = SentenceReader()
    *_, item = [*reader.feed("Based on the passages, here are the steps:\n- Open a file. [1]\n"), *reader.close()]
    assert item.claim == "Open a file."


def test_abbreviations_and_section_numbers_end_no_sentence() -> None:
    assert len(split_answer("See No. 5 and Rule 3.2 of Meridian Ltd. for more. It binds.")) == 2


def test_rules_of_tables_and_fences_are_no_sentences() -> None:
    assert [sentence.text for sentence in split_answer("```\n| a | b |\n|---|---|\n```")] == ["a | b"]


def test_a_sentence_is_released_when_nothing_more_can_belong_to_it() -> None:
    reader = SentenceReader()
    assert reader.feed("The limit is 5 %.") == []
    assert reader.feed(" [1") == []
    assert reader.feed("]") == []
    assert reader.feed(" It") == [CitedSentence("The limit is 5 %.", ("[1]",), ())]
    assert reader.close() == [CitedSentence("It", (), ())]
    assert reader.close() == []


@given(st.lists(st.integers(1, len(ANSWER)), max_size=40))
def test_any_cutting_gives_the_same_sentences(cuts: list[int]) -> None:
    edges = sorted({0, *cuts, len(ANSWER)})
    reader = SentenceReader()
    parts = [reader.feed(ANSWER[start:end]) for start, end in itertools.pairwise(edges)]
    assert [sentence for part in parts for sentence in part] + reader.close() == split_answer(ANSWER)


@given(st.text(alphabet='aB1.!? \n[]",:-#。', max_size=60), st.integers(1, 5))
def test_any_text_is_read_alike_in_parts(text: str, size: int) -> None:
    reader = SentenceReader()
    parts = [reader.feed(text[start : start + size]) for start in range(0, len(text), size)]
    assert [sentence for part in parts for sentence in part] + reader.close() == split_answer(text)
