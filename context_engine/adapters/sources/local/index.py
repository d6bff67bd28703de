"""The tantivy index: its fields, its files, the mark of what it holds, and several indexes opened as one.

Every text is analysed by `text.terms` and passed to tantivy as words between spaces, at which tantivy splits it. So no
analyser has to be registered on opening, and queries use exactly the terms that were written.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from stat import S_IMODE
from tempfile import gettempdir, mkdtemp
from typing import Any, Final, NamedTuple

import tantivy

from context_engine.adapters.sources.stores.chunk_rows import (
    JOINT,
    IndexText,
    defined_terms,
    index_texts,
    written_words,
)
from context_engine.core.models import Chunk
from context_engine.core.text import ANALYSER_VERSION, bigrams
from context_engine.errors import StoreError

INDEX_VERSION: Final = f"{ANALYSER_VERSION}.5"
"""The analysis and fields an index was built with; an index of another version must be rebuilt."""
INDEX_OPTION: Final = "freq"
WORDS: Final = "words"
"""The field of the words as written, casefolded: candidates for misspelt words."""
META: Final = "meta.json"
"""Tantivy's list of the segments of an index."""
MARK: Final = "mark.json"
"""The record of the indexed generation (`write_mark`)."""
_NOTHING: Final = JOINT
"""A word that occurs in no text and no query."""


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in ("body", "pairs", "head", "section"):
        builder.add_text_field(name, tokenizer_name="whitespace", index_option=INDEX_OPTION)
    for name in ("title", "defines", WORDS):
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="basic")
    builder.add_unsigned_field("rid", indexed=True, fast=True)
    builder.add_unsigned_field("doc", indexed=True, fast=True)
    builder.add_unsigned_field("group", fast=True)
    for name in ("source", "attr"):
        builder.add_unsigned_field(name, indexed=True)
    for name in ("from_day", "to_day"):
        builder.add_unsigned_field(name, fast=True)
    return builder.build()


SCHEMA: Final = _schema()


class Mark(NamedTuple):
    """The contents of an index: all of a partition up to and including a generation."""

    base_id: str
    generation: int


class IndexRow(NamedTuple):
    """A chunk with its row number and the numbers of its field values."""

    rid: int
    chunk: Chunk
    attributes: Iterable[int]


def directory(root: Path, number: int, partition: int) -> Path:
    """Return the directory of a partition's index; each rebuild gets a new number."""
    return root / f"index-{number}" / str(partition)


def create(path: Path) -> None:
    """Create an empty index in a new directory."""
    path.mkdir(parents=True)
    tantivy.Index(SCHEMA, path=str(path))


def opened(path: Path) -> tantivy.Index:
    """Open an index without a thread that watches its directory.

    Raises:
        ValueError: the index is missing or unreadable.
    """
    index = tantivy.Index.open(str(path))
    index.config_reader("manual")
    return index


def documents(doc_key: int, source_key: int, rows: Sequence[IndexRow]) -> Iterator[tantivy.Document]:
    """Yield the index documents of one document's chunks.

    The text of a section is indexed with its first chunk (`group` points there). A bare heading counts in it, and in
    the headings of its chunks, but has no source, so no search of a source finds it, unless the document is only
    headings. Its body is filler of the document's mean length: an empty one would lower BM25's mean length.
    """
    texts = index_texts([row.chunk for row in rows])
    filler = [_NOTHING] * _mean([len(text.body) for text in texts if not text.bare])
    only_headings = all(text.bare for text in texts)
    sections: dict[int, list[str]] = {}
    for text in texts:
        sections.setdefault(text.first, []).extend(text.body)
    for place, (row, text) in enumerate(zip(rows, texts, strict=True)):
        out = tantivy.Document()
        out.add_unsigned("rid", row.rid)
        out.add_unsigned("doc", doc_key)
        out.add_unsigned("group", rows[text.first].rid)
        if place in sections:
            out.add_text("section", " ".join(sections[place]))
        if not text.bare or only_headings:
            out.add_unsigned("source", source_key)
        _add_fields(out, row, text)
        out.add_text(WORDS, " ".join(written_words(row.chunk)))
        _add_text(out, filler if text.bare else text.body)
        yield out


def _mean(lengths: Sequence[int]) -> int:
    return round(sum(lengths) / len(lengths)) if lengths else 0


def _add_text(out: tantivy.Document, body: list[str]) -> None:
    out.add_text("body", " ".join(body))
    out.add_text("pairs", " ".join(bigrams(body)))


def _add_fields(out: tantivy.Document, row: IndexRow, text: IndexText) -> None:
    chunk = row.chunk
    for attribute in row.attributes:
        out.add_unsigned("attr", attribute)
    if chunk.effective_from is not None:
        out.add_unsigned("from_day", chunk.effective_from.toordinal())
    if chunk.effective_to is not None:
        out.add_unsigned("to_day", chunk.effective_to.toordinal())
    out.add_text("title", " ".join(text.title))
    out.add_text("defines", " ".join(defined_terms(chunk)))
    out.add_text("head", " ".join(text.head))


def write_mark(path: Path, base_id: str, generation: int, coming: int) -> None:
    """Record the generation of an index, and its generation after the next commit.

    It is not stored as an index document, which would count in the statistics.
    """
    content = {"base_id": base_id, "opstamp": read_meta(path)["opstamp"], "held": generation, "coming": coming}
    fresh = path / f"{MARK}.new"
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path / MARK)
    share(path)


def share(path: Path) -> None:
    """Give tantivy's list, which only its owner may read, the permissions of the other index files."""
    with suppress(OSError):
        (path / META).chmod(S_IMODE((path / MARK).stat().st_mode))


def read_mark(path: Path, meta: Mapping[str, Any]) -> Mark:
    """Return the generation of an index.

    Args:
        meta: its list of segments, read before the mark; its opstamp rises with each commit.

    Raises:
        OSError, ValueError: the mark is missing or unreadable.
    """
    try:
        mark = json.loads((path / MARK).read_bytes())
        generation = mark["held"] if meta["opstamp"] <= mark["opstamp"] else mark["coming"]
        return Mark(str(mark["base_id"]), int(generation))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path / MARK} does not say what the index holds") from error


def read_meta(path: Path) -> dict[str, Any]:
    """Return the list of an index's segments.

    Raises:
        OSError, ValueError: it is unreadable.
    """
    meta = json.loads((path / META).read_bytes())
    if not isinstance(meta, dict) or not {"segments", "opstamp"} <= meta.keys():
        raise ValueError(f"{path / META} lists no segments")
    return meta


def segments(meta: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of an index's segments, with which its file names begin."""
    return frozenset(str(segment["segment_id"]).replace("-", "") for segment in meta["segments"])


def union(paths: Sequence[Path], metas: Sequence[Mapping[str, Any]]) -> tantivy.Searcher:
    """Return a searcher over several indexes of one schema, with the statistics of all their documents.

    Rows of equal scores are in the order of the indexes. An index is a list of segments, and a segment is a few files
    that never change. So a folder of links to the segments of several indexes, with a list of all of them, opens as one
    index; nothing is copied. A single index is opened this way too: tantivy writes a lock next to the index, and a
    reader may lack write permission on the base.

    The folder of links is deleted when this returns: the searcher has the files open.

    Args:
        paths: directories of the indexes, at least one.
        metas: the content of each `meta.json` (`index.read_meta`).

    Raises:
        OSError, ValueError: a file is missing, perhaps after a commit; read the indexes again.
        StoreError: no temporary folder can be created.
    """
    with link_folder() as folder:
        for path, meta in zip(paths, metas, strict=True):
            kept = segments(meta)
            for file in os.scandir(path.absolute()):
                if file.name.partition(".")[0] in kept:
                    link(Path(file.path), folder / file.name)
        joined = {
            **metas[0],
            "segments": [segment for meta in metas for segment in meta["segments"]],
            "opstamp": max(meta["opstamp"] for meta in metas),
        }
        (folder / META).write_text(json.dumps(joined), "utf-8")
        return opened(folder).searcher()


_IN_MEMORY: Final = "/dev/shm"
"""A link took 5 microseconds here, and 2 milliseconds on a busy disk."""
_PREFIX: Final = "context-engine-links-"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_ROOM_BYTES: Final = 4_000_000
"""Far more than the links of one search need; with less free memory, the disk is used."""
_LEFT_BEHIND_S: Final = 60.0
_TRIES: Final = 10


@contextmanager
def link_folder() -> Iterator[Path]:
    """Yield a new empty folder, and remove it.

    Raises:
        StoreError: it cannot be created, or the disk is full.
    """
    folder = _made()
    try:
        yield folder
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise StoreError(
            f"no space for links to the index in {folder.parent} ({error}): free some, or set TMPDIR to a folder "
            "that has space"
        ) from error
    finally:
        _remove(folder)


def link(file: Path, to: Path) -> None:
    """Link a file; symbolic links need a permission on some systems, hard links the same disk."""
    for make in (os.symlink, os.link):
        with suppress(OSError, NotImplementedError):
            make(file, to)
            return
    shutil.copyfile(file, to)


def _made() -> Path:
    try:
        place = _IN_MEMORY if _has_room(_IN_MEMORY) else gettempdir()
        _sweep(place)
        return Path(mkdtemp(prefix=_PREFIX, dir=place))
    except OSError as error:
        raise StoreError(
            f"no temporary folder can be created ({error}): a search needs one for links to the index; set TMPDIR to a "
            "writable folder"
        ) from error


def _has_room(place: str) -> bool:
    return os.access(place, os.W_OK) and shutil.disk_usage(place).free >= _ROOM_BYTES


def _remove(folder: Path) -> None:
    """Remove a folder; retried, because tantivy may be creating a lock in it."""
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return


@cache
def _sweep(place: str) -> None:
    """Remove, once per process, the folders left by killed processes."""
    for folder in Path(place).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _LEFT_BEHIND_S:
                shutil.rmtree(folder, ignore_errors=True)
