"""Models of the sentence-transformers library, by name or from a folder; needs the extra `embed`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from context_engine.adapters.embedders.cache import CacheOptions, cached
from context_engine.adapters.embedders.local import BATCH_SIZE, Encoder, LocalEmbedder
from context_engine.adapters.embedders.prefixes import chosen_prefixes
from context_engine.adapters.model_access import ModelContext, read_options
from context_engine.adapters.model_access.local_models import as_folder, load_torch_model, model_name
from context_engine.core.protocols import Embedder, TokenVectors
from context_engine.errors import EmbedderError


class SentenceTransformersOptions(CacheOptions):
    """Options of the embedder `sentence_transformers`.

    Attributes:
        model: a name of the hub, or a folder.
        revision: of the hub's model; a commit makes runs repeatable.
        download: fetch missing files from the hub; off by default, so that nothing leaves the machine unasked.
        device: "cpu", "cuda", ...; the best available one if None.
        threads: CPU threads for one batch; the library's own choice if None.
        max_tokens: longer texts are cut; the model's own limit if None.
        query_prefix, document_prefix: override the known prefixes.
    """

    model: Annotated[str, Field(min_length=1)] = "BAAI/bge-small-en-v1.5"
    revision: str | None = None
    download: bool = False
    device: str | None = None
    threads: Annotated[int, Field(ge=1, le=256)] | None = None
    max_tokens: Annotated[int, Field(ge=8, le=32_768)] | None = None
    batch_size: Annotated[int, Field(ge=1, le=4096)] = BATCH_SIZE
    query_prefix: str | None = None
    document_prefix: str | None = None


def open_sentence_transformers(options: Mapping[str, Any], context: ModelContext) -> Embedder:
    """Return an embedder over a sentence-transformers model; nothing is loaded yet."""
    chosen = read_options(SentenceTransformersOptions, options)
    folder = as_folder(chosen.model)
    prefixes = chosen_prefixes(chosen.model, chosen.query_prefix, chosen.document_prefix, folder=folder)
    embedder = LocalEmbedder(
        lambda: _name(chosen), lambda: load_encoder(chosen), prefixes=prefixes, batch_size=chosen.batch_size
    )
    return cached(embedder, chosen, context)


def _name(chosen: SentenceTransformersOptions) -> str:
    cut = f"/{chosen.max_tokens}" if chosen.max_tokens else ""
    return model_name(chosen.model, chosen.revision) + cut


def load_encoder(chosen: SentenceTransformersOptions) -> Encoder:
    """Load the model; only safetensors weights, and no code that comes with a model.

    Raises:
        MissingExtra: the library is not installed.
        EmbedderError: the files are missing.
    """
    model = load_torch_model(
        "SentenceTransformer", chosen, purpose="embedder 'sentence_transformers'", error=EmbedderError
    )
    if chosen.max_tokens:
        model.max_seq_length = chosen.max_tokens
    return _TorchEncoder(model)


class _TorchEncoder:
    def __init__(self, model: Any) -> None:
        self._model = model
        read = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
        self.dimension = int(read())

    def encode(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        vectors = self._model.encode(
            list(texts), batch_size=len(texts), normalize_embeddings=True, show_progress_bar=False
        )
        return vectors.tolist()  # type: ignore[no-any-return]

    def encode_tokens(self, texts: Sequence[str]) -> Sequence[TokenVectors]:
        import torch

        read = getattr(self._model, "preprocess", None) or self._model.tokenize
        features = read(list(texts))
        features = {key: value.to(self._model.device) for key, value in features.items() if hasattr(value, "to")}
        with torch.inference_mode():
            states = self._model(dict(features))["token_embeddings"]
        states = torch.nn.functional.normalize(states.float(), dim=-1).cpu().numpy()
        ids = features["input_ids"].cpu().tolist()
        mask = features["attention_mask"].cpu().tolist()
        special = set(self._model.tokenizer.all_special_ids)
        out = []
        for row, (row_ids, row_mask) in enumerate(zip(ids, mask)):
            kept = [place for place, token_id in enumerate(row_ids) if row_mask[place] and token_id not in special]
            names = self._model.tokenizer.convert_ids_to_tokens([row_ids[place] for place in kept])
            vectors: Any = states[row, kept]
            out.append(TokenVectors(names, vectors))
        return out
