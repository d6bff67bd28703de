"""A knowledge base on trial: a copy of the embedded base in a folder of its own, asked through an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.adapter import SinkOptions
from context_engine.core.context import ApproxTokenCounter, from_result
from context_engine.core.engine import Engine
from context_engine.core.models import (
    AccessRule,
    Chunk,
    Classification,
    DomainSpec,
    Principal,
    SearchRequest,
    SearchResult,
    SourceSpec,
    SourceType,
)
from context_engine.core.policy.access import ManifestPolicy, access_class
from context_engine.core.protocols import Embedder
from context_engine.errors import ContextEngineError
from context_engine.testing.noninterference import (
    ChangeKind,
    HiddenChange,
    HiddenDocument,
    HiddenPlace,
    StillClock,
    write_change,
)
from context_engine.wiring import Setup, SourceOpener, build_engine, calibrate_domains, load_source_adapter
from context_engine.wiring.embedded_base import base_path, open_base

INSIDER_ROLE: Final = "access-proof-insider"
"""The role that the rules of new sources ask for."""
Outputs = Mapping[str, Callable[[SearchResult], Any]]
"""Further forms of a result that its caller gets, by name; JSON-ready."""
_ADAPTER: Final = "local"
_DELETED: Final = "access-proof-deleted"
_DELETED_CHUNK: Final = Chunk(content="The approval limit of the committee was deleted; a report is due in ten days.")
_COUNTER: Final = ApproxTokenCounter()
_CALIBRATED_EACH: Final = 10
_MOST_TEXTS: Final = 5_000


class HeldTexts(NamedTuple):
    """The contents of a base as one principal sees them.

    Attributes:
        readable: chunks that it may read.
        hidden: some that it may not; `documents` all whose chunks they are.
    """

    readable: list[Chunk]
    hidden: list[Chunk]
    documents: list[HiddenDocument]


class _OneId:
    """The same search id each time."""

    def new(self, now: datetime) -> str:
        return f"{int(now.timestamp()):012x}"


class BaseTrial:
    """An embedded base on trial; an `AccessTrial`. Opening it builds what the rows of the copy still need.

    Args:
        setup: whose sources all stand in the embedded base.
        data_dir: of the copy, which this alone writes to.
        outputs: what the caller gets beside the result and its context.
    """

    def __init__(self, setup: Setup, data_dir: Path, outputs: Outputs) -> None:
        self.setup = setup
        self._data_dir, self._outputs, self._clock = data_dir, outputs, StillClock()
        self._models = setup.models(data_dir, self._clock)
        self._adapter = load_source_adapter(_ADAPTER)
        self._batches = 0
        self._engine: Engine | None = None
        self._rebuild()
        for domain in setup.registry.names:
            self._write(domain, ())
        self._leave_deleted()
        self.calibrate()

    def close(self) -> None:
        """Close the engine; may be called twice, and the next question opens another."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None

    reopen = close

    def answer(self, request: SearchRequest) -> Mapping[str, Any]:
        """Return all that the request's principal gets."""
        engine = self._opened()
        known = engine.visible(request.principal)
        listed = {name: [source.id for source in known.domains[name].sources] for name in known.names}
        try:
            result = engine.search(request)
        except ContextEngineError as error:
            partly = getattr(error, "result", None)
            told = partly.to_dict() if isinstance(partly, SearchResult) else None
            return {"outcome": type(error).__name__, "error": str(error), "result": told, "domains": listed}
        return {
            "outcome": str(result.decision),
            "domains": listed,
            "found": [_answer_of(raw) for raw in result.raw],
            "result": result.to_dict(),
            "context": from_result(result, counter=_COUNTER, mask=engine.mask).text,
            **{name: form(result) for name, form in self._outputs.items()},
        }

    def change(self, changes: Sequence[HiddenChange]) -> None:
        """Write some changes as an ingestion does, new sources registered first, and calibrate now and then."""
        configured = [change for change in changes if change.kind in (ChangeKind.NEW_SOURCE, ChangeKind.NEW_RULE)]
        if configured:
            self._configure(configured)
        for name, group in groupby(sorted(changes, key=_domain_of), key=_domain_of):
            self._write(name, list(group))
        self._batches += 1
        if self._batches % _CALIBRATED_EACH == 0:
            self.calibrate()

    def calibrate(self) -> None:
        """Calibrate every domain anew."""
        with open_base(base_path(self._data_dir), self._settings, self._embedder(), self._clock) as base:
            for _ in calibrate_domains(self.setup, base, anew=True):
                pass

    def held(self, principal: Principal) -> HeldTexts:
        """Return what the base holds, as a principal sees it; of large bases a part."""
        found = HeldTexts([], [], [])
        with open_base(base_path(self._data_dir), self._settings, None, self._clock) as base:
            for domain, spec in self._sources():
                chunks = base.chunks(spec.id)
                for key, group in groupby(chunks, key=lambda chunk: (chunk.document_id, chunk.document_version)):
                    self._sort(found, principal, (domain, spec), key, list(group))
        return found

    def _sort(
        self,
        found: HeldTexts,
        principal: Principal,
        place: tuple[DomainSpec, SourceSpec],
        key: tuple[str | None, str | None],
        chunks: Sequence[Chunk],
    ) -> None:
        """Put the chunks of one document where they belong."""
        domain, spec = place
        claims = [chunk.classification for chunk in chunks if chunk.classification is not None]
        held = access_class(
            self.setup.access.rules_of(spec.id), spec.classification, max(claims, key=_rank, default=None)
        )
        scope = self.setup.access.decide(principal, domain).scope
        if scope is None or scope.admits(held):
            found.readable.extend(chunks[: _MOST_TEXTS - len(found.readable)])
        elif len(found.hidden) < _MOST_TEXTS:
            found.hidden.extend(chunks)
            hidden = HiddenPlace(domain.domain, spec.id, _claims(held.classification, claims))
            document = HiddenDocument(place=hidden, document_id=key[0] or "", version=key[1] or "")
            found.documents.append(document)

    def _sources(self) -> Iterator[tuple[DomainSpec, SourceSpec]]:
        """Yield each source once, with a domain that registers it."""
        seen = set[str]()
        for _, domain in sorted(self.setup.registry.domains.items()):
            for spec in domain.sources:
                if spec.id not in seen:
                    seen.add(spec.id)
                    yield domain, spec

    def _configure(self, changes: Sequence[HiddenChange]) -> None:
        """Register new sources and change rules, and open the engine anew; nobody but the insider may read them."""
        domains = dict(self.setup.registry.domains)
        for change in changes:
            if change.kind is ChangeKind.NEW_SOURCE:
                domains[change.place.domain] = _with_source(domains.get(change.place.domain), change.place)
            else:
                rule = AccessRule(roles=(INSIDER_ROLE, f"rule-{change.number}"))
                domains = {name: _with_rule(one, change.place.source_id, rule) for name, one in domains.items()}
        registry = self.setup.registry.model_copy(update={"domains": domains})
        self.setup = replace(self.setup, registry=registry, access=ManifestPolicy(domains))
        self.close()

    def _rebuild(self) -> None:
        with open_base(base_path(self._data_dir), self._settings, self._embedder(), self._clock) as base:
            base.rebuild()

    def _leave_deleted(self) -> None:
        """Delete a document of each source: the indexes go on counting it, as those of any base that is in use."""
        made = [
            HiddenDocument(place=HiddenPlace(domain.domain, spec.id), document_id=_DELETED, chunks=(_DELETED_CHUNK,))
            for domain, spec in self._sources()
        ]
        for one in made:
            change = HiddenChange(number=0, kind=ChangeKind.INSERT, place=one.place, now=one)
            self._write(one.place.domain, [change])
        self._rebuild()  # a document is counted on beside others in one segment alone
        for one in made:
            change = HiddenChange(number=1, kind=ChangeKind.DELETE, place=one.place, gone=one)
            self._write(one.place.domain, [change])

    def _write(self, domain: str, changes: Sequence[HiddenChange]) -> None:
        spec = self.setup.registry.domain(domain)
        opener = SourceOpener(self.setup, {}, self._clock, self._data_dir, self._embedder)
        assert self._adapter.open_sink is not None
        with self._adapter.open_sink(spec.sources, opener.context(spec), SinkOptions()) as sink:
            for change in changes:
                write_change(sink, change)

    def _opened(self) -> Engine:
        if self._engine is None:
            self._engine = build_engine(
                self.setup,
                data_dir=self._data_dir,
                models=self._models,
                clock=self._clock,
                ids=_OneId(),
                recorded=False,
            )
        return self._engine

    @property
    def _settings(self) -> Any:
        return self.setup.resolver.base().values

    @property
    def _embedder(self) -> Callable[[], Embedder | None]:
        return self._models.embedder


def _answer_of(raw: Any) -> dict[str, Any]:
    """Return a source's answer as the library returns it."""
    told = {name: getattr(raw, name) for name in ("source_id", "by_keywords", "unknown_words", "filter_fields")}
    return {
        **told,
        "chunks": [chunk.to_dict() for chunk in raw.chunks],
        "statistics": raw.statistics and asdict(raw.statistics),
        "calibration": raw.calibration and asdict(raw.calibration),
    }


def _claims(needed: Classification | None, claims: Sequence[Classification]) -> tuple[Classification | None, ...]:
    """Return the classifications that a hidden document may claim and stay in its partition."""
    return (max(claims, key=_rank),) if claims and needed is not None else (None,)


def _with_source(domain: DomainSpec | None, place: HiddenPlace) -> DomainSpec:
    """Return a domain with a new source in it, or a new domain of that source."""
    rule = AccessRule(roles=(INSIDER_ROLE,))
    spec = SourceSpec(id=place.source_id, type=SourceType.SYSTEM_OF_RECORD, access=rule)
    if domain is None:
        return DomainSpec(version=1, domain=place.domain, access=rule, sources=(spec,))
    return domain.model_copy(update={"sources": (*domain.sources, spec)})


def _with_rule(domain: DomainSpec, source_id: str, rule: AccessRule) -> DomainSpec:
    changed = (one.model_copy(update={"access": rule}) if one.id == source_id else one for one in domain.sources)
    return domain.model_copy(update={"sources": tuple(changed)})


def _domain_of(change: HiddenChange) -> str:
    return change.place.domain


def _rank(classification: Classification) -> int:
    return classification.rank
