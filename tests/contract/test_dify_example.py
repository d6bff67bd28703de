"""The example of a domain in Dify, as somebody uses it: copied, its ids put in, searched."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.apps.cli.config import write_scaffold
from context_engine.core.models import Decision, SearchRequest, Status
from context_engine.settings import find_config
from context_engine.testing import FakeDataset, FakeDify, FakeDocument
from context_engine.wiring.build import build_engine
from context_engine.wiring.check import check

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "manifests/dify.example.yaml"
ID = "0b9f6f0e-3c55-4d0e-9a54-5f3c1d7a000{}"
TEXTS = {
    1: ("Register", "A passport is required of every customer who is a natural person."),
    2: ("Onboarding", "A passport of the customer is copied and kept for seven years."),
    3: ("Reviews", "The passport of a high-risk customer is checked again every year."),
    4: ("Notices", "The regulator expects a passport or an identity card of each customer."),
}


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    """A first configuration, with the two examples it holds copied to files that are loaded."""
    write_scaffold(tmp_path)
    (tmp_path / "manifests/dify.example.yaml").rename(tmp_path / "manifests/kyc.yaml")
    (tmp_path / "config/connections.example.yaml").rename(tmp_path / "config/connections.yaml")
    return tmp_path


def test_what_init_writes_is_the_example_of_the_repository(tmp_path: Path) -> None:
    write_scaffold(tmp_path)
    schema, shipped = EXAMPLE.read_text("utf-8").split("\n", 1)
    assert schema == "# yaml-language-server: $schema=schemas/manifest-v1.json"
    assert (tmp_path / "manifests/dify.example.yaml").read_text("utf-8") == shipped


def test_a_copy_of_it_passes_config_check(bank: Path) -> None:
    connections = bank / "config/connections.yaml"
    connections.write_text(connections.read_text().replace("${file:/run/secrets/dify_api_key}", "${DIFY_API_KEY}"))
    report = check(find_config(env={}, cwd=bank), env={"DIFY_API_KEY": "dataset-example"})
    assert (report.problems, report.notices) == ((), ())
    assert report.domains == ("HANDBOOK", "KYC")


def test_it_is_no_domain_until_it_is_copied(tmp_path: Path) -> None:
    write_scaffold(tmp_path)
    assert check(find_config(env={}, cwd=tmp_path), env={}).domains == ("HANDBOOK",)


def test_its_datasets_are_searched_and_the_register_wins(bank: Path) -> None:
    datasets = [
        FakeDataset(name, documents=[FakeDocument(name, [text])], id=ID.format(number))
        for number, (name, text) in TEXTS.items()
    ]
    with FakeDify(datasets) as dify:
        connections = "dify:\n  base_url: ${DIFY_BASE_URL}\n  api_key: ${DIFY_API_KEY}\n"
        (bank / "config/connections.yaml").write_text(connections)
        env = {"DIFY_BASE_URL": dify.base_url, "DIFY_API_KEY": dify.api_key}
        with build_engine(env=env, cwd=bank) as engine:
            result = engine.search(SearchRequest(query="Which passport is required of a customer?", domain="KYC"))
    assert (result.status, result.decision) == (Status.COMPLETE, Decision.ANSWERED)
    assert {chunk.content.split("\n")[-1] for chunk in result.chunks} == {text for _, text in TEXTS.values()}
    assert result.chunks[0].source_id == "kyc_register"
    assert [source.authority_tier for source in result.sources] == [1, 2, 4]
