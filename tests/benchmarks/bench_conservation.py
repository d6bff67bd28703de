"""Word recall of the loaders against reference readers, by kind of file.

Each file of a folder is ingested through the run's own machinery (worker processes, limits), and the words that another
library sees in it are looked for in its chunks and in the lines of the report. A word is a run of letters or digits,
case and compatibility forms folded; recall is the share of the reference's different words that are found.

    python tests/benchmarks/bench_conservation.py FOLDER [--suffix .pdf] [--below 0.95]

Prints one line a suffix: files, how many were read, recall (least, tenth percentile, median), the slowest file, and
with `--below` the files under that recall with some of the missing words. Needs the extras `documents` and `test`.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import email
import email.policy
import io
import json
import re
import sys
import time
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from context_engine.ingest.files import Assignment
from context_engine.ingest.loaders import LOADERS
from context_engine.ingest.reading import CutDocument, FileJob, IngestOptions
from context_engine.ingest.workers import read_all

WORD = re.compile(r"[^\W_]+")
SHORTEST = 2


def words(text: str) -> set[str]:
    """The different words of a text, single letters and digits aside."""
    folded = unicodedata.normalize("NFKC", text.replace("\u00ad", "")).casefold()
    return {word for word in WORD.findall(folded) if len(word) >= SHORTEST}


def of_docx(path: Path) -> str:
    import docx2txt

    return str(docx2txt.process(str(path)))


def of_xlsx(path: Path) -> str:
    from python_calamine import CalamineWorkbook

    workbook = CalamineWorkbook.from_path(str(path))
    visible = [one.name for one in workbook.sheets_metadata if str(one.visible).endswith(".Visible")]
    rows = (row for name in visible for row in workbook.get_sheet_by_name(name).to_python())
    return " ".join(_cell(cell) for row in rows for cell in row)


def _cell(value: Any) -> str:
    """A number as anybody would write it; calamine gives 5.0 for 5 and dates with a midnight."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, str) else ""


def of_pdf(path: Path) -> str:
    import pypdf

    return " ".join(page.extract_text() for page in pypdf.PdfReader(path).pages)


def of_html(path: Path) -> str:
    import html5lib

    tree = html5lib.parse(path.read_bytes(), namespaceHTMLElements=False)
    return " ".join(_visible(tree))


def _visible(element: Any) -> Iterator[str]:
    if not isinstance(element.tag, str) or element.tag in ("script", "style", "template", "noscript", "head"):
        yield element.tail or ""
        return
    yield element.text or ""
    for child in element:
        yield from _visible(child)
    yield element.tail or ""


def of_text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "ignore")


def of_csv(path: Path) -> str:
    text = of_text(path)
    with contextlib.suppress(csv.Error):
        return " ".join(cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row)
    return text


def of_json(path: Path) -> str:
    def texts(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for inner in value.values():
                yield from texts(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from texts(inner)
        elif isinstance(value, str):
            yield value

    return " ".join(texts(json.loads(path.read_bytes())))


def of_parts(*names: str) -> Callable[[Path], str]:
    """Read all texts of the XML parts of a zip whose names match."""

    def read(path: Path) -> str:
        with zipfile.ZipFile(path) as archive:
            wanted = [name for name in archive.namelist() if any(re.fullmatch(one, name) for one in names)]
            return " ".join(" ".join(ET.fromstring(archive.read(name)).itertext()) for name in wanted)

    return read


def of_eml(path: Path) -> str:
    message = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    body = message.get_body(("plain",))
    return f"{message['subject']} {body.get_content() if body else ''}"


REFERENCES: dict[str, Callable[[Path], str]] = {
    ".docx": of_docx,
    ".xlsx": of_xlsx,
    ".pdf": of_pdf,
    ".html": of_html,
    ".htm": of_html,
    ".csv": of_csv,
    ".md": of_text,
    ".txt": of_text,
    ".json": of_json,
    ".pptx": of_parts(r"ppt/slides/slide\d+\.xml"),
    ".odt": of_parts(r"content\.xml"),
    ".eml": of_eml,
}


class Outcome(NamedTuple):
    """What became of a file; `recall` is None where the reference sees no words or cannot read it."""

    path: Path
    read: bool
    recall: float | None
    seconds: float
    missing: tuple[str, ...]
    said: str


def outcome(path: Path, root: Path) -> Outcome:
    name = path.relative_to(root).as_posix()
    job = FileJob(path, root, (name,), (Assignment("all", None, name),))
    started = time.monotonic()
    found: set[str] = set()
    report: list[str] = []
    read = False
    for _, items in read_all([job], IngestOptions(jobs=1), {}):
        for item in items:
            if isinstance(item, CutDocument):
                read = True
                report += item.document.warnings
                for chunk in item.chunks or ():
                    found |= words(f"{chunk.title or ''} {' '.join(chunk.heading_path)} {chunk.content}")
                    found |= words(json.dumps(chunk.metadata, ensure_ascii=False, default=str))
            else:
                report.append(str(item[1]))
    seconds = time.monotonic() - started
    said = "; ".join(report)
    reference = _reference(path)
    missing = tuple(sorted(reference - found - words(said)))
    recall = 1 - len(missing) / len(reference) if reference and read else None
    return Outcome(path, read, recall, seconds, missing, said)


def _reference(path: Path) -> set[str]:
    reader = REFERENCES.get(path.suffix.lower())
    if reader is None:
        return set()
    try:
        return words(reader(path))
    except Exception:  # whatever the other library cannot read is no measure
        return set()


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--suffix", help="files of this suffix alone")
    parser.add_argument("--below", type=float, help="name the files under this recall")
    parser.add_argument("--unread", action="store_true", help="name the files that gave no document, and why")
    options = parser.parse_args()
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for path in sorted(options.folder.rglob("*")):
        suffix = path.suffix.lower()
        if path.is_file() and suffix in LOADERS and options.suffix in (None, suffix):
            outcomes[suffix].append(outcome(path, options.folder))
    print(f"{'suffix':9} {'files':>5} {'read':>5} {'measured':>8} {'least':>6} {'p10':>6} {'median':>6}  slowest")
    for suffix, found in sorted(outcomes.items()):
        recalls = [one.recall for one in found if one.recall is not None]
        slowest = max(found, key=lambda one: one.seconds)
        shown = [f"{percentile(recalls, at):6.3f}" for at in (0, 0.1, 0.5)] if recalls else ["     -"] * 3
        read = sum(one.read for one in found)
        counts = f"{suffix:9} {len(found):5} {read:5} {len(recalls):8}"
        print(f"{counts} {' '.join(shown)}  {slowest.seconds:.1f} s {slowest.path.name}")
        for one in found:
            if options.below and one.recall is not None and one.recall < options.below:
                print(f"    {one.recall:.3f} {one.path}: {' '.join(one.missing[:12])}")
            if options.unread and not one.read:
                print(f"    unread {one.path}: {one.said[:200]}")


if __name__ == "__main__":
    sys.exit(main())
