"""The file that keeps what the radar has read and compared: compressed JSON, versioned, rebuilt when it is damaged.

Each token stands in the file once; statements name their tokens by number.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from context_engine.answer.conflicts import ConflictDifference
from context_engine.answer.quantities import Value
from context_engine.answer.reading import MeaningKind, MeaningToken
from context_engine.errors import ConfigError
from context_engine.insight.differences import ReadStatement
from context_engine.insight.remembered import NOTHING, RadarMemory, StatementPlace

_PACKAGE: Final = Path(__file__).parent.parent
_READERS: Final = ("answer/*.py", "core/text/*.py", "core/ranking/guard.py", "insight/*.py")
"""The files on which it depends how a text is read and compared."""

_FAST: Final = 3
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
T = TypeVar("T", bound=Hashable)


class ReadMemory(NamedTuple):
    """What a file holds; `problem` says why it could not be used, "" if it could or if there is none."""

    memory: RadarMemory
    problem: str = ""


def memory_file(data_dir: Path, domain: str) -> Path:
    """Return the file of a domain in the data folder."""
    return data_dir / f"radar-{_UNSAFE.sub('_', domain)}.json.gz"


def read_memory(file: Path) -> ReadMemory:
    """Return what a file holds; nothing if it is missing, damaged or of another version of the program."""
    try:
        content = json.loads(gzip.decompress(file.read_bytes()))
        if content["reader"] != _reader():
            return ReadMemory(NOTHING)
        return ReadMemory(_decoded(content))
    except FileNotFoundError:
        return ReadMemory(NOTHING)
    except (OSError, EOFError, zlib.error, ValueError, TypeError, LookupError, AttributeError) as error:
        return ReadMemory(NOTHING, f"{file} could not be read ({type(error).__name__})")


def write_memory(file: Path, memory: RadarMemory) -> None:
    """Put a memory in place of what a file holds; only its owner may read it.

    Raises:
        ConfigError: the file cannot be written.
    """
    unfinished = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        data = gzip.compress(json.dumps(_encoded(memory), separators=(",", ":")).encode(), _FAST, mtime=0)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(data)
        unfinished.replace(file)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise ConfigError(f"cannot be written ({error.strerror})", file=str(file)) from None


@cache
def _reader() -> str:
    """Return the version of what reads and compares: the SHA-256 of its files, so that no change of it is missed."""
    files = sorted(file for pattern in _READERS for file in _PACKAGE.glob(pattern))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _encoded(memory: RadarMemory) -> Mapping[str, Any]:
    tokens, words = _Numbering[MeaningToken](), _Numbering[str]()
    statements = [
        [words.of(sorted(each.named)), tokens.of(each.tokens), words.of(sorted(each.words)), int(each.is_cell)]
        for each in memory.statements
    ]
    return {
        "reader": _reader(),
        "statements": statements,
        "passages": memory.passages,
        "pairs": list(memory.pairs),
        "differences": [[number, each] for number, each in enumerate(memory.pairs.values()) if each],
        "tokens": list(tokens),
        "words": list(words),
    }


def _decoded(content: Mapping[str, Any]) -> RadarMemory:
    tokens = list(map(_token, content["tokens"]))
    words: Sequence[str] = content["words"]
    statements = tuple(
        ReadStatement(
            frozenset(_picked(words, named)), tuple(_picked(tokens, said)), frozenset(_picked(words, own)), bool(cell)
        )
        for named, said, own, cell in content["statements"]
    )
    passages = {key: tuple(StatementPlace(*place) for place in places) for key, places in content["passages"].items()}
    pairs = [(int(first), int(second)) for first, second in content["pairs"]]
    used = {place.statement for places in passages.values() for place in places} | {n for pair in pairs for n in pair}
    if used and not (min(used) >= 0 and max(used) < len(statements)):
        raise IndexError(f"statement {max(used)} of {len(statements)}")
    differences = {number: tuple(ConflictDifference(*each) for each in rows) for number, rows in content["differences"]}
    return RadarMemory(statements, passages, {pair: differences.get(number, ()) for number, pair in enumerate(pairs)})


def _picked(known: Sequence[T], numbers: Iterable[int]) -> list[T]:
    return [known[number] for number in numbers]


def _token(row: Sequence[Any]) -> MeaningToken:
    kind, key, written, value, *others = row
    return MeaningToken(MeaningKind(kind), key, written, None if value is None else Value(*value), *others)


class _Numbering(dict[T, int]):
    """Numbers things in the order in which they come."""

    def of(self, things: Iterable[T]) -> list[int]:
        return [self.setdefault(thing, len(self)) for thing in things]
