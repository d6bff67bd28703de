"""Files that lead elsewhere give no passage and are no error; templates are read as the texts they are."""

import pytest

from context_engine.ingest.loaded_document import Skipped
from context_engine.ingest.loaders.text_file import LEADS_ELSEWHERE, ONLY_TAGS

REFRESH = (
    '<html><head><title>Moved</title><meta http-equiv="refresh" content="0; url=leave.html"></head>'
    '<body><p>This page is now <a href="leave.html">here</a>.</p></body></html>'
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.md", "# Leave\n\nThis page has moved to [Absence](absence.md).\n"),
        ("a.md", "[Absence](https://bank.example/absence)"),
        ("a.md", "Moved to policies/absence.md\n"),
        ("a.md", "---\ntitle: Leave\nredirect_to: /absence\n---\n"),
        ("a.txt", "See https://bank.example/absence\n"),
        ("a.html", REFRESH),
    ],
)
def test_a_file_that_only_leads_elsewhere_is_read_and_gives_no_passage(read, name, content):
    assert read(content, name) == [Skipped(name, LEADS_ELSEWHERE, error=False)]


@pytest.mark.parametrize(
    "content",
    [
        "# Leave\n\nSee [Absence](absence.md) for leave of more than ten days.\n",
        "[Absence](absence.md)\n\n[Fees](fees.md)\n",
        "Leave is granted by the desk.\n",
        "---\nredirect_to: /absence\n---\nLeave is granted by the desk.\n",
    ],
)
def test_a_short_text_of_its_own_is_a_document(one, content):
    assert one(content, "a.md").text


def test_a_page_that_refreshes_itself_is_a_document(one):
    page = REFRESH.replace("0; url=leave.html", "300")
    assert "This page is now here." in one(page, "a.html").text


@pytest.mark.parametrize(
    "content", ["{{ site.time }}\n{% include scope.md %}\n", "<% wrap do %>\n<%= yield %>\n<% end %>"]
)
def test_a_text_of_tags_alone_gives_no_passage(read, content):
    (skipped,) = read(content, "a.md")
    assert (skipped.error, "only template tags" in skipped.reason) == (False, True)


@pytest.mark.parametrize("name", ["limits.md.erb", "limits.html.md.erb", "limits.md.tmpl", "limits.tmpl"])
def test_a_template_of_markdown_is_read_as_it_stands(one, name):
    text = "# {{company}} limits\n\n<% if hard %>A limit is hard.<% end %>\n"
    loaded = one(text, name)
    assert (loaded.text, loaded.stem) == (text, "limits")


@pytest.mark.parametrize("name", ["nav.html.erb", "nav.erb"])
def test_a_template_of_html_is_read_without_its_tags(one, name):
    assert one("<% for one in all %><p>Desk <%= one %> limits</p><% end %>", name).text == "Desk limits"


def test_a_template_of_something_else_is_not_read(read):
    (skipped,) = read("nav:\n  - x\n", "site.yml.tmpl")
    assert (skipped.reason, skipped.error) == (
        ".yml.tmpl cannot be read; supported templates are Markdown, text and HTML",
        False,
    )


def test_a_template_of_html_without_text_is_read_and_gives_no_passage(read):
    assert read("<h1><%= title %></h1>", "page.html.erb") == [Skipped("page.html.erb", ONLY_TAGS, error=False)]
