"""The printed scripts in real shells, and that a completion imports no part of the engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BASH = """
source ./script
complete_words() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _context_engine_completion context-engine
    echo "${COMPREPLY[*]}"
}
complete_words context-engine se
complete_words context-engine search -d ""
complete_words context-engine search --domain = D
"""
FISH = """
source ./script
complete -C "context-engine search -d "
"""
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "autoload -U compinit; compinit -u -D; source ./script; echo RE''ADY"
zpty -r shell out '*READY*'
zpty -w -n shell $'context-engine search -d N\t'
zpty -r shell out '*-d NPA*'
print -r -- "$out"
zpty -d shell
"""


@pytest.fixture
def run(tmp_path: Path):
    """Run the lines of a shell beside the script that `completion` prints for it."""
    program = tmp_path / "bin" / "context-engine"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m context_engine "$@"\n')
    program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXT_ENGINE_")}
    env = {**kept, "PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    def in_shell(shell: str, lines: str) -> list[str]:
        if shutil.which(shell) is None:
            pytest.skip(f"{shell} is not installed")
        script = subprocess.run([program, "completion", shell], env=env, capture_output=True, check=True).stdout
        (tmp_path / "script").write_bytes(script)
        done = subprocess.run(
            [shell, "-c", lines], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100, check=True
        )
        return done.stdout.splitlines()

    return in_shell


def test_bash(run) -> None:
    assert run("bash", BASH) == ["search serve", "DCE DESK NPA ORM", "DCE DESK"]


def test_fish(run) -> None:
    assert run("fish", FISH) == ["DCE", "DESK", "NPA", "ORM"]


def test_zsh(run) -> None:
    assert "search -d NPA" in "\n".join(run("zsh", ZSH))


def test_a_completion_imports_neither_a_command_nor_the_engine(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom context_engine.apps.cli import run\n"
        "try:\n    run()\nexcept SystemExit:\n"
        "    print(sorted({name for name in sys.modules if name.startswith(('pydantic', 'rich', 'httpx', "
        "'context_engine.core', 'context_engine.wiring', 'context_engine.apps.cli.search'))}))"
    )
    env = {**os.environ, "_CONTEXT_ENGINE_COMPLETE": "bash_complete", "COMP_CWORD": "3", "HOME": str(tmp_path)}
    env["COMP_WORDS"] = "context-engine search -d N"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["plain,NPA", "[]"], done.stderr
