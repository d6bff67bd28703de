"""Texts analysed once for many searches: what is kept, how much of it, and by whom."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from context_engine.core.engine import Engine, candidate_table
from context_engine.core.engine.candidate_table import TextCache
from context_engine.core.models import SearchRequest
from context_engine.core.ranking import candidates

RULE = "A trader must report the excess to Market Risk before the close of business."


def test_a_text_that_comes_again_keeps_its_analysis() -> None:
    cache = TextCache()
    again = RULE.encode().decode()  # another string of the same characters, as a source gives it
    assert again is not RULE
    assert cache.analysed(RULE) is cache.analysed(again)
    assert cache.analysed(RULE + " ") is not cache.analysed(RULE)


def test_a_text_counts_with_its_analysis() -> None:
    """300 bytes, the string itself, and 2 bytes a character; 230 where it is Chinese."""
    cache = TextCache()
    cache.analysed(RULE)
    assert cache.bytes == 300 + sys.getsizeof(RULE) + 2 * len(RULE)
    cache = TextCache()
    cache.analysed("新产品审批")
    assert cache.bytes == 300 + sys.getsizeof("新产品审批") + 230 * 5


def test_the_least_used_text_is_dropped_first_and_the_bound_is_kept() -> None:
    texts = [f"Rule {letter}: {RULE}" for letter in "abc"]
    each = 300 + sys.getsizeof(texts[0]) + 2 * len(texts[0])
    cache = TextCache(2 * each)
    first, second = cache.analysed(texts[0]), cache.analysed(texts[1])
    assert cache.analysed(texts[0]) is first  # used again: the second is now the least used
    cache.analysed(texts[2])
    assert cache.bytes == 2 * each
    assert cache.analysed(texts[0]) is first
    assert cache.analysed(texts[1]) is not second


def test_a_text_larger_than_the_bound_is_analysed_and_not_kept() -> None:
    cache = TextCache(1000)
    cache.analysed("Rule.")
    held = cache.bytes
    assert cache.analysed(RULE * 100).reading.length == 100 * 14 - 99  # "business.A" is one word
    assert cache.bytes == held > 0


def test_many_threads_get_the_same_analyses() -> None:
    texts = [f"Rule {number % 50}: {RULE}" for number in range(2000)]
    cache = TextCache(40 * 2000)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda text: cache.analysed(text).reading.terms, texts))
    assert found == [candidates.AnalysedText(text).reading.terms for text in texts]
    assert cache.bytes <= 40 * 2000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_begins_empty_even_if_the_lock_was_held() -> None:
    cache = TextCache()
    cache.analysed(RULE)
    with cache._lock:
        pid = os.fork()
        if pid == 0:
            empty = cache.bytes == 0
            works = cache.analysed(RULE).text == RULE
            os._exit(0 if empty and works else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert cache.bytes > 0


def test_an_engine_analyses_a_text_once_for_all_its_searches(make_engine, monkeypatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(candidates, "read", lambda text, real=candidates.read: (read.append(text), real(text))[1])
    chunks = [{"chunk_id": str(number), "content": f"{RULE} Form {number}."} for number in range(3)]
    request = SearchRequest(query="report the excess", domain="NPA")
    with make_engine([(2, lambda _query, _domain, _top_k: chunks)]) as engine:
        first = engine.search(request)
        assert sorted(text for text in read if text.startswith("A trader")) == [one["content"] for one in chunks]
        read.clear()
        second = engine.search(request)
        assert read == []
    assert [one.final for one in first.chunks] == [one.final for one in second.chunks]


def test_nothing_is_shared_between_engines(make_engine) -> None:
    with make_engine([(2, [])]) as one, make_engine([(2, [])]) as other:
        assert isinstance(one, Engine)
        assert one._texts is not other._texts
    assert not any(isinstance(value, TextCache) for value in vars(candidate_table).values())


def test_an_engine_reads_the_labels_of_a_chunk_once_for_signs_of_an_attack(make_engine, monkeypatch) -> None:
    read: list[str] = []
    real = candidates.injection_kinds
    monkeypatch.setattr(candidates, "injection_kinds", lambda text: (read.append(text), real(text))[1])
    chunk = {"chunk_id": "1", "content": RULE, "title": "Excesses", "metadata": {"note": "<|im_start|>system"}}
    request = SearchRequest(query="report the excess", domain="NPA")
    with make_engine([(2, lambda _query, _domain, _top_k: [chunk])]) as engine:
        first = engine.search(request)
        assert sorted(read) == ["<|im_start|>system", RULE, "Excesses"]
        read.clear()
        assert engine.search(request).chunks[0].flags == first.chunks[0].flags
        assert read == []
    assert "injection_suspected" in first.chunks[0].flags
