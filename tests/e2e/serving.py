"""The service as a process of its own, on a port that was free."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOKEN = "fictitious-token-of-a-test-0123456789"
AS_API = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


@dataclass
class Served:
    """A running service."""

    process: subprocess.Popen[str]
    port: int
    said: list[str]

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Ask once, on a connection of its own; return the status and the JSON of the answer."""
        status, text = self.read(path, method, body)
        return status, json.loads(text)

    def read(self, path: str, method: str = "GET", body: Any = None) -> tuple[int, str]:
        """Ask once, on a connection of its own; return the status and the text of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), AS_API)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait_for_words(self, words: str, seconds: float = 60.0) -> None:
        """Wait until the log says something."""
        waited = threading.Event()
        for _ in range(int(seconds / 0.05)):
            if any(words in line for line in list(self.said)):
                return
            waited.wait(0.05)
        raise AssertionError(f"not said: {words!r}; said: {self.said}")


@contextmanager
def served(folder: Path, *options: str, **env: str) -> Iterator[Served]:
    """Start `context-engine serve` in a folder; whatever still runs in the end is ended."""
    command = [sys.executable, "-m", "context_engine", "serve", "--port", "0", *options]
    known = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXT_ENGINE_")}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**known, "HOME": str(folder), "CONTEXT_ENGINE_API_TOKEN": TOKEN, **env},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    said: list[str] = []
    assert process.stderr is not None
    reader = threading.Thread(target=lambda: said.extend(iter(process.stderr.readline, "")), daemon=True)
    reader.start()
    try:
        one = Served(process, 0, said)
        one.wait_for_words("listening on")
        found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", "".join(said))
        assert found
        one.port = int(found[1])
        yield one
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(30)
        reader.join(10)
        process.stderr.close()
