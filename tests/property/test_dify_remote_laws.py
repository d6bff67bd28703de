"""Whatever answers in the place of a server, the plugin has an error of its own with a name and no secret."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from context_engine.adapters.http import HttpAnswer
from context_engine.apps.dify.failure import checked_hello, refused_by
from context_engine.apps.dify.reranking import ModelChoice, asked_beforehand, model_scores
from context_engine.errors import ContextEngineError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
problems = st.fixed_dictionaries(
    {}, optional={"code": json_values, "detail": json_values, "instance": json_values, "service": json_values}
)
bodies = st.binary(max_size=40) | (json_values | problems).map(lambda value: json.dumps(value).encode())


@given(status=st.integers(200, 599), body=bodies)
def test_every_answer_is_an_error_with_a_name(status: int, body: bytes) -> None:
    error = refused_by(HttpAnswer(status, {}, body), "http://engine.example")
    assert isinstance(error, ContextEngineError) and type(error).__name__.isidentifier()
    assert str(error).encode("utf-8", "replace")
    with suppress(ContextEngineError):
        checked_hello(HttpAnswer(status, {}, body), "http://engine.example")


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30).filter(str.strip)


@given(texts=st.lists(texts, min_size=1, max_size=8), numbers=st.lists(st.floats(0, 1), min_size=8, max_size=8))
def test_scores_come_back_to_the_texts_they_were_given(texts: list[str], numbers: list[float]) -> None:
    """In whatever order the server ranks, and whichever of the passages it merges."""
    known = dict(zip(dict.fromkeys(texts), numbers, strict=False))

    def ask(_model: ModelChoice, _query: str, asked: Any) -> list[tuple[int, float]]:
        return [(place, known[text]) for place, text in enumerate(asked)]

    fields = {
        "query": "q",
        "passages": [{"content": text} for text in texts],
        "rerank_model": {"provider": "p", "model": "m"},
    }
    sent = json.loads(json.dumps(model_scores(fields, ask)))
    other = sorted(known)
    found = asked_beforehand(sent["scores"], None)(ModelChoice("p", "m"), "q", other)
    assert dict(found) == {place: known[text] for place, text in enumerate(other)}
