"""Carries out a Containerfile without a container engine: each stage is an overlay over this machine's root.

Root and Linux are needed. The base image is this machine with the Python that runs the tests. RUN steps change the
overlay only. The last stage is run with a read-only root, as the user of USER, without capabilities and without a
network but its own loopback.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FOR_THE_RUN: Final = ("USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD")
_KNOWN: Final = frozenset({"ARG", "FROM", "COPY", "RUN", "ENV", "WORKDIR", *_FOR_THE_RUN})
LOOPBACK: Final = (
    "import fcntl, socket, struct; "
    "fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh', b'lo', 0x49))"  # SIOCSIFFLAGS: up, loopback, running
)


class Instruction(NamedTuple):
    """One instruction of a Containerfile, its lines joined."""

    name: str
    text: str


@dataclass
class Stage:
    """A stage: its instructions, and what it inherits to the container that runs."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def last(self, name: str) -> str | None:
        return next((text for known, text in reversed(self.instructions) if known == name), None)

    def command(self, name: str) -> list[str]:
        """Return an instruction in exec form; the shell form would put a shell between signals and the service."""
        text = (self.last(name) or "[]").rpartition("CMD ")[2]
        return [str(part) for part in json.loads(text)]


def parsed(file: Path) -> list[Stage]:
    """Return the stages of a Containerfile, with the ARGs before the first FROM filled in."""
    text = re.sub(r"\\\n\s*", " ", re.sub(r"^\s*#.*\n", "", file.read_text("utf-8"), flags=re.MULTILINE))
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, value = line.partition(" ")
        assert name in _KNOWN, f"an instruction this test does not carry out: {name}"
        if name == "FROM":
            base, _, stage = value.partition(" AS ")
            stages.append(Stage(re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], base), stage))
        elif not stages:
            key, _, default = value.partition("=")
            arguments[key] = default
        else:
            stages[-1].instructions.append(Instruction(name, value.strip()))
    return stages


class Machine:
    """Builds the stages below a folder; `script` collects what is done in a mount namespace of its own."""

    def __init__(self, work: Path, context: Path, stages: list[Stage]) -> None:
        self.work, self.context, self.stages = work, context, stages

    def build(self) -> subprocess.CompletedProcess[str]:
        lines = [line for number in range(len(self.stages)) for line in self._built(number)]
        return self._in_namespace(lines)

    def run(self, *commands: str, mounts: dict[str, Path]) -> subprocess.CompletedProcess[str]:
        """Run shell commands in the last stage as a container does.

        Args:
            mounts: folders by their place in the container.
        """
        number = len(self.stages) - 1
        stage, root = self.stages[number], self._merged(number)
        environment = self._environment(stage, stage.instructions)
        user, _, group = (stage.last("USER") or "").partition(":")
        assert user.isdecimal() and int(user), "the container must not run as root"
        isolated = self.work / "run.sh"
        isolated.write_text(
            f"set -e\n{sys.executable} -c {shlex.quote(LOOPBACK)}\nexec chroot {root} setpriv --reuid={user} "
            f"--regid={group} --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "
            f"env -i {_settings(environment)} sh -c {shlex.quote(' && '.join(commands))}\n"
        )
        lines = [
            *self._mounted(number),
            *(f"mkdir -p {root}{place} && mount --bind {folder} {root}{place}" for place, folder in mounts.items()),
            f"mount -o remount,ro {root}",
            f"mount -t tmpfs -o mode=1777 tmpfs {root}/tmp",
            f"exec unshare --net sh {isolated}",
        ]
        return self._in_namespace(lines)

    def _built(self, number: int) -> list[str]:
        stage, root = self.stages[number], self._merged(number)
        lines, place = self._mounted(number), "/"
        for position, (name, text) in enumerate(stage.instructions):
            if name == "WORKDIR":
                place = text
                lines.append(f"mkdir -p {root}{place}")
            elif name == "COPY":
                lines.append(self._copied(text, root, place))
            elif name == "RUN":
                environment = self._environment(stage, stage.instructions[:position], building=True)
                command = shlex.quote(f"cd {place} && {text}")
                lines.append(f"chroot {root} env -i {_settings(environment)} sh -ec {command}")
        return lines

    def _copied(self, text: str, root: Path, place: str) -> str:
        *sources, target = text.split()
        start = self.context
        if sources[0].startswith("--from="):
            name = sources.pop(0).partition("=")[2]
            start = self._merged(next(number for number, stage in enumerate(self.stages) if stage.name == name))
        to = f"{root}{Path(place, target)}"
        if len(sources) == 1 and not target.endswith("/"):
            return f"mkdir -p {Path(to).parent} && cp -a {start}/{sources[0].lstrip('/')} {to}"
        return f"mkdir -p {to} && cp -a {' '.join(f'{start}/{source}' for source in sources)} {to}"

    def _environment(self, stage: Stage, before: list[Instruction], *, building: bool = False) -> dict[str, str]:
        python = str(Path(sys.base_prefix, "bin"))
        values = {"PATH": f"{python}:{_SYSTEM_PATH}", "HOME": "/root"}
        if building:  # how this machine reaches its package index; whether it compiles what it installs is the file's
            own = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
            values |= {name: value for name, value in own.items() if name != "PIP_COMPILE"}
        for name, text in before:
            if name == "ENV" or (name == "ARG" and building):
                for part in shlex.split(text):
                    key, _, value = part.partition("=")
                    values[key] = re.sub(r"\$\{?(\w+)\}?", lambda match: values[match[1]], value)
        return values

    def _mounted(self, number: int) -> list[str]:
        folder, root = self.work / str(number), self._merged(number)
        for name in ("upper", "work", "merged"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        return [
            f"mount -t overlay overlay -o lowerdir=/,upperdir={folder}/upper,workdir={folder}/work {root}",
            f"mount -t proc proc {root}/proc",
            f"mount --rbind /dev {root}/dev",
            f"chmod a+x {root}/root",  # where this machine's Python may be
        ]

    def _merged(self, number: int) -> Path:
        return self.work / str(number) / "merged"

    def _in_namespace(self, lines: list[str]) -> subprocess.CompletedProcess[str]:
        script = "\n".join(["set -e", *lines])
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script]
        return subprocess.run(command, capture_output=True, text=True, timeout=900)


def can_run() -> bool:
    """Return whether this machine lets us mount overlays."""
    if (
        not sys.platform.startswith("linux")
        or os.geteuid()
        or not (shutil.which("unshare") and shutil.which("setpriv"))
    ):
        return False
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


def _settings(environment: dict[str, str]) -> str:
    return " ".join(shlex.quote(f"{name}={value}") for name, value in environment.items())
