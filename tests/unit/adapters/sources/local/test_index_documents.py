"""The index documents of a document's chunks: sections, bare headings, days and defined terms."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from context_engine.adapters.sources.local.index import IndexRow, _mean, documents
from context_engine.adapters.sources.stores.chunk_rows import defined_terms, names_in
from context_engine.core.models import Chunk


def of(*chunks: Chunk) -> list[dict[str, Any]]:
    rows = [IndexRow(10 + place, chunk, [7]) for place, chunk in enumerate(chunks)]
    return [document.to_dict() for document in documents(3, 5, rows)]


def test_the_text_of_a_section_stands_with_its_first_chunk() -> None:
    """By heading path, else by section; a chunk with neither is a section of its own."""
    found = of(
        Chunk(content="limit", heading_path=("A",)),
        Chunk(content="fee", section="4"),
        Chunk(content="desk", heading_path=("A",)),
        Chunk(content="book", section="4"),
        Chunk(content="bond"),
        Chunk(content="haircut"),
    )
    assert [document["group"] for document in found] == [[10], [11], [10], [11], [14], [15]]
    assert [document.get("section") for document in found] == [
        ["limit desk"],
        ["fee book"],
        None,
        None,
        ["bond"],
        ["haircut"],
    ]
    assert [(document["rid"], document["doc"]) for document in found][:2] == [([10], [3]), ([11], [3])]


def test_a_bare_heading_has_no_source_and_a_body_of_the_mean_length() -> None:
    """Two words and four: three of filler."""
    found = of(
        Chunk(content="Large exposures", heading_path=("Large exposures",)),
        Chunk(content="limit desk", heading_path=("Large exposures",)),
        Chunk(content="limit desk fee book", heading_path=("Large exposures",)),
        Chunk(content="Anything", metadata={"is_heading": True}),
    )
    assert [document.get("source") for document in found] == [None, [5], [5], None]
    assert found[0]["body"] == found[3]["body"] == ["_ _ _"]
    assert found[1]["body"] == ["limit desk"]


def test_a_document_of_headings_alone_has_its_source() -> None:
    found = of(Chunk(content="Fees", heading_path=("Fees",)), Chunk(content="Limits", heading_path=("Limits",)))
    assert [document.get("source") for document in found] == [[5], [5]]


def test_days_are_counted_from_the_first_of_the_calendar() -> None:
    (found,) = of(Chunk(content="x", effective_from=date(2025, 1, 1), effective_to=date(2025, 1, 2)))
    first = date(2025, 1, 1).toordinal()
    assert (found["from_day"], found["to_day"], found["attr"]) == ([first], [first + 1], [7])
    (found,) = of(Chunk(content="x"))
    assert "from_day" not in found and "to_day" not in found


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["Market Risk"], ["market_risk"]),
        (("limit", ""), ["limit"]),
        (["aa bb cc dd ee ff gg"], ["aa_bb_cc_dd_ee_ff"]),  # six words
        ([3, None], []),
        ("limit", []),
        (None, []),
    ],
)
def test_a_defined_term_is_one_word_of_six_at_most(names: Any, words: list[str]) -> None:
    assert defined_terms(Chunk(content="-", metadata={"defines": names})) == words


def test_a_question_names_every_run_of_its_words() -> None:
    assert names_in(["market", "risk", "limit"]) == [
        "market",
        "risk",
        "limit",
        "market_risk",
        "risk_limit",
        "market_risk_limit",
    ]


@pytest.mark.parametrize(("lengths", "mean"), [([], 0), ([2, 4], 3), ([1, 2], 2), ([5], 5)])
def test_the_mean_of_lengths_is_rounded(lengths: list[int], mean: int) -> None:
    assert _mean(lengths) == mean
