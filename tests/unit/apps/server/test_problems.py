"""Every error has a kind, and what is not for the caller is not told."""

from __future__ import annotations

import logging

import pytest

from context_engine import errors
from context_engine.apps.server.problems import HTTP_KINDS, HttpProblem, kind_of, kinds, problem_answer, problem_of
from context_engine.errors import ContextEngineError

CLASSES = [
    one
    for name in errors.__all__
    if isinstance(one := getattr(errors, name), type) and issubclass(one, ContextEngineError)
]


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_has_a_status_and_a_mend(error: type[ContextEngineError]) -> None:
    kind = kind_of(error)
    assert 400 <= kind.status < 600 and kind.meaning and kind.mend
    assert kind.code == error.code
    assert kind.type == f"urn:context-engine:problem:{error.code}"


def test_a_kind_is_listed_once() -> None:
    codes = [one.code for one in kinds()]
    assert len(codes) == len(set(codes))
    assert {one.code for one in CLASSES} | HTTP_KINDS.keys() == set(codes)


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (errors.NotAuthenticated("x"), 401, None),
        (errors.NotPermitted("x"), 403, None),
        (errors.UnknownDomain("NPB", ["NPA"]), 404, None),
        (errors.CursorExpired("x"), 410, None),
        (errors.InvalidFilter("x"), 422, None),
        (errors.EvidenceIncomplete("x"), 409, None),
        (errors.AllSourcesFailed("x"), 502, None),
        (errors.SourceRateLimited("x", retry_after_s=2.2), 503, "3"),
        (errors.Overloaded("x"), 503, "1"),
        (errors.AuditUnavailable("x"), 503, "1"),
        (errors.RecordNotWritten("x", retry_after_s=0.2), 404, "1"),
        (errors.ConfigError("x"), 500, None),
        (errors.PolicyError("x"), 500, None),
        (KeyError("x"), 500, None),
    ],
)
def test_the_status_of_an_error(error: Exception, status: int, retry: str | None) -> None:
    problem, headers = problem_of(error, "r1")
    assert (problem.status, problem.instance, headers.get("Retry-After")) == (status, "r1", retry)
    assert problem_answer(problem, headers, {}).status_code == status


@pytest.mark.parametrize(
    "error",
    [errors.ConfigError("host db.bank.example"), errors.StoreCorrupt("db.bank.example"), OSError("db.bank.example")],
)
def test_what_is_the_operators_stands_in_the_log(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "context_engine"):
        problem, _ = problem_of(error, "r1")
    assert "db.bank.example" not in problem.model_dump_json()
    assert "r1" in caplog.text and "db.bank.example" in caplog.text


def test_a_refusal_is_logged_by_its_id_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "context_engine"):
        problem_of(errors.InvalidRequest("about Mr Example"), "r1")
    (record,) = caplog.records
    assert "r1" in record.getMessage() and "422 invalid_request" in record.getMessage()
    assert "Example" not in caplog.text


def test_no_problem_holds_a_key() -> None:
    problem, _ = problem_of(HttpProblem("malformed_request", "dataset-AbC123dEf456GhI789"), "r1")
    assert "AbC123" not in problem.detail
