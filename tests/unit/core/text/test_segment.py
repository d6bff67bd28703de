from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.text import check_segmenter, has_cjk, segmented, terms
from context_engine.errors import MissingExtra

MIXED = st.text(alphabet="商业银行的风险管理委员会は承認する위원회는 NPA-01税", max_size=40)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("商业银行的风险", "商业银行 风险"),
        ("風險管理委員會的審批標準", "風險 管理委員會 審批 標準"),
        ("新商品承認委員会の承認期限", "新商品 承認 委員会 承認 期限"),
        ("위원회는 언제", "위원회 언제"),
        ("NPA-001 的审批标准是什么", "NPA-001 审批 标准 什么"),
        ("approval limit 审批权限 and 4.2.1(b)", "approval limit 审批 权限 and 4.2.1(b)"),
        ("approval criteria", "approval criteria"),
        ("", ""),
    ],
)
def test_words_of_three_languages(text: str, words: str) -> None:
    assert segmented(text, "lindera") == words
    assert segmented(text, "none") == text


def test_a_single_character_is_no_word_to_search_for_and_stays_with_its_neighbours() -> None:
    """CC-CEDICT has no entry 发债: cut to 发, 债, 条件 nothing of it could be found in an index of pairs."""
    assert segmented("发债条件", "lindera") == "发债条件"
    assert segmented("税", "lindera") == "税"


def test_function_words_alone_are_kept_rather_than_nothing() -> None:
    assert segmented("的", "lindera") == "的"


def test_pairs_across_words_are_not_searched_for() -> None:
    assert terms("商业银行的风险") == ["商业", "业银", "银行", "行的", "的风", "风险"]
    assert terms(segmented("商业银行的风险", "lindera")) == ["商业", "业银", "银行", "风险"]


@given(MIXED)
def test_segmenting_adds_no_pair_and_keeps_what_is_no_cjk(text: str) -> None:
    found = segmented(text, "lindera")
    kept = iter(text.replace(" ", ""))
    assert all(char in kept for char in found.replace(" ", "")), "the characters of the text in their order"
    pairs = {term for term in terms(found) if has_cjk(term) and len(term) > 1}
    assert pairs <= set(terms(text))
    assert [char for char in found if char.isascii() and char != " "] == [
        char for char in text if char.isascii() and char != " "
    ]


def test_it_is_safe_for_several_threads() -> None:
    text = "商业银行操作风险管理委员会应当批准新产品"
    alone = segmented(text, "lindera")
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: segmented(text, "lindera"), range(200))) == {alone}


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from context_engine.core.text.tokens import _tokenizer

    _tokenizer.cache_clear()
    monkeypatch.setitem(sys.modules, "lindera", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dify-context-engine\[cjk\]'"):
        segmented("审批标准", "lindera")
    with pytest.raises(MissingExtra, match="word segmenter 'lindera'"):
        check_segmenter("lindera")
    assert segmented("审批标准", "none") == "审批标准"
    assert segmented("approval", "lindera") == "approval", "text in other scripts needs no dictionary"
    check_segmenter("none")
