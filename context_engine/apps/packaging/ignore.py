"""What stays out of a package: `.difyignore`, else `.gitignore`, else nothing; a line with `!` has no effect."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

IGNORE_FILES = (".difyignore", ".gitignore")


@dataclass(frozen=True, slots=True)
class Ignore:
    """Patterns of one file, as (regular expression, matches folders alone)."""

    patterns: tuple[tuple[re.Pattern[str], bool], ...] = ()

    def matches(self, path: str, *, folder: bool) -> bool:
        """Return whether a path is left out; a folder that is takes all below it with it.

        Args:
            path: relative to the plugin's folder, forward slashes.
            folder: whether it is a folder.
        """
        return any(pattern.fullmatch(path) for pattern, folders in self.patterns if folder or not folders)


def read_ignore(text: str) -> Ignore:
    """Return the patterns of an ignore file."""
    return Ignore(tuple(_pattern(line) for line in _lines(text) if not line.startswith("!")))


def negations(text: str) -> list[str]:
    """Return the lines that mean to take something back in and do nothing."""
    return [line for line in _lines(text) if line.startswith("!")]


def _lines(text: str) -> Iterable[str]:
    return (line for raw in text.splitlines() if (line := raw.strip()) and not line.startswith("#"))


def _pattern(line: str) -> tuple[re.Pattern[str], bool]:
    folders, body = line.endswith("/"), line.rstrip("/")
    anchored = "/" in body
    parts = [part for part in body.split("/") if part]
    out = "" if anchored else "(?:.*/)?"
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            out += ".+" if last else "(?:.*/)?"
        else:
            out += _segment(part) + ("" if last else "/")
    return re.compile(out), folders


def _segment(part: str) -> str:
    out, index = "", 0
    while index < len(part):
        char = part[index]
        end = part.find("]", index + 2) if char == "[" else -1
        if char == "*":
            out += "[^/]*"
        elif char == "?":
            out += "[^/]"
        elif end > 0:
            inner = part[index + 1 : end].replace("\\", "\\\\")
            out += f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]"
            index = end
        elif char == "\\" and index + 1 < len(part):
            index += 1
            out += re.escape(part[index])
        else:
            out += re.escape(char)
        index += 1
    return out
