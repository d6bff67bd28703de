"""Stage 2 computed again from the result alone gives the same bytes."""

import os
import pickle
import subprocess
import sys
from dataclasses import fields, replace
from datetime import date, timedelta

import pytest

from context_engine.adapters.rerankers import CallableReranker
from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.models import Chunk, Condition, EffectiveSettings, FilterOp, Score, ScoreKind, Settings
from context_engine.errors import InvalidRequest

RULE = "A proposal above the materiality limit goes to the product committee for approval."


def pool(chunk_of, now):
    return [
        (1, [chunk_of("a", 0.7, RULE), chunk_of("old", 0.9, "Was once so.", effective_to=date(2026, 1, 1))]),
        (2, [chunk_of("b", 0.8, RULE), Chunk(content="An approval rule of 2026.", metadata={"x": float("nan")})]),
        (3, [chunk_of("c", 0.8, "Another approval rule.", fetched_at=now - timedelta(days=2)), chunk_of("d", 0.01)]),
        (5, [Chunk(content="A web page on approval 审批.", scores=(Score(ScoreKind.COSINE, 0.4, "e5"),))]),
    ]


def fail(_query, _texts):
    raise ValueError("broken")


RERANKERS = {
    "none": None,
    "scores": CallableReranker(lambda _query, texts: [len(text) % 7 / 7 for text in texts]),
    "no opinion": CallableReranker(lambda _query, _texts: None),
    "failed": CallableReranker(fail),
    "wrong length": CallableReranker(lambda _query, _texts: [0.5]),
}


@pytest.mark.parametrize("name", RERANKERS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"min_chunks": 6, "stage2_top_k": 3},
        {"expired": "refuse", "dedup_method": "exact"},
        {"expired": "demote", "similarity_threshold": 0.3},
        {"scope_threshold": 1.0},
        {"as_of": date(2025, 6, 30)},
        {"filters": Condition("tier", FilterOp.LTE, 3)},
        {"require_tiers": (4,)},
        {"rerank_top_n": 2, "dedup_method": "off", "rerank_weight": 0.1},
    ],
    ids=lambda settings: " ".join(settings) or "defaults",
)
def test_the_bytes_are_the_same(ask, chunk_of, now, name, settings):
    result = ask(pool(chunk_of, now), engine={"reranker": RERANKERS[name]}, **settings)
    again = recompute(result)
    assert stage_two_bytes(again) == stage_two_bytes(result)
    assert stage_two_bytes(recompute(again)) == stage_two_bytes(result)
    for one in fields(result):
        before, after = getattr(result, one.name), getattr(again, one.name)
        if one.name == "stages":
            before, after = ([stage._replace(elapsed_ms=0.0) for stage in stages] for stages in (before, after))
        assert after == before, one.name


@pytest.mark.parametrize("name", ["none", "scores", "failed"])
def test_the_bytes_are_the_same_after_pickling(ask, chunk_of, now, name):
    result = ask(pool(chunk_of, now), engine={"reranker": RERANKERS[name]})
    thawed = pickle.loads(pickle.dumps(result))
    assert stage_two_bytes(thawed) == stage_two_bytes(result)
    assert stage_two_bytes(recompute(thawed)) == stage_two_bytes(result)


def test_a_failed_source_is_part_of_what_is_computed_again(ask, chunk_of, now):
    result = ask([*pool(chunk_of, now), (4, lambda _query, _domain, _top_k: None)])
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_another_setting_gives_other_bytes(ask, chunk_of, now):
    result = ask(pool(chunk_of, now))
    values = Settings(stage2_top_k=1)
    changed = recompute(replace(result, settings=EffectiveSettings(values=values)))
    assert len(changed.chunks) == 1
    assert stage_two_bytes(changed) != stage_two_bytes(result)


def test_a_text_that_is_not_valid_unicode_has_bytes_too(ask):
    result = ask([(2, [Chunk(content="The approval rule \ud800.", chunk_id="a")])])
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_a_result_without_its_request_cannot_be_computed_again(ask, chunk_of, now):
    with pytest.raises(InvalidRequest, match="does not hold its request"):
        recompute(replace(ask(pool(chunk_of, now)), request=None))


SCRIPT = """
from datetime import UTC, datetime
from context_engine.core.engine import Engine, stage_two_bytes
from context_engine.core.models import Chunk, DomainSpec, Registry, SearchRequest, SourceSpec
from context_engine.testing import FixedClock, ScriptedSource

class Ids:
    def new(self, now):
        return "s-1"

rule = "A proposal above the materiality limit goes to the product committee for approval"
texts = [f"{rule} of {what}." for what in ("notes", "bonds", "loans", "notes", "NPA-001")] + ["Approval, 审批.", rule]
chunks = [Chunk(content=text, metadata={"tags": {"a", "b", "c"}}) for text in texts]
specs = (SourceSpec(id="sops", type="bank_sop"), SourceSpec(id="web", type="general_web"))
registry = Registry(domains={"NPA": DomainSpec(version=1, domain="NPA", sources=specs)})
with Engine(registry, lambda _, spec: ScriptedSource(spec.id, chunks), clock=FixedClock(), ids=Ids()) as engine:
    result = engine.search(SearchRequest(query="approval of NPA-001 notes by the committee 审批", domain="NPA"))
print(stage_two_bytes(result).hex())
"""


@pytest.mark.slow
def test_another_process_with_another_hash_seed_gives_the_same_bytes():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1
    assert len(bytes.fromhex(outputs.pop().decode().strip())) > 1000
