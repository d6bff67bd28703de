"""The documents that a caller may read: their list, part by part, and the file of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import Principal
from context_engine.errors import FetchUnsupported, InvalidRequest, SourceError, UnknownDomain
from context_engine.ingest.header import front_matter
from context_engine.service import documents
from context_engine.service.deployment import Deployment
from context_engine.service.documents import DocumentKey, document_file, list_documents
from context_engine.wiring.audit_writers import close_writers
from tests.unit.service.small_bank import CHAIR, CLERK, small_bank

OFF = {"CONTEXT_ENGINE_AUDIT_LEDGER": ""}
FRONT = (
    "---\ndocument_id: LIM\ntitle: '{title}'\nversion: '{version}'\neffective_from: 2026-01-01\nowner: Desk\n---\n\n"
)
LIMITS = "\n\n".join(
    ("# 1 Limits", *(f"## 1.{n} Limit {n}\n\n" + " ".join([f"Limit {n} is signed."] * 60) for n in range(1, 7)))
)
DOCUMENTS = {
    "rules/a.md": FRONT.format(title="Limits: 3/4", version="3.10") + "\n" + LIMITS + "\n",
    "rules/b.md": FRONT.format(title="Limits", version="3.9") + "\n# 1 Limits\n\nAn earlier limit.\n",
    "rules/c.md": "---\nclassification: restricted\n---\n\n# 1 Raids\n\nA raid is kept secret.\n",
    "rules/d.md": "# 1 Fines\n\nA fine is paid to jane.doe@harbour.example.\n",
    "board/minutes.md": "# 1 Minutes\n\nThe board wants each loss event reported.\n",
}


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    deployment = small_bank(tmp_path_factory.mktemp("bank"), documents=DOCUMENTS, env=OFF)
    yield deployment
    deployment.close()


def listed(bank: Deployment, principal: Principal = CLERK, source: str = "sops", most: int = 100) -> list[str]:
    """The keys of all parts of a list."""
    keys: list[str] = []
    after = None
    while True:
        page = list_documents(bank, principal, "ORM", source, after=after, most=most)
        assert len(page.files) <= most
        keys += [str(file.key) for file in page.files]
        if page.after is None:
            return keys
        assert page.after == page.files[-1].key
        after = DocumentKey.read(str(page.after))


def test_a_caller_sees_each_version_of_what_it_may_read(bank: Deployment) -> None:
    assert listed(bank) == ["sops/LIM/3.10", "sops/LIM/3.9", "sops/d/"]
    assert listed(bank, CHAIR) == ["sops/LIM/3.10", "sops/LIM/3.9", "sops/c/", "sops/d/"]
    assert listed(bank, CHAIR, "board") == ["board/minutes/"]
    assert listed(bank, source="web") == []


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_the_parts_of_a_list_are_the_list(bank: Deployment, most: int) -> None:
    for principal in (CLERK, CHAIR):
        assert listed(bank, principal, most=most) == listed(bank, principal)


def test_what_may_not_be_read_does_not_exist(bank: Deployment) -> None:
    with pytest.raises(InvalidRequest, match=r"no source 'board' that you may search. Valid: sops, web."):
        listed(bank, source="board")
    with pytest.raises(UnknownDomain):
        list_documents(bank, CLERK, "NPA", "sops", after=None, most=1)
    for key in (("sops", "c", ""), ("board", "minutes", ""), ("sops", "LIM", "4"), ("sops", "x", "")):
        with pytest.raises((InvalidRequest, SourceError)):
            document_file(bank, CLERK, "ORM", DocumentKey(*key))


def test_a_file_is_the_text_below_its_origin(bank: Deployment) -> None:
    file = document_file(bank, CLERK, "ORM", DocumentKey("sops", "LIM", "3.10"))
    text = file.content.decode()
    fields, begin = front_matter(text)
    assert text[begin:].strip() == LIMITS
    assert {name: str(fields[name]) for name in ("document_id", "title", "version", "effective_from", "owner")} == {
        "document_id": "LIM",
        "title": "Limits: 3/4",
        "version": "3.10",
        "effective_from": "2026-01-01",
        "owner": "Desk",
    }
    assert (fields["source"], fields["source_type"], fields["authority_tier"]) == ("sops", "bank_sop", 2)
    assert (fields["doc_type"], fields["classification"], fields["trust_class"]) == (
        "sop_document",
        "internal",
        "TRUSTED",
    )
    assert fields.keys() & {"token_count", "section_number", "line", "content_sha256"} == set()
    assert file.name == "Limits 3 4 (3.10).md"


def test_a_list_says_what_a_download_gives(bank: Deployment) -> None:
    for file in list_documents(bank, CHAIR, "ORM", "sops", after=None, most=10).files:
        assert document_file(bank, CHAIR, "ORM", file.key) == file


@pytest.mark.slow
def test_a_download_is_recorded_and_a_list_is_not(tmp_path: Path) -> None:
    recording = small_bank(tmp_path, documents=DOCUMENTS, settings={"audit_mode": "required"})
    (*_, file) = list_documents(recording, CLERK, "ORM", "sops", after=None, most=10).files
    document_file(recording, CLERK, "ORM", file.key)
    ledger = recording.ledger.opened()
    assert ledger is not None
    ledger.integrate()
    (entry,) = [json.loads(one.entry or b"") for one in ledger.entries(0, ledger.size)]
    assert (entry["kind"], entry["domain"]) == ("fetch", "ORM")
    recording.close()
    close_writers()


@pytest.mark.slow
def test_a_domain_that_masks_gives_pseudonyms(tmp_path: Path) -> None:
    named = {"rules/d.md": "# 1 Fines of jane.doe@harbour.example\n\nWrite to jane.doe@harbour.example.\n"}
    masking = small_bank(tmp_path, documents=named, env=OFF, settings={"mask_contexts": True})
    (file,) = list_documents(masking, CLERK, "ORM", "sops", after=None, most=1).files
    assert document_file(masking, CLERK, "ORM", file.key) == file
    assert "jane.doe" not in f"{file.name} {file.content.decode()}" and "# 1 Fines of" in file.content.decode()
    masking.close()


def test_a_file_that_is_too_large_is_refused(bank: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_BYTES", 1000)
    with pytest.raises(InvalidRequest, match=r"Limits 3 4 \(3.10\).md has [\d,]+ bytes, at most 1,000 are allowed"):
        document_file(bank, CLERK, "ORM", DocumentKey("sops", "LIM", "3.10"))


def test_a_source_that_cannot_list_is_named(bank: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "offered", lambda *_: None)
    with pytest.raises(FetchUnsupported, match="its adapter 'local' cannot list its documents"):
        listed(bank)


def test_a_base_that_is_not_there_is_a_failure_of_the_source(bank: Deployment, tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        listed(replace(bank, data_dir=tmp_path))


@given(st.tuples(*[st.text("a/% .@é\n", max_size=6)] * 3))
def test_a_key_is_read_as_it_was_written(parts: tuple[str, str, str]) -> None:
    key = DocumentKey(*parts)
    assert DocumentKey.read(str(key)) == key


@pytest.mark.parametrize("text", ["", "a", "a/b", "a/b/c/d"])
def test_another_text_is_no_key(text: str) -> None:
    with pytest.raises(InvalidRequest, match="list the documents again"):
        DocumentKey.read(text)
