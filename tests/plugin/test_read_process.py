"""The tool that reads files, in the plugin's real process: files as Dify sends them, by an address on loopback."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SOPS = sorted((ROOT / "context_engine/demo/bank").rglob("*SOP*.md"))
SIGNATURE = "kQ7-signature-zR2"


def word() -> bytes:
    docx = pytest.importorskip("docx")
    import io

    made = docx.Document()
    made.add_heading("Limit Approval", 1)
    made.add_heading("1 Desks", 2)
    table = made.add_table(rows=2, cols=2)
    for cell, text in zip((*table.rows[0].cells, *table.rows[1].cells), ("Desk", "Limit", "Rates", "5"), strict=True):
        cell.text = text
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def pdf(pages: int = 3, password: str | None = None) -> bytes:
    fpdf = pytest.importorskip("fpdf")
    made = fpdf.FPDF()
    made.set_font("Helvetica", size=12)
    for number in range(1, pages + 1):
        made.add_page()
        made.multi_cell(0, 10, f"Clause {number}. The desk limit is {number} million dollars on any one day.")
    if password:
        made.set_encryption("owner", password)
    return bytes(made.output())


def test_a_word_file_is_markdown(plugin: Any, file_server: Any) -> None:
    reply = plugin.invoke("read_document", {"file": file_server.put("limits.docx", word())}, {})
    assert reply.text == "# Limit Approval\n\n## 1 Desks\n\n| Desk | Limit |\n| --- | --- |\n| Rates | 5 |"
    assert reply.json["title"] == "Limit Approval"
    assert reply.json["metadata"]["file_name"] == "limits.docx"
    texts = {name for name, value in reply.variables.items() if isinstance(value, str)}
    assert texts <= {"title", "warnings_text"}  # streamed, closed by Dify's node


def test_pages_are_offsets_of_the_text(plugin: Any, file_server: Any) -> None:
    reply = plugin.invoke("read_document", {"file": file_server.put("limits.pdf", pdf())}, {})
    assert [reply.text[one["offset"] :][:9] for one in reply.variables["pages"]] == [
        "Clause 1.",
        "Clause 2.",
        "Clause 3.",
    ]


@pytest.mark.parametrize(
    ("name", "body", "told"),
    [
        ("locked.pdf", lambda: pdf(password="user"), "FileNotRead: locked.pdf: .*password"),
        ("empty.pdf", lambda: b"", "FileNotRead: empty.pdf: is empty"),
        ("cut.pdf", lambda: pdf()[:200], "FileNotRead: cut.pdf: is damaged"),
        ("limits.docx", lambda: pdf(), "FileNotRead: limits.docx: is a PDF, not .docx"),
    ],
)
def test_a_file_that_cannot_be_read_fails_the_node(
    plugin: Any, driver: Any, file_server: Any, name: str, body: Any, told: str
) -> None:
    with pytest.raises(driver.Failed, match=told) as raised:
        plugin.invoke("read_document", {"file": file_server.put(name, body())}, {})
    assert raised.value.error_type == "FileNotRead"


def test_an_address_that_leads_nowhere_names_the_setting_of_dify(plugin: Any, driver: Any, file_server: Any) -> None:
    file = file_server.put("limits.md", b"# Limits")
    for url in (file["url"].removeprefix(file_server.origin), f"http://127.0.0.1:9/files/1?sign={SIGNATURE}"):
        with pytest.raises(driver.Failed, match=r"FileNotFetched: .*INTERNAL_FILES_URL") as raised:
            plugin.invoke("read_document", {"file": {**file, "url": url}}, {})
        assert SIGNATURE not in raised.value.whole


def test_ten_at_once_and_others_meanwhile(plugin: Any, file_server: Any) -> None:
    """A long PDF holds up neither the others nor the process, whose heartbeat Dify waits for."""
    files = [file_server.put(f"{number}.md", path.read_bytes()) for number, path in enumerate(SOPS[:9])]
    files.append(file_server.put("long.pdf", pdf(60)))

    def read(file: Any) -> str:
        return plugin.invoke("read_document", {"file": file}, {}).text

    alone = [read(file) for file in files]
    with ThreadPoolExecutor(10) as threads:
        running = [threads.submit(read, file) for file in files]
        waited = []
        while not all(one.done() for one in running):
            started = time.monotonic()
            plugin.invoke("domains", {"check_health": False}, {"demo_bank": True})
            waited.append(time.monotonic() - started)
    assert [one.result() for one in running] == alone
    assert all(alone) and waited


def test_nothing_of_a_file_is_kept_or_logged(plugin: Any, file_server: Any, plugin_folder: Path) -> None:
    file = file_server.put("limits.md", b"# Harbour-Quarantine-Limit\n\nText.")
    assert plugin.invoke("read_document", {"file": file}, {}).text.startswith("# Harbour")
    written = "".join(line for line in plugin.lines if '"event":"log"' in line.replace(" ", ""))
    assert SIGNATURE not in plugin.everything and "Quarantine" not in written + plugin.stderr
    assert list(plugin_folder.parent.glob("context-engine-file-*")) == []
