"""How often both documents that a question needs are among the passages shown: one search against a workflow.

    python tests/benchmarks/bench_agentic.py --corpus FOLDER [--passages 8] [--show]

FOLDER holds the texts that the policy questions of `multi_hop_questions.jsonl` ask about; its files are read as
Markdown. The other questions are for the demo bank. Both ways show the same number of passages. The workflow has the
rule-based policy, the same for all questions. Nothing was chosen on the questions of the split "held".

one search   questions whose documents are both among the passages of a single search
parts        the same, with the setting `multi_query`
edges        the same, with the setting `graph_hops` 2
workflow     questions whose documents are both among the passages of the workflow
cited        questions whose documents are both cited by the sentences of an answer without a model, from one search and
             from the workflow
searches     mean and most searches of a workflow
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench_answers import DOMAIN, ingested

from context_engine import demo
from context_engine.answer.answering import extracted
from context_engine.answer.gathering import Gathering, RunLimits, gathered
from context_engine.answer.values import evidence_of
from context_engine.core.context import ApproxTokenCounter, from_result
from context_engine.core.engine import Engine
from context_engine.core.models import RankedChunk, SearchRequest, SearchResult
from context_engine.jobs.rules import RuleBasedPolicy
from context_engine.jobs.workflow import Kit, WorkflowState, gathering_of, run
from context_engine.wiring.build import build_engine
from context_engine.wiring.setup import load_setup

QUESTIONS = Path(__file__).parent / "multi_hop_questions.jsonl"
SPLITS = ("development", "held")
LIMITS = RunLimits()
WAYS = ("single", "parts", "edges", "workflow", "single_cited", "workflow_cited")


class Outcome(NamedTuple):
    """Whether each way shows and cites both documents, and the searches of the workflow."""

    question: dict[str, Any]
    single: bool
    parts: bool
    edges: bool
    workflow: bool
    single_cited: bool
    workflow_cited: bool
    searches: int
    state: WorkflowState


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", type=Path, required=True, metavar="FOLDER")
    options.add_argument("--passages", type=int, nargs="+", default=[4, 8], help="passages shown")
    options.add_argument("--show", action="store_true", help="print what the workflow misses, of the development split")
    given = options.parse_args()
    rows = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        bank = load_setup(manifest_dir=demo.MANIFESTS, env={}, cwd=work)
        data = demo.ensure_base(work / "demo", bank.registry)
        policies, policy_data = ingested(given.corpus, work / "policies")
        print(f"{'':28}passages  questions  one search   parts     edges  workflow   cited: one  workflow   searches")
        with (
            build_engine(bank, data_dir=data, recorded=False) as demo_engine,
            build_engine(policies, data_dir=policy_data, recorded=False) as policy_engine,
        ):
            for passages in given.passages:
                for name, engine in (("demo", demo_engine), ("policies", policy_engine)):
                    asked = [row for row in rows if row["collection"] == name]
                    outcomes = [outcome_of(engine, row, passages) for row in asked]
                    report(name, outcomes, passages, show=given.show)


def outcome_of(engine: Engine, row: dict[str, Any], passages: int) -> Outcome:
    def request(query: str, **overrides: Any) -> SearchRequest:
        return SearchRequest(query=query, domain=row.get("domain", DOMAIN), overrides=overrides, top_k=passages)

    started = time.monotonic()
    kit = Kit(
        RuleBasedPolicy(),
        lambda query, seconds: engine.search(request(query)),
        lambda result: None,
        lambda: time.monotonic() - started,
    )
    state = run(WorkflowState(question=row["question"], limits=LIMITS), kit)
    gathering = gathering_of(state, kit.policy.name, passages)
    single, together = engine.search(request(row["question"])), gathered(state.results, gathering.picks)
    return Outcome(
        row,
        has_both(single.chunks, row["documents"]),
        has_both(engine.search(request(row["question"], multi_query=True)).chunks, row["documents"]),
        has_both(engine.search(request(row["question"], graph_hops=2)).chunks, row["documents"]),
        has_both(together.chunks, row["documents"]),
        has_both(cited(single, None), row["documents"]),
        has_both(cited(together, gathering), row["documents"]),
        len(state.rounds),
        state,
    )


def cited(result: SearchResult, gathering: Gathering | None) -> list[RankedChunk]:
    """Return the passages that the sentences of an answer without a model cite."""
    evidence = evidence_of(result, from_result(result, counter=ApproxTokenCounter()))
    labels = {label for sentence in extracted(result, evidence, gathering).sentences for label in sentence.labels}
    keys = {(passage.source_id, passage.chunk_id) for passage in evidence if passage.label in labels}
    return [chunk for chunk in result.chunks if (chunk.source_id, chunk.chunk_id) in keys]


def has_both(chunks: Sequence[RankedChunk], documents: Sequence[Sequence[str]]) -> bool:
    """Whether each of the documents, or an alternative of it, has a passage."""
    shown = {chunk.chunk.document_id for chunk in chunks}
    return all(any(Path(name).name in shown for name in alternatives) for alternatives in documents)


def report(name: str, outcomes: Sequence[Outcome], passages: int, *, show: bool) -> None:
    for split in SPLITS:
        chosen = [outcome for outcome in outcomes if outcome.question["split"] == split]
        print(line(f"{name}, {split}", chosen, passages))
        for outcome in chosen:
            if show and split == "development" and not outcome.workflow:
                print_missed(outcome)
    print(line(f"{name}, all", outcomes, passages), flush=True)


def line(name: str, outcomes: Sequence[Outcome], passages: int) -> str:
    counts = [sum(getattr(outcome, way) for outcome in outcomes) for way in WAYS]
    searches = [outcome.searches for outcome in outcomes]
    cells = "  ".join(f"{count:8}" for count in counts)
    return f"{name:28}{passages:8}  {len(outcomes):9}  {cells}   {sum(searches) / len(searches):.1f} ({max(searches)})"


def print_missed(outcome: Outcome) -> None:
    print(f"    missed: {outcome.question['question']} | {outcome.question['documents']}")
    for number, searched in enumerate(outcome.state.rounds):
        shown = [chunk.chunk.document_id for chunk in outcome.state.passages(number)]
        print(f"        {searched.why}: {searched.query} -> {shown[:4]}")


if __name__ == "__main__":
    sys.exit(main())
