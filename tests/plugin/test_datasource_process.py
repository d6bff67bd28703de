"""The data source in its own real process: a pipeline of Dify browses the documents and downloads them."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.ingest.header import front_matter
from context_engine.settings.principals import token_hash
from tests.plugin.test_server_process import serving

pytest.importorskip("fastapi")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BANK = ROOT / "context_engine/demo/bank"
DEMO = {"demo_bank": True}
CLERK, CHAIR = "ce_clerk-token-0123456789-abcdefghi", "ce_chair-token-0123456789-abcdefghi"
LONG = "# 1 Limits\n\n" + "A limit is signed by the head of the desk. " * 2_000
FILES = {
    "config/access.yaml": {
        "version": 1,
        "principals": {
            "clerk": {"roles": ["desk"], "tokens": [{"sha256": token_hash(CLERK)}]},
            "chair": {"roles": ["board"], "tokens": [{"sha256": token_hash(CHAIR)}]},
        },
    },
    "manifests/orm.yaml": {
        "version": 1,
        "domain": "ORM",
        "sources": [
            {"id": "rules", "type": "bank_sop", "documents": [{"include": "rules/*.md"}]},
            {
                "id": "board",
                "type": "bank_sop",
                "access": {"roles": ["board"]},
                "documents": [{"include": "board/*.md"}],
            },
        ],
    },
}


@pytest.fixture(scope="module")
def drive(driver: Any, plugin_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The process of the packed data source; the requirements of the other plugin are its own too."""
    place = tmp_path_factory.mktemp("drive")
    folder = str(ROOT / "dify_plugin/datasource")
    command = ["plugin", "pack", "--plugin-dir", folder, "--extras", "none", "--out", str(place)]
    subprocess.run([sys.executable, "-m", "context_engine", *command], check=True, capture_output=True)
    with zipfile.ZipFile(place / "context_engine_documents-0.1.0.difypkg") as archive:
        archive.extractall(place / "plugin")
    with driver.PluginProcess(plugin_python, place / "plugin", {"HOME": str(place)}) as process:
        yield process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A small bank behind `context-engine serve`."""
    place = tmp_path_factory.mktemp("server")
    texts = {name: json.dumps(content) for name, content in FILES.items()}
    texts |= {"documents/rules/limits.md": LONG, "documents/board/minutes.md": "# 1 Minutes\n\nThe board met.\n"}
    for name, text in texts.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, "utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXT_ENGINE_")}
    env |= {"HOME": str(place), "XDG_DATA_HOME": str(place / "data")}
    ingest = ["ingest", "documents", "--domain", "ORM", "--config-dir", "config"]
    subprocess.run([sys.executable, "-m", "context_engine", *ingest], check=True, cwd=place, env=env)
    with serving(place) as address:
        yield address


def asked(drive: Any, action: str, credentials: dict[str, Any], **more: Any) -> list[Any]:
    data = {"type": "datasource", "user_id": "u", "provider": "context_engine_documents", "datasource": "documents"}
    streamed: list[Any] = drive.request({**data, "action": action, "credentials": credentials, **more})
    return streamed


def validated(drive: Any, credentials: dict[str, Any]) -> list[Any]:
    return asked(drive, "validate_datasource_credentials", credentials)


def browsed(drive: Any, credentials: dict[str, Any], bucket: str | None = None, prefix: str = "", **more: Any) -> Any:
    request = {"bucket": bucket, "prefix": prefix, "max_keys": 20, "next_page_parameters": None, **more}
    (answer,) = asked(drive, "invoke_online_drive_browse_files", credentials, request=request)
    return answer["result"]


def files_of(drive: Any, credentials: dict[str, Any], bucket: str, folder: str) -> list[dict[str, Any]]:
    """Every file of a folder; Dify reads the first part of a list only."""
    (listed,) = browsed(drive, credentials, bucket, folder)
    assert not listed["is_truncated"]
    files: list[dict[str, Any]] = listed["files"]
    return files


def downloaded(drive: Any, credentials: dict[str, Any], bucket: str, key: str) -> tuple[dict[str, Any], str]:
    """The meta and the text of a file, its parts joined as the daemon does."""
    request = {"bucket": bucket, "id": key}
    parts = asked(drive, "invoke_online_drive_download_file", credentials, request=request)
    content = b"".join(base64.b64decode(part["message"]["blob"]) for part in parts)
    return next(part["meta"] for part in parts if part.get("meta")), content.decode()


def test_it_is_a_plugin_of_its_own(drive: Any) -> None:
    assert (drive.manifest["name"], drive.manifest["version"]) == ("context_engine_documents", "0.1.0")
    assert drive.manifest["plugins"]["datasources"] == ["provider/context_engine_documents.yaml"]


def test_the_documents_of_the_demo_bank_come_as_they_are(drive: Any) -> None:
    assert validated(drive, DEMO) == [{"result": True}]
    assert [one["bucket"] for one in browsed(drive, DEMO)] == ["DCE", "DESK", "NPA", "ORM"]
    (npa,) = browsed(drive, DEMO, "NPA")
    folders = [one["id"] for one in npa["files"]]
    assert {one["type"] for one in npa["files"]} == {"folder"} and "npa_sops" in folders
    for folder in folders:
        assert files_of(drive, DEMO, "NPA", folder)
    for file in files_of(drive, DEMO, "NPA", "npa_sops"):
        meta, text = downloaded(drive, DEMO, "NPA", file["id"])
        assert meta == {"file_name": file["name"], "mime_type": "text/markdown"}
        assert len(text.encode()) == file["size"]
        fields, begin = front_matter(text)
        (original,) = (
            known
            for path in (BANK / "npa").glob("*/*.md")
            for known in [path.read_text("utf-8")]
            if all(str(front_matter(known)[0].get(name)) == str(fields[name]) for name in ("document_id", "version"))
        )
        assert text[begin:].split() == original[front_matter(original)[1] :].split()


def test_a_token_sees_what_its_principal_may_read(drive: Any, driver: Any, server: str) -> None:
    clerk, chair = ({"server_url": server, "server_token": token} for token in (CLERK, CHAIR))
    assert validated(drive, clerk) == [{"result": True}]
    assert [one["bucket"] for one in browsed(drive, clerk)] == ["ORM"]
    assert [[one["id"] for one in browsed(drive, form, "ORM")[0]["files"]] for form in (clerk, chair)] == [
        ["rules"],
        ["rules", "board"],
    ]
    (file,) = files_of(drive, clerk, "ORM", "rules")
    meta, text = downloaded(drive, clerk, "ORM", file["id"])
    assert meta["file_name"] == file["name"] and text[front_matter(text)[1] :].split() == LONG.split()
    assert len(text.encode()) == file["size"] > 8192, "it comes in several parts"
    (minutes,) = files_of(drive, chair, "ORM", "board")
    assert "The board met." in downloaded(drive, chair, "ORM", minutes["id"])[1]
    for key in (minutes["id"], "rules/none/"):
        with pytest.raises(driver.Failed):
            downloaded(drive, clerk, "ORM", key)


def test_an_error_says_what_to_do_and_shows_no_secret(drive: Any, driver: Any, server: str) -> None:
    token = CLERK + "x"
    for form, named in (
        ({}, "no domain is configured"),
        ({"server_url": server, "server_token": token}, "refuses server_token"),
        ({"server_url": "http://127.0.0.1:1", "server_token": token}, "could not be reached"),
        ({"server_url": server, "server_token": token, "demo_bank": True}, "the values of demo_bank have no effect"),
    ):
        with pytest.raises(driver.Failed, match=named) as failed:
            validated(drive, form)
        assert failed.value.error_type == "CredentialsValidateFailedError"
        with pytest.raises(driver.Failed, match=named) as failed:
            browsed(drive, form)
        assert failed.value.error_type == "InvokeBadRequestError", "of this name Dify shows the message alone"
    assert token not in drive.everything
