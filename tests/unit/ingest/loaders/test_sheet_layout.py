"""Tables, pairs and texts on one sheet: told apart, and every cell somewhere."""

import pytest

from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders.records import FileNotices, SheetPlace, SheetTexts
from context_engine.ingest.loaders.sheet_layout import laid_out
from context_engine.ingest.loaders.table import TableRow

HEAD = ("Desk", "Limit", "Head")
ROWS = [HEAD, ("Rates", 5, "Anna"), ("Credit", 7, "Ben"), ("FX", 9, "Cleo")]


def read(rows, styles=None, **place):
    """Lay out rows; an empty tuple is an empty row."""
    told = FileNotices("a.xlsx")
    here = SheetPlace("a.xlsx", told, title="S", **place)
    texts = SheetTexts(here)
    made, gap = [], False
    for number, cells in enumerate(rows, start=1):
        if any(cell is not None for cell in cells):
            style = styles[number - 1] if styles else ()
            made.append(TableRow(number, list(cells), gap, styles=style))
        gap = not any(cell is not None for cell in cells)

    def documents():
        yield from laid_out(made, here, texts)
        yield from texts.rest()

    return list(told.with_documents(documents()))


def fields(found):
    return [dict(one.fields) for one in found if isinstance(one, LoadedDocument) and one.record]


def text(found):
    (one,) = [one for one in found if isinstance(one, LoadedDocument) and not one.record]
    return one.text


def said(found):
    return [line for one in found for line in ([one.reason] if isinstance(one, Skipped) else one.warnings)]


def test_two_tables_one_below_the_other_have_heads_of_their_own():
    below = [("Currency", "Rate"), ("EUR", 1.1), ("CHF", 1.2)]
    assert fields(read([*ROWS[:2], (), ("Rates of exchange",), (), *below])) == [
        {"Desk": "Rates", "Limit": 5, "Head": "Anna"},
        {"Currency": "EUR", "Rate": 1.1, "table": "Rates of exchange"},
        {"Currency": "CHF", "Rate": 1.2, "table": "Rates of exchange"},
    ]


def test_two_tables_side_by_side_are_told_by_heads_that_are_alike():
    rows = [(*left, None, *right) for left, right in zip(ROWS[:3], [HEAD, ("Equity", 1, "Dora"), ("Repo", 2, "Emil")])]
    found = read(rows, part="S")
    assert [one.place for one in found] == ["a.xlsx:S:2", "a.xlsx:S:3", "a.xlsx:S:E:2", "a.xlsx:S:E:3"]
    assert {one.fields.pop("sheet") for one in found} == {"S"}
    assert fields(found) == [
        {"Desk": "Rates", "Limit": 5, "Head": "Anna"},
        {"Desk": "Credit", "Limit": 7, "Head": "Ben"},
        {"Desk": "Equity", "Limit": 1, "Head": "Dora"},
        {"Desk": "Repo", "Limit": 2, "Head": "Emil"},
    ]


def test_two_tables_side_by_side_are_told_by_their_rows():
    right = [("Currency", "Rate"), ("EUR", 1.1), (None, None), (None, None)]
    found = fields(read([(*left, None, *beside) for left, beside in zip(ROWS, right)]))
    assert [one["Desk"] for one in found[:3]] == ["Rates", "Credit", "FX"]
    assert found[3] == {"Currency": "EUR", "Rate": 1.1}


def test_an_empty_column_inside_a_table_does_not_part_it():
    rows = [("Desk", "Head", None, "Spot", "Forward"), ("Rates", "Anna", None, 5, 7), ("FX", "Ben", None, 1, 2)]
    assert fields(read(rows))[0] == {"Desk": "Rates", "Head": "Anna", "Spot": 5, "Forward": 7}


def test_rows_below_an_empty_one_go_on_with_the_table():
    assert [one.get("Desk") for one in fields(read([*ROWS[:2], (), ROWS[2], (), ("Total", 12)]))] == [
        "Rates",
        "Credit",
        "Total",
    ]


def test_a_dash_for_no_value_is_no_word_in_a_column_of_numbers():
    rows = [HEAD, ("All desks", 21, "-"), (), ("Rates", "-", "Anna"), ("Credit", 7, "n/a")]
    assert [one.get("Desk") for one in fields(read(rows))] == ["All desks", "Rates", "Credit"]


def test_a_head_that_stands_above_an_empty_row_names_the_rows_below():
    assert fields(read([HEAD, (), *ROWS[1:3]]))[0] == {"Desk": "Rates", "Limit": 5, "Head": "Anna"}


def test_a_head_that_is_repeated_is_no_record():
    assert len(fields(read([*ROWS[:2], (), HEAD, ROWS[2]]))) == 2


def test_notes_below_a_table_are_text():
    found = read([*ROWS, (), ("Source: Market Risk.",), ("Limits bind all desks.",)])
    assert len(fields(found)) == 3
    assert text(found) == "# S\n\nSource: Market Risk.\n\nLimits bind all desks."


def test_text_beside_a_table_stands_in_the_record_of_its_row():
    rows = [ROWS[0], (*ROWS[1], None, "under review"), *ROWS[2:]]
    assert fields(read(rows))[0]["column E"] == "under review"


def test_pairs_and_a_table_stand_on_one_sheet():
    found = fields(read([("Owner:", "Market Risk"), ("Version:", "3.2"), (), *ROWS]))
    assert found[0] == {"Owner": "Market Risk", "version": "3.2"}
    assert [one["Desk"] for one in found[1:]] == ["Rates", "Credit", "FX"]


def test_a_label_without_a_value_is_text():
    found = read([("Owner:", "Market Risk"), ("Remarks:", None), ("Unit:", "USD")])
    assert fields(found) == [{"Owner": "Market Risk", "Unit": "USD"}]
    assert text(found) == "# S\n\nRemarks:"


def test_a_caption_too_long_for_every_record_is_text_as_well():
    caption = "These limits were set by the committee and are reviewed once a year. " * 6
    found = read([(caption,), (), *ROWS])
    assert all(one["table"] == caption[:300] for one in fields(found))
    assert text(found) == f"# S\n\n{caption.strip()}"


NAMES = [("Rates", "Anna", "London"), ("Credit", "Ben", "Paris"), ("FX", "Cleo", "Rome")]


@pytest.mark.wording
def test_a_first_row_that_nothing_shows_to_be_a_head_is_said():
    found = read(NAMES)
    assert fields(found)[0] == {"Rates": "Credit", "Anna": "Ben", "London": "Paris"}
    assert said(found) == ["row 1 of sheet 'S' is taken for the column names, which is a guess"]


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        ([("Desk", "Name", "City"), *NAMES], {}),
        (NAMES, {"styles": ["111", "222", "222"]}),
        (NAMES, {"heads": frozenset((1,))}),
        ([("Desk", "Head", "Since"), ("Rates", "Anna", 2020)], {}),
    ],
    ids=["names", "looks", "a table made as such", "numbers below"],
)
def test_a_head_that_shows_as_one_is_not_said(rows, options):
    assert said(read(rows, **options)) == []


def test_a_first_row_whose_text_comes_again_in_its_column_is_a_row():
    found = read([*NAMES, ("Repo", "Dora", "London")])
    assert fields(found)[0] == {"column A": "Rates", "column B": "Anna", "column C": "London"}
    assert (len(fields(found)), said(found)) == (4, [])


def test_ids_name_the_records_of_one_table_alone():
    table = [("Entity ID", "Limit"), ("CP-1", 5)]
    found = fields(read([*table, (), ("Entity ID", "Fee"), ("CP-1", 7)]))
    assert found == [{"entity_id": "CP-1", "Limit": 5}, {"entity id": "CP-1", "Fee": 7}]


def test_a_very_long_column_of_texts_is_several_documents():
    found = read([("word " * 10_000,) for _ in range(100)])  # 5 million characters
    assert len(found) > 2
    assert sum(one.text.count("word") for one in found) == 1_000_000
    assert len({one.stem for one in found}) == len(found)


def test_a_row_beside_a_table_that_goes_on_is_known_apart_from_it():
    two, none = ("Desk", "Desk"), ()
    found = read([two, none, two, ("Desk", None, None, "0", "Desk")])
    records = [one for one in found if isinstance(one, LoadedDocument) and one.record]
    assert len({one.place for one in records}) == len(records)
    assert "0" in " ".join(one.text for one in records)
