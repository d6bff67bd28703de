"""A store in OpenSearch finds texts and compares vectors as the embedded base does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.parity import AdapterParity, TextParity

pytestmark = pytest.mark.slow


class TestText(TextParity):
    def reopened(self, store: Any, **settings: Any) -> Any:
        return type(store)(store.connection.base_url, store.embedder, **settings)


class TestAdapters(AdapterParity):
    pass
