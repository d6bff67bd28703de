"""Scans: recognised by a program on this machine if the setting `ocr` names it, and named in any case."""

import io
import shutil
import sys
import textwrap
from functools import cache

import fpdf
import pypdfium2
import pytest

from context_engine.core.models import IngestSettings, NoticeCode
from context_engine.ingest.loaded_document import LoadedDocument
from context_engine.ingest.loaders import load

_PAGE = (360, 200)  # points
_HEAD = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n"


def _words(*paragraphs, confidence=91):
    """Return the table that tesseract writes; a paragraph is its lines."""
    rows = [
        f"5\t1\t{number}\t1\t{line}\t{word}\t0\t0\t9\t9\t{confidence}\t{text}\n"
        for number, lines in enumerate(paragraphs, 1)
        for line, words in enumerate(lines, 1)
        for word, text in enumerate(words.split(), 1)
    ]
    return _HEAD + "1\t1\t0\t0\t0\t0\t0\t0\t9\t9\t-1\t\n" + "".join(rows)


@cache
def _scan(*texts, scale=0.5):
    """Return a PDF of one picture for each text, or of the text itself if it begins with "typed: ".

    A `scale` of 3 is what a program can read.
    """
    out = fpdf.FPDF(unit="pt", format=_PAGE)
    for text in texts:
        out.add_page()
        out.set_font("helvetica", size=12)
        if text.startswith("typed: "):
            out.text(60, 100, text.removeprefix("typed: "))
            continue
        page = fpdf.FPDF(unit="pt", format=_PAGE)
        page.add_page()
        page.set_font("helvetica", size=20)
        for number, line in enumerate(text.split("\n")):
            page.text(60, 120 + 30 * number, line)
        picture = io.BytesIO()
        pypdfium2.PdfDocument(bytes(page.output()))[0].render(scale=scale).to_pil().save(picture, "PNG")
        out.image(picture, 0, 0, out.w, out.h)
    return bytes(out.output())


@pytest.fixture
def scanned(folder):
    """Read a PDF with some settings: what its loader yields."""

    def run(data, **settings):
        root = folder({"scan.pdf": data})
        (loaded,) = load(root / "scan.pdf", root, settings=IngestSettings(**settings))
        return loaded

    return run


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put a script in the place of tesseract; `out` is the base name of its result."""

    def install(body, name="tesseract"):
        script = tmp_path / "bin" / name
        script.parent.mkdir(exist_ok=True)
        head = (
            f"#!{sys.executable} -S\nimport sys, time, pathlib\nimage, out = pathlib.Path(sys.argv[1]), sys.argv[2]\n"
        )
        script.write_text(head + textwrap.dedent(body))
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")

    return install


def _codes(loaded):
    return {notice.code: dict(notice.detail) for notice in loaded.notices}


def test_recognised_pages_say_so(scanned, program):
    table = _words(["The limit of a counter-", "party is 25 %."], ["A waiver is written."])
    program(f"assert image.read_bytes()[:3] == b'P5 '\npathlib.Path(out + '.tsv').write_text({table!r})")
    loaded = scanned(_scan("typed: Page one.", "a picture"), ocr="tesseract")
    assert loaded.text == (
        "Page one.\n\n[OCR, confidence 91 %]\n\nThe limit of a counterparty is 25 %.\n\nA waiver is written."
    )
    assert loaded.pages == ((0, 1), (11, 2))
    assert _codes(loaded) == {NoticeCode.PAGES_RECOGNISED: {"pages": [2]}}


@pytest.mark.wording
def test_a_doubtful_page_is_named(scanned, program):
    program(f"pathlib.Path(out + '.tsv').write_text({_words(['Limlt'], confidence=41)!r})")
    loaded = scanned(_scan("a picture"), ocr="tesseract")
    assert loaded.warnings == (
        "text recognised (OCR) on page 1, confidence 41 %",
        "the recognised text of page 1 is doubtful: check it",
    )


@pytest.mark.wording
def test_without_the_setting_the_pages_are_named_as_before(scanned, program):
    program("raise SystemExit('not to be run')")
    loaded = scanned(_scan("typed: Page one.", "a picture"))
    assert loaded.warnings == ("page 2 is a picture without text, so it cannot be read",)
    assert "set `ocr`" in scanned(_scan("a picture")).reason


@pytest.mark.wording
@pytest.mark.parametrize(
    ("body", "settings", "says"),
    [
        ("sys.exit(1)", {}, "tesseract ended with status 1. Check that its languages `eng` are installed"),
        ("time.sleep(60)", {"file_timeout_s": 1}, "the text of 1 pages was not recognised in time: raise"),
        ("pass", {}, "tesseract ended with status 0"),
    ],
)
def test_a_program_that_fails_loses_nothing_and_is_named(scanned, program, body, settings, says):
    program(body)
    loaded = scanned(_scan("typed: Page one.", "a picture"), ocr="tesseract", **settings)
    assert loaded.text == "Page one."
    assert any(says in warning for warning in loaded.warnings)
    assert "page 2 is a picture without text, so it cannot be read" in loaded.warnings
    assert says in scanned(_scan("a picture"), ocr="tesseract", **settings).reason


@pytest.mark.wording
@pytest.mark.parametrize("name", ["tesseract", "ocrmypdf"])
def test_a_program_that_is_not_installed_is_named(scanned, monkeypatch, tmp_path, name):
    monkeypatch.setenv("PATH", str(tmp_path))
    loaded = scanned(_scan("typed: Page one.", "a picture"), ocr=name)
    assert loaded.text == "Page one."
    assert any(f"install {name}" in warning and "set `ocr` to off" in warning for warning in loaded.warnings)


@pytest.mark.wording
def test_a_page_without_words_stays_a_picture(scanned, program):
    program(f"pathlib.Path(out + '.tsv').write_bytes({(_HEAD + 'bad').encode() + bytes(range(256))!r})")
    loaded = scanned(_scan("typed: Page one.", "a picture"), ocr="tesseract")
    assert loaded.warnings == ("page 2 is a picture without text, so it cannot be read",)
    assert scanned(_scan("a picture"), ocr="tesseract").reason == (
        "its pages are pictures in which no text was recognised"
    )


@pytest.mark.parametrize("languages", ["eng", "eng+deu", "chi_sim+eng"])
def test_languages(languages):
    assert IngestSettings(ocr_languages=languages).ocr_languages == languages


@pytest.mark.parametrize("languages", ["", "e", "eng deu", "eng;rm", "-l eng", "eng+"])
def test_languages_of_another_form_are_refused(languages):
    with pytest.raises(ValueError, match="ocr_languages"):
        IngestSettings(ocr_languages=languages)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tesseract", "ocrmypdf"])
def test_the_programs_themselves(scanned, name):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    loaded = scanned(
        _scan("typed: Page one.", "The concentration limit\nis reviewed every year", scale=3),
        ocr=name,
        file_timeout_s=60,
    )
    assert isinstance(loaded, LoadedDocument)
    assert "[OCR" in loaded.text
    assert "concentration limit is reviewed every year" in " ".join(loaded.text.split())
    assert NoticeCode.PAGES_RECOGNISED in _codes(loaded)
