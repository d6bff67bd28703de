"""The offline token estimate: its arithmetic, its edges, and known texts against a real tokenizer's counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.context import ApproxTokenCounter
from context_engine.core.context.tokens import _percent
from context_engine.core.protocols import TokenCounter

count = ApproxTokenCounter().count


def test_it_is_a_token_counter_with_a_name():
    assert isinstance(ApproxTokenCounter(), TokenCounter)
    assert ApproxTokenCounter().name == "approx-1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        (" ", 1),
        ("the", 1),
        ("The limit is 5", 4),
        ("Classification", 2),  # ten small letters after the capital, then three
        ("NPA-001", 3),  # NPA, -, 001
        ("USD 5,000,000", 6),  # USD, 5, comma, 000, comma, 000
        ("审批", 2),  # 2 * 0.85 = 1.7
        ("新产品审批流程规定中", 9),  # 10 * 0.85 = 8.5
        ("one\n\ntwo", 3),  # 1 + 0.8 + 1 = 2.8
        ("|---|---|", 3),
    ],
)
def test_pieces(text: str, expected: int):
    assert count(text) == expected


# Counted with tiktoken: (text, cl100k_base, o200k_base, allowed error as a share). The two vocabularies differ by 1.8
# on the last; the estimate lies between them.
MEASURED = [
    (
        (
            "A new product may not be offered to a client until the Product Approval Committee has classified it, the "
            "risk owner has signed the assessment, and every condition of the approval has been met in writing."
        ),
        39,
        39,
        0.10,
    ),
    (
        (
            "| Product | Desk | Limit (USD) | Tenor |\n|---|---|---|---|\n| FX forward | FX | 25,000,000 | 2Y |\n"
            "| Structured note | Equity | 7,500,000 | 5Y |\n"
        ),
        57,
        56,
        0.20,
    ),
    ("新产品在向客户推出之前，必须由产品审批委员会完成分类，并由风险负责人签署评估报告。", 44, 25, 0.5),
]


@pytest.mark.parametrize(("text", "cl100k", "o200k", "error"), MEASURED)
def test_measured_texts(text: str, cl100k: int, o200k: int, error: float):
    assert count(text) == pytest.approx(cl100k, rel=error)
    assert count(text) == pytest.approx(o200k, rel=error)


@given(st.text(max_size=60), st.text(max_size=10))
def test_appending_never_lowers_the_count(text: str, more: str):
    assert count(text + more) >= count(text)


@given(st.text(max_size=60))
def test_zero_only_for_empty_text(text: str):
    assert (count(text) == 0) is (text == "")


def test_a_full_memo_changes_no_count(monkeypatch: pytest.MonkeyPatch):
    from context_engine.core.context import tokens

    before = count("alpha beta gamma alpha")
    monkeypatch.setattr(tokens, "_MOST_WORDS", 1)
    monkeypatch.setattr(tokens, "_percents", tokens._CountMemo())
    assert count("alpha beta gamma alpha") == before == 4
    assert len(tokens._percents) == 1


def test_a_long_run_without_white_space_is_not_remembered():
    from context_engine.core.context import tokens

    run = "q" * 5000
    assert count(run) == 500
    assert run not in tokens._percents


@given(
    st.lists(st.sampled_from(["\n", " ", "  ", "\t", "\r", "\u2028", "a", "Word", "12345", "中", "...", "A" * 40])).map(
        "".join
    )
)
def test_a_text_counts_the_same_by_lines_as_in_one(text: str):
    whole = max(1, -(-_percent(text) // 100)) if text else 0
    assert count(text) == count(text) == whole
