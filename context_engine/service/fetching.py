"""Fetches passages and documents by id, in their present form, if the caller may read them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Final

from context_engine.core.concurrency.calls import submit_all, wait_all
from context_engine.core.context import ApproxTokenCounter, build_context_block
from context_engine.core.models import (
    Authenticated,
    Chunk,
    Classification,
    DomainSpec,
    FetchRequest,
    Principal,
    PublishedChunk,
    SourceSpec,
    SourceType,
    TrustClass,
    link_of,
)
from context_engine.core.policy.masking import masked_chunk
from context_engine.core.policy.trust import EffectiveAuthority, effective_authority
from context_engine.errors import InvalidRequest, SourceError, SourceTimeout
from context_engine.service.contract.chunks import FetchedChunk
from context_engine.service.contract.fetch import FetchQuery, FetchResponse, UnansweredSource
from context_engine.service.deployment import Deployment
from context_engine.service.request import only_domain

logger = logging.getLogger(__name__)
_TIMEOUT_S: Final = 10.0
_PARALLEL: Final = 8
_HEADING: Final = "Fetched"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPassage(PublishedChunk):
    """A chunk that was fetched by its id; masked if its domain masks contexts."""

    source_id: str
    namespace: str
    source_title: str
    chunk_id: str
    chunk: Chunk
    source_type: SourceType
    authority_tier: int
    trust_class: TrustClass
    classification: Classification
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The answers of the sources.

    Attributes:
        passages: in the order of the manifest's sources, then in document order.
        not_found: ids without a chunk.
        unanswered: sources that could not answer, with their errors.
    """

    domain: str
    passages: tuple[FetchedPassage, ...]
    not_found: tuple[str, ...]
    unanswered: tuple[SourceError, ...]


def fetch(deployment: Deployment, caller: Authenticated, asked: FetchQuery) -> FetchResponse:
    """Return chunks by their ids, under a limit of tokens.

    Raises:
        UnknownDomain: not registered, or not for this caller.
        InvalidRequest: no domain is named, and there are several.
        ConfigError, PolicyError, MaskingError: as `Engine.fetch`.
    """
    fetched = fetch_passages(
        deployment,
        caller.principal,
        domain=asked.domain,
        source=asked.source,
        chunk_ids=asked.chunk_ids,
        document_ids=asked.document_ids,
    )
    counter, fitting, room = ApproxTokenCounter(), list[FetchedPassage](), asked.max_tokens
    for passage in fetched.passages:
        tokens = counter.count(passage.chunk.content)
        if tokens > room and fitting:
            break
        fitting.append(passage)
        room -= tokens
    context = build_context_block([passage.to_dict() for passage in fitting], heading=_HEADING)
    return FetchResponse(
        domain=fetched.domain,
        chunks=tuple(FetchedChunk.of(passage.fields(), content_type=passage.chunk.doc_type) for passage in fitting),
        context_string=context,
        total_tokens=counter.count(context),
        not_found=fetched.not_found,
        left_out=tuple(passage.chunk.chunk_id for passage in fetched.passages[len(fitting) :]),
        unanswered=tuple(
            UnansweredSource(source_id=error.source_id, code=error.code, problem=error.problem)
            for error in fetched.unanswered
        ),
        demo=deployment.demo,
    )


def fetch_passages(
    deployment: Deployment,
    principal: Principal,
    *,
    domain: str | None,
    source: str | None = None,
    chunk_ids: Sequence[str] = (),
    document_ids: Sequence[str] = (),
) -> Fetched:
    """Return chunks of a domain by their ids; unreadable ones are omitted.

    Args:
        domain: None: the only one.
        source: None: every source that the principal may search; an unreadable source counts as unknown.
        chunk_ids, document_ids: at least one id.

    Raises:
        UnknownDomain, InvalidRequest, ConfigError, PolicyError, MaskingError: see `fetch`.
    """
    if not chunk_ids and not document_ids:
        raise InvalidRequest("the request names nothing: send chunk_ids or document_ids")
    registry = deployment.known_to(principal)
    spec = registry.domain(only_domain(registry, domain))
    sources = [candidate for candidate in spec.sources if source in (None, candidate.id)]
    wanted = FetchRequest(
        domain=spec.domain, chunk_ids=tuple(chunk_ids), document_ids=tuple(document_ids), timeout_s=_TIMEOUT_S
    )
    calls = [partial(deployment.engine.fetch, source.id, wanted, principal) for source in sources]
    futures = submit_all(calls, width=_PARALLEL, name="context-engine-fetch")
    in_time = wait_all(futures, [_TIMEOUT_S] * len(futures))
    passages, unanswered = list[FetchedPassage](), list[SourceError]()
    for candidate, future, done in zip(sources, futures, in_time, strict=True):
        try:
            passages += passages_of(deployment, spec, candidate, _result(future, candidate.id, done=done), wanted)
        except SourceError as error:
            unanswered.append(error)
    logger.info(
        "fetch domain=%s sources=%d wanted=%d found=%d principal=%s",
        spec.domain, len(sources), len(chunk_ids) + len(document_ids), len(passages), principal.id or "-",
    )  # fmt: skip
    chunks = [passage.chunk for passage in passages]
    fetched_ids = {chunk.chunk_id for chunk in chunks} | {chunk.document_id for chunk in chunks}
    missing = tuple(
        dict.fromkeys(wanted_id for wanted_id in (*chunk_ids, *document_ids) if wanted_id not in fetched_ids)
    )
    return Fetched(domain=spec.domain, passages=tuple(passages), not_found=missing, unanswered=tuple(unanswered))


VersionKey = tuple[str, str | None]
"""(source id, version) of a document."""


def by_version(passages: Sequence[FetchedPassage]) -> dict[VersionKey, list[FetchedPassage]]:
    """Return fetched passages by source and version of their document."""
    versions: dict[VersionKey, list[FetchedPassage]] = {}
    for passage in passages:
        versions.setdefault((passage.source_id, passage.chunk.document_version), []).append(passage)
    return versions


def newest_version(versions: Mapping[VersionKey, Sequence[FetchedPassage]]) -> VersionKey:
    """Return the version that nothing supersedes and that came into force last, out of at least one."""

    def newest(key: VersionKey) -> tuple[bool, date, str]:
        chunk = versions[key][0].chunk
        return chunk.superseded_by is None, chunk.effective_from or date.min, chunk.document_version or ""

    return max(versions, key=newest)


def _result(future: Future[tuple[Chunk, ...]], source_id: str, *, done: bool) -> tuple[Chunk, ...]:
    if not done:
        raise SourceTimeout(f"no answer within {_TIMEOUT_S:g} s", source_id=source_id, retryable=True)
    return future.result()


def new_text(before: Chunk | None, chunk: Chunk) -> str:
    """Return the text of a chunk after the end of the chunk before it, where both say their places."""
    if before is None or before.span is None or chunk.span is None:
        return chunk.content
    shared = before.span[1] - chunk.span[0]
    is_verbatim = chunk.span[1] - chunk.span[0] == len(chunk.content)
    return chunk.content[shared:] if is_verbatim and 0 < shared < len(chunk.content) else chunk.content


def passages_of(
    deployment: Deployment, domain: DomainSpec, spec: SourceSpec, chunks: Sequence[Chunk], wanted: FetchRequest
) -> list[FetchedPassage]:
    """Return the chunks of a source as passages, masked if the domain masks contexts.

    They come first by chunk id in the order of the request, then document by document.
    """
    places = {wanted_id: place for place, wanted_id in enumerate((*wanted.chunk_ids, *wanted.document_ids))}
    last = len(places)

    def order(chunk: Chunk) -> tuple[int, str, int]:
        place = min(places.get(chunk.chunk_id, last), places.get(chunk.document_id or "", last))
        return place, chunk.document_version or "", chunk.position or 0

    mask = deployment.engine.mask if deployment.setup.resolver.base(domain).values.mask_contexts else None
    return [
        _passage(spec, chunk if mask is None else masked_chunk(chunk, mask), effective_authority(chunk, spec))
        for chunk in sorted(chunks, key=order)
    ]


def _passage(spec: SourceSpec, chunk: Chunk, authority: EffectiveAuthority) -> FetchedPassage:
    return FetchedPassage(
        source_id=spec.id,
        namespace=spec.in_namespace,
        source_title=spec.title,
        chunk_id=chunk.chunk_id,
        chunk=chunk,
        source_type=authority.source_type,
        authority_tier=authority.tier,
        trust_class=authority.trust,
        classification=authority.classification,
        url=link_of(chunk, spec.url),
    )
