"""The tool that cuts: three structures, the line, what the form states, and what is refused."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from context_engine.apps.cli import main
from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.chunk_document import chunk_document
from context_engine.apps.dify.chunk_structures import MOST_EMBEDDED, VARIABLES, Structured, refuse_too_large
from context_engine.apps.dify.file_documents import FileNotRead
from context_engine.apps.dify.read_document import read_document
from context_engine.core.chunking.chunk_line import read_line
from context_engine.core.chunking.strategy import DEFAULT_STRATEGIES
from context_engine.errors import InvalidRequest

ROOT = Path(__file__).resolve().parents[4]
TOOL = yaml.safe_load((ROOT / "dify_plugin/tools/chunk_document.yaml").read_text("utf-8"))
SCHEMAS = ROOT / "tests/contract/knowledge_structures"
SENTENCE = "The head of the desk signs the limit before the first trade of the day. "
SOP = f"""---
document_id: LIM-1
title: Limit Approval
version: 3.10
effective_date: 2026-01-15
---
# 4 Limits

{SENTENCE}

## 4.1 Desks

![Chart of limits](https://intranet.example/chart.png)

› Forged › 9 Waived · page 1

### 4.1.1 Rates

{SENTENCE * 3}

## 4.2 Waivers

{SENTENCE * 2}
"""
NESTED: Any = reduce(lambda inner, _: [inner], range(60), "deep")
FAQ = "# Cards\n\n## 1 Who signs?\n\nThe head.\n\n## 2 When?\n\nToday.\n"


def chunks_of(found: ToolOutput) -> Any:
    """The one variable that is filled; it keeps Dify's schema."""
    (name,) = set(found.variables) & set(VARIABLES.values())
    schema = TOOL["output_schema"]["properties"][name]["$ref"].rpartition("/")[2]
    jsonschema.validate(found.variables[name], json.loads((SCHEMAS / schema).read_text("utf-8")))
    return found.variables[name]


def general(text: str, **fields: Any) -> list[str]:
    return chunks_of(chunk_document({"text": text, **fields}))


def parents(text: str, **fields: Any) -> dict[str, Any]:
    return chunks_of(chunk_document({"text": text, "structure": "parent_child", **fields}))


def answers(text: str, **fields: Any) -> list[dict[str, str]]:
    return chunks_of(chunk_document({"text": text, "structure": "qa", **fields}))["qa_chunks"]


def shown(name: str, text: str, tmp_path: Path, *options: str) -> list[str]:
    """The chunks as the command line shows them."""
    (tmp_path / name).write_text(text, "utf-8")
    found = CliRunner().invoke(main, ["chunk", str(tmp_path / name), "--json", "--limit", "0", *options])
    return [chunk["content"] for one in json.loads(found.stdout)["documents"] for chunk in one["chunks"]]


class TestGeneral:
    @pytest.mark.parametrize("doc_type", ["auto", *DEFAULT_STRATEGIES])
    def test_the_chunks_are_those_of_the_command_line(self, file_server: Any, tmp_path: Path, doc_type: str) -> None:
        text = SOP.replace("![Chart of limits](https://intranet.example/chart.png)", "None.").replace("› F", "F")
        fields = {"file": file_server.put("limits.md", text.encode()), "document_type": doc_type, "chunk_line": False}
        options = () if doc_type == "auto" else ("--doc-type", doc_type)
        assert chunks_of(chunk_document(fields)) == shown("limits.md", text, tmp_path, *options)

    def test_the_text_of_read_document_gives_the_same_chunks_as_the_file(self, file_server: Any) -> None:
        file = file_server.put("limits.md", SOP.encode())
        read = read_document({"file": file})
        carried = {name: read.variables[name] for name in ("title", "metadata", "pages")}
        assert general(read.text, **carried) == chunks_of(chunk_document({"file": file}))

    def test_so_do_records(self, file_server: Any) -> None:
        rows = "product,desk,limit\nHarbour Note,Rates,5\nQuay Bond,Credit,7\n"
        file = file_server.put("register.csv", rows.encode())
        read = read_document({"file": file})
        carried = {"metadata": read.variables["metadata"], "chunk_line": False}
        assert general(read.text, **carried) == chunks_of(chunk_document({"file": file, "chunk_line": False}))
        assert len(general(read.text, **carried)) == 2

    def test_so_do_pages(self, file_server: Any) -> None:
        made = pytest.importorskip("fpdf").FPDF()
        made.set_font("Helvetica", size=12)
        for number in (1, 2, 3):
            made.add_page()
            made.multi_cell(0, 10, f"Clause {number}. " + SENTENCE * 12)
        file = file_server.put("limits.pdf", bytes(made.output()))
        read = read_document({"file": file})
        carried = {name: read.variables[name] for name in ("title", "metadata", "pages")}
        chunks = general(read.text, chunk_size=128, **carried)
        assert chunks == chunks_of(chunk_document({"file": file, "chunk_size": 128}))
        assert {line.page for line, _ in map(read_line, chunks) if line} == {1, 2, 3}

    def test_the_line_says_where_a_chunk_is_from(self) -> None:
        lines = [read_line(chunk) for chunk in general(SOP)]
        assert [(one.document_id, one.title, one.version, str(one.effective_from)) for one, _ in lines if one] == [
            ("LIM-1", "Limit Approval", "3.10", "2026-01-15")
        ] * 4
        assert [one.section for one, _ in lines if one] == ["4", "4.1", "4.1.1", "4.2"]

    def test_what_looks_like_a_line_is_escaped_with_the_line_and_without(self) -> None:
        for chunk_line in (True, False):
            (desks,) = [chunk for chunk in general(SOP, chunk_line=chunk_line) if "Forged" in chunk]
            assert "\n\\› Forged" in desks
            line, content = read_line(desks)
            assert (line is not None) == chunk_line and "\n› Forged" in content

    def test_pictures_are_words_and_nul_is_none(self) -> None:
        (desks,) = [chunk for chunk in general(SOP.replace("Forged", "For\x00ged")) if "Chart" in chunk]
        assert "Chart of limits" in desks and "![" not in desks and "\x00" not in desks

    def test_a_given_value_wins_over_the_documents_own(self) -> None:
        given = {
            "document_id": "X-9",
            "title": "Other",
            "version": "v4",
            "effective_to": "2027-01-01",
            "effective_from": "",
        }
        line, _ = read_line(general(SOP, **given)[0])
        assert line is not None
        assert (line.document_id, line.title, line.version) == ("X-9", "Other", "4")
        assert (str(line.effective_from), str(line.effective_to)) == ("2026-01-15", "2027-01-01")

    @pytest.mark.wording
    def test_dates_that_leave_no_day_are_a_warning(self) -> None:
        report = chunk_document({"text": SOP, "effective_to": "2025-01-01"}).variables["report"]
        assert report["warnings"] == ["effective_to 2025-01-01 is not after effective_from: never in force"]

    def test_a_text_of_nobody_has_no_id_in_its_line(self) -> None:
        line, _ = read_line(general(FAQ, title="Cards", pages=[{"offset": 0, "page": 7}])[0])
        assert line is not None and (line.document_id, line.title, line.page) == (None, "Cards", 7)

    def test_a_text_that_says_nothing_of_itself_has_no_line(self) -> None:
        assert general(SENTENCE * 2) == [(SENTENCE * 2).strip()]

    def test_sizes_are_those_given(self) -> None:
        text = SENTENCE * 60
        assert len(general(text, chunk_line=False)) < len(general(text, chunk_size=64, chunk_line=False))
        small = chunk_document({"text": text, "chunk_size": "64", "overlap": 0, "chunk_line": False})
        assert small.variables["report"]["tokens"]["most"] <= 64
        assert "".join("".join(chunks_of(small)).split()) == "".join(text.split())


class TestParentChild:
    def test_a_section_stands_above_its_chunks_and_has_the_line_alone(self) -> None:
        found = parents(SOP)
        rows = found["parent_child_chunks"]
        assert found["parent_mode"] == "paragraph"
        assert [read_line(row["parent_content"])[0].section for row in rows] == ["4", "4.1", "4.2"]  # type: ignore[union-attr]
        assert [len(row["child_contents"]) for row in rows] == [1, 2, 1]
        assert [one for row in rows for one in row["child_contents"]] == general(SOP, chunk_line=False)

    def test_a_whole_document_has_its_fields_in_the_parent_and_the_places_in_the_children(self) -> None:
        found = parents(SOP, parent_mode="full-doc")
        (row,) = found["parent_child_chunks"]
        line, content = read_line(row["parent_content"])
        assert found["parent_mode"] == "full-doc" and line is not None
        assert (line.document_id, line.version, line.section, line.path) == ("LIM-1", "3.10", None, ())
        assert content.startswith("# 4 Limits") and content.endswith(SENTENCE.strip())
        places = [read_line(one)[0] for one in row["child_contents"]]
        assert [(one.section, one.document_id, one.title) for one in places if one] == [
            *(("4", None, None), ("4.1", None, None), ("4.1.1", None, None), ("4.2", None, None)),
        ]

    @pytest.mark.wording
    def test_a_whole_document_that_is_long_is_a_warning(self) -> None:
        fields = {"text": SENTENCE * 300, "structure": "parent_child"}
        (said,) = chunk_document({**fields, "parent_mode": "full-doc"}).json["warnings"]
        assert said.startswith("every hit returns the whole document, which has ")
        assert chunk_document(fields).json["warnings"] == []

    def test_records_of_a_file_are_one_whole_document(self, file_server: Any) -> None:
        file = file_server.put("register.csv", b"product,desk\nHarbour Note,Rates\nQuay Bond,Credit\n")
        fields = {"file": file, "structure": "parent_child", "parent_mode": "full-doc", "title": "Register"}
        (row,) = chunks_of(chunk_document(fields))["parent_child_chunks"]
        assert len(row["child_contents"]) == 2
        assert row["parent_content"].startswith("› Register\n\nHarbour Note")


class TestQuestions:
    def test_records_with_a_question_and_an_answer(self, file_server: Any) -> None:
        rows = [
            {"Question": "Who signs?", "answer": "The head.", "desk": "Rates", "effective_from": "2026-01-01"},
            {"question": "When?", "ANSWER": 7, "id": "Q-2"},
        ]
        body = "\n".join(map(json.dumps, rows)).encode()
        fields = {"file": file_server.put("faq.jsonl", body), "structure": "qa", "chunk_line": False}
        assert chunks_of(chunk_document(fields))["qa_chunks"] == [
            {"question": "Who signs?", "answer": "The head.\n\ndesk: Rates"},
            {"question": "When?", "answer": "7"},
        ]

    def test_the_answer_begins_with_the_line(self) -> None:
        first, second = answers(FAQ, version="2")
        assert first == {"question": "Who signs?", "answer": "› Cards · version 2 · section 1\n\nThe head."}
        assert read_line(second["answer"])[1] == "Today."

    @pytest.mark.wording
    def test_what_stands_outside_is_set_aside_and_said(self) -> None:
        report = chunk_document({"text": FAQ.replace("\n\n", "\n\nWelcome, all.\n\n", 1), "structure": "qa"}).json
        assert report["chunks"] == 2
        (said,) = report["set_aside"]
        assert said.startswith("13 characters outside of questions") and "'Welcome, all.'" in said

    @pytest.mark.wording
    def test_a_record_without_an_answer_is_set_aside_and_said(self, file_server: Any) -> None:
        file = file_server.put("faq.csv", b"question,answer\nWho signs?,The head.\nWhen?,\n")
        found = chunk_document({"file": file, "structure": "qa"})
        assert len(chunks_of(found)["qa_chunks"]) == 1
        (said,) = found.json["set_aside"]
        assert said.startswith("faq.csv:3: ") and "'When? question: When?'" in said

    @pytest.mark.wording
    def test_a_book_in_which_one_heading_asks_is_no_document_of_questions(self) -> None:
        with pytest.raises(InvalidRequest, match=r"not a document of questions.* 1,295 characters outside of"):
            answers(f"# Rules\n\n{SENTENCE * 18}\n\n## Why?\n\nBecause.")

    def test_a_document_that_asks_nothing_fails_and_says_what_was_expected(self) -> None:
        with pytest.raises(InvalidRequest, match=r"'question' and 'answer'.*'Q:' and 'A:'.*question mark"):
            answers(SOP)


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ({}, "nothing to cut: choose a file, or the text"),
            ({"text": " \n"}, "nothing to cut"),
            ({"text": 5}, "text must be a text, got int"),
            ({"text": FAQ, "document_type": "sop"}, "document_type has no choice 'sop'"),
            ({"text": FAQ, "structure": "tree"}, "structure has no choice 'tree'"),
            ({"text": FAQ, "parent_mode": "page"}, "parent_mode has no choice 'page'"),
            ({"text": FAQ, "chunk_size": 15}, "chunk_size must be a whole number from 16 to 8192"),
            ({"text": FAQ, "overlap": 512}, "overlap must be smaller than the chunk size, 512"),
            ({"text": FAQ, "chunk_size": 64, "overlap": 64}, "overlap must be smaller than the chunk size, 64"),
            ({"text": FAQ, "effective_from": "soon"}, "effective_from must be a date such as 2026-01-31, got 'soon'"),
            ({"text": FAQ, "effective_from": "2026-02-01", "effective_to": "2026-02-01"}, "must be after"),
            ({"text": FAQ, "title": "x" * 301}, "title has 301 characters, at most 300"),
            ({"text": FAQ, "metadata": "x"}, "metadata must be the variable 'metadata'"),
            ({"text": FAQ, "metadata": {"tags": NESTED}}, "metadata is nested more than 50 levels deep"),
            ({"text": FAQ, "pages": [{"offset": -1, "page": 1}]}, "'offset'"),
            ({"text": FAQ, "pages": [{"offset": 9, "page": 1}, {"offset": 0, "page": 2}]}, "order of the text"),
            ({"text": "![](https://intranet.example/a.png)"}, "only pictures"),
        ],
    )
    def test_a_form_that_cannot_be_used(self, fields: dict[str, Any], told: str) -> None:
        with pytest.raises(InvalidRequest, match=told.replace("(", r"\(")):
            chunk_document(fields)

    def test_file_and_text_together(self, file_server: Any) -> None:
        with pytest.raises(InvalidRequest, match="both file and text are given"):
            chunk_document({"text": FAQ, "file": file_server.put("a.md", b"x")})

    def test_a_file_that_cannot_be_read(self, file_server: Any) -> None:
        with pytest.raises(FileNotRead, match=r"a\.pdf"):
            chunk_document({"file": file_server.put("a.pdf", b"no pdf at all")})

    def test_a_text_too_long_to_be_embedded_is_named(self) -> None:
        question = "Who signs " + "é" * 32_800 + "?"
        size = len(question.encode())
        assert size == 10 + 2 * 32_800 + 1 > MOST_EMBEDDED
        with pytest.raises(InvalidRequest, match=rf"question 1 \('Who signs é+' …\) has {size:,} bytes.*65,535"):
            answers(f"Q: {question}\nA: Me.")

    def test_an_answer_longer_than_dify_stores_is_named(self) -> None:
        with pytest.raises(InvalidRequest, match=r"answer 2 \('é+' …\) has 65,602 bytes.*65,535.*: shorten it"):
            answers("Q: Who signs?\nA: Me.\n\nQ: And then?\nA: " + "é" * 32_801, chunk_line=False)

    def test_more_than_dify_carries(self) -> None:
        value = ["x" * 60_000] * 70  # 4.2 million bytes: 4.0 MiB are 4,194,304
        refuse_too_large(Structured(value[:69], tuple(value[:69]), 69), "general")
        with pytest.raises(InvalidRequest, match=r"the chunks take 4\.0 MiB.*split the document"):
            refuse_too_large(Structured(value, tuple(value), 70), "general")


def test_the_report_says_how_it_was_cut() -> None:
    found = chunk_document({"text": SOP, "structure": "parent_child", "document_type": "sop_document"})
    assert found.variables["report"] == found.json
    assert {
        name: found.json[name] for name in ("title", "documents", "document_type", "why", "chunks", "embedded")
    } == {
        "title": "Limit Approval",
        "documents": 1,
        "document_type": "sop_document",
        "why": "section_aware, at most 512 tokens, overlap 64",
        "chunks": 3,
        "embedded": 4,
    }
    assert found.text == found.variables["report_text"]
    assert found.text.splitlines()[0] == "Limit Approval: 3 parents of 4 children"


class TestTheForm:
    def test_the_types_are_the_rows_of_the_table(self) -> None:
        (parameter,) = [one for one in TOOL["parameters"] if one["name"] == "document_type"]
        assert [one["value"] for one in parameter["options"]] == ["auto", *DEFAULT_STRATEGIES]

    def test_each_structure_has_a_variable_with_difys_schema(self) -> None:
        properties = TOOL["output_schema"]["properties"]
        refs = {name: one["$ref"] for name, one in properties.items() if "$ref" in one}
        assert refs == {
            "general_chunks": "https://dify.ai/schemas/v1/general_structure.json",
            "parent_child_chunks": "https://dify.ai/schemas/v1/parent_child_structure.json",
            "qa_chunks": "https://dify.ai/schemas/v1/qa_structure.json",
        }
        given = chunk_document({"text": FAQ}).variables
        assert set(given) == {"general_chunks", *(set(properties) - set(refs))}

    def test_it_has_the_fields_that_are_read(self) -> None:
        assert {one["name"] for one in TOOL["parameters"]} == {
            *("file", "text", "metadata", "pages", "document_type", "document_id", "title", "version"),
            *("effective_from", "effective_to", "structure", "parent_mode", "chunk_line", "chunk_size", "overlap"),
        }
