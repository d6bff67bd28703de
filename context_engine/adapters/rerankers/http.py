"""Rerankers behind an API, in the three forms that servers speak: Cohere's, Jina's and Text Embeddings Inference's.

`jina` is also the form of vLLM, Infinity, Xinference and LiteLLM: POST /v1/rerank. `cohere` is POST /v2/rerank, `tei`
POST /rerank with `texts` in place of `documents`. A connection whose base URL has a path is asked at its /rerank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field

from context_engine.adapters.http import Api
from context_engine.adapters.model_access import ModelContext, Options, read_options
from context_engine.adapters.model_access.server import ModelServer, model_api, open_server
from context_engine.core.models import Chunk
from context_engine.core.protocols import Reranker
from context_engine.core.ranking.relevance import unit_scores
from context_engine.errors import RerankerError

Form = Literal["cohere", "jina", "tei"]


class _WireForm(NamedTuple):
    """How a form is spoken: its API, its usual model, and how many texts one call may hold."""

    api: Api
    model: str | None
    most: int


_WIRES: Final[Mapping[str, _WireForm]] = {
    "cohere": _WireForm(model_api("v2"), "rerank-v3.5", 1000),
    "jina": _WireForm(model_api("v1"), "jina-reranker-v2-base-multilingual", 1000),
    "tei": _WireForm(model_api(""), None, 32),
}
"""TEI as delivered refuses more than 32 texts a call (its --max-client-batch-size)."""


class HttpOptions(Options):
    """Options of `cohere`, `jina` and `tei`.

    Attributes:
        connection: name of the connection.
        model: the server's name for the model; `tei` serves one and is told none.
        batch_size: texts in one call; as many as the form usually takes if None.
        attempts: calls for one batch before it counts as failed; the engine waits no longer than a search's deadline.
    """

    connection: Annotated[str, Field(min_length=1)]
    model: str | None = None
    batch_size: Annotated[int, Field(ge=1, le=1000)] | None = None
    attempts: Annotated[int, Field(ge=1, le=5)] = 2


class HttpReranker:
    """Asks a server for a score of each text. Scores outside [0, 1] are taken for logits.

    Args:
        form: how the server is spoken to.
        server: asked.
        options: of the model.
    """

    def __init__(self, form: Form, server: ModelServer, options: HttpOptions) -> None:
        self._form, self._server, self._wire = form, server, _WIRES[form]
        self._model = options.model or self._wire.model
        self._batch = options.batch_size or self._wire.most
        self.name = f"{form}:{self._model}" if self._model else form

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float]:
        """Return one score in [0, 1] per chunk."""
        texts = [chunk.content for chunk in chunks]
        values: list[float] = []
        for start in range(0, len(texts), self._batch):
            part = texts[start : start + self._batch]
            answer = self._server.post("rerank", self._body(query, part))
            values += self._read(answer, len(part))
        return unit_scores(self.name, values)

    def _body(self, query: str, texts: Sequence[str]) -> dict[str, Any]:
        if self._form == "tei":
            return {"query": query, "texts": list(texts), "truncate": True}
        return {"model": self._model, "query": query, "documents": list(texts), "top_n": len(texts)}

    def _read(self, answer: Any, count: int) -> list[float]:
        """Servers answer best first; every text must be there once."""
        try:
            rows = answer if self._form == "tei" else answer["results"]
            key = "score" if self._form == "tei" else "relevance_score"
            scores = {int(row["index"]): float(row[key]) for row in rows}
            if len(rows) != count or sorted(scores) != list(range(count)):
                raise ValueError
        except (KeyError, TypeError, ValueError, OverflowError):
            raise RerankerError(f"{self.name} gave an answer of another form than {self._form}'s rerank API") from None
        return [scores[place] for place in range(count)]


def open_cohere(options: Mapping[str, Any], context: ModelContext) -> Reranker:
    """Return a reranker that speaks Cohere's API; nothing is asked yet."""
    return _open("cohere", options, context)


def open_jina(options: Mapping[str, Any], context: ModelContext) -> Reranker:
    """Return a reranker that speaks Jina's API; nothing is asked yet."""
    return _open("jina", options, context)


def open_tei(options: Mapping[str, Any], context: ModelContext) -> Reranker:
    """Return a reranker that speaks Text Embeddings Inference's API; nothing is asked yet."""
    return _open("tei", options, context)


def _open(form: Form, options: Mapping[str, Any], context: ModelContext) -> Reranker:
    chosen = read_options(HttpOptions, options)
    server = open_server(
        _WIRES[form].api,
        context,
        chosen.connection,
        lambda problem, _later: RerankerError(f"reranker {form}: {problem}"),
        attempts=chosen.attempts,
    )
    return HttpReranker(form, server, chosen)
