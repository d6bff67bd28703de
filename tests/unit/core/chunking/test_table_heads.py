"""A piece that begins inside a table begins with the names of its columns."""

from __future__ import annotations

import pytest

from context_engine.core.chunking.cut import fixed_pieces, section_pieces
from context_engine.core.chunking.spans import table_heads
from context_engine.core.context.tokens import ApproxTokenCounter

COUNT = ApproxTokenCounter().count
HEAD = "| Code | Retail EUR | Corporate EUR |\n| --- | --- | --- |"
ROWS = [f"| SC-{number:03} | {number} | {number * 3} |" for number in range(1, 101)]
TABLE = "\n".join((HEAD, *ROWS))


@pytest.mark.parametrize("cut", [fixed_pieces, section_pieces])
@pytest.mark.parametrize("overlap", [0, 16])
def test_each_piece_of_a_long_table_has_the_head_once(cut, overlap: int) -> None:
    text = f"# Charges\n\nAll fees are monthly.\n\n{TABLE}\n\nFees are due at the end of the month."
    pieces = cut(text, 128, overlap, COUNT)
    assert len(pieces) > 5
    for piece in pieces:
        assert piece.content.count(HEAD) == 1
        assert COUNT(piece.content) <= 128
        start, end = piece.span
        assert piece.content.endswith(text[start:end])
        if "SC-" in piece.content and start:
            assert piece.content == f"{HEAD}\n{text[start:end]}"
    assert all(any(row in piece.content for piece in pieces) for row in ROWS)


def test_every_row_is_in_one_piece_without_overlap() -> None:
    pieces = section_pieces(f"## Charges\n\n{TABLE}", 128, 0, COUNT)
    for row in ROWS:
        assert sum(row in piece.content for piece in pieces) == 1


@pytest.mark.parametrize(
    "table",
    [
        "\n".join(ROWS),  # no rule: nothing says that the first row is a head
        "\n".join(
            (f"| {'a very long name of a column ' * 12} | b |", "| --- | --- |", *ROWS)
        ),  # over a quarter of a piece
    ],
)
def test_other_tables_are_cut_as_they_are(table: str) -> None:
    for piece in section_pieces(f"## Charges\n\n{table}", 128, 0, COUNT):
        start, end = piece.span
        assert piece.content == f"## Charges\n\n{table}"[start:end]


def test_a_table_in_one_piece_is_not_changed() -> None:
    text = f"## Charges\n\n{HEAD}\n{ROWS[0]}\n{ROWS[1]}"
    (piece,) = section_pieces(text, 128, 0, COUNT)
    assert piece.content == text


def test_two_tables_have_their_own_heads() -> None:
    other = "| Desk | Limit |\n|---|---|"
    rows = "\n".join(f"| desk {number} | {number} |" for number in range(60))
    pieces = section_pieces(f"## Fees\n\n{TABLE}\n\nLimits:\n\n{other}\n{rows}", 128, 0, COUNT)
    for piece in pieces:
        assert ("SC-" in piece.content) <= (HEAD in piece.content)
        assert ("| desk " in piece.content) <= (other in piece.content)


def test_the_head_of_a_table_is_the_row_above_the_rule() -> None:
    text = f"before\n\n{HEAD}\n{ROWS[0]}\n\nafter | no table\n"
    (head,) = table_heads(text, 0, len(text))
    assert (head.text, text[head.body : head.end]) == (HEAD, f"{ROWS[0]}\n")
    assert table_heads("| a | b |\n| c | d |\n", 0, 20) == []
