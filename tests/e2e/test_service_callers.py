"""A service in a process of its own: who is let in, while tokens come and go, keys rotate and the file changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from context_engine.apps.cli.context import os_user

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="signals")]

API = "T0ken-of-the-environment-0123456789"
MANIFEST = """
version: 1
domain: HANDBOOK
title: Staff handbook
sources: [{id: policies, type: bank_sop, documents: [{include: "*.md"}]}]
"""


class Served:
    """A bank in a folder, and the service over it."""

    def __init__(self, folder: Path, access: str) -> None:
        self.folder = folder
        (folder / "manifests").mkdir()
        (folder / "config").mkdir()
        (folder / "notes").mkdir()
        (folder / "manifests/handbook.yaml").write_text(MANIFEST, "utf-8")
        (folder / "notes/hotel.md").write_text("# Hotels\n\nA hotel may cost at most 180 EUR a night.\n", "utf-8")
        self.access(access)
        usual = {key: value for key, value in os.environ.items() if not key.startswith(("CONTEXT_ENGINE_", "RAG_"))}
        data = {"CONTEXT_ENGINE_DATA_DIR": str(folder / "data"), "CONTEXT_ENGINE_API_TOKEN": API}
        self._env = {**usual, **data, "NO_PROXY": "127.0.0.1"}
        self.command("ingest", "notes", "--domain", "HANDBOOK")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "context_engine", "serve", "--port", "0"],
            cwd=folder,
            env=self._env,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        said = iter(self.process.stderr.readline, "")
        self.url = next(line for line in said if line.startswith("listening on ")).split()[-1]

    def access(self, text: str) -> None:
        (self.folder / "config/access.yaml").write_text(f"version: 1\n{text}", "utf-8")

    def command(self, *args: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "context_engine", *args],
            cwd=self.folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, path: str, token: str | None = None) -> tuple[int, Any]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            with urlopen(Request(self.url + path, headers=headers), timeout=30) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            return error.code, json.load(error)

    def opens(self, token: str | None) -> bool:
        """Whether a token is let in: what is not there is 404 then, and 401 to all others."""
        status, _ = self.get("/api/v1/nothing-here", token)
        assert status in (401, 404)
        return status == 404


@pytest.fixture
def access(provider: Any, identity: Any) -> str:
    user = f"  platform: {{operator: true, os_users: ['{os_user()}']}}\n"
    return (
        f"principals:\n{user}  desk: {{roles: [analyst]}}\nclaims: {{roles: roles}}\n"
        f"oidc: {{issuer: '{identity.ISSUER}', audience: {identity.AUDIENCE}, algorithms: ES256, min_refresh_s: 1, "
        f"jwks: '{provider.jwks}'}}\n"
    )


@pytest.fixture
def served(tmp_path: Path, provider: Any, access: str) -> Iterator[Served]:
    provider.down = True
    served = Served(tmp_path, access)
    yield served
    served.process.send_signal(signal.SIGTERM)
    assert served.process.stderr is not None
    log = served.process.stderr.read()
    assert served.process.wait(60) == 0, log


def until(condition: Callable[[], bool]) -> bool:
    for _ in range(300):
        if condition():
            return True
        time.sleep(0.1)
    return False


def test_who_is_let_in_while_it_runs(served: Served, provider: Any, identity: Any, access: str) -> None:
    assert [served.opens(one) for one in (None, API, API[:-1], API.lower())] == [False, True, False, False]

    operator = json.loads(served.command("token", "add", "watch", "--principal", "platform", "--json"))["token"]
    assert until(lambda: served.get("/readyz", operator)[1].get("detail") == "state: tokens_unchecked")
    status, problem = served.get("/readyz", operator)
    assert status == 503 and [one["pointer"] for one in problem["errors"]] == ["tokens"]
    assert served.get("/readyz")[1]["errors"] == []
    provider.down = False
    assert until(lambda: served.get("/readyz")[0] == 200)

    token = identity.access_token(now=datetime.now(UTC))
    assert served.opens(token) and not served.opens(token + "x")
    new = identity.access_token("k2", now=datetime.now(UTC))
    assert not served.opens(new)
    provider.document = {"keys": [identity.jwk("k2")]}
    assert until(lambda: served.opens(new)) and not served.opens(token)

    assert served.opens(operator)
    served.command("token", "revoke", operator[3:13])
    assert not served.opens(operator)

    desk = json.loads(served.command("token", "add", "desk", "--principal", "desk", "--json"))["token"]
    assert served.opens(desk)
    served.access(access.replace("desk:", "desk2:"))
    served.process.send_signal(signal.SIGHUP)
    assert until(lambda: not served.opens(desk)) and served.opens(API) and served.opens(new)
