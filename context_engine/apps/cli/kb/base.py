"""Opening the embedded base for commands, and what they print about its scope thresholds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.apps.cli.console import note
from context_engine.apps.cli.context import ConfigLocation, open_context
from context_engine.core.models import ScopeCalibration
from context_engine.core.ranking.scope import SIGNAL_VERSION
from context_engine.core.text import counted
from context_engine.errors import StoreError

if TYPE_CHECKING:
    from context_engine.wiring.embedded_base import LocalBase
    from context_engine.wiring.scope import DomainCalibration


@contextmanager
def opened_base(location: ConfigLocation, *, embedder: bool = False) -> Iterator[LocalBase]:
    """Yield the base of the data folder; the demo's if there is neither a base nor a domain.

    Args:
        embedder: also open the configured embedder, and place all sources in their partitions.

    Raises:
        StoreError: there is no base.
        ConfigError: the embedder is unusable.
    """
    from context_engine.wiring.embedded_base import base_as_it_is
    from context_engine.wiring.sinks import configured_base

    path = _base_path(location)
    if embedder:
        setup = location.load()
        opened = configured_base(setup, path, setup.models(location.data_dir))
    else:
        opened = base_as_it_is(path)
    with opened as base:
        if not base.exists():
            raise _no_base(location, base.path)
        yield base


def _no_base(location: ConfigLocation, path: Path) -> StoreError:
    """Return the error of a base that is not there: nothing was ingested, or every source is in another store."""
    from context_engine.wiring.embedded_base import EMBEDDED, no_base

    domains = location.load().registry.domains.values()
    adapters = sorted({source.adapter for domain in domains for source in domain.sources})
    if not adapters or EMBEDDED in adapters:
        return no_base(path)
    return StoreError(
        f"no source is in the embedded base: all are in {', '.join(adapters)}. 'context-engine doctor' examines them"
    )


def _base_path(location: ConfigLocation) -> Path:
    from context_engine.settings import find_config, find_data_dir
    from context_engine.wiring.embedded_base import base_as_it_is, base_path

    env, cwd = os.environ, Path.cwd()
    paths = find_config(location.config_dir, env=env, cwd=cwd)
    path = base_path(find_data_dir(location.data_dir, env=env, cwd=cwd, paths=paths))
    return path if base_as_it_is(path).exists() else open_context(location, operator=True).base


def calibration_text(calibration: ScopeCalibration) -> str:
    """Return a threshold, what it applies to and what it was calibrated with, as one line."""
    samples = [f"{calibration.own} sentences and headings", f"{calibration.outside} off-topic questions"]
    samples += [counted(calibration.judged, "judged question")] if calibration.judged else []
    signal = f"text and vectors of {calibration.model_id}" if calibration.model_id else "text"
    outdated = "; of an earlier version, not used: run 'kb calibrate'" if calibration.signal != SIGNAL_VERSION else ""
    return f"{calibration.threshold:.2f} by {signal}, from {', '.join(samples)}{outdated}"


def print_calibrations(calibrations: Iterable[DomainCalibration]) -> bool:
    """Print each domain's thresholds, or why it could not be calibrated; return whether all could be."""
    all_calibrated = True
    for result in calibrations:
        threshold = f"scope threshold of {result.domain}"
        if result.problem is not None:
            all_calibrated = False
            failure = f"the {threshold} could not be calibrated, a measured default is used: {result.problem}"
            note(f"warning: {failure}", style="yellow")
        elif not result.found:
            note(f"{threshold}: too few sentences to calibrate it, a measured default is used")
        for calibration in result.found:
            note(f"{threshold}: {calibration_text(calibration)}")
    return all_calibrated
