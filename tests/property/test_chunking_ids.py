"""Laws of a document's chunks: stable ids, spans that give the text back, neighbours, fields."""

from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.chunking.cut import cut
from context_engine.core.chunking.outline import outline
from context_engine.core.chunking.strategy import ChunkingStrategy
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models import DocumentRule, sanitized_text
from context_engine.ingest.chunk_metadata import defined_terms
from context_engine.ingest.documents import chunks_of, prepare
from context_engine.ingest.loaded_document import LoadedDocument

COUNTER = ApproxTokenCounter()
LINES = st.sampled_from(
    [
        "# Rules",
        "## 4 Access",
        "4.1 Keys are held by two people. They never meet.",
        "4.1.Guidance.2 Firms should act.",
        "12) The firm keeps a record of everything that it does. " * 4,
        "IV. Limits",
        "Guidance",
        "Article 5",
        "Scope",
        "PART 2.Chapter 3",
        '"Key holder" means a person who holds a key.',
        "第三条 上限为五百万元。超限须报告！",
        "มาตรา 5 ธนาคารต้องรายงานธุรกรรมที่มีมูลค่าเกินกำหนด",
        "| Step | Sponsor |",
        "|---|---|",
        "- an item",
        "```",
        "",
        "",
        "A sentence stands here. Another follows it, as it must. " * 3,
    ]
)
TEXTS = st.one_of(st.lists(LINES, min_size=1, max_size=30).map("\n".join), st.text(min_size=1, max_size=200)).filter(
    str.strip
)
RULES = st.sampled_from(
    [
        DocumentRule(include="*", doc_type=kind, profile=profile)
        for kind in ("sop_document", "template_document", "default")
        for profile in (None, "funnel", "regulatory_notice")
    ]
)


def made(text, rule, offset=0, most=64):
    loaded = LoadedDocument(path="a/rules.md", text=text, offset=offset, fields={"created_at": "2026-01-01"})
    return chunks_of(prepare(loaded, rule, COUNTER, max_chunk_tokens=most), COUNTER)


@given(text=TEXTS, rule=RULES)
def test_the_same_document_has_the_same_chunks_and_every_id_once(text, rule):
    first, second = made(text, rule), made(text, rule)
    assert first == second
    ids = [chunk.chunk_id for chunk in first]
    assert len(set(ids)) == len(ids)


@given(text=TEXTS, rule=RULES, offset=st.integers(0, 50))
def test_spans_are_of_the_file_and_give_its_text_back(text, rule, offset):
    text = sanitized_text(text)  # NUL and the like stand as U+FFFD, one character for one
    file = "x" * offset + text
    kept, end = [], offset
    for chunk in made(text, rule, offset):
        start, stop = chunk.span
        assert chunk.content == file[start:stop] != ""
        kept.append(file[max(start, end) : stop])
        end = stop
    assert "".join("".join(kept).split()) == "".join(text.split())


@given(text=TEXTS, rule=RULES)
def test_neighbours_lead_through_the_document_and_counts_are_true(text, rule):
    chunks = made(text, rule)
    at = {chunk.chunk_id: chunk.metadata for chunk in chunks}
    name: str | None = chunks[0].chunk_id
    seen = []
    while name is not None:
        seen.append(name)
        after = at[name].get("next_chunk_id")
        assert after is None or at[after]["previous_chunk_id"] == name
        name = after
    assert seen == [chunk.chunk_id for chunk in chunks]
    assert all(chunk.metadata["token_count"] == COUNTER.count(chunk.content) for chunk in chunks)


@given(text=TEXTS, addition=st.text("aB. \n", max_size=30))
def test_what_stands_before_a_change_keeps_its_id(text, addition):
    lead = f"## 1 First\n\nOne.\n\n## 2 Second\n\n{'Words of it. ' * 30}\n\n## 3 Third\n\n"
    rule = DocumentRule(include="*", doc_type="sop_document")
    before, after = made(lead + text, rule), made(lead + text + addition, rule)
    assert [chunk.chunk_id for chunk in before[:3]] == ["rules#1", "rules#2", "rules#2~2"]
    assert [(chunk.chunk_id, chunk.content) for chunk in before[:3]] == [
        (chunk.chunk_id, chunk.content) for chunk in after[:3]
    ]


@given(text=TEXTS, size=st.integers(16, 80), method=st.sampled_from(["section_aware", "fixed_size"]))
def test_a_counter_that_may_fall_keeps_the_limit_and_loses_nothing(text, size, method):
    def falling(part):
        """Byte pair encodings may need fewer tokens for a longer text."""
        return max(len(part) // 3 - 3 * part.count("es"), 1 if part else 0)

    end, kept = 0, []
    for piece in cut(text, ChunkingStrategy(method, size, size // 4), falling):
        assert falling(piece.content) <= size
        kept.append(text[max(end, piece.span[0]) : piece.span[1]])
        end = max(end, piece.span[1])
    assert "".join("".join(kept).split()) == "".join(text.split())


@given(text=TEXTS)
def test_terms_stand_in_the_text_and_labels_too(text):
    words = " ".join(text.split())
    assert all(term in words for term in defined_terms(text, glossary=True))
    for section in outline(text):
        assert section.label is None or section.label.split()[-1].split(".")[0].strip("()") in text
