"""The adapter without its extra."""

from __future__ import annotations

import sys

import pytest

from context_engine.adapters.sources.postgres import open_postgres
from context_engine.errors import MissingExtra

pytest.importorskip("psycopg")

from tests.postgresql_store import Store


def test_without_psycopg_a_source_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store("postgresql://user:word@127.0.0.1:1/base")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"dify-context-engine\[postgres\]"):
        open_postgres(store.spec(), store.context())
