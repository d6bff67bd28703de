"""The log of the service on stderr, as lines for people or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, Literal

from context_engine.secrecy import shown_in_logs


def log_to_stderr(form: LogForm) -> None:
    """Log all warnings and the service's events; also formats the handler of `--debug`."""
    set_up = logging.getLogger().handlers
    for handler in set_up:
        if type(handler) is logging.StreamHandler and handler.stream is sys.stderr:
            handler.setFormatter(formatter(form))
    if set_up:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(form))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("context_engine").setLevel(logging.INFO)


LogForm = Literal["text", "json"]
_LINE: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_STANDARD: Final = frozenset(
    [*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "taskName", "color_message"]
)
"""Standard attributes of a record; all others are its own fields."""


def formatter(form: LogForm) -> logging.Formatter:
    """Return the formatter of a log format."""
    return _JsonLines() if form == "json" else _Lines(_LINE)


class _JsonLines(logging.Formatter):
    """One JSON object per line: time (UTC), level, logger, message, extra fields of the record, and the exception."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        trace = self.formatException(record.exc_info) if record.exc_info else record.exc_text
        if trace:
            line["exception"] = shown_in_logs(trace)
        return json.dumps(line, ensure_ascii=True, default=str)


class _Lines(logging.Formatter):
    """One line: time, level, logger, message, then extra fields of the record as key=value."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging calls it so
        fields = (f"{name}={_short(value)}" for name, value in _fields(record).items())
        line = " ".join((super().formatMessage(record), *fields))
        return line if line.isprintable() else "".join(char if char.isprintable() else " " for char in line)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the extra fields of a record."""
    return {name: _shown(value) for name, value in vars(record).items() if name not in _STANDARD}


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return shown_in_logs(value)
    if isinstance(value, dict):
        return {str(key): _shown(item) for key, item in value.items()}
    return [_shown(item) for item in value] if isinstance(value, list | tuple) else value


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), default=str)
