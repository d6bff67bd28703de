"""What tests share: a clock that stands still, ids that count, an engine over plain functions."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import certifi
import pytest
from hypothesis import settings

from context_engine import demo
from context_engine.adapters.sources.callable import CallableSource
from context_engine.core.engine import Engine
from context_engine.core.models import (
    NOTHING,
    Chunk,
    DomainSpec,
    Notice,
    NoticeCode,
    Registry,
    Score,
    ScoreKind,
    SearchRequest,
    SearchResult,
    SourceSpec,
)
from context_engine.core.policy.access import AccessViews
from context_engine.service.deployment import Deployment
from context_engine.testing.fakes import ScriptedSource
from context_engine.wiring.setup import load_setup

# No deadline: tests assert behaviour, never time. The plain run tries few examples of a law, new ones each time; the
# project's check also tries many (`--hypothesis-profile=thorough`).
settings.register_profile("quick", deadline=None, max_examples=10)
settings.register_profile("thorough", deadline=None, max_examples=30)
settings.load_profile("quick")
NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
IN_MEMORY, ROOM = Path("/dev/shm"), 4 << 30
TYPES = ("system_of_record", "bank_sop", "industry_standard", "external_official", "general_web")


@pytest.fixture
def collector_off() -> Iterator[None]:
    """Turns the garbage collector off for a test that uses up the stack.

    A finalizer of another test's garbage would be run there, and fail for want of frames.
    """
    gc.disable()
    yield
    gc.enable()


class FixedClock:
    """Always 2026-03-02 10:00 UTC; seconds go on, so that time limits work."""

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return time.monotonic()


class CountingIds:
    """s-000001, s-000002 ..."""

    def __init__(self) -> None:
        self._count = count(1)

    def new(self, now: datetime) -> str:
        return f"s-{next(self._count):06d}"


def tier_spec(tier: int, source_id: str | None = None, **fields: Any) -> SourceSpec:
    """A source of a tier; its id is t1 ... t5 unless given."""
    return SourceSpec(id=source_id or f"t{tier}", type=TYPES[tier - 1], **fields)


def text_chunk(chunk_id: str, relevance: float | None = None, content: str | None = None, **fields: Any) -> Chunk:
    """A chunk of distinct text that says its relevance."""
    scores = () if relevance is None else (Score(ScoreKind.RELEVANCE, relevance),)
    fields.setdefault("scores", scores)
    return Chunk(content=content or f"Rule {chunk_id} on approval of {chunk_id}.", chunk_id=chunk_id, **fields)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reworded", action="store_true", help="every notice says its code alone: no logic may read it")


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # there is a worker for each core: more threads only wait
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")  # each of Tantivy's many threads would fetch memory anew
    if _room_in_memory():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))
    if config.getoption("reworded"):
        Notice.__new__ = _reworded  # type: ignore[method-assign]


def _room_in_memory() -> bool:
    """Whether the folders of tests can stand in memory, where nobody waits for a disk: a base or ledger syncs often."""
    try:
        there = os.statvfs(IN_MEMORY)
    except (AttributeError, OSError):  # not on Windows
        return False
    may_run = not there.f_flag & getattr(os, "ST_NOEXEC", 8)  # tests write scripts, and run them
    return may_run and there.f_bavail * there.f_frsize > ROOM and os.access(IN_MEMORY, os.W_OK)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        # The tests of servers come first, so that one worker has them all and starts each server once: the others take
        # over the last of its tests.
        items.sort(key=lambda item: "engines" not in item.path.parts)
    if config.getoption("reworded"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("wording")])
        items[:] = [item for item in items if not item.get_closest_marker("wording")]


def pytest_collection_finish() -> None:
    """Keep the collector away from fourteen thousand tests, which are no garbage: it takes an eighth of the run."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _reworded(
    cls: type[Notice], code: NoticeCode, subject: str, message: str, detail: Mapping[str, Any] = NOTHING
) -> Notice:
    """A notice whose message is its code; its detail holds what the code declares, and nothing else."""
    assert isinstance(message, str)
    if isinstance(code, NoticeCode) and code is not NoticeCode.SOURCE_NOTE:
        assert set(detail) <= set(code.fields), (code, detail)
    return tuple.__new__(cls, (code, subject, str(code), detail))


Given = Sequence[tuple[SourceSpec | int, Any]]


def build_engine(sources: Given, *, domain: str = "NPA", domain_fields: Any = None, **options: Any) -> Engine:
    """An engine over [(spec or tier, list of chunks, adapter function or Source)]."""
    specs: list[SourceSpec] = []
    opened: dict[str, Any] = {}
    for given, source in sources:
        spec = tier_spec(given) if isinstance(given, int) else given
        specs.append(spec)
        if isinstance(source, list | tuple):
            source = CallableSource(lambda _query, _domain, _top_k, chunks=source: list(chunks), spec.id)
        elif callable(source):
            source = CallableSource(source, spec.id)
        opened[spec.id] = source
    known = DomainSpec(version=1, domain=domain, sources=tuple(specs), **(domain_fields or {}))
    options.setdefault("clock", FixedClock())
    options.setdefault("ids", CountingIds())
    return Engine(Registry(domains={domain: known}), lambda _domain, spec: opened[spec.id], **options)


def search_once(given: Given, query: str = "approval rule", engine: Any = None, **options: Any) -> SearchResult:
    """Search [(spec or tier, chunks)] once; the other keywords are settings, or fields of the request."""
    fields = {key: options.pop(key) for key in list(options) if key in SearchRequest.__dataclass_fields__}
    request = SearchRequest(query=query, domain="NPA", overrides=options, **fields)
    with build_engine(given, **(engine or {})) as made:
        return made.search(request)


@pytest.fixture(scope="session", autouse=True)
def given_environment() -> Iterator[Mapping[str, str]]:
    """The environment as it was; in it, and for clients here, one made-up authority stands for those of the web.

    No test asks a server of the web, and each client would take 25 ms to read the authorities of the web.
    """
    given, authority = dict(os.environ), str(Path(__file__).with_name("data") / "authority.pem")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", authority)
        patch.setattr(certifi, "where", lambda: authority)
        yield given


@pytest.fixture(scope="session")
def now() -> datetime:
    return NOW


@pytest.fixture(scope="session")
def spec_of() -> Callable[..., SourceSpec]:
    return tier_spec


@pytest.fixture(scope="session")
def chunk_of() -> Callable[..., Chunk]:
    return text_chunk


@pytest.fixture(scope="session")
def make_engine() -> Callable[..., Engine]:
    return build_engine


@pytest.fixture(scope="session")
def ask() -> Callable[..., SearchResult]:
    return search_once


Domains = Mapping[str, Sequence[tuple[Mapping[str, Any], Any]]]


def _opened(what: Any, source_id: str) -> Any:
    if isinstance(what, list | tuple | Exception):
        chunks = () if isinstance(what, Exception) else what
        error = what if isinstance(what, Exception) else None
        return ScriptedSource(source_id, chunks, error=error)
    return what


@pytest.fixture(scope="session")
def make_deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Deployment]]:
    """A deployment of {domain: [(row of the manifest, chunks, error or Source)]}.

    `domain_fields` are more keys of its manifest by domain, `config` files of `config/` by name; the rest is the
    engine's.
    """
    made: list[Deployment] = []

    def make(domains: Domains, *, domain_fields: Any = None, config: Any = None, **options: Any) -> Deployment:
        folder = tmp_path_factory.mktemp("deployment")
        for name in ("config", "manifests"):
            (folder / name).mkdir()
        for name, sources in domains.items():
            rows = [dict(row) for row, _ in sources]
            manifest = {"version": 1, "domain": name, "sources": rows, **(domain_fields or {}).get(name, {})}
            (folder / "manifests" / f"{name.lower()}.yaml").write_text(json.dumps(manifest), "utf-8")
        for name, held in (config or {}).items():
            (folder / "config" / name).write_text(json.dumps(held), "utf-8")
        opened = {(name, row["id"]): _opened(what, row["id"]) for name, rows in domains.items() for row, what in rows}
        setup = load_setup(config_dir=folder, env={"HOME": str(folder)}, cwd=folder)
        engine = Engine(
            setup.registry,
            lambda domain, spec: opened[domain.domain, spec.id],
            **{
                "resolve": setup.resolver.resolve,
                "clock": FixedClock(),
                "ids": CountingIds(),
                "access": setup.access,
                "mask": setup.mask(),
                **options,
            },
        )
        views = AccessViews(setup.registry, setup.access)
        made.append(Deployment(setup=setup, engine=engine, views=views, data_dir=folder))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="session")
def demo_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's data folder in which the demo bank is built; to be read, and copied by whoever writes.

    Of the workers of a run one builds it for all.
    """
    place = tmp_path_factory.getbasetemp()
    folder = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "demo-bank"
    folder.mkdir(exist_ok=True)
    setup = load_setup(manifest_dir=demo.MANIFESTS, env={"HOME": str(folder)}, cwd=folder)
    demo.ensure_base(folder / "data", setup.registry)
    return folder / "data"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Any]:
    """A PostgreSQL of this test run alone; whoever asks for it is a slow test."""
    spec = importlib.util.spec_from_file_location("postgresql_server", Path(__file__).with_name("postgresql_server.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.PostgresqlServer() as server:
        yield server


@pytest.fixture
def redis_server() -> Iterator[Any]:
    """A Redis of one test alone; whoever asks for it is a slow test."""
    spec = importlib.util.spec_from_file_location("redis_server", Path(__file__).with_name("redis_server.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not module.RedisServer.installed():
        pytest.skip("redis-server is not installed")
    with module.RedisServer() as server:
        yield server


@pytest.fixture
def witness_server() -> Iterator[Any]:
    """A witness of transparency logs on loopback; it cosigns for the logs whose keys it is told to trust."""
    spec = importlib.util.spec_from_file_location("witness_server", Path(__file__).with_name("witness_server.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.WitnessServer() as server:
        yield server


@pytest.fixture(scope="session")
def identity() -> Any:
    """Keys and tokens of an OpenID Connect provider; see `identity_provider.py`."""
    spec = importlib.util.spec_from_file_location("identity_provider", Path(__file__).with_name("identity_provider.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def provider(identity: Any) -> Iterator[Any]:
    """The provider's server on loopback."""
    with identity.IdentityProvider() as server:
        yield server


@pytest.fixture(scope="session")
def chats() -> Any:
    """Answers of chat models in the forms of their APIs, and the server that gives them; see `chat_server.py`."""
    spec = importlib.util.spec_from_file_location("chat_server", Path(__file__).with_name("chat_server.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def chat_server(chats: Any) -> Iterator[Any]:
    """That server on loopback."""
    with chats.ChatServer() as server:
        yield server


@pytest.fixture
def file_server_at() -> Iterator[Any]:
    """(address of this machine) -> a server there that gives files as Dify does; see `file_server.py`."""
    spec = importlib.util.spec_from_file_location("file_server", Path(__file__).with_name("file_server.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with ExitStack() as opened:
        yield lambda host: opened.enter_context(module.FileServer(host))


@pytest.fixture
def file_server(file_server_at: Any) -> Any:
    """That server on loopback."""
    return file_server_at("127.0.0.1")
