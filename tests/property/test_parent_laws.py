"""Laws of parents and of questions: nothing lost, nothing twice, everything in its order."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from context_engine.core.chunking.contents import without_contents
from context_engine.core.chunking.outline import questions_of
from context_engine.core.chunking.strategy import DEFAULT_STRATEGIES
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.ingest.document_forms import answered_questions, parents_of, whole_document
from context_engine.ingest.documents import chunks_of, prepare
from context_engine.ingest.loaded_document import LoadedDocument

COUNTER = ApproxTokenCounter()
TABLE = {name: replace(row, chunk_size=32, overlap=0) for name, row in DEFAULT_STRATEGIES.items()}
LINES = st.sampled_from(
    [
        *("# Rules of the vault", "## 4 Classification", "### 4.1 New Product", "## Untitled", "## 4 Classification"),
        *("2. Access", "2.1 Keys are held by two people. They never meet.", "Article 5", "第三条 上限为五百万元。"),
        *("## Who signs?", "### 7 什么时候？", "Q: Who approves?", "A: The board.", "**A1:** Nobody.", "Answer:"),
        *("Contents", "1 Scope ..... 2", "2 Limits ..... 3", "3 Waivers ..... 9", "| a | b |", "- one", "```", "", ""),
        "The limit is 5 % of capital. It is hard, as clause 4.2.1(b) says; nobody may go beyond it.",
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen",
        "x" * 200,
    ]
)
TEXTS = st.one_of(st.lists(LINES, max_size=40).map("\n".join), st.lists(LINES, max_size=15).map("\n\n".join), st.text())


def signs(*texts: str) -> str:
    return "".join("".join(texts).split())


@given(TEXTS, st.integers(32, 400))
@example("## Notes\n\none\n\n## Notes\n\ntwo", 32)
def test_parents_hold_the_text_once_and_every_chunk_in_order(text: str, most: int) -> None:
    document = prepare(LoadedDocument(path="a.md", text=text), None, COUNTER, strategies=TABLE)
    chunks = chunks_of(document, COUNTER)
    parents = parents_of(document, chunks, COUNTER.count, most).parents
    said = signs(without_contents(document.loaded.text, document.contents))
    assert [child for parent in parents for child in parent.children] == chunks
    assert signs(*(parent.chunk.content for parent in parents)) == said
    assert all(COUNTER.count(one.chunk.content) <= most for one in parents if len(one.children) > 1)
    for parent in parents:
        assert signs(*(child.content for child in parent.children)) == signs(parent.chunk.content)
        assert all(
            child.heading_path[: len(parent.chunk.heading_path)] == parent.chunk.heading_path
            for child in parent.children
        )
    if chunks:
        assert signs(whole_document(document, chunks).chunk.content) == said


@given(TEXTS)
def test_questions_follow_each_other_and_what_is_left_is_named(text: str) -> None:
    found = questions_of(text)
    for one in found:
        assert one.question.strip() and one.start < one.answer[0] < one.answer[1] <= len(text)
        assert text[slice(*one.answer)] == text[slice(*one.answer)].strip()
    assert all(before.answer[1] <= after.start for before, after in pairwise(found))
    document = prepare(LoadedDocument(path="a.md", text=text), None, COUNTER)
    pairs, notices = answered_questions(document)
    assert all(pair.question and pair.answer.content for pair in pairs)
    assert len(notices) <= 1
