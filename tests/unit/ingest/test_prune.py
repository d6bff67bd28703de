"""What a run removes that its folder no longer holds, and what it keeps."""

import errno
import os

import pytest

from context_engine.core.models import NoticeCode
from context_engine.errors import InvalidRequest, SourceUnavailable
from context_engine.ingest.prune import MOST_UNCONFIRMED
from context_engine.ingest.run import ingest

PAGE = "# {0}\n\nText of {0}.\n"
RECORDS = '{"entity_id": "E1", "desk": "Rates"}\n{"entity_id": "E2", "desk": "FX"}\n'
SOPS = {"sops/**/*.md": "sop_document", "records/*.jsonl": "entity_record"}
BAD = b"a\nb\x00"
"""No text: a file that cannot be read."""


@pytest.fixture
def pages(folder):
    """Write pages by their paths; return the folder."""
    return lambda *paths: folder({path: PAGE.format(path) for path in paths})


def held(sink, source_id="sops"):
    return {one for one, _ in sink.documents(source_id)}


def kept(report):
    return {(one.source_id, one.reason, tuple(name for name, _ in one.documents)) for one in report.kept}


def test_what_the_folder_no_longer_holds_is_removed(pages, source, sink):
    root = pages("sops/a.md", "sops/b.md", "sops/c.md")
    ingest(root, source(SOPS), sink)
    (root / "sops/b.md").unlink()
    report = ingest(root, source(SOPS), sink, prune=True)
    assert (report.removed, report.unchanged, report.kept) == (1, 2, ())
    assert held(sink) == {"a", "c"}


@pytest.mark.wording
def test_without_prune_the_report_says_what_is_gone_and_nothing_is_removed(pages, source, sink):
    root = pages("sops/a.md", "sops/b.md", "sops/c.md")
    ingest(root, source(SOPS), sink)
    (root / "sops/b.md").unlink()
    (root / "sops/c.md").unlink()
    report = ingest(root, source(SOPS), sink)
    assert (report.removed, report.errors) == (0, ())
    assert kept(report) == {("sops", NoticeCode.DOCUMENTS_GONE, ("b", "c"))}
    assert [(one.code, one.subject, one.detail["count"]) for one in report.notices] == [
        (NoticeCode.DOCUMENTS_GONE, "source sops", 2)
    ]
    assert "--prune" in report.notices[0].message
    assert held(sink) == {"a", "b", "c"}


def test_the_report_as_json_names_what_was_kept_and_why(pages, source, sink):
    root = pages("sops/a.md", "sops/b.md")
    ingest(root, source(SOPS), sink)
    (root / "sops/b.md").unlink()
    (one,) = ingest(root, source(SOPS), sink).to_dict()["kept"]
    assert (one["source_id"], one["reason"]) == ("sops", "documents_gone")
    assert one["documents"] == [{"document_id": "b", "version": ""}]
    assert "--prune" in one["cause"]


def test_one_file_ingested_alone_says_nothing_of_the_others(pages, source, sink):
    root = pages("sops/a.md", "sops/b.md")
    ingest(root, source(SOPS), sink)
    assert ingest(root / "sops/a.md", source(SOPS), sink).kept == ()


def test_a_file_that_cannot_be_read_protects_its_own_documents_alone(pages, folder, source, sink):
    root = pages("sops/a.md", "sops/b.md", "sops/c.md")
    ingest(root, source(SOPS), sink)
    (root / "sops/a.md").unlink()
    folder({"sops/b.md": BAD, "sops/never_read.md": BAD})
    report = ingest(root, source(SOPS), sink, prune=True)
    assert report.removed == 1, "a is gone, whatever else could not be read"
    assert kept(report) == {("sops", NoticeCode.NOT_PRUNED, ("b",))}
    assert "sops/b.md" in report.kept[0].cause
    assert held(sink) == {"b", "c"}


def test_a_broken_line_protects_the_records_of_its_file_alone(pages, folder, source, sink):
    root = folder({"records/one.jsonl": RECORDS, "records/two.jsonl": RECORDS.replace("E", "F")})
    ingest(root, source(SOPS), sink)
    folder({"records/one.jsonl": '{"entity_id": "E1", "desk": "Rates"}\n{broken\n'})
    folder({"records/two.jsonl": '{"entity_id": "F1", "desk": "Rates"}\n'})
    report = ingest(root, source(SOPS), sink, prune=True)
    assert held(sink) == {"E1", "E2", "F1"}, "E2 may be the broken line; F2 is gone"
    assert report.removed == 1


@pytest.mark.parametrize("content", [b"", b"  \n", b"---\ntitle: Old\n---\n"])
def test_a_file_with_nothing_left_in_it_was_read_and_its_document_is_gone(pages, folder, source, sink, content):
    root = pages("sops/a.md", "sops/b.md", "sops/c.md")
    ingest(root, source(SOPS), sink)
    (root / "sops/c.md").unlink()
    folder({"sops/b.md": content})
    report = ingest(root, source(SOPS), sink, prune=True)
    assert (report.removed, report.errors, report.kept) == (2, (), ())
    assert held(sink) == {"a"}


def test_a_document_given_twice_protects_nothing(pages, folder, source, sink):
    root = pages("sops/a.md", "sops/b.md")
    ingest(root, source(SOPS), sink)
    folder({"sops/b.md": "---\ndocument_id: a\n---\nText.\n"})
    report = ingest(root, source(SOPS), sink, prune=True)
    assert [one.path for one in report.errors] == ["sops/b.md"]
    assert held(sink) == {"a"}, "b.md was read: it no longer gives the document b"


def closed(monkeypatch, name):
    """Have the system refuse to list the folders of a name."""
    scandir = os.scandir

    def refuse(place):
        if str(place).endswith(name):
            raise PermissionError(errno.EACCES, "Permission denied", str(place))
        return scandir(place)

    monkeypatch.setattr(os, "scandir", refuse)


def test_a_folder_that_cannot_be_listed_protects_what_lies_below_it_alone(pages, source, sink, monkeypatch):
    root = pages("sops/a.md", "sops/b.md", "sops/shut/c.md", "sops/shut/deep/d.md", "sops/shutter.md")
    ingest(root, source(SOPS), sink)
    for name in ("sops/b.md", "sops/shutter.md"):
        (root / name).unlink()
    closed(monkeypatch, "shut")
    report = ingest(root, source(SOPS), sink, prune=True)
    assert [one.path for one in report.errors] == ["sops/shut"]
    assert kept(report) == {("sops", NoticeCode.NOT_PRUNED, ("c", "d"))}
    assert held(sink) == {"a", "c", "d"}


def test_a_folder_that_cannot_be_listed_at_all_protects_everything(pages, source, sink, monkeypatch):
    root = pages("sops/a.md")
    ingest(root, source(SOPS), sink)
    closed(monkeypatch, root.name)
    report = ingest(root, source(SOPS), sink, prune=True, allow_empty=True)
    assert (report.removed, held(sink)) == (0, {"a"})


def test_what_lies_behind_a_link_now_is_kept(pages, source, sink, tmp_path):
    root = pages("sops/a.md", "sops/old/b.md")
    ingest(root, source(SOPS), sink)
    (root / "sops/old").rename(tmp_path / "elsewhere")
    (root / "sops/old").symlink_to(tmp_path / "elsewhere")
    report = ingest(root, source(SOPS), sink, prune=True)
    assert kept(report) == {("sops", NoticeCode.NOT_PRUNED, ("b",))}


def test_a_renamed_file_leaves_nothing_behind(pages, source, sink):
    root = pages("sops/a.md", "sops/b.md")
    ingest(root, source(SOPS), sink)
    (root / "sops/b.md").rename(root / "sops/z.md")
    report = ingest(root, source(SOPS), sink, prune=True)
    assert (report.added, report.removed, held(sink)) == (1, 1, {"a", "z"})


def test_a_file_that_another_source_takes_now_leaves_the_first(pages, source, sink):
    root = pages("sops/a.md")
    ingest(root, [source({"sops/*.md": "default"}, "one"), source({"new/*.md": "default"}, "two")], sink)
    specs = [source({"new/*.md": "default"}, "one"), source({"sops/*.md": "default"}, "two")]
    report = ingest(root, specs, sink, prune=True)
    assert (report.removed, held(sink, "one"), held(sink, "two")) == (1, set(), {"a"})


def test_a_source_whose_rules_match_nothing_any_more_loses_its_documents_for_their_files_were_seen(pages, source, sink):
    root = pages(*(f"sops/{number}.md" for number in range(MOST_UNCONFIRMED + 1)))
    ingest(root, source(SOPS), sink)
    report = ingest(root, source({"procedures/*.md": "default"}), sink, prune=True)
    assert (report.removed, report.kept, held(sink)) == (MOST_UNCONFIRMED + 1, (), set())


def test_rows_that_are_gone_go(folder, source, sink):
    root = folder({"records/r.jsonl": RECORDS})
    ingest(root, source(SOPS), sink)
    folder({"records/r.jsonl": RECORDS.splitlines()[0]})
    assert ingest(root, source(SOPS), sink, prune=True).removed == 1
    assert held(sink) == {"E1"}


@pytest.mark.wording
def test_a_folder_that_gives_nothing_at_all_removes_nothing_until_that_is_confirmed(pages, source, sink, tmp_path):
    ingest(pages("sops/a.md"), source(SOPS), sink)
    (tmp_path / "unmounted").mkdir()
    report = ingest(tmp_path / "unmounted", source(SOPS), sink, prune=True)
    assert (report.removed, held(sink)) == (0, {"a"})
    assert kept(report) == {("sops", NoticeCode.SOURCE_EMPTIED, ("a",))}
    assert report.emptied == report.kept
    assert "--allow-empty" in report.warnings[0]
    report = ingest(tmp_path / "unmounted", source(SOPS), sink, prune=True, allow_empty=True)
    assert (report.removed, report.kept, held(sink)) == (1, (), set())


@pytest.mark.parametrize(("documents", "removed"), [(MOST_UNCONFIRMED, MOST_UNCONFIRMED), (MOST_UNCONFIRMED + 1, 0)])
def test_a_source_that_would_lose_more_than_a_few_documents_and_all_it_has_is_kept(
    pages, source, sink, documents, removed
):
    root = pages("sops/a.md", *(f"notices/{number}.md" for number in range(documents)))
    specs = [source(SOPS), source({"notices/*.md": "default"}, "notices")]
    ingest(root, specs, sink)
    for file in (root / "notices").iterdir():
        file.unlink()
    report = ingest(root, specs, sink, prune=True)
    assert report.removed == removed
    assert len(held(sink, "notices")) == documents - removed
    assert held(sink) == {"a"}


def test_a_sink_that_does_not_know_the_files_keeps_what_may_be_of_an_unread_one(pages, folder, source, make_sink):
    class Forgetful(make_sink):
        file_of = None

        def __getattribute__(self, name):
            if name == "file_of":
                raise AttributeError(name)
            return super().__getattribute__(name)

    sink = Forgetful()
    root = pages("sops/a.md", "sops/b.md")
    ingest(root, source(SOPS), sink)
    (root / "sops/a.md").unlink()
    folder({"sops/b.md": BAD})
    report = ingest(root, source(SOPS), sink, prune=True)
    assert (report.removed, held(sink)) == (0, {"a", "b"})
    assert "sops/b.md" in report.kept[0].cause
    folder({"sops/b.md": PAGE.format("sops/b.md")})
    assert ingest(root, source(SOPS), sink, prune=True).removed == 1


def test_the_id_of_an_unread_file_is_not_given_to_another(folder, source, sink):
    root = folder({"sops/a/readme.md": "Page a.", "sops/b/readme.md": "Page b."})
    ingest(root, source(SOPS), sink)
    before = sink.chunks("readme")
    folder({"sops/a/readme.md": BAD})
    report = ingest(root, source(SOPS), sink, prune=True)
    assert held(sink) == {"readme", "sops/b/readme.md"}
    assert sink.chunks("readme") == before
    assert report.removed == 0


def test_prune_touches_no_other_source(pages, source, sink):
    root = pages("one/a.md", "two/b.md")
    specs = [source({"one/*.md": "default"}, "one"), source({"two/*.md": "default"}, "two")]
    ingest(root, specs, sink)
    (root / "two/b.md").unlink()
    assert ingest(root, specs[:1], sink, prune=True).removed == 0
    assert held(sink, "two") == {"b"}


def test_a_dry_run_says_what_would_be_removed(pages, source, sink):
    root = pages("sops/a.md", "sops/b.md")
    ingest(root, source(SOPS), sink)
    (root / "sops/b.md").unlink()
    assert ingest(root, source(SOPS), sink, prune=True, dry_run=True).removed == 1
    assert held(sink) == {"a", "b"}


def test_a_source_that_cannot_be_asked_does_not_break_a_run_that_writes_nothing_to_it(pages, source, make_sink):
    class Closed(make_sink):
        def documents(self, source_id):
            if source_id == "two":
                raise SourceUnavailable("down", source_id=source_id)
            return super().documents(source_id)

    specs = [source({"one/*.md": "default"}, "one"), source({"two/*.md": "default"}, "two")]
    assert ingest(pages("one/a.md"), specs, Closed()).added == 1


def test_allow_empty_alone_is_refused(pages, source, sink):
    with pytest.raises(InvalidRequest, match="prune"):
        ingest(pages("sops/a.md"), source(SOPS), sink, allow_empty=True)
