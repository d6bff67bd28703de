"""The hybrid retrieval of three frameworks in the form their documentation shows, over given vectors.

Each peer is `(passages, embedder, depth) -> (question -> ids, best first)`; all get the same vectors and `depth`
candidates of each retriever. Their stores in memory are given the vectors as arrays: of lists, which they take too,
they make arrays for every question, which finds the same and takes twice as long. Needs llama-index-core with
llama-index-retrievers-bm25, haystack-ai, langchain-classic with langchain-community and rank_bm25; a peer that is not
installed is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

Ask = Callable[[str], Sequence[str]]


def llama_index(passages: Sequence[dict[str, Any]], embedder: Any, depth: int) -> Ask:
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
    return lambda text: [found.node.node_id for found in retriever.retrieve(text)]


def haystack(passages: Sequence[dict[str, Any]], embedder: Any, depth: int) -> Ask:
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

    return ask


def langchain(passages: Sequence[dict[str, Any]], embedder: Any, depth: int) -> Ask:
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
    return lambda text: [document.metadata["id"] for document in retriever.invoke(text)]


_NEEDS = {
    "LlamaIndex hybrid": (llama_index, ("llama_index.core", "llama_index.retrievers.bm25")),
    "Haystack hybrid": (haystack, ("haystack",)),
    "LangChain hybrid": (langchain, ("langchain_classic", "langchain_community", "rank_bm25")),
}


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


PEERS = {name: peer for name, (peer, needs) in _NEEDS.items() if all(map(_there, needs))}
