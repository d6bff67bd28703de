"""Rerankers behind an API, in the three forms in use: Cohere's, Jina's and Text Embeddings Inference's.

`jina` is also the form of vLLM, Infinity, Xinference and LiteLLM: POST /v1/rerank. `cohere` is POST /v2/rerank, `tei`
POST /rerank with `texts` instead of `documents`. If a connection's base URL has a path, its /rerank is called.
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
    """An API form: its paths, default model, and most texts in one call."""

    api: Api
    model: str | None
    most: int


_WIRES: Final[Mapping[str, _WireForm]] = {
    "cohere": _WireForm(model_api("v2"), "rerank-v3.5", 1000),
    "jina": _WireForm(model_api("v1"), "jina-reranker-v2-base-multilingual", 1000),
    "tei": _WireForm(model_api(""), None, 32),
}
"""TEI refuses more than 32 texts a call by default (--max-client-batch-size)."""


class HttpOptions(Options):
    """Options of `cohere`, `jina` and `tei`.

    Attributes:
        connection: name of the connection.
        model: the server's name for the model; `tei` serves one and takes no name.
        batch_size: texts in one call; the form's usual limit if None.
        attempts: calls for one batch before it counts as failed; the engine waits no longer than a search's deadline.
    """

    connection: Annotated[str, Field(min_length=1)]
    model: str | None = None
    batch_size: Annotated[int, Field(ge=1, le=1000)] | None = None
    attempts: Annotated[int, Field(ge=1, le=5)] = 2


class HttpReranker:
    """Requests a score for each text. Scores outside [0, 1] are taken as logits."""

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
        """Return the scores in the order of the texts; servers answer best first, with every text once."""
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
    """Return a reranker that uses Cohere's API; nothing is sent yet."""
    return _open("cohere", options, context)


def open_jina(options: Mapping[str, Any], context: ModelContext) -> Reranker:
    """Return a reranker that uses Jina's API; nothing is sent yet."""
    return _open("jina", options, context)


def open_tei(options: Mapping[str, Any], context: ModelContext) -> Reranker:
    """Return a reranker that uses Text Embeddings Inference's API; nothing is sent yet."""
    return _open("tei", options, context)


def _open(form: Form, options: Mapping[str, Any], context: ModelContext) -> Reranker:
    chosen = read_options(HttpOptions, options)

    def error(problem: str, _later: bool) -> RerankerError:
        return RerankerError(f"reranker {form}: {problem}")

    server = open_server(_WIRES[form].api, context, chosen.connection, error, attempts=chosen.attempts)
    return HttpReranker(form, server, chosen)
