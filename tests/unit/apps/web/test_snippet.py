""""""

from __future__ import annotations

import pytest

from context_engine.apps.web.naming import query_marks, readable, snippet


def marked(content: str, query: str, width: int = 200) -> list[str]:
    found = snippet(content, query, width)
    return [found.text[start:end] for start, end in found.marks]


def test_words_are_marked_by_their_stems_without_punctuation() -> None:
    assert marked("Approvals: the committee (approving) may approve.", "approval") == [
        "Approvals",
        "approving",
        "approve",
    ]


def test_stop_words_of_the_query_are_not_marked() -> None:
    assert marked("The limit of the desk.", "what is the limit") == ["limit"]


def test_a_code_is_marked_as_a_whole_and_by_its_head() -> None:
    assert marked("See 4.2.1(b) and NPA-001.", "clause 4.2.1(b)") == ["4.2.1(b)"]
    assert marked("See 4.2.1(b) and NPA-001.", "NPA-001") == ["NPA-001"]


def test_chinese_is_marked_by_pairs() -> None:
    assert "".join(marked("新产品审批流程", "审批")) == "审批"


def test_a_short_text_stands_as_it_is() -> None:
    assert snippet("A rule.", "rule", 80).text == "A rule."


def test_a_long_text_is_cut_around_the_words_and_keeps_to_the_width() -> None:
    content = "Nothing to see here. " * 40 + "The escalation of a breach is immediate. " + "More words follow. " * 40
    found = snippet(content, "breach escalation", 80)
    assert found.text == "… The escalation of a breach is immediate. More words follow. More words …"
    assert len(found.text) <= 80


@pytest.mark.parametrize("width", [30, 60, 100])
@pytest.mark.parametrize("content", ["x" * 500, "word " * 200, "", "   ", "审批" * 300])
def test_no_snippet_is_longer_than_the_width(content: str, width: int) -> None:
    assert len(snippet(content, "word 审批", width).text) <= width


def test_the_heading_the_reader_sees_already_is_left_out() -> None:
    assert snippet("## 4 Criteria\n\nA new product.", "product", 80, known="Criteria").text == "A new product."
    assert snippet("## 4 Criteria\n\nA new product.", "product", 80).text == "4 Criteria — A new product."
    assert snippet("## 4 Criteria", "product", 80, known="Criteria").text == "4 Criteria"


def test_markdown_reads_as_text() -> None:
    table = "| Desk | Limit |\n|---|---:|\n| Rates | **5 %** |"
    assert readable(table) == "Desk · Limit Rates · 5 %"
    assert readable("- one\n- two\n* three") == "• one • two • three"
    assert readable("2 * 3 * 4 and `code`") == "2 * 3 * 4 and code"


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ('## <a name="s5"></a>5.1 Keys &amp; locks\n\nTwo <b>people</b>.', "5.1 Keys & locks — Two people."),
        ("See [the vault notice](https://bank.example/a/very/long/target?x=1#y).", "See the vault notice."),
        ("See [the notice][n].\n\n[n]: https://bank.example/notice", "See the notice."),
        ("<div class='x'>\n<table>\n<tr><td>Rates</td><td>5</td></tr>\n</table>\n</div>", "Rates 5"),
        ("# <%= title %>\n\n{{#hard}}A {{company}} limit{{/hard}}", "A {{company}} limit"),
        ("![The vault](vault.png)\n\n`kept_as_is`", "The vault kept_as_is"),
    ],
)
def test_links_html_and_tags_read_as_text(content: str, read: str) -> None:
    assert readable(content) == read


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("See [the policy](https://policies.example/a_(b)?x=1 'Title') now.", "See the policy now."),
        ('![Diagram](img/flow.png) of [limits][lim].\n\n[lim]: https://a.example/limits "L"', "Diagram of limits."),
        ('# <a name="s5"></a>5 Keys &amp; locks', "5 Keys & locks"),
        ("<%= partial 'head' %>Keys<br/> and <em>locks</em>{% include x %}", "Keys and locks"),
        ("if a < b and c > d", "if a < b and c > d"),
        ("array[0](x y) and [note]", "array[0](x y) and [note]"),
    ],
)
def test_targets_of_links_html_and_templating_are_left_out(content: str, text: str) -> None:
    assert readable(content) == text


def test_the_query_s_words_are_found_where_they_stand() -> None:
    text = "Limits:\nthe limit, and *limited* liability"
    assert [text[start:end] for start, end in query_marks(text, "limit")] == ["Limits", "limit", "limited"]
