"""The hybrid retrieval of three frameworks and two databases as their documentation shows it, over given vectors.

Each peer is a context manager `(passages, embedder, depth) -> Peer`; all get the same vectors and `depth` candidates of
each retriever. The frameworks' stores in memory are given the vectors as arrays: of lists, which they take too, they
make arrays for every question, which finds the same and takes twice as long. Needs llama-index-core with
llama-index-retrievers-bm25, haystack-ai, langchain-classic with langchain-community and rank_bm25, lancedb, and
psycopg with a PostgreSQL that has pg_search and pgvector, its `initdb` on the PATH (the package pgembed holds one); a
peer that is not installed is left out.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).parent.parent))

from postgresql_server import PostgresqlServer, programs_with

Ask = Callable[[str], Sequence[str]]


class Peer(NamedTuple):
    """A peer with its passages.

    Attributes:
        ask: question -> ids, best first.
        clock: the CPU seconds that the peer has used: of this process and its threads, and of a server's process.
    """

    ask: Ask
    clock: Callable[[], float] = time.process_time


@contextmanager
def llama_index(passages: Sequence[dict[str, Any]], embedder: Any, depth: int) -> Iterator[Peer]:
    """QueryFusionRetriever over a vector index and BM25Retriever, reciprocal rank, no query generated."""
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    class Given(BaseEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return [float(value) for value in embedder.embed_query(query)]

        def _get_text_embedding(self, text: str) -> list[float]:
            return [float(value) for value in embedder.embed_documents([text])[0]]

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    vectors = embedder.embed_documents([row["text"] for row in passages])
    nodes = [
        TextNode(id_=row["id"], text=row["text"], embedding=[float(value) for value in vector])
        for row, vector in zip(passages, vectors)
    ]
    index = VectorStoreIndex(nodes, embed_model=Given())
    held = index.vector_store.data.embedding_dict
    held |= {name: np.array(vector) for name, vector in held.items()}
    retriever = QueryFusionRetriever(
        [
            index.as_retriever(similarity_top_k=depth),
            BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=depth),
        ],
        llm=MockLLM(),
        similarity_top_k=depth,
        num_queries=1,
        mode="reciprocal_rerank",
        use_async=False,
    )
    yield Peer(lambda text: [found.node.node_id for found in retriever.retrieve(text)])


@contextmanager
def haystack(passages: Sequence[dict[str, Any]], embedder: Any, depth: int) -> Iterator[Peer]:
    """InMemoryBM25Retriever and InMemoryEmbeddingRetriever into a DocumentJoiner by reciprocal rank."""
    from haystack import Document
    from haystack.components.joiners import DocumentJoiner
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    vectors = embedder.embed_documents([row["text"] for row in passages])
    store.write_documents(
        [
            Document(id=row["id"], content=row["text"], embedding=[float(value) for value in vector])
            for row, vector in zip(passages, vectors)
        ]
    )
    for document in store.storage.values():
        vars(document)["embedding"] = np.array(document.embedding)
    words = InMemoryBM25Retriever(store, top_k=depth)
    dense = InMemoryEmbeddingRetriever(store, top_k=depth)
    joiner = DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=depth)

    def ask(text: str) -> list[str]:
        vector = [float(value) for value in embedder.embed_query(text)]
        lists = [words.run(query=text)["documents"], dense.run(query_embedding=vector)["documents"]]
        return [document.id for document in joiner.run(documents=lists)["documents"]]

    yield Peer(ask)


@contextmanager
def langchain(passages: Sequence[dict[str, Any]], embedder: Any, depth: int) -> Iterator[Peer]:
    """EnsembleRetriever over BM25Retriever and an in-memory vector store, halves each."""
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    class Given(Embeddings):
        def embed_documents(self, texts: list[str]) -> Any:
            return [np.array(vector, float) for vector in embedder.embed_documents(texts)]

        def embed_query(self, text: str) -> list[float]:
            return [float(value) for value in embedder.embed_query(text)]

    documents = [Document(page_content=row["text"], metadata={"id": row["id"]}) for row in passages]
    store = InMemoryVectorStore.from_documents(documents, Given())
    retriever = EnsembleRetriever(
        retrievers=[
            BM25Retriever.from_documents(documents, k=depth),
            store.as_retriever(search_kwargs={"k": depth}),
        ],
        weights=[0.5, 0.5],
        id_key="id",
    )
    yield Peer(lambda text: [document.metadata["id"] for document in retriever.invoke(text)])


@contextmanager
def lancedb(passages: Sequence[dict[str, Any]], embedder: Any, depth: int) -> Iterator[Peer]:
    """LanceDB's hybrid query over a full-text index (English stems) and exact vectors, reciprocal rank."""
    os.environ.setdefault("LANCEDB_LOG", "error")  # it warns of a column at every question
    from lancedb import connect
    from lancedb.index import FTS

    vectors = embedder.embed_documents([row["text"] for row in passages])
    with tempfile.TemporaryDirectory() as folder:
        rows = [{"id": row["id"], "text": row["text"], "vector": vector} for row, vector in zip(passages, vectors)]
        table = connect(folder).create_table("passages", rows)
        table.create_index("text", config=FTS())

        def ask(text: str) -> list[str]:
            query = table.search(query_type="hybrid", fts_columns="text").vector(embedder.embed_query(text)).text(text)
            return [row["id"] for row in query.distance_type("cosine").limit(depth).select(["id"]).to_list()]

        yield Peer(ask)


_HYBRID = """
    WITH words AS (
        SELECT id, row_number() OVER (ORDER BY score DESC) AS place
        FROM (SELECT id, pdb.score(id) AS score FROM passages WHERE content ||| %(text)s
              ORDER BY score DESC LIMIT %(depth)s) AS best
    ), near AS (
        SELECT id, row_number() OVER (ORDER BY distance) AS place
        FROM (SELECT id, embedding <=> %(vector)s::vector AS distance FROM passages
              ORDER BY distance LIMIT %(depth)s) AS best
    )
    SELECT id FROM (TABLE words UNION ALL TABLE near) AS both_lists
    GROUP BY id ORDER BY sum(1.0 / (60 + place)) DESC, id LIMIT %(depth)s
"""


@contextmanager
def pg_search(passages: Sequence[dict[str, Any]], embedder: Any, depth: int) -> Iterator[Peer]:
    """BM25 of pg_search (English stems) and an HNSW index of pgvector, reciprocal rank in one statement."""
    import psycopg

    vectors = map(_written, embedder.embed_documents([row["text"] for row in passages]))
    with (
        PostgresqlServer(folder=programs_with("pg_search")) as server,
        psycopg.connect(server.dsn("postgres"), autocommit=True) as connection,
    ):
        connection.execute("CREATE EXTENSION vector; CREATE EXTENSION pg_search")
        connection.execute(
            f"CREATE TABLE passages (id text PRIMARY KEY, content text, embedding vector({embedder.dimension}))"
        )
        with connection.cursor().copy("COPY passages FROM STDIN") as copy:
            for row, vector in zip(passages, vectors):
                copy.write_row((row["id"], row["text"].replace("\0", " "), vector))
        connection.execute(
            "CREATE INDEX ON passages USING bm25 (id, (content::pdb.simple('stemmer=english'))) WITH (key_field = 'id')"
        )
        connection.execute("CREATE INDEX ON passages USING hnsw (embedding vector_cosine_ops)")
        connection.execute("VACUUM ANALYZE passages")
        connection.execute(f"SET hnsw.ef_search = {max(100, depth)}")

        def ask(text: str) -> list[str]:
            given = {"text": text, "vector": _written(embedder.embed_query(text)), "depth": depth}
            return [row[0] for row in connection.execute(_HYBRID, given)]

        backend = connection.info.backend_pid
        yield Peer(ask, lambda: time.process_time() + _cpu_seconds(backend))


def _written(vector: Any) -> str:
    return str([float(value) for value in vector])


def _cpu_seconds(process: int) -> float:
    """Return the CPU time of a process, in the hundredths of a second that Linux counts."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


_NEEDS = {
    "LlamaIndex hybrid": (llama_index, ("llama_index.core", "llama_index.retrievers.bm25")),
    "Haystack hybrid": (haystack, ("haystack",)),
    "LangChain hybrid": (langchain, ("langchain_classic", "langchain_community", "rank_bm25")),
    "LanceDB hybrid": (lancedb, ("lancedb",)),
    "pg_search and pgvector": (pg_search, ("psycopg",)),
}


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


PEERS = {
    name: peer
    for name, (peer, needs) in _NEEDS.items()
    if all(map(_there, needs)) and (peer is not pg_search or programs_with("pg_search"))
}
