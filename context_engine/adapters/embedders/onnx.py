"""Embedding models in ONNX form, without torch; needs the extra `onnx`.

The folder holds the files of a model's repository: `tokenizer.json`, `model.onnx` or `onnx/model.onnx`, and
`1_Pooling/config.json`, which says how token vectors are pooled (by their mean if it is missing).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from context_engine.adapters.embedders.cache import CacheOptions, cached
from context_engine.adapters.embedders.local import Encoder, LocalEmbedder
from context_engine.adapters.embedders.prefixes import chosen_prefixes
from context_engine.adapters.model_access import ModelContext, read_options
from context_engine.adapters.model_access.local_models import LONGEST, OnnxModel, OnnxRun, model_name
from context_engine.core.protocols import Embedder, TokenVectors
from context_engine.errors import EmbedderError

Pooling = Literal["mean", "cls"]


class OnnxOptions(CacheOptions):
    """Options of the embedder `onnx`.

    Attributes:
        folder: holds the model's files.
        pooling: how token vectors are pooled; as the folder says if None.
        threads: CPU threads; the runtime's own choice if None.
        max_tokens: longer texts are cut.
        batch_size: texts given to the model at once. More take memory and on a CPU no less time: with MiniLM and texts
            of up to 150 words, 8 took 0.4 GB above the idle process, 32 took 1.9 GB.
        query_prefix, document_prefix: override the prefixes in the model's files, or those known for its name.
    """

    folder: Path
    pooling: Pooling | None = None
    threads: Annotated[int, Field(ge=1, le=256)] | None = None
    max_tokens: Annotated[int, Field(ge=8, le=32_768)] = LONGEST
    batch_size: Annotated[int, Field(ge=1, le=4096)] = 8
    query_prefix: str | None = None
    document_prefix: str | None = None


def open_onnx(options: Mapping[str, Any], context: ModelContext) -> Embedder:
    """Return an embedder over a model in ONNX form; nothing is loaded yet."""
    chosen = read_options(OnnxOptions, options)
    folder = chosen.folder.expanduser()
    prefixes = chosen_prefixes(str(chosen.folder), chosen.query_prefix, chosen.document_prefix, folder=folder)
    embedder = LocalEmbedder(
        lambda: _name(chosen), lambda: load_encoder(chosen), prefixes=prefixes, batch_size=chosen.batch_size
    )
    return cached(embedder, chosen, context)


def _name(chosen: OnnxOptions) -> str:
    return f"{model_name(str(chosen.folder.expanduser().absolute()))}/{chosen.max_tokens}/{_pooling(chosen)}"


def load_encoder(chosen: OnnxOptions) -> Encoder:
    """Load the model.

    Raises:
        MissingExtra: onnxruntime or tokenizers is not installed.
        EmbedderError: the files are missing or cannot be read.
    """
    model = OnnxModel(
        chosen.folder.expanduser(),
        purpose="embedder 'onnx'",
        error=EmbedderError,
        threads=chosen.threads,
        max_tokens=chosen.max_tokens,
    )
    return _OnnxEncoder(model, _pooling(chosen))


def _pooling(chosen: OnnxOptions) -> Pooling:
    if chosen.pooling is not None:
        return chosen.pooling
    try:
        config = json.loads((chosen.folder.expanduser() / "1_Pooling" / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return "mean"
    return "cls" if isinstance(config, dict) and config.get("pooling_mode_cls_token") else "mean"


class _OnnxEncoder:
    def __init__(self, model: OnnxModel, pooling: Pooling) -> None:
        self._model, self._pooling = model, pooling
        self.dimension = len(self.encode(["dimension"])[0])

    def encode(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        run = self._model(texts)
        states = _states(run)
        if self._pooling == "cls":
            pooled = states[:, 0]
        else:
            weights = run.mask[..., None].astype(states.dtype)
            pooled = (states * weights).sum(axis=1) / weights.sum(axis=1).clip(min=1)
        return _unit(pooled).tolist()  # type: ignore[no-any-return]

    def encode_tokens(self, texts: Sequence[str]) -> Sequence[TokenVectors]:
        run = self._model(texts)
        states = _unit(_states(run))
        out = []
        for row, tokens in enumerate(run.tokens):
            kept = [place for place in range(len(tokens)) if not run.special[row, place]]
            out.append(TokenVectors([tokens[place] for place in kept], states[row, kept]))
        return out


def _states(run: OnnxRun) -> Any:
    """Return the vectors of the last layer, [texts, tokens, dimension]."""
    for name in ("last_hidden_state", "token_embeddings"):
        if name in run.outputs:
            return run.outputs[name]
    candidates = [value for value in run.outputs.values() if value.ndim == 3]
    if not candidates:
        raise EmbedderError("the model gives no token vectors: export it as a feature extraction model")
    return candidates[0]


def _unit(vectors: Any) -> Any:
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
