"""File names as they are on a disk: bytes, control characters, directions, two forms of a letter, two cases."""

import json
import os
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from context_engine.ingest.files import assign, matches, original_name, shown_name
from context_engine.ingest.reading import IngestOptions
from context_engine.ingest.run import ingest
from context_engine.ingest.scan_cache import ScanCache

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only here is a name any bytes")

NFC, NFD = unicodedata.normalize("NFC", "prüfung.md"), unicodedata.normalize("NFD", "prüfung.md")

AWKWARD = {
    b"Gesch\xe4ftsbericht.md": r"Gesch\xe4ftsbericht.md",
    b"Gesch\\xe4ftsbericht.md": r"Gesch\x5cxe4ftsbericht.md",
    b"two\nlines.md": r"two\x0alines.md",
    "annex\u202edm.exe.md".encode(): r"annex\xe2\x80\xaedm.exe.md",
    b"bell\x07\x1b[2J.md": r"bell\x07\x1b[2J.md",
    b"n" * 252 + b".md": "n" * 252 + ".md",
    NFC.encode(): NFC,
    NFD.encode(): NFD,
    b"Policy.md": "Policy.md",
    b"policy.md": "policy.md",
    b"50%E4.md": "50%E4.md",
}


@pytest.fixture
def share(tmp_path):
    """A folder with a file of each awkward name, and a folder whose own name is no UTF-8."""
    root = tmp_path / os.fsdecode(b"abl\xe4ge")
    root.mkdir()
    for number, name in enumerate([*AWKWARD, b"alt\xfc/sub.md"]):
        path = root / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"The rule of file {number} stands here.\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return root


def encodable(*values):
    for value in values:
        json.dumps(value, ensure_ascii=False).encode("utf-8")


@given(st.binary(min_size=1, max_size=80))
def test_a_name_can_be_had_back_and_is_valid_text(raw):
    shown = shown_name(os.fsdecode(raw))
    assert original_name(shown) == raw
    shown.encode("utf-8")
    assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in shown)


@given(st.lists(st.sampled_from([b"\\", b"x", b"e4", b"5c", b"\xe4", b"a"]), max_size=12).map(b"".join))
def test_a_name_that_looks_like_an_escape_is_told_from_one(raw):
    assert original_name(shown_name(os.fsdecode(raw))) == raw


@pytest.mark.parametrize(("raw", "shown"), AWKWARD.items())
def test_names_as_they_are_shown(raw, shown):
    assert shown_name(os.fsdecode(raw)) == shown


def test_every_name_is_a_document_of_its_own(share, source, sink):
    report = ingest(share, source({"**/*.md": "default"}), sink)
    assert (report.documents, report.errors, report.warnings) == (len(AWKWARD) + 1, (), ())
    ids = {document for document, _ in sink.documents("sops")}
    assert ids == {shown.removesuffix(".md") for shown in AWKWARD.values()} | {"sub"}
    chunks = [chunk for _, held in sink.held.values() for chunk in held]
    assert {chunk.metadata["source_file"] for chunk in chunks} == {*AWKWARD.values(), r"alt\xfc/sub.md"}
    encodable(report.to_dict(), *(chunk.to_dict() for chunk in chunks))


def test_a_dry_run_finds_what_the_run_writes_and_a_second_run_the_same_ids(share, source, sink):
    rule = source({"**/*.md": "default"})
    dry = ingest(share, rule, sink, dry_run=True)
    written = ingest(share, rule, sink)
    again = ingest(share, rule, sink, prune=True)
    assert (dry.documents, dry.chunks) == (written.documents, written.chunks)
    assert (again.unchanged, again.added, again.removed) == (len(AWKWARD) + 1, 0, 0)


def test_a_file_that_is_gone_is_pruned_by_its_name(share, source, sink):
    rule = source({"**/*.md": "default"})
    ingest(share, rule, sink)
    (share / os.fsdecode(b"Gesch\xe4ftsbericht.md")).unlink()
    assert ingest(share, rule, sink, prune=True).removed == 1
    assert (r"Gesch\xe4ftsbericht", "") not in sink.documents("sops")


def test_the_memory_of_files_knows_them_again(share, source, sink, tmp_path):
    rule, place = source({"**/*.md": "default"}), tmp_path / "files.json"
    ingest(share, rule, sink, memory=ScanCache(place))
    kept = json.loads(place.read_text("utf-8"))["files"]
    encodable(kept)
    assert sum(r"abl\xe4ge" in name for name in kept) == len(AWKWARD) + 1
    again = ingest(share, rule, sink, memory=ScanCache(place))
    assert again.unchanged == len(AWKWARD) + 1


def test_other_processes_read_them_too(share, source, sink):
    report = ingest(share, source({"**/*.md": "default"}), sink, options=IngestOptions(jobs=2))
    assert (report.documents, report.errors) == (len(AWKWARD) + 1, ())


def test_a_single_file_goes_by_its_name(share, source, sink):
    file = share / os.fsdecode(b"Gesch\xe4ftsbericht.md")
    report = ingest(file, source({"Gesch*.md": "default"}), sink)
    assert report.documents == 1
    assert set(sink.documents("sops")) == {(r"Gesch\xe4ftsbericht", "")}


def test_what_cannot_be_read_is_reported_by_its_shown_name(share, source, sink):
    (share / os.fsdecode(b"kaputt\xe4.json")).write_text("{", encoding="utf-8")
    (share / os.fsdecode(b"bild.\xe4x")).write_text("?", encoding="utf-8")
    (share / os.fsdecode(b"zur\xfcck")).symlink_to(share.parent, target_is_directory=True)
    report = ingest(share, source({"**/*": "default"}), sink)
    assert [one.path for one in report.errors] == [r"kaputt\xe4.json"]
    assert {one.path for one in report.skipped} == {r"kaputt\xe4.json", r"bild.\xe4x", r"zur\xfcck"}
    encodable(report.to_dict(), *map(str, report.skipped))


@pytest.mark.parametrize(
    ("name", "glob"),
    [
        (NFD, NFC),
        (NFC, NFD),
        (os.fsdecode(b"a/Gesch\xe4ft.md"), "a/*.md"),
        (os.fsdecode(b"a/Gesch\xe4ft.md"), "a/Gesch?ft.md"),
        ("a/two\nlines.md", "a/**"),
        ("a/two\nlines.md", "a/*.md"),
    ],
)
def test_globs_match_names_as_they_are(name, glob):
    assert matches(name, glob)


def test_a_glob_may_say_a_name_as_it_is_shown(share, source, sink):
    (share / "Gesch\\xe4ftsbericht.md").unlink()  # the one that has this name itself
    report = ingest(share, source({r"Gesch\xe4ftsbericht.md": "default"}), sink)
    assert report.documents == 1
    assert set(sink.documents("sops")) == {(r"Gesch\xe4ftsbericht", "")}


@pytest.mark.parametrize(
    ("path", "glob", "expected"),
    [
        ("a.md", "*.md", True),
        ("npa/a.md", "*.md", False),
        ("npa/a.md", "npa/*.md", True),
        ("npa/sops/a.md", "npa/*.md", False),
        ("npa/a.md", "npa/**/*.md", True),
        ("npa/x/y/a.md", "npa/**/*.md", True),
        ("npa/x/y/a.md", "**/*.md", True),
        ("a.md", "**/*.md", True),
        ("npa/x/y/a.md", "npa/**", True),
        ("npa/a1.md", "npa/a?.md", True),
        ("npa/a12.md", "npa/a?.md", False),
        ("npa/a+b.md", "npa/a+b.md", True),
        ("npa/aab.md", "npa/a+b.md", False),
        ("npa/a.md", "./npa/*.md", True),
        ("npa/a.markdown", "npa/*.md", False),
    ],
)
def test_matches(path, glob, expected):
    assert matches(path, glob) is expected


def test_the_first_rule_of_a_source_counts_and_every_source_that_includes_a_file_takes_it(source):
    one = source({"npa/templates/*.md": "template_document", "npa/**/*.md": "sop_document"}, "one")
    two = source({"**/*.md": "default"}, "two")
    three = source({"orm/*.md": "default"}, "three")
    found = list(assign(["npa/templates/a.md"], [one, two, three]))
    assert [(item.source_id, item.rule.doc_type) for item in found] == [
        ("one", "template_document"),
        ("two", "default"),
    ]


def test_a_file_goes_by_the_first_of_its_names_that_matches(source):
    (found,) = assign(["a.md", "sops/a.md", "npa/sops/a.md"], [source({"npa/*/*.md": "sop_document"})])
    assert found.path == "npa/sops/a.md"


def test_a_rule_for_the_rest_takes_what_no_other_rule_of_any_source_includes(source):
    rest = source({"**/*": "default"}, "web", "general_web", otherwise=True)
    sops = source({"sops/*.md": "sop_document"}, "sops")
    assert [found.source_id for found in assign(["sops/a.md"], [rest, sops])] == ["sops"]
    (found,) = assign(["notes/a.md"], [rest, sops])
    assert (found.source_id, found.rule.doc_type, found.rule.tier) == ("web", "default", 5)


def test_a_rule_may_lower_authority_and_never_raise_it(source):
    (lower,) = source({"drafts/*.md": "default"}, tier=4).documents
    assert lower.tier == 4
    with pytest.raises(ValidationError, match="a rule may lower authority, never raise it"):
        source({"drafts/*.md": "default"}, tier=1)


@pytest.mark.parametrize(("claimed", "ruled", "counts"), [(None, 4, 4), (3, 4, 4), (5, 4, 5), (3, None, 3)])
def test_front_matter_may_only_lower_what_the_rule_gives(folder, source, sink, claimed, ruled, counts):
    front = f"---\nauthority_tier: {claimed}\n---\n" if claimed else ""
    ingest(folder({"a.md": f"{front}Text."}), source({"*.md": "default"}, tier=ruled), sink)
    (chunk,) = sink.chunks("a")
    assert chunk.authority_tier == counts
