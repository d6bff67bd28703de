"""Seed 001: metadata filters on the embedded base, and the context string."""

import re

import pytest

from context_engine import ApproxTokenCounter, Chunk, Engine, Registry, SearchRequest, build_context_block, from_result
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.models import DomainSpec, SourceSpec
from context_engine.core.policy.filters import parse_filter
from context_engine.errors import InvalidFilter

LIBRARY = [
    (
        "speech-1963",
        {"year": 1963, "content_type": "speech", "source_org": "Harbour Archive", "tags": ["rights", "march"]},
    ),
    ("letter-1968", {"year": 1968, "content_type": "letter", "source_org": "Harbour Archive", "tags": ["rights"]}),
    ("article-1987", {"year": 1987, "content_type": "article", "source_org": "Dockside Press", "tags": []}),
    ("speech-2003", {"year": 2003, "content_type": "speech", "source_org": "Dockside Press"}),
    ("undated", {"content_type": "letter"}),
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    specs = (SourceSpec(id="library", type="bank_sop"), SourceSpec(id="press", type="general_web"))
    registry = Registry(domains={"LIB": DomainSpec(version=1, domain="LIB", sources=specs)})
    with LocalBase.open(tmp_path_factory.mktemp("base"), create=True) as base:
        with base.writer() as writer:
            for name, metadata in LIBRARY:
                chunk = Chunk(
                    content=f"The harbour rights of dockers, as told in {name}.",
                    chunk_id=name,
                    document_id=name,
                    title=f"Record {name}",
                    section="2.1",
                    metadata=metadata,
                )
                source = "press" if metadata.get("source_org") == "Dockside Press" else "library"
                writer.put(source, name, "", name, [chunk])
        with Engine(registry, lambda _domain, spec: LocalSource(base, spec.id, spec=spec)) as made:
            yield made


def ask(engine, filters=None, **settings):
    request = SearchRequest(
        query="harbour rights of dockers", domain="LIB", filters=parse_filter(filters), overrides=settings
    )
    return engine.search(request)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (None, {"speech-1963", "letter-1968", "article-1987", "speech-2003", "undated"}),
        ({"year": 1968}, {"letter-1968"}),
        ({"content_type": "speech"}, {"speech-1963", "speech-2003"}),
        ({"content_type": ["speech", "article"]}, {"speech-1963", "article-1987", "speech-2003"}),
        ({"year_gte": 1968}, {"letter-1968", "article-1987", "speech-2003"}),
        ({"year_lte": 1968}, {"speech-1963", "letter-1968"}),
        ({"year_gte": 1964, "year_lte": 1990}, {"letter-1968", "article-1987"}),
        ({"year_gt": 1968, "year_lt": 2003}, {"article-1987"}),
        ({"year_gte": "1968", "content_type": ["speech"]}, {"speech-2003"}),
        ({"source_org": "Harbour Archive", "year_gte": 1960}, {"speech-1963", "letter-1968"}),
        ({"tags": "march"}, {"speech-1963"}),
        ({"tags": ["march", "rights"]}, {"speech-1963", "letter-1968"}),
        ({"tier_lte": 2, "content_type": ["speech", "letter"]}, {"speech-1963", "letter-1968", "undated"}),
        ("year >= 1968; content_type in [speech, letter]", {"letter-1968", "speech-2003"}),
        ({"year": 2050}, set()),
        ({"no_such_field": "x"}, set()),
    ],
)
def test_B7_equality_membership_and_ranges_on_the_embedded_base(engine, filters, found):
    result = ask(engine, filters)
    assert {chunk.chunk_id for chunk in result.chunks} == found
    assert result.status == "complete"


def test_B7_what_is_filtered_out_does_not_use_up_the_candidates(engine):
    """The filter is answered by the index: one candidate is asked for, and the one that fits is found."""
    result = ask(engine, {"year": 1987}, stage1_top_k=1)
    assert [chunk.chunk_id for chunk in result.chunks] == ["article-1987"]


def test_B7_a_filter_that_finds_nothing_is_no_match_not_out_of_scope(engine):
    assert ask(engine, {"year": 2050}).decision == "no_match"


def test_B7_a_filter_that_cannot_be_read_is_refused():
    with pytest.raises(InvalidFilter):
        parse_filter({"year_gte": {"deep": object()}})


def test_B12_the_context_string(engine):
    """Header; per chunk rank and citation label, score, metadata, tags, text, separator; count, tokens, max score."""
    result = ask(engine)
    context = from_result(result, counter=ApproxTokenCounter())
    lines = context.text.splitlines()
    assert lines[0] == "## Context"
    assert "5 passages" in context.text
    first = result.chunks[0]
    assert [line for line in lines if re.match(r"### \[\d\] ", line)] == [
        f"### [{chunk.rank}] [Source: Record {chunk.chunk_id}, Section 2.1]" for chunk in result.chunks
    ]
    block = context.text.split("\n\n---\n\n")[0]
    metadata = first.chunk.metadata
    for part in (
        f"relevance {first.relevance:.2f}",
        *(str(metadata[name]) for name in ("year", "source_org", "content_type") if name in metadata),
        first.content,
    ):
        assert part in block
    assert context.text.count("\n\n---\n\n") == len(result.chunks) - 1
    assert context.chunk_count == len(result.chunks) == 5
    assert context.tokens == ApproxTokenCounter().count(context.text)
    assert context.max_score == first.final
    assert [one.label for one in context.citations] == ["[1]", "[2]", "[3]", "[4]", "[5]"]


def test_B12_tags_and_address_stand_in_the_metadata_line(engine):
    text = from_result(ask(engine, {"year": 1963}), counter=ApproxTokenCounter()).text
    line = next(line for line in text.splitlines() if line.startswith("Tier 2, bank SOP"))
    assert line.endswith("1963 · Harbour Archive · speech · tags rights, march")
    addressed = {
        "content": "A rule.",
        "source_type": "bank_sop",
        "metadata": {"canonical_url": "https://mhb.example/1"},
    }
    assert "https://mhb.example/1" in build_context_block([addressed])


def test_B12_in_the_full_form_rank_scores_metadata_and_tags_have_lines_of_their_own(engine):
    result = ask(engine, {"year": 1963})
    lines = from_result(result, counter=ApproxTokenCounter(), form="full").text.splitlines()
    first = result.chunks[0]
    assert lines[4].startswith("### [1] [Source: ")
    assert lines[5] == (
        f"Rank 1 · score {first.final:.3f} · relevance {first.relevance:.3f} · confidence {first.confidence}"
    )
    assert lines[6] == "Year: 1963 · Organisation: Harbour Archive · Type: speech"
    assert lines[7] == "Tags: rights, march"
    assert first.content in lines


def test_B13_the_context_is_made_only_where_it_is_asked_for(engine):
    """The result stands without it; the context is a function of the result and gives the same text each time."""
    result = ask(engine)
    assert "context" not in result.to_dict()
    assert from_result(result, counter=ApproxTokenCounter()) == from_result(result, counter=ApproxTokenCounter())
