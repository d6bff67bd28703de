"""What a document is called: its own word, its first heading, its properties, its file's name."""

import pytest

from context_engine.ingest import LoadedDocument
from context_engine.ingest.document_title import document_title, readable_name


def title(text, said=None, path="sops/hr-travel_policy_v3.md", **options):
    return document_title(LoadedDocument(path=path, text=text, **options), said)


def test_the_order():
    text = "# Travel\n\nText."
    assert title(text, "Travel Policy") == "Travel Policy"
    assert title(text, "A property", properties=True) == "Travel"
    assert title("All staff travel.", "A property", properties=True) == "A property"
    assert title("All staff travel.") == "hr travel policy v3"


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ('<a name="s5"></a>\n\n## 5 <a name="x"></a>Keys &amp; locks\n\n### 5.1 Keys\n\nTwo.', "5 Keys & locks"),
        ("## 1 Purpose\n\nText.\n\n## 2 Scope\n\nText.", "hr travel policy v3"),
        ("# Introduction\n\nText.\n\n# Rules\n\nText.", "hr travel policy v3"),
        ("# Travel\n\nText.\n\n# Fees\n\nText.", "Travel"),
        ("Version: 3\n\n# Travel\n\nText.", "Travel"),
        ("# <%= title %>\n\n## Before you go\n\nText.", "Before you go"),
        ("Harbour Bank travels. " * 20 + "\n\n# Fees\n\nText.", "hr travel policy v3"),
        ("{{logo}}\n\nText.", "hr travel policy v3"),
        ("Travel of staff\n\nText.", "Travel of staff"),
        ("# Slide 1\n\nText.", "hr travel policy v3"),
        ("Page header: | Left | Right | |\n\nPage footer: Copyright\n\nAll staff travel.", "hr travel policy v3"),
        ("Page header: Harbour Bank\n\nTravel of staff\n\nText.", "Travel of staff"),
        ("Page header and footer: Board paper", "hr travel policy v3"),
        ("Page header: Harbour Bank\nTravel of staff\n\nText.", "Travel of staff"),
    ],
)
def test_which_heading_or_line_names_a_document(text, called):
    assert title(text) == called


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("hr-travel_policy_v3.md", "hr travel policy v3"),
        ("sops/NPA-001_limits.docx", "NPA-001 limits"),
        ("sp800-63b.pdf", "sp800-63b"),
        ("2026-01-15-minutes.txt", "2026-01-15 minutes"),
        ("hosting.html.md.erb", "hosting"),
        ("rates.v2.md", "rates.v2"),
        ("Leave%20policy.pdf", "Leave policy"),
        ("__.md", "__"),
    ],
)
def test_the_name_of_a_file_is_made_readable(path, name):
    assert readable_name(LoadedDocument(path=path, text="x")) == name


def test_texts_of_a_sheet_are_called_by_file_and_sheet():
    assert title("# Sheet1\n\nReviewed in May.", path="desk_limits.xlsx", part="Sheet1") == "desk limits Sheet1"
