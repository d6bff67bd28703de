"""Errors as a workflow's author reads them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from context_engine.apps.dify.credentials import Redactor
from context_engine.apps.dify.failure import (
    SourceMissing,
    ToolFailure,
    failure,
    guarded,
    guarded_stream,
    guarded_tool,
    refuse_incomplete,
)
from context_engine.core.models import SearchResult
from context_engine.errors import AllSourcesFailed, SourceAuthError, SourceBusy, SourceTimeout, UnknownDomain

SECRET = "dataset-secret-42"


def test_our_own_errors_keep_name_and_words() -> None:
    told = failure(UnknownDomain("NPX", ["NPA"]), Redactor())
    assert type(told).__name__ == "UnknownDomain" and isinstance(told, ToolFailure)
    assert str(told) == "unknown domain 'NPX'. Registered: NPA. Did you mean 'NPA'?"


def test_secrets_are_taken_out() -> None:
    told = failure(SourceAuthError(f"{SECRET} was refused", source_id="s"), Redactor((SECRET,)))
    assert str(told) == "source 's': ******** was refused"


def test_a_foreign_error_shows_its_type_alone() -> None:
    told = failure(KeyError(SECRET), Redactor())
    assert type(told).__name__ == "InternalError" and "KeyError" in str(told) and SECRET not in str(told)


def test_nothing_is_chained() -> None:
    """Dify writes the whole traceback into its log."""

    def call(_: Any) -> None:
        try:
            raise ValueError(SECRET)
        except ValueError as error:
            raise UnknownDomain("NPX", ["NPA"]) from error

    with pytest.raises(ToolFailure) as raised:
        guarded({"dify_api_key": SECRET}, call)
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_a_form_that_cannot_be_read_fails_in_the_same_way() -> None:
    with pytest.raises(ToolFailure, match="variables: is not a JSON object"):
        guarded({"variables": "["}, lambda _: None)


def test_a_tools_failure_begins_with_its_name() -> None:
    """Dify's fail branch has Dify's own error_type: the message is where a workflow can tell failures apart."""

    def call(_: Any) -> None:
        raise UnknownDomain(f"NPX{SECRET}", ["NPA"])

    with pytest.raises(ToolFailure) as raised:
        guarded_tool({"dify_api_key": SECRET}, call)
    assert type(raised.value).__name__ == "UnknownDomain"
    assert str(raised.value).startswith("UnknownDomain: unknown domain 'NPX********'")
    assert raised.value.__cause__ is None and raised.value.__context__ is None


def test_a_message_is_utf8() -> None:
    assert str(failure(UnknownDomain("N\ud800", ["NPA"]), Redactor())).isascii()


def test_what_is_complete_passes(ask: Callable[..., SearchResult], chunk_of: Any) -> None:
    result = ask([(1, [chunk_of("a", 0.9)])])
    refuse_incomplete(result)
    assert result.status == "complete"


def test_a_missing_source_is_named_with_what_to_do(
    ask: Callable[..., SearchResult], chunk_of: Any, spec_of: Any
) -> None:
    def down(_query: str, _domain: str, _top_k: int) -> Any:
        raise SourceTimeout("no answer within 4 s")

    found = ask([(1, [chunk_of("a", 0.9)]), (spec_of(2, title="Procedures"), down)])
    with pytest.raises(SourceMissing, match=r"Procedures: source 't2': no answer within 4 s\. Fix it, or set"):
        refuse_incomplete(found)


@pytest.mark.parametrize(
    ("problem", "is_advised"),
    [(SourceTimeout("slow"), True), (SourceBusy("2 calls are under way"), True), (SourceAuthError("refused"), False)],
)
def test_a_starved_dify_is_named_if_no_source_answered_in_time(
    ask: Callable[..., SearchResult], problem: Exception, is_advised: bool
) -> None:
    def fail(_query: str, _domain: str, _top_k: int) -> Any:
        raise problem

    with pytest.raises(AllSourcesFailed) as raised:
        ask([(1, fail), (2, fail)])
    assert ("SERVER_WORKER_CONNECTIONS" in str(failure(raised.value, Redactor()))) is is_advised


class TestAStream:
    def test_what_comes_before_a_failure_comes(self) -> None:
        def call(credentials: Any) -> Any:
            yield credentials.api_key
            try:
                raise ValueError(SECRET)
            except ValueError as error:
                raise UnknownDomain(SECRET, []) from error

        stream = guarded_stream({"dify_api_key": SECRET}, call)
        assert next(stream) == SECRET
        with pytest.raises(ToolFailure, match=r"^UnknownDomain: unknown domain '\*{8}'") as raised:
            next(stream)
        assert type(raised.value).__name__ == "UnknownDomain"
        assert (raised.value.__cause__, raised.value.__context__) == (None, None)

    def test_a_form_that_cannot_be_read_is_a_failure(self) -> None:
        with pytest.raises(ToolFailure, match=r"^ConfigError: "):
            next(guarded_stream({"variables": "["}, lambda _: iter(())))

    def test_a_reader_who_goes_away_ends_the_call(self) -> None:
        ended: list[bool] = []

        def call(_: Any) -> Any:
            try:
                yield "a"
            finally:
                ended.append(True)

        stream = guarded_stream({}, call)
        assert next(stream) == "a"
        stream.close()
        assert ended == [True]
