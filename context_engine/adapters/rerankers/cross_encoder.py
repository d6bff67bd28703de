"""Cross-encoders: a model that reads the question and a passage together.

The model is a name on the hub or a folder, run by sentence-transformers (extra `embed`) or in ONNX form without torch
(extra `onnx`). Its one number per pair is a logit; the sigmoid of it is the score.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from context_engine.adapters.model_access import ModelContext, Options, read_options
from context_engine.adapters.model_access.local_models import LONGEST, OnnxModel, load_torch_model
from context_engine.core.concurrency.forking import abandon, forget_in_child
from context_engine.core.models import Chunk
from context_engine.core.protocols import Reranker
from context_engine.core.ranking.relevance import logistic
from context_engine.errors import ContextEngineError, RerankerError

logger = logging.getLogger(__name__)
MODEL: Final = "cross-encoder/ms-marco-MiniLM-L-6-v2"
Logits = Callable[[Sequence[tuple[str, str]]], Sequence[float]]
"""(question, passage) pairs -> one logit each."""


class CrossEncoderOptions(Options):
    """Options of the reranker `cross_encoder`.

    Attributes:
        model: a name of the hub, or a folder.
        runtime: "torch", or "onnx" for a folder with model.onnx (or onnx/model.onnx) and tokenizer.json.
        revision: of the hub's model.
        download: fetch missing files from the hub; off by default, so that nothing leaves the machine unasked.
        device: "cpu", "cuda", ... for torch; the best available one if None.
        threads: CPU threads; the library's own choice if None.
        max_tokens: longer pairs of question and passage are cut.
        batch_size: pairs given to the model at once.
    """

    model: Annotated[str, Field(min_length=1)] = MODEL
    runtime: Literal["torch", "onnx"] = "torch"
    revision: str | None = None
    download: bool = False
    device: str | None = None
    threads: Annotated[int, Field(ge=1, le=256)] | None = None
    max_tokens: Annotated[int, Field(ge=16, le=32_768)] = LONGEST
    batch_size: Annotated[int, Field(ge=1, le=1024)] = 32


class CrossEncoderReranker:
    """Scores each pair with a model that is loaded at its first use; one thread at a time.

    Args:
        name: shown in the result.
        load: loads the model; foreign exceptions become a `RerankerError`, and the next call tries again.
    """

    def __init__(self, name: str, load: Callable[[], Logits], *, batch_size: int = 32) -> None:
        self.name = name
        self._load, self._batch_size = load, batch_size
        self._lock = threading.Lock()
        self._model: Logits | None = None
        forget_in_child(self)

    def forget(self) -> None:
        """Drop the loaded model: after a fork, its threads exist only in the parent."""
        abandon(self._model)
        self._model, self._lock = None, threading.Lock()

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float]:
        """Return the sigmoid of the model's logit for each chunk; chunks of similar length are batched."""
        order = sorted(range(len(chunks)), key=lambda place: len(chunks[place].content))
        scores = [0.0] * len(chunks)
        for start in range(0, len(order), self._batch_size):
            places = order[start : start + self._batch_size]
            pairs = [(query, chunks[place].content) for place in places]
            for place, logit in zip(places, self._logits(pairs), strict=True):
                scores[place] = logistic(float(logit))
        return scores

    def _logits(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        try:
            with self._lock:
                if self._model is None:
                    self._model = self._load()
                    logger.info("reranker %s is loaded", self.name)
                return self._model(pairs)
        except RerankerError:
            raise
        except ContextEngineError as error:
            raise RerankerError(str(error)) from error


def open_cross_encoder(options: Mapping[str, Any], context: ModelContext) -> Reranker:
    """Return a cross-encoder; nothing is loaded yet."""
    chosen = read_options(CrossEncoderOptions, options)
    load = _load_onnx if chosen.runtime == "onnx" else _load_torch
    return CrossEncoderReranker(chosen.model, lambda: load(chosen), batch_size=chosen.batch_size)


def _load_onnx(chosen: CrossEncoderOptions) -> Logits:
    model = OnnxModel(
        Path(chosen.model).expanduser(),
        purpose="reranker 'cross_encoder' with runtime 'onnx'",
        error=RerankerError,
        threads=chosen.threads,
        max_tokens=chosen.max_tokens,
    )

    def logits(pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        scores = next(iter(model(pairs).outputs.values()))
        if scores.size != len(pairs):
            raise RerankerError(f"{chosen.model} gives {scores.shape} for {len(pairs)} pairs, not a number for each")
        return scores.reshape(-1).tolist()  # type: ignore[no-any-return]

    return logits


def _load_torch(chosen: CrossEncoderOptions) -> Logits:
    purpose, longest = "reranker 'cross_encoder'", chosen.max_tokens
    model = load_torch_model("CrossEncoder", chosen, purpose=purpose, error=RerankerError, max_length=longest)
    import torch

    def logits(pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        scores = model.predict(
            list(pairs), batch_size=len(pairs), activation_fn=torch.nn.Identity(), show_progress_bar=False
        )
        if getattr(scores, "size", 0) != len(pairs):
            raise RerankerError(f"{chosen.model} does not give one number for a pair: it is no reranker")
        return scores.reshape(-1).tolist()  # type: ignore[no-any-return]

    return logits
