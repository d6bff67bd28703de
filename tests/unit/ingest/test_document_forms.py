"""Sections, or the whole document, as the parents of its chunks."""

from __future__ import annotations

from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models import NoticeCode
from context_engine.ingest.document_forms import Parents, parents_of, whole_document
from context_engine.ingest.documents import PreparedDocument, chunks_of, prepare
from context_engine.ingest.loaded_document import LoadedDocument

COUNTER = ApproxTokenCounter()

SENTENCE = "The head of the desk signs the limit before the first trade of the day. "

SOP = (
    "# Limits\n\nThese limits bind every desk of the bank and all of its branches.\n\n"
    f"## 1 Purpose\n\n{SENTENCE}\n\n## 2 Desks\n\n### 2.1 Rates\n\n{SENTENCE * 4}\n\n"
    f"### 2.2 Credit\n\n{SENTENCE * 4}\n\n## 3 Waivers\n\n{SENTENCE * 3}\n"
)


def cut(text: str, most: int = 4000, **given: object) -> tuple[PreparedDocument, Parents]:
    document = prepare(LoadedDocument(path="limits.md", text=text, **given), None, COUNTER)  # type: ignore[arg-type]
    return document, parents_of(document, chunks_of(document, COUNTER), COUNTER.count, most)


def test_a_parent_is_a_section_with_all_that_stands_below_it() -> None:
    _, (parents, notices) = cut(SOP)
    assert [one.chunk.content.partition("\n")[0] for one in parents] == [
        *("# Limits", "## 1 Purpose", "## 2 Desks", "## 3 Waivers"),
    ]
    desks = parents[2]
    assert [child.section for child in desks.children] == ["2.1", "2.2"]
    assert (desks.chunk.section, desks.chunk.heading_path) == ("2", ("2 Desks",))
    assert desks.chunk.content == SOP[SOP.index("## 2") : SOP.index("## 3")].strip()
    assert notices == ()


def test_one_heading_above_all_of_the_document_divides_nothing() -> None:
    text = f"# Book\n\n## Part\n\n### 1 One\n\n{SENTENCE * 2}\n\n### 2 Two\n\n{SENTENCE * 2}"
    _, (parents, _) = cut(text)
    assert [one.chunk.heading_path for one in parents] == [("Part", "1 One"), ("Part", "2 Two")]


def test_a_long_section_is_divided_at_its_headings_then_between_its_chunks() -> None:
    long = f"### 2.3 Funds\n\n{(SENTENCE * 20 + chr(10) * 2) * 4}"
    text = SOP.replace("## 3 Waivers", f"{long}\n\n## 3 Waivers")
    _, (parents, notices) = cut(text, most=800)
    assert [one.chunk.section for one in parents if one.chunk.section] == ["1", "2.1", "2.2", "2.3", "2.3", "3"]
    (notice,) = notices
    assert (notice.code, notice.detail) == (NoticeCode.PARENT_SPLIT, {"section": "2.3 Funds", "count": 2})
    assert all(COUNTER.count(one.chunk.content) <= 800 for one in parents)


def test_windows_are_filled_into_parents() -> None:
    document, (parents, notices) = cut(SENTENCE * 200, most=1200)
    assert document.strategy.method == "fixed_size"
    assert len(parents) > 1 and all(len(one.children) > 1 for one in parents[:-1])
    assert all(COUNTER.count(one.chunk.content) <= 1200 for one in parents)
    assert notices == ()


def test_a_parent_says_which_pages_it_stands_on() -> None:
    pages = tuple((SOP.index(mark), page) for page, mark in enumerate(("# Limits", "## 2", "### 2.2", "## 3"), start=1))
    document, (parents, _) = cut(SOP, pages=pages)
    assert [(one.chunk.page, one.chunk.last_page) for one in parents] == [(1, 1), (1, 1), (2, 3), (4, 4)]
    assert whole_document(document, parents[0].children).chunk.content == SOP.strip()


def test_a_notice_is_cited_by_the_section_of_the_parent() -> None:
    _, (parents, _) = cut(SOP, fields={"notice_id": "637"})
    assert [one.chunk.metadata.get("reference") for one in parents] == [None, "637(1)", "637(2)", "637(3)"]


def test_a_table_of_contents_stands_in_no_parent() -> None:
    contents = "Contents\n1 Purpose ..... 2\n2 Desks ..... 3\n3 Waivers ..... 9\n\n"
    document, (parents, _) = cut(SOP.replace("## 1 Purpose", f"{contents}## 1 Purpose", 1))
    assert document.contents
    whole = whole_document(document, [child for one in parents for child in one.children])
    assert "....." not in "".join(one.chunk.content for one in parents) + whole.chunk.content
    assert whole.chunk.content.split() == SOP.split()
