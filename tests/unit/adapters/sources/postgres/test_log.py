"""What the log says while a server is down."""

from __future__ import annotations

import logging

import psycopg
import pytest

from context_engine.adapters.sources.postgres import connection


def test_the_same_words_of_a_server_are_logged_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seconds = 1000.0
    monkeypatch.setattr(connection, "_LOGGED_AT", {})
    monkeypatch.setattr(connection.time, "monotonic", lambda: seconds)
    logger = connection.logger.name

    def warned(words: str) -> int:
        caplog.clear()
        with caplog.at_level(logging.DEBUG, logger):
            connection._failure(psycopg.OperationalError(words), lambda: "")
        return sum(record.levelno == logging.WARNING for record in caplog.records)

    assert [warned("connection refused") for _ in range(3)] == [1, 0, 0]
    assert warned("the database system is starting up") == 1
    seconds += 60.0
    assert [warned("connection refused") for _ in range(2)] == [1, 0]
