"""CSV: separator, head, encodings, rows that do not fit."""

import pytest

from context_engine.ingest.loaded_document import LoadedDocument
from context_engine.ingest.loaders import load
from context_engine.ingest.loaders.csv_file import separator


def fields(found):
    assert all(isinstance(one, LoadedDocument) for one in found), found
    return [dict(one.fields) for one in found]


@pytest.mark.wording
def test_the_banks_file_semicolons_windows_encoding_and_a_quote_over_two_lines(read, shipped):
    first, second, third = read(shipped("accounts.csv"), "accounts.csv")
    assert first.text == (
        "Café Noir GmbH (AC-0007)\nname: Café Noir GmbH\nRating: BB\nOpened: 31/03/2025\nRemark: pays late, since 2024"
    )
    assert first.warnings == ("is not UTF-8 (line 2): read as cp1252, which is a guess",)
    assert (first.line, second.line, third.line) == (3, 4, 5)
    assert second.warnings == ()
    assert second.fields["Rating"] == "A–"


def test_cells_that_look_like_formulas_are_texts(read):
    found = fields(read("name,a\nA,=cmd|' /C calc'!A0\nB,+1\nC,-1\nD,@SUM(1)\n", "a.csv"))
    assert [one["a"] for one in found] == ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)"]


def test_numbers_and_dates_stay_as_they_are_written(read):
    (row,) = fields(read("Code,Amount,Date\n0637,1e5,01/02/2026\n", "a.csv"))
    assert row == {"Code": "0637", "Amount": "1e5", "Date": "01/02/2026"}


@pytest.mark.parametrize(
    ("lines", "sign"),
    [
        (["a;b", "1,5;2", "1,7;3"], ";"),
        (["a,b", "1;5,2", "1;7,3"], ","),
        (["a\tb,c", "1\t2", "3\t4,5"], "\t"),
        (["a|b|c", "1|2|3"], "|"),
        (["one column", "of words, with a comma", "and none"], ","),
        ([], ","),
    ],
)
def test_separator(lines, sign):
    assert separator(lines) == sign


def test_a_tsv_file_and_a_first_line_that_names_the_separator(read):
    assert fields(read("a\tb\n1\t2\n", "a.tsv")) == [{"a": "1", "b": "2"}]
    found = read("sep=;\na;b\n1;2\n", "a.csv")
    assert fields(found) == [{"a": "1", "b": "2"}]
    assert found[0].line == 3


def test_lines_above_the_head_stand_in_each_record(read):
    found = fields(read("Limits as at 31 January 2026\n\nDesk,Limit,Unit\nRates,5,USD m\n", "a.csv"))
    assert found == [{"Desk": "Rates", "Limit": "5", "Unit": "USD m", "table": "Limits as at 31 January 2026"}]


def test_a_file_without_a_head_names_columns_by_letters(read):
    assert fields(read("1,Rates,5\n2,Credit,7\n", "a.csv")) == [
        {"column A": "1", "column B": "Rates", "column C": "5"},
        {"column A": "2", "column B": "Credit", "column C": "7"},
    ]


def test_a_column_without_a_name_goes_by_its_letter(read):
    assert fields(read("a,,b\nx,y,z\n", "a.csv")) == [{"a": "x", "column B": "y", "b": "z"}]


def test_a_row_in_which_a_text_comes_twice_is_no_head(read):
    assert fields(read("a,a\nx,y\n", "a.csv")) == [
        {"column A": "a", "column B": "a"},
        {"column A": "x", "column B": "y"},
    ]


def test_names_and_values_side_by_side_are_one_record(read):
    (loaded,) = read("Version,3.2\nOwner,Market Risk\n", "a.csv")
    assert loaded.fields == {"version": "3.2", "Owner": "Market Risk"}


@pytest.mark.wording
def test_cells_that_a_row_has_more_than_the_head_go_by_their_letters_and_are_said(read):
    first, second, third = read("a,b\n1,2\n1,2,3\n4,5\n", "a.csv")
    assert fields([first, second, third]) == [
        {"a": "1", "b": "2"},
        {"a": "1", "b": "2", "column C": "3"},
        {"a": "4", "b": "5"},
    ]
    assert second.warnings == (
        "line 3 has 3 cells, the head has 2: the others are named by their letters; a separator or quote may be wrong",
    )


def test_empty_cells_at_the_end_of_a_row_and_short_rows_are_no_error(read):
    assert fields(read("a,b\n1,2,,\n3\n,,\n", "a.csv")) == [{"a": "1", "b": "2"}, {"a": "3"}]


@pytest.mark.parametrize("bad", ['"x', '"x" y'])
@pytest.mark.wording
def test_a_quote_that_is_amiss_harms_only_its_own_line(read, bad):
    found = read(f'a,b\n0,0\n1,{bad}\n2,"y, z"\n3,4\n', "a.csv")
    assert fields(found) == [
        {"a": "0", "b": "0"},
        {"a": "1", "b": bad},
        {"a": "2", "b": "y, z"},
        {"a": "3", "b": "4"},
    ]
    said = [line for one in found for line in one.warnings]
    assert said == ["line 3: a quote is not closed or is inside a cell: it is read literally"]
    assert [one.line for one in found] == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (r'"He said \"no\" twice",A', 'He said "no" twice'),  # as some databases write a quote
        (r'"C:\limits\",A', "C:\\limits\\"),  # a quote that ends its cell
        (r'"C:\1 ""old""\",A', 'C:\\1 "old"\\'),
    ],
)
def test_a_backslash_escapes_quotes_only_where_the_cells_cannot_be_cut_otherwise(read, line, text):
    assert fields(read(f"Note,Desk\n{line}\n", "a.csv")) == [{"Note": text, "Desk": "A"}]


@pytest.mark.wording
def test_very_many_quotes_that_are_amiss_end_the_search_for_their_ends(read):
    found = read("a,b\n" + "".join(f'{number},"x\n' for number in range(200)), "a.csv")
    assert [one.fields["b"] for one in found] == ['"x'] * 200
    said = [line for one in found for line in one.warnings]
    assert (len(said), said[-1]) == (
        21,
        "and 81 more of such lines",
    )  # 100 lines, and that quotes are left as they stand


def test_ten_thousand_columns_are_one_error(refused):
    row = ",".join(f"c{number}" for number in range(10_000))
    assert refused(f"{row}\n{row}\n", "a.csv") == "has over 1,000 columns: it is not a table of records"


@pytest.mark.wording
def test_what_is_said_of_very_many_rows_is_counted(read):
    found = read("a,b\n" + "1,2,3\n" * 5_000, "a.csv")
    assert len(found) == 5_000
    assert sum(len(one.warnings) for one in found) == 21
    assert found[-1].warnings == ("and 4,980 more of such lines",)


def test_a_head_without_rows_is_text(read):
    (pair,) = read("Net exposure limit,EUR 5 million\n", "a.csv")
    assert pair.fields == {"Net exposure limit": "EUR 5 million"}
    (known,) = read("Tier,Desk\n", "a.csv")
    assert (known.text, known.record) == ("Tier | Desk", False), "nothing else to show of it"
    (text,) = read("Desk,Head,Limit\n", "a.csv")
    assert (text.text, text.record) == ("Desk | Head | Limit", False)


def test_empty_lines_between_all_rows_say_nothing(read):
    found = fields(read("Desk,Limit\n\nRates,5\n\nCredit,7\n\n", "a.csv"))
    assert found == [{"Desk": "Rates", "Limit": "5"}, {"Desk": "Credit", "Limit": "7"}]


@pytest.mark.wording
def test_a_few_nul_characters_are_left_out_and_said(read):
    (loaded,) = read(b"Desk,Limit\nRa\x00tes,5\n", "a.csv")
    assert loaded.fields == {"Desk": "Rates", "Limit": "5"}
    assert loaded.warnings == ("line 2 holds NUL characters, which are left out",)
    (refused,) = read(b"\x00\x01\x02" * 100, "b.csv")
    assert refused.reason == "holds NUL bytes, so it is not text: if it is one, save it as UTF-8"


def test_line_ends_of_all_kinds_stand_side_by_side(read):
    found = fields(read(b"Desk,Limit\r\nRates,5\rCredit,7\nFX,9", "a.csv"))
    assert [one["Desk"] for one in found] == ["Rates", "Credit", "FX"]


def test_rows_before_a_line_without_end_are_read(read):
    *rows, said = read("Desk,Limit\nRates,5\nCredit," + "x" * (17 << 20), "a.csv")
    assert fields(rows) == [{"Desk": "Rates", "Limit": "5"}]
    assert said.reason.startswith("has a line of over 16,777,216 characters")


def test_a_cell_of_any_length_is_read(read):
    long = "word " * 60_000  # more than the standard library takes for one field
    found = read(f'Desk,Remark\nRates,{long}\nCredit,"{long}"\nFX,none\n', "a.csv")
    assert [str(one.fields["Remark"]).strip('" ') for one in found] == [long.strip(), long.strip(), "none"]


@pytest.mark.wording
def test_an_id_that_stands_twice_loses_no_row(read):
    first, second = read("Entity ID,Amount\nCP-1,5\nCP-1,7\n", "a.csv")
    assert (first.fields, second.fields) == ({"entity_id": "CP-1", "Amount": "5"}, {"entity id": "CP-1", "Amount": "7"})
    assert second.warnings == ("line 3 repeats an id from above: it is identified by its line",)


@pytest.mark.wording
def test_a_column_named_id_that_repeats_its_values_loses_no_row(read):
    rows = read("Id,Amount\n" + "".join(f"{number % 2},{number}\n" for number in range(12)), "a.csv")
    assert fields(rows) == [
        {"id" if number < 2 else "ID": str(number % 2), "Amount": str(number)} for number in range(12)
    ]
    notices = [notice for row in rows for notice in row.warnings]
    assert notices[:1] == ["line 4 repeats an id from above: it is identified by its line"]
    assert notices[5:] == ["more rows from line 9 on repeat an id: each is identified by its line"]


def test_columns_named_as_the_fields_of_records_mean_the_same(read):
    (loaded,) = read("Entity ID,Version,Effective Date,Desk\nE-1,3,2026-01-01,Rates\n", "a.csv")
    assert loaded.fields == {"entity_id": "E-1", "version": "3", "effective_from": "2026-01-01", "Desk": "Rates"}
    assert loaded.text == "E-1 · Rates\nDesk: Rates"


def test_utf16_is_read(read):
    content = "Entity ID,Name\nA-1,Zürich\n"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"):
        assert fields(read(content.encode(encoding), "a.csv")) == [{"entity_id": "A-1", "name": "Zürich"}]


def test_rows_are_read_one_by_one(folder):
    root = folder({"a.csv": "a,b\n" + f"1,{'2' * 5_000}\n" * 1_000})
    rows = load(root / "a.csv", root)
    assert next(rows).line == 2
    (root / "a.csv").write_text("")  # what was not read yet is gone: the file was not taken in as a whole
    assert sum(1 for _ in rows) < 900
