"""Where in its file a chunk begins: page, line, sheet and row."""

import io

import openpyxl

from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models import DocumentRule
from context_engine.ingest.documents import chunks_of, prepare
from context_engine.ingest.loaded_document import LoadedDocument
from context_engine.ingest.loaders import load

COUNTER = ApproxTokenCounter()
SOP = DocumentRule(include="*", doc_type="sop_document")


def located(root, name, rule=None, most=512):
    """What the chunks of a file say of their places."""
    keys = ("page", "page_end", "line", "sheet", "row")
    return [
        {key: chunk.metadata[key] for key in keys if key in chunk.metadata}
        for loaded in load(root / name, root)
        for chunk in chunks_of(prepare(loaded, rule, COUNTER, max_chunk_tokens=most), COUNTER)
    ]


def test_a_chunk_of_a_text_says_the_line_it_begins_on(folder):
    text = (
        "---\ntitle: Vault rules\n---\n\n# Vault rules\n\n## 4 Access\n\nTwo people hold keys.\n\n## 5 Forms\n\nF-7.\n"
    )
    root = folder({"vault.md": text, "windows.txt": text.replace("\n", "\r\n")})
    lines = text.splitlines()
    places = located(root, "vault.md", SOP, most=20)
    assert [lines[place["line"] - 1] for place in places] == ["# Vault rules", "## 5 Forms"]
    assert places == located(root, "windows.txt", SOP, most=20) == [{"line": 5}, {"line": 11}]


def test_overlapping_windows_each_begin_on_a_line_of_their_own(folder):
    text = "\n\n".join(f"Paragraph {number} says that desk {number} reports its limits daily." for number in range(40))
    root = folder({"desks.txt": text})
    lines = text.splitlines()
    (loaded,) = load(root / "desks.txt", root)
    chunks = chunks_of(prepare(loaded, None, COUNTER, max_chunk_tokens=80), COUNTER)
    assert len(chunks) > 5
    for chunk in chunks:
        assert lines[chunk.metadata["line"] - 1].endswith(chunk.content.split("\n", 1)[0])


def test_rows_of_a_csv_and_records_of_json_lines_stand_on_their_lines(folder):
    rows = "desk_id,desk,limit\nD-1,Rates,10\n\nD-2,Credit,20\n"
    root = folder({"limits.csv": rows, "limits.jsonl": '{"id": "D-1", "limit": 10}\n\n{"id": "D-2", "limit": 20}\n'})
    assert located(root, "limits.csv") == [{"line": 2}, {"line": 4}]
    assert located(root, "limits.jsonl") == [{"line": 1}, {"line": 3}]


def test_a_record_of_a_json_array_has_no_line(folder):
    assert located(folder({"limits.json": '[{"id": "D-1", "limit": 10}]'}), "limits.json") == [{}]


def test_a_row_of_a_workbook_says_its_sheet(folder):
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Limits"
    for row in (["Desk", "Limit"], ["Rates", 10], ["Credit", 20]):
        sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    root = folder({"limits.xlsx": out.getvalue()})
    assert located(root, "limits.xlsx") == [{"sheet": "Limits", "row": 2}, {"sheet": "Limits", "row": 3}]


def test_a_field_of_the_document_keeps_its_value(folder):
    root = folder({"desks.csv": "desk_id,line\nD-1,Metals\n"})
    assert located(root, "desks.csv") == [{"line": "Metals"}]


def test_a_chunk_over_two_pages_names_both():
    loaded = LoadedDocument(path="a.pdf", text="One.\n\nTwo.\n\nThree.", pages=((0, 3), (6, 4), (12, 7)))
    (chunk,) = chunks_of(prepare(loaded, None, COUNTER), COUNTER)
    assert (chunk.metadata["page"], chunk.metadata["page_end"]) == (3, 7)


def test_a_text_that_moves_down_in_its_file_is_cut_again():
    at = [LoadedDocument(path="a.md", text="Text.", location={"line": line}) for line in (1, 2)]
    first, second = (prepare(one, None, COUNTER).content_hash for one in at)
    assert first != second


def test_a_record_that_moves_down_in_its_file_is_the_same():
    fields = {"entity_id": "E-1"}
    at = [LoadedDocument(path="a.csv", text="E-1", fields=fields, record=True, location={"line": n}) for n in (2, 3)]
    first, second = (prepare(one, None, COUNTER).content_hash for one in at)
    assert first == second
