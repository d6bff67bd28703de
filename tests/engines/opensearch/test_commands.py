"""A bank in OpenSearch: the commands teach it and switch what it learnt, and its documents are copied to a folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.engines.postgres.test_commands import ingested, ok
from tests.engines.postgres.test_commands import (
    test_an_adapter_is_learnt_seen_by_searches_switched_and_replayed as test_an_adapter_is_learnt_and_switched,
)

__all__ = ["test_an_adapter_is_learnt_and_switched"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bank(node: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A bank on a node, whose address is yielded."""
    home = tmp_path_factory.mktemp("bank")
    with ingested(home, "opensearch", {"store": {"base_url": node.url}}, audit_mode="required"):
        yield node.url


def test_its_documents_are_copied_with_their_vectors(bank: str) -> None:
    (copied,) = ok("kb", "copy", "--from", "opensearch", "--to", "local", "--json")["domains"]
    assert copied["same"] and copied["adapters_left"]
    assert {source["source_id"]: source["documents"] for source in copied["sources"]}["policies"] > 1
    (back,) = ok("kb", "copy", "--from", "local", "--to", "opensearch", "--connection", "store", "--json")["domains"]
    assert back["same"] and not any(source["written"] for source in back["sources"])
