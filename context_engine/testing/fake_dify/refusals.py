"""What Dify answers instead of records: its error bodies, and the wording of its checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

RATE_LIMITED: Final = "Sorry, you have reached the knowledge base request rate limit of your subscription."
NOT_FOUND_PAGE: Final = (
    "<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n<p>The requested URL was not "
    "found on the server. If you entered the URL manually please check your spelling and try again.</p>\n"
)


class DifyRefusal(Exception):
    """Becomes Dify's error body {"code", "message", "status"}."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message

    def body(self) -> dict[str, Any]:
        """Return the error body."""
        return {"code": self.code, "message": self.message, "status": self.status}


def invalid_param(message: str) -> DifyRefusal:
    """Return the 400 that Dify gives for bad parameters, and for outages of what stands behind it."""
    return DifyRefusal(400, "invalid_param", message)


def internal_error(message: str) -> DifyRefusal:
    """Return the 500 with the text of the exception, as Dify shows it."""
    return DifyRefusal(500, "internal_server_error", message)


class Problem(NamedTuple):
    """One line of a validation error: where, what, its machine name, the value that was given."""

    place: str
    text: str
    kind: str
    value: Any


def missing_field(place: str, holder: Any) -> Problem:
    """Return the problem of a field that is not there."""
    return Problem(place, "Field required", "missing", holder)


def wrong_type(place: str, wanted: str, kind: str, value: Any) -> Problem:
    """Return the problem of a value of the wrong type."""
    return Problem(place, f"Input should be a valid {wanted}", kind, value)


def validation_error(model: str, problems: Sequence[Problem]) -> DifyRefusal:
    """Return a 400 in the words of the validator; the value that was given is echoed, shortened in the middle."""
    lines = [f"{len(problems)} validation error{'s' * (len(problems) > 1)} for {model}"]
    for problem in problems:
        shown = f"[type={problem.kind}, input_value={_short(problem.value)}, input_type={type(problem.value).__name__}]"
        lines += [problem.place] * bool(problem.place)
        lines.append(f"  {problem.text} {shown}")
        lines.append(f"    For further information visit https://errors.pydantic.dev/2.11/v/{problem.kind}")
    return invalid_param("\n".join(lines))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 50 else f"{text[:25]}...{text[-24:]}"


def no_vector_table(dataset_id: str, *, full_text: bool = False) -> DifyRefusal:
    """Return what a dataset without vectors answers: the vector store's own message."""
    name = f"embedding_vector_index_{dataset_id.replace('-', '_')}_nod"
    where = "LINE 1: ..., 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]' AS distance FROM embedding_..."
    if full_text:
        where = f"LINE 2:                     FROM embedding_Vector_index_{dataset_id.replace('-', '_')[:12]}..."
    return invalid_param(f'relation "{name}" does not exist\n{where}\n{" " * (33 if full_text else 61)}^\n')
