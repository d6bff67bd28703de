"""HTML: main content as Markdown, what is left out, encodings."""

import pytest

NO_CONTENT = "has no text outside of scripts and navigation: save the page as the browser shows it"


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


def test_signs_that_link_to_a_place_of_the_page_are_left_out(text):
    heading = "<h2 id=fees>4 Fees<a class=headerlink href='#fees' title='Permalink'>¶</a></h2>"
    assert text(f"{heading}<p>See <a href='#n'>note 1</a>.<a href='#back'>↩</a></p>") == "## 4 Fees\n\nSee note 1."


def test_a_list_of_terms_keeps_each_beside_what_it_means(text):
    assert text("<dl><dt>VaR</dt><dd>a loss that is rarely exceeded</dd></dl>") == (
        "- VaR:\n  a loss that is rarely exceeded"
    )
    ranges = "<dl><dt><b>0-99:</b><dd><p>Fixed by the bank.</p><ul><li>till</ul><dt>100<dd>Free.</dl><p>After"
    assert text(ranges) == "- 0-99:\n  Fixed by the bank.\n  - till\n- 100:\n  Free.\n\nAfter"


def test_a_list_of_terms_with_a_structure_inside_is_a_layout(text):
    assert text("<dl><dt>fee(day)</dt><dd><pre>run</pre></dd></dl>") == "fee(day)\n\n```\nrun\n```"
    assert text("<dl><dt>a<dd><dl><dt>b<dd>c</dl></dl>") == "a\n\nb\n\nc"


def test_code_and_numbers_of_lists(text):
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
    assert refused("<html><script>x</script></html>", "a.html") == NO_CONTENT


@pytest.mark.wording
def test_what_is_set_aside_is_said_with_its_words(one):
    loaded = one(
        "<title>Fees</title><nav><a>Home</a><a>Fees</a></nav><h1>Fees</h1><p>Cash costs 5 USD.</p>"
        "<div hidden>draft of May</div><noscript>Please enable scripts</noscript><template><p>row {x}</p></template>"
        "<button>Send</button><iframe src='rates.html'>rates</iframe><footer>Harbour Bank &copy; 2026</footer>",
        "a.html",
    )
    assert loaded.text == "# Fees\n\nCash costs 5 USD."
    assert loaded.warnings == (
        "navigation, page heads and feet set aside: Home Fees / Harbour Bank © 2026",
        "hidden text set aside: draft of May",
        "fallback text set aside: Please enable scripts / row {x} / rates",
        "controls of forms set aside: Send",
        "frames are not read: rates.html",
    )


@pytest.mark.wording
def test_what_stands_beside_the_main_content_is_said_and_where_it_is_much_read(one):
    long = "A sentence of the page that is long enough to count. " * 5
    loaded = one(f"<div>Rates of today</div><main><p>{long}</p></main>", "a.html")
    assert loaded.warnings == ("navigation, page heads and feet set aside: Rates of today",)
    rules = "<p>The desk head reports every breach.</p>" * 60  # 60 · 38 characters: over 2,000
    assert "The desk head reports" in one(f"<div>{rules}</div><main><p>{long}</p></main>", "b.html").text


@pytest.mark.wording
def test_forms_show_what_is_filled_in_ticked_and_chosen(one):
    loaded = one(
        "<p>Name: <input value='Meridian Harbour Bank'><input type=hidden value=secret></p>"
        "<p><input type=checkbox checked> approved <input type=checkbox> refused</p>"
        "<p>Desk: <select><option>Rates<option selected>Credit<option>Equity</select></p>"
        "<table><tr><td>Limit</td><td><input value='25 million'></td></tr>"
        "<tr><td>Reason</td><td><textarea>hedge of bonds</textarea></td></tr></table>",
        "a.html",
    )
    assert loaded.text == (
        "Name: Meridian Harbour Bank\n\n[x] approved [ ] refused\n\nDesk: Credit\n\n"
        "| Limit | 25 million |\n| --- | --- |\n| Reason | hedge of bonds |"
    )
    assert loaded.warnings == ("controls of forms set aside: Rates / Equity",)


def test_pictures_stand_as_the_text_that_stands_for_them(text):
    assert text("<p>Flow <img src=x.png alt='from desk to risk'> chart <img alt='x.png'><img alt=''></p>") == (
        "Flow [Picture: from desk to risk] chart"
    )


@pytest.mark.wording
def test_the_title_is_the_heading_of_a_page_without_one_else_said(one):
    page = "<title>Fees – Harbour Bank</title>{}<p>Cash costs 5 USD.</p>"
    assert one(page.format(""), "a.html").text == "# Fees – Harbour Bank\n\nCash costs 5 USD."
    loaded = one(page.format("<h1>Fees</h1>"), "b.html")
    assert loaded.text == "# Fees\n\nCash costs 5 USD."
    assert loaded.warnings == ("the title of the page set aside: Fees – Harbour Bank",)


def test_details_are_read_open_or_not(text):
    assert text("<details><summary>Who?</summary><p>The desk head.</p></details>") == "Who?\n\nThe desk head."


@pytest.mark.wording
def test_a_set_of_frames_is_said(refused):
    reason = refused("<frameset><frame src=a.html><noframes>See a.html</noframes></frameset>", "a.html")
    assert "frames are not read: a.html" in reason
    assert "See a.html" in reason


def test_xhtml_closes_elements_at_once_and_marks_texts(one):
    page = (
        '<?xml version="1.0" encoding="iso-8859-1"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "x">'
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>Fees</title><script src="x.js"/></head>'
        "<body><p><a id='top'/>Caf\xe9 <![CDATA[a < b]]> end</p></body></html>"
    )
    assert one(page.encode("latin-1"), "a.html").text == "# Fees\n\nCafé a < b end"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('<meta charset="iso-2022-jp"><p>銀行</p>'.encode("iso-2022-jp"), "銀行"),
        ('<meta charset="utf-16"><p>Zürich und die Börse, größer und schöner</p>'.encode("cp1252"), "Zürich und die"),
        ('<meta charset="ascii"><p>Zürich</p>'.encode(), "Zürich"),
    ],
)
def test_a_wrong_or_narrow_charset_does_not_change_the_words(one, content, says):
    assert one(content, "a.html").text.startswith(says)


@pytest.mark.wording
def test_much_that_is_set_aside_is_quoted_to_a_limit(one):
    loaded = one(f"<nav>{'link ' * 3_000}</nav><h1>Fees</h1>", "a.html")  # 3,000 · 5 - 1 = 14,999 characters
    assert loaded.warnings[0].endswith("link … (4,999 characters more)")
