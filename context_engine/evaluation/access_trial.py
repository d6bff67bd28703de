"""An access trial of a store: a copy in a separate data folder, searched through an engine."""

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
from context_engine.core.protocols import AccessProvable, Calibratable, Listable
from context_engine.errors import ContextEngineError
from context_engine.testing.noninterference import (
    ChangeKind,
    HiddenChange,
    HiddenDocument,
    HiddenPlace,
    StillClock,
    write_change,
)
from context_engine.wiring.adapters import load_source_adapter
from context_engine.wiring.build import SourceOpener, build_engine, source_opener
from context_engine.wiring.examine import offered, opened_store
from context_engine.wiring.scope import calibrate_domains
from context_engine.wiring.setup import Setup

INSIDER_ROLE: Final = "access-proof-insider"
"""The role that the rules of new sources require."""
Outputs = Mapping[str, Callable[[SearchResult], Any]]
"""Functions from a result to a further output, JSON-ready, by name."""
_DELETED: Final = "access-proof-deleted"
_DELETED_CHUNK: Final = Chunk(content="The approval limit of the committee was deleted; a report is due in ten days.")
_COUNTER: Final = ApproxTokenCounter()
_CALIBRATED_EACH: Final = 10
_MOST_TEXTS: Final = 5_000


class HeldTexts(NamedTuple):
    """The contents of a base as one principal sees them.

    Attributes:
        readable: chunks that it may read.
        hidden: some chunks that it may not read; `documents` are their documents.
    """

    readable: list[Chunk]
    hidden: list[Chunk]
    documents: list[HiddenDocument]


class _OneId:
    """Gives the same search id every time."""

    def new(self, now: datetime) -> str:
        return f"{int(now.timestamp()):012x}"


class StoreTrial:
    """An `AccessTrial` of a copied store; opening it rebuilds the copy's index.

    Args:
        setup: all of its sources are in the store.
        data_dir: folder of the copy; nothing else writes to it.
        outputs: further outputs to compare besides the result and its context.
    """

    def __init__(self, setup: Setup, adapter: str, data_dir: Path, outputs: Outputs) -> None:
        self.setup, self._adapter_name = setup, adapter
        self._data_dir, self._outputs, self._clock = data_dir, outputs, StillClock()
        self._models = setup.models(data_dir, self._clock)
        self._adapter = load_source_adapter(adapter)
        self._batches = 0
        self._engine: Engine | None = None
        self._rebuild()
        for domain in setup.registry.names:
            self._write(domain, ())
        self._leave_deleted()
        self.calibrate()

    def close(self) -> None:
        """Close the engine; may be called twice. The next request opens a new one."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None

    reopen = close

    def answer(self, request: SearchRequest) -> Mapping[str, Any]:
        """Return every output for the request's principal."""
        engine = self._opened()
        known = engine.visible(request.principal)
        listed = {name: [source.id for source in known.domains[name].sources] for name in known.names}
        try:
            result = self._placeless(engine.search(request))
        except ContextEngineError as error:
            partial = getattr(error, "result", None)
            shown = self._placeless(partial).to_dict() if isinstance(partial, SearchResult) else None
            return {"outcome": type(error).__name__, "error": str(error), "result": shown, "domains": listed}
        return {
            "outcome": str(result.decision),
            "domains": listed,
            "found": [_answer_of(raw) for raw in result.raw],
            "result": result.to_dict(),
            "context": from_result(result, counter=_COUNTER, mask=engine.mask).text,
            **{name: form(result) for name, form in self._outputs.items()},
        }

    def _placeless(self, result: SearchResult) -> SearchResult:
        """Return a result whose settings do not name the folder of the configuration: elsewhere it is another one."""
        paths, origins = self.setup.config.paths, dict(result.settings.origins)
        for folder in filter(None, (paths.config_dir, paths.manifest_dir)):
            shown, name = f"{paths.label(folder)}/", f"{folder.name}/"
            origins = {key: origin.replace(shown, name) for key, origin in origins.items()}
        return replace(result, settings=result.settings.model_copy(update={"origins": origins}))

    def change(self, changes: Sequence[HiddenChange]) -> None:
        """Register new sources, write changes as an ingestion does, and calibrate every tenth time."""
        configured = [change for change in changes if change.kind in (ChangeKind.NEW_SOURCE, ChangeKind.NEW_RULE)]
        if configured:
            self._configure(configured)
        for name, group in groupby(sorted(changes, key=_domain_of), key=_domain_of):
            self._write(name, list(group))
        self._batches += 1
        if self._batches % _CALIBRATED_EACH == 0:
            self.calibrate()

    def calibrate(self) -> None:
        """Calibrate every domain again, if the store can be calibrated."""
        source = self._opener().open(*next(self._sources()))
        store = offered(source, Calibratable)
        if store is not None:
            for _ in calibrate_domains(self.setup, store, anew=True, adapter=self._adapter_name):
                pass
        source.close()

    def held(self, principal: Principal) -> HeldTexts:
        """Return the store's chunks as a principal sees them; a part of them for a large store."""
        texts = HeldTexts([], [], [])
        for domain, spec in self._sources():
            with opened_store(self._opener(by_vector=False), domain, spec, Listable) as source:
                documents = groupby(source.list_chunks(), key=lambda chunk: (chunk.document_id, chunk.document_version))
                for key, group in documents:
                    self._sort(texts, principal, (domain, spec), key, list(group))
        return texts

    def _sort(
        self,
        texts: HeldTexts,
        principal: Principal,
        place: tuple[DomainSpec, SourceSpec],
        key: tuple[str | None, str | None],
        chunks: Sequence[Chunk],
    ) -> None:
        """Add the chunks of one document to the readable or the hidden ones."""
        domain, spec = place
        claims = [chunk.classification for chunk in chunks if chunk.classification is not None]
        needed = access_class(
            self.setup.access.rules_of(spec.id), spec.classification, max(claims, key=_rank, default=None)
        )
        scope = self.setup.access.decide(principal, domain).scope
        if scope is None or scope.admits(needed):
            texts.readable.extend(chunks[: _MOST_TEXTS - len(texts.readable)])
        elif len(texts.hidden) < _MOST_TEXTS:
            texts.hidden.extend(chunks)
            hidden = HiddenPlace(domain.domain, spec.id, _claims(needed.classification, claims))
            document = HiddenDocument(place=hidden, document_id=key[0] or "", version=key[1] or "")
            texts.documents.append(document)

    def _sources(self) -> Iterator[tuple[DomainSpec, SourceSpec]]:
        """Yield each source once, with a domain that registers it."""
        seen = set[str]()
        for _, domain in sorted(self.setup.registry.domains.items()):
            for spec in domain.sources:
                if spec.id not in seen:
                    seen.add(spec.id)
                    yield domain, spec

    def _configure(self, changes: Sequence[HiddenChange]) -> None:
        """Register new sources and rules that admit only the insider, and close the engine."""
        domains = dict(self.setup.registry.domains)
        for change in changes:
            if change.kind is ChangeKind.NEW_SOURCE:
                domains[change.place.domain] = self._with_source(domains.get(change.place.domain), change.place)
            else:
                rule = AccessRule(roles=(INSIDER_ROLE, f"rule-{change.number}"))
                domains = {
                    name: _with_rule(domain_spec, change.place.source_id, rule) for name, domain_spec in domains.items()
                }
        registry = self.setup.registry.model_copy(update={"domains": domains})
        self.setup = replace(self.setup, registry=registry, access=ManifestPolicy(domains))
        self.close()

    def _rebuild(self) -> None:
        with opened_store(self._opener(), *next(self._sources()), AccessProvable) as store:
            store.rebuild()

    def _opener(self, *, by_vector: bool = True) -> SourceOpener:
        embedder = self._models.embedder if by_vector else lambda: None
        return source_opener(self.setup, data_dir=self._data_dir, clock=self._clock, embedder=embedder)

    def _leave_deleted(self) -> None:
        """Write and delete a document in each source: an index still counts it, as in any base in use."""
        made = [
            HiddenDocument(place=HiddenPlace(domain.domain, spec.id), document_id=_DELETED, chunks=(_DELETED_CHUNK,))
            for domain, spec in self._sources()
        ]
        for document in made:
            change = HiddenChange(number=0, kind=ChangeKind.INSERT, place=document.place, now=document)
            self._write(document.place.domain, [change])
        self._rebuild()  # a deleted document is only counted on while it shares a segment with others
        for document in made:
            change = HiddenChange(number=1, kind=ChangeKind.DELETE, place=document.place, gone=document)
            self._write(document.place.domain, [change])

    def _write(self, domain: str, changes: Sequence[HiddenChange]) -> None:
        spec = self.setup.registry.domain(domain)
        assert self._adapter.open_sink is not None
        with self._adapter.open_sink(spec.sources, self._opener().context(spec), SinkOptions()) as sink:
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

    def _with_source(self, domain: DomainSpec | None, place: HiddenPlace) -> DomainSpec:
        """Return a domain with a new source in it, or a new domain of that source."""
        rule = AccessRule(roles=(INSIDER_ROLE,))
        _, beside = next(self._sources())
        spec = SourceSpec(
            id=place.source_id,
            type=SourceType.SYSTEM_OF_RECORD,
            access=rule,
            adapter=self._adapter_name,
            connection=beside.connection,
            settings=beside.settings,
        )
        if domain is None:
            return DomainSpec(version=1, domain=place.domain, access=rule, sources=(spec,))
        return domain.model_copy(update={"sources": (*domain.sources, spec)})


def _answer_of(raw: Any) -> dict[str, Any]:
    """Return a source's raw answer as JSON values."""
    properties = {name: getattr(raw, name) for name in ("source_id", "by_keywords", "unknown_words", "filter_fields")}
    return {
        **properties,
        "chunks": [chunk.to_dict() for chunk in raw.chunks],
        "statistics": raw.statistics and asdict(raw.statistics),
        "calibration": raw.calibration and asdict(raw.calibration),
    }


def _claims(needed: Classification | None, claims: Sequence[Classification]) -> tuple[Classification | None, ...]:
    """Return the classifications that a hidden document may claim and stay in its partition."""
    return (max(claims, key=_rank),) if claims and needed is not None else (None,)


def _with_rule(domain: DomainSpec, source_id: str, rule: AccessRule) -> DomainSpec:
    changed = (
        source.model_copy(update={"access": rule}) if source.id == source_id else source for source in domain.sources
    )
    return domain.model_copy(update={"sources": tuple(changed)})


def _domain_of(change: HiddenChange) -> str:
    return change.place.domain


def _rank(classification: Classification) -> int:
    return classification.rank
