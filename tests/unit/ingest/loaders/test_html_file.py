"""HTML: main content as Markdown, what is left out, encodings."""

import pytest


@pytest.fixture
def text(one):
    return lambda body: one(f"<!doctype html><html><body>{body}</body></html>", "a.html").text


def test_the_banks_page(one, shipped):
    loaded = one(shipped("fees.html"), "f.html")
    assert loaded.text == (
        "# Fees for payments\n\nFees are taken on the day of the payment.\nAll fees are in **harbour dollars**.\n\n"
        "## Transfers\n\n| Kind | Channel | Fee |\n| --- | --- | --- |\n| Transfer abroad | online | 12.50 |\n"
        "| Transfer abroad | branch | 30.00 |\n\n## Waivers\n\n1. Students pay no fee for:\n  - domestic transfers\n"
        "  - standing orders\n2. Staff pay half."
    )
    assert (loaded.fields["title"], loaded.fields["author"]) == ("Fees for payments", "Client Services")
    assert loaded.fields["modified"].date().isoformat() == "2026-01-12"


@pytest.mark.parametrize(
    "dropped",
    [
        "<script>x</script>",
        "<style>x</style>",
        "<nav>x</nav>",
        "<aside>x</aside>",
        "<footer>x</footer>",
        "<header>x</header>",
        "<noscript>x</noscript>",
        "<template>x</template>",
        "<div hidden>x</div>",
        "<div aria-hidden=true>x</div>",
        "<div style='display: none'>x</div>",
        "<div role=navigation>x</div>",
        "<div class='wide breadcrumb'>x</div>",
        "<div id=sidebar>x</div>",
        "<button>x</button>",
        "<select><option>x</select>",
        "<!-- x -->",
        "<iframe src='http://example.invalid'>x</iframe>",
    ],
)
def test_what_is_no_content_is_left_out(text, dropped):
    assert text(f"<p>before</p>{dropped}<p>after</p>") == "before\n\nafter"


def test_the_main_element_alone_is_read_where_it_holds_the_text(text):
    long = "A sentence of the page that is long enough to count. " * 5
    assert text(f"<div>menu</div><main><p>{long}</p></main>") == long.strip()
    assert text("<div>the text</div><main></main>") == "the text"


def test_inline_elements_do_not_break_words_or_paragraphs(text):
    assert text("<p>5<sup>th</sup> <i>of</i>\n  <a href='/x'>May</a> &amp; June</p>") == "5th of May & June"


def test_spans_of_cells_layout_tables_and_nested_tables(text):
    data = "<table><tr><th colspan=2>Fee</th><th>Day</th></tr><tr><td>5</td><td>USD</td><td>1|2</td></tr></table>"
    assert text(data) == "| Fee |  | Day |\n| --- | --- | --- |\n| 5 | USD | 1\\|2 |"
    layout = "<table><tr><td>menu</td><td><h2>Title</h2><p>Body</p></td></tr></table>"
    assert text(layout) == "menu\n\n## Title\n\nBody"
    nested = f"<table><tr><td>left</td><td>{data}</td></tr></table>"
    assert text(nested) == "left\n\n| Fee |  | Day |\n| --- | --- | --- |\n| 5 | USD | 1\\|2 |"


def test_definition_lists_code_and_numbers_of_lists(text):
    assert text("<dl><dt>VaR</dt><dd>a loss that is rarely exceeded</dd></dl>") == (
        "VaR\n\na loss that is rarely exceeded"
    )
    assert text("<pre>a\n  b</pre>") == "```\na\n  b\n```"
    assert text("<ol start=4><li>four<li>five</ol>") == "4. four\n5. five"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("<p>caf\u00e9</p>".encode(), "café"),
        ("<meta charset=windows-1251><p>Банк обязан</p>".encode("cp1251"), "Банк обязан"),
        ('<meta http-equiv=Content-Type content="text/html; charset=big5"><p>銀行</p>'.encode("big5"), "銀行"),
        ("<p>Zürich</p>".encode("utf-16"), "Zürich"),
    ],
)
def test_encodings(one, content, says):
    loaded = one(content, "a.htm")
    assert loaded.text == says
    assert loaded.warnings == ()


def test_a_charset_that_is_none_is_not_believed(refused):
    assert "its encoding is not known" in refused(b"<meta charset=no-such><p>\xe9</p>"[-12:], "a.html")


def test_deep_nesting_is_read_to_a_limit(one, refused):
    assert one("<div>" * 3_000 + "deep", "a.html").text == "deep"
    assert refused("<div>" * 100_000 + "deep", "b.html") == "has elements nested over 5,000 deep"


def test_a_page_of_scripts(refused):
    assert refused("<html><script>x</script></html>", "a.html") == "has no text outside of scripts and navigation"
