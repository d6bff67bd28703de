"""What each step of the embedded base gains on judged questions, with paired intervals.

    python tests/benchmarks/bench_quality.py BENCH_DIR [--vectors FOLDER] [--tokens FOLDER] [--queries N]
        [--every N] [--only TEXT] [--sources] [--peers] [--run FILE]

BENCH_DIR holds corpus.jsonl (id, doc, title, section, passage_id, is_heading, text), queries.jsonl (id, text) and
qrels.tsv (query, passage, 1). The first FOLDER holds passages.npz and queries.npz as embed_corpus.py writes them;
without it only the steps that need no model are run. The other holds tokens.npz and query_tokens.npz and adds the
reranker max_sim, blended with the first stage as the engine does it. The time of a query is CPU time of the search
alone, on one core: vectors are read, not made. --every asks each Nth question only. --sources asks the engine over one
source, five sources of uneven size in one base, and five bases. --peers adds the hybrid retrieval of LlamaIndex,
Haystack, LangChain, LanceDB and PostgreSQL with pg_search where they are installed (see peers_hybrid.py); the time
includes that of the server. --run writes the ranking of the defaults, for other evaluators.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from bench_disjoint import chunk, read, shares

from context_engine import Chunk, Engine, Registry, SearchRequest
from context_engine.adapters.rerankers.max_sim import MaxSimReranker
from context_engine.adapters.sources.local import LocalBase, LocalSource, SearchOptions
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import DomainSpec, ScoreKind, Settings, SourceSpec, SourceType
from context_engine.core.protocols import Reranker, TokenVectors
from context_engine.core.ranking.relevance import blended, normalise_pool

DEPTH = 40
OWN: dict[str, Any] = {"synonym_weight": 0.0}
"""The question's own words alone."""
PLAIN: dict[str, Any] = {**OWN, "pairs_weight": 0.0, "head_weight": 0.0, "section_weight": 0.0, "sibling_weight": 0.0}


class Step(NamedTuple):
    """A row of the table: its name, the row it is compared with, how it is searched, with vectors, with max-sim."""

    name: str
    against: str | None
    options: Mapping[str, Any]
    vectors: bool
    max_sim: bool = False


STEPS = (
    Step("BM25, stems", None, PLAIN, False),
    Step("+ headings", "BM25, stems", {**PLAIN, "head_weight": 0.2}, False),
    Step("+ pairs of words", "+ headings", {**OWN, "section_weight": 0.0, "sibling_weight": 0.0}, False),
    Step("+ section text", "+ pairs of words", {**OWN, "sibling_weight": 0.0}, False),
    Step("+ siblings", "+ section text", OWN, False),
    Step("+ synonyms = text default", "+ siblings", {}, False),
    Step("text + neighbours .05", "+ synonyms = text default", {"neighbour_weight": 0.05}, False),
    Step("text + title boost .3", "+ synonyms = text default", {"title_boost": 0.3}, False),
    Step("vectors alone", "+ synonyms = text default", {"keyword_weight": 0.0}, True),
    Step("rrf k=60", "+ synonyms = text default", {"merge_method": "rrf"}, True),
    Step("rrf k=10", "+ synonyms = text default", {"merge_method": "rrf", "rrf_k": 10}, True),
    Step("weighted .6 text", "+ synonyms = text default", {"keyword_weight": 0.6, "vector_weight": 0.4}, True),
    Step("weighted .4 text", "+ synonyms = text default", {"keyword_weight": 0.4, "vector_weight": 0.6}, True),
    Step("weighted .5 = default", "+ synonyms = text default", {}, True),
    Step("default, no synonyms", "weighted .5 = default", OWN, True),
    Step("default, plain BM25 text", "weighted .5 = default", PLAIN, True),
    Step("default + title boost .3", "weighted .5 = default", {"title_boost": 0.3}, True),
    Step("default + title boost .1", "weighted .5 = default", {"title_boost": 0.1}, True),
    Step("default + definition boost .4", "weighted .5 = default", {"definition_boost": 0.4}, True),
    Step("default + max-sim", "weighted .5 = default", {}, True, max_sim=True),
)


class Vectors:
    """An embedder that knows the vectors of the benchmark's texts and of no other."""

    def __init__(self, folder: Path, passages: Sequence[dict[str, Any]], queries: Sequence[dict[str, Any]]) -> None:
        self.model_id = f"read from {folder.name}"
        self._of: dict[str, Any] = {}
        for stem, rows in (("passages", passages), ("queries", queries)):
            held = np.load(folder / f"{stem}.npz")
            place = {name: number for number, name in enumerate(held["ids"].tolist())}
            vectors = held["vectors"]
            self.know([row["text"] for row in rows], [vectors[place[row["id"]]] for row in rows])
            self.dimension = int(vectors.shape[1])

    def know(self, texts: Sequence[str], vectors: Any) -> None:
        """Take in more texts with their vectors."""
        self._of |= dict(zip(map(_letters, texts), vectors, strict=True))

    def embed_query(self, text: str) -> Any:
        return self._of[_letters(text)]

    def embed_documents(self, texts: Sequence[str]) -> list[Any]:
        """A long text comes in windows, which have no vector of their own: the text's own stands for each."""
        keys = [_letters(text) for text in texts]
        return [self._of[key] if key in self._of else self._of_part(key) for key in keys]

    def _of_part(self, window: str) -> Any:
        return next(vector for text, vector in self._of.items() if window in text)


class Tokens:
    """A token embedder that knows the token vectors of the benchmark's texts, without the marks at both ends."""

    def __init__(self, folder: Path, passages: Sequence[dict[str, Any]], queries: Sequence[dict[str, Any]]) -> None:
        self.model_id = f"read from {folder.name}"
        self._of = {False: _token_vectors(folder / "tokens.npz", passages)}
        self._of[True] = _token_vectors(folder / "query_tokens.npz", queries)

    def embed_tokens(self, texts: Sequence[str], *, query: bool = False) -> list[TokenVectors]:
        return [self._of[query][_letters(text)] for text in texts]


def _token_vectors(path: Path, rows: Sequence[dict[str, Any]]) -> dict[str, TokenVectors]:
    with np.load(path) as held:
        tokens, vectors, offsets = held["token_ids"], held["token_vectors"], held["offsets"].tolist()
    if len(offsets) != len(rows) + 1:
        raise SystemExit(f"{path} is of {len(offsets) - 1} texts, not of {len(rows)}: embed these with --tokens")
    cuts = [slice(start + 1, end - 1) for start, end in itertools.pairwise(offsets)]
    return {_letters(row["text"]): TokenVectors(tokens[cut].tolist(), vectors[cut]) for row, cut in zip(rows, cuts)}


def _letters(text: str) -> str:
    """The text as it is known however its white space and punctuation were cleaned; as it stands if it is all that."""
    return "".join(filter(str.isalnum, text)) or text


class Outcome(NamedTuple):
    """Per question: recall at 10, average precision at 10, recall at 40; milliseconds."""

    recall: Any
    precision: Any
    recall_40: Any
    milliseconds: Any


Ask = Callable[[str], Sequence[str]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--vectors", type=Path)
    options.add_argument("--tokens", type=Path)
    options.add_argument("--queries", type=int)
    options.add_argument("--every", type=int, default=1)
    options.add_argument("--only", help="only steps whose name holds this, and what they are compared with")
    options.add_argument("--sources", action="store_true")
    options.add_argument("--peers", action="store_true")
    options.add_argument("--run", type=Path)
    given = options.parse_args()
    answers, queries, gold = read(given.bench)
    passages = with_headings(given.bench)
    asked = queries[: given.queries : given.every]
    embedder = Vectors(given.vectors, passages, queries) if given.vectors else None
    reranker = MaxSimReranker(Tokens(given.tokens, passages, queries), cache_mib=0) if given.tokens else None
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        with LocalBase.open(Path(folder) / "base", create=True, embedder=embedder) as base:
            write(base, {"one": passages})
            took, size = time.perf_counter() - started, base.stats().bytes
        print(
            f"{len(passages)} passages, {len(asked)} questions; written in {took:.1f} s, {size / 1e6:.0f} MB on disk\n"
        )
        table = Table()
        for step in steps(given.only, vectors=embedder is not None, max_sim=reranker is not None):
            with LocalBase(
                Path(folder) / "base",
                embedder=embedder if step.vectors else None,
                options=SearchOptions(**step.options),
            ) as base:
                ask = asking(base, reranker if step.max_sim else None)
                table.add(step.name, step.against, measure(ask, asked, gold))
                if given.run and step.name.endswith("default"):
                    write_run(given.run, ask, asked)
        if given.peers and given.vectors:
            from peers_hybrid import PEERS

            for name, peer in PEERS.items():
                with peer(answers, embedder, DEPTH) as opened:
                    table.add(name, "weighted .5 = default", measure(opened.ask, asked, gold, opened.clock))
        if given.sources:
            print("\nR@8 through the engine")
            for name, recall in disjoint(Path(folder), passages, asked, gold, embedder):
                print(f"{name:44} {recall:.4f}", flush=True)
    print(f"\nmost memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def steps(only: str | None, *, vectors: bool, max_sim: bool) -> Iterator[Step]:
    possible = [step for step in STEPS if step.vectors <= vectors and step.max_sim <= max_sim]
    wanted = {step.name for step in possible if only is None or only in step.name}
    wanted |= {step.against for step in possible if step.name in wanted and step.against}
    yield from (step for step in possible if step.name in wanted)


def with_headings(bench: Path) -> list[dict[str, Any]]:
    """Return all passages; bare headings are no answers, but the sections they head are found by them too."""
    return [json.loads(line) for line in (bench / "corpus.jsonl").read_text("utf-8").splitlines()]


def as_chunk(row: dict[str, Any], place: int) -> Chunk:
    """Return a passage as a chunk."""
    return chunk(row, place)._replace(metadata={"is_heading": True} if row["is_heading"] else {})


def write(base: LocalBase, parts: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    with base.writer() as writer:
        for source, rows in parts.items():
            documents: dict[str, list[dict[str, Any]]] = {}
            for row in rows:
                documents.setdefault(row["doc"], []).append(row)
            for name, some in documents.items():
                writer.put(source, name, "", "1", [as_chunk(row, place) for place, row in enumerate(some)])


def asking(base: LocalBase, reranker: MaxSimReranker | None = None) -> Ask:
    scope = Scope(source_id="one")

    def ask(text: str) -> list[str]:
        chunks = base.answer(text, top_k=DEPTH, scope=scope).chunks
        return [chunk.chunk_id for chunk in (chunks if reranker is None else reranked(text, chunks, reranker))]

    return ask


def reranked(text: str, chunks: Sequence[Chunk], reranker: Reranker) -> list[Chunk]:
    """Return the candidates by the engine's blend of the merged score over its pool and the reranker's."""
    first = normalise_pool([chunk.score(ScoreKind.WEIGHTED) or 0.0 for chunk in chunks])
    second = reranker.rerank(text, chunks) or first
    weight = Settings().rerank_weight
    final = [blended(*both, weight) for both in zip(first, second, strict=True)]
    return [chunks[place] for place in sorted(range(len(chunks)), key=final.__getitem__, reverse=True)]


def measure(
    ask: Ask,
    asked: Sequence[dict[str, Any]],
    gold: Mapping[str, set[str]],
    clock: Callable[[], float] = time.process_time,
) -> Outcome:
    rows = []
    for query in asked:
        wanted = gold[query["id"]]
        started = clock()
        found = list(ask(query["text"]))
        took = clock() - started
        hits = [name in wanted for name in found]
        places = [place for place, hit in enumerate(hits[:10], 1) if hit]
        precision = sum(number / place for number, place in enumerate(places, 1)) / len(wanted)
        rows.append((len(places) / len(wanted), precision, sum(hits[:40]) / len(wanted), 1000 * took))
    return Outcome(*np.array(rows).T)


class Table:
    """Prints each row as soon as it is known, with its gain over another."""

    def __init__(self) -> None:
        self._known: dict[str, Outcome] = {}
        gains = "gain R@10 [95 %]".ljust(27) + "gain MAP@10 [95 %]".ljust(27)
        print(f"{'':30} R@10   MAP@10 R@40    {gains} CPU ms: mean p50    p95")

    def add(self, name: str, against: str | None, outcome: Outcome) -> None:
        self._known[name] = outcome
        gains = "".ljust(54)
        if against in self._known:
            before = self._known[against]
            gains = interval(outcome.recall - before.recall) + interval(outcome.precision - before.precision)
        mean, (low, high) = outcome.milliseconds.mean(), np.percentile(outcome.milliseconds, (50, 95))
        means = f"{outcome.recall.mean():.4f} {outcome.precision.mean():.4f} {outcome.recall_40.mean():.4f}"
        print(f"{name:30} {means}  {gains} {mean:6.2f} {low:6.2f} {high:6.2f}", flush=True)


def interval(difference: Any) -> str:
    """The mean of paired differences and its bootstrap interval, 2 000 draws."""
    draws = np.random.default_rng(7)
    means = np.sort([draws.choice(difference, len(difference)).mean() for _ in range(2000)])
    return f"{difference.mean():+.4f} [{means[50]:+.4f}, {means[1949]:+.4f}] "


def write_run(path: Path, ask: Ask, asked: Sequence[dict[str, Any]]) -> None:
    lines = (
        f"{query['id']} {name} {DEPTH - place}" for query in asked for place, name in enumerate(ask(query["text"]))
    )
    path.write_text("\n".join(lines) + "\n", "utf-8")


def disjoint(
    folder: Path,
    passages: list[dict[str, Any]],
    asked: Sequence[dict[str, Any]],
    gold: Mapping[str, set[str]],
    embedder: Vectors | None,
) -> Iterator[tuple[str, float]]:
    """One source, five sources of uneven size in one base, and five bases; without and with vectors."""
    five = {f"s{number}": part for number, part in enumerate(shares(passages))}
    layouts = {"one source": [{"one": passages}], "five sources": [five]}
    layouts["five bases"] = [{name: part} for name, part in five.items()]
    for kind, model in (("text", None), ("text and vectors", embedder)):
        if kind == "text" or model is not None:
            for name, bases in layouts.items():
                yield f"{kind}, {name}", engine_recall(folder / f"{kind} {name}", bases, asked, gold, model)


def engine_recall(
    folder: Path,
    bases: Sequence[Mapping[str, Sequence[dict[str, Any]]]],
    asked: Sequence[dict[str, Any]],
    gold: Mapping[str, set[str]],
    embedder: Vectors | None,
) -> float:
    of: dict[str, LocalBase] = {}
    for number, parts in enumerate(bases):
        base = LocalBase.open(folder / str(number), create=True, embedder=embedder)
        write(base, parts)
        of |= dict.fromkeys(parts, base)
    specs = tuple(SourceSpec(id=name, type=SourceType.BANK_SOP) for name in of)
    registry = Registry(domains={"BENCH": DomainSpec(version=1, domain="BENCH", sources=specs)})
    settings = {"authority_weight": 0.0, "dedup_method": "off", "min_relevance_score": 0.0}
    found = 0.0
    with Engine(registry, lambda _domain, spec: LocalSource(of[spec.id], spec.id)) as engine:
        for query in asked:
            result = engine.search(SearchRequest(query=query["text"], domain="BENCH", overrides=settings))
            returned = {one.chunk_id for one in result.chunks}
            found += len(returned & gold[query["id"]]) / len(gold[query["id"]])
    return found / len(asked)


if __name__ == "__main__":
    main()
