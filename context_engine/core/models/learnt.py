"""Values counted in or learnt from a knowledge base: scope threshold, word statistics, vector adapter, blend."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, NamedTuple, Protocol, Self, get_args

from pydantic import BaseModel, ConfigDict, Field

_ID_LENGTH: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeCalibration:
    """The absolute relevance from which a knowledge base can answer a question.

    It is valid for one domain, signal and embedder: with another of them the same question has another value.

    Attributes:
        threshold: the best absolute relevance below which a question is out of scope, [0, 1].
        strong: the absolute relevance from which a text is strong evidence, [threshold, 1].
        signal: version of the absolute relevance that was measured.
        model_id: of the embedder; "" if only words were compared.
        own: sentences and headings of the base that were used as questions.
        judged: questions with judged answers that were used.
        outside: off-topic questions that were used.
        chunks: the number of chunks in the domain's sources at that time.
        near_miss: the best evidence below which a question is a near miss, [0, inf); None if it was not measured.
    """

    threshold: float
    strong: float
    signal: str
    model_id: str = ""
    own: int = 0
    judged: int = 0
    outside: int = 0
    chunks: int = 0
    near_miss: float | None = None


class ScopeThreshold(NamedTuple):
    """The scope threshold that a search ran with.

    Attributes:
        value: the best absolute relevance below which a question is out of scope, [0, 1].
        origin: "calibrated" or "measured default" if the setting is `auto`; "" if the setting gives the number.
        weak_below: the absolute relevance below which a text is weak evidence, [0, 1].
        strong_from: the absolute relevance from which it is strong evidence, [weak_below, 1].
    """

    value: float
    origin: str
    weak_below: float
    strong_from: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TermStatistics:
    """Document frequencies of a question's terms in the collection that an answer comes from.

    The rarer a term is, the more informative is a text that contains it. A term missing from the whole collection is
    the strongest sign that the collection has no answer.

    Attributes:
        collection: the name of the counted collection; a collection shared by several sources is counted once.
        chunks: the number of chunks in the collection, >= 0.
        document_frequency: how many chunks contain each term in text or heading, [0, chunks]. Terms are stems and codes
            as in `core.text.term_weights`, of the question and its expansions; a missing term was not counted.
    """

    collection: str
    chunks: int
    document_frequency: Mapping[str, int] = field(default_factory=dict)

    def merged(self, other: Self) -> Self:
        """Return the statistics of two answers from one collection, to two questions or at two moments.

        The higher of two counts is kept, so that the order of the answers does not matter.
        """
        frequency = dict(self.document_frequency)
        for term, count in other.document_frequency.items():
            frequency[term] = max(count, frequency.get(term, 0))
        chunks = max(self.chunks, other.chunks)
        return type(self)(collection=self.collection, chunks=chunks, document_frequency=frequency)


class VectorAdapter(Protocol):
    """Two linear maps for the vectors of one model; the mapped vectors, scaled to unit length, are compared.

    Attributes:
        adapter_id: identifies the maps; adapters with equal ids have equal maps.
        query: float32 (dimension, dimension), applied to a question's vectors from the right.
        passage: the same shape, applied to a passage's vectors.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def adapter_id(self) -> str: ...

    @property
    def query(self) -> Any: ...

    @property
    def passage(self) -> Any: ...


def adapter_name(model_id: str, maps: bytes) -> str:
    """Return an adapter's id: the first 12 hexadecimal digits of the SHA-256 over the model's name and its maps."""
    return sha256(model_id.encode("utf-8", "surrogatepass") + b"\0" + maps).hexdigest()[:_ID_LENGTH]


def scorer_name(scorer: str, adapter_id: str | None) -> str:
    """Return the scorer name of a model or reranker with an adapter, or without one (None).

    >>> scorer_name("max_sim", "0f3a"), scorer_name("max_sim", None)
    ('max_sim+0f3a', 'max_sim')
    """
    return scorer if adapter_id is None else f"{scorer}+{adapter_id}"


BlendFeature = Literal[
    "stage1",
    "stage1_rank",
    "text",
    "text_rank",
    "coverage",
    "cosine",
    "cosine_rank",
    "reranker",
    "reranker_rank",
    "document",
    "document_best",
    "length",
    "length_squared",
]
"""The features of a blend, as computed by `ranking.learnt_blend.features`."""

BLEND_FEATURES: Final[tuple[BlendFeature, ...]] = get_args(BlendFeature)
LEAST_DEVIATION: Final = 1e-6
"""A feature with a smaller standard deviation over the candidates is ignored."""

_LARGEST: Final = 1e6
Moderate = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST, allow_inf_nan=False)]
"""Bound that keeps the sum of all terms finite."""


class BlendTerm(BaseModel):
    """A weighted feature: it adds weight * (value - mean) / deviation.

    Attributes:
        weight: of the standardised value.
        mean, deviation: of the feature over the candidates of the training questions.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    weight: Moderate
    mean: Moderate
    deviation: Annotated[float, Field(ge=LEAST_DEVIATION, allow_inf_nan=False)]


class LearntBlend(BaseModel):
    """Weights of a candidate's scores, and the scorers they are valid for: other scorers have other scales.

    Attributes:
        measured_by: the kind of score that measured stage 1's relevance ("weighted", "bm25", "lexical" ...).
        cosine: the scorer of the cosine: a model with its adapter, if any; None if no term uses it.
        reranker: the model reranker, as `blending.reranker_id` names it; None if no term uses it.
        evidence: the training questions and the gain on other questions; for people only.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    measured_by: str
    cosine: str | None = None
    reranker: str | None = None
    terms: Annotated[Mapping[BlendFeature, BlendTerm], Field(min_length=1)]
    evidence: Mapping[str, Any] = Field(default_factory=dict)

    def model_post_init(self, _context: Any) -> None:
        """Refuse a term whose scorer is not named, a scorer without a term, and evidence that is not JSON."""
        try:
            json.dumps(self.evidence, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"evidence is not JSON: {error}") from None
        for name, scorer in (("cosine", self.cosine), ("reranker", self.reranker)):
            if (scorer is not None) != any(term in self.terms for term in (name, f"{name}_rank")):
                raise ValueError(
                    f"a term for {name!r} or '{name}_rank' and {name!r}, the name of its scorer, belong together"
                )
