"""External Knowledge waits for a source that is too busy, as long as Dify's tries allow, and for no other failure."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from context_engine.apps.dify import retrieval
from context_engine.apps.dify.external import ExternalRequest
from context_engine.apps.dify.retrieval import Retrieval, search_records
from context_engine.core.models import NOBODY, SearchResult
from context_engine.errors import SourceBusy, SourceTimeout

REQUEST = ExternalRequest(knowledge_id="NPA", query="q", top_k=4, score_threshold=0.0, filters=None)


class Clock:
    """Time that passes while somebody sleeps, and `each_s` in a search."""

    def __init__(self, each_s: float) -> None:
        self.now, self.each_s, self.slept = 100.0, each_s, list[float]()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def asked(ask: Any, chunk_of: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """(errors of the searches until one is answered, seconds left, seconds of a search) -> clock, seconds of each."""

    def make(*errors: Any, left_s: float = 21.5, each_s: float = 0.0) -> tuple[Clock, list[float], Any]:
        clock, seconds, waiting = Clock(each_s), list[float](), list(errors)
        monkeypatch.setattr(retrieval, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=clock.sleep))

        def search(request: Any) -> SearchResult:
            seconds.append(request.overrides["deadline_s"])
            clock.now += clock.each_s
            if not waiting:
                return cast(SearchResult, ask([(1, [chunk_of("a", 0.9)])]))
            error = waiting.pop(0)

            def fail(*_: Any) -> Any:
                raise error

            return cast(SearchResult, ask([(1, [chunk_of("b", 0.8)]), (2, fail)]))

        engine = SimpleNamespace(search=search, mask=None)
        resolver = SimpleNamespace(base=lambda **_: None)
        setup = SimpleNamespace(resolver=resolver, config=SimpleNamespace(personas={}))
        known = SimpleNamespace(names={"NPA"})
        deployment = SimpleNamespace(engine=engine, setup=setup, known_to=lambda _: known, demo=False)
        answer = search_records(Retrieval(request=REQUEST, due=clock.now + left_s), cast(Any, deployment), NOBODY)
        return clock, seconds, [record["metadata"].get("notice", False) for record in answer.body["records"]]

    return make


def busy(seconds: float | None) -> SourceBusy:
    return SourceBusy("taken", retryable=True, retry_after_s=seconds)


def test_a_source_that_says_when_it_can_answer_is_waited_for(asked: Any) -> None:
    """Of 21.5 s, 5.2 and then 3.0 are waited for: the searches have 21.5, 16.3 and 13.3 s."""
    clock, seconds, notices = asked(busy(5.2), busy(3.0))
    assert clock.slept == [5.2, 3.0] and seconds == pytest.approx([21.5, 16.3, 13.3])
    assert notices == [False]


def test_the_last_search_has_what_is_left(asked: Any) -> None:
    """Of 6 s, 5 are waited for: 1 is left for the search."""
    _, seconds, notices = asked(busy(5.0), left_s=6.0)
    assert seconds == [6.0, 1.0] and notices == [False]


def test_a_wait_longer_than_the_time_left_is_not_begun(asked: Any) -> None:
    clock, seconds, notices = asked(busy(21.4))
    assert clock.slept == [] and len(seconds) == 1
    assert notices == [True, False]


def test_a_source_that_never_says_when_is_tried_once_more(asked: Any) -> None:
    """A server that hangs has no forecast: two tries, and not all four."""
    clock, seconds, notices = asked(busy(None), busy(None), busy(None), each_s=4.0)
    assert clock.slept == [0.5] and len(seconds) == 2
    assert notices == [True, False]


def test_no_other_failure_is_waited_for(asked: Any) -> None:
    clock, seconds, notices = asked(SourceTimeout("no answer within 10 s"))
    assert clock.slept == [] and len(seconds) == 1 and notices == [True, False]
