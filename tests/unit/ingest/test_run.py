"""Runs over folders."""

import pytest

from context_engine.errors import InvalidRequest
from context_engine.ingest.reading import IngestOptions
from context_engine.ingest.run import ingest

NO_RULE = "no rule includes it: add one to a source's documents, or name the source (--source) or its adapter (--to)"

RULE = "The first rule binds all staff of the bank, wherever they work."
A = f"---\ndocument_id: A\nversion: '1'\n---\n# A\n\n## 1 One\n\n{RULE}\n\n## 2 Two\n\nText two.\n"
B = "# B\n\nText of b.\n"
RECORDS = '{"entity_id": "E1", "desk": "Rates"}\n{"entity_id": "E2", "desk": "FX"}\n'
RULES = {"sops/*.md": "sop_document", "records/*.jsonl": "entity_record"}
FILES = {"sops/a.md": A, "sops/b.md": B, "records/r.jsonl": RECORDS}


def test_a_first_run_writes_everything(folder, source, sink):
    report = ingest(folder(FILES), source(RULES), sink)
    assert (report.files, report.documents, report.added) == (3, 4, 4)
    assert report.chunks == 2 + 1 + 1 + 1
    assert (report.unchanged, report.replaced, report.removed, report.skipped) == (0, 0, 0, ())
    assert set(sink.documents("sops")) == {("A", "1"), ("b", ""), ("E1", ""), ("E2", "")}
    assert [chunk.chunk_id for chunk in sink.chunks("A", "1")] == ["A@1#1", "A@1#2"]
    assert sink.commits == [4]


def test_a_second_run_writes_nothing(folder, source, sink):
    root = folder(FILES)
    ingest(root, source(RULES), sink)
    report = ingest(root, source(RULES), sink)
    assert (report.documents, report.unchanged, report.chunks, report.added) == (4, 4, 0, 0)
    assert (sink.puts, sink.commits) == (4, [4])


def test_a_changed_document_is_replaced_and_the_others_left_alone(folder, source, sink):
    root = folder(FILES)
    ingest(root, source(RULES), sink)
    folder({"sops/b.md": "# B\n\nText of b, changed.\n"})
    report = ingest(root, source(RULES), sink)
    assert (report.unchanged, report.replaced, report.added, report.chunks) == (3, 1, 0, 1)
    assert "changed" in sink.chunks("b")[0].content


def test_a_new_version_stands_beside_the_old_one(folder, source, sink):
    ingest(folder({"sops/a.md": A, "sops/a2.md": A.replace("'1'", "'2'")}), source(RULES), sink)
    assert set(sink.documents("sops")) == {("A", "1"), ("A", "2")}


def test_commits_come_every_batch_and_a_broken_run_goes_on(folder, source, sink):
    root = folder({f"sops/{number}.md": f"Page {number}." for number in range(5)})
    calls = []

    def stop(done, total, path):
        calls.append((done, total, path))
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(root, source(RULES), sink, options=IngestOptions(batch=2), progress=stop)
    assert sink.commits == [2, 4]
    assert calls[0] == (0, 5, "sops/0.md")
    report = ingest(root, source(RULES), sink)
    assert (report.unchanged, report.added) == (4, 1)


def test_progress_ends_at_the_total(folder, source, sink):
    calls = []
    ingest(folder(FILES), source(RULES), sink, progress=lambda *call: calls.append(call))
    assert [call[0] for call in calls] == [0, 1, 2, 3]
    assert [call[2] for call in calls] == ["records/r.jsonl", "sops/a.md", "sops/b.md", ""]


def test_files_without_a_rule_are_skipped_and_said(folder, source, sink):
    report = ingest(folder({**FILES, "notes.md": "x", "sops/a.pdf": "x"}), source(RULES), sink)
    assert [(one.path, one.reason, one.error) for one in report.skipped] == [
        (
            "notes.md",
            NO_RULE,
            False,
        ),
        (
            "sops/a.pdf",
            NO_RULE,
            False,
        ),
    ]
    assert report.errors == ()


def test_a_mark_of_office_that_a_file_is_open_is_no_file_of_the_folder(folder, source, sink):
    """Else one open workbook would make a run degraded, and keep --prune from its work."""
    report = ingest(folder({"a.md": "Text.", "~$rates.xlsx": "\x04User"}), source({"**/*": "default"}), sink)
    assert (report.files, report.skipped) == (1, ())


def test_hidden_files_are_not_looked_at(folder, source, sink):
    report = ingest(folder({"sops/.a.md": A, ".git/sops/a.md": A}), source({"**/*.md": "default"}), sink)
    assert (report.files, report.documents) == (0, 0)


def test_what_is_broken_is_said_and_the_rest_is_written(folder, source, sink):
    files = {**FILES, "sops/c.md": b"\xe9", "records/r.jsonl": '{"entity_id": "E1", "a": 1}\n{broken\n'}
    report = ingest(folder(files), source(RULES), sink)
    assert [(one.path, one.line) for one in report.errors] == [("records/r.jsonl", 2), ("sops/c.md", 1)]
    assert report.documents == 3


@pytest.mark.wording
def test_warnings_name_their_file(folder, source, sink):
    report = ingest(folder({"sops/a.md": "---\nttl_seconds: soon\n---\nx"}), source(RULES), sink)
    assert report.warnings == ("sops/a.md: ttl_seconds 'soon' is not a whole number of seconds, 0 or more; ignored",)


def test_a_file_goes_to_every_source_that_includes_it(folder, source, sink):
    specs = [source({"sops/*.md": "sop_document"}, "one"), source({"**/a.md": "default"}, "two")]
    report = ingest(folder(FILES), specs, sink)
    assert set(sink.documents("one")) == {("A", "1"), ("b", "")}
    assert set(sink.documents("two")) == {("A", "1")}
    assert report.documents == 3


def test_a_source_id_takes_every_supported_file_whatever_the_rules_say(folder, source, sink):
    files = {"x/a.md": A.replace("version", "doc_type: sop_document\nversion"), "b.txt": "Text.", "c.pdf": "x"}
    report = ingest(folder(files), source(RULES), sink, source_id="sops")
    assert set(sink.documents("sops")) == {("A", "1"), ("b", "")}
    assert [chunk.doc_type for chunk in (*sink.chunks("A", "1"), *sink.chunks("b"))] == ["sop_document"] * 2 + [
        "default"
    ]
    assert [one.path for one in report.skipped] == ["c.pdf"]


def test_the_same_document_twice_is_an_error_and_the_first_counts(folder, source, sink):
    root = folder({"sops/a.md": A, "sops/z.md": A + "More.\n"})
    report = ingest(root, source(RULES), sink)
    (skipped,) = report.errors
    assert skipped.path == "sops/z.md"
    assert skipped.reason.startswith("document 'A' version '1' is already in sops/a.md")
    assert ingest(root, source(RULES), sink).unchanged == 1


@pytest.mark.wording
def test_rows_with_the_ids_of_rows_of_another_file_are_known_by_their_place(folder, source, sink):
    files = {"desks.csv": "id,Desk\n1,Rates\n2,Credit\n", "limits.csv": "id,Limit\n1,5\n2,7\n3,9\n"}
    spec = source({"*.csv": "entity_record"})
    report = ingest(folder(files), spec, sink)
    places = {("1", ""), ("2", ""), ("limits.csv:2", ""), ("limits.csv:3", ""), ("3", "")}
    assert (set(sink.documents("sops")), report.errors) == (places, ())
    assert report.warnings[-1:] == (
        "source sops: 2 documents: records of limits.csv have ids of other records: each is identified by its place",
    )
    again = ingest(folder(files), spec, sink)
    assert (again.unchanged, again.replaced, again.warnings) == (5, 0, report.warnings)


def test_files_of_one_name_in_two_folders_are_two_documents(folder, source, sink):
    root = folder({"a/readme.md": "Page a.", "b/readme.md": "Page b."})
    assert ingest(root, source({"**/*.md": "default"}), sink).errors == ()
    assert set(sink.documents("sops")) == {("readme", ""), ("b/readme.md", "")}


def test_a_dry_run_counts_and_writes_nothing(folder, source, sink):
    root = folder(FILES)
    report = ingest(root, source(RULES), sink, dry_run=True)
    assert (report.added, report.chunks, report.dry_run) == (4, 5, True)
    assert (sink.puts, sink.commits) == (0, [])
    ingest(root, source(RULES), sink)
    folder({"sops/b.md": "Changed."})
    (root / "sops/a.md").unlink()
    report = ingest(root, source(RULES), sink, dry_run=True, prune=True)
    assert (report.replaced, report.removed, report.unchanged) == (1, 1, 2)
    assert len(sink.documents("sops")) == 4


def test_one_file_is_matched_by_the_end_of_its_path_and_gives_the_same_document(folder, source, sink):
    root = folder(FILES)
    ingest(root, source(RULES), sink)
    report = ingest(root / "sops/a.md", source(RULES), sink)
    assert (report.files, report.documents, report.unchanged) == (1, 1, 1)


def test_one_link_given_by_name_is_followed(folder, source, sink, tmp_path):
    root = folder(FILES)
    link = tmp_path / "link.md"
    link.symlink_to(root / "sops/a.md")
    assert ingest(link, source({"**/*.md": "default"}), sink).documents == 1


def test_a_linked_folder_is_not_followed_and_a_link_out_is_refused(folder, source, sink, tmp_path):
    root = folder({"sops/a.md": A})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    (root / "linked").symlink_to(outside)
    (root / "sops/out.md").symlink_to(outside / "secret.md")
    report = ingest(root, source({"**/*.md": "default"}), sink)
    assert [(one.path, one.error) for one in report.skipped] == [("linked", False), ("sops/out.md", True)]
    assert set(sink.documents("sops")) == {("A", "1")}


@pytest.mark.parametrize(
    ("path", "options", "says"),
    [
        ("gone", {}, "does not exist"),
        ("", {"source_id": "sop"}, "source 'sop' is not one of the sources given. Did you mean 'sops'"),
        ("sops/a.md", {"prune": True}, "prune compares a source with a folder"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_done(folder, source, sink, path, options, says):
    with pytest.raises(InvalidRequest, match=says):
        ingest(folder(FILES) / path, source(RULES), sink, **options)
    assert sink.puts == 0


def test_the_report_as_a_dict(folder, source, sink):
    report = ingest(folder({"sops/a.md": A, "x.md": "x"}), source(RULES), sink).to_dict()
    assert report.pop("elapsed_s") >= 0
    assert report == {
        "files": 2,
        "documents": 1,
        "added": 1,
        "unchanged": 0,
        "replaced": 0,
        "removed": 0,
        "chunks": 2,
        "cut_by": {"declared": 1, "sections": 0, "fields": 0, "windows": 0},
        "refused": [],
        "kept": [],
        "skipped": [
            {
                "path": "x.md",
                "reason": NO_RULE,
                "line": None,
                "error": False,
            }
        ],
        "warnings": [],
        "samples": [],
        "dry_run": False,
    }


def test_a_dry_run_shows_some_chunks(folder, source, sink):
    report = ingest(folder(FILES), source(RULES), sink, dry_run=True)
    assert 1 <= len(report.samples) <= 5
    assert report.samples[0].document_id == "E1"
    assert report.to_dict()["samples"][0]["content"] == report.samples[0].content


@pytest.mark.wording
def test_an_unknown_document_type_is_cut_as_default_and_said(folder, source, sink):
    root = folder({"a.md": "---\ndoc_type: memo\n---\nText.", "b.md": "Text."})
    report = ingest(root, source(RULES), sink, source_id="sops")
    assert report.warnings == (
        "a.md: doc_type 'memo' is not in the chunking table: cut as 'default'",
        "source sops: 1 document: no rule gives a type: cut as 'default'",
    )


@pytest.mark.wording
def test_what_no_rule_includes_goes_where_a_rule_for_the_rest_says_as_tier_5_and_is_said(folder, source, sink):
    rest = source({"**/*": "default"}, "web", "general_web", otherwise=True)
    report = ingest(folder({"sops/a.md": A, "x.md": "Note.", "y/z.md": "Note two."}), [source(RULES), rest], sink)
    assert set(sink.documents("web")) == {("x", ""), ("z", "")}
    (chunk,) = sink.chunks("x")
    assert (chunk.authority_tier, chunk.doc_type) == (5, "default")
    assert report.warnings == ("source web: 2 documents: no other rule includes them: taken as 'default', tier 5",)


def test_what_the_target_refuses_is_reported_and_the_rest_counts(folder, source, make_sink):
    class RefusingSink(make_sink):
        """Refuses document b, when it is committed."""

        refusals = ()

        def commit(self):
            for key in [key for key in self.held if key[1] == "b"]:
                del self.held[key]
                self.refusals = ((*key, "does not fit"),)
            super().commit()

    sink = RefusingSink()
    report = ingest(folder(FILES), source(RULES), sink)
    assert [str(one) for one in report.refused] == ["document b of source sops: does not fit"]
    assert (report.documents, report.added, report.chunks) == (4, 3, 4)
    assert set(sink.documents("sops")) == {("E1", ""), ("E2", ""), ("A", "1")}
