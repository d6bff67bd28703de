"""Converts a request of the RAG API into a request of the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from context_engine.core.models import (
    And,
    Caller,
    Condition,
    Filter,
    FilterOp,
    Not,
    Or,
    Principal,
    Registry,
    SearchRequest,
    ServerSettings,
    SourceSpec,
)
from context_engine.core.policy.filters import parse_filter
from context_engine.errors import InvalidRequest
from context_engine.service.contract.rag import RAGQueryRequest
from context_engine.settings.layers import ALIASES

_SETTINGS: Final[Mapping[str, str]] = {
    "namespaces": "sources",
    "top_k": "stage2_top_k",
    "similarity_threshold": "similarity_threshold",
    "enable_reranking": "reranking_enabled",
    "rerank_top_n": "rerank_top_n",
    "max_tokens": "context_max_tokens",
}
"""Request fields that are settings of the search."""


def check_limits(request: RAGQueryRequest, limits: ServerSettings) -> None:
    """Refuse options beyond the service's limits.

    Raises:
        InvalidRequest: the question is longer than `server_max_query_chars`, more chunks are asked for than
            `server_max_top_k`, more candidates than `server_max_candidates`, or more time than `server_max_deadline_s`.
    """
    settings = request.settings
    wanted = {"top_k": request.top_k, "rerank_top_n": request.rerank_top_n}
    wanted |= {f"settings.{name}": settings.get(name) for name in ("stage2_top_k", "top_k", "rerank_top_n")}
    check_sizes(request.query, wanted, limits)
    _check_most("settings.stage1_top_k", settings.get("stage1_top_k"), limits.server_max_candidates)
    _check_most("settings.deadline_s", settings.get("deadline_s"), limits.server_max_deadline_s)


def check_sizes(query: str, wanted: Mapping[str, Any], limits: ServerSettings) -> None:
    """Refuse a question that is too long, and numbers that are too high, by field name.

    Raises:
        InvalidRequest: see `check_limits`.
    """
    most = limits.server_max_query_chars
    if len(query) > most:
        raise InvalidRequest(f"query has {len(query)} characters; this service takes {most}: shorten it")
    for name, value in wanted.items():
        _check_most(name, value, limits.server_max_top_k)


def _check_most(name: str, value: Any, most: float) -> None:
    if isinstance(value, int | float) and value > most:
        raise InvalidRequest(f"{name} may be {most:g} at most in this service: ask for less")


def only_domain(registry: Registry, name: str | None) -> str:
    """Return the named domain, else the only one.

    Raises:
        InvalidRequest: no domain was named, and there is not exactly one.
    """
    names = registry.names
    if name is not None:
        return name
    if len(names) == 1:
        return names[0]
    which = f"name one of {', '.join(names)}" if names else "and there is none that may be searched"
    raise InvalidRequest(f"domain is missing: {which}")


def asked_filter(request: RAGQueryRequest) -> Filter | None:
    """Return the filter of a request, with the names that it uses.

    Raises:
        InvalidFilter: malformed.
    """
    return parse_filter(request.filters)


def search_request(
    request: RAGQueryRequest,
    domain: str,
    registry: Registry,
    *,
    principal: Principal,
    caller: Caller,
    request_id: str | None,
) -> SearchRequest:
    """Return the engine's request.

    Args:
        domain: the engine refuses and records an unknown one.
        registry: with only what the principal may know.

    Raises:
        InvalidRequest: a malformed filter, or a setting given twice.
    """
    filters, known = asked_filter(request), registry.domains.get(domain)
    specs = () if known is None else known.sources
    return SearchRequest(
        query=request.query,
        domain=domain,
        caller=caller,
        principal=principal,
        request_id=request_id,
        as_of=request.as_of,
        filters=None if filters is None else by_own_names(filters, specs),
        persona=request.persona_key,
        overrides=_overrides(request),
        require_tiers=request.require_tiers,
        require_sources=request.require_sources,
        strict=request.strict,
    )


def _overrides(request: RAGQueryRequest) -> dict[str, Any]:
    """Return the settings of this search, each given once. A threshold applies to the cosine, as in a persona."""
    overrides: dict[str, Any] = dict(request.settings)
    known = {ALIASES.get(key, key): key for key in overrides}
    for name, key in _SETTINGS.items():
        value = getattr(request, name)
        if value is None:
            continue
        if key in known:
            raise InvalidRequest(f"{name} and settings.{known[key]} say the same: give one of the two")
        overrides[key] = value
    if "similarity_threshold" in overrides:
        overrides.setdefault("similarity_kind", "cosine")
    return overrides


_NAMES: Final = {"namespace": "source_id", "doc_id": "document_id"}
_OF_SEVERAL: Final = {FilterOp.EQ: FilterOp.IN, FilterOp.NE: FilterOp.NOT_IN}


def by_own_names(asked: Filter, specs: Sequence[SourceSpec] = ()) -> Filter:
    """Return a filter that names the ids of source and document as the engine does.

    Args:
        specs: the sources of the domain: a namespace stands for the ids of its sources.
    """
    match asked:
        case And(parts):
            return And(tuple(by_own_names(part, specs) for part in parts))
        case Or(parts):
            return Or(tuple(by_own_names(part, specs) for part in parts))
        case Not(part):
            return Not(by_own_names(part, specs))
        case Condition(field, op, value):
            of_several = _OF_SEVERAL.get(op, op)
            if field != "namespace" or of_several not in _OF_SEVERAL.values():
                return replace(asked, field=_NAMES.get(field, field))
            names = value if isinstance(value, list | tuple) else (value,)
            ids = (spec.id for spec in specs if spec.namespace is not None and spec.namespace in names)
            return Condition("source_id", of_several, (*names, *ids))
