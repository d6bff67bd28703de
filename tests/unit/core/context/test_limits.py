"""Two limits as one budget, and the counter that a record names found again."""

import pytest

from context_engine.core.context import ApproxTokenCounter, limited, named_counter
from context_engine.errors import InvalidRequest

COUNTER = ApproxTokenCounter()


class Words:
    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


def test_no_limit_is_none_and_one_in_tokens_is_itself():
    assert limited(COUNTER, None, None) is None
    assert limited(COUNTER, 100, None) == (COUNTER, 100)


def test_characters_alone_are_counted_as_they_are():
    counter, budget = limited(COUNTER, None, 300)
    assert (counter.name, counter.count("four"), budget) == ("characters", 4, 300)


def test_tokens_weigh_as_much_as_characters_where_they_bind_harder():
    counter, budget = limited(Words(), 10, 300)
    assert budget == 300
    assert counter.count("a b c") == 3 * 300 // 10  # three words of ten: 90 of 300 characters
    assert counter.count("abcdefgh" * 20) == 160  # one word: its characters bind


@pytest.mark.parametrize(("tokens", "chars"), [(10, 300), (None, 300), (10, None)])
def test_a_counter_is_found_again_by_its_name(tokens: int | None, chars: int | None):
    counter, _ = limited(Words(), tokens, chars)
    again = named_counter(counter.name, lambda name: Words() if name == "words" else pytest.fail(name))
    for text in ("", "a", "a b c d", "long" * 90):
        assert again.count(text) == counter.count(text)
    assert again.name == counter.name


def test_a_name_with_slashes_of_its_own_stays_whole():
    class Model(Words):
        name = "tiktoken/cl100k_base"

    counter, _ = limited(Model(), 10, 300)
    asked: list[str] = []
    named_counter(counter.name, lambda name: asked.append(name) or Model())
    assert asked == ["tiktoken/cl100k_base"]


@pytest.mark.parametrize("name", ["characters/1", "characters/0/1/words", "characters/1/0/words", "characters/a/1/w"])
def test_a_name_that_is_half_is_refused(name: str):
    with pytest.raises(InvalidRequest):
        named_counter(name, lambda _name: Words())
