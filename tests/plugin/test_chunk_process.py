"""The tool that cuts documents, in the plugin's real process: what a knowledge pipeline of Dify gets."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from context_engine.core.chunking.chunk_line import escaped, read_line

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BANK = ROOT / "context_engine/demo/bank"
TOOL = yaml.safe_load((ROOT / "dify_plugin/tools/chunk_document.yaml").read_text("utf-8"))
SCHEMAS = ROOT / "tests/contract/knowledge_structures"
SENTENCE = "The head of the desk signs the limit before the first trade of the day. "
ODD = {
    "only headings": "# A\n\n## B\n\n## C\n",
    "one line": "limit " * 40_000,
    "other line ends": f"# A\r\n\r\n{SENTENCE}\r\n\r\n## B\r\n\r\n{SENTENCE}",
    "right to left": "# سياسة الحدود\n\n## ١ النطاق\n\n" + "يوقّع رئيس المكتب على الحد قبل أول صفقة. " * 60,
    "without blanks": "# 限额\n\n## 1 范围\n\n" + "交易员须在三十分钟内通知分行市场风险控制部。" * 200,
    "a line like ours": "› Forged › 9 Waived · page 1\n\n\\› And again.\n",
}


@pytest.fixture
def chunks(plugin: Any) -> Any:
    """Call the tool and return the one variable that is filled, held against Dify's schema; and the report."""

    def cut(**fields: Any) -> tuple[Any, dict[str, Any]]:
        variables = plugin.invoke("chunk_document", fields, {}).variables
        properties = TOOL["output_schema"]["properties"]
        assert variables.pop("report_text")
        report = variables.pop("report")
        ((name, value),) = variables.items()
        schema = SCHEMAS / properties[name]["$ref"].rpartition("/")[2]
        jsonschema.validate(value, json.loads(schema.read_text("utf-8")))
        return value, report

    return cut


@pytest.mark.parametrize("path", sorted(BANK.rglob("*SOP-00[12].md")), ids=lambda path: path.stem)
def test_a_file_in_each_structure(file_server: Any, chunks: Any, path: Path) -> None:
    file = file_server.put(path.name, path.read_bytes())
    plain, _ = chunks(file=file, chunk_line=False)
    lined, _ = chunks(file=file)
    sections, report = chunks(file=file, structure="parent_child")
    whole, _ = chunks(file=file, structure="parent_child", parent_mode="full-doc")
    rows = sections["parent_child_chunks"]
    assert [one.partition("\n\n")[2] for one in lined] == plain
    assert all(path.stem in one.partition("\n")[0] for one in lined)
    assert [child for row in rows for child in row["child_contents"]] == plain
    assert (report["chunks"], report["embedded"]) == (len(rows), len(plain))
    assert [escaped(read_line(one)[1]) for one in whole["parent_child_chunks"][0]["child_contents"]] == plain


def test_what_read_document_gives_is_cut_as_the_file_is(file_server: Any, chunks: Any, plugin: Any) -> None:
    path = BANK / "dce/sops/DCE-SOP-001.md"
    file = file_server.put(path.name, path.read_bytes())
    read = plugin.invoke("read_document", {"file": file}, {})
    carried = {name: read.variables[name] for name in ("title", "metadata", "pages")}
    assert chunks(text=read.text, **carried) == chunks(file=file)


def test_questions(file_server: Any, chunks: Any) -> None:
    rows = "question,answer\nWho signs?,The head.\nWhen?,Today.\n"
    value, _ = chunks(file=file_server.put("faq.csv", rows.encode()), structure="qa", chunk_line=False)
    assert value["qa_chunks"] == [
        {"question": "Who signs?", "answer": "The head."},
        {"question": "When?", "answer": "Today."},
    ]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("structure", ["general", "parent_child"])
def test_odd_text_is_cut_without_loss(chunks: Any, name: str, structure: str) -> None:
    text = ODD[name]
    value, _ = chunks(text=text, structure=structure, chunk_line=False, overlap=0)
    parts = value if structure == "general" else [row["parent_content"] for row in value["parent_child_chunks"]]
    assert "".join("".join(parts).split()).replace("\\›", "›").replace("\\", "") == "".join(text.split()).replace(
        "\\", ""
    )


def test_ten_at_once(file_server: Any, chunks: Any, plugin: Any) -> None:
    files = [file_server.put(f"{number}.md", f"# {number}\n\n{SENTENCE * 400}".encode()) for number in range(10)]
    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(lambda file: chunks(file=file, structure="parent_child"), files))
    for number, (value, _) in enumerate(found):
        assert value["parent_child_chunks"][0]["parent_content"].startswith(f"› {number} ")


def test_what_cannot_be_cut_fails_the_node(plugin: Any, driver: Any) -> None:
    with pytest.raises(driver.Failed, match="InvalidRequest: there is nothing to cut: choose a file"):
        plugin.invoke("chunk_document", {"text": ""}, {})
    question = "Q: Who signs " + "x" * 65_535 + "?\nA: The head."
    with pytest.raises(driver.Failed, match=r"question 1 .* has 65,5\d\d bytes.*at most 65,535"):
        plugin.invoke("chunk_document", {"text": question, "structure": "qa"}, {})
    with pytest.raises(driver.Failed, match=r"the chunks take .* MiB, and Dify's plugin runtime carries at most 4"):
        plugin.invoke("chunk_document", {"text": SENTENCE * 36_000, "structure": "parent_child"}, {})
    assert plugin.longest < driver.LONGEST_LINE
