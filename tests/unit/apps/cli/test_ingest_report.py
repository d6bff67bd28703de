"""What a person reads of a run: each thing once, however many files it is said of."""

import io

import pytest
from rich.console import Console

from context_engine.apps.cli.ingest_report import print_report
from context_engine.core.models import Notice, NoticeCode
from context_engine.core.protocols import SinkReport
from context_engine.ingest.loaded_document import Skipped
from context_engine.ingest.report import IngestReport


@pytest.fixture
def told():
    """The lines that are printed for a report with these skipped files and notices."""

    def run(skipped=(), notices=(), **counts):
        stream = io.StringIO()
        report = IngestReport(
            files=len(skipped), documents=0, chunks=0, unchanged=0, replaced=0, removed=0, elapsed_s=0.0,
            skipped=tuple(skipped), notices=tuple(notices), **counts,
        )  # fmt: skip
        print_report(Console(file=stream, width=100), report, SinkReport("here"))
        return report, stream.getvalue().splitlines()

    return run


def test_a_suffix_that_is_refused_is_listed_once_with_its_number_of_files(told):
    old = "is an old Word file: install LibreOffice, or save it as .docx"
    macro, kind = "may hold macros, which are not read: save it as .docx", ".zip cannot be read; supported: .md"
    skipped = [Skipped(f"old{number}.doc", old) for number in range(200)]
    skipped += [Skipped(f"m{number}.docm", macro) for number in range(3)]
    skipped += [Skipped(f"x{number}.zip", kind, error=False) for number in range(5)]
    skipped += [Skipped("bad.pdf", "is damaged"), Skipped("bad.json", "is no JSON", 7)]
    report, lines = told(skipped)
    assert [line for line in lines if "skipped:" in line or "could not be read" in line] == [
        f"could not be read: 200 files (.doc): {old} (e.g. old0.doc)",
        f"could not be read: 3 files (.docm): {macro} (e.g. m0.docm)",
        "could not be read: bad.pdf: is damaged",
        "could not be read: bad.json:7: is no JSON",
        f"5 skipped: {kind} (e.g. x0.zip)",
    ]
    assert len(report.to_dict()["skipped"]) == 210  # 200 + 3 + 5 + 2: the JSON has each


@pytest.mark.wording
def test_what_is_said_of_many_files_does_not_hide_what_is_said_of_one(told):
    aside, hidden = NoticeCode.BOILERPLATE_LEFT_OUT, NoticeCode.HIDDEN_LEFT_OUT
    many = [Notice(aside, f"page{number}.html", "navigation set aside: Home") for number in range(40)]
    _, lines = told(notices=[*many, Notice(hidden, "a.docx", "hidden text is left out: 3 words")])
    assert [line for line in lines if line.startswith("warning")] == [
        "warning: a.docx: hidden text is left out: 3 words",
        (
            "warning: 40 times: Parts of a page that are not its content were left out. "
            "(--json has all; e.g. page0.html: navigation set aside: Home)"
        ),
    ]


@pytest.mark.wording
def test_a_long_line_is_cut_and_says_so(told):
    _, lines = told(
        notices=[Notice(NoticeCode.BOILERPLATE_LEFT_OUT, "a.html", f"navigation set aside: {'word ' * 200}")]
    )
    (line,) = [line for line in lines if line.startswith("warning")]
    assert line.endswith("… (--json has all)")
    assert len(line) < 450


@pytest.mark.wording
def test_notices_of_one_kind_are_one_line_whatever_a_file_is_called(told):
    hidden = NoticeCode.HIDDEN_LEFT_OUT
    notices = [Notice(hidden, f"a: {number}.docx", f"hidden text is left out: {number} words") for number in range(4)]
    _, lines = told(notices=notices)
    assert [line for line in lines if line.startswith("warning")] == [
        (
            "warning: 4 times: Hidden text, cells, slides or fields of a file were left out. "
            "(--json has all; e.g. a: 0.docx: hidden text is left out: 0 words)"
        )
    ]


def test_what_decided_how_documents_are_cut_is_one_line(told):
    _, lines = told(cut_by={"sections": 12, "windows": 3, "fields": 1400, "declared": 0})
    assert "cut: 12 by sections (headings found), 1,400 by fields (records), 3 in windows (no sections found)" in lines


def test_files_that_only_lead_elsewhere_are_counted(told):
    stub = "is a stub that only links to another page: it gives no passage"
    _, lines = told([Skipped(f"old{number}.md", stub, error=False) for number in range(3)])
    assert f"3 skipped: {stub} (e.g. old0.md)" in lines
