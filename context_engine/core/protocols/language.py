"""Protocols for language models: rerankers, query refiners, chat models, embedders and token counters."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from context_engine.core.models import ChatMessage, ChatPart, Chunk, Refinement, VectorAdapter


@runtime_checkable
class Reranker(Protocol):
    """A model that reads the query and each text together.

    Attributes:
        name: shown in the result and the record.
    """

    name: str

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        """Return one score in [0, 1] per chunk, in the order given; None for "no opinion".

        Each chunk carries the relevance from stage 1 as its relevance score.

        Raises:
            RerankerError: the model failed; the search continues without it and adds a notice.
        """
        ...


@runtime_checkable
class AdaptableReranker(Protocol):
    """A reranker that compares vectors, or wraps one that does, and can apply a search's vector adapter; optional."""

    def under(self, adapter: VectorAdapter) -> Reranker | None:
        """Return a reranker for one search that applies the adapter; it must not cost more than this one.

        Returns:
            None if it compares no vectors that the adapter applies to.
        """
        ...


def reranker_under(reranker: Reranker, adapter: VectorAdapter) -> Reranker | None:
    """Return the reranker with the adapter applied; None if it cannot apply one."""
    return reranker.under(adapter) if isinstance(reranker, AdaptableReranker) else None


@runtime_checkable
class QueryRefiner(Protocol):
    """A model that rewords a question for search. Safe for several threads at once.

    Attributes:
        name: shown in the result and the record.
    """

    name: str

    def refine(self, query: str, language: str) -> Refinement:
        """Return a rewording of a question and its topic.

        Args:
            query: the cleaned question.
            language: ISO 639-1 code; "und" if unknown.

        Raises:
            RefinerError: the model failed; the query is searched unchanged.
        """
        ...


@runtime_checkable
class ChatModel(Protocol):
    """A model that writes an answer to messages. Safe for several threads at once.

    Attributes:
        name: shown in the answer and the record.
        model: the name of its price in the settings.
        max_tokens: most tokens that an answer may have by its configuration.
    """

    name: str
    model: str
    max_tokens: int

    def chat(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> Generator[ChatPart, None, None]:
        """Yield the answer's text as it is written, then one part with the reason of its end and the tokens used.

        A consumer that needs no more closes the iterator, which ends the call; the last part is then not given.

        Args:
            messages: at least one; system messages first.
            max_tokens: most tokens of this answer, >= 1.
            temperature: 0 (most likely words) to 2.
            cancelled: asked several times a second; once it is true, the call ends and the last part says so.

        Raises:
            ChatModelError: the model failed; the error holds the text that came before.
        """
        ...


@runtime_checkable
class Embedder(Protocol):
    """A model that turns text into vectors.

    Safe for several threads at once. Vectors have unit length, so that their dot product is their cosine; a text with
    no word that the model knows has a vector of zeros.

    Attributes:
        model_id: vectors with the same model_id are comparable.
        dimension: length of a vector; reading it may load the model or call the server.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed_query(self, text: str) -> Sequence[float]:
        """Return the vector of a query.

        Raises:
            EmbedderError: the model cannot be loaded or returned nothing.
        """
        ...

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text, in the order given.

        Raises:
            EmbedderError: the model cannot be loaded or returned nothing.
        """
        ...


@runtime_checkable
class QueryBatchEmbedder(Protocol):
    """An embedder that can embed many questions in one call; used in training, not in search."""

    def embed_queries(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vector of each query, in the order given, equal to that of `embed_query`.

        Raises:
            EmbedderError: the model cannot be loaded or returned nothing.
        """
        ...


class TokenVectors(NamedTuple):
    """The tokens of one text in order, without the model's special tokens, and a unit vector for each."""

    tokens: Sequence[str]
    vectors: Sequence[Sequence[float]]


@runtime_checkable
class TokenEmbedder(Protocol):
    """An embedder that also returns a vector for each token of a text."""

    def embed_tokens(self, texts: Sequence[str], *, query: bool = False) -> Sequence[TokenVectors]:
        """Return the tokens of each text with their vectors, truncated to the model's longest input.

        Args:
            texts: passages, or questions if `query`.

        Raises:
            EmbedderError: the model cannot be loaded or returned nothing.
        """
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """Counts tokens as a language model would."""

    name: str

    def count(self, text: str) -> int:
        """Return the number of tokens, >= 0; 0 only for empty text."""
        ...


@runtime_checkable
class Entailment(Protocol):
    """A model that judges whether texts say what a sentence says. Safe for several threads at once.

    Attributes:
        name: shown in the answer and the record.
    """

    name: str

    def entails(self, texts: Sequence[str], sentence: str) -> float | None:
        """Return how sure it is that the texts together say the sentence, in [0, 1]; None for "no opinion".

        Args:
            texts: the quotes that the sentence rests on, each with the headings above it.
        """
        ...
