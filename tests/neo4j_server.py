"""A Neo4j server of its own, on loopback, in a temporary folder, gone at the end.

Maven collects the server (tests/engines/neo4j/pom.xml) into a folder of the user's cache, once; `Launcher.java` starts
it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.java_libraries import MEMORY, collected, free_port

__all__ = ["PASSWORD", "Neo4jServer", "libraries"]

HERE: Final = Path(__file__).with_name("engines") / "neo4j"
PASSWORD: Final = "not-a-secret-of-anybody"


def libraries() -> Path:
    """Return the folder with the server's libraries; the first call downloads them, also for other processes.

    Raises:
        subprocess.CalledProcessError: Maven could not bring them.
    """
    return collected(HERE / "pom.xml", "neo4j")


class Neo4jServer:
    """A server; it starts when entered and is stopped, by its process id, when left. Its user is `neo4j`."""

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="neo4j-", dir=MEMORY if MEMORY.is_dir() else None))
        self.port = free_port()
        self.start()
        return self

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        java = ["java", "-Xms512m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        launcher = [HERE / "Launcher.java", self._folder, str(self.port), PASSWORD]
        log = self._folder / "log"
        with log.open("wb") as out:
            self._server = subprocess.Popen(
                [*java, "-cp", f"{libraries()}/*", *launcher], cwd=self._folder, stdout=out, stderr=out
            )
        until = time.monotonic() + 600
        while "READY" not in log.read_text():
            if time.monotonic() > until or self._server.poll() is not None:
                self.kill()
                raise RuntimeError(log.read_text()[-2000:])
            time.sleep(0.2)

    @property
    def url(self) -> str:
        """The server's address."""
        return f"bolt://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """End the server at once, as a power cut does."""
        self._server.kill()
        self._server.wait(60)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.kill()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
