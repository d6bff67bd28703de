"""A small checkout with a plugin that keeps every rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from context_engine.apps.packaging.files import read_folder
from context_engine.apps.packaging.requirements import SDK
from context_engine.apps.packaging.vendor import find_project, vendor_project

PROJECT = """
[project]
name = "dify-context-engine"
version = "0.1.0"
dependencies = ["httpx>=0.28,<1", "PyYAML>=6.0.2,<7"]

[project.optional-dependencies]
documents = ["lxml>=5.3,<8"]
audit = ["SQLAlchemy>=2.0.36,<3"]

[project.entry-points."context_engine.sources"]
local = "context_engine.local:open_local"
"""
MANIFEST = """
version: 0.1.0
type: plugin
author: meridian-harbour
name: context_engine
label: {en_US: Context Engine, zh_Hans: 上下文引擎}
description: {en_US: Ranked chunks with provenance., zh_Hans: 带来源的排序片段。}
icon: icon.svg
icon_dark: icon-dark.svg
created_at: 2026-01-31T09:00:00+08:00
resource:
  memory: 268435456
  permission:
    tool: {enabled: true}
    model: {enabled: true, rerank: true}
    endpoint: {enabled: true}
    storage: {enabled: true, size: 1048576}
plugins:
  tools: [provider/context_engine.yaml]
  endpoints: [group/retrieval.yaml]
meta:
  version: 0.0.1
  arch: [amd64, arm64]
  runner: {language: python, version: "3.12", entrypoint: main}
  minimum_dify_version: 1.10.0
tags: [rag, search]
privacy: PRIVACY.md
repo: https://git.meridian-harbour.example/context-engine
"""
PROVIDER = """
identity:
  author: meridian-harbour
  name: context_engine
  label: {en_US: Context Engine, zh_Hans: 上下文引擎}
  description: {en_US: Ranked chunks., zh_Hans: 排序片段。}
  icon: icon.svg
  tags: [rag]
credentials_for_provider:
  base_url:
    type: text-input
    required: true
    default: https://dify.meridian-harbour.example/v1
    label: {en_US: Base URL, zh_Hans: 地址}
    help: {en_US: Ends in /v1., zh_Hans: 以 /v1 结尾。}
    placeholder: {en_US: https, zh_Hans: https}
    url: https://docs.dify.ai
  api_key: {type: secret-input, required: true, label: {en_US: Key, zh_Hans: 密钥}}
  demo: {type: boolean, default: false, label: {en_US: Demo, zh_Hans: 演示}}
  region:
    type: select
    default: eu
    label: {en_US: Region, zh_Hans: 区域}
    options:
      - {value: eu, label: {en_US: Europe, zh_Hans: 欧洲}}
      - {value: asia, label: {en_US: Asia, zh_Hans: 亚洲}}
  model: {type: model-selector, scope: rerank, label: {en_US: Model, zh_Hans: 模型}}
tools: [tools/search.yaml]
extra: {python: {source: provider/context_engine.py}}
"""
TOOL = """
identity:
  author: meridian-harbour
  name: search
  label: {en_US: Search, zh_Hans: 搜索}
description:
  human: {en_US: Searches a domain., zh_Hans: 搜索一个领域。}
  llm: Searches a domain.
parameters:
  - name: query
    type: string
    required: true
    form: llm
    label: {en_US: Query, zh_Hans: 查询}
    human_description: {en_US: What to look for., zh_Hans: 要查找的内容。}
    llm_description: What to look for.
    auto_generate: {type: prompt_instruction}
    template: {enabled: true}
  - name: top_k
    type: number
    form: form
    default: 8
    min: 1
    max: 100
    precision: 0
    label: {en_US: Count, zh_Hans: 数量}
    human_description: {en_US: How many., zh_Hans: 多少。}
  - name: authority
    type: select
    form: form
    default: all
    label: {en_US: Authority, zh_Hans: 权威}
    human_description: {en_US: Which tiers., zh_Hans: 哪些级别。}
    options:
      - {value: all, label: {en_US: Everything, zh_Hans: 全部}}
      - {value: record, label: {en_US: Record, zh_Hans: 记录}}
  - name: reranker
    type: model-selector
    scope: rerank
    form: form
    label: {en_US: Reranker, zh_Hans: 重排}
    human_description: {en_US: Which model., zh_Hans: 哪个模型。}
output_schema:
  type: object
  properties:
    result:
      type: array
      items: {type: object, properties: {content: {type: string}}}
    status: {type: string, description: complete or degraded}
    general: {$ref: https://dify.ai/schemas/v1/general_structure.json}
extra: {python: {source: tools/search.py}}
"""
GROUP = """
settings:
  - {name: access_token, type: secret-input, required: true, label: {en_US: Token, zh_Hans: 令牌}}
endpoints: [endpoints/retrieval.yaml]
"""
ENDPOINT = """
path: /retrieval
method: POST
extra: {python: {source: endpoints/retrieval.py}}
"""
PRIVACY = "The query goes to the Dify server you name, and to nobody else. Dify stores query texts itself. " * 3

CHECKOUT = {
    "pyproject.toml": PROJECT,
    "CHANGELOG.md": "# Changelog\n\n## [0.1.0] - unreleased\n\n- First.\n",
    "context_engine/__init__.py": '__version__ = "0.1.0"\n',
    "context_engine/local.py": "def open_local():\n    return 1\n",
    "context_engine/demo/bank/npa.md": "# 1 Scope\n",
    "context_engine/demo/.cache": "x",
    "context_engine/__pycache__/local.cpython-311.pyc": "x",
    "context_engine/tests/test_local.py": "x",
}
PLUGIN = {
    "manifest.yaml": MANIFEST,
    "main.py": "from dify_plugin import DifyPluginEnv, Plugin\n\nplugin = Plugin(DifyPluginEnv())\n",
    "requirements.txt": f"{SDK}\nhttpx>=0.28,<1\nPyYAML>=6.0.2,<7\n",
    "README.md": "# Context Engine\n\nRanked chunks.\n",
    "PRIVACY.md": PRIVACY,
    ".difyignore": "# local\n.env\n*.log\ndrafts/\n/notes.md\n",
    "readme/README_zh_Hans.md": "# 上下文引擎\n",
    "_assets/icon.svg": "<svg/>",
    "_assets/icon-dark.svg": "<svg/>",
    "provider/context_engine.yaml": PROVIDER,
    "provider/context_engine.py": "from dify_plugin import ToolProvider\n\n\nclass Provider(ToolProvider):\n    pass\n",
    "tools/search.yaml": TOOL,
    "tools/search.py": "from dify_plugin import Tool\n\n\nclass Search(Tool):\n    pass\n",
    "group/retrieval.yaml": GROUP,
    "endpoints/retrieval.yaml": ENDPOINT,
    "endpoints/retrieval.py": "from dify_plugin import Endpoint\n\n\nclass Retrieval(Endpoint):\n    pass\n",
}
_OF_TOOLS = ("provider/", "tools/", "group/", "endpoints/")
DRIVE = {path: text for path, text in PLUGIN.items() if not path.startswith(_OF_TOOLS)} | {
    "manifest.yaml": MANIFEST.replace(
        "  tools: [provider/context_engine.yaml]\n  endpoints: [group/retrieval.yaml]\n",
        "  datasources: [provider/documents.yaml]\n",
    ),
    "provider/documents.yaml": """
identity:
  author: meridian-harbour
  name: documents
  label: {en_US: Documents, zh_Hans: 文档}
  description: {en_US: The bank's documents., zh_Hans: 银行文档。}
  icon: icon.svg
provider_type: online_drive
credentials_schema:
  - {name: server_url, type: text-input, required: true, label: {en_US: Server, zh_Hans: 服务器}}
  - {name: server_token, type: secret-input, required: true, label: {en_US: Token, zh_Hans: 令牌}}
datasources: [datasources/documents.yaml]
extra: {python: {source: provider/documents.py}}
""",
    "provider/documents.py": "from dify_plugin.interfaces.datasource import DatasourceProvider\n\n\n"
    "class Provider(DatasourceProvider):\n    pass\n",
    "datasources/documents.yaml": """
identity:
  author: meridian-harbour
  name: documents
  label: {en_US: Documents, zh_Hans: 文档}
description: {en_US: Choose documents., zh_Hans: 选择文档。}
parameters: []
output_schema:
  type: object
  properties:
    file: {$ref: https://dify.ai/schemas/v1/file.json}
extra: {python: {source: datasources/documents.py}}
""",
    "datasources/documents.py": "from dify_plugin.interfaces.datasource.online_drive import OnlineDriveDatasource\n\n\n"
    "class Documents(OnlineDriveDatasource):\n    pass\n",
}
"""A plugin with a data source that keeps every rule."""


def write_texts(root: Path, texts: dict[str, str]) -> Path:
    """Write files of a tree."""
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return root


@pytest.fixture(scope="session")
def write_tree() -> Callable[[Path, dict[str, str]], Path]:
    return write_texts


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The root of a checkout whose `dify_plugin/` keeps every rule."""
    root = write_texts(tmp_path / "checkout", CHECKOUT)
    write_texts(root / "dify_plugin", PLUGIN)
    return root


@pytest.fixture
def staged_drive(checkout: Path) -> dict[str, bytes]:
    """The files of the package of a plugin that lies deeper in the checkout."""
    folder = write_texts(checkout / "dify_plugin/datasource", DRIVE)
    project = find_project(folder)
    assert project is not None
    plugin = read_folder(folder)
    return {**plugin, **vendor_project(project, [plugin]).files}


@pytest.fixture
def plugin_dir(checkout: Path) -> Path:
    return checkout / "dify_plugin"


@pytest.fixture
def staged(plugin_dir: Path) -> dict[str, bytes]:
    """The files of the package it becomes."""
    project = find_project(plugin_dir)
    assert project is not None
    plugin = read_folder(plugin_dir)
    return {**plugin, **vendor_project(project, [plugin]).files}
