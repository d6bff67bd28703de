r"""Text recognition (OCR) of PDF pages that are pictures, by a program on this machine: `tesseract` or `ocrmypdf`.

It is off unless the setting `ocr` names a program. Each page that is a picture is rendered and recognised; its text
begins with "[OCR, confidence 91 %]", the mean confidence of its words, and a page below 60 % is reported as doubtful.
ocrmypdf gives no confidence. Without the program, a language or enough time the file is read as without recognition,
and a notice says what is missing.
"""

from __future__ import annotations

import csv
import math
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import mean
from typing import Any, Final, NamedTuple

from context_engine.core.models import IngestSettings, Notice, NoticeCode
from context_engine.ingest.loaded_document import file_notice
from context_engine.ingest.loaders.program import run_bounded
from context_engine.ingest.loaders.split_words import unbroken

_SHARE: Final = 0.8  # of the file's time; the rest is for reading the file
_DOTS: Final = 300  # per inch
_MOST_PIXELS: Final = 40_000_000
_MOST_OUTPUT: Final = 20_000_000  # bytes
_DOUBTFUL: Final = 60.0
_WORD: Final = "5"  # the level of a word in tesseract's table
_PARAGRAPH: Final = itemgetter("block_num", "par_num")
_LINE: Final = itemgetter("line_num")
_INSTALL: Final = {"tesseract": "tesseract-ocr", "ocrmypdf": "ocrmypdf"}
ReadPages = Callable[[Path, Sequence[int]], Mapping[int, list[str]]]
"""Reads paragraphs from some pages of a PDF: (file, page indexes) to {page index: paragraphs}."""


class RecognisedPage(NamedTuple):
    """The text of a page.

    Attributes:
        paragraphs: empty if nothing was recognised.
        confidence: mean of its words in percent; None if the program gives none.
    """

    paragraphs: list[str]
    confidence: float | None = None

    @property
    def marked(self) -> list[str]:
        """The paragraphs below a line that says how they were read."""
        if not self.paragraphs:
            return []
        sure = "" if self.confidence is None else f", confidence {self.confidence:.0f} %"
        return [f"[OCR{sure}]", *self.paragraphs]


class Recognition(NamedTuple):
    """The pages that were recognised, by index, and the reason why others were not."""

    pages: Mapping[int, RecognisedPage]
    problem: str = ""

    def notices(self) -> Iterator[Notice]:
        """Yield notices about recognised and doubtful pages, and about a failure."""
        pages = {index: page for index, page in self.pages.items() if page.paragraphs}
        if pages:
            numbers = [index + 1 for index in pages]
            known = [page.confidence for page in pages.values() if page.confidence is not None]
            sure = f", confidence {mean(known):.0f} %" if known else ", confidence not given"
            message = f"text recognised (OCR) on {_listed(numbers)}{sure}"
            yield file_notice(NoticeCode.PAGES_RECOGNISED, message, pages=numbers)
        doubtful = [i + 1 for i, page in pages.items() if page.confidence is not None and page.confidence < _DOUBTFUL]
        if doubtful:
            message = f"the recognised text of {_listed(doubtful)} is doubtful: check it"
            yield file_notice(NoticeCode.PAGES_RECOGNISED, message, pages=doubtful)
        if self.problem:
            yield file_notice(NoticeCode.PAGES_NOT_READ, self.problem)


def _listed(numbers: Sequence[int]) -> str:
    return f"page{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def recognise(
    document: Any, data: bytes, indexes: Sequence[int], settings: IngestSettings, read_pages: ReadPages
) -> Recognition:
    """Recognise the text of some pages of an open PDF with the program that `settings.ocr` names."""
    program = shutil.which(settings.ocr)
    if program is None:
        name = _INSTALL[settings.ocr]
        return Recognition({}, f"no text was recognised: install {name}, or set `ocr` to off")
    ends = time.monotonic() + settings.file_timeout_s * _SHARE
    with tempfile.TemporaryDirectory(prefix="context-engine-", ignore_cleanup_errors=True) as folder:
        if settings.ocr == "tesseract":
            return _by_tesseract(program, document, indexes, Path(folder), settings.ocr_languages, ends)
        return _by_ocrmypdf(program, data, indexes, Path(folder), settings.ocr_languages, ends, read_pages)


def _by_tesseract(
    program: str, document: Any, indexes: Sequence[int], folder: Path, languages: str, ends: float
) -> Recognition:
    pages: dict[int, RecognisedPage] = {}
    for index in indexes:
        left = ends - time.monotonic()
        if left <= 0:
            return Recognition(pages, _too_long(len(indexes) - len(pages)))
        image, out = folder / "page.pgm", folder / "page"
        _render(document[index], image)
        status = run_bounded([program, str(image), str(out), "-l", languages, "tsv"], folder, left)
        if status is None:
            return Recognition(pages, _too_long(len(indexes) - len(pages)))
        table = out.with_suffix(".tsv")
        if status or not table.is_file() or table.stat().st_size > _MOST_OUTPUT:
            return Recognition(pages, _failed("tesseract", status, languages))
        pages[index] = _page_of(table)
        table.unlink()
    return Recognition(pages)


def _by_ocrmypdf(
    program: str,
    data: bytes,
    indexes: Sequence[int],
    folder: Path,
    languages: str,
    ends: float,
    read_pages: ReadPages,
) -> Recognition:
    given, made = folder / "given.pdf", folder / "made.pdf"
    given.write_bytes(data)
    pages = ",".join(str(index + 1) for index in indexes)  # of a scan with a stamp the stamp is text
    options = ["--force-ocr", "--pages", pages, "--output-type", "pdf", "--jobs", "1", "-l", languages]
    status = run_bounded([program, *options, str(given), str(made)], folder, ends - time.monotonic())
    if status is None:
        return Recognition({}, _too_long(len(indexes)))
    if status or not made.is_file():
        return Recognition({}, _failed("ocrmypdf", status, languages))
    texts = read_pages(made, indexes)
    return Recognition({index: RecognisedPage(texts.get(index, [])) for index in indexes})


def _too_long(count: int) -> str:
    return f"the text of {count:,} pages was not recognised in time: raise `file_timeout_s`"


def _failed(program: str, status: int, languages: str) -> str:
    return (
        f"no text was recognised: {program} ended with status {status}. "
        f"Check that its languages `{languages}` are installed (`tesseract --list-langs`), or set `ocr` to off"
    )


def _render(page: Any, file: Path) -> None:
    """Write a page as a grey picture in the form PGM."""
    try:
        width, height = page.get_size()
        most = math.sqrt(_MOST_PIXELS / max(width * height, 1.0))
        bitmap = page.render(scale=min(_DOTS / 72, most), grayscale=True)
        rows, stride = memoryview(bitmap.buffer).cast("B"), bitmap.stride
        with file.open("wb") as stream:
            stream.write(f"P5 {bitmap.width} {bitmap.height} 255\n".encode())
            for row in range(bitmap.height):
                stream.write(rows[row * stride : row * stride + bitmap.width])
        bitmap.close()
    finally:
        page.close()


def _page_of(table: Path) -> RecognisedPage:
    """Return the page that a table of tesseract describes: a row for each word."""
    with table.open(encoding="utf-8", errors="replace", newline="") as stream:
        rows = csv.DictReader((line.replace("\0", "") for line in stream), delimiter="\t", quoting=csv.QUOTE_NONE)
        words = [row for row in rows if row.get("level") == _WORD and (row.get("text") or "").strip(" |")]
    paragraphs = [
        unbroken([" ".join(row["text"].strip() for row in line) for _, line in groupby(group, _LINE)], Counter())
        for _, group in groupby(words, _PARAGRAPH)
    ]
    sure = [float(row["conf"]) for row in words if _is_number(row.get("conf"))]
    return RecognisedPage(paragraphs, mean(sure) if sure else None)


def _is_number(text: str | None) -> bool:
    return (text or "").replace(".", "", 1).isdecimal()
