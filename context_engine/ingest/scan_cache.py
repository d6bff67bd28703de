"""Remembers the result of the last run for each file, so that unchanged files need not be read again.

A file counts as unchanged if its size and modification time are the same, the same version read it, it would be cut the
same way, and the sources still hold its documents. Only files that gave documents, and of which no part was skipped,
are remembered, together with their notices.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping, Sequence, Set
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_engine import __version__
from context_engine.core.chunking.cut import CHUNKER_VERSION
from context_engine.core.chunking.strategy import DEFAULT_STRATEGIES
from context_engine.core.models import Notice, NoticeCode, canonical_json
from context_engine.ingest.documents import CutBy
from context_engine.ingest.files import shown_name
from context_engine.ingest.reading import FileJob, IngestOptions, Known
from context_engine.settings.data_dir import replace_file

logger = logging.getLogger(__name__)
_FORM: Final = 3
_CODES: Final = {str(code): code for code in NoticeCode}
_YOUNG_S: Final = 3.0
"""A file changed less than this before it was read is not remembered: it may change again within one clock tick."""


class ScannedDocument(NamedTuple):
    """A document of a file; `cut_by` as in `PreparedDocument`."""

    source_id: str
    document_id: str
    version: str
    content_hash: str
    place: str
    cut_by: CutBy


class ScannedFile(NamedTuple):
    """The result of a file: documents, notices, and (source id, code, reason, count) of documents without a type."""

    documents: Sequence[ScannedDocument]
    notices: Sequence[Notice]
    untyped: Sequence[tuple[str, NoticeCode, str, int]]


class ScanCache:
    """The remembered files of one data directory, kept in a JSON file; an unreadable file counts as empty.

    Args:
        path: the JSON file.
        force: read every file again; the results are remembered as usual.
    """

    def __init__(self, path: Path, *, force: bool = False) -> None:
        self._path, self._force = path, force
        self._files: dict[str, Any] = _read(path)
        self._stamps: dict[str, tuple[str, list[int]]] = {}

    def recall(self, job: FileJob, options: IngestOptions, known: Known) -> ScannedFile | None:
        """Return the remembered result of an unchanged file; None if it has to be read."""
        name, now = _name(job.file), _stamp(job.file)
        if now is None or not job.takers:
            return None
        how = _how(job, options)
        self._stamps[name] = (how, now)
        remembered = self._files.get(name)
        if self._force or remembered is None or remembered["how"] != how or remembered["stamp"] != now:
            return None
        documents = [ScannedDocument(*document) for document in remembered["documents"]]
        same = (
            known.get(document.source_id, {}).get((document.document_id, document.version)) == document.content_hash
            for document in documents
        )
        if not all(same):
            return None
        notices = [Notice(_CODES[code], *rest) for code, *rest in remembered["notices"]]
        untyped = [(source, _CODES[code], reason, count) for source, code, reason, count in remembered["untyped"]]
        return ScannedFile(documents, notices, untyped)

    def learn(self, job: FileJob, made: ScannedFile | None) -> None:
        """Remember the result of a file; None forgets it."""
        name = _name(job.file)
        how, stamp = self._stamps.get(name, ("", [0, 0]))
        if not made or not made.documents or not how or time.time() - stamp[1] / 1e9 < _YOUNG_S:
            self._files.pop(name, None)
        else:
            self._files[name] = {"how": how, "stamp": stamp, **made._asdict()}

    def save(self, root: Path) -> None:
        """Write the JSON file without files below `root` that this run did not see. A failure costs only time."""
        inside = f"{_name(root)}{os.sep}"
        kept = {name: file for name, file in self._files.items() if name in self._stamps or not name.startswith(inside)}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _write(self._path, kept)
        except OSError as error:
            logger.info("the scan cache was not written: %s", error)


def forget_sources(data_dir: Path, source_ids: Set[str]) -> None:
    """Forget the files that gave documents to sources, in every cache of a data directory.

    Raises:
        OSError: a cache cannot be written.
    """
    for path in data_dir.glob("files-*.json"):
        files = _read(path)
        kept = {
            name: file for name, file in files.items() if source_ids.isdisjoint(row[0] for row in file["documents"])
        }
        if len(kept) < len(files):
            _write(path, kept)


def _write(path: Path, files: Mapping[str, Any]) -> None:
    replace_file(path, json.dumps({"form": _FORM, "codes": sorted(_CODES), "files": files}).encode())


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        files = content["files"] if content["form"] == _FORM and _CODES.keys() >= set(content["codes"]) else {}
        return {name: file for name, file in files.items() if {"how", "stamp", *ScannedFile._fields} <= set(file)}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _name(file: Path) -> str:
    return shown_name(file.absolute())


def _stamp(file: Path) -> list[int] | None:
    try:
        known = file.stat()
    except OSError:
        return None
    return [known.st_size, known.st_mtime_ns]


def _how(job: FileJob, options: IngestOptions) -> str:
    """Return a digest of everything except the file's content that determines its chunks."""
    table: Mapping[str, Any] = options.strategies or DEFAULT_STRATEGIES
    parts = [
        __version__,  # another one may read a format better
        CHUNKER_VERSION,
        options.counter.name,
        options.max_chunk_tokens,
        options.most_bytes,
        options.settings.model_dump(mode="json"),
        {name: row.to_dict() for name, row in table.items()},
        [
            (taker.source_id, taker.path, taker.rule.model_dump(mode="json") if taker.rule else None)
            for taker in job.takers
        ],
    ]
    return sha256(canonical_json(parts).encode("utf-8", "surrogatepass")).hexdigest()
