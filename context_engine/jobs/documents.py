"""A job's documents: in a base of their own, searched by the job alone, as one more source of its domain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.adapters.sources.adapter import SinkOptions
from context_engine.adapters.token_counters import open_counter
from context_engine.core.models import NOTHING, Chunk, SourceSpec, SourceType, TrustClass
from context_engine.core.policy.access import AccessViews
from context_engine.core.protocols import Listable
from context_engine.errors import SourceNotFound, StoreError
from context_engine.ingest.reading import IngestOptions
from context_engine.ingest.report import IngestReport
from context_engine.ingest.run import ingest
from context_engine.service.deployment import Deployment
from context_engine.wiring.build import build_engine, source_opener
from context_engine.wiring.embedded_base import base_path, in_embedded_base
from context_engine.wiring.setup import Setup, configured_policy
from context_engine.wiring.sinks import open_sink

_NOT_CACHED: Final = {"cache_ttl_s": 0}
"""A cache that several processes share would keep a job's texts after the job is deleted."""

Progress = Callable[[int, int, str], None]


class JobPlace(NamedTuple):
    """Where the documents of a job lie.

    Attributes:
        source: of the documents, in this job alone.
        folder: of an embedded base, and for the files that the job's models keep.
    """

    source: SourceSpec
    folder: Path


class JobDocument(NamedTuple):
    """A document of a job, in all its versions."""

    document_id: str
    title: str
    chunks: int


def job_source(
    job_id: str, adapter: str, *, connection: str | None = None, settings: Mapping[str, str] = NOTHING
) -> SourceSpec:
    """Return the source of a job's documents.

    Args:
        adapter, connection, settings: say where they lie.

    They come from outside and nobody has vouched for them, so they stand behind the bank's own sources, and a model
    reads them in fences. The title stands in records that are never erased, so it tells nothing of the job.
    """
    return SourceSpec(
        id=job_id,
        title="Documents of the job",
        type=SourceType.EXTERNAL_OFFICIAL,
        trust_class=TrustClass.UNTRUSTED,
        adapter=adapter,
        connection=connection,
        settings=settings,
    )


def job_setup(setup: Setup, domain: str, source: SourceSpec) -> Setup:
    """Return the configuration of a job: its domain alone, with the job's documents as a further source.

    Raises:
        UnknownDomain: the domain is no longer registered.
        ConfigError: the domain or the access policy cannot be used.
    """
    spec = setup.registry.domain(domain)
    extended = spec.model_copy(update={"sources": (*spec.sources, source)})
    registry = setup.registry.only({domain: extended})
    own = replace(setup, registry=registry, access=configured_policy(setup.config, registry))
    return own.with_pipeline(_NOT_CACHED)


def add_documents(
    setup: Setup, domain: str, place: JobPlace, path: Path, progress: Progress | None = None
) -> IngestReport:
    """Write the documents of a folder, or one file, to the base of a job.

    Args:
        path: the documents.

    Raises:
        InvalidRequest: the path does not exist.
        StoreError: the base cannot be written, or another process writes to it.
        SourceError: the server that has the base failed.
    """
    source, folder = place
    own = job_setup(setup, domain, source)
    spec = own.registry.domain(domain)
    effective = own.resolver.base(spec)
    options = IngestOptions(
        strategies=own.config.chunking,
        max_chunk_tokens=effective.chunk_limit,
        counter=open_counter(effective.values.token_counter, env=own.env),
        settings=own.config.ingest,
    )
    embedder = own.models(folder).embedder
    with open_sink(own, spec, [source], source.adapter, SinkOptions(), data_dir=folder, embedder=embedder) as sink:
        return ingest(path, [source], sink, source_id=source.id, options=options, progress=progress)


def documents_of(setup: Setup, domain: str, place: JobPlace) -> list[JobDocument]:
    """Return the documents of a job by their ids; none if it has no base yet.

    Raises:
        StoreError, SourceError: the base cannot be read.
    """
    source, folder = place
    if in_embedded_base(source) and not base_path(folder).is_dir():
        return []
    own = job_setup(setup, domain, source)
    opener = source_opener(own, data_dir=folder, embedder=lambda: None)
    with closing(opener.open(own.registry.domain(domain), source)) as opened:
        if not isinstance(opened, Listable):
            raise StoreError("the documents of a job cannot be listed")
        try:
            return _counted(opened.list_chunks())
        except SourceNotFound:
            return []


def _counted(chunks: Iterable[Chunk]) -> list[JobDocument]:
    counts: dict[str, JobDocument] = {}
    for chunk in chunks:
        known = counts.get(chunk.document_id or "", JobDocument(chunk.document_id or "", chunk.title or "", 0))
        counts[known.document_id] = known._replace(chunks=known.chunks + 1)
    return [counts[document_id] for document_id in sorted(counts)]


@contextmanager
def job_deployment(deployment: Deployment, domain: str, place: JobPlace) -> Iterator[Deployment]:
    """Yield a deployment that searches the domain of a job and its documents, with the same ledger and costs.

    Raises:
        UnknownDomain, ConfigError: see `job_setup`.
    """
    source, folder = place
    setup = job_setup(deployment.setup, domain, source)
    data_dir = setup.data_dir(deployment.data_dir)
    engine = build_engine(setup, data_dir=data_dir, models=setup.models(folder), folders={source.id: folder})
    views = AccessViews(setup.registry, setup.access)
    made = Deployment(setup=setup, engine=engine, views=views, data_dir=data_dir, demo=deployment.demo)
    with closing(made):
        yield made
