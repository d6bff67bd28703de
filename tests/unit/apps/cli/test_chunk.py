"""`context-engine chunk`: how one file is cut."""

import json
import os

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main

NOTICE = """---
title: Vault notice
version: "2"
notice_id: "637"
---
# Vault notice

## 4 Access

Keys are held by two people of different desks, who never meet, never lend their key to a
third person, and report the loss of a key to the vault office within one hour of learning of it.

## 5 Forms

"Form" means a sheet of paper with fields on it.
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "notice.md").write_text(NOTICE)

    def invoke(*args):
        return CliRunner().invoke(main, ["chunk", *args])

    return invoke


def test_a_table_of_the_chunks_and_their_totals(run):
    result = run("notice.md", "--doc-type", "regulatory_notice")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "Vault notice (notice)"
    assert lines[1] == "regulatory_notice: section_aware, at most 384 tokens, overlap 48"
    assert lines[2].split() == ["#", "section", "tokens", "span", "first", "words"]
    assert [line.split()[:2] for line in lines[3:5]] == [["0", "4"], ["1", "5"]]
    assert lines[5].startswith("2 chunks, ")


def test_json_holds_the_chunks_as_they_would_be_stored(run):
    found = json.loads(run("notice.md", "--doc-type", "regulatory_notice", "--json").stdout)
    (document,) = found["documents"]
    assert (found["schema_version"], found["file"], found["counter"]) == (1, "notice.md", "approx-1")
    assert document["strategy"]["chunk_size"] == 384
    first, second = document["chunks"]
    assert first["chunk_id"] == "notice@2#4"
    assert first["metadata"]["next_chunk_id"] == second["chunk_id"] == "notice@2#5"
    assert second["metadata"]["defines"] == ["Form"]
    assert second["metadata"]["reference"] == "637(5)"
    assert NOTICE[slice(*first["span"])] == first["content"]


def test_a_profile(run):
    found = json.loads(run("notice.md", "--profile", "funnel", "--json").stdout)
    metadata = found["documents"][0]["chunks"][0]["metadata"]
    assert (metadata["source_file"], metadata["section"], metadata["heading"]) == ("notice.md", "4", "4 Access")


def test_the_own_chunking_table_counts(run, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "chunking.json").write_text('{"minutes": {"method": "section_aware", "chunk_size": 99}}')
    assert "at most 99 tokens" in run("notice.md", "--doc-type", "minutes").stdout


def test_records_up_to_the_limit(run, tmp_path):
    rows = "".join(json.dumps({"entity_id": f"N-{number}", "limit": number}) + "\n" for number in range(1, 5))
    (tmp_path / "records.jsonl").write_text(rows)
    result = run("records.jsonl", "--limit", "2")
    assert "2 documents, 2 chunks" in result.stdout
    assert "--limit 0" in result.stderr
    assert len(json.loads(run("records.jsonl", "--limit", "0", "--json").stdout)["documents"]) == 4
    assert json.loads(run("records.jsonl", "--limit", "3", "--json").stdout)["more"] is True


def test_part_of_a_file_that_cannot_be_read_is_exit_code_3(run, tmp_path):
    (tmp_path / "records.jsonl").write_text('{"entity_id": "N-1", "limit": 1}\nnot json\n')
    result = run("records.jsonl")
    assert result.exit_code == 3
    assert "records.jsonl:2" in result.stderr


def test_a_file_that_gives_nothing_is_exit_code_1(run, tmp_path):
    (tmp_path / "empty.md").write_text("")
    assert run("empty.md").exit_code == 1


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("nope.md",), "nope.md does not exist"),
        (("config",), "does not exist"),
        (("notice.md", "--doc-type", "notice"), "document type 'notice' has no row"),
        (("notice.md", "--profile", "funel"), "profile 'funel' is not known. Did you mean 'funnel'?"),
        (("notice.md", "--counter", "tiktok"), "token counter 'tiktok' is not known"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_exit_code_2(run, args, problem):
    result = run(*args)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert result.stdout == ""


def test_the_counter_is_the_settings_or_the_one_asked_for(run, tmp_path):
    words = {"model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}}
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "tokenizer.json").write_text(
        json.dumps({"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"}, **words})
    )
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "rag-pipeline.json").write_text('{"token_counter": "tokenizers:words"}')
    found = json.loads(run("notice.md", "--json").stdout)
    assert found["counter"].startswith("tokenizers/words#")
    for chunk in found["documents"][0]["chunks"]:
        assert chunk["metadata"]["token_count"] == len(chunk["content"].split())
    assert json.loads(run("notice.md", "--json", "--counter", "approx").stdout)["counter"] == "approx-1"


def test_what_is_no_file_is_named_and_not_waited_for(run, tmp_path):
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "loop.md").symlink_to("loop.md")
    assert "pipe.md is a named pipe (FIFO): name a file" in run("pipe.md").stderr
    assert "loop.md cannot be opened: " in run("loop.md").stderr


def test_a_file_is_cut_within_the_limits_of_the_configuration(run, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/ingest.json").write_text('{"file_max_chunks": 1}')
    result = run("notice.md", "--doc-type", "regulatory_notice")
    assert result.exit_code == 1
    assert "notice.md: gives more than 1 chunks: none of it is kept" in result.stderr


def test_what_a_file_shows_is_said(run, tmp_path):
    assert run("notice.md").stdout.splitlines()[1] == (
        "3 headings (2 numbered): by sections (section_aware, at most 512 tokens, overlap 64)"
    )
    (tmp_path / "plain.txt").write_text("Keys are held by two people.")
    assert run("plain.txt").stdout.splitlines()[1].startswith("no headings: in windows (fixed_size")


def test_json_says_what_was_found_and_nothing_where_a_type_is_declared(run):
    (shown,) = json.loads(run("notice.md", "--json").stdout)["documents"]
    assert shown["structure"] == {
        "kind": "sections",
        "headings": 3,
        "numbered": 2,
        "reason": "3 headings (2 numbered): by sections",
    }
    assert (shown["doc_type"], shown["strategy"]["method"]) == ("default", "section_aware")
    (declared,) = json.loads(run("notice.md", "--doc-type", "sop_document", "--json").stdout)["documents"]
    assert declared["structure"] is None


@pytest.mark.wording
def test_contents_that_are_set_aside_are_said(run, tmp_path):
    contents = "Contents\n1 Keys ........ 2\n2 Codes ........ 3\n3 Forms ........ 4\n"
    (tmp_path / "vault.md").write_text(f"# Vault\n\n{contents}\n## 1 Keys\n\nTwo.\n\n## 2 Codes\n\nOne.\n")
    result = run("vault.md")
    assert "warning: a table of contents is left out: 4 lines; not in the text: " in result.stdout
    assert "....." not in result.stdout.split("warning:")[0]


def test_a_file_that_only_leads_elsewhere_is_read_and_gives_no_passage(run, tmp_path):
    (tmp_path / "old.md").write_text("# Keys\n\nThis page has moved to [Vault](vault.md).\n")
    result = run("old.md")
    assert result.exit_code == 1, "the file gives no document"
    assert "no passage: old.md: is a stub that only links to another page" in " ".join(result.stderr.split())
