"""Opening the embedded base for commands, and calibrating its scope thresholds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from context_engine.apps.cli.console import note
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context
from context_engine.apps.cli.words import counted
from context_engine.core.models import ScopeCalibration
from context_engine.core.ranking.scope import SIGNAL_VERSION
from context_engine.errors import ConfigError

if TYPE_CHECKING:
    from context_engine.core.models import DomainSpec, HeldVectors
    from context_engine.core.protocols import Embedder, Trainable
    from context_engine.learning.calibration import JudgedQuestion
    from context_engine.wiring.embedded_base import LocalBase
    from context_engine.wiring.scope import DomainCalibration
    from context_engine.wiring.setup import Setup

JUDGEMENTS: Final = "judgements.jsonl"
"""A file of the configuration folder: the questions of its domains that `eval judge` recorded."""

_MOST_JUDGED: Final = 200  # per domain, the latest: calibration searches each of them


@contextmanager
def opened_base(location: ConfigLocation, *, embedder: bool = False) -> Iterator[LocalBase]:
    """Yield the base of the data folder; the demo's if there is neither a base nor a domain.

    Args:
        embedder: also open the configured embedder, and place all sources in their partitions.

    Raises:
        StoreError: there is no base.
        ConfigError: the embedder is unusable.
    """
    from context_engine.wiring.embedded_base import base_as_it_is, no_base
    from context_engine.wiring.sinks import configured_base

    path = _base_path(location)
    if embedder:
        setup = location.load()
        opened = configured_base(setup, path, setup.models(location.data_dir))
    else:
        opened = base_as_it_is(path)
    with opened as base:
        if not base.exists():
            raise no_base(base.path)
        yield base


def _base_path(location: ConfigLocation) -> Path:
    from context_engine.settings import find_config, find_data_dir
    from context_engine.wiring.embedded_base import base_as_it_is, base_path

    env, cwd = os.environ, Path.cwd()
    paths = find_config(location.config_dir, env=env, cwd=cwd)
    path = base_path(find_data_dir(location.data_dir, env=env, cwd=cwd, paths=paths))
    return path if base_as_it_is(path).exists() else open_context(location, operator=True).base


class TaughtBase(NamedTuple):
    """A store opened with its embedder, to learn from.

    Attributes:
        domain: reduced to what the caller may know.
        sources: ids of the domain's sources in the store.
        held: the sources' chunks and vectors.
    """

    base: Trainable
    embedder: Embedder
    domain: DomainSpec
    sources: list[str]
    held: HeldVectors
    adapter: str


@contextmanager
def taught_base(context: CliContext, domain: str) -> Iterator[TaughtBase]:
    """Yield the store of a domain with its vectors, to learn from: the embedded base, else the store of its first
    source.

    Raises:
        ConfigError: no embedder is configured, the store does not offer learning, or it holds no vectors of the domain.
    """
    from context_engine.core.protocols import Trainable
    from context_engine.wiring.build import source_opener
    from context_engine.wiring.embedded_base import EMBEDDED
    from context_engine.wiring.examine import opened_store

    models = context.setup.models(context.data_dir)
    embedder = models.embedder()
    if embedder is None:
        raise ConfigError(
            "an adapter maps the vectors of an embedding model, but none is configured: install an extra that brings "
            "one ('onnx' or 'embed'), name it as 'embedder' and run 'context-engine kb rebuild'",
            key="embedder",
        )
    spec = context.registry.domain(domain)
    first = min(spec.sources, key=lambda source: source.adapter != EMBEDDED)
    sources = [source.id for source in spec.sources if source.adapter == first.adapter]
    opener = source_opener(context.setup, data_dir=context.data_dir, embedder=models.embedder)
    with opened_store(opener, spec, first, Trainable) as base:
        held = base.held_vectors(sources, access=context.scope)
        if not held.chunks:
            raise ConfigError(f"the base holds no vectors of {domain}: run 'context-engine kb rebuild'")
        yield TaughtBase(base, embedder, spec, sources, held, first.adapter)


def calibration_text(calibration: ScopeCalibration) -> str:
    """Return a threshold, what it applies to and what it was calibrated with, as one line."""
    samples = [f"{calibration.own} sentences and headings", f"{calibration.outside} off-topic questions"]
    samples += [counted(calibration.judged, "judged question")] if calibration.judged else []
    signal = f"text and vectors of {calibration.model_id}" if calibration.model_id else "text"
    outdated = "; of an earlier version, not used: run 'kb calibrate'" if calibration.signal != SIGNAL_VERSION else ""
    return f"{calibration.threshold:.2f} by {signal}, from {', '.join(samples)}{outdated}"


def judged_questions(setup: Setup) -> Mapping[str, Sequence[JudgedQuestion]]:
    """Return for each domain the configuration's questions that are judged to have an answer.

    Raises:
        ConfigError: the file of judgements cannot be read.
    """
    from context_engine.evaluation.gold import holders
    from context_engine.evaluation.qrels import positive, read_qrels
    from context_engine.evaluation.questions import read_questions
    from context_engine.learning.calibration import JudgedQuestion

    path = setup.config.paths.config_file(JUDGEMENTS)
    if path is None:
        return {}
    by_domain: dict[str, list[JudgedQuestion]] = {}
    answers = positive(read_qrels(path))
    for question in read_questions(path):
        if question.domain is not None and question.id in answers:
            judged = JudgedQuestion(question.text, holders(answers[question.id]))
            by_domain.setdefault(question.domain, []).append(judged)
    return {domain: questions[-_MOST_JUDGED:] for domain, questions in by_domain.items()}


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
