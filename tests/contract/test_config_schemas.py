from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from context_engine.apps.cli.config import scaffold_files
from context_engine.core.models import IngestSettings
from context_engine.settings import find_config, load_config
from context_engine.settings.registry import load_registry
from context_engine.settings.schemas import schemas, write_schemas
from context_engine.wiring.setup import load_setup

ROOT = Path(__file__).parents[2]
SCHEMAS = schemas()
KINDS = ("rag-pipeline", "chunking", "authority", "personas", "ingest")


def samples() -> Iterator[tuple[str, Any, str]]:
    """Yield (name, content, schema) of every shipped file an operator may start from."""
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sorted(ROOT.glob("config/*.*"))}
    manifests = [*ROOT.glob("manifests/*.yaml"), *ROOT.glob("manifests/stages/*.yaml")]
    texts |= {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in manifests}
    demo = ROOT / "context_engine/demo/manifests"
    texts |= {f"demo/{path.name}": path.read_text("utf-8") for path in demo.glob("*.yaml")}
    texts |= {
        f"scaffold/{name}": content.decode() for name, content in scaffold_files().items() if "documents" not in name
    }
    for name, text in texts.items():
        content = json.loads(text) if name.endswith(".json") else yaml.safe_load(text)
        yield name, content, _schema_of(name)


def _schema_of(name: str) -> str:
    stem = Path(name).name.split(".")[0]
    if stem in (*KINDS, "connections", "access"):
        return f"config/schemas/{stem}.json"
    return f"manifests/schemas/{'stage' if '/stages/' in name else 'manifest'}-v1.json"


def test_the_published_schemas_are_those_of_the_models(tmp_path: Path) -> None:
    """Changed on purpose? Run `python -m context_engine.settings.schemas .` and say so in the change log."""
    for path in write_schemas(tmp_path):
        name = path.relative_to(tmp_path)
        assert (ROOT / name).read_text("utf-8") == path.read_text("utf-8"), name
    published = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/schemas/*.json")}
    answers = {
        f"config/schemas/{name}.json"
        for name in ("search-result-v1", "search-result-v1.1", "comparison-v1", "answer-v1")
    }
    assert published - answers == set(SCHEMAS), "those of answers are tested with them"


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_each_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize(("name", "content", "schema"), [pytest.param(*one, id=one[0]) for one in samples()])
def test_every_shipped_sample_keeps_its_schema(name: str, content: Any, schema: str) -> None:
    assert not list(jsonschema.Draft202012Validator(SCHEMAS[schema]).iter_errors(content))


@pytest.mark.parametrize(
    ("schema", "content"),
    [
        ("config/schemas/rag-pipeline.json", {"stage1_top_k": 0}),
        ("config/schemas/rag-pipeline.json", {"stage1_topk": 5}),
        ("config/schemas/rag-pipeline.json", {"search": {"stage1_top_k": 0}}),
        ("config/schemas/rag-pipeline.json", {"search": {"reranker": "jina"}}),
        ("config/schemas/rag-pipeline.json", {"models": {"stage1_top_k": 5}}),
        ("config/schemas/rag-pipeline.json", {"limits": 5}),
        ("config/schemas/personas.json", {"p": {"reranker": "jina"}}),
        (
            "manifests/schemas/manifest-v1.json",
            {"version": 1, "domain": "A", "sources": [{"id": "s", "type": "bank_sop"}], "settings": {"rrf_k": 9}},
        ),
        ("config/schemas/chunking.json", {"sop_document": {"method": "magic"}}),
        ("config/schemas/authority.json", {"boosts": {"6": 0.1}}),
        ("config/schemas/personas.json", {"p": {"max_results": 0}}),
        ("config/schemas/ingest.json", {"file_timeout_s": 0}),
        ("config/schemas/ingest.json", {"file_timeout": 30}),
        ("config/schemas/ingest.json", {"hidden_cells": "show"}),
        ("config/schemas/connections.json", {"d": {"api_key": "k"}}),
        (
            "manifests/schemas/manifest-v1.json",
            {"version": 2, "domain": "A", "sources": [{"id": "s", "type": "bank_sop"}]},
        ),
        ("manifests/schemas/manifest-v1.json", {"version": 1, "domain": "A", "sources": []}),
        ("manifests/schemas/manifest-v1.json", {"version": 1, "domain": "A", "sources": [{"id": "s", "type": "x"}]}),
        ("manifests/schemas/stage-v1.json", {"settings": {}}),
        ("config/schemas/access.json", {}),
        ("config/schemas/access.json", {"version": 1, "principals": {"desk": {"role": ["analyst"]}}}),
        ("config/schemas/access.json", {"version": 1, "principals": {"desk": {"tokens": [{"sha256": "open sesame"}]}}}),
    ],
)
def test_what_the_loader_refuses_the_schema_refuses(schema: str, content: Any) -> None:
    assert list(jsonschema.Draft202012Validator(SCHEMAS[schema]).iter_errors(content))


def test_settings_may_be_in_groups_with_comments_and_variables() -> None:
    schema = SCHEMAS["config/schemas/rag-pipeline.json"]
    content = {
        "stage2_top_k": 5,
        "search": {"// why": "a comment", "stage1_top_k": "${K:-40}", "authority_boosts": {"tier_1": 0.5}},
        "index": {"max_chunk_tokens": 256},
        "limits": {},
        "models": {"reranker": "jina"},
    }
    assert jsonschema.Draft202012Validator(schema).is_valid(content)


@pytest.mark.parametrize("value", ["${TOP_K:-40}", 40])
def test_a_variable_may_stand_for_a_number(value: Any) -> None:
    schema = SCHEMAS["config/schemas/rag-pipeline.json"]
    assert jsonschema.Draft202012Validator(schema).is_valid({"stage1_top_k": value, "// why": "a comment"})


MANIFEST = {"version": 1, "domain": "A", "sources": [{"id": "s", "type": "bank_sop"}]}


@pytest.mark.parametrize(
    ("fields", "good"),
    [
        ({"title": "${TITLE}"}, False),
        ({"description": "x ${file:/etc/hostname}"}, False),
        ({"glossary": {"NPA": "${NAME}"}}, False),
        ({"glossary": {"NPA": ["New Product Approval", "${NAME}"]}}, False),
        ({"sources": [{"id": "s", "type": "bank_sop", "title": "${TITLE}"}]}, False),
        ({"sources": [{"id": "s", "type": "bank_sop", "documents": [{"include": "${GLOB}"}]}]}, False),
        ({"title": "Costs $${100}"}, True),
        ({"glossary": {"NPA": ["New Product Approval"], "SOP": "Procedure"}}, True),
        ({"sources": [{"id": "s", "type": "bank_sop", "documents": [{"include": "*.md", "profile": None}]}]}, True),
        ({"sources": [{"id": "s", "type": "bank_sop", "ttl_seconds": "${TTL}", "dataset_ids": ["${DS}"]}]}, True),
    ],
)
def test_a_text_that_is_shown_takes_no_variable(fields: Any, good: bool) -> None:
    schema = jsonschema.Draft202012Validator(SCHEMAS["manifests/schemas/manifest-v1.json"])
    assert schema.is_valid({**MANIFEST, **fields}) is good


def test_the_shipped_configuration_is_the_built_in_one() -> None:
    shipped = load_setup(env={}, cwd=ROOT)
    assert shipped.config.paths.config_dir == ROOT / "config"
    assert shipped.resolver.base().values == load_setup(env={}, cwd=ROOT / "tests").resolver.base().values
    assert shipped.config.ingest == IngestSettings()
    assert shipped.config.chunking == load_setup(env={}, cwd=ROOT / "tests").config.chunking


def test_B4_the_shipped_personas_are_the_seed_s() -> None:
    resolver = load_setup(env={}, cwd=ROOT).resolver
    roles = ("analyst", "auditor", "compliance_officer", "front_desk")
    values = {name: resolver.base(persona=name).values for name in resolver.personas if name not in roles}
    assert {
        name: (one.similarity_threshold, one.stage2_top_k, one.min_chunks, one.reranking_enabled)
        for name, one in values.items()
    } == {
        "educator": (0.80, 10, 3, True),
        "researcher": (0.75, 20, 5, True),
        "creator": (0.65, 15, 2, False),
        "builder": (0.70, 10, 1, False),
    }
    assert {one.similarity_kind for one in values.values()} == {"cosine"}


def test_the_shipped_roles_need_no_cosine_and_name_no_source() -> None:
    resolver = load_setup(env={}, cwd=ROOT).resolver
    roles = ("analyst", "auditor", "compliance_officer", "front_desk")
    values = {name: resolver.base(persona=name).values for name in roles}
    assert {
        name: (one.stage2_top_k, one.min_chunks, one.reranking_enabled, one.expired, one.dedup_method)
        for name, one in values.items()
    } == {
        "analyst": (15, 3, True, "flag", "near"),
        "auditor": (30, 0, False, "flag", "exact"),
        "compliance_officer": (12, 0, True, "demote", "near"),
        "front_desk": (4, 0, False, "refuse", "near"),
    }
    assert {(one.similarity_threshold, one.sources) for one in values.values()} == {(None, None)}


def test_the_samples_can_be_used_once_they_are_copied(tmp_path: Path) -> None:
    for path in [*ROOT.glob("config/*.*"), *ROOT.glob("manifests/**/*.example.yaml")]:
        copy = tmp_path / path.relative_to(ROOT).as_posix().replace(".example", "")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text("utf-8").replace("ca_bundle:", "# ca_bundle:"), "utf-8")
    paths = find_config(env={}, cwd=tmp_path)
    for stage in (None, "dev", "uat", "prod"):
        config = load_config(paths, env={}, stage=stage)
        names = config.connections.names
        registry = load_registry(paths, env={}, stage=config.stage, connections=names, doc_types=config.chunking)
        assert (registry.names, registry.problems) == (("KYC", "NPA", "ORM"), ())
