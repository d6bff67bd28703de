"""The plugin's real process with a server behind it: `context-engine serve` on the loopback interface."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from context_engine.settings.principals import token_hash

pytest.importorskip("fastapi")
pytestmark = pytest.mark.slow

QUESTION = "What are the NPA classification criteria?"
CLEARANCE = "How long is a host clearance valid?"
CLEARED = "A host clearance is valid for 18 months {valid for 18 months}."
GATEWAY = "ce_gateway-token-0123456789-abcdef"
ACCESS = "endpoint-token-0123456789abcdefghij"
APP = {"app_id": "app-7"}
MANIFEST_OF_THE_APP = {
    "version": 1,
    "domain": "APP",
    "access": {"roles": ["app"]},
    "sources": [{"id": "app_notes", "type": "bank_sop"}],
}
PRINCIPALS = {
    "dify-gateway": {"gateway": True, "tokens": [{"sha256": token_hash(GATEWAY)}]},
    "app-seven": {"roles": ["app"], "dify": [{"app": "app-7"}]},
}


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a configuration; yield the address it prints."""
    command = [sys.executable, "-m", "context_engine", "serve", "--port", "0", "--config-dir", str(folder / "config")]
    env = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXT_ENGINE_")}
    env |= {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "data"), "NO_COLOR": "1"}
    process = subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said: list[str] = []
    try:
        address = None
        for line in process.stderr:
            said.append(line)
            if (found := re.search(r"listening on (http://\S+)", line)) is not None:
                address = found[1]
                break
        assert address is not None, "".join(said)
        rest = threading.Thread(target=said.extend, args=(process.stderr,), daemon=True)  # it never waits for a reader
        rest.start()
        yield address
    finally:
        process.terminate()
        process.wait(60)
        print("".join(said))  # shown if the test fails


@pytest.fixture
def server(credentials: dict[str, Any], dify: Any, tmp_path: Path) -> Iterator[str]:
    """The bank of a Dify, and a domain that one app may search."""
    line = json.loads(credentials["domains"])
    manifests = [*line["manifests"], MANIFEST_OF_THE_APP]
    files = {f"manifests/{one['domain'].lower()}.yaml": one for one in manifests}
    files["config/connections.yaml"] = {"dify": {"base_url": dify.base_url, "api_key": dify.api_key}}
    files["config/access.yaml"] = {"version": 1, "principals": PRINCIPALS}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    with serving(tmp_path) as address:
        yield address


def test_the_plugin_asks_the_server(plugin: Any, driver: Any, chat_model: Any, server: str) -> None:
    form = {"server_url": server, "server_token": GATEWAY}
    assert plugin.validate(form) == [{"result": True}]
    for wrong, told in (
        ({"server_token": GATEWAY + "x"}, "refuses server_token"),
        ({"server_url": f"{server}/api"}, "there is no context-engine"),
        ({"demo_bank": True}, "the values of demo_bank have no effect"),
        ({"server_url": "http://127.0.0.1:1"}, "could not be reached"),
    ):
        with pytest.raises(driver.Failed, match=told):
            plugin.validate(form | wrong)

    names = plugin.invoke("domains", {"check_health": True}, form, session=APP).variables["names"]
    assert "APP" in names and "NPA" in names

    found = plugin.invoke("search", {"query": QUESTION, "domain_name": "NPA"}, form, session=APP)
    assert found.variables["decision"] == "answered" and found.json["caller"]["app"] == "app-7"
    assert "".join(one["text"] for one in found.of("text")) == found.text != ""
    ranked = plugin.invoke("rerank", {"query": QUESTION, "passages": found.variables["result"]}, form, session=APP)
    assert len(ranked.variables["result"]) == len(found.variables["result"])
    quoted = plugin.invoke("answer", {"query": CLEARANCE, "domain_name": "NPA"}, form, session=APP)
    assert quoted.variables["refused"] == "" and "18 months" in quoted.text and quoted.json["mode"] == "extractive"
    model = chat_model.StreamingModel("It is valid for 18 months {valid for 18 months}. ", CLEARED)
    fields = {"query": CLEARANCE, "domain_name": "NPA", "model": chat_model.CHOICE}
    written = plugin.invoke("answer", fields, form, session=APP, backwards=model)
    assert len(model.asked) == 1 and written.json["mode"] == "model" and written.json["model"] == "gpt-4o-mini"
    assert written.variables["sentences"][-1]["verdict"] == "supported" and "18 months" in written.text
    with pytest.raises(driver.Failed) as failed:
        plugin.invoke("search", {"query": QUESTION, "domain_name": "APP"}, form, session={"app_id": "another"})
    assert "UnknownDomain: unknown domain 'APP'" in failed.value.message

    body = {"knowledge_id": "NPA:researcher", "query": QUESTION, "retrieval_setting": {"top_k": 3}}
    headers = {"Authorization": f"Bearer {ACCESS}", "Content-Type": "application/json"}
    status, answer = plugin.endpoint({**form, "access_token": ACCESS}, json.dumps(body).encode(), headers)
    assert status == 200 and len(answer["records"]) == 3
    assert GATEWAY not in plugin.everything
