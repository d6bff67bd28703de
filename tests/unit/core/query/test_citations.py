"""What a text cites, and which sections a clause number means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import Chunk, CitedClause
from context_engine.core.query.features import belongs_to, citations, cited_sections


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("In every other case section 5.1 of ORM-SOP-001 applies.", [("ORM-SOP-001", "5.1")]),
        ("It is reported under FCAA Notice 652(3).", [("FCAA Notice 652", "(3)")]),
        ("See DCE-SOP-001, section 10.3, and DCE-SOP-004.", [("DCE-SOP-001", "10.3"), ("DCE-SOP-004", "")]),
        ("clause 4.1(b) of NPA-SOP-001", [("NPA-SOP-001", "4.1(b)")]),
        ("Rule 4.2 and section 7.1(a) apply.", [("", "4.2"), ("", "7.1(a)")]),
        ("Section 3.2 applies, and DCE-SOP-004.", [("DCE-SOP-004", ""), ("", "3.2")]),
        ("It is due within 30 days, at 5.5 %.", []),
    ],
)
def test_a_citation_is_a_document_with_its_clause_or_a_clause_of_the_text_itself(text, cited):
    assert citations(text) == tuple(CitedClause(*pair) for pair in cited)


@pytest.mark.parametrize(
    ("cited", "query"),
    [(("ORM-SOP-001", "5.1"), "ORM-SOP-001 5.1"), (("Notice 652", "(3)"), "Notice 652(3)"), (("DCE-4", ""), "DCE-4")],
)
def test_a_citation_is_searched_by_its_name(cited, query):
    assert CitedClause(*cited).query == query


SECTIONS = ["8", "8.3", "8.3.3.(1)", "8.3.3.(2)", "8.3.3.Guidance.1.", None, "8.4", "9(a)"]


@pytest.mark.parametrize(
    ("clause", "places"),
    [
        ("8.3.3(2)", [3]),
        ("8.3.3 (2)", [3]),
        ("8.3.3", [2, 3, 4]),
        ("8.3.3(2)(b)(iv)", [3]),
        ("8.4", [6]),
        ("8.4(b)", [6]),
        ("8.30", [0]),
        ("10.1", []),
        ("()", []),
    ],
)
def test_a_clause_means_its_section_else_those_below_else_the_nearest_above(clause, places):
    assert cited_sections(SECTIONS, clause) == places


@given(st.lists(st.none() | st.text("0123456789.()ab", max_size=8), max_size=8), st.text("0123456789.()ab", max_size=8))
def test_any_numbers_are_compared(sections, clause):
    places = cited_sections(sections, clause)
    assert places == sorted(set(places)) and all(0 <= place < len(sections) for place in places)


@pytest.mark.parametrize(
    ("document_id", "title", "name", "belongs"),
    [
        ("NPA-SOP-001", None, "npa-sop-001", True),
        ("n637", "MAS Notice 637: Capital", "MAS 637", True),
        ("n6370", "MAS Notice 6370: Capital", "MAS 637", False),
        (None, None, "NPA-SOP-001", False),
    ],
)
def test_a_document_is_cited_by_its_id_or_a_name_in_its_title(document_id, title, name, belongs):
    assert belongs_to(Chunk("text", document_id=document_id, title=title), name) is belongs
