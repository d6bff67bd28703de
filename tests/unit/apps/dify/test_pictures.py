"""Pictures as the words said for them."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.apps.dify.pictures import without_pictures

DIFYS = re.compile(r"!\[.*?\]\((.*?)\)")
"""What Dify takes for pictures in a chunk; it fetches them."""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("See ![the chart](https://x.example/c.png) below", "See the chart below"),
        ('![Chart (1)](c_(1).png "Limits")', "Chart (1)"),
        ("[![logo](l.png)](https://bank.example)", "[logo](https://bank.example)"),
        ("![a ![b](c) d](e)", "a b d"),
        ("![](data:image/png;base64,AAAA)", ""),
        ("![chart][ref]", "chart"),
        ("![two\nlines](u)", "two lines"),
        ('<img src="c.png" alt="limit &gt; 5">', "limit > 5"),
        ("<IMG alt='a > b' src=c.png/>", "a > b"),
        ('<img src="c.png">', ""),
        ("vec![1, 2] and [a link](https://bank.example)", "vec! [1, 2] and [a link](https://bank.example)"),
        ("vec![1, 2]", "vec![1, 2]"),
        ("[a link](https://bank.example)!", "[a link](https://bank.example)!"),
    ],
)
def test_a_picture_becomes_its_words(text: str, left: str) -> None:
    assert without_pictures(text).text == left


@given(st.lists(st.sampled_from(["![", "](", ")", "]", "[", "<img ", ">", '"', "a", " ", "\n", "\\", "http://x"])))
def test_dify_finds_none_in_what_is_left(parts: list[str]) -> None:
    assert DIFYS.findall(without_pictures("".join(parts)).text) == []


@given(st.lists(st.sampled_from(["![alt](u)", "word ", "\n", '<img alt="x">', "![1] [l](u)"]), max_size=20))
def test_pages_begin_where_they_began(parts: list[str]) -> None:
    """Each page is changed as if it stood alone."""
    starts = [sum(map(len, parts[:number])) for number in range(len(parts))]
    changed = without_pictures("".join(parts), [(start, number + 1) for number, start in enumerate(starts)])
    offsets = [*(offset for offset, _ in changed.pages), len(changed.text)]
    for number, part in enumerate(parts):
        here = changed.text[offsets[number] : offsets[number + 1]]
        assert here.replace("! [", "![") == without_pictures(part).text.replace("! [", "![")


@pytest.mark.parametrize("part", ["![", "![a", "![](", "![a](b", '<img "', "<img ", "![a]["])
def test_hostile_text_takes_no_longer_than_its_length(part: str) -> None:
    def seconds(times: int) -> float:
        started = time.process_time()
        without_pictures(part * times)
        return time.process_time() - started

    seconds(1_000)
    assert seconds(100_000) < 2.0  # a square would be minutes
