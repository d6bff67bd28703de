"""A Redis server of its own for a test, as a process; tests are skipped where the program is not installed."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

PASSWORD = "fictitious-password-of-a-test"


@dataclass
class RedisServer:
    """A running server, which keeps nothing on disk."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def url(self) -> str:
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait(30)


def start_redis(folder: Path, port: int | None = None) -> RedisServer:
    """Start a server and wait until it answers."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    if port is None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
    options = {"port": port, "bind": "127.0.0.1", "requirepass": PASSWORD, "save": "", "dir": folder}
    command = [program, *(str(word) for name, value in options.items() for word in (f"--{name}", value))]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            assert process.poll() is None, "redis-server ended at once"
            time.sleep(0.05)
    return RedisServer(process, port)
