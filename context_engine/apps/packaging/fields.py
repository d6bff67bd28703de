"""Rules that form fields share: credentials, endpoint settings and tool parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from context_engine.apps.packaging.findings import Node

__all__ = ["check_field", "check_options", "check_scope", "source_of"]

FIELD_TYPES: Final = (
    "secret-input",
    "text-input",
    "select",
    "boolean",
    "app-selector",
    "model-selector",
    "array[tools]",
)
_MODEL_SCOPES: Final = frozenset(
    {"llm", "text-embedding", "rerank", "tts", "speech2text", "moderation", "vision", "document", "tool-call"}
)
_APP_SCOPES: Final = frozenset({"all", "chat", "workflow", "completion"})
_MOST_OPTIONS: Final = 127


def check_field(node: Node) -> None:
    """Check one credential or one setting of an endpoint."""
    if not node.mapping():
        return
    kind = node.at("type").choice(FIELD_TYPES)
    node.at("required").flag()
    node.at("multiple").flag()
    node.at("label").languages()
    for name in ("help", "placeholder"):
        node.at(name).languages(required=False)
    node.at("url").text(required=False)
    check_scope(node, kind)
    check_options(node, kind, needed=kind == "select")
    _check_default(node, kind)


def _check_default(node: Node, kind: str | None) -> None:
    default = node.at("default")
    if default.value is None:
        return
    if kind == "secret-input":
        default.fail("default", "a secret must have no default: it would ship with the package")
    elif kind == "boolean" and not isinstance(default.value, bool):
        default.fail("default", f"must be true or false, got {default.value!r}")
    elif kind in ("text-input", "select") and not isinstance(default.value, str):
        default.fail("default", f"must be text: put it in quotes, got {default.value!r}")
    elif isinstance(default.value, Mapping):
        default.fail("default", "must be text, a number, true or false")


def check_options(node: Node, kind: str | None, *, needed: bool, icons: bool = False) -> None:
    """Check the options of a select, and that its default is one of them."""
    options = node.at("options")
    if needed and not options.value:
        options.fail("options", "a select needs options")
        return
    values: list[str] = []
    for option in options.items():
        if not option.mapping():
            continue
        value = option.at("value").text(longest=127)
        option.at("label").languages()
        if icons and option.at("icon").text(required=False):
            option.report.asset(option.at("icon"))
        if value is not None and value in values:
            option.at("value").fail("options", f"{value!r} stands twice")
        values.append(value or "")
    if len(values) > _MOST_OPTIONS:
        options.fail("options", f"has {len(values)} options, at most {_MOST_OPTIONS} are allowed")
    default = node.at("default").value
    given = default if isinstance(default, list) else [default]
    for one in given if kind == "select" and default is not None else ():
        if isinstance(one, str) and values and "" not in values and one not in values:
            node.at("default").fail("default", f"{one!r} is not among the options {', '.join(values)}")


def check_scope(node: Node, kind: str | None) -> None:
    """Check a scope: it stands on an app-selector, a model-selector or a parameter of type any."""
    scope = node.at("scope")
    text = scope.text(required=False, longest=1024)
    if text is None or kind is None or kind == "any":
        return
    valid = {"app-selector": _APP_SCOPES, "model-selector": _MODEL_SCOPES}.get(kind)
    if valid is None:
        scope.fail("scope", f"cannot stand on a field of type {kind}")
        return
    for word in text.split("&"):
        if word.strip() not in valid:
            scope.fail("scope", f"{word.strip()!r} is no scope of a {kind}. Valid: {', '.join(sorted(valid))}.")


def source_of(node: Node) -> str | None:
    """Return the Python file behind a YAML file, None where it is not named or not there."""
    source = node.at("extra").at("python").at("source")
    return source.value if source.report.path(source) else None
