"""What a reader should know of an answer, as data: a code to act on, and a sentence to read."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

__all__ = ["Notice", "NoticeCode"]

_NO_DETAIL: Final[Mapping[str, Any]] = MappingProxyType({})


class NoticeCode(StrEnum):
    """The kinds of notice. A code keeps its meaning for ever; its sentence may be reworded at any time."""

    SOURCE_NOTE = "source_note"
    """A source's own remark, in its own words."""


class Notice(NamedTuple):
    """One thing a reader should know.

    Attributes:
        code: what kind of thing it is; programs decide by it, never by the message.
        subject: what it is about: a source id, a field, a file, a domain; "" for the whole.
        message: a sentence for people.
        detail: the values in the message, by name; JSON values only.
    """

    code: NoticeCode
    subject: str
    message: str
    detail: Mapping[str, Any] = _NO_DETAIL

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {"code": str(self.code), "subject": self.subject, "message": self.message, "detail": dict(self.detail)}
