"""A line of Markdown as a reader sees it."""

import pytest

from context_engine.core.text import has_words, without_html, without_markup, without_templating


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("[Leave](https://bank.example/a_(b)?q=1#x 'Title') of **staff**", "Leave of staff"),
        ("[![Logo](logo.svg)](https://bank.example)", "Logo"),
        ("[Leave][leave] and [^1]", "Leave and [^1]"),
        ("<https://bank.example/leave>", "https://bank.example/leave"),
        ("Fees &amp; charges &#8211; 5&nbsp;%", "Fees & charges – 5 %"),
        ("<td>Rates</td><td>5</td>", "Rates 5"),
        ("snake_case, 2*3*4 and C:\\desk", "snake_case, 2*3*4 and C:\\desk"),
        ("_it_ **_Note:_** ~~gone~~ \\*star\\*", "it Note: gone *star*"),
        ("Use [`kbd`](https://bank.example/kbd) and **`a*b*`**", "Use kbd and a*b*"),
        ("Use `<h1>` and ``a*b*``", "Use <h1> and a*b*"),
        ("<name of the bank> where x < 5 & y > 3", "<name of the bank> where x < 5 & y > 3"),
        ("{{#open}}{{desk}}{{/open}} <% if x %>{% include a.md %}", "{{desk}}"),
        ("Keys {: .big #keys}", "Keys"),
        ("Plain words\n on two lines", "Plain words on two lines"),
    ],
)
def test_marks_are_taken_off(text, read):
    assert without_markup(text) == read


def test_html_is_taken_off_and_markdown_stays():
    assert without_html("## <b>Fees</b> &amp; `<b>`\n\n- **one**<!-- no -->") == "## Fees & `<b>`\n\n- **one**"


def test_placeholders_stay_where_tags_go():
    assert without_templating("<%= a %>{{name}}{{> part}}") == "{{name}}"


@pytest.mark.parametrize(
    ("text", "said"), [("---", False), ("<br/>\n![](a.png)", False), ("<p>x</p>", True), ("5", True)]
)
def test_whether_a_reader_finds_words(text, said):
    assert has_words(text) is said


@pytest.mark.parametrize(
    "sign", ["[", "<", "{{", "*a", "&a", "[a](", "<a ", "<!--", "`a", "_a ", "<%", "a_", "![", "{:"]
)
def test_a_line_of_signs_alone_ends(sign):
    assert without_markup(sign * 2_000)
