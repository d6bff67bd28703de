"""Nothing that a source answers breaks an output: not its depth, not its size, not a character that is none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from context_engine.adapters.sources.callable import CallableSource
from context_engine.core.engine import Engine
from context_engine.core.models import (
    Chunk,
    DomainSpec,
    Notice,
    NoticeCode,
    Registry,
    Score,
    ScoreKind,
    SearchRequest,
    SearchResult,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
    TermStatistics,
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
    ("fields", "code", "about"),
    [
        ({"metadata": {"deep": nested(900)}}, NoticeCode.METADATA_REPAIRED, "metadata"),
        ({"metadata": ring()}, NoticeCode.METADATA_REPAIRED, "metadata"),
        ({"extra": {"deep": nested(900)}}, NoticeCode.METADATA_REPAIRED, "extra"),
        ({"metadata": {"a": "x\ud800"}}, NoticeCode.METADATA_REPAIRED, "metadata"),
        ({"metadata": {"k\udfff": 1}}, NoticeCode.METADATA_REPAIRED, "metadata"),
        ({"metadata": {7: "seven", "huge": 10**5000}}, NoticeCode.METADATA_REPAIRED, "metadata"),
        ({"metadata": {"long": "x" * 3_000_000}}, NoticeCode.METADATA_REPAIRED, "metadata"),
        ({"metadata": {"odd": Odd()}}, NoticeCode.METADATA_REPAIRED, "metadata"),
        ({"content": f"{TEXT}\ud800\x00"}, NoticeCode.TEXT_REPAIRED, ["content"]),
        ({"title": "Title \udc00"}, NoticeCode.TEXT_REPAIRED, ["title"]),
        ({"title": "t" * 100_000}, NoticeCode.TEXT_REPAIRED, ["title"]),
        (
            {"section": "4\ud800", "heading_path": ("a\ud800", "b")},
            NoticeCode.TEXT_REPAIRED,
            ["section", "heading_path"],
        ),
        ({"heading_path": ("h",) * 5000}, NoticeCode.TEXT_REPAIRED, ["heading_path"]),
        ({"chunk_id": "c" * 100_000}, NoticeCode.TEXT_REPAIRED, ["chunk_id"]),
        ({"document_id": "d\ud800"}, NoticeCode.TEXT_REPAIRED, ["document_id"]),
        ({"position": 10**5000}, NoticeCode.FIELD_UNUSABLE, "position"),
        ({"title": Odd()}, NoticeCode.FIELD_UNUSABLE, "title"),
        ({"scores": (Odd(),)}, NoticeCode.SCORE_UNUSABLE, None),
    ],
)
def test_what_a_source_gives_is_bounded_and_valid_and_that_is_said(
    fields: dict[str, Any], code: NoticeCode, about: Any
) -> None:
    result = searched(Given(answer(**fields)))
    out = written(result)
    assert len(out["chunks"]) == 1
    found = [one["detail"] for one in out["notices"] if (one["code"], one["subject"]) == (code, "sops")]
    assert about in [one.get("field", one.get("fields")) for one in found]
    assert len(json.dumps(out)) < 3_000_000


def test_valid_chunks_stay_the_same_objects_without_a_note() -> None:
    metadata = {"page": 4, "tags": ["a"], "audience": None}
    result = searched(Given(answer(metadata=metadata, title="Größe 审批")))
    assert result.chunks[0].chunk.metadata is metadata
    assert result.notices == ()


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
    assert {one["code"] for one in out["notices"]} == {"source_note", "notices_left_out"}
    with pytest.raises(AllSourcesFailed) as raised:
        searched(Given(SourceUnavailable("down \ud800")))
    str(raised.value).encode()
    json.dumps(raised.value.statuses[0].error, ensure_ascii=False).encode()


@pytest.mark.wording
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"metadata": {"deep": nested(900)}}, f"metadata is nested deeper than {MOST_DEPTH} levels"),
        ({"metadata": {"a": "x\ud800"}}, "metadata holds characters that are not valid Unicode"),
        ({"metadata": {7: "seven", "huge": 10**5000}}, "metadata holds a number of over 300 digits"),
        ({"metadata": {"odd": Odd()}}, "metadata holds a Odd, which was converted to text"),
        ({"section": "4\ud800", "heading_path": ("a\ud800", "b")}, "section, heading_path contained invalid Unicode"),
        ({"title": Odd()}, "title of type Odd is unusable and counts as unknown"),
        ({"scores": (Odd(),)}, "score of type Odd counts as absent"),
    ],
)
def test_what_is_said_of_a_source_that_gives_more_than_an_output_can_hold(fields: dict[str, Any], said: str) -> None:
    warnings = searched(Given(answer(**fields))).warnings
    assert any(one.startswith("source 'sops': chunk c1: ") for one in warnings)
    assert any(said in one for one in warnings), warnings


def test_a_source_may_say_more_with_notices_of_its_own() -> None:
    """What it hands over is bounded, holds no key and fits into JSON, as its texts do."""
    given = (
        Notice(NoticeCode.STALE_ANSWER, "", "an answer of yesterday", {"age_s": 86_400, "problem": "y" * 10**6}),
        Notice("acme_says", "part 7", "what no code of ours means", {"deep": nested(900), "huge": 10**5000}),  # type: ignore[arg-type]
    )
    stale, own = searched(Given(SourceAnswer(chunks=answer().chunks, notes=given))).notices
    assert (stale.code, stale.subject, stale.detail["age_s"]) == (NoticeCode.STALE_ANSWER, "sops", 86_400)
    assert len(stale.detail["problem"]) == 2000
    assert (own.code, own.subject, own.detail["huge"]) == (NoticeCode.SOURCE_NOTE, "part 7", None)
    json.dumps([stale.to_dict(), own.to_dict()], allow_nan=False)


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
        assert found.result.notices
    json.dumps(searched(CallableSource(lambda *_: [given], "sops")).to_dict(), ensure_ascii=False).encode()


# -- term statistics --------------------------------------------------------------------------------------------------

KNOWN = TermStatistics(collection="base", chunks=100, document_frequency={"record": 7, "kept": 0})


def test_term_statistics_are_kept_with_the_answer() -> None:
    result = searched(Given(SourceAnswer(chunks=(Chunk(content=TEXT),), statistics=KNOWN)))
    assert result.raw[0].statistics == KNOWN
    assert result.notices == ()


@pytest.mark.parametrize(
    "statistics",
    [
        {"record": 7},
        replace(KNOWN, collection=""),
        replace(KNOWN, collection="\ud800"),
        replace(KNOWN, collection=None),  # type: ignore[arg-type]
        replace(KNOWN, chunks=-1),
        replace(KNOWN, chunks=True),
        replace(KNOWN, chunks=99.5),  # type: ignore[arg-type]
        replace(KNOWN, document_frequency=None),  # type: ignore[arg-type]
        replace(KNOWN, document_frequency={"record": 101}),
        replace(KNOWN, document_frequency={"record": -1}),
        replace(KNOWN, document_frequency={"record": float("nan")}),  # type: ignore[dict-item]
        replace(KNOWN, document_frequency={7: 7}),  # type: ignore[dict-item]
        replace(KNOWN, document_frequency={f"term{number}": 1 for number in range(5_000)}),
    ],
    ids=lambda statistics: str(statistics)[:80].encode("ascii", "replace").decode(),
)
def test_term_statistics_that_cannot_be_used_count_as_not_known(statistics: Any) -> None:
    result = searched(Given(SourceAnswer(chunks=(Chunk(content=TEXT),), statistics=statistics)))
    assert len(result.chunks) == 1
    assert result.raw[0].statistics is None
    [notice] = result.notices
    assert (notice.code, notice.detail["field"]) == (NoticeCode.FIELD_UNUSABLE, "statistics")
    written(result)
