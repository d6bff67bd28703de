"""Rows are called by the columns that tell them apart."""

import pytest

from context_engine.ingest.loaders.records import row_title, telling_names


def titles(text):
    """The titles of rows given as lines of cells, names on top."""
    names, *rows = ([cell.strip() for cell in line.split("|")] for line in text.strip().splitlines())
    fields = [dict(zip(names, row)) for row in rows]
    return [row_title(one, telling_names(fields)) for one in fields]


@pytest.mark.parametrize(
    ("table", "called"),
    [
        ("Kind|Ref|Risk\nFraud|R-014|Phishing\nFraud|R-015|Theft", ["R-014 · Phishing", "R-015 · Theft"]),
        ("id|name\n1|Harbour Note\n2|Vault Bond", ["Harbour Note (1)", "Vault Bond (2)"]),
        ("name|Limit\nHarbour|5\nHarbour|7", ["5", "7"]),
        (
            "Desk|Product|Limit\nRates|Swap|5\nRates|Cap|7\nCredit|Swap|9",
            ["Rates · Swap", "Rates · Cap", "Credit · Swap"],
        ),
        ("A|B\n1|x\n2|x", ["1", "2"]),
        ("Desk|Limit\nRates|5", ["Rates"]),
    ],
)
def test_an_id_and_words_first_then_what_tells_rows_apart(table, called):
    assert titles(table) == called


def test_equal_rows_are_called_by_their_first_column():
    assert titles("Desk|Limit\nRates|5\nRates|5") == ["Rates", "Rates"]


def test_a_long_value_is_cut_at_a_word():
    assert len(row_title({"Text": "breach " * 40}, ("Text",))) <= 81


@pytest.mark.parametrize("name", ["risks.csv", "risks.tsv"])
def test_rows_of_a_file_that_share_their_first_column_differ_in_title(read, name):
    sign = "," if name.endswith("csv") else "\t"
    rows = [
        ("Category", "No.", "Risk"),
        *(("Fraud", f"R-{number:03}", f"Case {chr(65 + number)}") for number in range(9)),
    ]
    found = read("\n".join(sign.join(row) for row in rows), name)
    lines = [one.text.split("\n")[0] for one in found]
    assert lines[:2] == ["R-000 · Case A", "R-001 · Case B"]
    assert len(set(lines)) == 9
