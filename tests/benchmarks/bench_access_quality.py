"""What access classes cost in quality: five sources in five classes, asked by who may read all of them.

    python tests/benchmarks/bench_access_quality.py BENCH_DIR [--vectors FOLDER] [--queries 500]

BENCH_DIR holds corpus.jsonl (id, doc, title, section, passage_id, is_heading, text), queries.jsonl (id, text) and
qrels.tsv (query, passage, 1); FOLDER passages.npz and queries.npz as embed_corpus.py writes them. The five sources are
whole documents in shares of about 50, 25, 15, 7 and 3 %. Compared are

    one index     all five in one partition of one base: no access rules
    five classes  the same base with a rule for each source: five partitions, statistics summed over those permitted
    five bases    an index for each and the engine's own score over the union: plain rescoring

by text alone, and with vectors by both. R@8 and MAP@10 are those of the engine's results, without authority boost,
dedup or filter; "same" is the share of questions with the very same chunks in the very same order as from one index.
By text the scope threshold is calibrated too, in each partition by itself, with every other off-topic question of the
package: "kept" is the share of the benchmark's questions that reach it, "away" that of the other off-topic ones that
do not.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from bench_disjoint import read, shares
from bench_quality import Vectors, with_headings, write

from context_engine import Engine, Registry, SearchRequest
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.stores.chunk_rows import places
from context_engine.core.models import (
    AccessRule,
    Classification,
    DomainSpec,
    Principal,
    SourceSpec,
    SourceType,
)
from context_engine.core.policy.access import ManifestPolicy
from context_engine.evaluation.questions import EvalQuestion
from context_engine.evaluation.scope import best_signals
from context_engine.learning.calibration import calibrate, outside_questions

SETTINGS = {"authority_weight": 0.0, "dedup_method": "off", "min_relevance_score": 0.0, "stage2_top_k": 10}


class Outcome(NamedTuple):
    """Mean recall at 8 and average precision at 10, milliseconds a question, the ids returned to each, and of the
    scope threshold its value and the shares kept and turned away, where it was calibrated."""

    recall: float
    precision: float
    milliseconds: float
    returned: Sequence[tuple[str, ...]]
    scope: tuple[float, float, float] | None


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--vectors", type=Path)
    options.add_argument("--queries", type=int, default=500)
    given = options.parse_args()
    passages, queries, gold = read(given.bench)
    asked = random.Random(7).sample(queries, min(given.queries, len(queries)))
    parts = {f"s{number}": part for number, part in enumerate(shares(passages))}
    vectors = Vectors(given.vectors, with_headings(given.bench), queries) if given.vectors else None
    print(f"{len(passages)} passages in sources of {[len(part) for part in parts.values()]}, {len(asked)} questions")
    print(f"{'':30} {'R@8':>7} {'MAP@10':>7} {'same':>7} {'ms':>6} {'scope':>6} {'kept':>6} {'away':>6}")
    for kind, embedder in (("text", None), ("text and vectors", vectors)):
        if kind == "text" or embedder is not None:
            first: Sequence[tuple[str, ...]] | None = None
            for layout in ("one index", "five classes", "five bases"):
                with tempfile.TemporaryDirectory() as folder:
                    found = measure(Path(folder), layout, parts, embedder, asked, gold)
                first = found.returned if first is None else first
                same = sum(one == other for one, other in zip(found.returned, first, strict=True)) / len(asked)
                figures = f"{found.recall:7.4f} {found.precision:7.4f} {same:7.1%} {found.milliseconds:6.1f}"
                figures += "" if found.scope is None else " {:6.3f} {:6.1%} {:6.1%}".format(*found.scope)
                print(f"{kind + ', ' + layout:30} {figures}", flush=True)


def measure(
    folder: Path,
    layout: str,
    parts: Mapping[str, list[dict[str, Any]]],
    embedder: Vectors | None,
    asked: Sequence[dict[str, Any]],
    gold: Mapping[str, set[str]],
) -> Outcome:
    """Write the sources in a layout and ask the engine, as somebody whom all rules admit."""
    registry = Registry(domains={"BENCH": domain(parts, ruled=layout == "five classes")})
    policy = ManifestPolicy(registry.domains)
    place = places(registry.domain("BENCH").sources, policy.rules_of)
    together = [parts] if layout != "five bases" else [{name: part} for name, part in parts.items()]
    bases: dict[str, LocalBase] = {}
    for number, held in enumerate(together):
        base = LocalBase.open(folder / str(number), create=True, embedder=embedder, place=place)
        write(base, held)
        bases |= dict.fromkeys(held, base)
    expected = {"one index": 1, "five classes": 1 + len(parts), "five bases": 1}[layout]
    assert all(len(base.stats().partitions) == expected for base in bases.values())
    everybody = Principal(roles=frozenset(parts), clearance=Classification.RESTRICTED)
    recall = precision = 0.0
    returned = []
    with Engine(registry, lambda _, spec: LocalSource(bases[spec.id], spec.id, spec=spec), access=policy) as engine:
        started = time.perf_counter()
        for query in asked:
            request = SearchRequest(query=query["text"], domain="BENCH", overrides=SETTINGS, principal=everybody)
            found = tuple(chunk.chunk_id for chunk in engine.search(request).chunks)
            wanted = gold[query["id"]]
            hits = [place for place, one in enumerate(found, start=1) if one in wanted]
            recall += sum(place <= 8 for place in hits) / len(wanted)
            precision += sum(number / place for number, place in enumerate(hits, start=1)) / len(wanted)
            returned.append(found)
        took = time.perf_counter() - started
        calibrated = embedder is None and len(together) == 1
        scope = in_scope(engine, bases["s0"], registry.domain("BENCH"), asked, everybody) if calibrated else None
    return Outcome(recall / len(asked), precision / len(asked), 1000 * took / len(asked), returned, scope)


def in_scope(
    engine: Engine, base: LocalBase, of: DomainSpec, asked: Sequence[dict[str, Any]], principal: Principal
) -> tuple[float, float, float]:
    """Return the calibrated threshold, and the shares of the questions it keeps and of the off-topic it turns away."""
    (found,) = calibrate(base, of, outside=outside_questions()[::2])
    shares = []
    for texts in ([query["text"] for query in asked], outside_questions()[1::2]):
        questions = [(EvalQuestion(id=str(number), text=text), "BENCH") for number, text in enumerate(texts)]
        signals = [signal for _, signal in best_signals(engine, questions, principal=principal)]
        shares.append(sum(signal >= found.threshold for signal in signals) / len(signals))
    return found.threshold, shares[0], 1.0 - shares[1]


def domain(names: Sequence[str] | Mapping[str, Any], *, ruled: bool) -> DomainSpec:
    """Return a domain of some sources, each with a rule of its own or all without."""
    specs = tuple(
        SourceSpec(id=name, type=SourceType.BANK_SOP, access=AccessRule(roles=(name,)) if ruled else None)
        for name in names
    )
    return DomainSpec(version=1, domain="BENCH", sources=specs)


if __name__ == "__main__":
    main()
