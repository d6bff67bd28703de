"""What a domain is taught from: a store with its vectors, and the judged questions of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.core.models import AccessScope, DomainSpec, HeldVectors
from context_engine.core.protocols import Embedder, Trainable
from context_engine.errors import ConfigError
from context_engine.evaluation.gold import holders
from context_engine.evaluation.qrels import positive, read_qrels
from context_engine.evaluation.questions import read_questions
from context_engine.learning.calibration import JudgedQuestion
from context_engine.wiring.build import source_opener
from context_engine.wiring.examine import opened_store, taught_source
from context_engine.wiring.setup import Setup

JUDGEMENTS: Final = "judgements.jsonl"
"""A file of the configuration folder: the questions of its domains that `eval judge` recorded."""

_MOST_JUDGED: Final = 200  # per domain, the latest: calibration searches each of them


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
def taught_base(setup: Setup, data_dir: Path, spec: DomainSpec, access: AccessScope | None) -> Iterator[TaughtBase]:
    """Yield the store of a domain with its vectors, to learn from: the embedded base, else the store of its first
    source.

    Args:
        spec: the domain, reduced to what the caller may know.
        access: the chunks that the caller may read; None: all.

    Raises:
        ConfigError: no embedder is configured, the store does not offer learning, or it holds no vectors of the domain.
    """
    models = setup.models(data_dir)
    embedder = models.embedder()
    if embedder is None:
        raise ConfigError(
            "an adapter maps the vectors of an embedding model, but none is configured: install an extra that brings "
            "one ('onnx' or 'embed'), name it as 'embedder' and run 'context-engine kb rebuild'",
            key="embedder",
        )
    first = taught_source(spec)
    sources = [source.id for source in spec.sources if source.adapter == first.adapter]
    opener = source_opener(setup, data_dir=data_dir, embedder=models.embedder)
    with opened_store(opener, spec, first, Trainable) as base:
        vectors = base.held_vectors(sources, access=access)
        if not vectors.chunks:
            raise ConfigError(f"the base holds no vectors of {spec.domain}: run 'context-engine kb rebuild'")
        yield TaughtBase(base, embedder, spec, sources, vectors, first.adapter)


def judged_questions(setup: Setup) -> Mapping[str, Sequence[JudgedQuestion]]:
    """Return for each domain the configuration's questions that are judged to have an answer.

    Raises:
        ConfigError: the file of judgements cannot be read.
    """
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
