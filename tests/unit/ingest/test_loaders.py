"""Files as documents, and what cannot be read."""

import os

import pytest

from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders import LOADERS, load


@pytest.fixture
def read(folder):
    def run(content, name="a.md", **options):
        root = folder({name: content})
        return list(load(root / name, root, **options))

    return run


def test_markdown_with_front_matter(read):
    (loaded,) = read("---\nversion: '3.2'\n---\n# Rules\n\nNotice No.: 637\n", "sub/a.md")
    assert (loaded.path, loaded.stem, loaded.record) == ("sub/a.md", "a", False)
    assert loaded.fields == {"version": "3.2"}
    assert loaded.header == {"notice_id": "637"}
    assert loaded.text.startswith("# Rules")


def test_offsets_are_those_of_the_file(read, folder):
    content = "---\ntitle: A\n---\n# Rules\n\ntext"
    (loaded,) = read(content)
    assert content[loaded.offset :] == loaded.text


def test_a_byte_order_mark_and_other_line_ends_are_tolerated(read):
    (loaded,) = read(b"\xef\xbb\xbf---\r\ntitle: A\r\n---\r\n# Rules\r\rtext")
    assert loaded.fields == {"title": "A"}
    assert loaded.text == "# Rules\n\ntext"


@pytest.mark.parametrize("name", ["a.MD", "a.markdown", "a.txt"])
def test_suffixes(read, name):
    (loaded,) = read("text", name)
    assert isinstance(loaded, LoadedDocument)


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (b"one\ntwo\xe9\n", 2, "is not UTF-8, and its encoding is not known"),
        (b"a\nb\x00", 2, "NUL bytes"),
        (b"---\na: [\n---\n", 3, "not YAML"),
        (b"---\na: 1\n", 1, "no closing"),
    ],
)
def test_a_file_that_cannot_be_read_gives_one_error_with_its_line(read, content, line, says):
    (skipped,) = read(content)
    assert isinstance(skipped, Skipped)
    assert skipped.error
    assert (skipped.path, skipped.line) == ("a.md", line)
    assert says in skipped.reason


@pytest.mark.parametrize(("content", "says"), [(b"---\na: 1\n---\n \n", "has no text"), (b"", "is empty")])
def test_a_file_with_nothing_in_it_was_read_and_says_so(read, content, says):
    (skipped,) = read(content)
    assert (skipped.path, skipped.error) == ("a.md", False)
    assert says in skipped.reason


def test_an_error_reads_as_path_line_reason():
    assert str(Skipped("a.md", "is not UTF-8", 3)) == "a.md:3: is not UTF-8"
    assert str(Skipped("a.md", "has no text")) == "a.md: has no text"


def test_an_unknown_kind_of_file_is_skipped_without_being_an_error(read):
    (skipped,) = read("x", "a.zip")
    assert not skipped.error
    assert skipped.reason == f".zip cannot be read; supported: {', '.join(sorted(LOADERS))}"
    known = (
        ".csv .doc .docx .eml .epub .erb .htm .html .ipynb .json .jsonl .markdown .md .msg .ndjson .odp .ods .odt .pdf "
        ".ppt .pptx .rtf .tmpl .tsv"
    )
    assert LOADERS.keys() >= {*known.split(), ".txt", ".xls", ".xlsx"}


def test_the_size_limit_is_inclusive(read):
    assert isinstance(read("x" * 10, most_bytes=10)[0], LoadedDocument)
    (skipped,) = read("x" * 11, most_bytes=10)
    assert skipped.reason.startswith("has 11 bytes, at most 10 are read")


def test_a_link_inside_the_folder_is_read_and_one_out_of_it_refused(folder, tmp_path):
    root = folder({"a.md": "inside"})
    (tmp_path / "secret.md").write_text("outside")
    (root / "in.md").symlink_to(root / "a.md")
    (root / "out.md").symlink_to(tmp_path / "secret.md")
    assert [one.text for one in load(root / "in.md", root)] == ["inside"]
    (skipped,) = load(root / "out.md", root)
    assert "leads out of the folder" in skipped.reason


def test_a_file_that_is_gone_is_an_error_not_an_exception(folder):
    root = folder({})
    (skipped,) = load(root / "gone.md", root)
    assert "cannot be opened" in skipped.reason


def test_a_file_that_may_not_be_opened_is_an_error_not_an_exception(folder, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    root = folder({"a.md": "x"})
    monkeypatch.setattr(os, "open", refuse)
    assert list(load(root / "a.md", root)) == [Skipped("a.md", "cannot be opened: Permission denied")]


@pytest.mark.wording
@pytest.mark.usefixtures("collector_off")
def test_records_are_documents_and_broken_lines_do_not_stop_them(read):
    lines = [
        '{"entity_id": "NPA-001", "title": "Harbour Note", "version": "4", "risk_rating": "high"}',
        "",
        "{broken",
        "[1, 2]",
        '{"limit": NaN}',
        '{"note": "\\ud800"}',
        "{}",
        '{"version": "1"}',
        "[" * 200_000,
        '{"id": 7, "desk": "Rates"}',
    ]
    found = read("\n".join(lines), "r.jsonl")
    good = [one for one in found if isinstance(one, LoadedDocument)]
    assert [(one.line, one.text) for one in good] == [
        (1, "Harbour Note (NPA-001)\nrisk rating: high"),
        (5, "limit: NaN"),
        (6, "note: \ufffd"),
        (10, "7\nid: 7\ndesk: Rates"),
    ]
    assert [one.warnings for one in good[1:3]] == [
        ("line 5: NaN is not a JSON number: kept as text",),
        ("line 6: a lone surrogate (\\ud800-\\udfff), which is not a character, became U+FFFD",),
    ]
    assert all(one.record for one in good)
    bad = [one for one in found if isinstance(one, Skipped)]
    assert [one.line for one in bad] == [3, 4, 7, 8, 9]
    assert all(one.error for one in bad)
    assert [one.reason.split(":")[0] for one in bad] == [
        "the line is not JSON",
        "the line is not an object with fields",
        "the line is not an object with fields",
        "the record has no fields to show",
        "the record is nested too deep",
    ]


def test_a_line_separator_inside_a_record_does_not_end_its_line(read):
    found = read('{"entity_id": "A", "note": "one\u2028two"}\n{"entity_id": "B", "note": "x"}', "r.jsonl")
    assert [one.fields["entity_id"] for one in found] == ["A", "B"]
