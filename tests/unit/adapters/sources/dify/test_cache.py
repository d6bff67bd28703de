"""Answers kept for a while, one flight a key."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from context_engine.adapters.sources.dify.cache import AnswerCache, Kept
from context_engine.errors import SourceAuthError, SourceBusy, SourceTimeout, SourceUnavailable


class Made:
    """Counts how often it was asked."""

    def __init__(self, clock, error=None, keep=True, size=1):
        self.clock, self.error, self.keep, self.size, self.calls = clock, error, keep, size, 0

    def __call__(self):
        self.calls += 1
        if self.error is not None:
            raise self.error
        return Kept(f"answer {self.calls}", self.size, self.keep, self.clock.seconds)


def get(cache, make, key="k", ttl_s=60.0, stale_s=0.0, left=lambda: 5.0):
    return cache.get(key, make, ttl_s=ttl_s, stale_s=stale_s, left=left)


def test_an_answer_is_used_again_until_its_time_is_up(clock):
    cache, make = AnswerCache(clock.monotonic), Made(clock)
    assert get(cache, make)[0].value == "answer 1"
    clock.seconds += 59.9
    assert get(cache, make)[0] == Kept("answer 1", 1, True, 1000.0)
    clock.seconds += 0.1
    assert get(cache, make)[0].value == "answer 2"


def test_no_time_means_no_cache(clock):
    cache, make = AnswerCache(clock.monotonic), Made(clock)
    assert [get(cache, make, ttl_s=0.0)[0].value for _ in range(2)] == ["answer 1", "answer 2"]


def test_an_answer_that_is_not_to_be_kept_is_not_kept(clock):
    cache, make = AnswerCache(clock.monotonic), Made(clock, keep=False)
    assert [get(cache, make)[0].value for _ in range(2)] == ["answer 1", "answer 2"]


def test_an_old_answer_stands_in_for_an_outage_where_that_is_allowed(clock):
    cache = AnswerCache(clock.monotonic)
    get(cache, Made(clock))
    down = Made(clock, SourceUnavailable("down"))
    clock.seconds += 100.0
    kept, error = get(cache, down, stale_s=50.0)
    assert (kept.value, error.code) == ("answer 1", "unavailable")
    with pytest.raises(SourceUnavailable):
        get(cache, down, stale_s=30.0)
    with pytest.raises(SourceAuthError):
        get(cache, Made(clock, SourceAuthError("no")), stale_s=50.0)
    assert down.calls == 2


def test_the_sizes_are_bounded(clock):
    cache, make = AnswerCache(clock.monotonic, most_bytes=10), Made(clock, size=4)
    for key in "abc":
        get(cache, make, key)
    assert cache.last("a") is None
    assert cache.last("b") is not None and cache.last("c") is not None
    get(cache, Made(clock, size=11), "big")
    assert cache.last("big") is None
    assert cache.last("c") is not None


def test_equal_questions_at_the_same_time_go_out_once(clock):
    cache, started, go = AnswerCache(clock.monotonic), threading.Event(), threading.Event()
    calls = []

    def make():
        calls.append(1)
        started.set()
        go.wait(30)
        return Kept("answer", 1, True, clock.seconds)

    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(get, cache, make)
        started.wait(30)
        others = [threads.submit(get, cache, make) for _ in range(7)]
        go.set()
        assert {one.result()[0].value for one in [first, *others]} == {"answer"}
    assert len(calls) == 1


def test_a_failure_is_everybodys_and_not_kept(clock):
    cache = AnswerCache(clock.monotonic)
    with pytest.raises(SourceUnavailable):
        get(cache, Made(clock, SourceUnavailable("down")))
    assert get(cache, Made(clock))[0].value == "answer 1"


def test_who_waits_for_an_equal_question_waits_no_longer_than_it_has(clock):
    cache, started, go = AnswerCache(clock.monotonic), threading.Event(), threading.Event()

    def hang():
        started.set()
        go.wait(30)
        return Kept("late", 1, True, clock.seconds)

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(get, cache, hang)
        started.wait(30)
        with pytest.raises(SourceTimeout):
            get(cache, Made(clock), left=lambda: 0.05)
        clock.seconds += 6.0  # past the first one's time: nobody waits for it any more
        assert get(cache, Made(clock))[0].value == "answer 1"
        go.set()
        assert first.result()[0].value == "late"


@pytest.mark.parametrize(
    ("error", "left_of_first"), [(SourceTimeout("no answer"), 0.0), (SourceBusy("not its turn"), 5.0)]
)
def test_the_deadline_or_turn_of_whoever_asks_first_is_not_that_of_those_who_wait(error, left_of_first, clock):
    cache, started, go, left = AnswerCache(clock.monotonic), threading.Event(), threading.Event(), [5.0]

    def fail():
        started.set()
        go.wait(30)
        left[0] = left_of_first
        raise error

    make = Made(clock)
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(get, cache, fail, left=lambda: left[0])
        started.wait(30)
        others = [threads.submit(get, cache, make) for _ in range(7)]
        go.set()
        with pytest.raises(type(error)):
            first.result()
        assert {one.result()[0].value for one in others} == {"answer 1"}
    assert make.calls == 1


def test_a_failure_of_dify_is_shared_by_those_who_wait(clock):
    cache, started, go, make = AnswerCache(clock.monotonic), threading.Event(), threading.Event(), Made(clock)

    def fail():
        started.set()
        until_waiting.acquire(timeout=30)
        raise SourceTimeout("Dify did not answer in time")

    until_waiting = threading.Semaphore(0)

    def left():
        until_waiting.release()  # asked once more when it begins to wait
        return 5.0

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(get, cache, fail)
        started.wait(30)
        second = threads.submit(get, cache, make, left=left)
        for one in (first, second):
            with pytest.raises(SourceTimeout):
                one.result()
    go.set()
    assert make.calls == 0


def test_a_call_that_breaks_off_leaves_nobody_waiting(clock):
    cache = AnswerCache(clock.monotonic)

    def crash():
        raise ValueError

    with pytest.raises(ValueError):
        get(cache, crash)
    assert get(cache, Made(clock))[0].value == "answer 1"
