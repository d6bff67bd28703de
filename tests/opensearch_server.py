"""An OpenSearch node of its own, on loopback, in a temporary folder, gone at the end.

Maven collects the node (tests/engines/opensearch/pom.xml) into a folder of the user's cache, once; `Launcher.java`
starts it. The native libraries of the plugin k-NN are not on Maven Central, so its vectors need the engine `lucene`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["OpenSearchNode", "missing"]

HERE = Path(__file__).with_name("engines") / "opensearch"
MEMORY = Path("/dev/shm")
"""A node writes to the disk and waits for it at every change; in memory it does not wait."""
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies"


def missing() -> str:
    """Return what is not on this machine, "" if a node can be started."""
    return " and ".join(name for name in ("java", "mvn") if shutil.which(name) is None)


def libraries() -> Path:
    """Return the folder with the node's libraries; the first call downloads them, also for other processes.

    Raises:
        subprocess.CalledProcessError: Maven could not bring them.
    """
    pom = HERE / "pom.xml"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "context-engine-tests"
    folder = cache / f"opensearch-{sha256(pom.read_bytes()).hexdigest()[:12]}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as name:
            made = Path(name) / "lib"
            subprocess.run(["mvn", "-q", "-B", "-f", pom, COPY, f"-DoutputDirectory={made}"], check=True)
            for plugin in made.glob("*.zip"):
                with zipfile.ZipFile(plugin) as archive:
                    archive.extractall(made, [entry for entry in archive.namelist() if entry.endswith(".jar")])
            try:
                made.rename(folder)
            except OSError:
                if not folder.exists():  # another process was faster
                    raise
    return folder


class OpenSearchNode:
    """A node; it starts when entered and is stopped, by its process id, when left.

    Args:
        beside: a running node whose cluster it joins, to hold data only; None: a cluster of its own.
    """

    def __init__(self, beside: OpenSearchNode | None = None) -> None:
        self._beside = beside

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="opensearch-", dir=MEMORY if MEMORY.is_dir() else None))
        (self._folder / "config").mkdir()
        self.port, self.transport_port = _free_port(), _free_port()
        self.start()
        return self

    def start(self) -> None:
        """Start the node, and wait until it answers."""
        java = ["java", "-Xms384m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        launcher = [HERE / "Launcher.java", self._folder, str(self.port), str(self.transport_port)]
        launcher += [str(self._beside.transport_port)] if self._beside else []
        with (self._folder / "log").open("ab") as log:
            self._node = subprocess.Popen(
                [*java, "-cp", f"{libraries()}/*", *launcher], cwd=self._folder, stdout=log, stderr=log
            )
        until = time.monotonic() + 180
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/_cluster/health?wait_for_status=yellow&timeout=60s").close()
                return
            except (urllib.error.URLError, ConnectionError):
                if time.monotonic() > until or self._node.poll() is not None:
                    self.kill()
                    raise RuntimeError((self._folder / "log").read_text()[-2000:]) from None
                time.sleep(0.2)

    @property
    def url(self) -> str:
        """The node's address."""
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """End the node at once, as a power cut does."""
        self._node.kill()
        self._node.wait(60)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.kill()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
