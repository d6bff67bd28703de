"""The libraries of servers written in Java, which Maven collects for tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
"""A server writes to the disk and waits for it at every change; in memory it does not wait."""
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies"


def missing() -> str:
    """Return what is not on this machine, "" if a server can be started."""
    return " and ".join(name for name in ("java", "mvn") if shutil.which(name) is None)


def collected(pom: Path, name: str) -> Path:
    """Return the folder with the libraries of a `pom.xml`; the first call downloads them, also for other processes.

    Raises:
        subprocess.CalledProcessError: Maven could not bring them.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "context-engine-tests"
    folder = cache / f"{name}-{sha256(pom.read_bytes()).hexdigest()[:12]}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            made = Path(temporary) / "lib"
            subprocess.run(["mvn", "-q", "-B", "-f", pom, _COPY, f"-DoutputDirectory={made}"], check=True)
            for plugin in made.glob("*.zip"):
                with zipfile.ZipFile(plugin) as archive:
                    archive.extractall(made, [entry for entry in archive.namelist() if entry.endswith(".jar")])
            try:
                made.rename(folder)
            except OSError:
                if not folder.exists():  # another process was faster
                    raise
    return folder


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
