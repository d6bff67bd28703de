"""Loading of large record files and of many documents: rows/s, memory and files/s, against other readers in one run.

    python tests/benchmarks/bench_loading.py [--megabytes 20] [--xlsx-rows 20000] [--files 20] [--runs 3]

Records: a CSV file of the size given is made in a temporary folder and read to its end in a process of its own, by our
loader and by `csv.DictReader` alone; printed are rows a second of CPU time and the peak of memory, less what the
process needed before it opened the file. The same rows as XLSX, against `openpyxl` alone. Documents: copies of the
bank's DOCX, PDF and HTML files, read in turn by our loaders and, where they are installed, by LangChain's, which give
plain text; the best of the runs counts. LangChain's loaders need docx2txt, pypdf, pypdfium2, beautifulsoup4 and lxml.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from context_engine.ingest.loaded_document import LoadedDocument
from context_engine.ingest.loaders import load

DOCUMENTS = Path(__file__).parents[1] / "data" / "documents"
HEAD = ("Entity ID", "Name", "Desk", "Limit", "Currency", "Opened", "Remark")
REMARK = "pays on time and in full since the account was opened; reviewed every year by the relationship manager. " * 3
Reader = Callable[[Path], int]


def rows() -> Iterator[tuple[Any, ...]]:
    """Yield rows of accounts without end."""
    number = 0
    while True:
        opened = f"2026-01-{number % 28 + 1:02}"
        yield f"AC-{number:08}", f"Customer {number} Ltd", "Rates", number % 900, "USD", opened, REMARK
        number += 1


def make_csv(path: Path, megabytes: int) -> None:
    """Write rows up to a size."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEAD)
        for number, row in enumerate(rows()):
            writer.writerow(row)
            if number % 1_000 == 0 and file.tell() > megabytes << 20:
                return


def make_xlsx(path: Path, count: int) -> None:
    """Write a number of rows."""
    import openpyxl

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Accounts")
    sheet.append(HEAD)
    for _, row in zip(range(count), rows()):
        sheet.append(row)
    book.save(path)


def ours(path: Path) -> int:
    """Read with our loader; the number of documents."""
    found = 0
    for one in load(path, path.parent):
        if not isinstance(one, LoadedDocument):
            raise SystemExit(f"not read: {one}")
        found += 1
    return found


def plain_csv(path: Path) -> int:
    """Read with the standard library."""
    with path.open(encoding="utf-8", newline="") as file:
        return sum(1 for _ in csv.DictReader(file))


def plain_xlsx(path: Path) -> int:
    """Read with openpyxl alone."""
    import openpyxl

    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    return sum(1 for row in book.active.iter_rows(values_only=True) if row) - 1


READERS: dict[str, Reader] = {"ours": ours, "csv.DictReader": plain_csv, "openpyxl": plain_xlsx}


def child(reader: str, path: Path) -> None:
    """Read in this process and print what it took."""
    import openpyxl

    assert openpyxl
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    count = READERS[reader](path)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"rows": count, "seconds": seconds, "before_mb": before / 1024, "peak_mb": peak / 1024}))


def records(path: Path, readers: tuple[str, ...]) -> None:
    """Print a table of readers on one file of records."""
    size = path.stat().st_size / (1 << 20)
    print(f"\n{path.name}: {size:.0f} MB")
    print(f"{'reader':16}{'rows':>10}{'rows/s':>10}{'MB/s':>8}{'peak RSS':>10}{'growth':>8}{'ratio':>7}")
    taken: dict[str, float] = {}
    for reader in readers:
        command = [sys.executable, __file__, "--child", reader, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr[-2_000:])
        found = json.loads(done.stdout)
        taken[reader] = found["seconds"]
        growth = found["peak_mb"] - found["before_mb"]
        print(
            f"{reader:16}{found['rows']:>10,}{found['rows'] / found['seconds']:>10,.0f}{size / found['seconds']:>8.1f}"
            f"{found['peak_mb']:>7.0f} MB{growth:>5.0f} MB{found['seconds'] / taken[readers[0]]:>7.1f}"
        )


def langchain() -> dict[str, dict[str, Reader]]:
    """Return {suffix: {name: reader}} of LangChain's loaders that can be used here."""
    if importlib.util.find_spec("langchain_community") is None:
        return {}
    from langchain_community import document_loaders as loaders

    wanted = {
        ".docx": {"Docx2txtLoader": "docx2txt"},
        ".pdf": {"PyPDFLoader": "pypdf", "PyPDFium2Loader": "pypdfium2"},
        ".html": {"BSHTMLLoader": "bs4"},
    }
    return {
        suffix: {
            name: lambda path, name=name: len(getattr(loaders, name)(str(path)).load())
            for name, library in names.items()
            if importlib.util.find_spec(library)
        }
        for suffix, names in wanted.items()
    }


def documents(folder: Path, count: int, runs: int) -> None:
    """Print files a second of each reader, on copies of the bank's documents."""
    others = langchain()
    print(f"\n{count} files each, best of {runs} runs, CPU time")
    print(f"{'format':8}{'reader':18}{'files/s':>9}{'ratio':>7}")
    for source in sorted(DOCUMENTS.glob("*.*")):
        if source.suffix not in (".docx", ".pdf", ".html"):
            continue
        files = [Path(shutil.copy(source, folder / f"{number}{source.suffix}")) for number in range(count)]
        first = 0.0
        for name, reader in {"ours": ours, **others.get(source.suffix, {})}.items():
            speed = count / min(timed(reader, files) for _ in range(runs))
            first = first or speed
            print(f"{source.suffix:8}{name:18}{speed:>9.0f}{speed / first:>7.2f}")
    if not others:
        print("LangChain is not installed: pip install langchain-community docx2txt pypdf beautifulsoup4 lxml")


def timed(reader: Reader, files: list[Path]) -> float:
    """Return the seconds of CPU time that reading the files takes."""
    start = time.process_time()
    for file in files:
        reader(file)
    return time.process_time() - start


def main() -> None:
    """Run what the flags ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=20, help="size of the CSV file; 0 leaves it out")
    parser.add_argument("--xlsx-rows", type=int, default=20_000, help="rows of the XLSX file; 0 leaves it out")
    parser.add_argument("--files", type=int, default=20, help="documents of each format; 0 leaves them out")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--child", nargs=2, metavar=("READER", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)
    if given.child:
        child(given.child[0], Path(given.child[1]))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.megabytes:
            make_csv(folder / "accounts.csv", given.megabytes)
            records(folder / "accounts.csv", ("csv.DictReader", "ours"))
        if given.xlsx_rows:
            make_xlsx(folder / "accounts.xlsx", given.xlsx_rows)
            records(folder / "accounts.xlsx", ("openpyxl", "ours"))
        if given.files:
            documents(folder, given.files, given.runs)


if __name__ == "__main__":
    main()
