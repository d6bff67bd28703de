"""The documents as a drive: domains, sources, and documents part by part, in the form that Dify reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.plugin_settings import PluginAudit
from context_engine.apps.dify.tools import Tools, browse, download
from context_engine.core.models import Caller, Principal
from context_engine.errors import ConfigError, InvalidRequest, UnknownDomain
from context_engine.service.deployment import Deployment
from tests.unit.service.small_bank import CHAIR, CLERK, small_bank

END = {"is_truncated": False, "next_page_parameters": {}}
A = {"id": "sops/a/", "name": "a.md", "type": "file"}
B = {"id": "sops/b/", "name": "1 Incidents.md", "type": "file"}


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    deployment = small_bank(tmp_path_factory.mktemp("bank"), env={"CONTEXT_ENGINE_AUDIT_LEDGER": ""})
    yield deployment
    deployment.close()


def browsed(bank: Deployment, principal: Principal = CLERK, **fields: Any) -> list[dict[str, Any]]:
    """The buckets of an answer; the size of each file is held against its download."""
    listed: list[dict[str, Any]] = browse(bank, principal, fields).json["result"]
    for bucket in listed:
        for entry in bucket["files"]:
            size = entry.pop("size")
            file = {"bucket": bucket["bucket"], "id": entry["id"]}
            assert size == (
                0 if entry["type"] == "folder" else len(download(bank, principal, file).text.encode("utf-8"))
            )
    return listed


@pytest.mark.parametrize("nothing", [{}, {"bucket": None, "prefix": "", "next_page_parameters": None}])
def test_the_buckets_are_the_domains(bank: Deployment, nothing: dict[str, Any]) -> None:
    assert browsed(bank, **nothing) == [{"bucket": "ORM", "files": [], **END}]


def test_the_folders_are_the_sources_that_the_caller_may_search(bank: Deployment) -> None:
    folders = {name: {"id": name, "name": name, "type": "folder"} for name in ("sops", "board", "web")}
    assert browsed(bank, bucket="ORM", prefix="") == [
        {"bucket": "ORM", "files": [folders["sops"], folders["web"]], **END}
    ]
    assert browsed(bank, CHAIR, bucket="ORM") == [{"bucket": "ORM", "files": list(folders.values()), **END}]


def test_a_folder_comes_whole_whatever_dify_asks_for(bank: Deployment) -> None:
    assert browsed(bank, bucket="ORM", prefix="sops", max_keys=1, next_page_parameters=None) == [
        {"bucket": "ORM", "files": [A, B], **END}
    ]


def test_the_documents_beyond_the_limit_are_in_a_folder(bank: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_engine.apps.dify.tools._MOST_FILES", 1)
    rest = {"id": "sops/a//", "name": "after a.md", "type": "folder"}
    assert browsed(bank, bucket="ORM", prefix="sops") == [{"bucket": "ORM", "files": [A, rest], **END}]
    assert browsed(bank, bucket="ORM", prefix=rest["id"]) == [{"bucket": "ORM", "files": [B], **END}]


def test_a_document_is_a_markdown_file(bank: Deployment) -> None:
    file = download(bank, CLERK, {"bucket": "ORM", "id": "sops/b/"})
    assert file.text.startswith("---\ndocument_id: b\n")
    assert file.text.endswith("---\n\n# 1 Incidents\n\nAn incident is an event without a loss.\n")
    assert (file.json, file.variables) == ({"file_name": "1 Incidents.md", "mime_type": "text/markdown"}, {})


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"bucket": "ORM", "prefix": "sop"}, r"no source 'sop' that you may search. Did you mean 'sops'\?"),
        ({"bucket": "ORM", "prefix": "sops/"}, "list the documents again"),
        ({"bucket": "ORM", "prefix": "board/a//"}, "no source 'board' that you may search"),
        ({"bucket": 7.5, "prefix": ["sops"]}, "prefix must be a text"),
    ],
)
def test_what_cannot_be_listed_is_named(bank: Deployment, fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        browse(bank, CLERK, fields)


@pytest.mark.parametrize("fields", [{}, {"bucket": "ORM"}, {"id": "sops/a/"}, {"bucket": "ORM", "id": "sops"}])
def test_what_cannot_be_downloaded_is_named(bank: Deployment, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="list"):
        download(bank, CLERK, fields)


def test_an_unknown_domain_is_named(bank: Deployment) -> None:
    for ask in (browse, download):
        with pytest.raises(UnknownDomain):
            ask(bank, CLERK, {"bucket": "NPA", "prefix": "sops", "id": "sops/a/"})


def test_who_may_search_nothing_learns_what_to_do(bank: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = bank.known_to(CLERK)
    monkeypatch.setattr(Deployment, "known_to", lambda *_: registry.only({}))
    with pytest.raises(ConfigError, match=r"a role in access\.yaml"):
        browse(bank, CLERK, {})


def test_the_tools_of_a_server_answer_both(bank: Deployment) -> None:
    def called(name: Any, fields: dict[str, Any]) -> ToolOutput:
        tools = Tools(deployment=bank, audit=PluginAudit("off"))
        return tools.call(name, fields, Caller(), CLERK, lambda *_: ())

    assert called("browse", {}) == browse(bank, CLERK, {})
    assert called("download", {"bucket": "ORM", "id": A["id"]}).json["file_name"] == A["name"]
