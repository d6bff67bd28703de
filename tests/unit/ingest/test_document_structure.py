"""How a document is cut: by what it declares, else by what it shows; tables of contents stand in no chunk."""

import pytest

from context_engine.core.chunking.strategy import DEFAULT_STRATEGIES, read_strategies
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models import DocumentRule, NoticeCode
from context_engine.ingest import documents as documents_module
from context_engine.ingest import scan_cache as scan_cache_module
from context_engine.ingest.document_structure import document_title, readable_name
from context_engine.ingest.documents import chunks_of, prepare
from context_engine.ingest.loaded_document import LoadedDocument
from context_engine.ingest.run import ingest
from context_engine.ingest.scan_cache import ScanCache

COUNTER = ApproxTokenCounter()

RULE = "Every desk of the bank reports a breach to market risk control on the day on which it is found."

SECTIONED = f"# Limits\n\n## 1 Scope\n\n{RULE}\n\n## 2 Waivers\n\n{RULE}\n"

CONTENTS = "Contents\n\n1 Scope ........ 2\n2 Waivers ........ 3\n3 Fees ........ 4\n"

STANDARD = f"Harbour Bank\n\nLimit Standard\n\n{CONTENTS}\n1 Scope\n\nAll desks.\n\n2 Waivers\n\nNone are given.\n"


def prepared(text=SECTIONED, rule=None, strategies=None, pages=(), record=False, **fields):
    loaded = LoadedDocument(path="a.md", text=text, fields=fields, pages=pages, record=record)
    return prepare(loaded, rule, COUNTER, strategies=strategies)


def test_an_undeclared_document_with_headings_is_cut_by_sections():
    document = prepared()
    assert document.structure.reason == "3 headings (2 numbered): by sections"
    assert (document.cut_by, document.strategy.method) == ("sections", "section_aware")
    found = chunks_of(document, COUNTER)
    assert [chunk.section for chunk in found] == ["1", "2"]
    assert [chunk.metadata["section_number"] for chunk in found] == ["1", "2"]


def test_what_is_found_is_not_stored_as_a_declared_type():
    assert {chunk.doc_type for chunk in chunks_of(prepared(), COUNTER)} == {"default"}


def test_an_undeclared_document_without_headings_is_cut_in_windows():
    document = prepared("All desks report a breach on the day.")
    assert (document.cut_by, document.strategy) == ("windows", DEFAULT_STRATEGIES["default"])


def test_a_record_is_cut_by_its_fields():
    document = prepared("Harbour Note\nrisk: high", record=True, risk="high")
    assert (document.cut_by, document.strategy.method, document.base.doc_type) == (
        "fields", "field_level", "entity_record"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "fields", "method", "size"),
    [
        (DocumentRule(include="*", doc_type="default"), {}, "fixed_size", 512),
        (DocumentRule(include="*", doc_type="regulatory_notice"), {}, "section_aware", 384),
        (None, {"doc_type": "template_document"}, "fixed_size", 512),
        (None, {"doc_type": "default"}, "fixed_size", 512),
        (DocumentRule(include="*", profile="funnel"), {}, "section_aware", 800),
    ],
)
def test_a_declared_type_and_a_profile_win(rule, fields, method, size):
    document = prepared(rule=rule, **fields)
    assert (document.cut_by, document.structure) == ("declared", None)
    assert (document.strategy.method, document.strategy.chunk_size) == (method, size)


def test_a_rule_that_states_no_type_leaves_it_to_what_the_document_shows():
    assert prepared(rule=DocumentRule(include="*")).cut_by == "sections"


def test_a_type_without_a_row_leaves_it_to_what_the_document_shows():
    document = prepared(doc_type="memo")
    assert (document.cut_by, document.base.doc_type) == ("sections", "memo")
    assert prepared(doc_type="memo", strategies=read_strategies({"memo": {"chunk_size": 99}})).cut_by == "declared"


@pytest.mark.wording
def test_contents_are_set_aside_and_told_with_their_lines_and_pages():
    document = prepared(STANDARD, pages=((0, 1), (STANDARD.index("Contents"), 2), (STANDARD.index("\n1 Scope\n"), 3)))
    (notice,) = document.notices
    assert (notice.code, notice.detail) == (NoticeCode.CONTENTS_LEFT_OUT, {"lines": 4, "pages": [2]})
    assert "3 Fees" in notice.message, "what no chunk holds is named"
    found = chunks_of(document, COUNTER)
    assert found[0].content == "Harbour Bank\n\nLimit Standard"
    assert all("...." not in chunk.content for chunk in found)
    assert all(chunk.content == STANDARD[slice(*chunk.span)] for chunk in found)


def test_a_document_that_is_nothing_but_contents_keeps_them():
    text = "- [Scope](#scope)\n- [Limits](#limits)\n- [Waivers](#waivers)\n"
    document = prepared(text)
    assert document.notices == ()
    assert [chunk.content for chunk in chunks_of(document, COUNTER)] == [text.strip()]


def test_the_report_counts_what_decided_how_documents_are_cut(folder, sink, bank):
    root = folder({
        "a.md": SECTIONED,
        "b.md": "All desks.",
        "c.csv": "Desk,Limit\nRates,5\nCredit,7\n",
        "d.md": "---\ndoc_type: sop_document\n---\nText.",
    })  # fmt: skip
    report = ingest(root, bank, sink, source_id="sops")
    assert report.to_dict()["cut_by"] == {"declared": 1, "sections": 1, "fields": 2, "windows": 1}


def test_unchanged_files_are_counted_as_they_were_cut(folder, sink, bank, tmp_path, aged):
    root = aged(folder({"a.md": SECTIONED, "b.md": "All desks."}))
    first = ingest(root, bank, sink, source_id="sops", memory=ScanCache(tmp_path / "files.json"))
    again = ingest(root, bank, sink, source_id="sops", memory=ScanCache(tmp_path / "files.json"))
    assert again.unchanged == 2
    assert again.cut_by == first.cut_by == {"sections": 1, "windows": 1}


def test_the_hash_of_a_document_says_by_which_release_it_was_cut(monkeypatch):
    now = prepared().content_hash
    monkeypatch.setattr(documents_module, "CHUNKER_VERSION", "5")
    assert prepared().content_hash != now


def test_documents_of_an_earlier_release_are_cut_again_once(folder, sink, bank, tmp_path, aged, monkeypatch):
    def run():
        return ingest(root, bank, sink, source_id="sops", memory=ScanCache(tmp_path / "files.json"))

    root = aged(folder({"a.md": SECTIONED}))
    with monkeypatch.context() as earlier:
        earlier.setattr(scan_cache_module, "CHUNKER_VERSION", "5")
        run()
    sink.held = {key: ("hash of then", chunks) for key, (_, chunks) in sink.held.items()}
    assert [run().replaced for _ in range(2)] == [1, 0]


def title(text, said=None, path="sops/hr-travel_policy_v3.md", **options):
    return document_title(LoadedDocument(path=path, text=text, **options), said)


def test_the_order():
    text = "# Travel\n\nText."
    assert title(text, "Travel Policy") == "Travel Policy"
    assert title(text, "A property", properties=True) == "Travel"
    assert title("All staff travel.", "A property", properties=True) == "A property"
    assert title("All staff travel.") == "hr travel policy v3"


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ('<a name="s5"></a>\n\n## 5 <a name="x"></a>Keys &amp; locks\n\n### 5.1 Keys\n\nTwo.', "5 Keys & locks"),
        ("## 1 Purpose\n\nText.\n\n## 2 Scope\n\nText.", "hr travel policy v3"),
        ("# Introduction\n\nText.\n\n# Rules\n\nText.", "hr travel policy v3"),
        ("# Travel\n\nText.\n\n# Fees\n\nText.", "Travel"),
        ("Version: 3\n\n# Travel\n\nText.", "Travel"),
        ("# <%= title %>\n\n## Before you go\n\nText.", "Before you go"),
        ("Harbour Bank travels. " * 20 + "\n\n# Fees\n\nText.", "hr travel policy v3"),
        ("{{logo}}\n\nText.", "hr travel policy v3"),
        ("Travel of staff\n\nText.", "Travel of staff"),
        ("# Slide 1\n\nText.", "hr travel policy v3"),
        ("Page header: | Left | Right | |\n\nPage footer: Copyright\n\nAll staff travel.", "hr travel policy v3"),
        ("Page header: Harbour Bank\n\nTravel of staff\n\nText.", "Travel of staff"),
        ("Page header and footer: Board paper", "hr travel policy v3"),
        ("Page header: Harbour Bank\nTravel of staff\n\nText.", "Travel of staff"),
    ],
)
def test_which_heading_or_line_names_a_document(text, called):
    assert title(text) == called


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("hr-travel_policy_v3.md", "hr travel policy v3"),
        ("sops/NPA-001_limits.docx", "NPA-001 limits"),
        ("sp800-63b.pdf", "sp800-63b"),
        ("2026-01-15-minutes.txt", "2026-01-15 minutes"),
        ("hosting.html.md.erb", "hosting"),
        ("rates.v2.md", "rates.v2"),
        ("Leave%20policy.pdf", "Leave policy"),
        ("__.md", "__"),
    ],
)
def test_the_name_of_a_file_is_made_readable(path, name):
    assert readable_name(LoadedDocument(path=path, text="x")) == name


def test_texts_of_a_sheet_are_called_by_file_and_sheet():
    assert title("# Sheet1\n\nReviewed in May.", path="desk_limits.xlsx", part="Sheet1") == "desk limits Sheet1"
