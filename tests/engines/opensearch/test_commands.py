"""A bank in OpenSearch: the commands teach it, copy it, prove its access and rehearse changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.engines.postgres.test_commands import copied_and_back, ingested, prove, rehearse
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


def copies(url: str) -> list[str]:
    indices = httpx.get(f"{url}/_cat/indices?format=json").json()
    return [index["index"] for index in indices if index["index"].startswith("context_engine_copy_")]


def test_its_documents_are_copied_with_vectors_and_adapters(bank: str) -> None:
    copied_and_back("opensearch")


def test_its_answers_are_proved_and_nothing_is_left(bank: str) -> None:
    prove("opensearch")
    assert copies(bank) == []


def test_a_rehearsal_ingests_into_a_copy_and_leaves_nothing(bank: str) -> None:
    rehearse()
    assert copies(bank) == []
