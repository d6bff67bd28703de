"""A Redis server of its own, on loopback, in a temporary folder, gone at the end (`apt-get install redis-server`)."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Self

PASSWORD = "not-a-secret-of-anybody"


class RedisServer:
    """A server; it starts when entered, can be killed and started again, and is ended when left.

    Attributes:
        url: its address with the password.
    """

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        self.url = f"redis://:{PASSWORD}@127.0.0.1:{self._port}/0"
        self._folder = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def installed() -> bool:
        return shutil.which("redis-server") is not None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._folder.cleanup()

    def start(self) -> None:
        """Start it empty, and wait until it takes connections."""
        options = {"port": self._port, "bind": "127.0.0.1", "requirepass": PASSWORD, "save": ""}
        options |= {"dir": self._folder.name, "maxmemory": "64mb", "maxmemory-policy": "allkeys-lru"}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self._process = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                assert self._process.poll() is None, "redis-server ended at once"
                time.sleep(0.05)
        raise AssertionError("redis-server takes no connection")

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None
