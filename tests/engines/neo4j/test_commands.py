"""A bank in Neo4j: the commands teach it, copy it, prove its access and rehearse changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.engines.neo4j.conftest import Store
from tests.engines.postgres.test_commands import copied_and_back, ingested, prove, rehearse
from tests.engines.postgres.test_commands import (
    test_an_adapter_is_learnt_seen_by_searches_switched_and_replayed as test_an_adapter_is_learnt_and_switched,
)
from tests.neo4j_server import PASSWORD

__all__ = ["test_an_adapter_is_learnt_and_switched"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bank(server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A bank in the store that is yielded."""
    connection = {"base_url": server.url, "user": "neo4j", "api_key": PASSWORD}
    patient = {"deadline_s": 240.0, "source_timeout_s": 120.0}  # a new server plans for long
    home = tmp_path_factory.mktemp("bank")
    with ingested(home, "neo4j", {"store": connection}, audit_mode="required", **patient):
        yield Store(server.url, name="context_engine")


def copies(bank: Store) -> list[str]:
    labels = bank.ask("CALL db.labels() YIELD label WHERE label CONTAINS '_copy_' RETURN label")
    return labels + bank.ask("SHOW INDEXES YIELD name WHERE name CONTAINS '_copy_' RETURN name")


def test_its_documents_are_copied_with_vectors_and_adapters(bank: Store) -> None:
    copied_and_back("neo4j")


def test_its_answers_are_proved_and_nothing_is_left(bank: Store) -> None:
    prove("neo4j")
    assert copies(bank) == []


def test_a_rehearsal_ingests_into_a_copy_and_leaves_nothing(bank: Store) -> None:
    rehearse()
    assert copies(bank) == []
