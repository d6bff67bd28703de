"""Without its framework a retriever names the extra to install."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from context_engine.errors import MissingExtra


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("langchain", "langchain_core", "langchain"),
        ("langgraph", "langgraph", "langgraph"),
        ("llamaindex", "llama_index", "llamaindex"),
        ("haystack", "haystack", "haystack"),
    ],
)
def test_a_missing_framework_is_named_with_its_extra(module, package, extra, monkeypatch):
    name = f"context_engine.apps.integrations.{module}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    for installed in [other for other in sys.modules if other.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, installed)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"dify-context-engine\[{extra}\]"):
        import_module(name)
