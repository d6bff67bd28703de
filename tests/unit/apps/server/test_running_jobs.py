"""The jobs that a service runs: the end of the process waits for the document that each reads."""

from __future__ import annotations

import logging
import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from context_engine.apps.server import service
from context_engine.apps.server.service import RunningJobs, RunState
from context_engine.errors import SourceUnavailable


class Read:
    """A run that reads one document, and then looks whether it shall stop."""

    def __init__(self, error: Exception | None = None) -> None:
        self.begun, self.may_end, self.was_stopped = threading.Event(), threading.Event(), False
        self._error = error

    def __call__(self, _deployment: Any, _caller: Any) -> Read:
        return self

    def run(self, _job_id: str, _question: str | None, *, use_model: bool, stopped: Any) -> None:
        self.begun.set()
        self.may_end.wait(30)
        self.was_stopped = stopped()
        if self._error is not None:
            raise self._error


def started(monkeypatch: pytest.MonkeyPatch, work: Read) -> RunningJobs:
    monkeypatch.setattr(service, "OwnedJobs", work)
    jobs = RunningJobs(SimpleNamespace(use=nullcontext))  # type: ignore[arg-type]
    jobs.start("j1", None, "Who decides?", use_model=False)  # type: ignore[arg-type]
    assert work.begun.wait(30)
    return jobs


def test_closing_waits_for_the_document_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Read()
    jobs = started(monkeypatch, work)
    jobs.close()
    assert jobs.state("j1").running, "without a time it only says so"
    threading.Timer(0.2, work.may_end.set).start()
    jobs.close(30.0)
    assert work.was_stopped and jobs.state("j1") == RunState()


def test_a_document_that_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Read()
    jobs = started(monkeypatch, work)
    jobs.close(0.05)
    assert jobs.state("j1").running
    work.may_end.set()


def test_a_run_that_failed_is_logged_with_its_job(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    work = Read(SourceUnavailable("the server cannot be reached", retryable=True))
    jobs = started(monkeypatch, work)
    with caplog.at_level(logging.WARNING):
        work.may_end.set()
        jobs.close(30.0)
    assert jobs.state("j1").problem == "the server cannot be reached"
    assert "the run of job j1 ended early, run it again to continue: the server cannot be reached" in caplog.text
