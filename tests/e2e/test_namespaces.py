"""Namespaces as an operator and a caller see them: ingested, searched, listed and removed by the commands."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.core.models import SearchRequest
from context_engine.wiring.build import build_engine
from context_engine.wiring.setup import load_setup

pytestmark = pytest.mark.slow

MANIFEST = """
version: 1
domain: DESK
sources:
  - {id: sheets, namespace: products, type: bank_sop, documents: [{include: "sheets/*"}]}
  - {id: prices, namespace: products, type: system_of_record, documents: [{include: "prices/*"}]}
  - {id: rules, type: bank_sop, documents: [{include: "rules/*"}]}
  - {id: rest, type: general_web, documents: [{include: "**/*", otherwise: true}]}
"""
GUIDE = (Path(__file__).resolve().parents[2] / "docs/guides/namespaces.md").read_text("utf-8")
WORD = "Zanzibarite"
FILES = {
    "sheets/swap.md": f"---\ntitle: {WORD} swap\nowner: {WORD}\n---\n# A\n\nThe limit of the {WORD} swap is 5 lots.\n",
    f"prices/{WORD}.md": f"# Prices\n\nThe limit price of {WORD} is set daily.\n",
    "rules/limits.md": "# Limits\n\nA limit above 5 lots needs the head of the desk.\n",
    "note.md": "# Note\n\nSomebody wrote about a limit of lots.\n",
}
QUESTION = "limit of lots"


class Bank:
    """A configuration in a folder, and the command line in it."""

    def __init__(self, folder: Path, manifest: str = MANIFEST) -> None:
        self.folder = folder
        for name, text in {
            "manifests/desk.yaml": manifest,
            **{f"docs/{name}": text for name, text in FILES.items()},
        }.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, "utf-8")

    def run(self, *arguments: str) -> Result:
        places = ("--config-dir", str(self.folder), "--data-dir", str(self.folder / "data"))
        return CliRunner().invoke(main, [*arguments, *places], env={"HOME": str(self.folder)})

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)

    def searched(self, *arguments: str) -> list[str]:
        return [chunk["source_id"] for chunk in self.json("search", QUESTION, "--domain", "DESK", *arguments)["chunks"]]

    def holding(self, word: str) -> list[str]:
        """The files of the data folder with the word in any case, in content or name."""
        files = [path for path in (self.folder / "data").rglob("*") if path.is_file()]
        wanted = word.lower().encode()
        return [path.name for path in files if wanted in path.read_bytes().lower() or word in path.name]


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    bank = Bank(tmp_path)
    assert bank.run("ingest", str(tmp_path / "docs"), "--domain", "DESK").exit_code == 0
    return bank


def test_only_the_sources_of_the_namespaces_are_searched(bank: Bank) -> None:
    assert set(bank.searched()) == {"sheets", "prices", "rules", "rest"}
    assert set(bank.searched("--namespace", "products")) == {"sheets", "prices"}
    assert set(bank.searched("--namespace", "products", "--namespace", "rules")) == {"sheets", "prices", "rules"}
    assert set(bank.searched("--set", 'namespaces=["rules"]')) == {"rules"}
    told = bank.json("search", QUESTION, "--domain", "DESK", "--namespace", "products")
    assert [chunk["_provenance"]["extra"]["namespace"] for chunk in told["chunks"]] == ["products", "products"]
    assert (
        "namespace"
        not in bank.json("search", QUESTION, "--domain", "DESK", "--namespace", "rules")["chunks"][0]["_provenance"][
            "extra"
        ]
    )


def test_an_unknown_namespace_is_told_with_the_nearest(bank: Bank) -> None:
    refused = bank.run("search", QUESTION, "--domain", "DESK", "--namespace", "product")
    assert refused.exit_code == 2
    assert "no source or namespace 'product'. Did you mean 'products'?" in " ".join(refused.stderr.split())


def test_a_namespace_is_ingested_alone_and_listed(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    report = bank.json("ingest", str(tmp_path / "docs"), "--domain", "DESK", "--namespace", "products", "--prune")
    assert report["documents"] == 2 and report["skipped"] == []
    assert set(bank.searched()) == {"sheets", "prices"}, "what the rules of others include is not taken"
    listed = bank.json("domains")["domains"][0]
    assert listed["namespaces"] == {
        "products": {"documents": 2, "chunks": 2},
        "rules": {"documents": 0, "chunks": 0},
        "rest": {"documents": 0, "chunks": 0},
    }
    assert "products" in bank.run("domains").stdout
    assert [(source["namespace"], source["documents"]) for source in listed["sources"]] == [
        ("products", 1),
        ("products", 1),
        ("rules", 0),
        ("rest", 0),
    ]
    assert bank.run("ingest", str(tmp_path / "docs"), "--domain", "DESK", "--namespace", "other").exit_code == 2


def test_a_removed_namespace_leaves_its_words_in_no_file(bank: Bank) -> None:
    bank.run("search", f"limit of {WORD}", "--domain", "DESK")
    rules = bank.json("search", QUESTION, "--domain", "DESK", "--namespace", "rules")["chunks"]
    assert bank.holding(WORD)
    assert bank.json("kb", "remove", "products", "--dry-run")["sources"] == {"sheets": 1, "prices": 1}
    assert bank.run("kb", "remove", "products").exit_code == 2, "without a terminal it wants --yes"
    removed = bank.json("kb", "remove", "products", "--yes")
    assert removed == {"dry_run": False, "sources": {"sheets": 1, "prices": 1}, "left": []}
    assert bank.holding(WORD) == []
    assert bank.run("kb", "verify").exit_code == 0
    assert set(bank.searched()) == {"rules", "rest"}
    kept = bank.json("search", QUESTION, "--domain", "DESK", "--namespace", "rules")["chunks"]
    assert [chunk["content"] for chunk in kept] == [chunk["content"] for chunk in rules]
    again = bank.json("ingest", str(bank.folder / "docs"), "--domain", "DESK")
    assert (again["documents"], again["unchanged"]) == (4, 2), "the folder still has them"


def test_pruning_a_namespace_spares_the_others(bank: Bank) -> None:
    for name in ("sheets/swap.md", "rules/limits.md"):
        (bank.folder / "docs" / name).unlink()
    report = bank.json("ingest", str(bank.folder / "docs"), "--domain", "DESK", "--namespace", "products", "--prune")
    assert report["removed"] == 1
    assert set(bank.searched()) == {"prices", "rules", "rest"}


def test_an_answer_in_the_cache_is_of_its_namespace_and_ends_with_it(bank: Bank) -> None:
    (bank.folder / "config").mkdir()
    (bank.folder / "config/rag-pipeline.json").write_text('{"search": {"cache_ttl_s": 3600}}')
    setup = load_setup(config_dir=bank.folder, env={"HOME": str(bank.folder)}, cwd=bank.folder)
    with build_engine(setup, data_dir=bank.folder / "data") as engine:

        def searched(name: str) -> tuple[bool, set[str]]:
            result = engine.search(SearchRequest(query=QUESTION, domain="DESK", overrides={"namespaces": [name]}))
            return result.cache_age_s is not None, {chunk.source_id for chunk in result.chunks}

        assert [searched("products"), searched("rules")] == [(False, {"sheets", "prices"}), (False, {"rules"})]
        assert [searched("products"), searched("rules")] == [(True, {"sheets", "prices"}), (True, {"rules"})]
        assert bank.run("kb", "remove", "products", "--yes").exit_code == 0
        assert searched("products") == (False, set())


def test_a_name_of_no_source_removes_nothing(bank: Bank) -> None:
    refused = bank.run("kb", "remove", "product", "--yes")
    assert refused.exit_code == 2 and "Did you mean 'products'?" in " ".join(refused.stderr.split())
    assert set(bank.searched()) == {"sheets", "prices", "rules", "rest"}


def test_the_files_and_commands_of_the_guide(tmp_path: Path) -> None:
    manifest, commands = re.findall(r"^```\w+\n(.*?)^```$", GUIDE, flags=re.M | re.S)[:2]
    bank = Bank(tmp_path, manifest)
    ingest, *others = [shlex.split(command)[1:] for command in commands.splitlines()]
    ingest[1] = str(tmp_path / "docs")
    outputs = [bank.run(*command) for command in (ingest, *others)]
    assert [output.exit_code for output in outputs] == [0, 0, 0, 0]
    assert "1 document of price_list, 1 document of product_sheets" in outputs[-1].output
    assert set(bank.searched()) == {"product_sheets", "price_list"}
