"""The scope threshold of each domain: calibrated after its base was written, and the one in force now."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from context_engine.core.models import NOTHING, AccessScope, DomainSpec, ScopeCalibration, ScopeThreshold, SourceSpec
from context_engine.core.protocols import Calibratable, LearntAdapters
from context_engine.core.ranking.scope import scope_threshold
from context_engine.errors import ContextEngineError
from context_engine.wiring.build import SourceOpener, source_opener
from context_engine.wiring.embedded_base import EMBEDDED
from context_engine.wiring.examine import offered
from context_engine.wiring.setup import Setup

if TYPE_CHECKING:
    from context_engine.learning.calibration import JudgedQuestion


class DomainCalibration(NamedTuple):
    """The result of calibrating a domain.

    Attributes:
        found: the calibrations in force, words only first; empty if the base has no text of the domain.
        problem: why it could not be calibrated; None if it could.
    """

    domain: str
    found: tuple[ScopeCalibration, ...]
    problem: str | None = None

    def to_dict(self) -> Mapping[str, Any]:
        """Return all fields, ready for JSON."""
        return {**self._asdict(), "found": [asdict(calibration) for calibration in self.found]}


def calibrate_domains(
    setup: Setup,
    store: Calibratable,
    *,
    judged: Mapping[str, Sequence[JudgedQuestion]] = NOTHING,
    anew: bool = False,
    adapter: str = EMBEDDED,
) -> Iterator[DomainCalibration]:
    """Calibrate every domain that has sources in a store; parts that have hardly changed keep their calibration.

    Args:
        adapter: the adapter of the store's sources.
    """
    for _, domain in sorted(setup.registry.domains.items()):
        if any(spec.adapter == adapter for spec in domain.sources):
            asked = judged.get(domain.domain, ())
            yield calibrate_domain(setup, store, domain, judged=asked, anew=anew, adapter=adapter)


def calibrate_domain(
    setup: Setup,
    store: Calibratable,
    domain: DomainSpec,
    *,
    judged: Sequence[JudgedQuestion] = (),
    anew: bool = False,
    adapter_id: str | None = None,
    adapter: str = EMBEDDED,
) -> DomainCalibration:
    """Calibrate the sources of a domain in a store, for every scorer that searches use.

    If that fails, the result has the reason, and searches use the measured default.

    Args:
        store, judged, anew, adapter: as in `calibrate_domains`, of this domain.
        adapter_id: of an adapter that is about to be put in force; None: only adapters in force count.
    """
    from context_engine.learning.calibration import calibrate

    sources = tuple(spec for spec in domain.sources if spec.adapter == adapter)
    of_store = domain.model_copy(update={"sources": sources})
    try:
        resolve = setup.resolver.resolve
        calibrations = calibrate(store, of_store, resolve=resolve, judged=judged, anew=anew, adapter_id=adapter_id)
    except (ContextEngineError, sqlite3.Error) as error:
        return DomainCalibration(domain.domain, (), str(error))
    return DomainCalibration(domain.domain, calibrations)


def use_adapter(
    setup: Setup,
    store: LearntAdapters,
    domain: DomainSpec,
    adapter_id: str,
    *,
    judged: Sequence[JudgedQuestion] = (),
    adapter: str = EMBEDDED,
) -> DomainCalibration:
    """Put an adapter of a domain in force; a store that can be calibrated is calibrated under it first.

    Args:
        store, judged, adapter: as in `calibrate_domains`, of this domain.

    Raises:
        StoreError: it cannot be put in force (`LearntAdapters.use_adapter`).
    """
    if not isinstance(store, Calibratable):
        store.use_adapter(domain.domain, adapter_id)
        return DomainCalibration(domain.domain, ())
    calibration = calibrate_domain(setup, store, domain, judged=judged, adapter_id=adapter_id, adapter=adapter)
    store.use_adapter(domain.domain, adapter_id)
    in_force = (store.calibration(domain.domain, by_vector=by_vector) for by_vector in (False, True))
    return calibration._replace(found=tuple(filter(None, in_force)))


def scope_in_force(
    setup: Setup,
    domain: DomainSpec,
    data_dir: Path | None,
    *,
    persona: str | None = None,
    access: AccessScope | None = None,
) -> ScopeThreshold:
    """Return the scope threshold that a search of a domain would use now.

    Args:
        data_dir: the data folder of the stores; None: no stores.
        access: of the caller; None: everything.

    Raises:
        ConfigError, InvalidRequest: unusable settings of the domain, or an unknown persona.
    """
    values = setup.resolver.base(domain, persona).values
    asked = [spec for spec in domain.sources if values.sources is None or spec.id in values.sources]
    by_adapter = {} if data_dir is None else {spec.adapter: spec for spec in reversed(asked)}
    by_vector = values.embedder is not None
    opener = source_opener(setup, data_dir=data_dir, embedder=lambda: None)
    stored = {
        adapter: _stored(opener, domain, spec, by_vector=by_vector, access=access)
        for adapter, spec in by_adapter.items()
    }
    return scope_threshold(values, [stored.get(spec.adapter) for spec in asked])


def scopes_in_force(setup: Setup, data_dir: Path | None, only: str | None = None) -> dict[str, ScopeThreshold]:
    """Return the scope threshold in force for each domain, or for one."""
    specs = {name: spec for name, spec in sorted(setup.registry.domains.items()) if only in (None, name)}
    return {name: scope_in_force(setup, spec, data_dir) for name, spec in specs.items()}


def _stored(
    opener: SourceOpener, domain: DomainSpec, spec: SourceSpec, *, by_vector: bool, access: AccessScope | None
) -> ScopeCalibration | None:
    """Return the calibration in force in the store of a source; None if it has none or cannot be read."""
    try:
        with closing(opener.open(domain, spec)) as source:
            store = offered(source, Calibratable)
            return None if store is None else store.calibration(domain.domain, by_vector=by_vector, access=access)
    except Exception:  # noqa: BLE001  an adapter may raise anything; a search reports it
        return None
