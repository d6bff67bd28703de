"""The demo bank as files of Word, PDF, web pages and sheets: its questions find what they find in the Markdown."""

from __future__ import annotations

import csv
import html
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import docx
import fpdf
import openpyxl
import pytest
import yaml
from click.testing import CliRunner

from context_engine import Chunk, SearchRequest, SearchResult, build_engine, demo
from context_engine.adapters.sources.local import LocalBase
from context_engine.apps.cli import main
from context_engine.ingest.header import front_matter
from context_engine.testing import FakeDify, FakeDocument
from context_engine.wiring.setup import Setup, load_setup

pytestmark = pytest.mark.slow

DOMAINS = ("NPA", "DESK")
KEY = "dataset-demoformats0004"
MARGIN = {"local": 0.0, "dify": 0.05}
"""The share of questions by which the other formats may fall behind the Markdown; one of twenty is 0.05."""
FORMATS = {"md": ("docx", "pdf", "html"), "jsonl": ("xlsx", "csv")}
LABELS = {
    "document_id": "Document No.",
    "notice_id": "Notice No.",
    "regulator": "Issued by",
    "jurisdiction": "Jurisdiction",
    "version": "Version",
    "date": "Date of issue",
    "effective_from": "Effective date",
    "effective_to": "Effective to",
    "superseded_by": "Superseded by",
    "owner": "Owner",
    "classification": "Classification",
}
FACTS = ("document_version", *(name for name in LABELS if name not in ("document_id", "version")))
"""What a header says of its document, by the names it has on a chunk."""
RECORD = ("document_version", "fetched_at")
SHEETS = (".xlsx", ".csv")
ITEM = re.compile(r"^[-*] +")
LABELLED = re.compile(r"[A-Z][\w .]{2,30}: \S")
BOLD = re.compile(r"\*\*(.+?)\*\*")


# -- the documents in other formats ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Document:
    """A document of the demo: its front matter, its header block as (label, value), its blocks as lists of lines."""

    front: Mapping[str, Any]
    header: Sequence[tuple[str, str]]
    blocks: Sequence[Sequence[str]]


def read(path: Path) -> Document:
    """Return a Markdown file of the demo; the labels below its title give way to the front matter's values."""
    text = path.read_text("utf-8")
    front, end = front_matter(text)
    blocks = [block.splitlines() for block in text[end:].strip().split("\n\n")]
    if all(map(LABELLED.match, blocks[1])):
        del blocks[1]
    return Document(front, [(LABELS[key], str(front[key])) for key in LABELS if key in front], blocks)


def heading(line: str) -> tuple[int, str] | None:
    """Return the level, from 1 for a document's title, and the text of a heading."""
    marks, _, text = line.partition(" ")
    return (len(marks), text) if marks and not marks.strip("#") else None


def cells(lines: Sequence[str]) -> list[list[str]] | None:
    """Return the rows of a table, its head first."""
    if not lines[0].startswith("|"):
        return None
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines if not line.startswith("|---")]


def to_docx(source: Path, target: Path) -> None:
    """Word: styles for headings and lists, the header block as lines, or as a table where the file names a version."""
    document, written = read(source), docx.Document()
    written.core_properties.author = str(document.front["owner"])
    for lines in document.blocks:
        if found := heading(lines[0]):
            level, text = found
            written.add_paragraph(text, style="Title") if level == 1 else written.add_heading(text, level - 1)
            if level == 1 and "_v" in source.name:
                word_table(written, document.header)
            elif level == 1:
                for label, value in document.header:
                    written.add_paragraph(f"{label}: {value}")
        elif rows := cells(lines):
            word_table(written, rows)
        else:
            for line in lines:
                listed = ITEM.match(line)
                paragraph = written.add_paragraph(style="List Bullet" if listed else None)
                for number, part in enumerate(BOLD.split(line[listed.end() if listed else 0 :])):
                    paragraph.add_run(part).bold = number % 2 == 1
    written.save(str(target))


def word_table(written: Any, rows: Sequence[Sequence[str]]) -> None:
    table = written.add_table(rows=len(rows), cols=len(rows[0]), style="Table Grid")
    for row, texts in zip(table.rows, rows, strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text


class Sheet(fpdf.FPDF):
    """A page with a foot."""

    def footer(self) -> None:
        self.set_y(-15)
        self.set_font("helvetica", size=8)
        self.cell(0, 6, f"Page {self.page_no()}", align="C")


def to_pdf(source: Path, target: Path) -> None:
    """PDF: headings by the size of their type, tables with lines, the header block line below line, no id in it."""
    document, pdf = read(source), Sheet()
    pdf.add_page()

    def say(text: str, size: float, style: str = "", gap: float = 0) -> None:
        pdf.set_font("helvetica", style, size)
        pdf.multi_cell(0, size / 2, text, new_x="LMARGIN", new_y="NEXT")
        pdf.ln(gap)

    for lines in document.blocks:
        if found := heading(lines[0]):
            say(found[1], {1: 18, 2: 14}.get(found[0], 12), "B", 3)
            for label, value in document.header if found[0] == 1 else ():
                if label != "Document No.":
                    say(f"{label}: {value}", 10)
            pdf.ln(3)
        elif rows := cells(lines):
            pdf.set_font("helvetica", "", 10)
            with pdf.table(first_row_as_headings=False) as table:
                for row in rows:
                    table.row(row)
            pdf.ln(4)
        else:
            for line in lines:
                say(BOLD.sub(r"\1", line), 10, gap=3)
    pdf.output(str(target))


def to_html(source: Path, target: Path) -> None:
    """A web page: the article between navigation and foot."""
    document, body = read(source), list[str]()
    for lines in document.blocks:
        safe = [BOLD.sub(r"<b>\1</b>", html.escape(line)) for line in lines]
        if found := heading(lines[0]):
            body.append(f"<h{found[0]}>{html.escape(found[1])}</h{found[0]}>")
        elif ITEM.match(lines[0]):
            items = "".join(f"<li>{ITEM.sub('', line)}</li>" for line in safe)
            body.append(f"<ul>{items}</ul>")
        else:
            body.append(f"<p>{'<br>'.join(safe)}</p>")
    title, published = html.escape(str(document.front["title"])), document.front["published"]
    target.write_text(
        f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>{title} | {document.front["author_org"]}</title>'
        f'<meta property="article:published_time" content="{published}"></head><body><nav><a href="/">Home</a> Blog'
        f"</nav><article>{''.join(body)}</article><footer>All rights reserved</footer></body></html>",
        "utf-8",
    )


def records(source: Path) -> list[list[Any]]:
    """Return the records of a JSONL file as rows below a row of their fields."""
    found = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    names = list(dict.fromkeys(name for record in found for name in record))
    flat = [[record.get(name) for name in names] for record in found]
    return [names, *([", ".join(cell) if isinstance(cell, list) else cell for cell in row] for row in flat)]


def to_xlsx(source: Path, target: Path) -> None:
    book = openpyxl.Workbook()
    for row in records(source):
        book.active.append(row)
    book.save(target)


def to_csv(source: Path, target: Path) -> None:
    with target.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(records(source))


def turn(source: Path, target: Path) -> None:
    """Write a document of the demo in the format that its kind has in a bank; templates and two procedures stay."""
    kind = source.parent.name
    makers: dict[str, tuple[str, Callable[[Path, Path], None]]] = {
        "sops": ("docx", to_docx),
        "external_official": ("pdf", to_pdf),
        "industry_standards": ("pdf", to_pdf),
        "web": ("html", to_html),
        "system_of_record": ("xlsx", to_xlsx) if "register" in source.name else ("csv", to_csv),
    }
    if kind not in makers or "-SOP-005" in source.stem:
        shutil.copy(source, target)
        return
    suffix, make = makers[kind]
    make(source, target.with_name(f"{source.stem}.{suffix}"))


def written(folder: Path, write: Callable[[Path, Path], Any]) -> Path:
    """Write the documents of the domains into a folder."""
    for domain in DOMAINS:
        for file in (demo.BANK / domain.lower()).rglob("*.*"):
            to = folder / file.relative_to(demo.BANK)
            to.parent.mkdir(parents=True, exist_ok=True)
            write(file, to)
    return folder


# -- a bank in either target -------------------------------------------------------------------------------------------


class StillClock:
    def now(self) -> datetime:
        return datetime(2026, 3, 2, 10, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


class Piece(NamedTuple):
    """A chunk as the base holds it: what it says of itself (in Dify, what its document says), and its text."""

    says: Mapping[str, Any]
    text: str


@dataclass(frozen=True)
class Bank:
    """What the command line reported of each domain, and what the base then holds and answers.

    Attributes:
        held: by the name of the file without its suffix, and the id of the document.
        answers: by the question's id.
    """

    reports: Mapping[str, Any]
    held: Mapping[tuple[str, str], Sequence[Piece]]
    answers: Mapping[str, SearchResult]


def built(place: Path, target: str, documents: Path, questions: Sequence[Mapping[str, Any]]) -> Bank:
    """Take the documents in by the command line and ask the questions."""
    env = {"HOME": str(place), "CONTEXT_ENGINE_DATA_DIR": str(place / "data")}
    with FakeDify(api_key=KEY, indexing_s=0.0) as dify:
        (place / "config").mkdir()
        (place / "config" / "connections.yaml").write_text(f"dify: {{base_url: {dify.base_url}, api_key: {KEY}}}\n")
        reports = {domain: taken_in(place, target, documents, domain, env) for domain in DOMAINS}
        for domain in DOMAINS if target == "dify" else ():
            manifest(place, domain, target, dify.dataset_ids)
        setup = load_setup(config_dir=place, env=env, cwd=place)
        with build_engine(setup, data_dir=place / "data", clock=StillClock()) as engine:
            answers = {one["id"]: engine.search(request_of(one)) for one in questions}
        pieces = in_dify(dify) if target == "dify" else in_base(place, setup)
    held: dict[tuple[str, str], list[Piece]] = {}
    for document_id, piece in pieces:
        held.setdefault((Path(piece.says["source_file"]).stem, document_id), []).append(piece)
    return Bank(reports, held, answers)


def taken_in(place: Path, target: str, documents: Path, domain: str, env: Mapping[str, str]) -> Any:
    manifest(place, domain, target)
    args = ["ingest", str(documents), "--domain", domain, "--to", target, "--config-dir", str(place), "--json"]
    done = CliRunner().invoke(main, args, env=env)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def manifest(place: Path, domain: str, target: str, datasets: Mapping[str, str] | None = None) -> None:
    """Write the demo's manifest of a domain for a target, each of its rules for the other formats too."""
    raw: Any = yaml.safe_load((demo.MANIFESTS / f"{domain.lower()}.yaml").read_text("utf-8"))
    for source in raw["sources"]:
        source["adapter"] = target
        if target == "dify":
            source |= {"connection": "dify", "settings": {"vector_store": "pgvector"}}
        if datasets is not None:
            source["dataset_ids"] = [datasets[source["id"]]]
        for rule in list(source["documents"]):
            stem, _, suffix = rule["include"].rpartition(".")
            source["documents"] += [{**rule, "include": f"{stem}.{other}"} for other in FORMATS.get(suffix, ())]
    (place / "manifests").mkdir(exist_ok=True)
    (place / "manifests" / f"{domain.lower()}.yaml").write_text(yaml.safe_dump(raw))


def request_of(question: Mapping[str, Any]) -> SearchRequest:
    as_of = question.get("as_of")
    day = date.fromisoformat(as_of) if as_of else None
    return SearchRequest(query=question["query"], domain=question["domain"], as_of=day)


def in_base(place: Path, setup: Setup) -> list[tuple[str, Piece]]:
    """Return (document id, chunk) of everything in the embedded base."""

    def piece(chunk: Chunk) -> Piece:
        fields = chunk.to_dict()
        return Piece({**fields["metadata"], **fields}, chunk.content)

    sources = [source.id for name in DOMAINS for source in setup.registry.domain(name).sources]
    with LocalBase.open(place / "data" / "base") as base:
        return [(str(chunk.document_id), piece(chunk)) for name in sources for chunk in base.chunks(name)]


def in_dify(dify: FakeDify) -> list[tuple[str, Piece]]:
    """Return (document id, chunk) of everything in Dify."""

    def pieces(document: FakeDocument) -> list[tuple[str, Piece]]:
        says = document.metadata or {}
        texts = [one if isinstance(one, str) else one.content for one in document.segments]
        return [(str(says["ce_document_id"]), Piece(says, text)) for text in texts]

    documents = [document for name in dify.dataset_ids for document in dify.documents(name)]
    return [piece for document in documents for piece in pieces(document)]


@pytest.fixture(scope="module")
def asked() -> list[dict[str, Any]]:
    """The questions of the domains that have an answer."""
    found = [json.loads(line) for line in demo.QUESTIONS.read_text("utf-8").splitlines()]
    return [one for one in found if one["domain"] in DOMAINS and one["answers"]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The documents as the demo has them, and in the other formats."""
    place = tmp_path_factory.mktemp("documents")
    return written(place / "originals", shutil.copy), written(place / "formats", turn)


@pytest.fixture(scope="module", params=["local", "dify"])
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def originals(target: str, folders: tuple[Path, Path], asked: Any, tmp_path_factory: pytest.TempPathFactory) -> Bank:
    return built(tmp_path_factory.mktemp("originals"), target, folders[0], asked)


@pytest.fixture(scope="module")
def formats(target: str, folders: tuple[Path, Path], asked: Any, tmp_path_factory: pytest.TempPathFactory) -> Bank:
    return built(tmp_path_factory.mktemp("formats"), target, folders[1], asked)


# -- what the formats keep ---------------------------------------------------------------------------------------------


def facts(piece: Piece, names: Sequence[str] = FACTS) -> dict[str, Any]:
    return {name: piece.says[name] for name in names if piece.says.get(name) is not None}


def headings(pieces: Sequence[Piece]) -> set[str]:
    return {line for piece in pieces for line in piece.text.splitlines() if line.startswith("#")}


def places(pieces: Sequence[Piece]) -> set[tuple[Any, Any]]:
    """Return number and title of the sections that the chunks say they are of; Dify has no place for that.

    Not of the title page: a section follows it in its chunk or not, as long as it is in that format.
    """
    return {(section, piece.says.get("section_title")) for piece in pieces if (section := piece.says.get("section"))}


def words(*texts: str) -> set[str]:
    return {word for text in texts for word in re.findall(r"\w+", text.casefold())}


def test_every_file_is_taken_in_without_failure(originals: Bank, formats: Bank, folders: tuple[Path, Path]) -> None:
    for domain in DOMAINS:
        before, after = originals.reports[domain], formats.reports[domain]
        assert (before["refused"], before["warnings"], after["refused"]) == ([], [], [])
        # what stands beside the text is named: page numbers of PDFs, navigation of web pages
        assert all(re.search("left out|set aside|read as rows", line) for line in after["warnings"]), after["warnings"]
        assert after["documents"] == before["documents"] > 20
        # the folder holds both domains, and each leaves the files of the other
        assert {one["path"].split("/")[0].upper() for one in after["skipped"]} == {*DOMAINS} - {domain}
        assert not any(one["error"] for one in after["skipped"])
    files = {str(piece.says["source_file"]) for pieces in formats.held.values() for piece in pieces}
    assert files == {file.relative_to(folders[1]).as_posix() for file in folders[1].rglob("*.*")}
    assert {Path(file).suffix for file in files} == {".docx", ".pdf", ".html", ".xlsx", ".csv", ".md"}
    assert formats.held.keys() == originals.held.keys()


def test_what_a_header_says_stands_on_the_chunks(originals: Bank, formats: Bank) -> None:
    assert facts(formats.held["NPA-SOP-001_v3.1", "NPA-SOP-001"][0]) == {
        "document_version": "3.1",
        "date": "2023-05-22",
        "effective_from": "2023-07-01",
        "effective_to": "2025-01-01",
        "superseded_by": "3.2",
        "owner": "Product Governance Office",
        "classification": "internal",
    }
    assert facts(formats.held["FCAA-N637", "FCAA-N637"][0]) == {
        "document_version": "2023",
        "notice_id": "637",
        "regulator": "Financial Conduct Authority of Aldermere",
        "jurisdiction": "Aldermere",
        "date": "2023-03-20",
        "effective_from": "2023-07-01",
        "owner": "Supervision Policy Department",
        "classification": "public",
    }
    for key, pieces in formats.held.items():
        if "-WEB-" not in key[0]:
            assert [facts(piece) for piece in pieces] == [facts(originals.held[key][0])] * len(pieces), key


def test_a_web_page_says_when_it_was_published(originals: Bank, formats: Bank) -> None:
    days = {key: {str(piece.says["created"])[:10] for piece in pieces} for key, pieces in of_the_web(formats).items()}
    assert days["NPA-WEB-001", "NPA-WEB-001"] == {"2024-08-09"}
    assert days == {key: {str(piece.says["date"]) for piece in pieces} for key, pieces in of_the_web(originals).items()}


def of_the_web(bank: Bank) -> dict[tuple[str, str], Sequence[Piece]]:
    return {key: pieces for key, pieces in bank.held.items() if "-WEB-" in key[0]}


def test_a_row_of_a_sheet_reads_as_its_record(originals: Bank, formats: Bank) -> None:
    """Only the order of the fields may differ: that of the columns is the same for all rows."""
    rows = {key: pieces for key, pieces in formats.held.items() if Path(pieces[0].says["source_file"]).suffix in SHEETS}
    assert len(rows) == len({document_id for _, document_id in rows}) > 10
    for key, [piece] in rows.items():
        [record] = originals.held[key]
        assert sorted(piece.text.splitlines()) == sorted(record.text.splitlines())
        assert facts(piece, RECORD) == facts(record, RECORD)
        assert len(facts(piece, RECORD)) == len(RECORD)


def test_headings_keep_their_text_and_level(originals: Bank, formats: Bank) -> None:
    assert "#### 4.2.1 Threshold tests" in headings(formats.held["NPA-SOP-001_v3.2", "NPA-SOP-001"])  # Word
    assert "## 4 Classification and approval" in headings(formats.held["FCAA-N637", "FCAA-N637"])  # PDF
    for key, pieces in originals.held.items():
        assert headings(formats.held[key]) == headings(pieces), key
        assert places(formats.held[key]) == places(pieces), key


def test_no_word_is_lost_and_none_added_but_the_header(originals: Bank, formats: Bank, folders: Any) -> None:
    """The feet of pages, navigation and copyright lines stay out; in Dify a chunk's first line names its page."""
    for file in (file for file in folders[0].rglob("*.md") if "/templates/" not in file.as_posix()):
        header = {"page", *words(*(text for line in read(file).header for text in line))}
        before, after = words_of(originals, file.stem), words_of(formats, file.stem)
        assert len(before) > 50
        assert before - after == set(), file.name
        assert after - before <= header, file.name


def words_of(bank: Bank, stem: str) -> set[str]:
    return words(*(piece.text for (name, _), pieces in bank.held.items() if name == stem for piece in pieces))


def test_questions_find_the_document_they_find_in_the_originals(
    originals: Bank, formats: Bank, asked: Sequence[Mapping[str, Any]], target: str
) -> None:
    before, after = (missed(bank, asked) for bank in (originals, formats))
    print(f"\n{target}: of {len(asked)} questions the originals miss {before}, the formats {after}")
    assert len(before) <= 0.1 * len(asked)
    assert len(after) <= len(before) + MARGIN[target] * len(asked)


def missed(bank: Bank, asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the questions without a chunk of a right document, in the right version, among the first eight."""
    return [one["id"] for one in asked if not is_found(bank.answers[one["id"]], one["answers"])]


def is_found(result: SearchResult, answers: Sequence[Mapping[str, Any]]) -> bool:
    assert result.status == "complete"
    found = {(one.chunk.document_id, one.chunk.document_version) for one in result.chunks[:8]}
    found |= {(copy.document_id, copy.document_version) for one in result.chunks[:8] for copy in one.also_in}
    return not found.isdisjoint((one["document_id"], one["version"]) for one in answers)
