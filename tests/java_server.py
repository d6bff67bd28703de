"""Servers written in Java for tests: on loopback, in a temporary folder, gone at the end.

Maven collects the libraries of a server (`pom.xml`) into a folder of the user's cache, once; its `Launcher.java` starts
it. OPENSEARCH_VERSION and NEO4J_VERSION choose another version than that of the `pom.xml`, and JAVA_HOME the Java:
OpenSearch 3 needs version 21. JAVA_SERVER_FOLDER is where a server keeps its data, for runs that do not fit in memory.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

HERE: Final = Path(__file__).with_name("engines")
MEMORY: Final = Path("/dev/shm")
"""A server writes to the disk and waits for it at every change; in memory it does not wait."""
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies"


def _program(name: str) -> str:
    """Return the path of a program of Java."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / name) if home else name


def missing() -> str:
    """Return what is not on this machine, "" if a server can be started."""
    needed = (_program("java"), _program("javac"), "mvn")
    return " and ".join(name for name in needed if shutil.which(name) is None)


def libraries(name: str) -> Path:
    """Return the folder with the libraries of a server; the first call downloads them, also for other processes.

    Args:
        name: of the server's folder below tests/engines.

    Raises:
        subprocess.CalledProcessError: Maven could not bring them.
    """
    pom, version = HERE / name / "pom.xml", os.environ.get(f"{name.upper()}_VERSION", "")

    def download(made: Path) -> None:
        chosen = [f"-D{name}.version={version}"] if version else []
        subprocess.run(["mvn", "-q", "-B", "-f", pom, _COPY, f"-DoutputDirectory={made}", *chosen], check=True)
        for plugin in made.glob("*.zip"):
            with zipfile.ZipFile(plugin) as archive:
                archive.extractall(made, [entry for entry in archive.namelist() if entry.endswith(".jar")])

    return _made_once(name, pom.read_bytes() + version.encode(), download)


def _class_path(name: str) -> str:
    """Return the class path of a server with its launcher, which the first call compiles."""
    jars = libraries(name)
    sources = sorted((HERE / name).rglob("*.java"))
    content = b"".join(source.read_bytes() for source in sources)

    def compiled(made: Path) -> None:
        subprocess.run([_program("javac"), "-nowarn", "-cp", f"{jars}/*", "-d", made, *sources], check=True)

    made_from = content + f"{jars} {_program('javac')}".encode()
    return f"{_made_once(f'{name}-launcher', made_from, compiled)}{os.pathsep}{jars}/*"


def _made_once(name: str, made_from: bytes, make: Callable[[Path], None]) -> Path:
    """Return a folder of the user's cache that is made from something, once for all processes."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "context-engine-tests"
    folder = cache / f"{name}-{sha256(made_from).hexdigest()[:12]}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            made = Path(temporary) / "made"
            make(made)
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


def _data_folder() -> str | None:
    return os.environ.get("JAVA_SERVER_FOLDER") or (str(MEMORY) if MEMORY.is_dir() else None)


class JavaServer(ABC):
    """A server; it starts when entered and is stopped, by its process id, when left."""

    name: ClassVar[str]
    """Of its folder below tests/engines."""
    heap_mb: ClassVar[int]
    longest_start_s: ClassVar[float]

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=_data_folder()))
        self.port = free_port()
        try:
            self.start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        return self

    @abstractmethod
    def arguments(self) -> list[str]:
        """Return what the launcher is told after the folder and the port."""

    @abstractmethod
    def answers(self) -> bool:
        """Return whether the server has started."""

    @property
    def log(self) -> Path:
        """What the process has printed."""
        return self._folder / "log"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        small = f"-Xms{self.heap_mb}m -Xmx{self.heap_mb}m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        options = os.environ.get("JAVA_SERVER_OPTIONS", small).split()
        launcher = ["Launcher", self._folder, str(self.port), *self.arguments()]
        with self.log.open("wb") as out:
            command = [_program("java"), *options, "-cp", _class_path(self.name), *launcher]
            self._server = subprocess.Popen(command, cwd=self._folder, stdout=out, stderr=out)
        until = time.monotonic() + self.longest_start_s
        while not self.answers():
            if time.monotonic() > until or self._server.poll() is not None:
                self.kill()
                raise RuntimeError(self.log.read_text()[-2000:])
            time.sleep(0.2)

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
