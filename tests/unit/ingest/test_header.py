"""Front matter and labelled lines."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from context_engine.ingest.header import BrokenFrontMatter, front_matter, header_fields, labelled, real_properties
from context_engine.ingest.loaders.pdf_file import _moment


def test_front_matter_and_where_the_text_begins():
    text = "---\ntitle: A\ndate: 2026-01-15\n---\n# A\n"
    fields, end = front_matter(text)
    assert fields == {"title": "A", "date": date(2026, 1, 15)}
    assert text[end:] == "# A\n"


@pytest.mark.parametrize("text", ["", "# A\n", "--- x\ntitle: A\n---\n", "\n---\na: b\n---\n", "---"])
def test_a_text_without_front_matter_begins_at_0(text):
    assert front_matter(text) == ({}, 0)


def test_identifiers_and_versions_stay_as_they_are_written():
    fields, _ = front_matter("---\nversion: 3.10\nnotice_id: 0637\namount: 3.10\ndocument_id: 1_000\n---\n")
    assert fields == {"version": "3.10", "notice_id": "0637", "amount": 3.1, "document_id": "1_000"}


def test_an_empty_version_stays_empty():
    assert front_matter("---\nversion:\n---\n")[0] == {"version": None}


def test_a_number_that_is_written_like_a_code_stays_as_it_is_written():
    fields, _ = front_matter("---\nid: 007\ndesk: 0x1F\nopens: 12:30\nlimit: 10_000\nrate: 0.5\nyear: 2026\n---\n")
    assert fields == {
        "id": "007",
        "desk": "0x1F",
        "opens": "12:30",
        "limit": "10_000",
        "rate": 0.5,
        "year": 2026,
    }


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nThis document starts with a rule: one line.\n\n---\n\nSecond part.",
        "---\njust words\n---\nx",
        "---\n# A heading below a rule\n",
    ],
)
def test_a_rule_at_the_top_is_no_front_matter(text: str):
    assert front_matter(text) == ({}, 0)


def test_front_matter_may_be_empty_and_may_end_with_the_text():
    assert front_matter("---\n---\nx") == ({}, 8)
    assert front_matter("---\na: 1\n---") == ({"a": 1}, 12)


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("---\ntitle: A\n# no end\n", "no closing '---'", 1),
        ("---\na: 1\nb: [1, 2\nc: 3\n---\nx", "not YAML", 4),
        ("---\n- a: 1\n---\nx", "'key: value' lines", 2),
        ("---\na: !!python/object/apply:os.system [ls]\n---\nx", "could not determine a constructor", 2),
        ("---\na: &x [1]\nb: *x\n---\n", "aliases", 3),
        ("---\nday: 2025-13-45\n---\n", "month must be in 1..12", 1),
        ("---\nday: 9999-12-31T23:00:00-12:00\n---\n", "out of range", 1),
        ('---\na: "\\ud800"\n---\n', "surrogates", 1),
        ("---\na: " + "x" * 70_000 + "\n---\n", "over 64 KiB", 1),
        ("---\na: " + "[" * 5_000 + "\n---\n", "cannot be read", 1),
    ],
)
@pytest.mark.usefixtures("collector_off")
def test_broken_front_matter_says_what_and_where(text, says, line):
    with pytest.raises(BrokenFrontMatter, match=says) as caught:
        front_matter(text)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("Version: 3.2", {"version": "3.2"}),
        ("**Version:** 3.2", {"version": "3.2"}),
        ("**Version**: 3.2", {"version": "3.2"}),
        ("- Version: 3.2", {"version": "3.2"}),
        ("| Version | 3.2 |", {"version": "3.2"}),
        ("| **Effective date** | 2026-01-15 |", {"effective_from": "2026-01-15"}),
        ("Document No.: NPA-SOP-001", {"document_id": "NPA-SOP-001"}),
        ("Notice No.: 637", {"notice_id": "637"}),
        ("Issued by: Financial Conduct Authority", {"regulator": "Financial Conduct Authority"}),
        ("版本：1.1", {"version": "1.1"}),
        ("生效日期：2025-01-01", {"effective_from": "2025-01-01"}),
        (
            "> **Version**: 2.0 | **Status**: Final | **Last Updated**: 2026-01-31",
            {"version": "2.0", "date": "2026-01-31"},
        ),
        ("Version: 3.2    Effective date: 1 Jan 2026", {"version": "3.2", "effective_from": "1 Jan 2026"}),
        ("Document No. MHB-1\tVersion 2", {"document_id": "MHB-1", "version": "2"}),
        ("Ref: ABC-1; Version: 2; Date: 3 May 2025", {"version": "2", "date": "3 May 2025"}),
        ("Owner: Head; Desk", {"owner": "Head; Desk"}),
        ("Version 3.2", {"version": "3.2"}),
        ("Notice No. 637", {"notice_id": "637"}),
        ("Effective 1 January 2026", {"effective_from": "1 January 2026"}),
        ("Effective January 5, 2026", {"effective_from": "January 5, 2026"}),
        ("文号：第3号", {"notice_id": "第3号"}),
        ("Version 3.2 of the form must be used by all.", {}),
        ("Effective controls are kept", {}),
        ("| Version | Effective | Change |", {}),
        ("Date: [ ]", {}),
        ("Step: one", {}),
        ("The version: three", {}),
        (f"Version: {'x' * 161}", {}),
    ],
)
def test_labelled_lines(line, fields):
    assert header_fields(f"# Title\n\n{line}\n") == fields


def test_the_first_line_of_a_kind_counts_and_reading_stops_at_the_first_lower_heading():
    text = "# T\n\nVersion: 1\nVersion: 2\n\n## 1 Purpose\n\nOwner: nobody\n"
    assert header_fields(text) == {"version": "1"}


def test_only_the_first_lines_are_read():
    assert header_fields("x\n" * 40 + "Version: 1\n") == {}
    assert header_fields("x\n" * 39 + "Version: 1\n") == {"version": "1"}


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
