"""What an operator should know of how vectors are kept: whether the model was trained to have them cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from context_engine.core.models import ModelSettings, Notice, NoticeCode

_NAMED_BY: Final = ("model", "folder")


def vector_notices(settings: ModelSettings) -> Iterator[Notice]:
    """Yield what is said of `vector_dimensions`; nothing where there is no embedder, or vectors are kept whole."""
    count, options = settings.vector_dimensions, settings.embedder_options
    if settings.embedder is None or count is None:
        return
    from context_engine.adapters.embedders import known_model  # only here: it brings the HTTP client

    name = next((str(options[key]) for key in _NAMED_BY if key in options), settings.embedder)
    shortest = known_model(name).shortest
    if not shortest:
        said = f"{name!r} is not known to be trained for vectors that are cut: measure what {count} numbers lose with "
        said += "'context-engine eval run', or set vector_dimensions to null"
    elif count < shortest:
        said = f"{name!r} is trained for vectors of {shortest} numbers or more: set vector_dimensions to {shortest}"
    else:
        return
    yield Notice(NoticeCode.VECTORS_CUT, "vector_dimensions", said, {"dimensions": count, "shortest": shortest})
