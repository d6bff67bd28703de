"""Nothing that a source answers breaks an output: not its depth, not its size, not a character that is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from context_engine.adapters.sources.callable import CallableSource
from context_engine.core.engine import Engine
from context_engine.core.models import (
    Chunk,
    DomainSpec,
    Registry,
    Score,
    ScoreKind,
    SearchRequest,
    SearchResult,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
)
from context_engine.core.models.sanitize import MOST_DEPTH
from context_engine.errors import AllSourcesFailed, SourceUnavailable
from context_engine.rag import rerank, retrieve

TEXT = "Records are kept for seven years."
QUERY = "how long are records kept"


def nested(levels: int) -> Any:
    value: Any = "core"
    for _ in range(levels):
        value = [value]
    return value


def ring() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["self"] = made
    return made


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Given:
    """A source that answers with what it is given."""

    score_kinds = frozenset(ScoreKind)

    def __init__(self, answer: Any) -> None:
        self.source_id, self._answer = "sops", answer

    def search(self, _query: SourceQuery) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def close(self) -> None:
        pass


def searched(source: Any) -> SearchResult:
    spec = SourceSpec(id="sops", type="bank_sop", adapter="test")
    registry = Registry(domains={"NPA": DomainSpec(version=1, domain="NPA", sources=(spec,))})
    with Engine(registry, lambda _domain, _spec: source) as engine:
        return engine.search(SearchRequest(query=QUERY, domain="NPA"))


def written(result: SearchResult) -> dict[str, Any]:
    """What every output does: JSON, and that as UTF-8."""
    text = json.dumps(result.to_dict(), ensure_ascii=False)
    text.encode("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def answer(**fields: Any) -> SourceAnswer:
    chunk = Chunk(content=TEXT, chunk_id="c1", scores=(Score(ScoreKind.RELEVANCE, 0.9),))
    return SourceAnswer(chunks=(chunk._replace(**fields),))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"metadata": {"deep": nested(900)}}, f"metadata is nested deeper than {MOST_DEPTH} levels"),
        ({"metadata": ring()}, f"metadata is nested deeper than {MOST_DEPTH} levels"),
        ({"extra": {"deep": nested(900)}}, f"extra is nested deeper than {MOST_DEPTH} levels"),
        ({"metadata": {"a": "x\ud800"}}, "metadata holds characters that are not valid Unicode"),
        ({"metadata": {"k\udfff": 1}}, "metadata holds characters that are not valid Unicode"),
        ({"metadata": {7: "seven", "huge": 10**5000}}, "metadata holds a number of over 300 digits"),
        ({"metadata": {"long": "x" * 3_000_000}}, "metadata is too large"),
        ({"metadata": {"odd": Odd()}}, "metadata holds a Odd, which counts as text"),
        ({"content": f"{TEXT}\ud800\x00"}, "content held characters that are not valid Unicode"),
        ({"title": "Title \udc00"}, "title held characters"),
        ({"title": "t" * 100_000}, "title held characters"),
        ({"section": "4\ud800", "heading_path": ("a\ud800", "b")}, "section, heading_path held characters"),
        ({"heading_path": ("h",) * 5000}, "heading_path held characters"),
        ({"chunk_id": "c" * 100_000}, "chunk_id held characters"),
        ({"document_id": "d\ud800"}, "document_id held characters"),
        ({"position": 10**5000}, "position of type int cannot be used"),
        ({"title": Odd()}, "title of type Odd cannot be used"),
        ({"scores": (Odd(),)}, "counts as absent"),
    ],
)
def test_what_a_source_gives_is_bounded_and_made_valid_with_a_note(fields: dict[str, Any], said: str) -> None:
    result = searched(Given(answer(**fields)))
    out = written(result)
    assert len(out["chunks"]) == 1
    assert any(said in warning for warning in out["warnings"]), out["warnings"]
    assert len(json.dumps(out)) < 3_000_000


def test_valid_chunks_stay_the_same_objects_without_a_note() -> None:
    metadata = {"page": 4, "tags": ["a"], "audience": None}
    result = searched(Given(answer(metadata=metadata, title="Größe 审批")))
    assert result.chunks[0].chunk.metadata is metadata
    assert not [warning for warning in result.warnings if "chunk" in warning]


def test_ids_that_are_no_text_or_too_long_stay_apart() -> None:
    base = Chunk(content=TEXT, scores=(Score(ScoreKind.RELEVANCE, 0.9),))
    ids = ("a\ud800", "a\ud801", "x" * 5000 + "1", "x" * 5000 + "2")
    chunks = tuple(base._replace(chunk_id=one, content=f"{TEXT} Clause {one[-1]!a}.") for one in ids)
    fates = searched(Given(SourceAnswer(chunks=chunks))).fates
    assert len({fate.chunk_id for fate in fates}) == 4


def test_notes_and_errors_of_a_source_are_text_too() -> None:
    good = answer()
    noted = SourceAnswer(chunks=good.chunks, notes=("n\ud800", 10**5000, "y" * 10**6, *["more"] * 1000))  # type: ignore[arg-type]
    out = written(searched(Given(noted)))
    assert len(json.dumps(out)) < 100_000
    with pytest.raises(AllSourcesFailed) as raised:
        searched(Given(SourceUnavailable("down \ud800")))
    str(raised.value).encode()
    json.dumps(raised.value.statuses[0].error, ensure_ascii=False).encode()


@pytest.mark.parametrize("awkward", [{"metadata": {"a": nested(900)}}, {"kept": ring()}, {"title": "t\ud800"}])
def test_functions_and_chunk_dicts_take_the_same_road(awkward: dict[str, Any]) -> None:
    given = {"content": TEXT, "chunk_id": "c1", "relevance_score": 0.9, **awkward}
    for found in (
        retrieve(QUERY, "NPA", {"adapter": lambda *_: [given]}),
        rerank(QUERY, [given]),
    ):
        json.dumps(found, ensure_ascii=False).encode()
        assert len(found) == 1
        assert found.result is not None
        assert found.result.warnings
    json.dumps(searched(CallableSource(lambda *_: [given], "sops")).to_dict(), ensure_ascii=False).encode()
