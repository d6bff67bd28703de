"""What is said of a file that goes over a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from context_engine.core.models import IngestSettings
from context_engine.ingest.report import documents

_SHARE: Final = 2 << 20  # bytes: a table of 2 GB is read to its end


def too_long(given: int, settings: IngestSettings) -> str:
    """Return why a file was left that took too long, after so many documents.

    >>> too_long(0, IngestSettings())
    'took longer than 30 s to be read: nothing of it is kept. Split it, or raise file_timeout_s in ingest.json'
    """
    return f"took longer than {settings.file_timeout_s:g} s to be read: {_end(given, 'file_timeout_s')}"


def too_much(given: int, settings: IngestSettings) -> str:
    """Return why a file was left that took too much memory, after so many documents."""
    return f"takes more than {settings.file_memory_mb:,} MB of memory to be read: {_end(given, 'file_memory_mb')}"


def lost(given: int, settings: IngestSettings) -> str:
    """Return why a file was left whose process ended, after so many documents."""
    ended = "the process that read it ended, perhaps for want of memory"
    return f"{ended} (file_memory_mb is {settings.file_memory_mb:,}): {_end(given, 'file_memory_mb')}"


def most_chars(file: Path, settings: IngestSettings) -> int:
    """Return the characters a file may give: `file_max_chars` for every 2 MB it has, at least once."""
    return settings.file_max_chars * _shares(file)


def most_chunks(file: Path, settings: IngestSettings) -> int:
    """Return the chunks a file may be cut into: `file_max_chunks` for every 2 MB it has, at least once."""
    return settings.file_max_chunks * _shares(file)


def over(given: int, most: int, what: str) -> str:
    """Return why a file was left that gives too many "chars" or "chunks", after so many documents."""
    return f"gives more than {most:,} {what.replace('chars', 'characters')}: {_end(given, f'file_max_{what}')}"


def _shares(file: Path) -> int:
    try:
        return max(file.stat().st_size // _SHARE, 1)
    except OSError:
        return 1


def _end(given: int, key: str) -> str:
    kept = f"what it gave before is kept ({documents(given)})" if given else "nothing of it is kept"
    return f"{kept}. Split it, or raise {key} in ingest.json"
