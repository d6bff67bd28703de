"""Every Python block of the guide to adapters is run, its contracts are kept, its manifest serves a search."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main
from context_engine.core.models import ExaminationRequest
from context_engine.core.policy.masking import PseudonymMask
from context_engine.core.protocols import Masker
from context_engine.wiring.adapters import SOURCES

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "write-an-adapter.md"
BLOCKS = re.findall(
    r"^(?:<!-- ([\w-]+) -->\n)?```(\w+)\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), flags=re.M | re.S
)
PYTHON = {name: code for name, language, code in BLOCKS if language == "python"}


@pytest.fixture(scope="module")
def glossary() -> ModuleType:
    """The module that the reader has at the end of the guide."""
    module = ModuleType("meridian_glossary")
    for name, code in PYTHON.items():
        exec(compile(code, f"{GUIDE.name}: {name}", "exec"), module.__dict__)
    return module


def test_every_block_has_a_name_of_its_own() -> None:
    names = [name for name, language, _ in BLOCKS if language == "python"]
    assert names == ["search", "examine", "list", "fetch", "sink", "adapter", "contract", "masker"]


def contract_tests() -> list[tuple[str, str]]:
    from context_engine.testing import SinkContract, SourceContract

    kinds = {"TestGlossarySource": SourceContract, "TestGlossarySink": SinkContract}
    return [(name, test) for name, kind in kinds.items() for test in dir(kind) if test.startswith("test_")]


def test_the_guides_masker_finds_the_names_it_is_given(glossary: ModuleType) -> None:
    masker = glossary.StaffNames({"names": ["Ana Ruiz"]})
    assert isinstance(masker, Masker)
    mask = PseudonymMask([masker], b"0123456789abcdef")
    assert mask("Ana Ruiz asked ANA RUIZ") == " asked ".join([mask.pseudonym("NAME", "ana ruiz")] * 2)


@pytest.mark.parametrize(("contract", "test"), contract_tests())
def test_the_guides_adapter_keeps_the_contract(glossary: ModuleType, contract: str, test: str) -> None:
    case: Any = getattr(glossary, contract)()
    getattr(case, "setup_method", lambda: None)()
    getattr(case, test)()


@pytest.mark.wording
def test_an_entry_without_a_meaning_is_a_warning(glossary: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "glossary.json").write_text('{"Gross": ""}')
    source = glossary.ExaminableGlossary("glossary", tmp_path / "glossary.json")
    found = source.examine(ExaminationRequest(domain="NPA"))
    assert (found.ok, found.documents, found.records) == (True, 1, None)
    assert [notice.message for notice in found.warnings] == ["Gross has no meaning: complete it"]


def test_published_it_is_written_to_searched_and_examined(
    glossary: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (point,) = re.findall(r'^glossary = "(.*)"$', GUIDE.read_text(encoding="utf-8"), flags=re.M)
    points = [EntryPoint("glossary", point, SOURCES)]
    monkeypatch.setitem(sys.modules, "meridian_glossary", glossary)
    monkeypatch.setattr(
        "context_engine.wiring.adapters.entry_points", lambda *, group: points if group == SOURCES else []
    )
    (manifest,) = (code for name, _, code in BLOCKS if name == "manifest")
    (commands,) = (code for name, _, code in BLOCKS if name == "commands")
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/terms.yaml").write_text(manifest)
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents/net.md").write_text("# Net exposure\n\nWhat is left of an exposure after netting.\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    for command in commands.strip().splitlines():
        program, *args = re.findall(r'"[^"]+"|\S+', command)
        assert program == "context-engine"
        result = CliRunner().invoke(main, [arg.strip('"') for arg in args])
        assert result.exit_code == 0, f"{command}\n{result.output}"
    found = json.loads(CliRunner().invoke(main, ["doctor", "--query", "net exposure", "--json"]).stdout)
    (source,) = found["sources"]
    assert (source["source"], source["records"], source["ok"]) == ("terms", 1, True)
