"""A rerank model of Dify for an engine in a server: asked in the plugin, whose scores travel with the passages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from context_engine.apps.dify.model_reranker import Ask, ModelChoice, read_model
from context_engine.apps.dify.node_input import read_passages
from context_engine.core.models import Registry

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")


def model_scores(fields: Mapping[str, Any], ask: Ask) -> dict[str, Any] | None:
    """Return the scores of the passages of a form by the SHA-256 of their texts; None where no model is chosen.

    Where the model fails, `problem` is the name of the error: the server ranks without it, and says so.

    Args:
        fields: of the form: query, passages, rerank_model.
        ask: calls the model.

    Raises:
        InvalidRequest: passages or a model that cannot be used.
    """
    model = read_model(fields.get("rerank_model"))
    if model is None:
        return None
    passages = read_passages(fields.get("passages"), Registry(), None, trust_metadata=False)
    texts = list(dict.fromkeys(chunk.content for _, chunks in passages.sources for chunk in chunks))
    try:
        found = [(int(index), float(score)) for index, score in ask(model, str(fields.get("query") or ""), texts)]
        return {"scores": {_digest(texts[index]): score for index, score in found if 0 <= index < len(texts)}}
    except Exception as error:  # noqa: BLE001  whatever the model's plugin raises, the ranking goes on
        name = type(error).__name__
    return {"scores": {}, "problem": name}


def asked_beforehand(scores: Mapping[str, float], problem: str | None) -> Ask:
    """Return what answers in the place of a model with the scores that it gave.

    Args:
        scores: by the SHA-256 of the text.
        problem: the name of the error that the model failed with; None where it did not.
    """

    def ask(_model: ModelChoice, _query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
        if problem:
            raise type(problem if _NAME.fullmatch(problem) else "ModelFailed", (Exception,), {})
        digests = [_digest(text) for text in texts]
        return [(place, scores[one]) for place, one in enumerate(digests) if one in scores]

    return ask


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
