from __future__ import annotations

import pytest

from context_engine.core.query import codes, phrases, references
from context_engine.core.query.features import names_sections_only, spellings, words_beside


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Does MAS Notice 637 apply to NPA-001?", ("MAS Notice 637", "NPA-001")),
        ("what does notice 637 say", ("notice 637",)),
        ("What does Notice No. 637 say", ("Notice No. 637",)),
        ("FCAA Circular 2023/04.", ("FCAA Circular 2023/04",)),
        ("status of DCE-WEB-001 and npa-002", ("DCE-WEB-001", "npa-002")),
        ("NPA-001 or NPA-001", ("NPA-001",)),
        ("a 12-month term, covid-19, high-risk", ()),
        ("on 2024-01-31 a limit of 1,000.50", ()),
        ("4.2.1(b)", ()),
        ("the policy of the bank", ()),
        ("MAS 637", ("MAS 637",)),
        ("how BCBS 239, ISO/IEC 27001 and SR 11-7 differ", ("BCBS 239", "ISO/IEC 27001", "SR 11-7")),
        ("ISO 27001:2022 and EU 2016/679", ("ISO 27001", "EU 2016/679")),
        ("BCBS 239 (2013).", ("BCBS 239",)),
        ("above USD 500, SGD 100 or EUR 20", ()),
        ("IFRS 9 from Q1 2024, FY 2024, CY 2025, DEC 31", ()),
        ("the CRR 2013", ()),
        ("an NSA 12.5, an NSA 1,250, an NSA 110 %, an NSA 80%", ()),
        ("within NSA 48 hours, NSA 50 million, NSA 24-hour", ()),
        ("MAS 637(4)(b)", ("MAS 637(4)(b)",)),
        ("USD/SGD 120, PD 20 and FX 30", ()),
        ("GEN 3.3", ()),
        ("RULE 35 or ANNEX 12", ()),
        ("WHAT ARE THE RULES WITHIN 30 OF THEM", ()),
        ("a notice of 30 days, notice 30 days, a notice 14 calendar days before", ()),
        ("policy after 2020, regulations since 2008, circulars issued 2023", ()),
        ("a standard 5 % buffer, guideline 10 percent, the standard 2 years", ()),
        ("in post-2008, Pre-2008 or mid-2024/25 rules, Jan-2025, SEPT-24, FY-2025", ()),
        ("Form W-8, form w-8 and Form IR 56", ("Form W-8", "form w-8", "Form IR 56")),
    ],
)
def test_codes(text: str, found: tuple[str, ...]) -> None:
    assert codes(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("section 4.2.1(b) of the NPA SOP", ("4.2.1(b)",)),
        ("4.2.1(b)(ii)", ("4.2.1(b)(ii)",)),
        ("637(4)(b)", ("637(4)(b)",)),
        ("Rules 8.3.1, 8.4.1, and 8.5.1", ("8.3.1", "8.4.1", "8.5.1")),
        ("Sections 2.3 and 6.12", ("2.3", "6.12")),
        ("§ 3.5", ("3.5",)),
        ("Rules A4.3.13 to A4.3.16", ("A4.3.13", "A4.3.16")),
        ("a limit of 5.5 % or 1.25", ()),
        ("section 12", ()),
        ("section 4.2.1 (b)", ("4.2.1 (b)",)),
        ("§ 4.2.1 (b) (ii)", ("4.2.1 (b) (ii)",)),
        ("Rules 3.5 (a) and 8.4(c)", ("3.5 (a)", "8.4(c)")),
        ("rule 12 (3)", ("12 (3)",)),
        ("section 4.2 (see below)", ("4.2",)),
        ("rule 3.5 (new) and rule 3.6 (2024)", ("3.5", "3.6")),
        ("4.2.1 (b)", ("4.2.1",)),
        ("NPA-001", ()),
    ],
)
def test_section_numbers(text: str, found: tuple[str, ...]) -> None:
    assert references(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('what is a "material change"?', ("material change",)),
        ('a "material change" or "pilot launch", not a "material change"', ("material change", "pilot launch")),
        ('an "immaterial" change', ()),
        ('an open "quote', ()),
        ('"重大变更"是什么', ("重大变更",)),
    ],
)
def test_quoted_phrases(text: str, found: tuple[str, ...]) -> None:
    assert phrases(text) == found


@pytest.mark.parametrize(
    ("text", "only"),
    [
        ("4.2.1(b)", True),
        ("section 4.2.1(b)?", True),
        ("Rules 3.5 and 8.4.1", True),
        ("§ 4.2.1 (b)", True),
        ("limits of section 4.2.1", False),
        ("section", False),
    ],
)
def test_whether_only_sections_are_named(text: str, only: bool) -> None:
    assert names_sections_only(text, references(text)) is only


@pytest.mark.parametrize(
    ("text", "names", "count"),
    [
        ("MAS Notice 637", ["MAS Notice 637"], 0),
        ("what does MAS Notice 637 apply to?", ["MAS Notice 637"], 1),
        ("limits of NPA-001 and NPA-0012", ["NPA-001", "NPA-0012"], 1),
        ("limits", [], 1),
    ],
)
def test_how_many_words_stand_beside_the_names(text: str, names: list[str], count: int) -> None:
    assert words_beside(text, names) == count


def test_what_else_an_issuers_number_is_written_as() -> None:
    assert {"MAS 637", "MAS-637", "MAS notice 637", "MAS circular 637"} < set(spellings("MAS 637"))
    assert spellings("MAS Notice 637") == ("MAS Notice 637",)
    assert spellings("NPA-001") == ("NPA-001",)
