"""Load files as documents. Each format has a module, whose docstring lists what is read and what is left out.

A format's module is imported with the first file of that format; text and JSON, the formats of the demo bank, are
imported at once.

Nothing in a file is run or fetched: no macro, formula, script, link or external entity. A file that cannot be read
gives one error, and no exception of a parser leaves `load`.

A new format needs a module, an entry in LOADERS (and in ZIPPED if its files are zip archives), tests and documentation.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from context_engine.core.models import IngestSettings
from context_engine.errors import MissingExtra
from context_engine.ingest.files import shown_name
from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders.json_file import load_json, load_jsonl
from context_engine.ingest.loaders.records import LongLine
from context_engine.ingest.loaders.source_file import EMPTY, Loader, SourceFile, UnreadableFile, mismatch
from context_engine.ingest.loaders.text_file import load_text

__all__ = [
    "CONVERTED",
    "LOADERS",
    "MOST_BYTES",
    "MOST_STREAMED_BYTES",
    "STREAMED",
    "ZIPPED",
    "Loader",
    "SourceFile",
    "load",
]
logger = logging.getLogger(__name__)
MOST_BYTES: Final = 50 * 1024 * 1024
"""Most bytes of a document, which is held in memory completely."""
MOST_STREAMED_BYTES: Final = 2 * 1024 * 1024 * 1024
"""Most bytes of a file of records, which is streamed."""
STREAMED: Final = frozenset((".csv", ".json", ".jsonl", ".ndjson", ".tsv", ".xlsx"))
"""Formats whose records are read one by one."""
ZIPPED: Final = frozenset((".docx", ".epub", ".odp", ".ods", ".odt", ".pptx", ".xlsx"))
"""Formats whose files are zip archives."""
CONVERTED: Final = frozenset((".doc", ".odp", ".ods", ".ppt", ".xls"))
"""Formats that LibreOffice converts first."""
_WITH_MACROS: Final = {".docm": ".docx", ".pptm": ".pptx", ".xlsm": ".xlsx"}


def _module(name: str, function: str) -> Loader:
    """Return a loader that imports its module with its first file."""

    def load_file(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
        loader: Loader = getattr(import_module(f"{__name__}.{name}"), function)
        return loader(file)

    return load_file


def _mail(name: str, function: str) -> Loader:
    """Return a loader of a mail and its attachments, each loaded like any other file."""

    def load_mail(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
        return getattr(import_module(f"{__name__}.{name}"), function)(  # type: ignore[no-any-return]
            file,
            lambda path: load(path, path.parent, settings=file.settings),
            lambda name: Path(name).suffix.lower() in {*LOADERS, *_WITH_MACROS},
        )

    return load_mail


LOADERS: Final[Mapping[str, Loader]] = {
    ".csv": _module("csv_file", "load_csv"),
    ".doc": _module("office_file", "load_office"),
    ".docx": _module("docx_file", "load_docx"),
    ".eml": _mail("eml_file", "load_eml"),
    ".epub": _module("epub_file", "load_epub"),
    ".erb": _module("html_file", "load_template"),
    ".htm": _module("html_file", "load_html"),
    ".html": _module("html_file", "load_html"),
    ".ipynb": _module("ipynb_file", "load_ipynb"),
    ".json": load_json,
    ".jsonl": load_jsonl,
    ".markdown": load_text,
    ".md": load_text,
    ".msg": _mail("msg_file", "load_msg"),
    ".ndjson": load_jsonl,
    ".odp": _module("office_file", "load_office"),
    ".ods": _module("office_file", "load_office"),
    ".odt": _module("odt_file", "load_odt"),
    ".pdf": _module("pdf_file", "load_pdf"),
    ".ppt": _module("office_file", "load_office"),
    ".pptx": _module("pptx_file", "load_pptx"),
    ".rtf": _module("rtf_file", "load_rtf"),
    ".tmpl": _module("html_file", "load_template"),
    ".tsv": _module("csv_file", "load_csv"),
    ".txt": load_text,
    ".xls": _module("office_file", "load_office"),
    ".xlsx": _module("xlsx_file", "load_xlsx"),
}


def load(
    path: Path,
    root: Path,
    *,
    most_bytes: int = MOST_BYTES,
    most_streamed_bytes: int = MOST_STREAMED_BYTES,
    name: str | None = None,
    settings: IngestSettings = IngestSettings(),  # noqa: B008 - frozen
) -> Iterator[LoadedDocument | Skipped]:
    """Yield the documents of one file, and a `Skipped` for each part that could not be read.

    Args:
        root: the ingested folder; a link that leads out of it is refused.
        most_bytes, most_streamed_bytes: limits of the size of a document, and of a file of records.
        name: the path for its documents, as `shown_name` writes it; None: relative to `root`.
    """
    file = SourceFile(path, shown_name(path.relative_to(root).as_posix()) if name is None else name, settings)
    suffix = path.suffix.lower()
    loader = LOADERS.get(suffix)
    if loader is None:
        yield _unknown(file.name, shown_name(path.suffix))
        return
    try:
        refused = _refused(file, root, suffix, most_streamed_bytes if suffix in STREAMED else most_bytes)
        if refused:
            yield Skipped(file.name, refused, error=refused != EMPTY)
            return
        before = _stamp(file)
        yield from loader(file)
        if _stamp(file) != before:
            yield Skipped(file.name, "changed while it was read: run again when it no longer changes")
    except MemoryError:  # the caller that limits memory reports it
        raise
    except UnreadableFile as error:
        yield Skipped(file.name, str(error))
    except OSError as error:
        yield Skipped(file.name, f"cannot be opened: {error.strerror or error}")
    except (LongLine, MissingExtra) as error:
        yield Skipped(file.name, str(error))
    except UnicodeDecodeError as error:
        yield Skipped(file.name, f"is not {error.encoding} all through: save it as UTF-8")
    except Exception as error:
        logger.debug("a loader failed", exc_info=True)
        yield Skipped(file.name, f"is damaged, or does not fit its suffix: {_first_line(error)}")


def _unknown(name: str, suffix: str) -> Skipped:
    if suffix.lower() == ".xlsb":
        return Skipped(name, "is a binary workbook, which is not read: save it as .xlsx")
    plain = _WITH_MACROS.get(suffix.lower())
    if plain:
        return Skipped(name, f"may hold macros, which are not read: save it as {plain}")
    kind = suffix or "files without a suffix"
    return Skipped(name, f"{kind} cannot be read; supported: {', '.join(sorted(LOADERS))}", error=False)


def _refused(file: SourceFile, root: Path, suffix: str, most_bytes: int) -> str | None:
    size = file.state().st_size  # raises for a circular link
    if not file.path.resolve().is_relative_to(root.resolve()):
        return "is a link that leads out of the folder: copy the file there instead"
    if size > most_bytes:
        return f"has {size:,} bytes, at most {most_bytes:,} are read: split it"
    with file.open() as stream:
        return mismatch(stream.read(2048), suffix, zipped=suffix in ZIPPED)


def _stamp(file: SourceFile) -> tuple[int, int]:
    now = file.state()
    return now.st_size, now.st_mtime_ns


def _first_line(error: Exception) -> str:
    text = str(error).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first[:160]}" if first else type(error).__name__
