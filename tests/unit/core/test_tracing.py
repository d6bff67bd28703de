"""Spans of the core: nested as the work is, in whatever thread it runs, and nothing without a tracer."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pytest

from context_engine.core.concurrency.calls import EXECUTOR
from context_engine.core.tracing import NO_SPAN, Step, current_span, span, spanned


class Noted:
    """A span that notes what it is told; also the tracer that begins it."""

    def __init__(self, name: str = "", parent: Noted | None = None) -> None:
        self.name, self.parent = name, parent
        self.facts: list[object] = []
        self.children: list[Noted] = []
        self.error: BaseException | None = None
        self.ended = self.is_active = 0
        self.given: Mapping[str, str] = {}

    def begin(self, step: Step, name: str, headers: Mapping[str, str]) -> Noted:
        self.given = headers
        return self.child(step, name)

    def child(self, step: Step, name: str) -> Noted:
        self.children.append(Noted(f"{step} {name}", self))
        return self.children[-1]

    def tell(self, fact: object) -> None:
        self.facts.append(fact)

    def headers(self) -> Mapping[str, str]:
        return {"traceparent": self.name}

    @contextmanager
    def active(self) -> Iterator[None]:
        self.is_active += 1
        yield
        self.is_active -= 1

    def end(self, error: BaseException | None = None) -> None:
        self.ended, self.error = self.ended + 1, error


@pytest.fixture
def tracer() -> Noted:
    return Noted()


def test_without_a_tracer_nothing_is_opened() -> None:
    with span(Step.SEARCH, "NPA") as opened:
        assert opened is current_span() is NO_SPAN
        assert dict(opened.headers()) == {}
        opened.tell("anything")
        assert opened.child(Step.SOURCE, "sops") is NO_SPAN
        opened.end()


def test_a_block_within_a_block_is_its_child(tracer: Noted) -> None:
    with span(Step.REQUEST, "POST", tracer, {"traceparent": "00-1"}) as request:
        with span(Step.SEARCH, "NPA", Noted("of another trace")) as search:
            assert current_span() is search
        assert current_span() is request
    assert current_span() is NO_SPAN
    (root,) = tracer.children
    assert (root.name, [child.name for child in root.children]) == ("request POST", ["search NPA"])
    assert tracer.given == {"traceparent": "00-1"}
    assert (root.ended, root.children[0].ended, root.is_active) == (1, 1, 0)


def test_an_error_ends_the_span_and_goes_on(tracer: Noted) -> None:
    error = ValueError("no")
    with pytest.raises(ValueError), span(Step.SEARCH, "NPA", tracer):
        raise error
    assert (tracer.children[0].error, tracer.children[0].ended) == (error, 1)
    assert current_span() is NO_SPAN


def test_another_thread_works_for_the_span_that_called_it(tracer: Noted) -> None:
    assert EXECUTOR.submit(current_span, "test").result(5) is NO_SPAN
    with span(Step.SEARCH, "NPA", tracer) as search:
        assert EXECUTOR.submit(current_span, "test").result(5) is search
        nested = EXECUTOR.submit(lambda: EXECUTOR.submit(current_span, "test").result(5), "test")
        assert nested.result(5) is search
    assert EXECUTOR.submit(current_span, "test").result(5) is NO_SPAN


def parts(seen: list[Any], failure: Exception | None = None) -> Generator[str]:
    try:
        for part in ("a", "b"):
            seen.append(current_span())
            yield part
        if failure is not None:
            raise failure
    finally:
        seen.append(current_span())


def test_a_generator_works_within_its_span_and_its_consumer_outside(tracer: Noted) -> None:
    seen: list[Any] = []
    for _ in spanned(parts(seen), Step.CHAT, "m", "asked", tracer):
        assert current_span() is NO_SPAN
    (chat,) = tracer.children
    assert seen == [chat, chat, chat]
    assert (chat.facts, chat.ended, chat.error) == (["asked", "a", "b"], 1, None)


def test_a_consumer_that_needs_no_more_ends_the_span_without_an_error(tracer: Noted) -> None:
    seen: list[Any] = []
    with closing(spanned(parts(seen), Step.CHAT, "m", None, tracer)) as read:
        assert next(read) == "a"
    (chat,) = tracer.children
    assert seen == [chat, chat]
    assert (chat.ended, chat.error) == (1, None)


def test_a_generator_that_fails_ends_the_span_with_its_error(tracer: Noted) -> None:
    failure = ValueError("no")
    with pytest.raises(ValueError):
        list(spanned(parts([], failure), Step.CHAT, "m", None, tracer))
    assert (tracer.children[0].ended, tracer.children[0].error) == (1, failure)


def test_a_generator_without_a_trace_is_passed_on() -> None:
    seen: list[Any] = []
    with closing(spanned(parts(seen), Step.CHAT, "m")) as read:
        assert next(read) == "a"
    assert seen == [NO_SPAN, NO_SPAN]
