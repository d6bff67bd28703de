"""FakeDify: declare datasets, or take the demo bank as datasets, one for each source; get a base URL and a key."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_letters, digits
from types import TracebackType
from typing import Any, Final, Self

import yaml

from context_engine.core.models import Chunk, DomainSpec, SourceSpec, SourceType
from context_engine.errors import nearest
from context_engine.ingest.run import ingest
from context_engine.testing.fake_dify.app import DifyApp, RateWindow
from context_engine.testing.fake_dify.data import FakeDataset, FakeDocument, FakeSegment, Model
from context_engine.testing.fake_dify.external import register_external
from context_engine.testing.fake_dify.faults import FAULTS, Endpoint, Fault, Injection
from context_engine.testing.fake_dify.retrieve import Behaviour
from context_engine.testing.fake_dify.search import WorkspaceModels
from context_engine.testing.fake_dify.server import FakeDifyServer, FakeRequest
from context_engine.testing.fake_dify.stored import HeldDataset
from context_engine.testing.fake_dify.writes import DatasetWriter

_TYPED_SINCE, _DROPPED_IN, _MODERN_SINCE = (1, 13), (1, 13), (1, 14)
_JSON_PROBE_SINCE = (1, 17)  # 1.16.0 sends an empty body
_FIRST_CREATED: Final = 1_767_225_600  # 2026-01-01T00:00:00Z; each further dataset a second later
_RERANKER: Final[Model] = ("langgenius/fake/fake", "fake-rerank")
_DEMO: Final = Path(__file__).resolve().parents[2] / "demo"


class FakeDify:
    """A Dify Service API for tests: a real HTTP server on the loopback interface, on any free port.

        rules = FakeDataset("Rules", documents=[FakeDocument("R1", ["Keep records for seven years."])])
        with FakeDify([rules]) as dify:
            ...  # dify.base_url, dify.api_key, dify.dataset_id("Rules")

    It answers as Dify 1.12.1 was observed to answer, including its oddities: keyword search without scores or order,
    hybrid search without a reranker on mixed scales, 400 for outages, ignored filters. Only the scores differ from
    Dify's: vectors are hashed words.

    Args:
        datasets: the content; their names must differ.
        api_key: None: a random one.
        version: the value of X-Version. "1.13.x" checks the types of the retrieval model (400, not 500) and silently
            ignores metadata filters; since "1.14" filters work, lists are never null, pages have the right total,
            a deletion answers 204, and the key is checked before the dataset, as observed of 1.14.2.
        seed: decides the order of keyword search, and the cut among equals.
        rate_limit: searches and changes allowed in 60 s, counting refused ones; None: no limit.
        clock: seconds for the rate limit and for indexing.
        indexing_s: seconds until a new document can be found.
        drop_filters: whether metadata filters are ignored; None: as in the version.
        cookies: whether to set a cookie that holds the key, as one fork of Dify does.
        rerankers: working models besides those that the datasets name.
        port: 0: any free port.
    """

    def __init__(
        self,
        datasets: Sequence[FakeDataset] = (),
        *,
        api_key: str | None = None,
        version: str = "1.12.1",
        seed: int = 0,
        rate_limit: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        indexing_s: float = 0.05,
        drop_filters: bool | None = None,
        cookies: bool = False,
        rerankers: Collection[Model] = (),
        port: int = 0,
    ) -> None:
        self.api_key = api_key or "dataset-" + "".join(secrets.choice(ascii_letters + digits) for _ in range(24))
        release = tuple(int(part) for part in version.split(".")[:2])
        modern = release >= _MODERN_SINCE
        self._probes_with_json = release >= _JSON_PROBE_SINCE
        how = Behaviour(
            typed=release >= _TYPED_SINCE,
            modern=modern,
            unnamed=version == "1.14.1",
            drop_filters=release == _DROPPED_IN if drop_filters is None else drop_filters,
            seed=seed,
        )
        self._clock = clock
        datasets_by_id: dict[str, HeldDataset] = {}
        self._app = DifyApp(
            datasets=datasets_by_id,
            api_key=self.api_key,
            how=how,
            models=WorkspaceModels(rerankers=frozenset(rerankers), embeddings=frozenset()),
            window=RateWindow(rate_limit, clock),
            writer=DatasetWriter(datasets_by_id, clock, indexing_s, modern=modern),
        )
        for dataset in datasets:
            self.put(dataset)
        self._headers: tuple[tuple[str, str], ...] = (
            ("Server", "gunicorn"),
            ("Connection", "keep-alive"),
            ("X-Version", version),
            ("X-Env", "PRODUCTION"),
        )
        if cookies:
            self._headers += (("Set-Cookie", f"x-token={self.api_key}; Path=/; HttpOnly"),)
        self._port = port
        self._server: FakeDifyServer | None = None
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"FakeDify({len(self._app.datasets)} datasets)"

    @classmethod
    def demo(cls, **options: Any) -> Self:
        """Return a server of the demo bank, with one dataset per source, named by its id; options as for FakeDify."""
        return cls(demo_datasets(), **options)

    def put(self, dataset: FakeDataset) -> None:
        """Add a dataset, or replace the one with its id."""
        known = self._app.datasets
        created = known[dataset.dataset_id].created_at if dataset.dataset_id in known else _FIRST_CREATED + len(known)
        known[dataset.dataset_id] = HeldDataset(dataset, created, self._clock)
        models = self._app.models
        reranker = {dataset.reranker} if dataset.reranker else set()
        self._app.models = WorkspaceModels(
            rerankers=frozenset({*models.rerankers, *reranker}),
            embeddings=frozenset({*models.embeddings, dataset.embedding_model}),
        )

    @property
    def dataset_ids(self) -> dict[str, str]:
        """The id of each dataset by its name."""
        return {stored.dataset.name: identity for identity, stored in self._app.datasets.items()}

    def dataset_id(self, name: str) -> str:
        """Return the id of the dataset with a name.

        Raises:
            KeyError: no dataset has this name.
        """
        ids = self.dataset_ids
        if name not in ids:
            raise KeyError(f"no dataset {name!r}.{nearest(name, ids)}")
        return ids[name]

    def documents(self, name: str) -> list[FakeDocument]:
        """Return the documents that the dataset with a name holds now, in the order of creation.

        Raises:
            KeyError: no dataset has this name.
        """
        dataset = self._app.datasets[self.dataset_id(name)]
        if self._server is None:
            return dataset.documents
        with self._server.lock:
            return dataset.documents

    def register_external_knowledge(self, endpoint: str, api_key: str) -> int:
        """Register an External Knowledge API as Dify's console does; return the status of its answer to the probe.

        Args:
            endpoint: the URL without "/retrieval".

        Raises:
            RegistrationRefused: Dify refuses it; the message is Dify's.
        """
        return register_external(endpoint, api_key, modern=self._probes_with_json)

    def inject(
        self,
        fault: str | Fault,
        *,
        dataset: str | None = None,
        endpoint: Endpoint | None = None,
        calls: Collection[int] | None = None,
        delay_s: float | None = None,
    ) -> None:
        """Inject a fault from now on. If several apply to a call, the first injected one takes effect.

        Args:
            fault: a name in FAULTS, or your own fault.
            dataset: name or id; None: every dataset.
            endpoint: None: all endpoints.
            calls: numbers of the affected calls, from 1; None: all. With `calls={1}` only the first call fails.
            delay_s: seconds to wait instead of the fault's `delay_s`.
        """
        chosen = FAULTS[fault] if isinstance(fault, str) else fault
        if delay_s is not None:
            chosen = replace(chosen, delay_s=delay_s)
        ids = self._app.datasets
        identity = dataset if dataset is None or dataset in ids else self.dataset_id(dataset)
        server = self._running()
        with server.lock:
            server.injections.append(Injection(chosen, identity, endpoint, calls))

    def heal(self) -> None:
        """Remove all faults."""
        server = self._running()
        with server.lock:
            server.injections.clear()

    @property
    def base_url(self) -> str:
        """http://127.0.0.1:PORT, without /v1."""
        return f"http://127.0.0.1:{self._running().server_address[1]}"

    @property
    def requests(self) -> tuple[FakeRequest, ...]:
        """All requests in order of arrival."""
        server = self._running()
        with server.lock:
            return tuple(server.requests)

    @property
    def most_connections(self) -> int:
        """The highest number of connections open at the same time."""
        return self._running().most_connections

    @property
    def most_busy(self) -> int:
        """The highest number of requests answered at the same time."""
        return self._running().most_busy

    def start(self) -> Self:
        """Start to listen; the `with` statement does this."""
        self._server = FakeDifyServer(self._port, self._app, self._headers)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True, name="fake-dify")
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close every connection; further calls are refused by the operating system."""
        server, self._server = self._server, None
        if server is not None and self._thread is not None:
            server.close()
            self._thread.join(5)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _running(self) -> FakeDifyServer:
        if self._server is None:
            raise RuntimeError("FakeDify is not running: use it in a with statement, or call start()")
        return self._server


def demo_datasets() -> list[FakeDataset]:
    """Return the bank's 20 sources, each named by its source id.

    Registers are economy datasets; procedures are high-quality with a reranker, all others high-quality without.
    """
    specs = [spec for path in sorted((_DEMO / "manifests").glob("*.yaml")) for spec in _domain(path).sources]
    documents = _Documents()
    ingest(_DEMO / "bank", specs, documents)
    return [_dataset(spec, documents.of(spec.id)) for spec in specs]


def _domain(path: Path) -> DomainSpec:
    return DomainSpec.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


class _Documents:
    """A sink that collects the chunks of `ingest`."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[str, str, str], Sequence[Chunk]] = {}

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        """Keep a document's chunks."""
        self._chunks[source_id, document_id, version] = chunks
        return True

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        """Drop a document."""
        return self._chunks.pop((source_id, document_id, version), None) is not None

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return {}: every document is new."""
        return {}

    def commit(self) -> None:
        """Do nothing."""

    def of(self, source_id: str) -> list[Sequence[Chunk]]:
        """Return the documents of a source."""
        return [chunks for (source, _, _), chunks in self._chunks.items() if source == source_id and chunks]


def _dataset(spec: SourceSpec, documents: Sequence[Sequence[Chunk]]) -> FakeDataset:
    return FakeDataset(
        spec.id,
        "economy" if spec.type is SourceType.SYSTEM_OF_RECORD else "high_quality",
        [_document(spec, chunks) for chunks in documents],
        description=spec.title,
        reranker=_RERANKER if spec.type is SourceType.BANK_SOP else None,
    )


def _document(spec: SourceSpec, chunks: Sequence[Chunk]) -> FakeDocument:
    first = chunks[0]
    fields: dict[str, Any] = {
        "document_id": first.document_id,
        "version": first.document_version,
        "doc_type": first.doc_type,
        "source_type": spec.type.value,
        "authority_tier": spec.tier,
        "effective_from": first.effective_from and first.effective_from.isoformat(),
        "effective_to": first.effective_to and first.effective_to.isoformat(),
        "superseded_by": first.superseded_by,
        "owner": first.metadata.get("owner"),
    }
    name = " ".join(part for part in (first.document_id, first.document_version, first.title) if part)
    return FakeDocument(
        name,
        [FakeSegment(chunk.content) for chunk in chunks],
        {key: value for key, value in fields.items() if value is not None},
    )
