"""What a reader should know of an answer, as data: a code to act on, and a sentence to read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Self

from context_engine.core.models.chunk import NOTHING, json_value

__all__ = ["Notice", "NoticeCode", "about", "distinct", "messages"]


class NoticeCode(StrEnum):
    """The kinds of notice. A code keeps its meaning for ever; its sentence may be reworded at any time.

    Attributes:
        fields: the names that `detail` may hold.
    """

    fields: tuple[str, ...]

    def __new__(cls, code: str, meaning: str, fields: str = "") -> Self:
        """Return a code with its meaning as docstring; `fields` are parted by spaces."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.__doc__, member.fields = meaning, tuple(fields.split())
        return member

    # The query
    QUERY_SHORTENED = "query_shortened", "The query was cut to what can be searched for.", "characters given limit"
    QUERY_NOT_REFINED = "query_not_refined", "The query refiner failed: the query is searched as is.", "refiner problem"
    REFINEMENT_UNUSED = (
        "refinement_unused",
        "A refiner's wording lost codes or phrases: not used.",
        "refiner lost",
    )

    # A source's answer; the subject is the source
    SOURCE_NOTE = "source_note", "A source's own remark, in its own words."
    NOTICES_LEFT_OUT = "notices_left_out", "A source gave more notices than are kept.", "count"
    CHUNKS_REFUSED = "chunks_refused", "Chunks without text were refused.", "count"
    CHUNK_UNREADABLE = "chunk_unreadable", "A chunk could not be read and was left out.", "problem"
    FIELD_UNUSABLE = (
        "field_unusable",
        "A field's value cannot be used and counts as not known.",
        "chunk_id field metadata value problem",
    )
    SCORE_UNUSABLE = "score_unusable", "A score is no number of its kind and counts as absent.", "chunk_id kind value"
    TEXT_REPAIRED = "text_repaired", "Text of a chunk was not valid Unicode, or too long: repaired.", "chunk_id fields"
    METADATA_REPAIRED = (
        "metadata_repaired",
        "Metadata of a chunk was too large, too deep or not valid: repaired.",
        "chunk_id field change",
    )
    SUB_QUERIES_UNANSWERED = (
        "sub_queries_unanswered",
        "A source did not answer every part of the question.",
        "unanswered parts",
    )
    REFILL_FAILED = "refill_failed", "Asked for more candidates, a source failed: its first answer counts.", "problem"
    SOURCE_UNKNOWN = "source_unknown", "Nothing was ever ingested for the source into its embedded base."
    NO_SEARCH_TERMS = "no_search_terms", "The query holds no word that the embedded base can search for."
    NO_VECTORS = "no_vectors", "The embedded base holds no vectors of its embedder: it was searched by text alone."
    INDEX_LAG = "index_lag", "The index of the embedded base is behind what was written last."
    CHUNK_WITHOUT_TEXT = (
        "chunk_without_text",
        "A chunk holds no text, or pictures alone, and was left out.",
        "dataset_id chunk_id pictures",
    )
    DOCUMENT_UNFINISHED = (
        "document_unfinished",
        "A document is being written, or its writing was broken off: parts of it may be missing.",
        "dataset_id document_id",
    )
    LEG_NOT_ASKED = "leg_not_asked", "One of two searches was made: the budget of calls does not cover both."
    HYBRID_SEARCH_EMPTY = (
        "hybrid_search_empty",
        "A dataset's hybrid search gave nothing, its semantic search did: its reranker may be broken.",
        "dataset_id reranker",
    )
    DATASET_NOT_DESCRIBED = (
        "dataset_not_described",
        "Dify could not be asked how a dataset is indexed: what was known before, or the manifest, was used.",
        "dataset_id problem used",
    )
    STALE_ANSWER = "stale_answer", "An older answer was used where Dify gave none.", "dataset_id age_s problem"
    FILTER_IGNORED = "filter_ignored", "Dify did not keep to the filter: it was applied here.", "dataset_id"
    PASSAGES_UNREGISTERED = (
        "passages_unregistered",
        "Passages to rank are of no source in a manifest and count as general web, tier 5.",
        "origins",
    )

    # Ranking
    CHUNK_ID_REUSED = "chunk_id_reused", "A source gave one chunk id to several texts: all are kept.", "chunk_id texts"
    CLAIM_REFUSED = "claim_refused", "A document claims more authority than its manifest grants.", "chunk_id claimed"
    THRESHOLD_NOT_APPLICABLE = (
        "threshold_not_applicable",
        "Candidates without a score of the threshold's kind passed untested.",
        "count kind",
    )
    RERANK_FAILED = "rerank_failed", "The model reranker failed: the order is that without it.", "problem"
    REQUIRED_TIER_MISSING = "required_tier_missing", "A required tier gave nothing that is returned.", "tier"
    REQUIRED_SOURCE_MISSING = "required_source_missing", "A required source gave nothing that is returned."
    KEYWORDS_ONLY = "keywords_only", "Only sources searched by a few keywords of each chunk were asked."


class Notice(NamedTuple):
    """One thing a reader should know.

    Attributes:
        code: what kind of thing it is; programs decide by it, never by the message.
        subject: what it is about: a source id, a setting, a file, a domain; "" for the whole.
        message: a sentence for people.
        detail: the values in the message, by name; JSON values only.
    """

    code: NoticeCode
    subject: str
    message: str
    detail: Mapping[str, Any] = NOTHING

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {
            "code": str(self.code),
            "subject": self.subject,
            "message": self.message,
            "detail": json_value(self.detail),
        }


def messages(notices: Iterable[Notice]) -> tuple[str, ...]:
    """Return the sentences of notices, in their order."""
    return tuple(notice.message for notice in notices)


def about(subject: str, notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Return notices, those without a subject with this one."""
    return tuple(notice if notice.subject else notice._replace(subject=subject) for notice in notices)


def distinct(notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Return notices in their order, each once."""
    return tuple({json.dumps(notice.to_dict(), sort_keys=True, default=str): notice for notice in notices}.values())
