"""The tool that reads a file: its text, title, metadata and pages, and what it says of a file that it cannot read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from context_engine.apps.dify import file_documents
from context_engine.apps.dify.file_documents import _WITHOUT, FileNotRead, MissingFormat, refuse_long, text_size
from context_engine.apps.dify.read_document import read_document, without_pictures
from context_engine.errors import InvalidRequest, Overloaded

PLUGIN = Path(__file__).resolve().parents[4] / "dify_plugin"

WITHOUT_LIBRARIES = """
import json, sys, tempfile
from pathlib import Path
for name in ("lxml", "pdfplumber", "pypdfium2", "selectolax", "charset_normalizer"):
    sys.modules[name] = None
from context_engine.ingest.loaded_document import LoadedDocument
from context_engine.ingest.loaders import load
found = {}
with tempfile.TemporaryDirectory() as folder:
    for suffix, text in json.loads(sys.argv[1]).items():
        path = Path(folder, f"limits{suffix}")
        path.write_text(text)
        found[suffix] = sum(isinstance(one, LoadedDocument) for one in load(path, Path(folder)))
print(json.dumps(found))
"""

SOP = """---
title: Limit Approval
version: 3.10
effective_date: 2026-01-15
owner: Market Risk
---
# 4 Limits

![Chart of limits](https://intranet.example/chart.png)

| Desk | Limit |
|---|---|
| Rates | 5 |

## 4.1 Waivers

None.
"""


@pytest.fixture
def read(file_server: Any) -> Any:
    def reading(name: str, content: bytes | str) -> Any:
        body = content.encode() if isinstance(content, str) else content
        return read_document({"file": file_server.put(name, body)})

    return reading


def test_a_document_is_its_text_with_what_it_says_of_itself(read: Any) -> None:
    found = read("limits.md", SOP)
    assert found.text.splitlines()[:6] == [
        *("# 4 Limits", "", "Chart of limits", "", "| Desk | Limit |", "|---|---|"),
    ]
    assert found.variables["title"] == "Limit Approval"
    assert found.variables["metadata"] == {
        "owner": "Market Risk",
        "file_name": "limits.md",
        "document_id": "limits",
        "version": "3.10",
        "doc_type": "default",
        "structure": "sections",
        "effective_from": "2026-01-15",
    }
    assert (found.variables["pages"], found.variables["warnings"]) == ([], [])


def test_records_have_a_heading_each(read: Any) -> None:
    found = read("desk-limits.csv", "entity_id,name,limit\nD-1,Rates,5\nD-2,Credit,7\n")
    assert found.text == "## Rates (D-1)\n\nname: Rates\nlimit: 5\n\n## Credit (D-2)\n\nname: Credit\nlimit: 7"
    assert found.variables["title"] == "desk limits"
    assert found.variables["metadata"] == {
        "file_name": "desk-limits.csv",
        "doc_type": "entity_record",
        "structure": "fields",
        "documents": 2,
    }


def test_several_texts_of_a_file_stand_under_their_titles(read: Any) -> None:
    message = (
        "Subject: Waiver\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n"
        "Please find the waiver.\r\n--b\r\nContent-Type: text/markdown\r\n"
        "Content-Disposition: attachment; filename=waiver.md\r\n\r\n# Waiver 7\r\n\r\nGranted.\r\n--b--\r\n"
    )
    found = read("mail.eml", message)
    assert "# Waiver\n\n" in found.text and "# Waiver 7\n\nGranted." in found.text
    assert found.variables["metadata"]["documents"] == 2


def test_pages_are_where_they_begin_in_the_text(read: Any, tmp_path: Path) -> None:
    fpdf = pytest.importorskip("fpdf")
    made = fpdf.FPDF()
    made.set_font("Helvetica", size=12)
    for number in (1, 2, 3):
        made.add_page()
        made.multi_cell(0, 10, f"Clause {number}. The desk limit is {number} million dollars on any one day.")
    found = read("limits.pdf", bytes(made.output()))
    assert [one["page"] for one in found.variables["pages"]] == [1, 2, 3]
    for one in found.variables["pages"]:
        assert found.text[one["offset"] :].startswith(f"Clause {one['page']}.")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("empty.md", b"", "empty.md: is empty"),
        ("blank.txt", b" \n", "blank.txt: "),
        ("limits.docx", b"%PDF-1.7\n", "limits.docx: is a PDF, not .docx: rename it"),
        ("limits.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "limits.docx: is an old Office file"),
        ("limits.docx", b"PK\x03\x04damaged", "limits.docx: "),
        ("photo.heic", b"heic", "photo.heic: .heic cannot be read; supported: "),
        ("noname", b"x", "cannot be read; supported: "),
        ("limits.md", b"---\ntitle: x\n", "limits.md:1: the front matter"),
        ("picture.md", b"![](https://intranet.example/scan.png)", "picture.md: "),
    ],
)
def test_a_file_without_a_text_fails_with_its_name_and_a_remedy(
    read: Any, name: str, content: bytes, told: str
) -> None:
    with pytest.raises(FileNotRead) as raised:
        read(name, content)
    assert told in str(raised.value)


def test_a_package_without_the_libraries_says_how_to_pack_one_with(
    read: Any, file_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("context_engine.apps.dify.file_documents._LIBRARIES", ("lxml", "no_such_library"))
    with pytest.raises(MissingFormat, match=r"limits\.docx cannot be read.* plugin pack --extras documents"):
        read("limits.docx", b"x")
    assert file_server.requests == []
    assert read("limits.md", SOP).text


@pytest.mark.slow
def test_what_is_read_without_libraries_needs_none() -> None:
    """No loader of these formats may come to need one unseen: each reads a file where none can be imported."""
    files = {
        **dict.fromkeys((".md", ".markdown", ".txt", ".md.erb", ".md.tmpl"), "# Limits\n\nOf the desk."),
        ".csv": "id,limit\nD-1,5\n",
        ".tsv": "id\tlimit\nD-1\t5\n",
        ".json": '[{"id": "D-1", "limit": 5}]',
        ".jsonl": '{"id": "D-1", "limit": 5}\n',
        ".ndjson": '{"id": "D-1", "limit": 5}\n',
        ".rtf": r"{\rtf1 Limits of the desk\par}",
        ".ipynb": '{"cells": [{"cell_type": "markdown", "source": "Of the desk."}]}',
        ".eml": "Subject: Limits\r\n\r\nOf the desk.\r\n",
    }
    assert {Path(f"x{suffix}").suffix for suffix in files} == set(_WITHOUT)
    run = subprocess.run([sys.executable, "-c", WITHOUT_LIBRARIES, json.dumps(files)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == dict.fromkeys(files, 1)


def test_a_table_of_contents_stays_in_the_text(read: Any) -> None:
    """It is set aside where the text is cut, and said there."""
    rows = [f"- [{number} Rule {number}](#rule-{number})" for number in range(1, 9)]
    rules = [f"## {number} Rule {number}\n\nThe desk keeps to limit {number} of the day." for number in range(1, 9)]
    text = "\n".join(("# Rules", "", "## Table of Contents", "", *rows, "", *rules))
    found = read("rules.md", text)
    assert (found.text, found.variables["warnings"]) == (text, [])


def test_a_call_has_a_time_in_all(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_engine.apps.dify.file_documents._PATIENCE_S", 0.0)
    with pytest.raises(FileNotRead, match=r"limits\.md takes longer than 0 s to download and read"):
        read("limits.md", SOP)
    monkeypatch.setattr("context_engine.apps.dify.file_documents._readers", threading.BoundedSemaphore(1))
    with file_documents._readers, pytest.raises(Overloaded, match=r"limits\.md was not read: 4 other files"):
        read("limits.md", SOP)


def test_no_file_is_told(read: Any) -> None:
    with pytest.raises(InvalidRequest, match="file is empty: choose the file to read"):
        read_document({"file": None})


def test_lines_that_cannot_be_read_are_warnings(read: Any) -> None:
    found = read("desks.jsonl", '{"id": "D-1", "name": "Rates"}\n{broken\n{"id": "D-2", "name": "Credit"}\n')
    assert found.text.count("## ") == 2
    (warning,) = found.variables["warnings"]
    assert warning.startswith("desks.jsonl:2: ") and found.variables["warnings_text"] == f"- {warning}"


def test_a_text_that_does_not_fit_into_a_message_is_refused(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_long("log.txt", 4 * 1024 * 1024)
    with pytest.raises(FileNotRead, match=r"log.txt gives more than 4 MiB of text.*split it"):
        refuse_long("log.txt", 4 * 1024 * 1024 + 1)
    monkeypatch.setattr("context_engine.apps.dify.file_documents.MOST_TEXT", 1_000)
    with pytest.raises(FileNotRead, match="gives more than"):
        read("log.txt", "Limit of the desk.\n" * 60)
    assert read("log.txt", "Limit of the desk.\n" * 40).text


def test_the_size_of_a_text_is_that_of_its_json() -> None:
    text = 'tab\t "quoted" é 汉 \U0001f600 \\'
    assert text_size(text) == len(json.dumps(text, ensure_ascii=False).encode()) - 2


def test_what_it_gives_is_what_is_declared(read: Any) -> None:
    properties = yaml.safe_load((PLUGIN / "tools/read_document.yaml").read_text("utf-8"))["output_schema"]["properties"]
    given = read("limits.md", SOP).variables
    assert set(given) == set(properties)
    types = {"array": list, "string": str, "object": dict}
    assert all(isinstance(value, types[properties[name]["type"]]) for name, value in given.items())


DIFYS = re.compile(r"!\[.*?\]\((.*?)\)")
"""What Dify takes for pictures in a chunk; it fetches them."""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("See ![the chart](https://x.example/c.png) below", "See the chart below"),
        ('![Chart (1)](c_(1).png "Limits")', "Chart (1)"),
        ("[![logo](l.png)](https://bank.example)", "[logo](https://bank.example)"),
        ("![a ![b](c) d](e)", "a b d"),
        ("![](data:image/png;base64,AAAA)", ""),
        ("![chart][ref]", "chart"),
        ("![two\nlines](u)", "two lines"),
        ('<img src="c.png" alt="limit &gt; 5">', "limit > 5"),
        ("<IMG alt='a > b' src=c.png/>", "a > b"),
        ('<img src="c.png">', ""),
        ("vec![1, 2] and [a link](https://bank.example)", "vec! [1, 2] and [a link](https://bank.example)"),
        ("vec![1, 2]", "vec![1, 2]"),
        ("[a link](https://bank.example)!", "[a link](https://bank.example)!"),
    ],
)
def test_a_picture_becomes_its_words(text: str, left: str) -> None:
    assert without_pictures(text).text == left


@given(st.lists(st.sampled_from(["![", "](", ")", "]", "[", "<img ", ">", '"', "a", " ", "\n", "\\", "http://x"])))
def test_dify_finds_none_in_what_is_left(parts: list[str]) -> None:
    assert DIFYS.findall(without_pictures("".join(parts)).text) == []


@given(st.lists(st.sampled_from(["![alt](u)", "word ", "\n", '<img alt="x">', "![1] [l](u)"]), max_size=20))
def test_pages_begin_where_they_began(parts: list[str]) -> None:
    """Each page is changed as if it stood alone."""
    starts = [sum(map(len, parts[:number])) for number in range(len(parts))]
    changed = without_pictures("".join(parts), [(start, number + 1) for number, start in enumerate(starts)])
    offsets = [*(offset for offset, _ in changed.pages), len(changed.text)]
    for number, part in enumerate(parts):
        here = changed.text[offsets[number] : offsets[number + 1]]
        assert here.replace("! [", "![") == without_pictures(part).text.replace("! [", "![")


@pytest.mark.parametrize("part", ["![", "![a", "![](", "![a](b", '<img "', "<img ", "![a]["])
def test_hostile_text_takes_no_longer_than_its_length(part: str) -> None:
    def seconds(times: int) -> float:
        started = time.process_time()
        without_pictures(part * times)
        return time.process_time() - started

    seconds(1_000)
    assert seconds(100_000) < 2.0  # a square would be minutes
