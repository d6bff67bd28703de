"""One broken copy for each rule: the finding names file, key and rule. What the SDK's load refuses is no rule here."""

from __future__ import annotations

import sys

import pytest

from context_engine.apps.packaging import check_files
from context_engine.apps.packaging.findings import PluginFinding
from context_engine.apps.packaging.vendor import Project
from context_engine.errors import MissingExtra

M, P, T = "manifest.yaml", "provider/context_engine.yaml", "tools/search.yaml"

G, E = "group/retrieval.yaml", "endpoints/retrieval.yaml"

LONG = "x" * 1024

# (file, text in it, what it becomes, key of the finding, its rule)
MANIFEST_ROWS = [
    ("version: 0.1.0\ntype", "version: 0.1.0rc1\ntype", "version", "pattern"),
    ("version: 0.1.0\ntype", "version: 0.1.0-rc.1\ntype", "version", "pattern"),
    ("version: 0.1.0\ntype", "version: 10000.1.0\ntype", "version", "pattern"),
    ("author: meridian-harbour", "author: Meridian", "author", "pattern"),
    ("author: meridian-harbour", "author: 123e4567-e89b-12d3-a456-426614174000", "author", "author"),
    ("author: meridian-harbour", "author: my-dify", "author", "author"),
    (", zh_Hans: 上下文引擎", "", "label.zh_Hans", "required"),
    ("label: {en_US: Context", "label: {fr_FR: Moteur, en_US: Context", "label.fr_FR", "language"),
    ("{en_US: Ranked chunks with provenance., ", f"{{en_US: {LONG}, ", "description.en_US", "length"),
    ("icon: icon.svg", "icon: missing.svg", "icon", "icon"),
    ("icon: icon.svg", f"icon: {'x' * 129}", "icon", "length"),
    ("icon_dark: icon-dark.svg", "icon_dark: missing.svg", "icon_dark", "icon"),
    ("T09:00:00+08:00", " 09:00:00+08:00", "created_at", "pattern"),
    ("T09:00:00+08:00", "T09:00:00", "created_at", "pattern"),
    ("memory: 268435456", "memory: 0", "resource.memory", "range"),
    ("tool: {enabled: true}", "tools: {enabled: true}", "resource.permission.tools", "permission"),
    ("tool: {enabled: true}", "tool: {enabled: 'on'}", "resource.permission.tool.enabled", "type"),
    ("rerank: true", "ranker: true", "resource.permission.model.ranker", "permission"),
    ("model: {enabled: true", "model: {enabled: false", "resource.permission.model.enabled", "permission"),
    (", size: 1048576", "", "resource.permission.storage.size", "required"),
    ("endpoint: {enabled: true}", "app: {enabled: true}", "resource.permission.endpoint.enabled", "permission"),
    ("[provider/context_engine.yaml]", "[provider/other.yaml]", "plugins.tools.0", "path"),
    ("endpoints: [group/retrieval.yaml]", f"endpoints: ['{'x' * 129}']", "plugins.endpoints.0", "length"),
    ("[provider/context_engine.yaml]", f"[{P}, {P}]", "plugins.tools", "one-provider"),
    ("  tools: [provider/context_engine.yaml]", f"  tools: [{P}]\n  models: [{P}]", "plugins.models", "plugins"),
    ("  tools: [provider/context_engine.yaml]", f"  tools: [{P}]\n  widgets: [{P}]", "plugins.widgets", "plugins"),
    ("  version: 0.0.1", "  version: v1", "meta.version", "pattern"),
    ("arch: [amd64, arm64]", "arch: []", "meta.arch", "required"),
    ("entrypoint: main", "entrypoint: app", "meta.runner.entrypoint", "choice"),
    ("tags: [rag, search]", "tags: [rag, banking]", "tags.1", "choice"),
    ("privacy: PRIVACY.md", "privacy: PRIVATE.md", "privacy", "path"),
    ("repo: https://git", "repo: git", "repo", "pattern"),
]

PROVIDER_ROWS = [
    ("  name: context_engine", "  name: context engine", "identity.name", "pattern"),
    ("  icon: icon.svg", "  icon: other.svg", "identity.icon", "icon"),
    ("  icon: icon.svg", "  icon: icon.svg\n  icon_dark: other.svg", "identity.icon_dark", "icon"),
    (
        "credentials_for_provider:",
        "credentials_schema: {}\ncredentials_for_provider:",
        "credentials_schema",
        "credentials",
    ),
    ("    required: true\n", "    required: 1\n", "credentials_for_provider.base_url.required", "type"),
    (
        "secret-input, required",
        "secret-input, default: abc, required",
        "credentials_for_provider.api_key.default",
        "default",
    ),
    ("default: false", "default: 'no'", "credentials_for_provider.demo.default", "default"),
    ("default: eu", "default: us", "credentials_for_provider.region.default", "default"),
    ("{value: eu,", f"{{value: {'x' * 128},", "credentials_for_provider.region.options.0.value", "length"),
    ("{value: asia,", "{value: eu,", "credentials_for_provider.region.options.1.value", "options"),
    ("scope: rerank", "scope: ranking", "credentials_for_provider.model.scope", "scope"),
    ("type: boolean,", "type: boolean, scope: rerank,", "credentials_for_provider.demo.scope", "scope"),
    ("tools: [tools/search.yaml]", "tools: []", "tools", "required"),
    ("tools: [tools/search.yaml]", "tools: [tools/search.yaml, tools/search.yaml]", "identity.name", "duplicate"),
]

TOOL_ROWS = [
    ("  name: search", "  name: search it", "identity.name", "pattern"),
    ("name: top_k", f"name: {LONG}", f"parameters.{LONG}.name", "length"),
    ("name: top_k", "name: query", "parameters.query.name", "duplicate"),
    ("type: number", "type: date", "parameters.top_k.type", "choice"),
    ("    llm_description: What to look for.\n", "", "parameters.query.llm_description", "required"),
    ("    required: true", "    required: 'yes'", "parameters.query.required", "type"),
    ("    default: 8", "    default: '8'", "parameters.top_k.default", "default"),
    ("    default: 8", "    default: true", "parameters.top_k.default", "default"),
    ("    default: 8", "    default: 101", "parameters.top_k.default", "default"),
    ("    default: all", "    default: some", "parameters.authority.default", "default"),
    ("type: model-selector\n", "type: model-selector\n    default: {}\n", "parameters.reranker.default", "default"),
    ("    default: 8", "    default: [8]", "parameters.top_k.default", "default"),
    ("{value: record,", "{value: record, icon: none.svg,", "parameters.authority.options.1.icon", "icon"),
    ("    type: string\n", "    type: string\n    scope: rerank\n", "parameters.query.scope", "scope"),
    ("template: {enabled: true}", "template: {enabled: 1}", "parameters.query.template.enabled", "type"),
    ("  type: object\n  properties", "  type: list\n  properties", "output_schema.type", "choice"),
    ("    status: {type", "    text: {type", "output_schema.properties.text", "output-schema"),
    ("status: {type: string", "status: {type: str", "output_schema.properties.status.type", "choice"),
    ("      items: {type: object, properties: {content: {type: string}}}\n", "",
     "output_schema.properties.result.items", "required"),
    ("{content: {type: string}}", "{content: {type: text}}",
     "output_schema.properties.result.items.properties.content.type", "choice"),
    ("https://dify.ai/schemas/v1/general_structure.json", "https://x.example/a.json",
     "output_schema.properties.general.$ref", "output-schema"),
    ("extra:", "has_runtime_parameters: 1\nextra:", "has_runtime_parameters", "type"),
]  # fmt: skip

ENDPOINT_ROWS = [
    (G, "[endpoints/retrieval.yaml]", "[]", "endpoints", "required"),
    (G, "settings:\n", "settings:\n  - {name: access_token, type: text-input, label: {en_US: A, zh_Hans: A}}\n",
     "settings.access_token.name", "duplicate"),
    (E, "method: POST", "method: PATCH", "method", "choice"),
    (E, "method: POST", "method: POST\nhidden: 1", "hidden", "type"),
]  # fmt: skip

ROWS = [
    *((M, *row) for row in MANIFEST_ROWS),
    *((P, *row) for row in PROVIDER_ROWS),
    *((T, *row) for row in TOOL_ROWS),
    *ENDPOINT_ROWS,
]

DP, D = "provider/documents.yaml", "datasources/documents.yaml"
DRIVE_ROWS = [
    (DP, "  name: documents", "  name: bank documents", "identity.name", "pattern"),
    (DP, "  description: {en_US: The bank's documents., zh_Hans: 银行文档。}", "  description: {en_US: The bank's.}",
     "identity.description.zh_Hans", "required"),
    (DP, "  icon: icon.svg", "  icon: other.svg", "identity.icon", "icon"),
    (DP, "{name: server_token", "{name: server_url", "credentials_schema.server_url.name", "duplicate"),
    (DP, "secret-input, required", "secret-input, default: abc, required",
     "credentials_schema.server_token.default", "default"),
    (DP, "[datasources/documents.yaml]", "[]", "datasources", "required"),
    (DP, "[datasources/documents.yaml]", f"[{D}, {D}]", "identity.name", "duplicate"),
    (D, "  name: documents", "  name: bank documents", "identity.name", "pattern"),
    (D, "label: {en_US: Documents, zh_Hans: 文档}", "label: {en_US: Documents}", "identity.label.zh_Hans", "required"),
    (D, "{en_US: Choose documents., zh_Hans: 选择文档。}", "{en_US: Choose.}", "description.zh_Hans", "required"),
    (D, "    file: {$ref", "    text: {$ref", "output_schema.properties.text", "output-schema"),
    (D, "schemas/v1/file.json", "schemas/file.json", "output_schema.properties.file.$ref", "output-schema"),
]  # fmt: skip


def named(findings: tuple[PluginFinding, ...]) -> set[tuple[str, str, str]]:
    return {(one.file, one.key, one.rule) for one in findings}


def broken(files: dict[str, bytes], file: str, old: str, new: str) -> dict[str, bytes]:
    text = files[file].decode()
    assert old in text
    return {**files, file: text.replace(old, new, 1).encode()}


def test_the_plugin_that_the_copies_are_made_of_breaks_no_rule(staged: dict[str, bytes]) -> None:
    assert check_files(staged) == ()


@pytest.mark.parametrize(("file", "old", "new", "key", "rule"), ROWS, ids=lambda value: str(value)[:24])
def test_a_broken_copy_is_refused_by_file_key_and_rule(
    staged: dict[str, bytes], file: str, old: str, new: str, key: str, rule: str
) -> None:
    found = check_files(broken(staged, file, old, new))
    where = T if (file, rule) == (P, "duplicate") else file
    assert (where, key, rule) in named(found)
    follows = ("version", "one-class", "required", "pattern", "plugins")
    assert not [one for one in found if one.key != key and one.rule not in follows], found


@pytest.mark.parametrize(("file", "old", "new", "key", "rule"), DRIVE_ROWS, ids=lambda value: str(value)[:24])
def test_a_broken_data_source_is_refused_by_file_key_and_rule(
    staged_drive: dict[str, bytes], file: str, old: str, new: str, key: str, rule: str
) -> None:
    assert check_files(staged_drive) == ()
    where = D if (file, key, rule) == (DP, "identity.name", "duplicate") else file
    assert named(check_files(broken(staged_drive, file, old, new))) == {(where, key, rule)}


def test_a_data_source_stands_alone_in_its_plugin(staged_drive: dict[str, bytes]) -> None:
    both = broken(staged_drive, M, "plugins:\n", f"plugins:\n  tools: [{DP}]\n")
    assert (M, "plugins.datasources", "plugins") in named(check_files(both))


def test_a_language_of_one_text_of_the_manifest_is_required_of_every_text(staged: dict[str, bytes]) -> None:
    findings = check_files(broken(staged, M, "zh_Hans: 上下文引擎}", "zh_Hans: 上下文引擎, ja_JP: エンジン}"))
    missing = {(finding.file, finding.key) for finding in findings}
    assert {finding.rule for finding in findings} == {"required"}
    assert all(finding.key.endswith(".ja_JP") for finding in findings)
    # the manifest's own other text, and a label, a help, an option and a description of each kind of file
    assert missing >= {
        (M, "description.ja_JP"),
        (P, "identity.description.ja_JP"),
        (P, "credentials_for_provider.base_url.help.ja_JP"),
        (P, "credentials_for_provider.region.options.1.label.ja_JP"),
        (T, "description.human.ja_JP"),
        (T, "parameters.query.human_description.ja_JP"),
        (T, "parameters.authority.options.0.label.ja_JP"),
        (G, "settings.access_token.label.ja_JP"),
    }
    assert (M, "label.ja_JP") not in missing
    assert "manifest.yaml has texts in ja_JP" in str(findings[0])


def test_an_empty_text_of_a_required_language_counts_as_missing(staged: dict[str, bytes]) -> None:
    found = check_files(broken(staged, T, "zh_Hans: 搜索}", "zh_Hans: ''}"))
    assert named(found) == {(T, "identity.label.zh_Hans", "required")}


def test_a_release_candidate_is_a_version(staged: dict[str, bytes]) -> None:
    files = broken(staged, M, "version: 0.1.0\ntype", "version: 0.1.0-rc1\ntype")
    files["context_engine/__init__.py"] = b'__version__ = "0.1.0-rc1"\n'
    assert check_files(files) == ()


def test_a_select_without_options_is_refused(staged: dict[str, bytes]) -> None:
    text = staged[T].decode()
    start, end = text.index("    options:"), text.index("output_schema:")
    found = check_files({**staged, T: (text[:start] + text[end:]).encode()})
    assert named(found) == {(T, "parameters.authority.options", "options")}


def test_min_above_max_is_refused(staged: dict[str, bytes]) -> None:
    found = check_files(broken(staged, T, "min: 1\n", "min: 101\n"))
    assert (T, "parameters.top_k.min", "range") in named(found)


def test_a_provider_without_tags_must_not_inherit_what_dify_refuses(staged: dict[str, bytes]) -> None:
    files = broken(broken(staged, P, "  tags: [rag]\n", ""), M, "tags: [rag, search]", "tags: [rag, agent]")
    assert named(check_files(files)) == {(P, "identity.tags", "tags")}


def test_64_credentials_are_the_most(staged: dict[str, bytes]) -> None:
    def files(count: int) -> dict[str, bytes]:
        more = "".join(f"  c{n}: {{type: boolean, label: {{en_US: a, zh_Hans: a}}}}\n" for n in range(count - 5))
        return broken(staged, P, "tools: [tools/", f"{more}tools: [tools/")

    assert check_files(files(64)) == ()
    assert named(check_files(files(65))) == {(P, "credentials_for_provider", "length")}


def test_127_options_are_the_most(staged: dict[str, bytes]) -> None:
    def files(count: int) -> dict[str, bytes]:
        more = "".join(f"      - {{value: v{n}, label: {{en_US: a, zh_Hans: a}}}}\n" for n in range(count - 2))
        return broken(staged, P, "  model: {type", f"{more}  model: {{type")

    assert check_files(files(127)) == ()
    assert named(check_files(files(128))) == {(P, "credentials_for_provider.region.options", "options")}


def test_labels_of_1023_characters_pass(staged: dict[str, bytes]) -> None:
    assert check_files(broken(staged, M, "{en_US: Context Engine,", f"{{en_US: {'x' * 1023},")) == ()


@pytest.mark.parametrize("file", [M, P, T, G, E])
def test_yaml_that_cannot_be_read_is_named(staged: dict[str, bytes], file: str) -> None:
    for content in (b"a: [", b"a: 1\na: 2\n", b"\xff\xfe", b"- a\n"):
        found = {(one.file, one.rule) for one in check_files({**staged, file: content})}
        assert found & {(file, "yaml"), (file, "type")}


@pytest.mark.parametrize("file", [M, P, G, "main.py", "README.md", "PRIVACY.md", ".difyignore", "requirements.txt"])
def test_a_file_that_is_missing_is_named(staged: dict[str, bytes], file: str) -> None:
    found = check_files({path: content for path, content in staged.items() if path != file})
    assert any(one.file == file or file in one.message for one in found)


def test_a_finding_reads_as_file_key_message_and_rule() -> None:
    assert str(PluginFinding("a.yaml", "b.c", "pattern", "is wrong")) == "a.yaml: b.c: is wrong [pattern]"


def test_python_that_cannot_be_read_is_named(staged: dict[str, bytes]) -> None:
    assert named(check_files({**staged, "main.py": b"def (\n"})) == {("main.py", "", "python")}


@pytest.mark.parametrize(
    ("line", "rule"),
    [("print(1)", "no-print"), ("import asyncio", "no-event-loop"), ("from anyio import run", "no-event-loop")],
)
def test_code_that_breaks_the_runtime_is_named_with_its_line(staged: dict[str, bytes], line: str, rule: str) -> None:
    found = check_files({**staged, "main.py": f"import logging\n{line}\n".encode()})
    assert named(found) == {("main.py", "line 2", rule)}


def test_a_package_without_the_engine_it_imports_is_named(staged: dict[str, bytes]) -> None:
    files = {**staged, "main.py": b"from context_engine.errors import ConfigError\n"}
    bare = {path: content for path, content in files.items() if not path.startswith("context_engine/")}
    assert ("main.py", "", "engine") not in named(check_files({**bare, "context_engine/__init__.py": b""}))
    assert ("main.py", "", "engine") not in named(
        check_files({**bare, "wheels/dify_context_engine-1-py3-none-any.whl": b""})
    )
    assert ("main.py", "", "engine") in named(check_files(bare))


@pytest.mark.parametrize(
    ("path", "content", "rule"),
    [
        ("__init__.py", b"", "no-init"),
        ("README.md", "# 标题\n".encode(), "readme"),
        ("README.md", b" \n", "readme"),
        ("PRIVACY.md", b"To be written.\n", "privacy"),
        ("PRIVACY.md", b"Please fill in the privacy policy of the plugin.\n" * 9, "privacy"),
        ("readme/README.zh.md", b"x", "readme"),
        ("README.md", b"![a](picture.svg)\n", "readme"),
        ("README.md", b"![a](_assets/none.svg)\n", "readme"),
        ("readme/README_zh_Hans.md", b"![a](../_assets/icon.svg)\n", "readme"),
        ("readme/README_zh_Hans.md", b"<img width='9' src='../_assets/icon.svg'>\n", "readme"),
        ("_assets/icon.svg", b"<svg><!-- DIFY_MARKETPLACE_TEMPLATE_ICON_DO_NOT_USE --></svg>", "icon"),
        (".difyignore", b"*.log\n!keep.log\n", "ignore"),
        (".env", b"INSTALL_METHOD=remote\n", "never-ships"),
        ("deploy.key", b"x", "never-ships"),
        ("_assets/a.txt", b"-----BEGIN RSA PRIVATE KEY-----\nMIIJKQIBAAKCAgEAxkqs\n", "never-ships"),
    ],
)
def test_documents_have_rules_too(staged: dict[str, bytes], path: str, content: bytes, rule: str) -> None:
    found = check_files({**staged, path: content})
    assert [(one.file, one.rule) for one in found] == [(path, rule)]


@pytest.mark.parametrize("path", ["README.md", "readme/README_zh_Hans.md"])
@pytest.mark.parametrize("target", ["_assets/icon.svg", "./_assets/icon.svg", "https://bank.example/a.png"])
def test_pictures_that_dify_shows_are_no_finding(staged: dict[str, bytes], path: str, target: str) -> None:
    assert check_files({**staged, path: f"![a]({target})\n".encode()}) == ()


def test_50_mib_are_the_most(staged: dict[str, bytes]) -> None:
    room = 52_428_800 - sum(map(len, staged.values()))
    assert check_files({**staged, "large.bin": bytes(room)}) == ()
    found = check_files({**staged, "large.bin": bytes(room + 1)})
    assert [one.rule for one in found] == ["size"]
    assert "50.00 MiB of 50 MiB uncompressed; largest: large.bin 50.00 MiB, tools/search.yaml" in found[0].message


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("httpx>=0.28,<1\n", "", "httpx"),
        ("httpx>=0.28,<1\n", "httpx>=0.27,<1\n", "httpx"),
        ("httpx>=0.28,<1\n", "httpx>=0.28,<1\nhttpx>=0.28,<1\n", "httpx"),
        ("httpx>=0.28,<1\n", "httpx>=0.28,<1\nrequests\n", "requests"),
        ("dify_plugin>=0.10,<0.11\n", "dify_plugin>=0.9\n", "dify-plugin"),
        ("httpx>=0.28,<1\n", "httpx>=0.28,<1\n-r other.txt\n", "-r other.txt"),
    ],
)
def test_requirements_are_the_packages_own_and_the_sdk(staged: dict[str, bytes], old: str, new: str, key: str) -> None:
    found = check_files(broken(staged, "requirements.txt", old, new))
    assert named(found) == {("requirements.txt", key, "requirements")}


def test_requirements_may_be_written_in_another_way(staged: dict[str, bytes]) -> None:
    text = "# the SDK\nDify-Plugin < 0.11, >= 0.10.0\n\nhttpx<1,>=0.28.0  # http\npyyaml>=6.0.2,<7\n"
    assert check_files({**staged, "requirements.txt": text.encode()}) == ()


@pytest.mark.parametrize("module", ["packaging.requirements", "packaging.utils"])
def test_without_the_library_that_reads_requirements_the_extra_is_named(
    staged: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"context-engine\[plugin\]"):
        check_files(staged)


def test_a_pyproject_in_the_plugin_says_the_same(staged: dict[str, bytes]) -> None:
    same = b'[project]\nname = "x"\ndependencies = ["dify_plugin>=0.10,<0.11", "httpx>=0.28,<1", "PyYAML>=6.0.2,<7"]\n'
    assert check_files({**staged, "pyproject.toml": same}) == ()
    found = check_files({**staged, "pyproject.toml": same.replace(b"0.28", b"0.27")})
    assert named(found) == {("pyproject.toml", "httpx", "requirements")}


def test_wheels_listed_by_path_stand_for_requirements(staged: dict[str, bytes]) -> None:
    names = ["dify_plugin-0.10.2-py3-none-any.whl", "httpx-0.28.1-py3-none-any.whl", "pyyaml-6.0.3-cp312-cp312-x.whl"]
    files = {**staged, **{f"wheels/{name}": b"x" for name in names}}
    files["requirements.txt"] = "".join(f"./wheels/{name}\n" for name in names).encode()
    assert check_files(files) == ()
    gone = {path: content for path, content in files.items() if "httpx" not in path}
    assert named(check_files(gone)) == {("requirements.txt", f"./wheels/{names[1]}", "requirements")}
    old = {**files, "requirements.txt": files["requirements.txt"].replace(b"plugin-0.10.2", b"plugin-0.9.1")}
    assert ("requirements.txt", "./wheels/dify_plugin-0.9.1-py3-none-any.whl", "requirements") in named(
        check_files(old)
    )
    beside = check_files({**files, "pyproject.toml": b"[project]\n"})
    assert named(beside) == {("pyproject.toml", "", "requirements")}


def test_manifest_package_changelog_and_pyproject_name_one_version(staged: dict[str, bytes], checkout: object) -> None:
    other = {**staged, "context_engine/__init__.py": b'__version__ = "0.2.0"\n'}
    assert named(check_files(other)) == {("context_engine/__init__.py", "__version__", "version")}
    project = Project(
        root=checkout, table={"version": "0.3.0"}, changelog="# Changelog\n\n## [0.4.0] - x\n\n## [0.1.0]\n"
    )  # type: ignore[arg-type]
    assert named(check_files(staged, project)) == {
        ("CHANGELOG.md", "newest entry", "version"),
        ("pyproject.toml", "project.version", "version"),
    }
