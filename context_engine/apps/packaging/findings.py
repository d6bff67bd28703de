"""The findings of the plugin check, and the YAML values (nodes, which know their file and key) that it examines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from context_engine.apps.packaging.files import Files
from context_engine.errors import nearest

LANGUAGES: Final = ("en_US", "zh_Hans", "ja_JP", "pt_BR")
_LEAST_LANGUAGES: Final = ("zh_Hans",)
_LONGEST_TEXT: Final = 1023


@dataclass(frozen=True, slots=True)
class PluginFinding:
    """A broken rule.

    Attributes:
        file: path in the package, or the name of a file beside it.
        key: the dotted key in the file; "" for the file itself.
        rule: the rule's short name.
        message: the problem and how to fix it.
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
class PluginReport:
    """The files under check, and the findings.

    Attributes:
        languages: in which every text must be given, beside en_US, which the SDK requires.
    """

    files: Files
    findings: list[PluginFinding] = field(default_factory=list)
    languages: tuple[str, ...] = _LEAST_LANGUAGES

    def add(self, file: str, key: str, rule: str, message: str) -> None:
        """Add a finding."""
        self.findings.append(PluginFinding(file, key, rule, message))

    def require_languages(self, texts: Iterable[Node]) -> None:
        """Require every text in each language in which one of these texts is given.

        Dify shows English where a language is missing, so a form would mix two languages.
        """
        given = {name for text in texts if isinstance(text.value, Mapping) for name in text.value}
        least = (*_LEAST_LANGUAGES, *(name for name in LANGUAGES if name in given))
        self.languages = tuple(dict.fromkeys(name for name in least if name != "en_US"))

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
    """A value of a YAML file; its value is None if absent."""

    report: PluginReport
    file: str
    key: str
    value: Any

    def fail(self, rule: str, message: str) -> None:
        """Report a problem with this value."""
        self.report.add(self.file, self.key, rule, message)

    def at(self, name: str) -> Node:
        """Return the value below a key."""
        value = self.value.get(name) if isinstance(self.value, Mapping) else None
        return Node(self.report, self.file, f"{self.key}.{name}" if self.key else name, value)

    def is_present(self) -> bool:
        """Return whether there is a value, and report a missing one."""
        if self.value is None or self.value == "":
            self.fail("required", "must be given")
            return False
        return True

    def items(self) -> list[Node]:
        """Return the items of a list, labelled by name or position; [] if absent."""
        out: list[Node] = []
        for index, value in enumerate(self.value if isinstance(self.value, list) else ()):
            name = value.get("name") if isinstance(value, Mapping) else None
            out.append(Node(self.report, self.file, f"{self.key}.{name if isinstance(name, str) else index}", value))
        return out

    def entries(self) -> list[Node]:
        """Return the values of a mapping; [] if absent."""
        return [self.at(str(name)) for name in self.value] if isinstance(self.value, Mapping) else []

    def text(self, *, longest: int | None = None, pattern: str | None = None, example: str = "") -> str | None:
        """Return the text if it satisfies the rules, or None."""
        if not isinstance(self.value, str) or not self.value:
            return None
        if longest is not None and len(self.value) > longest:
            self.fail("length", f"has {len(self.value)} characters, at most {longest} are allowed")
            return None
        if pattern is not None and not re.fullmatch(pattern, self.value):
            self.fail("pattern", f"{self.value!r} does not match {pattern}{f', e.g. {example}' if example else ''}")
            return None
        return self.value

    def choice(self, valid: Iterable[str]) -> str | None:
        """Return the value if it is one of the valid words, or None."""
        text, words = self.text(), tuple(valid)
        if text is not None and text not in words:
            self.fail("choice", f"{text!r} is not accepted.{nearest(text, words)}")
            return None
        return text

    def flag(self) -> None:
        """Check that it is true, false or absent: unlike the SDK, Dify refuses 1 and "yes"."""
        if self.value is not None and not isinstance(self.value, bool):
            self.fail("type", f"must be true or false, got {self.value!r}"[:200])

    def number(self) -> float | None:
        """Return a number, or None if it is absent or not a number."""
        is_number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        return float(self.value) if is_number else None

    def languages(self) -> None:
        """Check a text in several languages: those of the report are required, with at most 1023 characters each."""
        if not isinstance(self.value, Mapping):
            return
        for language in self.report.languages:
            if self.at(language).value in (None, ""):
                why = "" if language in _LEAST_LANGUAGES else f": manifest.yaml has texts in {language}"
                self.at(language).fail("required", f"must be given{why}")
        for entry in self.entries():
            name = entry.key.rsplit(".", 1)[-1]
            if name not in LANGUAGES:
                entry.fail("language", f"is not a language that Dify reads.{nearest(name, LANGUAGES)}")
            else:
                entry.text(longest=_LONGEST_TEXT)


def open_yaml(report: PluginReport, file: str) -> Node | None:
    """Return the top of a YAML file; if it is unusable, report it and return None."""
    if file not in report.files:
        report.add(file, "", "file", "is missing")
        return None
    try:
        value = yaml.load(report.files[file].decode("utf-8"), _PluginYamlLoader)
    except UnicodeDecodeError:
        report.add(file, "", "yaml", "is not UTF-8 text")
        return None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        report.add(file, "", "yaml", f"is not usable YAML: {' '.join(str(error).split())}")
        return None
    if isinstance(value, Mapping):
        return Node(report, file, "", value)
    report.add(file, "", "yaml", "must hold keys with values")
    return None


class _PluginYamlLoader(yaml.SafeLoader):
    """A safe loader that keeps times as text and, like Dify, refuses duplicate keys."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} appears twice", problem_mark=key.start_mark)
            seen.add(key.value if isinstance(key.value, str) else "")
        return node


_PluginYamlLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
