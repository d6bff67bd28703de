"""One way to know whether a source can be searched: examined where its adapter can, else tried with a sample query."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from context_engine.adapters.sources.adapter import SourceAdapter, source_adapter
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Examination,
    ExaminationRequest,
    ScoreKind,
    SourceAnswer,
    SourceQuery,
    notices_about,
)
from context_engine.core.protocols import Examinable, Listable
from context_engine.errors import ConfigError, SourceUnavailable
from context_engine.wiring.adapters import SOURCES, load_source_adapter
from context_engine.wiring.build import source_opener
from context_engine.wiring.check import check
from context_engine.wiring.examine import ExaminedSource, adapter_advice, examine_source, listed_chunks
from context_engine.wiring.setup import load_setup
from context_engine.wiring.sinks import sink_names


class Plain:
    """Searches, and nothing more."""

    score_kinds = frozenset({ScoreKind.UNKNOWN})
    answer = SourceAnswer(chunks=(Chunk("a", "1"), Chunk("b", "2")))

    def __init__(self) -> None:
        self.source_id, self.queries, self.closed = "one", list[SourceQuery](), 0

    def search(self, query: SourceQuery) -> SourceAnswer:
        self.queries.append(query)
        return self.answer

    def close(self) -> None:
        self.closed += 1


class Examined(Plain):
    """Tells what it is told to tell."""

    result: Examination | Exception = Examination(kind="shelf", documents=3)

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[ExaminationRequest] = []

    def examine(self, request: ExaminationRequest) -> Examination:
        self.requests.append(request)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def list_chunks(self) -> Iterator[Chunk]:
        yield from self.answer.chunks


Examine = Callable[..., tuple[ExaminedSource, Any]]


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Publish an adapter `shelf` and write a manifest for it."""

    def publish(adapter: Any, source: str = "", settings: str = "{}") -> None:
        package = ModuleType("shelf_package")
        package.__dict__["open_shelf"] = adapter
        monkeypatch.setitem(sys.modules, "shelf_package", package)
        point = EntryPoint("shelf", "shelf_package:open_shelf", SOURCES)
        monkeypatch.setattr(
            "context_engine.wiring.adapters.entry_points", lambda *, group: [point] if group == SOURCES else []
        )
        (tmp_path / "manifests").mkdir(exist_ok=True)
        (tmp_path / "manifests/npa.yaml").write_text(
            "version: 1\ndomain: NPA\nsources:\n  - {id: one, type: bank_sop, adapter: shelf" + source + "}\n"
            f"settings: {settings}\n"
        )

    return publish


@pytest.fixture
def examine(published: Callable[..., None], tmp_path: Path) -> Examine:
    def run(
        source: Any, *, adapter: Any = None, query: str | None = "limit", **more: Any
    ) -> tuple[ExaminedSource, Any]:
        published(adapter or (lambda _spec, _context: source), more.pop("manifest", ""))
        opener = source_opener(load_setup(env={}, cwd=tmp_path), data_dir=tmp_path / "data")
        domain = opener.setup.registry.domain("NPA")
        report = examine_source(opener, domain, domain.sources[0], query=query, **{"timeout_s": 5.0, **more})
        return report, source

    return run


def test_what_a_source_can_do_is_seen_by_its_methods() -> None:
    assert (isinstance(Plain(), Examinable), isinstance(Plain(), Listable)) == (False, False)
    assert (isinstance(Examined(), Examinable), isinstance(Examined(), Listable)) == (True, True)


def test_a_source_that_only_searches_is_asked_the_sample_query(examine: Examine) -> None:
    report, source = examine(Plain())
    assert (report.ok, report.examinable, report.problem) == (True, False, None)
    assert report.examination == Examination(records=2)
    assert [query.text for query in source.queries] == ["limit"] and source.closed == 1


@pytest.mark.parametrize("kind", [Plain, Examined])
def test_it_is_asked_for_those_who_are_told_of_it(examine: Examine, kind: type[Plain]) -> None:
    scope = AccessScope(rules=frozenset({"board"}))
    _, source = examine(kind(), access=scope)
    assert [one.access for one in (*source.queries, *getattr(source, "requests", ()))] == [scope]


def test_without_a_sample_query_it_is_opened_alone(examine: Examine) -> None:
    report, source = examine(Plain(), query=None)
    assert (report.ok, source.queries, source.closed) == (True, [], 1)


def test_an_examinable_source_is_never_searched_behind_its_back(examine: Examine) -> None:
    report, source = examine(Examined(), quick=True, manifest=", timeout_s: 4")
    assert report.examination == Examination(kind="shelf", documents=3)
    assert (report.examinable, source.queries, source.closed) == (True, [], 1)
    (request,) = source.requests
    assert request == ExaminationRequest(domain="NPA", query="limit", quick=True, timeout_s=5.0, search_timeout_s=4.0)


@pytest.mark.wording
def test_its_problems_are_the_reports(examine: Examine) -> None:
    source = Examined()
    source.result = Examination(problems=notices_about("one", "the shelf is empty", "the lamp is broken"))
    report, _ = examine(source)
    assert (report.ok, report.problem) == (False, "the shelf is empty; the lamp is broken")


@pytest.mark.parametrize(
    ("result", "remarks"),
    [
        (Examination(documents=0, records=0), [r"holds no document"]),
        (Examination(documents=3, records=0), [r"'limit' found nothing in it.*--query"]),
        (Examination(documents=3, records=1), []),
        (Examination(documents=3, records=0, problems=notices_about("one", "gone")), []),
        (
            Examination(parts=(Examination(id="a", records=0), Examination(id="b", records=1))),
            [r"'limit' found nothing"],
        ),
    ],
)
@pytest.mark.wording
def test_a_source_that_gives_nothing_says_so(examine: Examine, result: Examination, remarks: list[str]) -> None:
    source = Examined()
    source.result = result
    report, _ = examine(source)
    assert report.examination is not None
    warnings = [note.message for part in (report.examination, *report.examination.parts) for note in part.warnings]
    assert len(warnings) == len(remarks)
    assert all(re.search(remark, warning) for remark, warning in zip(remarks, warnings, strict=True))


def test_one_part_that_cannot_be_searched_makes_it_bad(examine: Examine) -> None:
    source = Examined()
    source.result = Examination(parts=(Examination(id="a"), Examination(id="b", problems=notices_about("b", "gone"))))
    report, _ = examine(source)
    assert (report.ok, report.problem) == (False, None), "the part says so itself"


def test_an_examination_that_raises_is_a_problem_and_the_source_is_closed(examine: Examine) -> None:
    source = Examined()
    source.result = SourceUnavailable("the key is with the porter")
    report, _ = examine(source)
    assert (report.ok, report.problem, source.closed) == (False, "the key is with the porter", 1)
    source.result = RuntimeError("password=hunter2")
    report, _ = examine(source)
    assert "RuntimeError" in str(report.problem) and "hunter2" not in str(report.problem)


def test_nobody_waits_longer_than_for_all_of_it(examine: Examine) -> None:
    released = threading.Event()

    class Hanging(Examined):
        def examine(self, request: ExaminationRequest) -> Examination:
            released.wait()
            return Examination()

    try:
        report, _ = examine(Hanging(), most_s=0.2)
    finally:
        released.set()
    assert (report.ok, report.problem, report.examinable) == (False, "no answer within 0.2 s", True)


@pytest.mark.parametrize(
    ("documents", "problems", "state"), [(0, (), "empty"), (None, (), "ok"), (0, notices_about("x", "gone"), "failed")]
)
def test_the_state_of_an_examination(documents: int | None, problems: Any, state: str) -> None:
    assert Examination(documents=documents, problems=problems).state == state


def test_an_adapter_speaks_of_the_servers_behind_all_its_sources_once(published: Callable[..., None]) -> None:
    heard: list[Any] = []

    def advise(examined: Any) -> list[str]:
        heard.append(examined)
        return ["the shelf server is old"]

    published(source_adapter(advise=advise)(lambda _spec, _context: Examined()))
    found = Examination(documents=1)
    reports = [
        ExaminedSource(domain="A", source_id="one", adapter="shelf", examination=found),
        ExaminedSource(domain="B", source_id="two", adapter="shelf", problem="cannot be opened"),
        ExaminedSource(domain="C", source_id="", adapter="", problem="a variable is missing"),
        ExaminedSource(domain="D", source_id="x", adapter="not-installed", problem="unknown adapter"),
    ]
    assert list(adapter_advice(reports)) == ["the shelf server is old"]
    assert heard == [[("A", found)]]


def test_a_plain_function_is_an_adapter_that_offers_nothing_more(published: Callable[..., None]) -> None:
    published(lambda _spec, _context: Plain())
    adapter = load_source_adapter("shelf")
    assert isinstance(adapter, SourceAdapter)
    assert (adapter.check, adapter.open_sink, adapter.repairs, adapter.advise) == (None, None, False, None)
    assert sink_names(["dify", "local", "not-installed", "shelf"]) == ["dify", "local"]
    assert sink_names(["dify", "local"], repairs=True) == ["dify"]


def test_config_check_asks_the_adapter(published: Callable[..., None], tmp_path: Path) -> None:
    def refuse(spec: Any) -> None:
        raise ConfigError("the shelf has no such row", key=f"sources.{spec.id}.settings.row")

    published(source_adapter(check=refuse)(lambda _spec, _context: Plain()))
    report = check(load_setup(env={}, cwd=tmp_path).config.paths, env={})
    assert [str(one) for one in report.problems] == [
        "manifests/npa.yaml: sources.one.settings.row: the shelf has no such row"
    ]
    assert report.unusable == ("NPA",)


def test_a_manifest_that_cannot_be_read_is_the_only_thing_said(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "manifests/npa.yaml").write_text("version: 1\ndomain: [NPA\n")
    (tmp_path / "config/connections.yaml").write_text("dify: {base_url: https://dify.example/v1}\n")
    from context_engine.settings import find_config

    report = check(find_config(None, env={}, cwd=tmp_path), env={})
    assert len(report.problems) == 1 and report.notices == ()


@pytest.mark.parametrize(("source", "texts"), [(Examined(), ["a", "b"]), (Plain(), None)])
def test_chunks_are_listed_where_the_adapter_can(
    published: Callable[..., None], tmp_path: Path, source: Plain, texts: list[str] | None
) -> None:
    published(lambda _spec, _context: source)
    setup = load_setup(env={}, cwd=tmp_path)
    domain = setup.registry.domain("NPA")
    with listed_chunks(setup, tmp_path, domain, domain.sources[0]) as listed:
        assert (None if listed is None else [chunk.content for chunk in listed]) == texts
    assert source.closed == 1


def test_a_source_that_cannot_be_opened_lists_nothing(published: Callable[..., None], tmp_path: Path) -> None:
    def refuse(_spec: Any, _context: Any) -> Plain:
        raise ConfigError("no key")

    published(refuse)
    setup = load_setup(env={}, cwd=tmp_path)
    domain = setup.registry.domain("NPA")
    with listed_chunks(setup, tmp_path, domain, domain.sources[0]) as listed:
        assert listed is None


def test_an_adapter_that_breaks_when_it_is_imported_is_a_configuration_error(
    published: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    published(lambda _spec, _context: Plain())
    monkeypatch.delattr(sys.modules["shelf_package"], "open_shelf")
    with pytest.raises(ConfigError, match="installed but cannot be imported"):
        load_source_adapter("shelf")


def test_an_adapter_that_raises_when_it_is_imported_is_one_too(
    published: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(lambda _spec, _context: Plain())
    (tmp_path / "shelf_package.py").write_text("raise RuntimeError('password=hunter2')")
    monkeypatch.delitem(sys.modules, "shelf_package")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="failed with RuntimeError when imported") as raised:
        load_source_adapter("shelf")
    assert "hunter2" not in str(raised.value)
