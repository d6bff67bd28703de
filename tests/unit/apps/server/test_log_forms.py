"""A log record in both forms: its fields are written, no key is, and a line stays one line."""

import io
import json
import logging
import sys

import pytest

from context_engine.apps.server.logs import formatter, log_to_stderr
from context_engine.secrecy import keep_secret


def record(message="rag.filter", *, fields=None, error=None):
    try:
        if error:
            raise error
    except ValueError:
        trace = sys.exc_info()
    else:
        trace = None
    logger = logging.getLogger("context_engine.events")
    return logger.makeRecord(logger.name, logging.INFO, "f", 1, message, (), trace, extra=fields)


def test_json_has_the_fields_as_they_are():
    said = json.loads(formatter("json").format(record(fields={"scores": [0.5, 0.25], "request_id": None})))
    assert said.pop("time").endswith("Z")
    assert said == {
        "level": "INFO",
        "logger": "context_engine.events",
        "message": "rag.filter",
        "scores": [0.5, 0.25],
        "request_id": None,
    }


def test_text_has_them_behind_the_message():
    line = formatter("text").format(record(fields={"scores": [0.5, 0.25], "kept": True}))
    assert line.endswith("INFO context_engine.events: rag.filter scores=[0.5,0.25] kept=true")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_stays_one_line(form):
    line = formatter(form).format(record("a\nb\x1b[31m", fields={"request_id": "x\nINFO forged"}))
    assert line.isprintable()


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_key_in_a_field_or_an_exception(form):
    keep_secret("Zk4mQ8vT2xLp9wRn")
    line = formatter(form).format(
        record(fields={"request_id": "Zk4mQ8vT2xLp9wRn"}, error=ValueError("Zk4mQ8vT2xLp9wRn"))
    )
    assert "Zk4mQ8vT2xLp9wRn" not in line


def test_what_writes_to_stderr_already_takes_the_form(monkeypatch):
    debugging, other = logging.StreamHandler(sys.stderr), logging.StreamHandler(io.StringIO())
    monkeypatch.setattr(logging.getLogger(), "handlers", [debugging, other])
    log_to_stderr("json")
    line = debugging.format(logging.LogRecord("a", logging.INFO, "", 0, "two\nlines", (), None))
    assert json.loads(line)["message"] == "two\nlines" and other.formatter is None
