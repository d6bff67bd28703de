from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.rerankers import CallableReranker
from context_engine.adapters.sources.adapter import SourceContext
from context_engine.adapters.sources.local import LocalBase
from context_engine.apps.cli.config import write_scaffold
from context_engine.core.chunking.strategy import DEFAULT_STRATEGIES
from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.models import (
    Chunk,
    Decision,
    NoticeCode,
    Score,
    ScoreKind,
    SearchRequest,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
    Status,
    messages,
)
from context_engine.errors import AllSourcesFailed, ConfigError, InvalidRequest, MissingVariable, UnknownDomain
from context_engine.ingest.run import ingest
from context_engine.settings import SettingsResolver, find_config
from context_engine.wiring.adapters import RERANKERS, SOURCES, find_adapter, installed
from context_engine.wiring.build import build_engine
from context_engine.wiring.check import check
from context_engine.wiring.embedded_base import base_path
from context_engine.wiring.functions import FunctionEngines
from context_engine.wiring.models import RerankerChoice
from context_engine.wiring.report import changed, diff_stages, show
from context_engine.wiring.setup import load_setup

CONTEXTS: list[SourceContext] = []


class Echo:
    """Answers with its connection's address."""

    score_kinds = frozenset({ScoreKind.RELEVANCE})

    def __init__(self, spec: SourceSpec, context: SourceContext) -> None:
        self.source_id, self.spec, self.context = spec.id, spec, context

    def search(self, query: SourceQuery) -> SourceAnswer:
        address = self.context.connection(self.spec.connection).base_url if self.spec.connection else "nowhere"
        return SourceAnswer(
            chunks=(Chunk(content=f"{query.text} {address}", scores=(Score(ScoreKind.RELEVANCE, 0.9),)),)
        )

    def close(self) -> None:
        pass


def open_echo(spec: SourceSpec, context: SourceContext) -> Echo:
    CONTEXTS.append(context)
    return Echo(spec, context)


def half() -> CallableReranker:
    return CallableReranker(lambda _query, texts: [0.5 for _ in texts], name="half")


@pytest.fixture(autouse=True)
def adapters(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The installed entry points, with an adapter and a reranker of this file beside the built-in ones."""
    CONTEXTS.clear()
    points = [
        EntryPoint("local", "context_engine.wiring.embedded_base:open_local", SOURCES),
        EntryPoint("echo", "echo_package:open_echo", SOURCES),
        EntryPoint("broken", "no_such_package:open", SOURCES),
        EntryPoint("noop", "context_engine.adapters.rerankers:NoOpReranker", RERANKERS),
        EntryPoint("half", "echo_package:half", RERANKERS),
    ]

    def entry_points(*, group: str, name: str | None = None) -> list[EntryPoint]:
        return [point for point in points if point.group == group and name in (None, point.name)]

    import sys
    from types import ModuleType

    package = ModuleType("echo_package")
    package.__dict__.update(open_echo=open_echo, half=half)
    monkeypatch.setitem(sys.modules, "echo_package", package)
    monkeypatch.setattr("context_engine.wiring.adapters.entry_points", entry_points)
    yield points


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[Mapping[str, Any]], Path]:
    def put(files: Mapping[str, Any]) -> Path:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return tmp_path

    return put


def manifest(domain: str = "NPA", *, for_domain: str = "{}", **source: str) -> str:
    fields = {"id": f"{domain.lower()}_sops", "type": "bank_sop", "adapter": "echo", **source}
    row = ", ".join(f"{key}: {value}" for key, value in fields.items())
    return f"version: 1\ndomain: {domain}\nsources:\n  - {{{row}}}\nsettings: {for_domain}\n"


Put = Callable[[Mapping[str, Any]], Path]


def engine(cwd: Path, **options: Any) -> Any:
    return build_engine(cwd=cwd, **{"env": {}, "data_dir": "data", **options})


def ask(query: str = "q", domain: str = "NPA", **fields: Any) -> SearchRequest:
    return SearchRequest(query=query, domain=domain, **fields)


def test_the_package_declares_its_own_adapters() -> None:
    """Read from the installed package, not from this file's stand-ins."""
    from importlib.metadata import entry_points

    assert {(point.group, point.name) for group in (SOURCES, RERANKERS) for point in entry_points(group=group)} >= {
        (SOURCES, "local"),
        (RERANKERS, "noop"),
    }
    for group in (SOURCES, RERANKERS):
        for point in entry_points(group=group):
            assert callable(point.load())


def test_an_engine_answers_from_configured_sources(folder: Put) -> None:
    cwd = folder(
        {
            "manifests/npa.yaml": manifest(connection="dify"),
            "config/connections.yaml": "dify: {base_url: 'https://dify.example'}",
            "config/rag-pipeline.json": {"stage1_top_k": 7},
        }
    )
    with engine(cwd) as built:
        result = built.search(ask())
    assert [chunk.content for chunk in result.chunks] == ["q https://dify.example"]
    assert result.settings.to_dict()["stage1_top_k"] == {"value": 7, "origin": "config/rag-pipeline.json"}
    assert (CONTEXTS[0].domain, CONTEXTS[0].data_dir()) == ("NPA", cwd / "data")


def test_what_sources_share_is_made_once_an_engine(folder: Put) -> None:
    cwd = folder({"manifests/a.yaml": manifest("A"), "manifests/b.yaml": manifest("B")})
    with engine(cwd) as one, engine(cwd) as two:
        for built in (one, two):
            for domain in ("A", "B", "A"):
                built.search(ask(domain=domain))
    first, second, other, _ = CONTEXTS
    thing = first.shared("key", object)
    assert second.shared("key", object) is thing and other.shared("key", object) is not thing


def test_the_first_configuration_can_be_ingested_and_searched(tmp_path: Path) -> None:
    write_scaffold(tmp_path)
    setup = load_setup(env={}, cwd=tmp_path)
    specs = setup.registry.domain("HANDBOOK").sources
    base = LocalBase.open(base_path(setup.data_dir("data")), create=True)
    with base.writer() as writer:
        ingest(tmp_path / "documents", specs, writer)
    base.close()
    with build_engine(setup, data_dir="data") as built:
        result = built.search(ask("When must expense claims be submitted?", "HANDBOOK"))
    assert (result.status, result.decision) == (Status.COMPLETE, Decision.ANSWERED)
    assert result.chunks[0].source_id == "policies" and "30 calendar days" in result.chunks[0].content
    assert result.settings.to_dict()["stage2_top_k"]["origin"] == "domain HANDBOOK (manifests/handbook.yaml)"


ALL = "broken, dify, echo, local, neo4j, opensearch, postgres"


@pytest.mark.parametrize(
    ("adapter", "problem"),
    [
        ("ecko", f"unknown adapter 'ecko'. Installed: {ALL}. Did you mean 'echo'?"),
        ("zzz", f"unknown adapter 'zzz'. Installed: {ALL}."),
        (
            "echo_package.open_echo",
            "is not a name: adapters are named, never imported by path. Installed: broken, dify, echo",
        ),
        ("'echo_package:open_echo'", "is not a name"),
        ("'../echo'", "is not a name"),
        ("''", "is not a name"),
    ],
)
def test_an_adapter_is_named_and_installed(folder: Put, adapter: str, problem: str) -> None:
    files = {"manifests/npa.yaml": manifest(adapter=adapter), "manifests/orm.yaml": manifest("ORM")}
    with engine(folder(files)) as built:
        assert built.search(ask(domain="ORM")).chunks, "a domain with adapters that are there is searched"
        with pytest.raises(ConfigError) as raised:
            built.search(ask())
    assert (raised.value.file, raised.value.key) == ("manifests/npa.yaml", "sources.npa_sops.adapter")
    assert problem in str(raised.value)


def test_an_adapter_that_two_packages_claim_is_refused(adapters: list[EntryPoint]) -> None:
    adapters.append(EntryPoint("echo", "intruder:open", SOURCES))
    with pytest.raises(ConfigError, match=r"adapter 'echo' is claimed by .*: uninstall one"):
        find_adapter(SOURCES, "echo")
    assert installed(SOURCES) == ("broken", "dify", "echo", "local", "neo4j", "opensearch", "postgres")


def test_no_metadata_takes_one_of_our_own_names(adapters: list[EntryPoint]) -> None:
    own = find_adapter(SOURCES, "local")
    adapters.append(EntryPoint("local", "context_engine.before.a.move:open_local", SOURCES))
    assert find_adapter(SOURCES, "local") == own
    assert installed(SOURCES) == ("broken", "dify", "echo", "local", "neo4j", "opensearch", "postgres")


def test_an_adapter_that_cannot_be_imported_fails_its_domain_alone(folder: Put) -> None:
    cwd = folder({"manifests/a.yaml": manifest("A"), "manifests/b.yaml": manifest("B", adapter="broken")})
    with engine(cwd) as built:
        assert built.search(ask(domain="A")).decision is Decision.ANSWERED
        with pytest.raises(ConfigError, match="installed but cannot be imported"):
            built.search(ask(domain="B"))


@pytest.mark.parametrize(
    ("key", "value"), [("connection", "dify"), ("dataset_ids", "[x]"), ("settings", "{fuzzy: true}")]
)
def test_the_embedded_base_ignores_no_key(folder: Put, key: str, value: str) -> None:
    cwd = folder(
        {
            "manifests/npa.yaml": manifest(adapter="local", **{key: value}),
            "config/connections.yaml": "dify: {base_url: 'https://dify.example'}",
        }
    )
    with engine(cwd) as built, pytest.raises(ConfigError) as raised:
        built.search(ask())
    assert (raised.value.file, raised.value.key) == ("manifests/npa.yaml", f"sources.npa_sops.{key}")


def test_a_missing_variable_fails_only_the_domains_that_use_it(folder: Put) -> None:
    cwd = folder(
        {
            "manifests/a.yaml": manifest("A"),
            "manifests/b.yaml": manifest("B", ttl_seconds="'${NONE}'"),
            "manifests/c.yaml": manifest("C", connection="dify"),
            "config/connections.yaml": "dify: {base_url: '${URL}'}",
        }
    )
    with engine(cwd) as built:
        assert built.registry.names == ("A", "B", "C")
        assert built.search(ask(domain="A")).decision is Decision.ANSWERED
        with pytest.raises(MissingVariable, match="NONE is not set"):
            built.search(ask(domain="B"))
        with pytest.raises(UnknownDomain, match="Registered: A, B, C"):
            built.search(ask(domain="D"))


def test_a_reranker_by_name_and_the_searches_that_do_without(folder: Put) -> None:
    cwd = folder(
        {
            "manifests/a.yaml": manifest("A"),
            "manifests/b.yaml": manifest("B", for_domain="{reranking_enabled: false}"),
            "config/rag-pipeline.json": {"reranker": "half"},
        }
    )
    with engine(cwd) as built:
        assert built.search(ask(domain="A")).chunks[0].rerank_score == 0.5
        assert built.search(ask(domain="A", overrides={"reranking_enabled": False})).chunks[0].rerank_score is None
        without = built.search(ask(domain="B"))
    assert without.chunks[0].rerank_score is None
    assert without.settings.to_dict()["reranking_enabled"] == {"value": False, "origin": "domain B (manifests/b.yaml)"}


def test_another_reranker_than_the_engine_s_is_refused_not_ignored(folder: Put) -> None:
    with (
        engine(folder({"manifests/a.yaml": manifest("A")})) as built,
        pytest.raises(InvalidRequest, match="option 'reranker': is the same for all searches of an engine"),
    ):
        built.search(ask(domain="A", overrides={"reranker": "half"}))
    with (
        engine(folder({"manifests/b.yaml": manifest("B", for_domain="{reranker: half}")})) as built,
        pytest.raises(ConfigError, match=r"manifests/b.yaml: settings.reranker: is the same for all searches"),
    ):
        built.search(ask(domain="B"))


def test_a_reranker_that_was_not_opened_cannot_be_switched_on(folder: Put) -> None:
    files = {"config/rag-pipeline.json": {"reranker": "half", "reranking_enabled": False}}
    cwd = folder({**files, "manifests/b.yaml": manifest("B", for_domain="{reranking_enabled: true}")})
    with engine(cwd) as built, pytest.raises(ConfigError, match="its reranker 'half' is not open") as written:
        built.search(ask(domain="B"))
    assert (written.value.file, written.value.key) == ("domain B (manifests/b.yaml)", "reranking_enabled")
    with (
        engine(folder({**files, "manifests/a.yaml": manifest("A")})) as built,
        pytest.raises(InvalidRequest, match="built with reranking_enabled false, so its reranker 'half' is not open"),
    ):
        built.search(ask(domain="A", overrides={"reranking_enabled": True}))


def test_an_unknown_reranker_is_refused_unless_it_is_switched_off(folder: Put) -> None:
    cwd = folder({"manifests/a.yaml": manifest("A")})
    env = {"CONTEXT_ENGINE_RERANKER": "bert"}
    with pytest.raises(ConfigError, match=r"CONTEXT_ENGINE_RERANKER: reranker: unknown reranker 'bert'"):
        engine(cwd, env=env)
    with engine(cwd, env={**env, "RAG_RERANKER_ENABLED": "false"}) as built:
        assert built.search(ask(domain="A")).decision is Decision.ANSWERED


def test_a_reranker_given_in_code_stands_in_the_settings(folder: Put) -> None:
    with engine(folder({"manifests/a.yaml": manifest("A")}), reranker=half()) as built:
        result = built.search(ask(domain="A"))
    assert result.chunks[0].rerank_score == 0.5
    assert result.settings.to_dict()["reranker"] == {"value": "half", "origin": "code"}


def test_a_pipeline_config_is_the_engine_s_own(folder: Put) -> None:
    setup = load_setup(env={}, cwd=folder({"manifests/a.yaml": manifest("A", for_domain="{stage2_top_k: 2}")}))
    with build_engine(setup, pipeline={"top_k": 3}) as one, build_engine(setup) as two:
        values = [each.search(ask(domain="A")).settings.values.stage2_top_k for each in (one, two)]
    assert values == [3, 2]


def test_warnings_are_logged_once_at_loading(folder: Put, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        setup = load_setup(env={"CONTEXT_ENGINE_HANDBOOK_FOLDER": "k"}, cwd=folder({}))
    assert [record.getMessage() for record in caplog.records] == list(messages(setup.config.notices))
    assert [notice.code for notice in setup.config.notices] == ["variable_unknown"]


def test_manifests_may_come_from_another_folder(folder: Put) -> None:
    cwd = folder({"config/rag-pipeline.json": {"stage1_top_k": 9}, "demo/x.yaml": manifest("DEMO")})
    setup = load_setup(env={}, cwd=cwd, manifest_dir=cwd / "demo")
    assert setup.registry.names == ("DEMO",) and setup.resolver.base().values.stage1_top_k == 9
    assert setup.config.chunking == DEFAULT_STRATEGIES


@pytest.mark.parametrize("name", ["connections.yaml", "personas.json", "rag-pipeline.json"])
def test_a_file_of_another_program_does_not_stop_manifests_from_elsewhere(folder: Put, name: str) -> None:
    content = {"host": "db.example", "port": 5432}
    cwd = folder({f"config/{name}": json.dumps(content), "demo/x.yaml": manifest("DEMO")})
    if name == "rag-pipeline.json":
        with pytest.raises(ConfigError, match=r"config/rag-pipeline.json: host: unknown key"):
            load_setup(env={}, cwd=cwd, manifest_dir=cwd / "demo")
        return
    setup = load_setup(env={}, cwd=cwd, manifest_dir=cwd / "demo")
    assert setup.registry.names == ("DEMO",)
    (notice,) = setup.config.notices
    assert (notice.code, notice.subject) == ("file_passed_over", f"config/{name}")
    assert notice.detail["problem"].startswith(f"config/{name}: ")
    with pytest.raises(ConfigError, match=f"config/{name}"):
        load_setup(env={}, cwd=cwd, config_dir=cwd, manifest_dir=cwd / "demo")


def test_show_gives_every_setting_with_its_origin(folder: Put) -> None:
    cwd = folder(
        {
            "manifests/npa.yaml": manifest(for_domain="{stage2_top_k: 5}"),
            "config/personas.json": {"p": {"max_results": 20}},
            "config/rag-pipeline.json": {"stage1_top_k": 40},
        }
    )
    setup = load_setup(env={"CONTEXT_ENGINE_DEADLINE_S": "5"}, cwd=cwd)
    shown = {one.key: one for one in show(setup)}
    assert shown["deadline_s"][1:4] == (5.0, "CONTEXT_ENGINE_DEADLINE_S", 20.0)
    assert shown["stage1_top_k"].origin == "config/rag-pipeline.json" and shown["expired"].origin == "default"
    assert all(one.description for one in shown.values())
    json.dumps(list(shown.values()))
    assert [one.key for one in changed(show(setup))] == ["deadline_s"]
    assert [(one.key, one.value) for one in changed(show(setup, domain="NPA"))] == [
        ("stage2_top_k", 5),
        ("deadline_s", 5.0),
    ]
    assert next(one.value for one in show(setup, domain="NPA", persona="p") if one.key == "stage2_top_k") == 20
    with pytest.raises(UnknownDomain):
        show(setup, domain="X")


def test_check_tells_all_that_is_wrong(folder: Put) -> None:
    cwd = folder(
        {
            "manifests/a.yaml": manifest("A", adapter="acme"),
            "manifests/b.yaml": manifest("B", ttl_seconds="'${NONE}'"),
            "manifests/c.yaml": "version: 1",
            "manifests/d.yaml": manifest("D", adapter="local", dataset_ids="[x]"),
            "manifests/e.yaml": manifest("E"),
            "config/personas.json": {"p": {"x": 1}},
            "config/connections.yaml": "d: {base_url: 'https://x', api_key: '${KEY}'}",
            "config/rag-pipeline.json": {"reranker": "bert"},
        }
    )
    report = check(find_config(env={}, cwd=cwd), env={"CONTEXT_ENGINE_HANDBOOK_FOLDER": "k"})
    assert [(problem.file, problem.key) for problem in report.problems] == [
        ("config/personas.json", "p.x"),
        ("manifests/c.yaml", "domain"),
        ("manifests/c.yaml", "sources"),
        ("manifests/a.yaml", "sources.a_sops.adapter"),
        ("manifests/b.yaml", "sources.b_sops.ttl_seconds"),
        ("manifests/d.yaml", "sources.d_sops.dataset_ids"),
        ("config/rag-pipeline.json", "reranker"),
        ("config/connections.yaml", "d.api_key"),
    ]
    assert not report.ok and "manifests/e.yaml" in report.files
    assert (report.domains, report.unusable) == ((), ("A", "B", "D", "E"))
    assert [(one.code, one.subject) for one in report.notices] == [
        ("variable_unknown", "CONTEXT_ENGINE_HANDBOOK_FOLDER")
    ]


def test_a_broken_manifest_leaves_the_others_and_is_named_in_every_answer(folder: Put) -> None:
    cwd = folder(
        {
            "manifests/a.yaml": manifest("A"),
            "manifests/b.yaml": manifest("B", ttl_seconds="soon", tier="two"),
            "manifests/c.yaml": "version: 1\ndomain: C\nsources: [\n",
            "manifests/d.yaml": manifest("D", ttl_seconds="'${NONE}'"),
            "manifests/e.yaml": "sources: [\n",
        }
    )
    with engine(cwd) as built:
        result = built.search(ask(domain="A"))
        named = [one.subject for one in result.notices if one.code is NoticeCode.MANIFEST_UNUSABLE]
        assert named == ["manifests/e.yaml", "manifests/b.yaml", "manifests/c.yaml", "manifests/d.yaml"]
        assert result.chunks and result.status is Status.COMPLETE
        assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)
        for domain, error in {"B": ConfigError, "C": ConfigError, "D": MissingVariable, "E": UnknownDomain}.items():
            with pytest.raises(error, match=r"manifests/"):
                built.search(ask(domain=domain))
    report = check(find_config(env={}, cwd=cwd), env={})
    assert (report.domains, report.unusable, report.ok) == (("A",), ("B", "C", "D"), False)
    assert [(problem.file, problem.key) for problem in report.problems] == [
        ("manifests/e.yaml", None),
        ("manifests/b.yaml", "sources.b_sops.tier"),
        ("manifests/b.yaml", "sources.b_sops.ttl_seconds"),
        ("manifests/c.yaml", None),
        ("manifests/d.yaml", "sources.d_sops.ttl_seconds"),
    ]


def test_the_configuration_itself_stays_an_error_of_all_domains(folder: Put) -> None:
    cwd = folder({"manifests/a.yaml": manifest("A"), "config/rag-pipeline.json": {"stage1_top_k": 0, "min_chunks": -1}})
    with pytest.raises(ConfigError) as raised:
        engine(cwd)
    assert [one.key for one in raised.value.each] == ["stage1_top_k", "min_chunks"]


def test_check_says_for_each_domain_whether_it_can_be_searched(folder: Put) -> None:
    """A source that cannot be opened stops its domain, and leaves the others."""
    dify = {"adapter": "dify", "connection": "bad", "dataset_ids": "[6c1e7a52-9a3c-4bd7-8ab9-000000000001]"}
    part = manifest("PART", **dify).replace("sources:", "sources:\n  - {id: good, type: bank_sop, adapter: echo}")
    cwd = folder(
        {
            "manifests/whole.yaml": manifest("WHOLE", connection="good"),
            "manifests/part.yaml": part,
            "manifests/none.yaml": manifest("NONE", **dify),
            "manifests/lacks.yaml": manifest("LACKS", ttl_seconds="'${NONE}'"),
            "manifests/heavy.yaml": manifest("HEAVY", for_domain="{relevance_weight: 0.9}"),
            "config/personas.json": {"p": {"authority_weight": 0.5}},
            "config/connections.yaml": "bad: {base_url: 'https://x', api_key: '${KEY}'}\ngood: {base_url: 'https://x'}",
        }
    )
    report = check(find_config(env={}, cwd=cwd), env={})
    assert (report.domains, report.unusable) == (("WHOLE",), ("HEAVY", "LACKS", "NONE", "PART"))
    for name in (*report.domains, *report.unusable):
        with engine(cwd) as built, nullcontext() if name in report.domains else pytest.raises(ConfigError):
            built.search(ask(domain=name))
    assert [(problem.file, problem.key) for problem in report.problems] == [
        ("manifests/lacks.yaml", "sources.lacks_sops.ttl_seconds"),
        ("domain HEAVY (manifests/heavy.yaml)", "relevance_weight"),
        ("persona p (config/personas.json)", "authority_weight"),
        ("config/connections.yaml", "bad.api_key"),
    ]


def test_check_of_weights_that_no_search_can_use(folder: Put) -> None:
    cwd = folder({"manifests/npa.yaml": manifest(), "config/authority.json": {"relevance_weight": 0.9}})
    report = check(find_config(env={}, cwd=cwd), env={})
    assert [str(problem).split(":")[0] for problem in report.problems] == ["config/authority.json"]
    assert (report.domains, report.unusable) == ((), ("NPA",))


@pytest.mark.parametrize(("key", "warned"), [("sk-123", True), ("'${KEY}'", False), ("'${file:key}'", False)])
def test_check_warns_of_a_key_that_stands_in_the_file(folder: Put, key: str, warned: bool) -> None:
    cwd = folder(
        {
            "manifests/npa.yaml": manifest(connection="my-dify"),
            "config/connections.yaml": f"my-dify: {{base_url: 'https://x', api_key: {key}}}",
            "config/key": "sk-123",
        }
    )
    report = check(find_config(env={}, cwd=cwd), env={"KEY": "sk-123"})
    assert report.ok and "sk-123" not in str(report.notices)
    found = [one for one in report.notices if one.code == "api_key_in_file"]
    assert [one.subject for one in found] == ["connections.my-dify"] * warned


def test_check_warns_of_a_client_secret_that_stands_in_the_file(folder: Put) -> None:
    fields = "base_url: 'https://x', token_url: 'https://t', client_id: c, client_secret: sk-123"
    cwd = folder({"manifests/npa.yaml": manifest(connection="d"), "config/connections.yaml": f"d: {{{fields}}}"})
    (notice,) = check(find_config(env={}, cwd=cwd), env={}).notices
    assert (notice.code, "sk-123" in notice.message) == ("api_key_in_file", False)


@pytest.mark.wording
def test_check_says_how_a_key_is_moved_out_of_the_file(folder: Put) -> None:
    connection = "my-dify: {base_url: 'https://x', api_key: sk-123}"
    cwd = folder({"manifests/npa.yaml": manifest(connection="my-dify"), "config/connections.yaml": connection})
    (notice,) = check(find_config(env={}, cwd=cwd), env={}).notices
    assert "write api_key: ${MY_DIFY_API_KEY} or ${file:/run/secrets/my-dify_api_key}" in notice.message


def test_check_of_a_good_configuration(folder: Put) -> None:
    cwd = folder({"manifests/npa.yaml": manifest(), "config/connections.yaml": "d: {base_url: 'https://x'}"})
    report = check(find_config(env={}, cwd=cwd), env={})
    assert report.ok and report.domains == ("NPA",)
    assert [(one.code, one.subject) for one in report.notices] == [("connection_unused", "connections.d")]
    oidc = "issuer: i, audience: a, algorithms: [RS256], jwks: d"
    folder({"config/access.yaml": f"version: 1\nclaims: {{id: sub}}\noidc: {{{oidc}}}"})
    assert not check(find_config(env={}, cwd=cwd), env={}).notices, "the keys of a provider are read through it"
    empty = check(find_config(env={}, cwd=cwd / "manifests"), env={})
    assert empty.ok and [one.code for one in empty.notices] == ["no_domain"]


def test_diff_of_two_stages_masks_secrets(folder: Put) -> None:
    cwd = folder(
        {
            "manifests/npa.yaml": manifest(dataset_ids="[d-1]", connection="d"),
            "manifests/stages/uat.yaml": "connections: {d: {api_key: s3cret-u}}\ndataset_ids: {npa_sops: [u-1]}",
            "manifests/stages/prod.yaml": "connections: {d: {base_url: 'https://p', api_key: s3cret-p}}",
            "config/connections.yaml": "d: {base_url: 'https://x', api_key: s3cret}",
        }
    )
    paths = find_config(env={}, cwd=cwd)
    assert diff_stages(paths, "uat", "prod", env={}) == (
        ("connections.d.api_key", "********", "********"),
        ("connections.d.base_url", "https://x", "https://p"),
        ("dataset_ids.npa_sops", ["u-1"], ["d-1"]),
    )
    assert [one.key for one in diff_stages(paths, None, "uat", env={"CONTEXT_ENGINE_STAGE": "uat"})] == [
        "connections.d.api_key",
        "dataset_ids.npa_sops",
    ]
    assert diff_stages(paths, "uat", "uat", env={}) == ()


def test_no_secret_shows_in_a_repr(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "manifests" / "stages").mkdir(parents=True)
    (tmp_path / "config" / "connections.yaml").write_text(
        "written: {base_url: https://kb.example/v1, api_key: key-in-file}\n"
        "named: {base_url: https://kb.example/v1, api_key: '${KB_KEY}'}\n"
    )
    (tmp_path / "manifests" / "stages" / "dev.yaml").write_text("connections: {written: {api_key: key-in-stage}}\n")
    setup = load_setup(config_dir=tmp_path, stage="dev", env={"KB_KEY": "key-in-variable"}, cwd=tmp_path)
    assert setup.config.connections.get("named").api_key is not None
    shown = repr((setup, setup.config, setup.config.connections.get("written"), setup.config.connections.get("named")))
    for secret in ("key-in-file", "key-in-stage", "key-in-variable"):
        assert secret not in shown


class TestFunctionEngines:
    """Engines over a caller's own function."""

    @staticmethod
    def engines() -> FunctionEngines:
        return FunctionEngines(RerankerChoice.of(SettingsResolver()), str, {})

    def test_a_function_that_hangs_costs_one_search_its_limit(self) -> None:
        release = threading.Event()
        called: list[str] = []

        def hang(query: str, _domain: str, _top_k: int) -> list[Chunk]:
            called.append(query)
            release.wait(30)
            return []

        engines, codes = self.engines(), []
        for _ in range(4):
            request = SearchRequest(query="approval", domain="ANY", overrides={"source_timeout_s": 0.2})
            with pytest.raises(AllSourcesFailed) as caught:
                engines.engine(hang, "ANY").search(request)
            codes += [status.error["code"] for status in caught.value.statuses]
        release.set()
        assert (codes, len(called)) == (["timeout", "busy", "busy", "busy"], 1)

    def test_a_method_is_known_again_and_so_is_what_cannot_be_hashed(self) -> None:
        class Base:
            __hash__ = None  # type: ignore[assignment]

            def __call__(self, _query: str, _domain: str, _top_k: int) -> list[Chunk]:
                return []

        class Holder:
            def search(self, _query: str, _domain: str, _top_k: int) -> list[Chunk]:
                return []

        engines, base, holder = self.engines(), Base(), Holder()
        assert engines.engine(base, "A") is engines.engine(base, "A")
        assert engines.engine(holder.search, "A") is engines.engine(holder.search, "A")
        assert engines.engine(holder.search, "A") is not engines.engine(holder.search, "B")

    def test_the_oldest_makes_room(self) -> None:
        def nothing(_query: str, _domain: str, _top_k: int) -> list[Chunk]:
            return []

        engines = self.engines()
        first = engines.engine(nothing, "D0")
        assert all(engines.engine(nothing, "D0") is first and engines.engine(nothing, f"D{n}") for n in range(1, 40))
        second = engines.engine(nothing, "D39")
        for number in range(40, 80):
            engines.engine(nothing, f"D{number}")
        assert engines.engine(nothing, "D39") is not second
