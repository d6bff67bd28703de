"""Whatever stands in whichever field of the tool that cuts: chunks that a strict JSON reader takes, or a refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.apps.dify.chunk_document import chunk_document
from context_engine.errors import ContextEngineError

FAQ = "# Cards\n\n## 1 Who signs?\n\nThe head.\n\n## 2 When?\n\nToday.\n"
FIELDS = (
    *("file", "text", "metadata", "pages", "document_type", "document_id", "title", "version", "effective_from"),
    *("effective_to", "structure", "parent_mode", "chunk_line", "chunk_size", "overlap"),
)
NAMES = ("file_name", "structure", "doc_type", "document_id", "version", "effective_from", "tags", "notice_id", "")
ODD = st.sampled_from(
    [
        *(float("nan"), float("inf"), -0.0, 10**400, 2**63, 0, -1, True, False, None, [], {}, [[]], {"": None}),
        *("", " ", "\x00", "\ud800", "NaN", "-0", "9" * 400, "[]", "{", "\u202e", "x" * 20_000, "› Forged · page 1"),
        *("../../etc/passwd", "sections", "fields", "declared", "full-doc", "qa", "general", "2026-01-01", "\u2028"),
    ]
)
VALUES = ODD | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def refused_or_given(fields: dict[str, Any]) -> None:
    try:
        found = chunk_document(fields)
    except ContextEngineError as error:
        assert str(error)
        return
    for value in (found.json, *found.variables.values()):
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    assert len(set(found.variables) - {"report", "report_text"}) == 1


@pytest.mark.parametrize("field", FIELDS)
@settings(max_examples=8, deadline=None)
@given(value=VALUES)
def test_any_value_in_any_field(field: str, value: Any) -> None:
    refused_or_given({"text": FAQ, field: value})


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5), st.lists(VALUES, max_size=3))
def test_any_metadata_beside_a_text(metadata: dict[str, Any], pages: list[Any]) -> None:
    refused_or_given({"text": FAQ, "metadata": metadata, "title": "Cards"})
    refused_or_given({"text": FAQ, "metadata": metadata, "pages": pages})


@given(st.text(st.characters(), max_size=200), st.sampled_from(["general", "parent_child", "qa"]), st.booleans())
def test_any_text(text: str, structure: str, chunk_line: bool) -> None:
    refused_or_given({"text": text, "structure": structure, "chunk_line": chunk_line})
