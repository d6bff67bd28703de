"""A search result in the shape of Dify's Knowledge Retrieval node, with notices about missing sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID, uuid5

from context_engine.apps.dify.reader_texts import Tongue, reader_text
from context_engine.core.context.fence import inert, inert_line
from context_engine.core.context.render import quoted
from context_engine.core.models import Decision, RankedChunk, SearchResult, SourceStatus, Status, TrustClass
from context_engine.core.policy.injection import INJECTION_SUSPECTED
from context_engine.core.text import content_sha256

_REGISTER_TIER: Final = 1


class MissingKnowledge(NamedTuple):
    """A title and text about sources missing from a search."""

    title: str
    content: str


def missing_sources(result: SearchResult) -> list[SourceStatus]:
    """Return the sources that failed, wholly or in part."""
    return [source for source in result.sources if source.state in ("failed", "partial")]


def without_register(result: SearchResult) -> SearchResult:
    """Return the result with the decision `incomplete` if a tier-1 source failed, wholly or in part.

    The answer of a failed system of record is unknown and may contradict the others. A system of record that answered
    and found nothing changes nothing.
    """
    if any(source.authority_tier == _REGISTER_TIER for source in missing_sources(result)):
        return replace(result, decision=Decision.INCOMPLETE)
    return result


def missing_sources_warnings(result: SearchResult, tongue: Tongue = "en") -> list[str]:
    """Return one sentence for each missing source; sources with the same failure share a sentence."""
    alone = [_sentence([source], tongue) for source in missing_sources(result) if source.error is None]
    return alone + [_sentence(group, tongue) for group in result.failed_alike]


def missing_knowledge(result: SearchResult, tongue: Tongue = "en") -> MissingKnowledge | None:
    """Return the notice placed before the passages of an incomplete search; None if the search is complete."""
    if result.status is Status.COMPLETE:
        return None
    missing = missing_sources(result)
    if missing:
        return of_missing_sources(missing, "passages", tongue)
    return MissingKnowledge(reader_text("ranking_title", tongue), reader_text("ranking", tongue))


def of_missing_sources(
    missing: Sequence[SourceStatus], where: Literal["passages", "records"], tongue: Tongue = "en"
) -> MissingKnowledge:
    """Return a title and text about missing sources.

    Args:
        where: the output from which they are missing.
    """
    titles = [source.title or source.source_id for source in missing]
    names = reader_text("between_names", tongue).join(titles) or reader_text("part_of_search", tongue)
    title = reader_text("sources_missing", tongue, names=names)
    return MissingKnowledge(title, reader_text(f"missing_from_{where}", tongue, title=title))


def subject_missing(tongue: Tongue) -> MissingKnowledge:
    """Return the notice for a question without a subject of its own, with an example of how to ask."""
    example = reader_text("subject_example", tongue)
    return MissingKnowledge(
        reader_text("subject_missing_title", tongue), reader_text("subject_missing", tongue, example=example)
    )


def without_passages(result: SearchResult) -> SearchResult:
    """Return the result without its chunks and with the decision `incomplete`, for a question without a subject.

    What was found for it is a guess. The fates still say what the search returned.
    """
    return replace(result, decision=Decision.INCOMPLETE, chunks=())


def _sentence(sources: Sequence[SourceStatus], tongue: Tongue) -> str:
    """Return what sources did; the reason is the error's own, in English."""
    first = sources[0]
    did = "did_not_answer" if first.state == "failed" else "answered_in_part"
    named = [
        reader_text("named_tier", tongue, name=source.title or source.source_id, tier=str(source.authority_tier))
        for source in sources
    ]
    message = str(first.error["message"]) if first.error else reader_text("no_reason", tongue)
    reason = str(message if len(sources) == 1 else first.problem)
    return reader_text(did, tongue, names=reader_text("between_names", tongue).join(named), reason=reason)


_NAMESPACE: Final = UUID("6f1c2c0e-6a0b-5d5e-9a55-2d9b6f1f7c11")
SCORE_STEP: Final = 1e-6
_LONGEST_KEPT: Final = 500
BELOW_NOTICE: Final = 1 - SCORE_STEP
"""The highest score of a passage below a notice."""

NOTICE_DATASET: Final = str(uuid5(_NAMESPACE, "notice"))
"""The dataset id of a notice, which no dataset has."""


def node_records(
    result: SearchResult, *, notices: bool = True, tongue: Tongue = "en", first: MissingKnowledge | None = None
) -> list[dict[str, Any]]:
    """Return the chunks as the node's `result`, in our order; empty if the question is out of scope.

    Untrusted text, and text that looks like instructions, is fenced as in a context, because an LLM node reads
    `content` unchanged.

    Args:
        notices: whether to begin with a passage about missing sources if the search is incomplete.
        first: the notice to begin with instead.
    """
    notice = (first or missing_knowledge(result, tongue)) if notices else None
    records = [] if notice is None else [_notice_record(notice, result)]
    if result.decision is Decision.OUT_OF_SCOPE:
        return records
    titles = {source.source_id: source.title or source.source_id for source in result.sources}
    scored = zip(result.chunks, node_scores(result, most=BELOW_NOTICE if records else 1.0), strict=True)
    return records + [
        _record(chunk, score, place, titles.get(chunk.source_id, chunk.source_id), result.search_id)
        for place, (chunk, score) in enumerate(scored, start=len(records) + 1)
    ]


def node_scores(result: SearchResult, *, most: float = 1.0) -> list[float]:
    """Return one score in (0, `most`] per chunk, strictly decreasing because Dify sorts by score.

    score = final / (relevance weight + authority weight * tier 1's boost), which is final / 0.76 by default; if that
    does not fall, a millionth less than the previous score.
    """
    values = result.settings.values
    best = values.relevance_weight + values.authority_weight * values.authority_boosts.of(1)
    scores: list[float] = []
    for left, chunk in zip(range(len(result.chunks), 0, -1), result.chunks, strict=True):
        score = max(chunk.final / best if best else 0.0, left * SCORE_STEP)
        scores.append(round(min(score, scores[-1] - SCORE_STEP if scores else most), 6))
    return scores


def document_metadata(chunk: RankedChunk, search_id: str) -> dict[str, Any]:
    """Return the chunk's metadata, made safe for a model."""
    return {name: inert_values(value) for name, value in chunk.to_metadata(search_id).items()}


def chunk_for_model(chunk: RankedChunk, search_id: str) -> dict[str, Any]:
    """Return the published form of a chunk made safe for a model, because an agent gets a tool's JSON unchanged."""
    published = {name: value for name, value in chunk.to_dict().items() if name != "content"}
    return {"content": content_for_model(chunk, search_id), **inert_values(published)}


def inert_values(value: Any) -> Any:
    """Return a JSON value with its texts made inert; field names are unchanged."""
    if isinstance(value, str):
        return inert_line(value) if len(value) <= _LONGEST_KEPT else inert(value)
    if isinstance(value, Mapping):
        return {name: inert_values(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [inert_values(item) for item in value]
    return value


def content_for_model(chunk: RankedChunk, search_id: str) -> str:
    """Return the text, fenced if it is untrusted or looks like an injection."""
    suspected = INJECTION_SUSPECTED in chunk.flags
    if chunk.trust_class is TrustClass.TRUSTED and not suspected:
        return chunk.content
    return quoted(chunk.content, fence_nonce(search_id), suspected=suspected)


def title_for_model(chunk: RankedChunk, source_title: str) -> str:
    """Return the document's title, else its id, else its source's title, made inert."""
    return inert_line(chunk.chunk.title or chunk.chunk.document_id or source_title)


def fence_nonce(search_id: str) -> str:
    """Return the nonce of a search's fences, which no document can know beforehand."""
    return content_sha256(search_id)[:16]


def dataset_uuid(source_id: str) -> str:
    """Return a stable UUID for a source that has no dataset in Dify."""
    return str(uuid5(_NAMESPACE, f"source:{source_id}"))


def _record(chunk: RankedChunk, score: float, place: int, source_title: str, search_id: str) -> dict[str, Any]:
    own = chunk.chunk
    title = title_for_model(chunk, source_title)
    return {
        "content": content_for_model(chunk, search_id),
        "title": title,
        "files": None,
        "summary": None,
        "metadata": {
            "_source": "knowledge",
            "dataset_id": own.dataset_id or dataset_uuid(chunk.source_id),
            "dataset_name": source_title,
            "document_id": own.document_id or title,
            "document_name": title,
            "data_source_type": "upload_file" if own.dataset_id else "external",
            "segment_id": _segment_id(chunk),
            "retriever_from": "workflow",
            "score": score,
            "child_chunks": [],
            "segment_hit_count": 0,  # Dify does not count hits of its API
            "segment_word_count": len(chunk.content),
            "segment_position": None if own.position is None else own.position + 1,
            "segment_index_node_hash": content_sha256(chunk.content),
            "doc_metadata": document_metadata(chunk, search_id),
            "position": place,
        },
    }


def _notice_record(notice: MissingKnowledge, result: SearchResult) -> dict[str, Any]:
    """Return a notice as a passage, so that citations show it too."""
    return {
        "content": notice.content,
        "title": notice.title,
        "files": None,
        "summary": None,
        "metadata": {
            "_source": "knowledge",
            "dataset_id": NOTICE_DATASET,
            "dataset_name": notice.title,
            "document_id": notice.title,
            "document_name": notice.title,
            "data_source_type": "external",
            "segment_id": str(uuid5(_NAMESPACE, f"notice:{result.search_id}")),
            "retriever_from": "workflow",
            "score": 1.0,
            "child_chunks": [],
            "segment_hit_count": 0,
            "segment_word_count": len(notice.content),
            "segment_position": None,
            "segment_index_node_hash": content_sha256(notice.content),
            "doc_metadata": notice_metadata([source.source_id for source in missing_sources(result)], result.search_id),
            "position": 1,
        },
    }


def notice_metadata(source_ids: list[str], search_id: str) -> dict[str, Any]:
    """Return a notice's metadata: the missing sources, for programs."""
    return {
        "notice": True,
        "search_id": search_id,
        "sources": source_ids,
        "relevance": None,
        "absolute_relevance": None,
        "final": None,
    }


def _segment_id(chunk: RankedChunk) -> str:
    """Return Dify's id, or a UUID derived from the chunk's id, because Dify looks it up in a column of UUIDs."""
    try:
        return str(UUID(chunk.chunk_id))
    except ValueError:
        return str(uuid5(_NAMESPACE, f"chunk:{chunk.source_id}\n{chunk.chunk_id}"))
