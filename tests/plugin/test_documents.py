"""What ships beside the code: the workflow to import, the readmes, the requirements, the versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import pytest
import yaml

import context_engine
from context_engine.apps.packaging.findings import LANGUAGES

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "dify_plugin"
WORKFLOW = PLUGIN / "examples/cited-answer.yml"
CHECKED = PLUGIN / "examples/checked-answer.yml"
WORKFLOWS = pytest.mark.parametrize(("workflow", "tool"), [(WORKFLOW, "search"), (CHECKED, "answer")])
TRANSLATED = [PLUGIN / f"readme/README_{name}.md" for name in LANGUAGES if name != "en_US"]
READMES = [PLUGIN / "README.md", *TRANSLATED]


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def graph() -> dict[str, Any]:
    return read(WORKFLOW)["workflow"]["graph"]


@pytest.fixture(scope="module")
def search() -> dict[str, Any]:
    return read(PLUGIN / "tools/search.yaml")


def data_of(graph: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = [node["data"] for node in graph["nodes"] if node["data"]["type"] == kind]
    return found


def test_the_plugins_folder_is_no_package() -> None:
    """Dify's SDK has the same name: an __init__.py here would hide it."""
    assert not (PLUGIN / "__init__.py").exists()


def graph_of(workflow: Path) -> dict[str, Any]:
    return read(workflow)["workflow"]["graph"]


@WORKFLOWS
def test_the_workflow_is_connected(workflow: Path, tool: str) -> None:
    graph = graph_of(workflow)
    kinds = {node["id"]: node["data"]["type"] for node in graph["nodes"]}
    reached = {edge["target"] for edge in graph["edges"]}
    assert set(kinds) == reached | {one for one, kind in kinds.items() if kind == "start"}
    for edge in graph["edges"]:
        assert edge["id"] == f"{edge['source']}-{edge['sourceHandle']}-{edge['target']}-target"
        assert edge["data"]["sourceType"] == kinds[edge["source"]]
        assert edge["data"]["targetType"] == kinds[edge["target"]]
    handles = {edge["sourceHandle"] for edge in graph["edges"] if kinds[edge["source"]] == "tool"}
    assert handles == {"source", "fail-branch"}
    branches = {edge["sourceHandle"] for edge in graph["edges"] if kinds[edge["source"]] == "if-else"}
    assert branches == ({"true", "subject", "false"} if tool == "search" else set())


@WORKFLOWS
def test_its_tool_node_fills_in_our_form(workflow: Path, tool: str) -> None:
    node, form = data_of(graph_of(workflow), "tool"), read(PLUGIN / f"tools/{tool}.yaml")
    manifest = read(PLUGIN / "manifest.yaml")
    provider = read(PLUGIN / "provider/context_engine.yaml")
    plugin_id = f"{manifest['author']}/{manifest['name']}"
    assert node["plugin_id"] == plugin_id
    assert node["provider_id"] == f"{plugin_id}/{provider['identity']['name']}"
    assert (node["tool_name"], node["error_strategy"]) == (tool, "fail-branch")
    parameters = {one["name"]: one for one in form["parameters"]}
    for name in node["tool_parameters"]:
        assert parameters[name]["form"] == "llm"
    for name, given in node["tool_configurations"].items():
        assert parameters[name]["form"] == "form"
        if parameters[name]["type"] == "select":
            assert given["value"] in {option["value"] for option in parameters[name]["options"]}


@pytest.mark.parametrize("form", sorted(PLUGIN.glob("tools/*.yaml")), ids=lambda path: path.stem)
def test_no_setting_has_a_list_that_dify_never_fills(form: Path) -> None:
    """Dify's editor (1.12.1 to 1.16.1) asks for the options of an input variable only, never for those of a setting.

    An input variable of that type is no way out: its type reaches an agent's model, whose API refuses it.
    """
    assert "dynamic-select" not in {parameter["type"] for parameter in read(form)["parameters"]}


def test_it_uses_variables_that_we_declare(graph: dict[str, Any], search: dict[str, Any]) -> None:
    declared = set(search["output_schema"]["properties"])
    (node_id,) = [node["id"] for node in graph["nodes"] if node["data"]["type"] == "tool"]
    assert data_of(graph, "llm")["context"]["variable_selector"] == [node_id, "result"]
    conditions = [case["conditions"][0] for case in data_of(graph, "if-else")["cases"]]
    assert [condition["variable_selector"] for condition in conditions] == [
        [node_id, "decision"],
        [node_id, "question"],
    ]
    assert set(re.findall(rf"#{node_id}\.(\w+)#", WORKFLOW.read_text("utf-8"))) <= declared


def test_the_checked_answer_prints_texts_that_we_declare() -> None:
    (node_id,) = [node["id"] for node in graph_of(CHECKED)["nodes"] if node["data"]["type"] == "tool"]
    declared = read(PLUGIN / "tools/answer.yaml")["output_schema"]["properties"]
    printed = re.findall(rf"#{node_id}\.(\w+)#", CHECKED.read_text("utf-8"))
    assert printed == ["answer", "citations_text"]
    assert {declared[name]["type"] for name in printed} == {"string"}


def test_its_citations_are_switched_on() -> None:
    assert read(WORKFLOW)["workflow"]["features"]["retriever_resource"] == {"enabled": True}


@pytest.mark.parametrize("tool", ["search", "rerank"])
def test_what_a_search_gives_is_what_is_declared(tool: str, ask: Any, chunk_of: Any) -> None:
    from context_engine.apps.dify.answer import search_answer

    more: dict[str, Any] = {"question": "complete"} if tool == "search" else {}
    answer = search_answer(ask([(1, [chunk_of("a", 0.9)])]), **more)
    properties = read(PLUGIN / f"tools/{tool}.yaml")["output_schema"]["properties"]
    assert set(answer.variables) == set(properties)
    types = {"array": list, "string": str, "object": dict}
    for name, value in answer.variables.items():
        assert isinstance(value, types[properties[name]["type"]]), name


def test_the_endpoints_settings_are_the_credentials_and_its_own() -> None:
    settings = {one["name"]: one for one in read(PLUGIN / "group/context_engine.yaml")["settings"]}
    credentials = read(PLUGIN / "provider/context_engine.yaml")["credentials_for_provider"]
    assert set(settings) == {*credentials, "access_token", "notice_records", "persona"}
    assert settings["access_token"]["required"] is True and settings["access_token"]["type"] == "secret-input"
    for name, credential in credentials.items():
        assert {"name": name, **credential} == settings[name]


def authorization_fields() -> dict[str, dict[str, Any]]:
    """Return the fields of both authorizations, by plugin and name."""
    tools = read(PLUGIN / "provider/context_engine.yaml")["credentials_for_provider"]
    documents = read(PLUGIN / "datasource/provider/context_engine_documents.yaml")["credentials_schema"]
    return {f"tools/{name}": field for name, field in tools.items()} | {f"documents/{d['name']}": d for d in documents}


@pytest.mark.parametrize("field", authorization_fields().values(), ids=authorization_fields())
def test_an_authorization_can_be_filled_in_without_its_help(field: dict[str, Any]) -> None:
    """Dify shows labels and placeholders in this form, and no help; about 75 columns of a placeholder fit."""
    if field["type"] == "boolean":  # it has no placeholder, so the label says what it is
        assert all(text.endswith((")", "）")) for text in field["label"].values())
        return
    assert set(field["placeholder"]) == set(LANGUAGES)
    columns = [sum(1 + (east_asian_width(sign) in "WF") for sign in text) for text in field["placeholder"].values()]
    assert max(columns) <= 75


def test_both_authorizations_begin_with_the_demo_bank() -> None:
    names = [name.split("/") for name in authorization_fields()]
    assert [next(name for plugin, name in names if plugin == of) for of in ("tools", "documents")] == ["demo_bank"] * 2


def test_the_secret_fields_are_secret() -> None:
    credentials = read(PLUGIN / "provider/context_engine.yaml")["credentials_for_provider"]
    secret = {name for name, one in credentials.items() if one["type"] == "secret-input"}
    assert secret == {"server_token", "dify_api_key", "variables", "proxy"}


def test_requirements_are_the_packages_own_and_the_sdk() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = (PLUGIN / "requirements.txt").read_text("utf-8").split("\n")
    engine = [
        one for one in project["dependencies"] if not one.startswith(("click", "rich", "markdown-it-py"))
    ]  # the command line's
    assert [line for line in lines if line] == ["dify_plugin>=0.10.0,<0.11", *engine]


def test_there_is_one_version() -> None:
    manifest = read(PLUGIN / "manifest.yaml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    changelog = re.search(r"^## \[([^]]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    versions = {manifest["version"], project["version"], context_engine.__version__, changelog and changelog[1]}
    for readme in READMES:
        versions |= set(re.findall(r"(?<![\d.])\d+\.\d+\.\d+(?![\d.])", readme.read_text("utf-8")))
    assert versions == {context_engine.__version__}


def test_the_english_readme_has_no_chinese_in_it() -> None:
    assert not re.search(r"[\u4e00-\u9fff]", (PLUGIN / "README.md").read_text("utf-8"))


def test_what_the_readme_names_is_there() -> None:
    """Dify's page of a plugin looks for every picture from the plugin's folder, also for the READMEs in readme/."""
    for readme in READMES:
        text = readme.read_text("utf-8")
        for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
            assert (PLUGIN / picture).is_file()
        for named in re.findall(r"`(examples/[^`]+)`", text):
            assert (PLUGIN / named).is_file()


def test_the_manifest_in_the_readme_is_one() -> None:
    from context_engine.adapters.sources.dify import check_dify
    from context_engine.core.models import DomainSpec

    manifest, _ = yaml_blocks()
    for source in DomainSpec.model_validate(manifest).sources:
        check_dify(source)


def test_the_line_of_domains_in_the_readme_is_one() -> None:
    from context_engine.adapters.sources.dify import check_dify
    from context_engine.apps.dify.settings_line import read_line
    from context_engine.core.models import DomainSpec

    (line,) = re.findall(r"```json\n\s*(.*?)\n\s*```", (PLUGIN / "README.md").read_text("utf-8"), re.DOTALL)
    (manifest,) = read_line(line).manifests
    (source,) = DomainSpec.model_validate(manifest).sources
    assert check_dify(source).chunk_line


def test_the_access_file_in_the_readme_is_one() -> None:
    from context_engine.settings.access_file import AccessFile
    from context_engine.settings.principals import Principals

    _, access = yaml_blocks()
    app, lead = access["principals"]["intake-lead"]["dify"][0].values()
    principals = Principals(AccessFile.model_validate(access))
    assert (principals.for_dify(app, "another").id, principals.for_dify(app, lead).id) == ("intake", "intake-lead")


def yaml_blocks() -> list[dict[str, Any]]:
    blocks = re.findall(r"```yaml\n(.*?)```", (PLUGIN / "README.md").read_text("utf-8"), re.DOTALL)
    return [yaml.safe_load(block) for block in blocks]


def test_every_text_of_the_plugins_forms_is_in_the_four_languages_that_dify_reads() -> None:
    for folder in ("", "provider", "tools", "group"):
        for path in (PLUGIN / folder).glob("*.yaml"):
            keys = [line.strip().split(": ")[0] for line in path.read_text("utf-8").splitlines()]
            assert keys.count("en_US") > 0, path
            assert {name: keys.count(name) for name in LANGUAGES} == dict.fromkeys(LANGUAGES, keys.count("en_US")), path


def test_the_translated_readmes_tell_the_same() -> None:
    """Same headings, code, links and table rows; and every error and output that the English one names."""
    shapes = []
    for readme in TRANSLATED:
        text = readme.read_text("utf-8")
        heads = [line.split(" ")[0] for line in text.splitlines() if re.match(r"#+ ", line)]
        rows = [line for line in text.splitlines() if line.startswith("|")]
        shapes.append((heads, text.count("```"), text.count("]("), len(rows)))
        names = set(re.findall(r"`([A-Z][A-Za-z]+|[a-z_]+)`", (PLUGIN / "README.md").read_text("utf-8")))
        errors = {name for name in names if name[0].isupper() and name[1].islower()}
        assert errors and errors <= set(re.findall(r"`([A-Za-z]+)`", text)), readme.name
        for tool in ("search", "answer"):
            outputs = set(read(PLUGIN / f"tools/{tool}.yaml")["output_schema"]["properties"])
            assert outputs <= set(re.findall(r"`(\w+)`", text)), (readme.name, tool)
    assert shapes[0] == shapes[1] == shapes[2]
