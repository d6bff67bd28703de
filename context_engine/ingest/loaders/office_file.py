"""Files that LibreOffice converts if it is installed: old Office files, OpenDocument spreadsheets and presentations.

LibreOffice converts the file to DOCX, XLSX or PPTX in a temporary folder with a new profile, and the loader of that
format reads it; an old Word file that it cannot write as DOCX becomes ODT. No macro is run and nothing is fetched: a
new profile runs no unsigned macros, and the file is opened without a window. Refused: files with a password, files
LibreOffice cannot open, and all of them if it is not installed.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders.docx_file import load_docx
from context_engine.ingest.loaders.odt_file import load_odt
from context_engine.ingest.loaders.pptx_file import load_pptx
from context_engine.ingest.loaders.program import run_bounded
from context_engine.ingest.loaders.source_file import Loader, SourceFile
from context_engine.ingest.loaders.xlsx_file import load_xlsx

_COMMANDS: Final = ("soffice", "libreoffice")
_SHARE: Final = 0.8  # of the file's time; the rest is for reading the result
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
_OLE: Final = b"\xd0\xcf\x11\xe0"
_SETTINGS: Final = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="MacroSecurityLevel" oor:op="fuse">
<value>3</value></prop><prop oor:name="DisableMacrosExecution" oor:op="fuse"><value>true</value></prop>
<prop oor:name="DisableActiveContent" oor:op="fuse"><value>true</value></prop>
<prop oor:name="BlockUntrustedRefererLinks" oor:op="fuse"><value>true</value></prop></item>
</oor:items>
"""
_KINDS: Final[Mapping[str, tuple[str, str, Loader]]] = {
    ".doc": ("an old Word file", ".docx", load_docx),
    ".odp": ("an OpenDocument presentation", ".pptx", load_pptx),
    ".ods": ("an OpenDocument spreadsheet", ".xlsx", load_xlsx),
    ".ppt": ("an old PowerPoint file", ".pptx", load_pptx),
    ".xls": ("an old Excel file", ".xlsx", load_xlsx),
}


def load_office(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the documents of a file in one of these formats."""
    name, suffix, load = _KINDS[file.path.suffix.lower()]
    command = next((program for command_name in _COMMANDS if (program := shutil.which(command_name))), None)
    if command is None:
        yield Skipped(file.name, f"is {name}: install LibreOffice, or save it as {suffix}")
        return
    data = file.read()
    if data.startswith(_OLE) and _ENCRYPTED in data:
        yield Skipped(file.name, "has a password: save it without one")
        return
    with tempfile.TemporaryDirectory(prefix="context-engine-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder) / f"given{file.path.suffix.lower()}"  # safe on every command line
        copy.write_bytes(data)
        seconds = file.settings.file_timeout_s * _SHARE
        started = time.monotonic()
        made = _converted(command, copy, suffix[1:], seconds)
        if suffix == ".docx" and isinstance(made, Path) and not _is_whole(made):
            made, load = _converted(command, copy, "odt", seconds - (time.monotonic() - started)), load_odt
        if isinstance(made, str):
            yield Skipped(file.name, made)
            return
        yield from load(replace(file, path=made))


def _is_whole(made: Path) -> bool:
    """Whether LibreOffice wrote the text of a document; at some old files it breaks off before that."""
    try:
        with ZipFile(made) as archive:
            return "word/document.xml" in archive.namelist()
    except BadZipFile:
        return False


def _converted(command: str, copy: Path, form: str, seconds: float) -> Path | str:
    """Return the file that LibreOffice made, or the reason of failure."""
    folder = copy.parent
    profile = folder / "profile"
    (profile / "user").mkdir(parents=True, exist_ok=True)
    (profile / "user" / "registrymodifications.xcu").write_text(_SETTINGS, encoding="utf-8")
    options = ["--headless", "--norestore", "--nolockcheck", "--nodefault", "--nofirststartwizard"]
    made = folder / "made" / f"given.{form}"
    line = [command, f"-env:UserInstallation={profile.as_uri()}", *options, "--convert-to", form]
    if run_bounded([*line, "--outdir", str(made.parent), str(copy)], folder, seconds) is None:
        return f"took LibreOffice more than {seconds:g} s: save it as .{form}"
    if not made.is_file():
        return f"cannot be opened by LibreOffice: it is damaged, or has a password. Save it as .{form} without one"
    return made
