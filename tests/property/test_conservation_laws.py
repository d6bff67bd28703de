"""Every word of every visible cell that another reader sees is in a document or in a line of the report."""

import csv
import io
import re
from datetime import date

import openpyxl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openpyxl.comments import Comment

from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.text.normalize import bare_version
from context_engine.ingest.declared_fields import ALIASES
from context_engine.ingest.documents import chunks_of, prepare
from context_engine.ingest.loaded_document import Skipped
from context_engine.ingest.loaders import load

COUNTER = ApproxTokenCounter()
FEW = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
MANY = settings(FEW, max_examples=300)
WORDS = re.compile(r"[^\W_]+")
_WORDS = """Desk Limit Rates Anna London total Entity Name Version Date spot EUR Zürich 5% 2026-01-31 Effective key a-b
x_y 0637 1,5 under review id Document Tier Sheet"""
WORD = st.sampled_from(_WORDS.split())
TEXT = st.lists(WORD, min_size=1, max_size=3).map(" ".join) | st.text(
    st.characters(codec="ascii", categories=("L", "N", "P", "Zs")), max_size=6
)
NUMBER = st.integers(-10_000, 10_000) | st.decimals(-100, 100, places=2).map(float)
CELL = st.none() | TEXT | TEXT | NUMBER | st.booleans() | st.dates(date(1990, 1, 1), date(2050, 1, 1))
RENAMED = {"version", *(alias.replace("_", " ") for alias in ALIASES)}


@st.composite
def blocks(draw):
    """Rows of a table, of pairs, of texts, or of anything."""
    kind = draw(st.sampled_from(["table", "pairs", "texts", "any"]))
    if kind == "texts":
        return [[draw(TEXT)] for _ in range(draw(st.integers(1, 4)))]
    if kind == "pairs":
        return [[draw(TEXT), draw(CELL)] for _ in range(draw(st.integers(1, 5)))]
    width = draw(st.integers(1, 5))
    rows = [[draw(CELL) for _ in range(width)] for _ in range(draw(st.integers(1, 6)))]
    if kind == "table":
        rows.insert(0, [draw(TEXT) for _ in range(width)])
    return rows


@st.composite
def sheets(draw):
    """Blocks placed below and beside each other: {(row, column): value}."""
    cells, top = {}, 1
    for block in draw(st.lists(blocks(), min_size=1, max_size=4)):
        left = draw(st.integers(1, 7))
        beside = draw(st.booleans()) and top > 1
        at = draw(st.integers(1, top)) if beside else top
        for row, values in enumerate(block, start=at):
            for column, value in enumerate(values, start=left):
                cells.setdefault((row, column), value)
        top = max(top, at + len(block) + draw(st.integers(0, 2)))
    return cells


@st.composite
def workbooks(draw):
    """A workbook as bytes, and the comments of its visible cells."""
    book, notes = openpyxl.Workbook(), []
    book.remove(book.active)
    for number in range(draw(st.integers(1, 3))):
        sheet = book.create_sheet(f"Sheet {number}", None)
        for (row, column), value in draw(sheets()).items():
            cell = sheet.cell(row, column)
            cell.value = value
            if isinstance(value, str):
                cell.data_type = "s"  # a text that begins with = is no formula here
        if draw(st.booleans()) and sheet.max_row > 1:
            top, left = draw(st.integers(1, sheet.max_row)), draw(st.integers(1, sheet.max_column))
            sheet.merge_cells(
                start_row=top, start_column=left, end_row=top + draw(st.integers(0, 1)), end_column=left + 1
            )
        hidden = draw(st.sampled_from(["", "", "sheet", "row", "column"]))
        rows = {draw(st.integers(1, sheet.max_row))} if hidden == "row" else set()
        columns = {draw(st.integers(1, sheet.max_column))} if hidden == "column" else set()
        for row in rows:
            sheet.row_dimensions[row].hidden = True
        for column in columns:
            sheet.column_dimensions[openpyxl.utils.get_column_letter(column)].hidden = True
        if hidden == "sheet" and number:
            sheet.sheet_state = "hidden"
        elif draw(st.booleans()):
            place = (draw(st.integers(1, sheet.max_row + 1)), draw(st.integers(1, sheet.max_column + 1)))
            if place[0] not in rows and place[1] not in columns:
                cell = sheet.cell(*place)
                if not isinstance(cell, openpyxl.cell.cell.MergedCell):
                    cell.comment = Comment("remarked by somebody", "Anna")
                    notes.append("remarked by somebody")
    out = io.BytesIO()
    book.save(out)
    return out.getvalue(), notes


def words(text):
    return set(WORDS.findall(str(text).lower()))


def kept(folder, name, data):
    """Return the words of everything that came of a file: chunks, their metadata, and the report; and the report."""
    (folder / name).write_bytes(data)
    text, report, places = [], [], set()
    for one in load(folder / name, folder):
        if isinstance(one, Skipped):
            report.append(str(one))
            continue
        assert one.place not in places, "two documents of one file are known apart"
        places.add(one.place)
        report += one.warnings
        document = prepare(one, None, COUNTER)
        report += document.warnings
        for chunk in chunks_of(document, COUNTER):
            text += flat(chunk.to_dict())
    return words(" ".join([*text, *report])), report


def flat(value):
    """Return all keys and plain values inside a value."""
    if isinstance(value, dict):
        return [text for key, inner in value.items() for text in (str(key), *flat(inner))]
    if isinstance(value, (list, tuple)):
        return [text for inner in value for text in flat(inner)]
    return [str(value)]


def lost(cells, kept_words):
    """Return the words of cells, as they are written out, that are not among the words kept.

    Names of columns that go by another name may be lost, and the letter of a version: v3 is stored as 3.
    """
    out = set()
    for cell in cells:
        if cell is None or cell == "" or isinstance(cell, bool):
            continue
        if isinstance(cell, float):
            cell = int(cell) if cell.is_integer() else float(f"{cell:.15g}")
        plain = " ".join(str(cell).lower().replace("_", " ").replace("-", " ").split())
        if plain.rstrip(":").strip() not in RENAMED and not words(bare_version(plain)) <= kept_words:
            out |= words(plain) - kept_words
    return out


def visible(data):
    """Return the cells that are to be seen, read by another library; which are hidden is asked of the writer's."""
    calamine = pytest.importorskip("python_calamine")
    book = openpyxl.load_workbook(io.BytesIO(data))
    other = calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            continue
        rows = other.get_sheet_by_name(sheet.title).to_python(skip_empty_area=False)
        for number, row in enumerate(rows, start=1):
            for column, value in enumerate(row, start=1):
                letter = openpyxl.utils.get_column_letter(column)
                if not sheet.row_dimensions[number].hidden and not sheet.column_dimensions[letter].hidden:
                    yield value


def check_workbook(folder, made):
    data, notes = made
    have, report = kept(folder, "a.xlsx", data)
    missing = lost([*visible(data), *notes], have)
    assert not missing, report


def check_csv(folder, rows, sign, mark):
    out = io.StringIO()
    csv.writer(out, delimiter=sign).writerows(rows)
    data = out.getvalue().encode(mark)
    have, report = kept(folder, "a.csv", data)
    read = csv.reader(io.StringIO(data.decode(mark)), delimiter=sign)
    missing = lost((cell for row in read for cell in row), have)
    assert not missing, report


ROWS = st.lists(st.lists(TEXT | NUMBER.map(str) | st.just(""), max_size=5), min_size=1, max_size=12)
SIGNS = st.sampled_from(",;\t|")
MARKS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])


@settings(FEW, max_examples=8)
@given(made=workbooks())
@pytest.mark.wording
def test_words_of_visible_cells_are_kept_or_said(tmp_path, made):
    check_workbook(tmp_path, made)


@FEW
@given(rows=ROWS, sign=SIGNS, mark=MARKS)
def test_words_of_separated_texts_are_kept_or_said(tmp_path, rows, sign, mark):
    check_csv(tmp_path, rows, sign, mark)


def test_a_version_is_kept_without_its_letter(tmp_path):
    check_csv(tmp_path, [["version", "name"], ["v0", "Rates"]], ",", "utf-8")
    assert lost(["v0"], {"0"}) == lost(["v0"], {"v0"}) == set()
    assert lost(["v0"], {"v"}) == {"v0"}


@pytest.mark.slow
@MANY
@given(made=workbooks())
def test_words_of_very_many_workbooks(tmp_path, made):
    check_workbook(tmp_path, made)


@pytest.mark.slow
@MANY
@given(rows=ROWS, sign=SIGNS, mark=MARKS)
def test_words_of_very_many_separated_texts(tmp_path, rows, sign, mark):
    check_csv(tmp_path, rows, sign, mark)
