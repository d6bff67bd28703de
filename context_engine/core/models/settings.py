"""The settings of the engine, in groups by lifetime, and the origin of each value in one search."""

# Annotations are values here: as text, pydantic would evaluate each again for every class that inherits it.
from collections.abc import Collection, Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field

from context_engine.core.models.deployment_settings import (
    AnswerSettings,
    AuditSettings,
    CacheSettings,
    CostSettings,
    DomainCostLimits,
    EventSettings,
    Flag,
    JobSettings,
    KeptRecords,
    MaskedOutputs,
    PrivacySettings,
    QualitySettings,
    ServerSettings,
    SettingsGroup,
    TelemetrySettings,
)
from context_engine.core.models.graph import GraphSettings
from context_engine.core.models.learnt import LearntBlend
from context_engine.core.models.question_settings import QuestionSettings, Seconds, Unit

TopK = Annotated[int, Field(strict=True, ge=1, le=1000)]
Weight = Annotated[float, Field(strict=True, ge=0.0, le=10.0, allow_inf_nan=False)]
CacheSeconds = Annotated[float, Field(strict=True, ge=0.0, le=86_400.0, allow_inf_nan=False)]
G = TypeVar("G", bound="SettingsGroup")
_TOLERANCE: Final = 1e-9  # 0.6 + 0.4 may exceed 1 by a rounding error


class AuthorityBoosts(BaseModel):
    """The boost of each tier, [0, 1], never increasing from tier 1 to tier 5."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    tier_1: Unit = 0.40
    tier_2: Unit = 0.30
    tier_3: Unit = 0.20
    tier_4: Unit = 0.10
    tier_5: Unit = 0.00

    def of(self, tier: int) -> float:
        """Return the boost of a tier, 1-5."""
        return (self.tier_1, self.tier_2, self.tier_3, self.tier_4, self.tier_5)[tier - 1]

    def model_post_init(self, _context: Any) -> None:
        """Refuse boosts that would rank a lower tier above a higher one."""
        boosts = [self.of(tier) for tier in range(1, 6)]
        if boosts != sorted(boosts, reverse=True):
            raise ValueError(f"authority boosts must not rise from tier 1 to tier 5, got {boosts}")


class RankingSettings(SettingsGroup):
    """Settings of stage 2 only: a stored result can be ranked again under others without calling a source or model."""

    stage2_top_k: TopK = Field(8, description="Chunks returned.")
    min_relevance_score: Unit = Field(
        0.15, description="Lowest absolute relevance returned, tested before boost and reranker."
    )
    min_chunks: Annotated[int, Field(strict=True, ge=0, le=1000)] = Field(
        0, description="Return at least this many, if necessary the best below the threshold, marked below_threshold."
    )
    scope_threshold: Unit | Literal["auto"] | None = Field(
        "auto",
        description="A question whose best absolute relevance is lower is out of scope; auto: calibrated for each "
        "knowledge base when it is written, else a measured default; null: min_relevance_score.",
    )
    similarity_threshold: Annotated[float, Field(strict=True, ge=-1.0, le=1.0, allow_inf_nan=False)] | None = Field(
        None,
        description="Lowest score of the kind similarity_kind; candidates without it pass, marked. If a question is "
        "little more than codes, the embedded base's weighted score is (score + 1) / 2 for texts that contain them, "
        "score / 2 for others, and the rrf of the former is raised.",
    )
    similarity_kind: Literal["cosine", "weighted", "rerank", "relevance", "bm25", "fulltext", "rrf"] = Field(
        "cosine", description="Kind of score that similarity_threshold is for."
    )
    dedup_threshold: Annotated[float, Field(strict=True, gt=0.0, le=1.0, allow_inf_nan=False)] = Field(
        0.85, description="Word-set Jaccard from which two texts are near-duplicates."
    )
    dedup_method: Literal["near", "exact", "off"] = Field("near", description="Near-duplicates, equal text only, none.")
    relevance_weight: Unit = Field(
        0.6, description="Weight of relevance in the final score; with authority_weight at most 1."
    )
    authority_weight: Unit = Field(
        0.4, description="Weight of the authority boost in the final score; with relevance_weight at most 1."
    )
    authority_boosts: AuthorityBoosts = Field(
        default_factory=lambda: AuthorityBoosts(), description="Boost of each tier."
    )
    reranking_enabled: Flag = Field(True, description="Run the model reranker, if one is configured.")
    rerank_weight: Unit = Field(0.5, description="Share of stage-1 relevance in the blend with the reranker.")
    learnt_blend: LearntBlend | None = Field(
        None,
        description="Weights of a candidate's scores, learnt on the domain's own judged questions by "
        "'context-engine eval tune --blend'; they take the place of rerank_weight. null: none.",
    )
    max_per_document: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = Field(
        None, description="Most chunks returned of one document; null: no limit."
    )
    mmr_lambda: Unit | None = Field(
        None, description="Maximal marginal relevance: 1 is the ranking alone, less prefers diversity; null: off."
    )
    recency_weight: Annotated[float, Field(strict=True, ge=0.0, le=0.2, allow_inf_nan=False)] = Field(
        0.0,
        description="Newer first where relevance is about equal: the most that relevance loses with age, half of it in "
        "two years; 0: off.",
    )
    expired: Literal["flag", "demote", "refuse"] = Field("flag", description="What happens to content past its TTL.")

    def model_post_init(self, _context: Any) -> None:
        """Refuse weights that add up to more than 1: a final score could exceed 1."""
        problem = self.weights_problem(self.model_fields_set)
        if problem:
            raise ValueError(problem)

    def weights_problem(self, keys: Collection[str]) -> str | None:
        """Return the problem of the two weights together, or None.

        Args:
            keys: those that were set; if one of the two was not, the advice is to set it too.
        """
        weights = {"relevance_weight": self.relevance_weight, "authority_weight": self.authority_weight}
        if sum(weights.values()) <= 1.0 + _TOLERANCE:
            return None
        both = " and ".join(f"{key} {value:g}" for key, value in weights.items())
        others = [key for key in weights if key not in keys]
        taken = sum(weights[key] for key in weights if key not in others)
        remedy = f"set {others[0]} to {1.0 - taken:g} or less too" if len(others) == 1 else "lower one of them"
        return f"{both} add up to more than 1: {remedy}"


class SearchSettings(QuestionSettings, GraphSettings, RankingSettings):
    """Settings that each search may override; none of them opens a connection or writes a file."""

    stage1_top_k: TopK = Field(40, description="Candidates requested from each source.")
    sources: Annotated[tuple[str, ...] | None, Field(strict=False)] = Field(
        None, description="Only these sources of the domain, by id or namespace; null: all of them."
    )
    strict_thresholds: Flag = Field(
        False, description="Refuse a threshold for a kind of score that some source does not return."
    )
    exact_first: Flag = Field(True, description="Chunks with the quoted phrase or the code of the question come first.")
    rerank_by: str | None = Field(
        None, description="Name of the reranker in `rerankers` to use; null: the one in `reranker`."
    )
    rerank_top_n: TopK | None = Field(
        None, description="How many of the best by stage 1 are reranked; they stay above the rest; null: all."
    )
    deadline_s: Seconds = Field(20.0, description="Seconds for the whole search.")
    source_timeout_s: Seconds = Field(10.0, description="Seconds for each source.")
    soft_deadline_s: Seconds | None = Field(
        None,
        description="Seconds after which late sources are not waited for, if the others gave stage2_top_k candidates; "
        "they are named. Null: every source has source_timeout_s.",
    )
    rerank_timeout_s: Seconds = Field(
        10.0, description="Seconds for the reranker, at most the rest of deadline_s; then the order of stage 1 is kept."
    )
    context_max_tokens: Annotated[int, Field(strict=True, ge=64, le=1_000_000)] = Field(
        6000, description="Token budget of the context text."
    )
    context_untrusted_share: Unit = Field(
        0.25,
        description="Share of the budget that untrusted passages, and those that read like instructions, may use "
        "together.",
    )
    cache_ttl_s: CacheSeconds = Field(
        0.0, description="Seconds for which a complete answer is given again to equal searches; 0: never."
    )
    cache_unversioned_ttl_s: CacheSeconds = Field(
        0.0,
        description="The same, at most, for answers with a source that cannot tell whether it has changed, such as "
        "Dify; 0: never.",
    )


class IndexSettings(SettingsGroup):
    """How documents are cut into chunks; a change takes effect when they are ingested again."""

    max_chunk_tokens: Annotated[int, Field(strict=True, ge=16, le=8192)] = Field(
        512,
        description="Most tokens of a chunk; if set, it limits chunking profiles too, which otherwise keep their size.",
    )
    token_counter: Annotated[str, Field(pattern=r"^(approx|(tiktoken|tokenizers):\S.*)$")] = Field(
        "approx",
        description="What counts the tokens of chunks: approx, tiktoken:ENCODING or its file, tokenizers:FOLDER.",
    )


class LimitSettings(SettingsGroup):
    """Limits that protect the process and the sources; the same for all callers."""

    query_max_chars: Annotated[int, Field(strict=True, ge=16, le=10_000)] = Field(
        4000, description="Most characters of a query; a longer one is cut, with a notice."
    )
    source_concurrency: Annotated[int, Field(strict=True, ge=1, le=256)] = Field(
        64,
        description="Parallel calls to one source; further calls are answered as busy. In the embedded base each call "
        "holds two open files.",
    )


class VectorSettings(SettingsGroup):
    """How the embedded base keeps vectors; a change takes effect with `kb rebuild`."""

    vector_form: Literal["float32", "int8"] = Field(
        "float32", description="How vectors are kept, on disk and in memory: 32-bit floats, or a byte for each number."
    )
    vector_dimensions: Annotated[int, Field(strict=True, ge=8, le=65_536)] | None = Field(
        None,
        description="Keep only this many first numbers of a vector, for models trained for it (matryoshka); null: all.",
    )


class ScoringSettings(SettingsGroup):
    """How the embedded base scores: the weights of its parts, and how text and vectors become one ranking."""

    merge_method: Literal["weighted", "rrf", "rrf_rerank"] = Field(
        "weighted",
        description="How text and vectors become one ranking: the sum of their scores, or of reciprocal ranks; "
        "rrf_rerank: ranks, and the reranker after them for questions in English.",
    )
    keyword_weight: Unit = Field(0.5, description="Weight of the text score in the weighted merge.")
    vector_weight: Unit = Field(0.5, description="Weight of the cosine in the weighted merge.")
    cosine_floor: Annotated[float, Field(strict=True, ge=0.0, lt=1.0)] | None = Field(
        None,
        description="Cosine that counts as 0 in the weighted merge; 1 stays 1. null: 0.7 for an e5 model, whose "
        "cosines are all about that high, 0 for any other.",
    )
    rrf_k: Annotated[int, Field(strict=True, ge=0, le=10_000)] = Field(60, description="k of reciprocal rank fusion.")
    pairs_weight: Weight = Field(0.5, description="Text score: weight of pairs of neighbouring words.")
    head_weight: Weight = Field(0.2, description="Text score: weight of titles, headings and metadata.")
    synonym_weight: Unit = Field(0.35, description="Text score: weight of English synonyms (keep: retain); 0: none.")
    section_weight: Weight = Field(0.2, description="Text score: weight of the whole section that a chunk is in.")
    sibling_weight: Weight = Field(0.4, description="Text score: weight of the best candidate in the same section.")
    neighbour_weight: Weight = Field(0.0, description="Text score: weight of the chunks before and after.")
    title_boost: Weight = Field(
        0.0,
        description="Added if title and headings contain the words of the query; the sum is divided by 1 + both "
        "boosts.",
    )
    definition_boost: Weight = Field(0.0, description="Added if a chunk defines a term of the query.")
    adapter: Annotated[str, Field(strict=True, min_length=1)] = Field(
        "auto",
        description="Adapter for comparing the model's vectors: auto: the domain's adapter in force "
        "('kb adapter use'), off: none, or the id of a kept one.",
    )


class ModelSettings(VectorSettings, ScoringSettings):
    """The models of an engine and the scoring of its embedded base; the same for all searches: scores must compare."""

    embedder: str | None = Field(None, description="Name of the embedder; null: the embedded base searches text only.")
    embedder_options: Mapping[str, Any] = Field(
        default_factory=dict, description="The embedder's own options, e.g. its model or connection."
    )
    reranker: str = Field("noop", description="Name of the reranker; 'noop': none.")
    reranker_options: Mapping[str, Any] = Field(
        default_factory=dict, description="The reranker's own options, e.g. its model or connection."
    )
    rerankers: Mapping[str, Mapping[str, Any]] = Field(
        default_factory=dict,
        description='More rerankers under names of your own, for `rerank_by`: {"deep": {"reranker": "cross_encoder", '
        '"options": {}}}.',
    )
    query_refiner: str | None = Field(None, description="Name of the query refiner; null: none.")
    query_refiner_options: Mapping[str, Any] = Field(
        default_factory=dict, description="The refiner's own options, e.g. its connection and model."
    )
    chat_model: str | None = Field(None, description="Name of the chat model that writes answers; null: none.")
    chat_model_options: Mapping[str, Any] = Field(
        default_factory=dict, description="The chat model's own options, e.g. its connection, model and max_tokens."
    )
    entailment: str | None = Field(
        None, description="Name of a model that also judges the sentences of a chat model; null: the rules alone."
    )
    entailment_options: Mapping[str, Any] = Field(default_factory=dict, description="That model's own options.")


class DomainSettings(
    AnswerSettings, DomainCostLimits, MaskedOutputs, KeptRecords, LimitSettings, IndexSettings, SearchSettings
):
    """The settings that the manifest of a domain may contain."""


class Settings(
    ServerSettings,
    CacheSettings,
    JobSettings,
    QualitySettings,
    EventSettings,
    TelemetrySettings,
    AuditSettings,
    PrivacySettings,
    CostSettings,
    ModelSettings,
    DomainSettings,
):
    """Every setting of the pipeline with its default; keys are those of `rag-pipeline.json`."""

    def group(self, kind: type[G]) -> G:
        """Return the part of these settings that is one group.

        >>> Settings(stage2_top_k=5, reranker="jina").group(ModelSettings).reranker
        'jina'
        """
        return cast(G, kind.model_construct(**{key: getattr(self, key) for key in kind.model_fields}))


GROUPS: Final[Mapping[str, type[SettingsGroup]]] = MappingProxyType(
    {
        "search": SearchSettings,
        "index": IndexSettings,
        "limits": LimitSettings,
        "models": ModelSettings,
        "answers": AnswerSettings,
        "cost": CostSettings,
        "privacy": PrivacySettings,
        "audit": AuditSettings,
        "events": EventSettings,
        "quality": QualitySettings,
        "jobs": JobSettings,
        "cache": CacheSettings,
        "telemetry": TelemetrySettings,
        "server": ServerSettings,
    }
)
"""The groups by their names in `rag-pipeline.json`; each key of `Settings` is in one."""

_GROUP_OF: Final = {key: name for name, group in GROUPS.items() for key in group.model_fields}


def group_of(key: str) -> str:
    """Return the group of a key of `Settings`."""
    return _GROUP_OF[key]


_SAME_FOR_ALL: Final = "is the same for all callers"
_LIFETIMES: Final = {
    "search": "is a setting of each search",
    "index": "takes effect when documents are ingested, not at a search",
    "limits": "is a limit for all searches",
    "models": "is the same for all searches of an engine",
    "server": "is a setting of the service",
}


def lifetime(key: str) -> str:
    """Return the scope of a key of `Settings` as a clause for messages: "is the same for all callers"."""
    return _LIFETIMES.get(group_of(key), _SAME_FOR_ALL)


class EffectiveSettings(BaseModel):
    """The settings of a search, and the origin of each value ("call", "file config/rag-pipeline.json" ...)."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    values: Settings = Field(default_factory=lambda: Settings())
    origins: Mapping[str, str] = Field(default_factory=dict)

    @classmethod
    @cache
    def of_defaults(cls) -> "EffectiveSettings":
        """Return the defaults as they are declared, made once: a validator of all settings takes long to build."""
        return cls.model_construct(values=Settings.model_construct(), origins={})

    @property
    def chunk_limit(self) -> int | None:
        """`max_chunk_tokens` if it was set, else None.

        The default limits only the rows of the chunking table; profiles keep their size.
        """
        return self.values.max_chunk_tokens if "max_chunk_tokens" in self.origins else None

    def to_dict(self) -> dict[str, Any]:
        """Return {key: {"value", "origin"}} in declaration order; text from a variable is shown as its expression."""
        values = self.values.model_dump(mode="json")
        for key in values.keys() & self.origins.keys():
            if isinstance(values[key], str | dict):
                values[key] = as_written(getattr(self.values, key), values[key])
        return {key: {"value": value, "origin": self.origins.get(key, "default")} for key, value in values.items()}


def as_written(value: Any, plain: Any) -> Any:
    """Return `plain`, the JSON form of `value`, with every text from a variable replaced by its expression."""
    if isinstance(plain, str):
        return getattr(value, "written", plain)
    if isinstance(plain, dict) and isinstance(value, Mapping):
        return {key: as_written(value.get(key), element) for key, element in plain.items()}
    if isinstance(plain, list) and isinstance(value, list | tuple):
        return [as_written(element, other) for element, other in zip(value, plain, strict=True)]
    return plain
