"""Document properties: what a person wrote, not what a program fills in."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from context_engine.ingest.loaders.pdf_file import _moment
from context_engine.ingest.loaders.properties import labelled, real_properties


@pytest.mark.parametrize(
    "title",
    [
        "",
        "  ",
        "Document1",
        "untitled",
        "Slide 1",
        "PowerPoint Presentation",
        "Microsoft Word - x",
        "draft v3.docx",
        "Normal.dotm",
        "Company Memo Template",
        "[Document title]",
        "Presentation1",
        "Click to edit Master title style",
        "---",
    ],
)
def test_titles_that_programs_give(title):
    assert real_properties({"title": title}) == {}


@pytest.mark.parametrize("author", ["python-docx", "openpyxl", "Microsoft Office User", "admin", "User"])
def test_authors_that_programs_give(author):
    assert real_properties({"author": author}) == {}


def test_what_a_person_wrote_is_kept_on_one_line():
    given = {"title": " Liquidity\n Policy ", "author": "Market Risk", "version": "3.2", "subject": "x"}
    assert real_properties(given) == {"title": "Liquidity Policy", "author": "Market Risk", "version": "3.2"}


def test_dates_are_in_utc_and_those_of_templates_are_none():
    zone = timezone(timedelta(hours=8))
    given = {"created": datetime(2013, 12, 23, 23, 15), "modified": datetime(2026, 1, 31, 9, tzinfo=zone)}
    assert real_properties(given) == {"modified": datetime(2026, 1, 31, 1, tzinfo=UTC)}
    assert real_properties({"created": datetime(1601, 1, 1), "modified": "yesterday"}) == {}


def test_labels_that_stand_side_by_side():
    assert labelled("Harbour Bank Document No.: A-7 Version: 3.2 Effective date: 1 May 2026") == [
        "Harbour Bank Document No.: A-7",
        "Bank Document No.: A-7",
        "Document No.: A-7",
        "No.: A-7",
        "Version: 3.2",
        "Effective date: 1 May 2026",
        "date: 1 May 2026",
    ]
    assert labelled("Page 3 of 10") == []


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("D:20260131120000+08'00'", datetime(2026, 1, 31, 4, tzinfo=UTC)),
        ("D:20260131", datetime(2026, 1, 31, tzinfo=UTC)),
        ("D:2026", datetime(2026, 1, 1, tzinfo=UTC)),
        ("D:20261399", None),
        ("D:20260131120000+99'99'", None),
        ("31 January 2026", None),
        (None, None),
    ],
)
def test_dates_as_pdf_writes_them(text, moment):
    assert _moment(text) == moment
