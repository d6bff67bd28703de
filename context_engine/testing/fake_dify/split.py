"""How Dify cuts a text into chunks, its flaw included: a piece that has to be cut at spaces loses them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_AUTOMATIC: Final = 500
_LEAST: Final = 50
_MOST: Final = 4000
_PER_TOKEN: Final = 4


def split_text(text: str, rule: Mapping[str, Any] | None) -> list[str]:
    """Return the chunks that Dify makes of a text.

    Args:
        text: the document.
        rule: the request's `process_rule`; automatic if None.

    Raises:
        ValueError: the rule cannot be used; Dify finds that out after it has answered, while it indexes.
    """
    rules = (rule or {}).get("rules") or {}
    if (rule or {}).get("mode", "automatic") == "automatic":
        return _packed([part for part in _tidy(text).split("\n\n") if part.strip()], _AUTOMATIC * _PER_TOKEN, "\n\n")
    segmentation = rules.get("segmentation") or {}
    most, overlap = int(segmentation.get("max_tokens", _AUTOMATIC)), int(segmentation.get("chunk_overlap") or 0)
    if not _LEAST <= most <= _MOST:
        raise ValueError(f"Custom segment length should be between {_LEAST} and {_MOST}.")
    if overlap > most:
        raise ValueError(f"Got a larger chunk overlap ({overlap}) than chunk size ({most}), should be smaller.")
    if any(one.get("id") == "remove_extra_spaces" and one.get("enabled") for one in rules["pre_processing_rules"]):
        text = _tidy(text)
    separator = str(segmentation.get("separator") or "\n").replace("\\n", "\n")
    return [piece for part in text.split(separator) if part.strip() for piece in _fitting(part.strip(), most)]


def _tidy(text: str) -> str:
    return re.sub(r"[\t\f\r \u00a0\u2000-\u200a\u3000]{2,}", " ", re.sub(r"\n{3,}", "\n\n", text))


def _packed(parts: Sequence[str], most: int, joint: str) -> list[str]:
    """Join parts as long as they fit."""
    out: list[str] = []
    for piece in (piece for part in parts for piece in _fitting(part, most // _PER_TOKEN)):
        if out and len(out[-1]) + len(joint) + len(piece) <= most:
            out[-1] += joint + piece
        else:
            out.append(piece)
    return out


def _fitting(part: str, tokens: int) -> list[str]:
    """Return a part that fits as it is; one that does not is cut at its spaces, which are lost."""
    most = tokens * _PER_TOKEN
    if len(part) <= most:
        return [part]
    out = [""]
    for word in part.split():
        if out[-1] and len(out[-1]) + len(word) > most:
            out.append("")
        out[-1] += word
    return out
