"""Passages that another node has found, ranked by the engine's second stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from context_engine.apps.dify.fields import choice_field, query_field, text_field
from context_engine.apps.dify.form import context_form, whole_fields
from context_engine.apps.dify.model_reranker import Ask, ModelReranker, read_model
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
from context_engine.errors import SourceUnavailable
from context_engine.service.deployment import Deployment
from context_engine.settings import Setting, SettingsResolver
from context_engine.settings.layers import with_layer

_NAME: Final = "rerank"
_MISSING: Final = "it did not answer the search that these passages come from"


class _Given:
    """A source that answers with passages it was given; a `Source`."""

    score_kinds = frozenset(ScoreKind)

    def __init__(self, source_id: str, chunks: Sequence[Chunk], notices: tuple[Notice, ...], *, missing: bool) -> None:
        self.source_id = source_id
        failure = SourceUnavailable(_MISSING, source_id=source_id)
        self._failure = failure if missing and not chunks else None
        self._answer = SourceAnswer(chunks=chunks, notes=notices, failures=(failure,) if missing else ())

    def search(self, query: SourceQuery) -> SourceAnswer:
        """Return what was given.

        Raises:
            SourceUnavailable: a notice among the passages says that the source did not answer.
        """
        if self._failure is not None:
            raise self._failure
        return self._answer

    def close(self) -> None:
        """Nothing is open."""


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

    Whatever is given is ranked: who may see a passage was decided where it was found. A source that the principal may
    not know tells nothing of itself: its passages count as those of no registered source.

    Args:
        fields: query, passages, domain_name or domain, rerank_model, unregistered, top_k, context_budget, context_form.
        deployment: its manifests say which dataset has which tier.
        caller: for the record.
        principal: who asks.
        ask: calls a rerank model that is set up in Dify.
        request_id: of the request to a server.

    Raises:
        InvalidRequest: a field that cannot be used.
        UnknownDomain: the domain is not registered.
        AuditUnavailable: the ranking could not be recorded, and must not be given without.
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
    given = {
        spec.id: _Given(spec.id, chunks, _notices(place, passages), missing=spec.id in missing)
        for place, (spec, chunks) in _placed(passages)
    }
    registry = known.model_copy(update={"domains": {domain.domain: domain}})
    form = context_form(fields)
    resolve = partial(_resolve, deployment.setup.resolver, reranker)
    with Engine(
        registry,
        lambda _domain, spec: given[spec.id],
        resolve=resolve,
        reranker=reranker,
        mask=deployment.engine.mask,
        recorder=deployment.rankings,
    ) as engine:
        return engine.search(request), form


def _resolve(
    resolver: SettingsResolver, reranker: ModelReranker | None, domain: DomainSpec, request: SearchRequest
) -> EffectiveSettings:
    """Return the settings of a ranking; the form's rerank model is the only reranker, and it runs."""
    settings = resolver.resolve(domain, request)
    if settings.values.rerank_by is not None:
        settings = with_layer(settings, {"rerank_by": Setting(None, "call")})
    if reranker is None:
        return settings
    return with_layer(
        settings, {"reranker": Setting(reranker.name, "call"), "reranking_enabled": Setting(True, "call")}
    )


def _with_missing(passages: Passages, missing: Mapping[str, SourceSpec]) -> Passages:
    """Return the passages with the sources that gave none because they did not answer, those in no manifest last."""
    have = {spec.id for spec, _ in passages.sources}
    absent = tuple((spec, ()) for name, spec in missing.items() if name not in have)
    return passages._replace(sources=(*absent, *passages.sources))


def _domain(registry: Registry, name: str | None, passages: Passages) -> DomainSpec:
    """Return a domain of the passages' sources, with the settings of the domain that was chosen."""
    chosen = registry.domain(name) if name else None
    return DomainSpec.model_construct(
        version=1,
        domain=name or _NAME,
        timezone=chosen.timezone if chosen else "UTC",
        sources=tuple(spec for spec, _ in passages.sources),
        settings=chosen.settings if chosen else {},
    )


def _placed(passages: Passages) -> Sequence[tuple[int, tuple[SourceSpec, tuple[Chunk, ...]]]]:
    return list(enumerate(passages.sources))


def _notices(place: int, passages: Passages) -> tuple[Notice, ...]:
    """All notices stand with the last source: that of passages in no manifest comes last."""
    return passages.notices if place == len(passages.sources) - 1 else ()
