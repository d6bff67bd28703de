"""Every word that another reader of PDFs sees stands in the text or in a warning, on the page it stands on."""

import io
import re
import unicodedata

import fpdf
import pypdf
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from context_engine.ingest.loaded_document import LoadedDocument, page_at
from context_engine.ingest.loaders import load

CHECKS = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
WORD = re.compile(r"\w+")
NAMES = [
    "bank",
    "limit",
    "desk",
    "counterparty",
    "year-end",
    "exposure",
    "5",
    "12",
    "2026",
    "EUR",
    "risk-weighted",
    "Zürich",
    "4.2",
]
WORDS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=40).map(" ".join)
EDGE = st.sampled_from(
    [
        "",
        "Harbour Bank",
        "Page #",
        "# / 9",
        "Harbour Bank | #",
        "Limit #",
        "Borrower: Seahorse Ltd",
        "Seite # von 9",
        "#",
    ]
)
NOTES = st.lists(st.tuples(st.sampled_from(["text", "free", "highlight"]), WORDS), max_size=2)
PAGE = st.fixed_dictionaries(
    {
        "paragraphs": st.lists(WORDS, max_size=4),
        "columns": st.integers(0, 3),
        "notes": NOTES,
        "turn": st.sampled_from([0, 0, 90]),
    }
)
BARE = {"paragraphs": [], "columns": 0, "notes": [], "turn": 0}
DOCUMENT = st.fixed_dictionaries({"pages": st.lists(PAGE, min_size=1, max_size=5), "head": EDGE, "foot": EDGE})


class Document(fpdf.FPDF):
    """A document with a head and a foot; "#" is the page."""

    def __init__(self, head, foot):
        super().__init__()
        self.head, self.foot = head, foot
        self.set_font("helvetica", size=10)

    def header(self):
        self.edge(8, self.head)

    def footer(self):
        self.edge(-12, self.foot)

    def edge(self, y, text):
        if text:
            self.set_y(y)
            self.cell(0, 5, text.replace("#", str(self.page_no())))
            self.set_y(25)

    def fill(self, number, page):
        self.add_page()
        self.set_y(30)
        for at, words in enumerate(page["paragraphs"]):
            self.multi_cell(0, 5, f"{token(number, at)} {words}", align="L", new_x="LMARGIN", new_y="NEXT")
            self.ln(4)
        with self.rotation(page["turn"], 105, 200):
            for row in range(5 if page["columns"] else 0):
                for column in range(page["columns"]):
                    self.text(15 + 180 / page["columns"] * column, 190 + 5 * row, f"of column {column} and row {row}.")
        for kind, words in page["notes"]:
            if kind == "text":
                self.text_annotation(150, 100, words)
            elif kind == "free":
                self.free_text_annotation(words, x=20, y=150, w=100, h=20)
            else:
                with self.highlight(words):
                    self.text(20, 240, "marked text.")


def token(number, at):
    """A word that stands once in a document."""
    return f"p{number}x{at}"


def words_of(text):
    """The words of a text, in small letters, ligatures taken apart and words that a line's end cuts put together."""
    plain = unicodedata.normalize("NFKC", text).replace("\u00ad", "")
    return {word.lower() for word in WORD.findall(re.sub(r"(?<=\w)-\s*(?=\w)", "", plain))}


def seen_by_pypdf(data):
    """The words of pages and annotations, as pypdf reads them."""
    out = set()
    for page in pypdf.PdfReader(io.BytesIO(data)).pages:
        out |= words_of(page.extract_text())
        for one in page.get("/Annots") or ():
            out |= words_of(str(one.get_object().get("/Contents", "")))
    return out


def in_full(warning):
    """A warning with every number of a range: "(1–3)" says the page numbers 1, 2 and 3."""
    return re.sub(r"(\d+)–(\d+)", lambda found: " ".join(map(str, range(int(found[1]), int(found[2]) + 1))), warning)


def conserves(document, folder):
    pdf = Document(document["head"], document["foot"])
    for number, page in enumerate(document["pages"], start=1):
        pdf.fill(number, page)
    data = bytes(pdf.output())
    wanted = seen_by_pypdf(data)
    path = folder / "a.pdf"
    path.write_bytes(data)
    (loaded,) = load(path, folder)
    if not isinstance(loaded, LoadedDocument):
        assert not wanted, loaded.reason
        return
    assert wanted <= words_of(loaded.text) | words_of(" ".join(map(in_full, loaded.warnings)))
    for number, page in enumerate(document["pages"], start=1):
        for at in range(len(page["paragraphs"])):
            assert page_at(loaded.pages, loaded.text.index(token(number, at))) == number


TURNED = {"paragraphs": ["bank bank bank year-end year-end year-end limit"], "columns": 1, "notes": [], "turn": 90}
"""The turned text begins where the paragraph ends: PDFium joins them to "limitof"."""


@settings(max_examples=10, deadline=None, suppress_health_check=CHECKS)
@given(DOCUMENT)
@example({"pages": [BARE, BARE, {**BARE, "paragraphs": ["limit"]}], "head": "", "foot": "Page #"})
@example({"pages": [TURNED], "head": "", "foot": ""})
@example({"pages": [{**BARE, "paragraphs": ["limit"]}] * 4, "head": "Harbour Bank", "foot": "Harbour Bank | #"})
@pytest.mark.wording
def test_no_word_is_lost(tmp_path, document):
    conserves(document, tmp_path)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=CHECKS)
@given(DOCUMENT)
def test_no_word_is_lost_in_many_documents(tmp_path, document):
    conserves(document, tmp_path)
