"""Are the results of random searches the same to the byte as those of another checkout?

    python tests/benchmarks/compare_searches.py --baseline CHECKOUT [BENCH_DIR ...] [--questions 600] [--seed 1]
        [--no-base] [--show 3] [--keep FOLDER]

The same searches run in two processes, one over the package of this checkout and one over that of CHECKOUT; only names
that users import are used, so modules may have moved between the two. A search is one of four kinds:

demo    the demo bank, ingested by each checkout, through `build_engine`;
base    the documents of the first BENCH_DIR, ingested by each checkout (left out with --no-base or without one);
pool    40 passages for a question of BENCH_DIR (of the demo's texts without one), given by sources of five tiers,
        often with edited copies: equal text, other white space, a header, another number, "may" for "must";
rag     the same as chunk dicts through `context_engine.rag`: `rerank`, `retrieve` with an adapter, and a pipeline.

What varies: settings, filters, the day asked about, personas, kinds of scores, dates and versions of chunks, what the
question quotes. Clock and ids are fixed; times of ingest and of `rag`, which has a clock of its own, are masked.

Printed is how many are identical, for the ranking (status, decision, chunks, fates, swaps) and for each other part of
the published result, and where the first that differ do so. The exit status is 1 if a ranking differs.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from search_cases import DEMO_DOMAINS, Cases
from search_pools import (
    BASE,
    CHECKOUT,
    TIERS,
    Ids,
    Moment,
    Passages,
    by_source,
    environment,
    ingest,
    pool_engine,
    write_configuration,
    write_documents,
)

RANKING = ("status", "decision", "chunks", "fates", "swaps", "swap_count")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path, nargs="*")
    options.add_argument("--baseline", type=Path, required=True)
    options.add_argument("--questions", type=int, default=600)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--no-base", action="store_true")
    options.add_argument("--show", type=int, default=3)
    options.add_argument("--keep", type=Path, help="a folder for the searches and both results")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        collections = [Passages(one) for one in given.bench]
        cases = list(Cases(collections, random.Random(given.seed), base=not given.no_base).made(given.questions))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases), "utf-8")
        kinds = {case["kind"] for case in cases}
        results = {}
        for name, checkout in (("baseline", given.baseline.resolve()), ("this", CHECKOUT)):
            with tempfile.TemporaryDirectory() as work:
                results[name] = folder / f"{name}.jsonl"
                run_side(checkout, Path(work), collections, kinds, folder / "cases.jsonl", results[name])
        raise SystemExit(report(cases, results["baseline"], results["this"], given.show))


def run_side(
    checkout: Path, work: Path, collections: Sequence[Passages], kinds: set[str], cases: Path, out: Path
) -> None:
    """Ingest by a checkout and run the searches over its package."""
    config, data = work / "conf", work / "data"
    write_configuration(config)
    environ = environment(checkout, work / "installed")
    environ |= {"CONTEXT_ENGINE_CONFIG_DIR": str(config), "CONTEXT_ENGINE_DATA_DIR": str(data)}
    if "demo" in kinds:
        for domain in DEMO_DOMAINS:
            ingest(environ, config, CHECKOUT / "context_engine" / "demo" / "bank", domain, data)
    if "base" in kinds:
        write_documents(collections[0], work / "documents")
        ingest(environ, config, work / "documents", BASE, data)
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import compare_searches as it; it.side()"
    with out.open("w", encoding="utf-8") as taken:
        command = [sys.executable, "-c", code, str(cases), str(checkout)]
        subprocess.run(command, env=environ, cwd=config, stdout=taken, check=True)


def side() -> None:
    """Run the searches over the package that this process imports and write one line for each."""
    import context_engine

    cases, checkout = Path(sys.argv[1]), Path(sys.argv[2])
    if checkout not in Path(context_engine.__file__).parents:
        raise SystemExit(f"{context_engine.__file__} is imported, not the package of {checkout}")
    warnings.simplefilter("ignore")
    with Side() as searches, cases.open(encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            result = masked(searches.run(case))
            print(json.dumps(result, ensure_ascii=True, sort_keys=True, separators=(",", ":")))


class Side:
    """The engines of one process."""

    def __init__(self) -> None:
        from context_engine import build_engine, rag

        config = Path.cwd()
        self.clock, self.rag = Moment(), rag
        self.built = build_engine(clock=self.clock, ids=Ids())
        self.pooled, self.pool = pool_engine(config, self.clock, Ids())

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self.built.close()
        self.pooled.close()

    def run(self, case: dict[str, Any]) -> dict[str, Any]:
        """Return the published result of a search, or its error."""
        from context_engine import ContextEngineError

        self.clock.moment = datetime.fromisoformat(case["moment"])
        try:
            return self.by_rag(case) if case["kind"] == "rag" else self.by_engine(case)
        except ContextEngineError as error:
            return {"status": "error", "error": f"{type(error).__name__}: {error}"}

    def by_engine(self, case: dict[str, Any]) -> dict[str, Any]:
        from context_engine import SearchRequest

        engine = self.built
        if case["kind"] == "pool":
            engine = self.pooled
            self.pool.clear()
            self.pool.update(by_source(case["chunks"]))
        request = SearchRequest(
            query=case["query"],
            domain=case["domain"],
            overrides=case["overrides"],
            filters=self.rag.parse_filter(case["filters"]),
            as_of=date.fromisoformat(case["as_of"]) if "as_of" in case else None,
            persona=case.get("persona"),
            require_tiers=tuple(case.get("require_tiers", ())),
        )
        return dict(engine.search(request).to_dict())

    def by_rag(self, case: dict[str, Any]) -> dict[str, Any]:
        dicts = [self.as_dict(one) for one in case["chunks"]]
        if case["by"] == "rerank":
            found = self.rag.rerank(case["query"], dicts, top_k=case["overrides"].get("stage2_top_k", 8))
            return {**found.result.to_dict(), "listed": list(found)}
        narrowing = {name: case[name] for name in ("as_of", "persona", "require_tiers", "filters") if name in case}
        options = {**narrowing, "adapter": lambda _query, _domain, top_k: dicts[:top_k]}
        if case["by"] == "adapter":
            found = self.rag.retrieve(case["query"], "POOL", {**options, **case["overrides"]})
        else:
            found = self.rag.create_rag_pipeline(case["overrides"])["retrieve"](case["query"], "POOL", options)
        return {**found.result.to_dict(), "listed": list(found)}

    def as_dict(self, one: dict[str, Any]) -> dict[str, Any]:
        tier = int(one["source"][-1])
        out = {key: value for key, value in one.items() if key not in ("source", "scores") and value is not None}
        out |= {"source_id": one["source"], "authority_tier": tier, "source_type": TIERS[tier - 1]}
        for kind, value, _ in one["scores"]:
            out |= {"relevance_score": value} if kind == "relevance" else {"score": value, "score_kind": kind}
        return out


def masked(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without what time it is, how long it took, and the random name of an ingested base."""
    for name in ("sources", "stages"):
        result[name] = [{**one, "elapsed_ms": 0} for one in result.get(name, ())]
    text = json.dumps(result, sort_keys=True, default=str)
    if (search_id := str(result.get("search_id", ""))) and not search_id.startswith("s-"):
        text = text.replace(search_id, "SEARCH")
    today = datetime.now(UTC).date()
    days = "|".join((today - timedelta(days=ago)).isoformat() for ago in (0, 1))
    text = re.sub(r"\blocal:[0-9a-f]{32}", "local:BASE", re.sub(rf"\b(?:{days})(?:T[\d:.]+Z?)?", "TODAY", text))
    return dict(json.loads(text))


def report(cases: Sequence[dict[str, Any]], first: Path, second: Path, show: int) -> int:
    """Print what is identical and where the first that differ do so; return the exit status."""
    same: Counter[str] = Counter()
    of_kind: Counter[str] = Counter()
    parts: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    dedup = answered = errors = 0
    shown: list[str] = []
    with first.open(encoding="utf-8") as one, second.open(encoding="utf-8") as other:
        for case, line, line_too in zip(cases, one, other, strict=True):
            before, after = json.loads(line), json.loads(line_too)
            of_kind[case["kind"]] += 1
            same[case["kind"]] += all(before.get(name) == after.get(name) for name in RANKING)
            for name in {*before, *after}:
                seen[name] += 1
                parts[name] += before.get(name) == after.get(name)
            dedup += sum(fate.get("stage") == "dedup" for fate in before.get("fates", ()))
            answered += before.get("decision") == "answered"
            errors += before["status"] == "error"
            if before != after and len(shown) < show:
                path, was, now = next(differences(before, after))
                shown.append(f"{case['number']} ({case['kind']}, {case['query'][:60]!r}) at {path}:\n  {was}\n  {now}")
    total = sum(same.values())
    print(f"rankings identical: {total} of {len(cases)}")
    print("  " + ", ".join(f"{kind} {same[kind]} of {of_kind[kind]}" for kind in sorted(of_kind)))
    print(f"  {answered} answered, {errors} refused with an error, {dedup} candidates merged by dedup")
    print("parts identical: " + ", ".join(f"{name} {parts[name]} of {seen[name]}" for name in sorted(seen)))
    print("\n".join(shown))
    return int(total != len(cases))


def differences(first: Any, second: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield where two results differ, with both values in short."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in sorted({*first, *second}):
            if first.get(key) != second.get(key):
                yield from differences(first.get(key), second.get(key), f"{path}.{key}")
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for place, (one, other) in enumerate(zip(first, second)):
            if one != other:
                yield from differences(one, other, f"{path}[{place}]")
    elif first != second:
        yield path, repr(first)[:300], repr(second)[:300]


if __name__ == "__main__":
    main()
