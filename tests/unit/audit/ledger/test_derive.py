"""What records are looked up by is text that every database stores, whatever a record says."""

import json
import zlib
from typing import Any

import pytest

from context_engine.audit.ledger.derive import FATES, ChunkIdentity, derive_mentions
from context_engine.audit.record.candidates import candidates_addendum

SHA = "ab" * 32


def mentions(**changed: Any) -> dict[ChunkIdentity, int]:
    fates = {
        "source_id": ["s"],
        "chunk_id": ["c"],
        "outcome": ["merged"],
        "document_id": ["d"],
        "document_version": [None],
        "content_sha256": [SHA],
    }
    fates |= {name: [value] for name, value in changed.items()}
    data = candidates_addendum({"v": 1, "fates": fates}, []).data
    return derive_mentions({"kind": "search"}, data)


def test_a_plain_mention_is_what_the_record_says() -> None:
    assert mentions() == {ChunkIdentity("s", "c", "d", None, bytes.fromhex(SHA)): FATES.index("merged")}


@pytest.mark.parametrize(
    ("changed", "stored"),
    [
        ({"chunk_id": "Größe"}, {"chunk_id": "Größe"}),
        ({"chunk_id": "a\x00b"}, {"chunk_id": "a\ufffdb"}),
        ({"document_id": "a\ud800b"}, {"document_id": "a?b"}),
        ({"document_id": 7}, {"document_id": None}),
        ({"source_id": None}, {"source_id": ""}),
        ({"chunk_id": ["x"]}, {"chunk_id": ""}),
    ],
)
def test_what_a_database_cannot_store_is_made_such_that_it_can(changed: Any, stored: Any) -> None:
    [plain] = mentions()
    assert mentions(**changed) == {plain._replace(**stored): FATES.index("merged")}


@pytest.mark.parametrize("fate", [None, "later", ["x"], 0])
def test_a_fate_that_is_not_known_is_another(fate: Any) -> None:
    assert list(mentions(outcome=fate).values()) == [len(FATES)]


def test_of_a_chunk_that_a_record_names_twice_the_best_is_told() -> None:
    names = ("source_id", "chunk_id", "document_id", "document_version")
    fates: dict[str, Any] = {name: ["c"] * 3 for name in names}
    fates |= {"outcome": ["dropped", "returned", "merged"], "content_sha256": [None] * 3}
    data = candidates_addendum({"v": 1, "fates": fates}, []).data
    assert derive_mentions({"kind": "search"}, data) == {
        ChunkIdentity("c", "c", "c", "c", None): FATES.index("returned")
    }


def test_a_record_that_cannot_be_read_mentions_what_its_entry_lists() -> None:
    data = zlib.compress(json.dumps({"v": 1}).encode())
    entry = {"kind": "search", "chunks": [{"source": "s", "chunk": "c", "version": 3}]}
    assert derive_mentions(entry, data) == {ChunkIdentity("s", "c", None, None, None): FATES.index("returned")}
