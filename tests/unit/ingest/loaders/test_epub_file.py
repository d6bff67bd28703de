"""EPUB: the order of the pages, headings, what is left out, what is refused."""

import io
import zipfile

import pytest

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
DC = 'xmlns:dc="http://purl.org/dc/elements/1.1/"'
META = "<dc:title>Payments Manual</dc:title><dc:creator>Ops Team</dc:creator><dc:date>2026-01-31</dc:date>"
LIST = "application/x-dtbncx+xml"


def page(body, title="page"):
    return f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>{title}</title></head><body>{body}</body></html>'


def book(pages, *, spine=None, items="", guide="", parts=None):
    """Return an EPUB of {path: body}; `items` and `guide` are entries of the package, `parts` more parts of the zip."""
    listed = "".join(
        f'<item id="{path}" href="{path.replace(" ", "%20")}" media-type="application/xhtml+xml"/>' for path in pages
    )
    order = "".join(f'<itemref idref="{path}"/>' for path in (pages if spine is None else spine))
    package = (
        f'<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata {DC}>{META}</metadata>'
        f'<manifest>{listed}{items}</manifest><spine toc="ncx">{order}</spine><guide>{guide}</guide></package>'
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", CONTAINER)
        archive.writestr("OPS/book.opf", package)
        for path, body in pages.items():
            archive.writestr(f"OPS/{path}", page(body))
        for path, part in (parts or {}).items():
            archive.writestr(path, part)
    return out.getvalue()


def test_pages_are_read_in_the_order_of_the_book(one):
    pages = {"b 2.xhtml": "<h1>2 Fees</h1><p>Cash costs 5 USD.</p>", "a.xhtml": "<h1>1 Scope</h1><p>All desks.</p>"}
    loaded = one(book(pages, spine=["a.xhtml", "b 2.xhtml"]), "a.epub")
    assert loaded.text == "# 1 Scope\n\nAll desks.\n\n# 2 Fees\n\nCash costs 5 USD."
    assert (loaded.fields["title"], loaded.fields["author"]) == ("Payments Manual", "Ops Team")
    assert loaded.fields["created"].isoformat() == "2026-01-31T00:00:00+00:00"
    assert loaded.warnings == ()


def test_boxes_notes_and_heads_of_a_chapter_are_content(one):
    body = (
        '<header><h1>1 Fees</h1></header><a id="x"/><p>Cash<a href="#n1">1</a> costs 5 USD.</p>'
        '<aside class="sidebar"><p>Note: waivers need approval.</p></aside><footer id="footer">[1] Notes.</footer>'
    )
    text = one(book({"a.xhtml": body}), "a.epub").text
    assert text == "# 1 Fees\n\nCash1 costs 5 USD.\n\nNote: waivers need approval.\n\n[1] Notes."


@pytest.mark.parametrize("version", [2, 3])
def test_a_page_without_a_heading_has_that_of_the_table_of_contents(one, version):
    nav = page('<nav><ol><li><a href="a.xhtml#top">1 Fees</a></li><li><a href="b.xhtml">2 Limits</a></li></ol></nav>')
    points = "".join(
        f'<navPoint><navLabel><text>{label}</text></navLabel><content src="{path}"/></navPoint>'
        for label, path in (("1 Fees", "a.xhtml#top"), ("2 Limits", "b.xhtml"))
    )
    ncx = f'<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap>{points}</navMap></ncx>'
    items = (
        f'<item id="ncx" href="toc.ncx" media-type="{LIST}"/>'
        if version == 2
        else '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
    )
    parts = {"OPS/toc.ncx": ncx} if version == 2 else {"OPS/nav.xhtml": nav}
    pages = {"a.xhtml": "<p>Cash costs 5 USD.</p>", "b.xhtml": "<h1>2 Limits of desks</h1><p>5 million.</p>"}
    text = one(book(pages, items=items, parts=parts), "a.epub").text
    assert text == "# 1 Fees\n\nCash costs 5 USD.\n\n# 2 Limits of desks\n\n5 million."


@pytest.mark.wording
def test_cover_and_contents_are_left_out_and_their_own_words_said(one):
    pages = {
        "cover.xhtml": "<p>Payments Manual</p><p>Strictly internal</p>",
        "toc.xhtml": "<h2>Contents</h2><p>1 Scope</p>",
        "a.xhtml": "<h1>1 Scope</h1><p>Payments Manual of all desks.</p>",
    }
    kinds = {"cover": "cover.xhtml", "toc": "toc.xhtml", "text": "a.xhtml"}
    guide = "".join(f'<reference type="{kind}" href="{path}"/>' for kind, path in kinds.items())
    loaded = one(book(pages, guide=guide), "a.epub")
    assert loaded.text == "# 1 Scope\n\nPayments Manual of all desks."
    assert loaded.warnings == (
        "a table of contents is left out: 2 lines; not in the text: Contents",
        "cover set aside: Strictly internal",
    )


@pytest.mark.wording
def test_pages_that_are_missing_or_in_another_format_are_said(one):
    items = (
        '<item id="m" href="gone.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="p" href="plan.svg" media-type="image/svg+xml"/>'
    )
    loaded = one(book({"a.xhtml": "<p>Words.</p>"}, spine=["m", "a.xhtml", "p"], items=items), "a.epub")
    assert loaded.warnings == (
        "pages in other formats are not read: OPS/plan.svg",
        "OPS/gone.xhtml: is missing or empty",
    )


def locked(path, method):
    return (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" xmlns:e="http://www.w3.org/2001/04/xmlenc#">'
        f'<e:EncryptedData><e:EncryptionMethod Algorithm="{method}"/><e:CipherData><e:CipherReference URI="{path}"/>'
        "</e:CipherData></e:EncryptedData></encryption>"
    )


def test_a_protected_book_is_refused_and_one_with_disguised_fonts_is_not(refused, one):
    pages = {"a.xhtml": "<p>Words.</p>"}
    aes = locked("OPS/a.xhtml", "http://www.w3.org/2001/04/xmlenc#aes256-cbc")
    assert "protected against copying (DRM)" in refused(book(pages, parts={"META-INF/encryption.xml": aes}), "a.epub")
    fonts = locked("OPS/font.otf", "http://www.idpf.org/2008/embedding")
    assert one(book(pages, parts={"META-INF/encryption.xml": fonts}), "a.epub").text == "Words."


def test_what_is_no_book(refused, zipped):
    assert refused(b"words", "a.epub") == "does not begin like a .epub file"
    data = book({"a.xhtml": "<p>Words.</p>"})
    assert "its suffix does not fit" in refused(data, "a.docx")
    assert "has no list of its pages" in refused(zipped(data, {"OPS/book.opf": lambda _: b""}), "a.epub")
    assert "zip bomb" in refused(zipped(data, added={"OPS/b.xhtml": b" " * (20 << 20)}), "a.epub")
    assert "run a text recognition" in refused(
        book({"a.xhtml": '<img src="1.png"/>'}, items='<item id="i" href="1.png" media-type="image/png"/>'), "a.epub"
    )


def test_the_scripts_of_a_book_are_no_macros(one):
    data = book({"one.xhtml": "<h1>One</h1><p>The first page.</p>"}, parts={"Scripts/menu.js": "open()"})
    assert one(data, "a.epub").text == "# One\n\nThe first page."
