"""The knowledge pipelines of the package: each fits the tools it is made of, and the knowledge base it fills."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

PLUGIN: Final = Path(__file__).parents[2] / "dify_plugin"
TEMPLATES: Final = sorted(
    path for folder in (PLUGIN, PLUGIN / "datasource") for path in (folder / "examples").glob("*.pipeline.yml")
)
CHUNKS: Final = {
    "text_model": ("general", "general_structure"),
    "hierarchical_model": ("parent_child", "parent_child_structure"),
    "qa_model": ("qa", "qa_structure"),
}
"""Dify's name of a knowledge base's structure -> the tool's, and Dify's schema of its chunks."""
OFFERED: Final = {
    "docx",
    "pdf",
    "html",
    "htm",
    "md",
    "mdx",
    "markdown",
    "txt",
    "csv",
    "xlsx",
    "xls",
    "properties",
    "vtt",
}
"""What Dify takes for a knowledge base where nothing else is set."""
OF_ANY_TOOL: Final = {"text", "files", "json"}
IN_TEXT: Final = re.compile(r"{{#([\w.]+)#}}")

Node = Mapping[str, Any]


@pytest.fixture(params=TEMPLATES, ids=lambda path: path.name.split(".")[0])
def template(request: pytest.FixtureRequest) -> dict[str, Any]:
    return deepcopy(_read(request.param))


@cache
def _read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text("utf-8"))  # type: ignore[no-any-return]


def test_there_is_one_of_each_kind_of_document() -> None:
    named = [path.name.removesuffix(".pipeline.yml") for path in TEMPLATES]
    assert named == ["documents", "questions-and-answers", "records", "regulatory-notices", "sops"]


def test_it_is_a_pipeline_that_asks_for_no_other_plugin(template: dict[str, Any]) -> None:
    assert (template["kind"], template["version"], template["dependencies"]) == ("rag_pipeline", "0.1.0", [])
    used = {node["data"].get("provider_id") for node in tools_of(template)}
    assert used == {"context-engine/context_engine/context_engine"}


def test_it_leads_from_a_file_to_the_knowledge_base(template: dict[str, Any]) -> None:
    nodes = nodes_of(template)
    by_id = {node["id"]: node for node in nodes}
    assert len(by_id) == len(nodes)
    assert [nodes[0]["data"]["type"], nodes[-1]["data"]["type"]] == ["datasource", "knowledge-index"]
    edges = template["workflow"]["graph"]["edges"]
    assert [(edge["source"], edge["target"]) for edge in edges] == list(pairwise(by_id))
    for edge in edges:
        kinds = (by_id[edge["source"]]["data"]["type"], by_id[edge["target"]]["data"]["type"])
        assert (edge["data"]["sourceType"], edge["data"]["targetType"]) == kinds
        assert edge["id"] == f"{edge['source']}-source-{edge['target']}-target"


def test_its_nodes_stand_in_a_row(template: dict[str, Any]) -> None:
    nodes = nodes_of(template)
    assert all(node["position"] == node["positionAbsolute"] for node in nodes)
    assert {node["position"]["y"] for node in nodes} == {280}
    for left, right in pairwise(nodes):
        assert left["position"]["x"] + left["width"] < right["position"]["x"]


def test_its_tools_are_given_what_they_take(template: dict[str, Any]) -> None:
    for node in tools_of(template):
        declared = {one["name"]: one for one in tool(node["data"]["tool_name"])["parameters"]}
        given = inputs_of(node)
        for form, names in (
            ("form", set(node["data"]["tool_configurations"])),
            ("llm", set(node["data"]["tool_parameters"])),
        ):
            assert names <= {name for name, one in declared.items() if one["form"] == form}
        assert {name for name, one in declared.items() if one.get("required")} <= set(given)
        for name, value in given.items():
            if value["type"] == "constant" and declared[name]["type"] == "select":
                assert value["value"] in options_of(declared[name])


def test_every_value_comes_from_the_form_or_from_a_node_before_it(template: dict[str, Any]) -> None:
    asked = {one["variable"] for one in template["workflow"]["rag_pipeline_variables"]}
    known: set[tuple[str, ...]] = {("rag", "shared", name) for name in asked}
    used: set[tuple[str, ...]] = set()
    for node in nodes_of(template):
        selectors = selectors_of(node)
        assert selectors <= known
        used |= selectors
        known |= {(node["id"], name) for name in outputs_of(node)}
    assert {name for kind, *_, name in used if kind == "rag"} == asked


def test_its_form_offers_what_the_tool_takes(template: dict[str, Any]) -> None:
    declared = {one["name"]: one for one in tool("chunk_document")["parameters"]}
    for one in template["workflow"]["rag_pipeline_variables"]:
        assert one["belong_to_node_id"] == "shared"
        assert one["label"]
        if one["type"] == "select":
            assert one["default_value"] == one["options"][0]
            assert set(one["options"]) <= options_of(declared[one["variable"]])
        else:
            assert (one["type"], one["required"], declared[one["variable"]]["type"]) == ("text-input", False, "string")


def test_the_knowledge_base_takes_the_chunks_of_its_structure(template: dict[str, Any]) -> None:
    base, (*_, chunker) = nodes_of(template)[-1]["data"], tools_of(template)
    structure, schema = CHUNKS[base["chunk_structure"]]
    assert inputs_of(chunker)["structure"]["value"] == structure
    origin, variable = base["index_chunk_variable_selector"]
    assert origin == chunker["id"]
    declared = tool("chunk_document")["output_schema"]["properties"][variable]
    assert declared["$ref"] == f"https://dify.ai/schemas/v1/{schema}.json"


def test_only_whole_chunks_are_found_by_keywords(template: dict[str, Any]) -> None:
    """An economical knowledge base indexes neither children nor questions."""
    base = nodes_of(template)[-1]["data"]
    economy = base["indexing_technique"] == "economy"
    assert economy <= (base["chunk_structure"] == "text_model")
    assert base["retrieval_model"]["search_method"] == ("keyword_search" if economy else "semantic_search")
    assert (base["embedding_model"], base["embedding_model_provider"]) == ("", "")  # the author has one to choose


def test_it_begins_with_files_that_dify_takes(template: dict[str, Any]) -> None:
    origin = nodes_of(template)[0]["data"]
    if origin["provider_type"] == "local_file":
        extensions = origin["fileExtensions"]
        assert extensions == sorted(set(extensions))
        assert set(extensions) <= OFFERED
    else:  # the data source of our own, by the names that its package gives it
        manifest, provider, datasource = (
            yaml.safe_load((PLUGIN / "datasource" / file).read_text("utf-8"))
            for file in ("manifest.yaml", "provider/context_engine_documents.yaml", "datasources/documents.yaml")
        )
        assert origin["plugin_id"] == f"{manifest['author']}/{manifest['name']}"
        assert origin["provider_name"] == provider["identity"]["name"]
        assert origin["provider_type"] == provider["provider_type"]
        assert origin["datasource_name"] == datasource["identity"]["name"]
        assert outputs_of(nodes_of(template)[0]) == set(datasource["output_schema"]["properties"])


def test_a_chunk_says_where_it_is_from(template: dict[str, Any]) -> None:
    assert inputs_of(tools_of(template)[-1])["chunk_line"] == {"type": "constant", "value": True}


def nodes_of(template: Mapping[str, Any]) -> list[Node]:
    return template["workflow"]["graph"]["nodes"]  # type: ignore[no-any-return]


def tools_of(template: Mapping[str, Any]) -> list[Node]:
    return [node for node in nodes_of(template) if node["data"]["type"] == "tool"]


@cache
def tool(name: str) -> Mapping[str, Any]:
    return yaml.safe_load((PLUGIN / f"tools/{name}.yaml").read_text("utf-8"))  # type: ignore[no-any-return]


def options_of(parameter: Mapping[str, Any]) -> set[str]:
    return {option["value"] for option in parameter["options"]}


def inputs_of(node: Node) -> dict[str, Mapping[str, Any]]:
    return {**node["data"]["tool_configurations"], **node["data"]["tool_parameters"]}


def outputs_of(node: Node) -> set[str]:
    if node["data"]["type"] == "datasource":
        return {"file"}
    if node["data"]["type"] == "tool":
        return OF_ANY_TOOL | set(tool(node["data"]["tool_name"])["output_schema"]["properties"])
    return set()


def selectors_of(node: Node) -> set[tuple[str, ...]]:
    """The variables that a node reads."""
    if node["data"]["type"] == "knowledge-index":
        return {tuple(node["data"]["index_chunk_variable_selector"])}
    if node["data"]["type"] != "tool":
        return set()
    given = inputs_of(node).values()
    whole = {tuple(one["value"]) for one in given if one["type"] == "variable"}
    within = [name for one in given if one["type"] == "mixed" for name in IN_TEXT.findall(one["value"])]
    return whole | {tuple(name.split(".")) for name in within}
