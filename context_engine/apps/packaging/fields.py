"""Rules that form fields share: credentials, endpoint settings and tool parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from context_engine.apps.packaging.findings import Node

_MODEL_SCOPES: Final = frozenset(
    {"llm", "text-embedding", "rerank", "tts", "speech2text", "moderation", "vision", "document", "tool-call"}
)
_APP_SCOPES: Final = frozenset({"all", "chat", "workflow", "completion"})
_MOST_OPTIONS: Final = 127


def check_field(node: Node) -> None:
    """Check one credential or one setting of an endpoint."""
    kind = node.at("type").text()
    node.at("required").flag()
    node.at("multiple").flag()
    for name in ("label", "help", "placeholder"):
        node.at(name).languages()
    check_scope(node, kind)
    check_options(node, kind)
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


def check_options(node: Node, kind: str | None) -> None:
    """Check the options of a select, and that its default is one of them."""
    options = node.at("options")
    if kind == "select" and not options.value:
        options.fail("options", "a select needs options")
        return
    values: list[str] = []
    for option in options.items():
        value = option.at("value").text(longest=127)
        option.at("label").languages()
        option.report.asset(option.at("icon"))
        if value is not None and value in values:
            option.at("value").fail("options", f"{value!r} appears twice")
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
    text = scope.text(longest=1024)
    if text is None or kind is None or kind == "any":
        return
    valid = {"app-selector": _APP_SCOPES, "model-selector": _MODEL_SCOPES}.get(kind)
    if valid is None:
        scope.fail("scope", f"cannot be set on a field of type {kind}")
        return
    for word in text.split("&"):
        if word.strip() not in valid:
            scope.fail("scope", f"{word.strip()!r} is no scope of a {kind}. Valid: {', '.join(sorted(valid))}.")
