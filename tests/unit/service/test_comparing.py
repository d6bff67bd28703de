"""The published comparison: both lists in the designed shape, their contexts, and a file of them."""

import json
from dataclasses import replace

import pytest

from context_engine.core.context import ApproxTokenCounter, from_result
from context_engine.core.models import Settings
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.service.comparing import append_comparison, compare, without_texts
from context_engine.service.contract.comparison import ComparisonAnswer

RULE = "A proposal above the materiality limit goes to the product committee for approval."


@pytest.fixture
def result(ask, chunk_of):
    pool = [
        (1, [chunk_of("record", 0.7)]),
        (2, [chunk_of("sop", 0.8, RULE), chunk_of("copy", 0.6, RULE)]),
        (5, [chunk_of("page", 0.9), chunk_of("weak", 0.1)]),
    ]
    return ask(pool, stage2_top_k=4, request_id="r-1", min_relevance_score=0.3)


def test_the_designed_shape(result):
    data = json.loads(ComparisonAnswer(data=compare(result)).model_dump_json())
    assert data["success"] is True
    baseline, enhanced = data["data"]["baseline"], data["data"]["enhanced"]
    assert baseline["choices"] == enhanced["choices"] == []
    assert (baseline["chunks_used"], baseline["chunks_scores"]) == (4, [0.9, 0.8, 0.7, 0.6])
    # final: .6 * .8 + .4 * .3 = .60 (sop), .6 * .7 + .4 * .4 = .58 (record), .6 * .9 = .54 (page)
    assert (enhanced["chunks_used"], enhanced["chunks_scores"]) == (3, [0.8, 0.7, 0.9])
    assert (enhanced["filter_threshold"], enhanced["reranker_enabled"]) == (0.3, False)
    assert (data["data"]["search_id"], data["data"]["request_id"]) == (result.search_id, "r-1")


def test_each_change_says_why_by_a_code(result):
    difference = compare(result).difference
    codes = {one.chunk_id: one.code for part in ("moved", "entered", "left") for one in getattr(difference, part)}
    assert codes == {"sop": "authority", "record": "authority", "page": "authority", "copy": "merged"}
    (left,) = difference.left
    assert (left.because, left.from_rank, left.to_rank) == (("t2/sop",), 4, None)
    assert difference.same == ()


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"min_relevance_score": 0.5}, "below_min_relevance"),
        ({"scope_threshold": 1.0}, "out_of_scope"),
        ({"similarity_threshold": 0.5, "similarity_kind": "relevance"}, "below_similarity_threshold"),
        ({"max_per_document": 1}, "document_limit"),
    ],
)
def test_the_codes_of_what_left(ask, chunk_of, values, code):
    chunks = [chunk_of("first", 0.9, document_id="d"), chunk_of("second", 0.3, document_id="d")]
    left = {one.chunk_id: one for one in compare(ask([(2, chunks)], **values)).difference.left}
    assert left["second"].code == code
    assert left["second"].limit == (
        1 if code == "document_limit" else max(x for x in values.values() if x != "relevance")
    )


def test_the_contexts_are_made_alike_and_their_sizes_told(result):
    counter = ApproxTokenCounter()
    made = from_result(result, counter=counter, budget=200, form="text")
    found = compare(result, enhanced=made)
    assert found.enhanced.context.text == made.text
    assert found.baseline.context.tokens <= 200
    assert found.difference.chars == len(made.text) - found.baseline.context.chars
    assert "Rule weak" not in made.text


def test_a_masking_domain_wants_its_mask(ask, chunk_of):
    engine = {"mask": lambda text: text.replace("Rule", "[X]"), "domain_fields": {"settings": {}}}
    pool = [(2, [chunk_of("a", 0.9, title="Rule book")])]
    result = ask(pool, engine=engine)
    masked = result.settings.model_copy(update={"values": Settings(mask_contexts=True)})
    result = replace(result, settings=masked)
    with pytest.raises(InvalidRequest):
        compare(result)
    said = compare(result, mask=engine["mask"]).model_dump_json()
    assert "[X]" in said and "Rule" not in said


def test_a_line_for_each_comparison_without_texts(result, tmp_path):
    path = tmp_path / "deep" / "comparisons.jsonl"
    full = compare(result)
    append_comparison(path, without_texts(full))
    append_comparison(path, without_texts(full))
    first, second = (json.loads(line)["data"] for line in path.read_text("utf-8").splitlines())
    assert first == second and first["query"] == result.query
    assert first["baseline"]["context"]["text"] is None
    assert first["enhanced"]["context"]["sha256"] == full.enhanced.context.sha256
    assert RULE not in path.read_text("utf-8")
    with pytest.raises(ConfigError):
        append_comparison(tmp_path, full)
