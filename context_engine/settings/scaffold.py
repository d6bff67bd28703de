"""The first configuration: commented files and two sample documents to start from."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from context_engine.errors import ConfigError

__all__ = ["scaffold_files", "write_scaffold"]


def scaffold_files() -> dict[str, bytes]:
    """Return the starter's files: path below the folder -> content, sorted."""
    return dict(sorted(_walk(files("context_engine.settings") / "templates", PurePosixPath())))


def write_scaffold(folder: Path) -> list[Path]:
    """Write the starter into a folder, made if it is not there, and return the files written. Nothing is overwritten.

    Raises:
        ConfigError: a file of the starter is there already (nothing is written then), or the folder cannot be written.
    """
    contents = {folder / name: content for name, content in scaffold_files().items()}
    there = [path.relative_to(folder).as_posix() for path in contents if path.exists() or path.is_symlink()]
    if there:
        raise ConfigError(f"{folder} already holds {', '.join(there)}: move them away, or name another folder")
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written to: {error.strerror}") from None
    return list(contents)


def _walk(folder: Traversable, name: PurePosixPath) -> Iterator[tuple[str, bytes]]:
    for child in folder.iterdir():
        if child.is_dir():
            yield from _walk(child, name / child.name)
        else:
            yield str(name / child.name), child.read_bytes()
