"""How many facts of a folder's tables stand in a chunk that alone says their row and their column.

    python tests/benchmarks/bench_facts.py FOLDER [--facts 400] [--baseline TREE] [--wrong 10]

A fact is a value with the first cell of its row and the name of its column, taken from the structure of the file by
other libraries (python-docx, openpyxl, lxml, pdfplumber; Markdown tables by their bars) and drawn by a fixed seed, at
most forty from one table. It is right if one chunk holds all three. Tables without a row of names, hidden sheets,
rows and columns, and cells that repeat the row's name are left out. With `--baseline`, a checkout of another release,
its share stands beside, and the ratio. Needs the extras `documents` and `test`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SEED = 36
MOST_OF_A_TABLE = 40
MOST_NAME = 80  # characters of the name of a row or column
Rows = Sequence[Sequence[str]]
NUMBER = re.compile(r"[\s\d.,:/%()+€$£-]*\d[\s\d.,:/%()+€$£-]*")


class Fact(NamedTuple):
    path: str
    value: str
    row: str
    column: str


def of_docx(path: Path) -> Iterator[Rows]:
    import docx

    for table in docx.Document(str(path)).tables:
        rows = [[cell.text for cell in row.cells] for row in table.rows]
        merged = any(len({cell._tc for cell in row.cells}) < len(row.cells) for row in table.rows)
        if not merged and not any(cell.tables for row in table.rows for cell in row.cells):
            yield rows


def of_xlsx(path: Path) -> Iterator[Rows]:
    import openpyxl

    book = openpyxl.load_workbook(path, data_only=True)
    for sheet in book.worksheets:
        if sheet.sheet_state == "visible" and not sheet.merged_cells.ranges:
            hidden = {letter for letter, column in sheet.column_dimensions.items() if column.hidden}
            rows = [
                ["" if cell.value is None else _shown(cell) for cell in row if cell.column_letter not in hidden]
                for row in sheet.iter_rows()
                if not sheet.row_dimensions[row[0].row].hidden
            ]
            yield [row for row in rows if any(row)]


def _shown(cell: object) -> str:
    value = cell.value  # type: ignore[attr-defined]
    if isinstance(value, float):
        return f"{value:.15g}"
    return value.date().isoformat() if hasattr(value, "date") and not value.time().hour else str(value)


def of_html(path: Path) -> Iterator[Rows]:
    from lxml import html

    for table in html.parse(str(path)).getroot().iter("table"):
        cells = [list(row.iter("td", "th")) for row in table.iter("tr")]
        spans = any(cell.get("colspan") or cell.get("rowspan") for row in cells for cell in row)
        if not spans and not any(True for inner in table.iter("table") if inner is not table):
            yield [[" ".join(cell.itertext()) for cell in row] for row in cells]


def of_markdown(path: Path) -> Iterator[Rows]:
    rows: list[list[str]] = []
    for line in [*path.read_text("utf-8", errors="replace").split("\n"), ""]:
        if line.strip().startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))])
        elif rows:
            if len(rows) > 2 and all(re.fullmatch(r":?-+:?", cell) for cell in rows[1]):
                yield [rows[0], *rows[2:]]
            rows = []


def of_pdf(path: Path) -> Iterator[Rows]:
    import pdfplumber

    with pdfplumber.open(path) as document:
        for page in document.pages[:30]:
            for table in page.extract_tables():
                if all(cell is not None for row in table for cell in row):  # None: a merged cell
                    yield [[cell or "" for cell in row] for row in table]


READERS: dict[str, Callable[[Path], Iterator[Rows]]] = {
    ".docx": of_docx,
    ".html": of_html,
    ".md": of_markdown,
    ".pdf": of_pdf,
    ".xlsx": of_xlsx,
}


def plain(text: str) -> str:
    """Return a text to be compared: compatible forms and case folded, without Markdown's marks, targets and spaces."""
    text = re.sub(r"\]\([^()\s]*\)", "]", text)
    text = unicodedata.normalize("NFKC", text.replace("\u00ad", "")).casefold()
    return "".join(re.sub(r"[*~^\\|#_`\[\]]", " ", text).split())


def facts_of(path: Path, name: str) -> Iterator[list[Fact]]:
    """Yield the facts of each table of a file."""
    for table in READERS[path.suffix.lower()](path):
        if len(table) < 3 or len(table[0]) < 2:
            continue
        head = [plain(cell) for cell in table[0]]
        named = all(0 < len(cell) <= MOST_NAME and not NUMBER.fullmatch(cell) for cell in head)
        if named and len(set(head)) == len(head):
            yield [
                Fact(name, value, row, column)
                for cells in table[1:]
                if len(cells) == len(head) and 0 < len(row := plain(cells[0])) <= MOST_NAME
                for column, cell in zip(head[1:], cells[1:])
                if (value := plain(cell)) and value not in (row, column) and len(value) <= MOST_NAME
            ]


def drawn(folder: Path, count: int) -> list[Fact]:
    """Return the facts that are looked for, the same for each release."""
    chance = random.Random(SEED)
    out: list[Fact] = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix.lower() in READERS:
            try:
                tables = list(facts_of(path, str(path.relative_to(folder))))
            except Exception as error:
                print(f"not measured: {path.name}: {type(error).__name__}", file=sys.stderr)
                continue
            for table in tables:
                out += chance.sample(table, min(len(table), MOST_OF_A_TABLE))
    by_kind: dict[str, list[Fact]] = defaultdict(list)
    for fact in chance.sample(out, len(out)):
        by_kind[Path(fact.path).suffix.lower()].append(fact)
    share = max(1, count // max(len(by_kind), 1))
    chosen = [fact for facts in by_kind.values() for fact in facts[:share]]
    rest = [fact for facts in by_kind.values() for fact in facts[share:]]
    return [*chosen, *rest[: count - len(chosen)]]


def chunks(path: Path, tree: Path) -> list[str]:
    """Return the chunks of a file as they are compared, each below its title, as a release cuts them."""
    command = [sys.executable, "-m", "context_engine", "chunk", str(path.resolve()), "--json"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True)
    documents = json.loads(done.stdout).get("documents", []) if done.stdout.startswith("{") else []
    return [
        plain(f"{document.get('title') or ''} {chunk['content']}")
        for document in documents
        for chunk in document["chunks"]
    ]


def right(folder: Path, facts: Sequence[Fact], tree: Path) -> list[bool]:
    """Return for each fact whether one chunk holds it."""
    known = {path: chunks(folder / path, tree) for path in dict.fromkeys(fact.path for fact in facts)}
    return [any(all(part in text for part in fact[1:]) for text in known[fact.path]) for fact in facts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--facts", type=int, default=400)
    parser.add_argument("--baseline", type=Path, metavar="TREE", help="a checkout of another release")
    parser.add_argument("--wrong", type=int, default=10, help="name so many facts of each kind that were not found")
    options = parser.parse_args()
    facts = drawn(options.folder, options.facts)
    hits = right(options.folder, facts, ROOT)
    before = right(options.folder, facts, options.baseline.resolve()) if options.baseline else None
    print(f"{'kind':8} {'facts':>5} {'right':>6} {'before':>6} {'ratio':>6}")
    for kind in [*sorted({Path(fact.path).suffix.lower() for fact in facts}), "all"]:
        places = [at for at, fact in enumerate(facts) if kind in ("all", Path(fact.path).suffix.lower())]
        now = sum(hits[at] for at in places) / len(places)
        line = f"{kind:8} {len(places):5} {now:6.3f}"
        if before is not None:
            then = sum(before[at] for at in places) / len(places)
            line += f" {then:6.3f} {now / then if then else float('inf'):6.2f}"
        print(line)
        for at in [at for at in places if not hits[at]][: options.wrong if kind != "all" else 0]:
            print(f"    {facts[at].path}: {facts[at].value!r} of {facts[at].row!r} in {facts[at].column!r}")


if __name__ == "__main__":
    sys.exit(main())
