"""The first configuration: commented files and two sample documents to start from."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from context_engine.errors import ConfigError
from context_engine.settings.resolver import personas_file


def scaffold_files() -> dict[str, bytes]:
    """Return the files of the first configuration: relative path -> content, sorted."""
    templates = _walk(files("context_engine.settings") / "templates", PurePosixPath())
    return dict(sorted((("config/personas.json", personas_file()), *templates)))


def write_scaffold(folder: Path) -> list[Path]:
    """Write the first configuration into a folder, which is created if missing, and return the files.

    Raises:
        ConfigError: one of the files exists (then nothing is written), or the folder is not writable.
    """
    contents = {folder / name: content for name, content in scaffold_files().items()}
    present = [path.relative_to(folder).as_posix() for path in contents if path.exists() or path.is_symlink()]
    if present:
        raise ConfigError(f"{folder} already holds {', '.join(present)}: move them away, or name another folder")
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
