"""The tool `rerank`: passages of another node ranked by the engine, or by a rerank model of Dify."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any, Final, NamedTuple

from context_engine.apps.dify.dify_json import plain_text
from context_engine.apps.dify.form import choice_field, context_form, query_field, text_field, whole_fields
from context_engine.apps.dify.node_input import MOST_PASSAGES, Passages, read_missing, read_passages
from context_engine.core.context.render import Form
from context_engine.core.engine import Engine
from context_engine.core.models import (
    Caller,
    Chunk,
    DomainSpec,
    EffectiveSettings,
    Notice,
    Principal,
    Registry,
    ScoreKind,
    SearchRequest,
    SearchResult,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
)
from context_engine.core.ranking.relevance import unit_scores
from context_engine.errors import InvalidRequest, RerankerError, SourceUnavailable
from context_engine.service.deployment import Deployment
from context_engine.settings import Setting, SettingsResolver
from context_engine.settings.layers import with_layer


class ModelChoice(NamedTuple):
    """The value of a model selector, e.g. "langgenius/cohere/cohere" and "rerank-v3"."""

    provider: str
    model: str


Ask = Callable[[ModelChoice, str, Sequence[str]], Iterable[tuple[int, float]]]
"""(model, query, texts) -> (index of the text, score) in any order."""


def read_model(value: Any, *, field: str = "rerank_model", kind: str = "rerank") -> ModelChoice | None:
    """Return the chosen model, or None.

    Args:
        field: its name in the form.
        kind: of model.

    Raises:
        InvalidRequest: not the value of a model selector.
    """
    if not value:
        return None
    fields = value if isinstance(value, Mapping) else {}
    provider, model = fields.get("provider"), fields.get("model")
    if not isinstance(provider, str) or not isinstance(model, str) or not (provider and model):
        raise InvalidRequest(f"{field} must name a provider and a model: choose one of Dify's {kind} models")
    if plain_text(provider + model) != provider + model:
        raise InvalidRequest(f"{field} holds binary data (lone surrogates): send UTF-8 text")
    return ModelChoice(provider, model)


class ModelReranker:
    """Calls a rerank model of Dify once for all candidates.

    If any score is outside [0, 1], all are treated as logits and go through the logistic function.

    """

    def __init__(self, model: ModelChoice, ask: Ask) -> None:
        self.name = model.model
        self._model, self._ask = model, ask

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float]:
        """Return one score in [0, 1] per chunk.

        Raises:
            RerankerError: the call failed, or the model did not score every chunk.
        """
        problem = ""
        scores: dict[int, float] = {}
        try:
            scores = {int(index): float(score) for index, score in self._ask(self._model, query, _texts(chunks))}
        except Exception as error:  # noqa: BLE001  any error of the model's plugin; the search continues
            problem = f"{self.name} could not be called ({type(error).__name__}): check the model in Dify's settings"
        if not problem and (sorted(scores) != list(range(len(chunks))) or not all(map(isfinite, scores.values()))):
            problem = f"{self.name} scored {len(scores)} of {len(chunks)} passages"
        if problem:
            raise RerankerError(problem)
        return unit_scores(self.name, [scores[index] for index in range(len(chunks))])


def _texts(chunks: Sequence[Chunk]) -> list[str]:
    return [chunk.content for chunk in chunks]


_ERROR_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")


def model_scores(fields: Mapping[str, Any], ask: Ask) -> dict[str, Any] | None:
    """Return the scores of a form's passages by the SHA-256 of their texts, or None if no model is chosen.

    If the model fails, `problem` is the name of the error, and the server ranks without the model and reports that.

    Args:
        fields: of the form: query, passages, rerank_model.

    Raises:
        InvalidRequest: invalid passages or model.
    """
    model = read_model(fields.get("rerank_model"))
    if model is None:
        return None
    passages = read_passages(fields.get("passages"), Registry(), None, trust_metadata=False)
    texts = list(dict.fromkeys(chunk.content for _, chunks in passages.sources for chunk in chunks))
    try:
        pairs = [(int(index), float(score)) for index, score in ask(model, str(fields.get("query") or ""), texts)]
        return {"scores": {_digest(texts[index]): score for index, score in pairs if 0 <= index < len(texts)}}
    except Exception as error:  # noqa: BLE001  any error of the model's plugin; the ranking continues
        name = type(error).__name__
    return {"scores": {}, "problem": name}


def asked_beforehand(scores: Mapping[str, float], problem: str | None) -> Ask:
    """Return a stand-in for the model that answers with its earlier scores.

    Args:
        scores: by the SHA-256 of the text.
        problem: the name of the model's error, or None.
    """

    def ask(_model: ModelChoice, _query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
        if problem:
            raise type(problem if _ERROR_NAME.fullmatch(problem) else "ModelFailed", (Exception,), {})
        digests = [_digest(text) for text in texts]
        return [(place, scores[digest]) for place, digest in enumerate(digests) if digest in scores]

    return ask


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_RERANK: Final = "rerank"
_MISSING: Final = "it did not answer the search that these passages come from"


class _PassageSource:
    """A source that returns passages of another node."""

    score_kinds = frozenset(ScoreKind)

    def __init__(self, source_id: str, chunks: Sequence[Chunk], notices: tuple[Notice, ...], *, missing: bool) -> None:
        self.source_id = source_id
        failure = SourceUnavailable(_MISSING, source_id=source_id)
        self._failure = failure if missing and not chunks else None
        self._answer = SourceAnswer(chunks=chunks, notes=notices, failures=(failure,) if missing else ())

    def search(self, query: SourceQuery) -> SourceAnswer:
        """Return the passages.

        Raises:
            SourceUnavailable: a notice among the passages reports that the source did not answer.
        """
        if self._failure is not None:
            raise self._failure
        return self._answer

    def close(self) -> None:
        """Do nothing."""


def rerank_passages(
    fields: Mapping[str, Any],
    deployment: Deployment,
    caller: Caller,
    principal: Principal,
    ask: Ask,
    *,
    request_id: str | None = None,
) -> tuple[SearchResult, Form]:
    """Rank the passages of the form's fields: dedup, filter, rerank, authority, provenance.

    All passages are ranked: the node that found them decided who may see them. Passages of a source that the principal
    may not know count as those of an unregistered source.

    Args:
        fields: query, passages, domain_name or domain, rerank_model, unregistered, top_k, context_budget, context_form.
        deployment: its manifests state the tier of each dataset.
        ask: calls a rerank model that is set up in Dify.
        request_id: of the request to a server.

    Raises:
        InvalidRequest: an invalid field.
        UnknownDomain: the domain is not registered.
        AuditUnavailable: the ranking could not be recorded and so must not be returned.
    """
    known = deployment.known_to(principal)
    name = text_field(fields, "domain_name") or text_field(fields, "domain")
    trusting = choice_field(fields, "unregistered", ("general_web", "metadata"), "general_web") == "metadata"
    passages = read_passages(fields.get("passages"), known, name, trust_metadata=trusting)
    missing = {spec.id: spec for spec in read_missing(fields.get("passages"), known, name)}
    passages = _with_missing(passages, missing)
    model = read_model(fields.get("rerank_model"))
    reranker = None if model is None else ModelReranker(model, ask)
    overrides: dict[str, Any] = {"stage1_top_k": MOST_PASSAGES, **whole_fields(fields)}
    overrides["sources"] = tuple(spec.id for spec, _ in passages.sources)
    domain = _domain(known, name, passages)
    request = SearchRequest(
        query=query_field(fields),
        domain=domain.domain,
        caller=caller,
        principal=principal,
        request_id=request_id,
        overrides=overrides,
    )
    sources = {
        spec.id: _PassageSource(spec.id, chunks, _notices(place, passages), missing=spec.id in missing)
        for place, (spec, chunks) in _placed(passages)
    }
    registry = known.model_copy(update={"domains": {domain.domain: domain}})
    form = context_form(fields)
    resolve = partial(_resolve, deployment.setup.resolver, reranker)
    with Engine(
        registry,
        lambda _domain, spec: sources[spec.id],
        resolve=resolve,
        reranker=reranker,
        mask=deployment.engine.mask,
        recorder=deployment.rankings,
    ) as engine:
        return engine.search(request), form


def _resolve(
    resolver: SettingsResolver, reranker: ModelReranker | None, domain: DomainSpec, request: SearchRequest
) -> EffectiveSettings:
    """Return the settings of a ranking; the form's rerank model is the only reranker, and is enabled."""
    settings = resolver.resolve(domain, request)
    if settings.values.rerank_by is not None:
        settings = with_layer(settings, {"rerank_by": Setting(None, "call")})
    if reranker is None:
        return settings
    return with_layer(
        settings, {"reranker": Setting(reranker.name, "call"), "reranking_enabled": Setting(True, "call")}
    )


def _with_missing(passages: Passages, missing: Mapping[str, SourceSpec]) -> Passages:
    """Return the passages with the sources that did not answer, unregistered ones last."""
    have = {spec.id for spec, _ in passages.sources}
    absent = tuple((spec, ()) for name, spec in missing.items() if name not in have)
    return passages._replace(sources=(*absent, *passages.sources))


def _domain(registry: Registry, name: str | None, passages: Passages) -> DomainSpec:
    """Return a domain of the passages' sources, with the settings of the chosen domain."""
    chosen = registry.domain(name) if name else None
    return DomainSpec.model_construct(
        version=1,
        domain=name or _RERANK,
        timezone=chosen.timezone if chosen else "UTC",
        sources=tuple(spec for spec, _ in passages.sources),
        settings=chosen.settings if chosen else {},
    )


def _placed(passages: Passages) -> Sequence[tuple[int, tuple[SourceSpec, tuple[Chunk, ...]]]]:
    return list(enumerate(passages.sources))


def _notices(place: int, passages: Passages) -> tuple[Notice, ...]:
    """Return all notices for the last source (the unregistered one if there is one), and none for other sources."""
    return passages.notices if place == len(passages.sources) - 1 else ()
