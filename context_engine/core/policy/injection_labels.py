"""What stands beside a chunk's text and is shown with it, read for signs that it wants to be more than text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from context_engine.core.models import Chunk
from context_engine.core.policy.injection import injection_kinds


def label_kinds(chunk: Chunk, kinds_of: Callable[[str], tuple[str, ...]] = injection_kinds) -> tuple[str, ...]:
    """Return the kinds of the findings in a chunk's title, headings, ids and fields; () for harmless ones.

    Args:
        kinds_of: gives a text the kinds of its findings: a cache of them where chunks come again, or each anew.
    """
    title = (chunk.title, *chunk.heading_path, chunk.document_id, chunk.section, chunk.metadata.get("reference"))
    heads = " ".join(str(one) for one in title if one)
    fields = (chunk.document_version, chunk.path, *_texts(chunk.metadata), *_texts(chunk.extra))
    beside = dict.fromkeys(one for one in fields if one and one not in heads)
    return tuple(dict.fromkeys(kind for text in (heads, "\n\n".join(beside)) for kind in kinds_of(text)))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value, names of fields left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)
