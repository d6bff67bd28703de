"""Chunks of an embedded base by their ids: what stands there now, and nothing that was replaced or is not for all."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace, places
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Classification,
    FetchRequest,
    SourceSpec,
    SourceType,
)
from context_engine.errors import RepartitionRequired, SourceNotFound, SourceUnavailable

SPEC = SourceSpec(id="sop", type=SourceType.BANK_SOP, classification=Classification.INTERNAL)
NOBODY = AccessScope()
CLEARED = AccessScope(clearance=Classification.RESTRICTED)


def put(base: LocalBase, document_id: str, version: str, *texts: str, source_id: str = "sop", **fields) -> None:
    chunks = [Chunk(content=text, chunk_id=f"{document_id}#{n}", position=n, **fields) for n, text in enumerate(texts)]
    with base.writer() as writer:
        writer.put(source_id, document_id, version, str(hash(texts)), chunks)


def fetch(base: LocalBase, *chunk_ids: str, documents: tuple[str, ...] = (), access: AccessScope | None = None):
    request = FetchRequest(domain="NPA", chunk_ids=chunk_ids, document_ids=documents, access=access)
    return [(chunk.chunk_id, chunk.content) for chunk in LocalSource(base, "sop").fetch(request)]


def test_chunks_come_as_they_stand_now(base):
    put(base, "limits", "1", "The limit is 5 million.", "It is reviewed in May.")
    assert fetch(base, "limits#1") == [("limits#1", "It is reviewed in May.")]
    put(base, "limits", "1", "The limit is 7 million.")
    assert fetch(base, "limits#0", "limits#1") == [("limits#0", "The limit is 7 million.")]


def test_a_document_that_was_deleted_is_not_there(base):
    put(base, "limits", "1", "The limit is 5 million.")
    with base.writer() as writer:
        writer.delete("sop", "limits", "1")
    assert fetch(base, "limits#0", documents=("limits",)) == []


def test_all_versions_of_a_document_come(base):
    with base.writer() as writer:
        for version, amount in (("1", 5), ("2", 7)):
            chunk = Chunk(content=f"The limit is {amount} million.", chunk_id=f"limits@{version}")
            writer.put("sop", "limits", version, version, [chunk])
    request = FetchRequest(domain="NPA", document_ids=("limits",))
    found = LocalSource(base, "sop").fetch(request)
    assert [(chunk.document_version, chunk.content) for chunk in found] == [
        ("1", "The limit is 5 million."),
        ("2", "The limit is 7 million."),
    ]


def test_another_source_of_the_base_has_its_own_chunks(base):
    put(base, "limits", "1", "The limit is 5 million.", source_id="web")
    put(base, "other", "1", "Something else.")
    assert fetch(base, "limits#0", documents=("limits",)) == []


def test_many_ids_are_fetched_together(base):
    put(base, "limits", "1", *(f"Rule {n} of the desk." for n in range(2000)))
    asked = [f"limits#{n}" for n in range(0, 2000, 2)] + ["nothing"]
    assert len(fetch(base, *asked)) == 1000


def test_what_is_raised_above_the_caller_is_as_if_it_were_not_there(tmp_path: Path):
    base = LocalBase(tmp_path / "base", place=places([SPEC], lambda _: ""))
    put(base, "open", "1", "Everybody may read this.")
    put(base, "secret", "1", "The board alone may read this.", classification=Classification.RESTRICTED)
    wanted = ("open", "secret")
    assert fetch(base, documents=wanted, access=NOBODY) == [("open#0", "Everybody may read this.")]
    assert fetch(base, "secret#0", access=NOBODY) == []
    assert [found for found, _ in fetch(base, documents=wanted, access=CLEARED)] == ["open#0", "secret#0"]


def test_a_base_whose_rules_have_changed_is_refused_as_a_search_of_it_is(base):
    put(base, "limits", "1", "The limit is 5 million.")
    moved = LocalSource(base, "sop", spec=SPEC, place=SourcePlace('{"roles":["board"]}', Classification.INTERNAL))
    with pytest.raises(RepartitionRequired, match="kb repartition"):
        moved.fetch(FetchRequest(domain="NPA", chunk_ids=("limits#0",)))


def test_where_there_is_no_base_nothing_can_be_said(tmp_path: Path):
    with pytest.raises(SourceNotFound):
        LocalSource(tmp_path / "none", "sop").fetch(FetchRequest(domain="NPA", chunk_ids=("limits#0",)))


def test_a_damaged_base_says_so(base, folder):
    put(base, "limits", "1", "The limit is 5 million.")
    base.close()
    (folder / "base.sqlite3").write_bytes(b"not a database" * 1000)
    with pytest.raises(SourceUnavailable, match="damaged"):
        LocalSource(folder, "sop").fetch(FetchRequest(domain="NPA", chunk_ids=("limits#0",)))
