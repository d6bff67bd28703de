"""A finding names file, key and rule; a node is a value of a YAML file that knows where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from context_engine.apps.packaging.files import Files
from context_engine.errors import nearest

__all__ = ["LANGUAGES", "Finding", "Node", "Report", "open_yaml"]

LANGUAGES: Final = ("en_US", "zh_Hans", "ja_JP", "pt_BR")
_NEEDED_LANGUAGES: Final = ("en_US", "zh_Hans")
_LONGEST_TEXT: Final = 1023


@dataclass(frozen=True, slots=True)
class Finding:
    """What breaks a rule.

    Attributes:
        file: path in the package, or the file's name beside it.
        key: the dotted key in it; "" for the file itself.
        rule: the rule's short name.
        message: what is wrong and how to mend it.
    """

    file: str
    key: str
    rule: str
    message: str

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.key) if part)
        return f"{where}: {self.message} [{self.rule}]"

    def to_dict(self) -> dict[str, str]:
        """Return the fields, ready for JSON."""
        return {"file": self.file, "key": self.key, "rule": self.rule, "message": self.message}


@dataclass(slots=True)
class Report:
    """The files under check and what was found."""

    files: Files
    found: list[Finding] = field(default_factory=list)

    def add(self, file: str, key: str, rule: str, message: str) -> None:
        """Add a finding."""
        self.found.append(Finding(file, key, rule, message))

    def asset(self, node: Node) -> None:
        """Check that an icon's file is in `_assets`."""
        if isinstance(node.value, str) and node.value and f"_assets/{node.value}" not in self.files:
            node.fail("icon", f"there is no file _assets/{node.value}")

    def path(self, node: Node) -> bool:
        """Check a path in the package: at most 128 characters, forward slashes, and the file is there."""
        text = node.text(longest=128)
        if text is None:
            return False
        if text not in self.files:
            node.fail("path", f"there is no file {text}, or the ignore file leaves it out")
            return False
        return True


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a YAML file; None where it is not given."""

    report: Report
    file: str
    key: str
    value: Any

    def fail(self, rule: str, message: str) -> None:
        """Report this value."""
        self.report.add(self.file, self.key, rule, message)

    def at(self, name: str) -> Node:
        """Return the value below a key."""
        value = self.value.get(name) if isinstance(self.value, Mapping) else None
        return Node(self.report, self.file, f"{self.key}.{name}" if self.key else name, value)

    def given(self) -> bool:
        """Return whether there is a value; report it as missing otherwise."""
        if self.value is None or self.value == "":
            self.fail("required", "must be given")
            return False
        return True

    def mapping(self, *, required: bool = True) -> bool:
        """Return whether this is a mapping; report what is not."""
        if self.value is None and not required:
            return False
        return self.given() and self._is(Mapping, "a mapping")

    def items(self) -> list[Node]:
        """Return the items of a list; an item is called by its name or its place; [] where there is none."""
        if self.value is None or not self._is(list, "a list"):
            return []
        out: list[Node] = []
        for index, value in enumerate(self.value):
            name = value.get("name") if isinstance(value, Mapping) else None
            out.append(Node(self.report, self.file, f"{self.key}.{name if isinstance(name, str) else index}", value))
        return out

    def text(
        self, *, required: bool = True, longest: int | None = None, pattern: str | None = None, example: str = ""
    ) -> str | None:
        """Return a text that keeps its rules, else None."""
        if self.value is None and not required:
            return None
        if not self.given() or not self._is(str, "text: put it in quotes"):
            return None
        text: str = self.value
        if longest is not None and len(text) > longest:
            self.fail("length", f"has {len(text)} characters, at most {longest} are allowed")
            return None
        if pattern is not None and not re.fullmatch(pattern, text):
            self.fail("pattern", f"{text!r} does not match {pattern}{f', e.g. {example}' if example else ''}")
            return None
        return text

    def choice(self, valid: Iterable[str], *, required: bool = True) -> str | None:
        """Return one of the valid words, else None."""
        text, words = self.text(required=required), tuple(valid)
        if text is not None and text not in words:
            self.fail("choice", f"{text!r} is not accepted.{nearest(text, words)}")
            return None
        return text

    def flag(self) -> None:
        """Check that it is true, false or not given."""
        if self.value is not None:
            self._is(bool, "true or false")

    def number(self, *, whole: bool = False) -> float | None:
        """Return a number, None where it is not given or none."""
        if self.value is None:
            return None
        right = isinstance(self.value, int if whole else int | float) and not isinstance(self.value, bool)
        if not right:
            self.fail("type", f"must be a {'whole ' if whole else ''}number, got {self.value!r}")
            return None
        return float(self.value)

    def languages(self, *, required: bool = True) -> None:
        """Check a text in several languages: en_US and zh_Hans needed, 1 to 1023 characters each."""
        if not self.mapping(required=required):
            return
        for name in (*_NEEDED_LANGUAGES, *(key for key in self.value if key not in _NEEDED_LANGUAGES)):
            one = self.at(str(name))
            if name not in LANGUAGES:
                one.fail("language", f"is no language that Dify reads.{nearest(str(name), LANGUAGES)}")
            else:
                one.text(longest=_LONGEST_TEXT)

    def _is(self, kind: type | tuple[type, ...], what: str) -> bool:
        if isinstance(self.value, kind):  # type: ignore[arg-type, unused-ignore]
            return True
        self.fail("type", f"must be {what}, got {self.value!r}"[:200])
        return False


def open_yaml(report: Report, file: str) -> Node | None:
    """Return the top of a YAML file; report it and return None where it cannot be used."""
    if file not in report.files:
        report.add(file, "", "file", "is missing")
        return None
    try:
        value = yaml.load(report.files[file].decode("utf-8"), _Loader)
    except UnicodeDecodeError:
        report.add(file, "", "yaml", "is not UTF-8 text")
        return None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        report.add(file, "", "yaml", f"is not usable YAML: {' '.join(str(error).split())}")
        return None
    node = Node(report, file, "", value)
    return node if node.mapping() else None


class _Loader(yaml.SafeLoader):
    """Safe; times stay as they are written, and a key given twice is refused as Dify refuses it."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark)
            seen.add(key.value if isinstance(key.value, str) else "")
        return node


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
