"""`dify_kb_adapter`, made from a configuration, behind the dict API."""

import pytest

from context_engine.errors import DegradedRetrieval
from context_engine.rag import dify_kb_adapter, retrieve
from context_engine.testing import FakeDataset, FakeDify, FakeDocument, FakeSegment


@pytest.fixture
def dify(tmp_path, monkeypatch):
    limit = FakeDocument("limits.md", [FakeSegment("The approval limit of the Rates desk is 5 % of the book.")])
    blog = FakeDocument("blog.md", [FakeSegment("Most desks let the approval limit of a book run to 9 %.")])
    with FakeDify([FakeDataset("sops", documents=[limit]), FakeDataset("web", documents=[blog])]) as server:
        (tmp_path / "manifests").mkdir()
        (tmp_path / "connections.yaml").write_text(f"d:\n  base_url: {server.base_url}/v1\n  api_key: ${{KEY}}\n")
        sources = "".join(
            f"  - {{id: {name}, type: {kind}, adapter: dify, connection: d, "
            f"dataset_ids: [{server.dataset_id(name)}]}}\n"
            for name, kind in (("sops", "bank_sop"), ("web", "general_web"))
        )
        (tmp_path / "manifests" / "desk.yaml").write_text(f"version: 1\ndomain: DESK\nsources:\n{sources}")
        monkeypatch.setenv("KEY", server.api_key)
        yield server, tmp_path


def test_A7_a_domain_is_searched_over_its_datasets(dify):
    _, folder = dify
    adapter = dify_kb_adapter(config_dir=folder)
    found = retrieve("approval limit of the Rates desk", "DESK", {"adapter": adapter})
    assert [chunk["source_id"] for chunk in found] == ["sops", "web"]
    assert [chunk["authority_tier"] for chunk in found] == [2, 5]
    assert found[0]["_provenance"]["extra"]["dataset_id"]
    adapter.close()


def test_A7_a_dataset_that_is_down_is_said_and_the_other_answers(dify):
    server, folder = dify
    server.inject("status_500", dataset=server.dataset_id("web"))
    adapter = dify_kb_adapter(config_dir=folder)
    with pytest.warns(DegradedRetrieval, match="web"):
        found = retrieve("approval limit of the Rates desk", "DESK", {"adapter": adapter})
    assert [chunk["source_id"] for chunk in found] == ["sops"]
    adapter.close()
