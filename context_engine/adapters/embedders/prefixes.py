"""What a model wants in front of a question and of a passage; without it, it finds less."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["Prefixes", "chosen_prefixes", "known_prefixes"]


class Prefixes(NamedTuple):
    """Texts put in front, spaces and all."""

    query: str = ""
    document: str = ""


_BGE: Final = Prefixes(query="Represent this sentence for searching relevant passages: ")
_E5: Final = Prefixes(query="query: ", document="passage: ")
_KNOWN: Final = {
    **{f"bge-{size}-en{version}": _BGE for size in ("small", "base", "large") for version in ("", "-v1.5")},
    **{f"multilingual-e5-{size}": _E5 for size in ("small", "base", "large")},
    **{f"e5-{size}{version}": _E5 for size in ("small", "base", "large") for version in ("", "-v2")},
}
"""By the model's name without its owner, as the model cards give them."""


def known_prefixes(model: str) -> Prefixes:
    """Return the prefixes of a model by its name or the path of its folder; none where it is not known.

    Of a path the last part that names a known model counts, so that a hub's cache (`models--owner--model/snapshots/…`)
    and a folder within the model's (`model/onnx`) are known too, and so is a copy named `model-onnx`.

    >>> known_prefixes("intfloat/multilingual-e5-large")
    Prefixes(query='query: ', document='passage: ')
    """
    parts = reversed(model.replace("\\", "/").casefold().split("/"))
    return next((_KNOWN[name] for name in map(_model_of, parts) if name in _KNOWN), Prefixes())


def _model_of(part: str) -> str:
    """Return the model's name in one part of a path, in small letters."""
    name = part.rpartition("--")[2] if part.startswith("models--") else part
    return name.removesuffix("-onnx").removesuffix("_onnx")


def chosen_prefixes(model: str, query: str | None, document: str | None) -> Prefixes:
    """Return the prefixes given, those of the model where None is."""
    known = known_prefixes(model)
    return Prefixes(known.query if query is None else query, known.document if document is None else document)
