"""Jupyter notebooks: `.ipynb`, formats 3 and 4.

Read: the cells in their order, texts as the Markdown that they are, code as a block of its language. Reported with
their number, not read: the outputs of the code. Not read: attached pictures. Nothing is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from context_engine.core.models import NoticeCode
from context_engine.ingest.header import header_fields
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, file_notice
from context_engine.ingest.loaders.source_file import SourceFile

_LEAST_FENCE: Final = 3


def load_ipynb(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a notebook."""
    try:
        notebook = json.loads(file.read())
    except ValueError as error:
        yield Skipped(file.name, f"is not valid JSON: {error}")
        return
    except RecursionError:
        yield Skipped(file.name, "is JSON nested too deeply to be a notebook")
        return
    cells = _cells(notebook)
    if cells is None:
        yield Skipped(file.name, "is JSON, but no notebook: it has no list of cells")
        return
    language = _language(notebook)
    text = "\n\n".join(filter(None, (_text(cell, language) for cell in cells)))
    outputs = sum(len(cell["outputs"]) for cell in cells if isinstance(cell.get("outputs"), list))
    left = f"outputs of code are not read: {outputs}"
    notices = (file_notice(NoticeCode.EMBEDDED_NOT_READ, left),) if outputs else ()
    if not text:
        yield Skipped(file.name, "has no text", error=False)
        return
    yield LoadedDocument(path=file.name, text=text, header=header_fields(text), notices=notices, properties=True)


def _cells(notebook: Any) -> list[Mapping[str, Any]] | None:
    if not isinstance(notebook, dict):
        return None
    sheets = notebook.get("worksheets", [notebook])
    out: list[Mapping[str, Any]] = []
    for sheet in sheets if isinstance(sheets, list) else ():
        cells = sheet.get("cells") if isinstance(sheet, dict) else None
        if not isinstance(cells, list):
            return None
        out += [cell for cell in cells if isinstance(cell, dict)]
    return out if sheets else None


def _language(notebook: Mapping[str, Any]) -> str:
    metadata = notebook.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) and name.isalnum() else ""


def _text(cell: Mapping[str, Any], language: str) -> str:
    source = cell.get("source", cell.get("input", ""))
    text = "".join(map(str, source)) if isinstance(source, list) else str(source or "")
    text = text.encode("utf-8", "replace").decode().replace("\x00", "").strip("\n")
    if cell.get("cell_type") == "heading" and text.strip():
        level = cell.get("level")
        return f"{'#' * (level if isinstance(level, int) and 0 < level < 7 else 1)} {text.strip()}"
    if cell.get("cell_type") != "code" or not text.strip():
        return text.strip()
    fence = "`" * _LEAST_FENCE
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
