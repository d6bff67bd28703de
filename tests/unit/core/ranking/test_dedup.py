"""Near-duplicate detection: what merges, into which, and how it is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from context_engine.core.ranking import dedup
from context_engine.core.ranking.candidates import AnalysedText, body
from context_engine.core.ranking.dedup import Match, best_of_lower_copies, deduplicate
from context_engine.core.text import tokens
from context_engine.errors import InvalidRequest

RETENTION = (
    "All records created under this procedure, including proposals, assessments, sign-offs and minutes, shall be "
    "retained for seven years from the date on which the product is closed. Records shall be kept in the archive in a "
    "form that cannot be altered. No record shall be destroyed while it is subject to a legal hold."
)

HEADER = (
    "# Meridian Harbour Bank Standard Operating Procedure\n\nDocument No.: NPA-SOP-{0:03}\nVersion: {0}.2\n"
    "Effective date: 2025-01-{0:02}\nOwner: Head of Market Risk Control\nClassification: Internal\n\n"
)

PREAMBLE = (
    "This document is part of the Group Procedures Library of Meridian Harbour Bank. It binds all staff, branches and "
    "subsidiaries that carry on the activity it describes. Printed copies are uncontrolled.\n\n"
)


def deduplicated(texts: Sequence[str], **how: Any) -> list[Match | None]:
    """Dedup of plain texts."""
    return dedup.deduplicate([AnalysedText(text) for text in texts], **how)


def test_near_duplicates_join_the_first_kept_text_and_say_how() -> None:
    near = RETENTION.replace("kept in the archive", "held in the archive")
    other = "The committee meets on the first Monday of the month and reviews every open proposal of the desk."
    words, changed = set(tokens(RETENTION)), set(tokens(near))
    assert deduplicated([RETENTION, other, near, RETENTION.upper()]) == [
        None,
        None,
        Match(0, len(words & changed) / len(words | changed), "near_duplicate"),
        Match(0, 1.0, "equal_text"),
    ]


def test_no_chains() -> None:
    """Each step changes 4 of 40 words: J = 36/44 = .818 for neighbours; the third is too far from the first."""
    words = [f"word{'abcdefghijklmnopqrstuvwxyz'[i % 26]}{'xy'[i // 26]}" for i in range(40)]
    second = [*words[:36], "north", "south", "east", "west"]
    third = [*second[4:], "spring", "summer", "autumn", "winter"]
    texts = [" ".join(part) for part in (words, second, third)]
    assert deduplicated(texts, threshold=0.8) == [None, Match(0, 36 / 44, "near_duplicate"), None]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("7.3 Record retention\n\n{}", "9.1 Record retention\n\n{}"),
        ("### 7.3 Record retention\n\n{}", "### 9.1 Retention of records\n\n{}"),
        ("### 7.3 Record retention\n\n{}", "## 9 Records\n\n### 9.1 Record retention\n\n{}"),
        ("## 7 Record retention\n\n{}", "## 12 Record retention\n\n{}"),
        ("7.3 {}", "9.1(b) {}"),
        ("Clause 7.3: {}", "Section 9: {}"),
        ("(a) {}", "(c) {}"),
        ("Annex B\n{}", "{}"),
        ("7.3 Record retention\n\n{}", "Record retention\n\n{}"),
    ],
)
def test_the_same_rule_under_another_clause_number_merges(first: str, second: str) -> None:
    match = deduplicated([first.format(RETENTION), second.format(RETENTION)])[1]
    assert match is not None
    assert match.how == "near_duplicate"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Section 7 requires the following of the desk. {}", "Section 9 requires the following of the desk. {}"),
        ("7 business days are given to the desk. {}", "9 business days are given to the desk. {}"),
        ("7.3 Million is the ceiling of the desk. {}", "9.1 Million is the ceiling of the desk. {}"),
        ("7.5 USD is the fee. {}", "9.5 USD is the fee. {}"),
        ("Under clause 7.3 this applies. {}", "Under clause 9.1 this applies. {}"),
        ("{} See clause 7.3 Record retention.", "{} See clause 9.1 Record retention."),
    ],
)
def test_a_number_the_text_speaks_of_is_no_label(first: str, second: str) -> None:
    assert deduplicated([first.format(RETENTION), second.format(RETENTION)]) == [None, None]


def test_a_header_block_is_set_aside() -> None:
    texts = [RETENTION, HEADER.format(3) + RETENTION, HEADER.format(4) + "### 7.3\n" + RETENTION]
    assert deduplicated(texts) == [None, Match(0, 1.0, "near_duplicate"), Match(0, 1.0, "near_duplicate")]


def test_title_pages_of_two_documents_are_two() -> None:
    pages = [HEADER.format(number) + PREAMBLE for number in (3, 4)]
    assert deduplicated(pages) == [None, None]
    assert deduplicated([PREAMBLE, *pages])[1:] == [Match(0, 1.0, "near_duplicate")] * 2


def test_fields_of_a_record_are_no_header() -> None:
    record = (
        "Product: target redemption forward\nStatus: {}\nDesk: Treasury\nRegion: Aldermere\nReview: once it is live"
    )
    assert deduplicated([record.format("approved"), record.format("rejected")]) == [None, None]
    assert body(record) == record


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (HEADER.format(1) + "Rule one applies.", "\nRule one applies."),
        ("Version: 2\nLimit: USD 5 m\nOwner: Treasury\nRule one applies.", "Limit: USD 5 m\nRule one applies."),
        ("文件编号：DESK-SOP-006\n版本：1.1\n生效日期：2025-01-01\n\n交易员须列入名单。", "\n交易员须列入名单。"),
        ("第七条 交易员须列入名单。", "交易员须列入名单。"),
        ("Page 3 of 12\nRule one applies.", "Rule one applies."),
        ("Owner: Treasury\nRule one applies.", "Owner: Treasury\nRule one applies."),
        (
            "Version: 2 applies until it is met.\nRule one.",
            "Version: 2 applies until it is met.\nRule one.",
        ),
        ("7.3", "7.3"),
        ("Version: 2\n", "Version: 2\n"),
    ],
)
def test_the_body_of_a_text(text: str, left: str) -> None:
    assert body(text) == left


def test_sections_under_one_shared_header_do_not_merge() -> None:
    """A hash of the first 200 characters would merge all of these."""
    sections = [
        "## 1 Purpose\n\nThis procedure sets out how the bank keeps critical services running when systems fail.",
        "## 2 Recovery\n\nLarge-value payments are restored at the alternate site before any other service resumes.",
        "## 3 Command\n\nAny member of the roster declares an incident, and a commander is named by the duty officer.",
        "## 4 Communication\n\nGroup Communications alone speaks to the public while the event lasts.",
        "## 5 Limits\n\nThe exposure of the desk to a single issuer shall not exceed 5 % of the gross notional.",
        "## 5 Limits\n\nThe exposure of the desk to a single issuer shall not exceed 7 % of the gross notional.",
    ]
    texts = [HEADER.format(5) + PREAMBLE + section for section in sections]
    assert len({text[:200] for text in texts}) == 1
    assert deduplicated(texts) == [None] * 6


def test_few_words_merge_only_as_equal_text() -> None:
    assert deduplicated(["See the annex", "see  the ANNEX", "See the annex."]) == [
        None,
        Match(0, 1.0, "equal_text"),
        None,
    ]


@pytest.mark.parametrize("method", ["near", "exact"])
def test_empty_text_joins_nothing(method: str) -> None:
    assert deduplicated(["", "", " \n\t", "\u3000", ""], method=method) == [None] * 5  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["near", "exact"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (RETENTION, RETENTION),
        (RETENTION, RETENTION.upper()),
        (RETENTION, "  " + RETENTION.replace(" ", "\u00a0 \n")),
        ("ﬁnance " + RETENTION, "FINANCE " + RETENTION),
        (HEADER.format(1) + RETENTION, " ".join((HEADER.format(1) + RETENTION).split())),
        ("限额为５％。", "限额为5%。"),
    ],
)
def test_equal_normalised_text_merges(method: str, first: str, second: str) -> None:
    assert deduplicated([first, second], method=method) == [None, Match(0, 1.0, "equal_text")]  # type: ignore[arg-type]


def test_exact_compares_the_whole_text() -> None:
    middle = RETENTION.replace("seven", "six")
    assert deduplicated([RETENTION, middle, RETENTION.title(), middle.lower()], method="exact") == [
        None,
        None,
        Match(0, 1.0, "equal_text"),
        Match(1, 1.0, "equal_text"),
    ]


def test_off_keeps_everything() -> None:
    assert deduplicated([RETENTION, RETENTION], method="off") == [None, None]


def test_chinese_rules_with_a_few_characters_changed_merge() -> None:
    first = (
        "交易员发现超限时，须在三十分钟内通知分行市场风险控制部。"
        "主动超限一律禁止，并按总行规定报告。名单由负责部门复核。"
    )
    assert deduplicated([first, first.replace("通知", "告知")])[1] is not None


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.01, float("nan")])
def test_a_threshold_out_of_range_is_refused(threshold: float) -> None:
    with pytest.raises(InvalidRequest, match="threshold"):
        deduplicated([], threshold=threshold)


def test_an_unknown_method_names_the_nearest() -> None:
    with pytest.raises(InvalidRequest, match="Did you mean 'exact'"):
        deduplicated([], method="exakt")  # type: ignore[arg-type]


def test_a_pool_made_to_occupy_the_guard_is_given_up_and_equal_text_still_merges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six texts of the same ten numbers in another order each are 15 pairs of 2 * 29 + 150 characters."""
    numbers = [str(number) for number in range(10, 20)]
    texts = [" ".join(numbers[turn:] + numbers[:turn]) for turn in range(6)]
    read: list[str] = []
    monkeypatch.setattr(dedup, "allows", lambda first, second: bool(read.append(second)))
    monkeypatch.setattr(dedup, "MOST_GUARDED", 15 * 208)
    assert deduplicated(texts) == [None] * 6
    assert len(read) == 15
    monkeypatch.setattr(dedup, "MOST_GUARDED", 4 * 208)
    assert deduplicated([*texts, texts[5]]) == [None] * 6 + [Match(5, 1.0, "equal_text")]
    assert len(read) == 15 + 4


def test_texts_of_other_numbers_are_told_apart_without_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup, "allows", None)
    texts = ["the limit is 5 % and 7 % and again 5 % of capital", "the limit is 5 % and 7 % and again 7 % of capital"]
    assert deduplicated(texts) == [None, None]


def best(texts, values):
    return best_of_lower_copies(deduplicate([AnalysedText(text) for text in texts], method="exact"), values)


def test_a_copy_has_at_least_the_value_of_those_after_it():
    texts = ["The limit.", "A cake.", "the  limit.", "The limit."]
    assert best(texts, [0.5, 0.9, 0.2, 0.4]) == [0.5, 0.9, 0.4, 0.4]
    assert best(texts, [0.1, 0.2, 0.3, 0.2]) == [0.3, 0.2, 0.3, 0.2]


def test_a_copy_takes_nothing_from_those_before_it():
    assert best(["The limit.", "The limit."], [0.6, 0.5]) == [0.6, 0.5]


def test_other_texts_and_none_are_left_alone():
    assert best([], []) == []
    assert best(["", "", "A cake."], [0.1, 0.2, 0.3]) == [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("The committee reviews each file", None),
        ("The risk committee reviews each file", Match(0, 1.0, "near_duplicate")),
    ],
    ids=["five words", "six words"],
)
def test_a_text_of_fewer_than_six_words_joins_equal_text_alone(text: str, joined: Match | None) -> None:
    assert deduplicated([text, f"{text}."]) == [None, joined]
    assert deduplicated([text, text]) == [None, Match(0, 1.0, "equal_text")]


@pytest.mark.parametrize(
    ("line", "last", "first_not"),
    [
        ("---\n", 23, 24),  # 24 lines are read: the version stands in the 24th or the 25th
        ("Title\n", 3, 4),  # more lines above are text
    ],
)
def test_the_header_is_looked_for_in_the_first_lines_alone(line: str, last: int, first_not: int) -> None:
    assert body(line * last + "Version: 2\nRule one.") == "Rule one."
    assert body(line * first_not + "Version: 2\nRule one.") == line * first_not + "Version: 2\nRule one."


@pytest.mark.parametrize(
    ("part", "above", "last", "first_not"),
    [
        ("x", "Version: {}", 151, 152),  # len("Version: ") == 9: a line of 160 characters, of 161
        ("x ", "Version: {}", 15, 16),  # "Version:" and 15 words are 16
        ("Title ", "{}\nVersion: 2", 12, 13),  # a title has at most 12 words
    ],
)
def test_a_longer_line_is_a_sentence_and_no_header(part: str, above: str, last: int, first_not: int) -> None:
    assert body(above.format(part * last) + "\nRule one.") == "Rule one."
    sentence = above.format(part * first_not) + "\nRule one."
    assert body(sentence) == sentence


def test_blanks_around_a_header_line_change_nothing() -> None:
    """A full stop ends a sentence, also with a blank after it."""
    assert body("  Version: 2  \nRule one.") == "Rule one."
    assert body("Version: 2 applies. \nRule one.") == "Version: 2 applies. \nRule one."


def test_the_labels_of_six_headings_are_set_aside() -> None:
    text = "".join(f"# {number} Part\n" for number in range(1, 8))
    assert body(text + "Rule one.") == "Part\n" * 6 + "# 7 Part\nRule one."


def test_a_title_page_has_less_than_three_times_its_header_below() -> None:
    """len("Version: 2\\n") == 11: up to 32 characters below it are a title page."""
    assert AnalysedText("Version: 2\n" + "x" * (3 * 11 - 1)).body.head == "version: 2"
    assert AnalysedText("Version: 2\n" + "x" * (3 * 11)).body.head == ""
