"""The conflict radar over the documents of a domain, with what it remembers, and where the findings were shown.

The memory is a file of compressed JSON, versioned, and rebuilt when it is damaged. Each token stands in the file once;
statements name their tokens by number.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from context_engine.answer.conflicts import ConflictDifference
from context_engine.answer.quantities import Value
from context_engine.answer.reading import MeaningKind, MeaningToken
from context_engine.core.policy.trust import effective_authority
from context_engine.errors import ConfigError
from context_engine.insight.differences import ReadStatement
from context_engine.insight.radar import RadarFinding, RadarPassage, RadarReport, RadarSide, radar
from context_engine.insight.remembered import NOTHING, RadarMemory, StatementPlace
from context_engine.settings.data_dir import replace_file
from context_engine.wiring.examine import listed_domain
from context_engine.wiring.setup import Setup

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


_PACKAGE: Final = Path(__file__).parent.parent
_READERS: Final = ("answer/*.py", "core/text/*.py", "core/ranking/guard.py", "insight/*.py")
"""The files on which it depends how a text is read and compared."""


class DomainConflicts(NamedTuple):
    """What the radar found in a domain.

    Attributes:
        unread: the ids of the sources that cannot list their passages.
        problem: why the file of the radar's memory could not be read or written; "" if it could.
    """

    report: RadarReport
    unread: tuple[str, ...]
    problem: str


class SideAnswers(NamedTuple):
    """The indices of the records that showed each side of a finding."""

    first: frozenset[int]
    second: frozenset[int]

    @property
    def either(self) -> int:
        """How many records showed one of them or both."""
        return len(self.first | self.second)


def domain_conflicts(setup: Setup, data_dir: Path, domain: str, today: date) -> DomainConflicts:
    """Return the contradictions in a domain; only what is new since the last run is read and compared.

    Args:
        data_dir: the data folder; what is remembered is kept there.

    Raises:
        ConfigError: unknown domain.
        SourceError, StoreError: a source cannot be read.
    """
    listed, unread = listed_domain(setup, data_dir, setup.registry.domain(domain))
    passages = [RadarPassage(source.id, effective_authority(chunk, source).tier, chunk) for source, chunk in listed]
    file = memory_file(data_dir, domain)
    known = read_memory(file)
    report = radar(passages, today, known.memory)
    problem = known.problem
    if report.memory != known.memory:
        try:
            write_memory(file, report.memory)
        except ConfigError as error:  # the next run compares more; the findings are the same
            problem = str(error)
    return DomainConflicts(report, tuple(unread), problem)


def answers_that_showed(ledger: Ledger, findings: Iterable[RadarFinding]) -> dict[str, SideAnswers]:
    """Return by finding id which records showed each side.

    Raises:
        AuditError: the ledger cannot be read.
    """
    return {
        finding.finding_id: SideAnswers(
            frozenset(_showing(ledger, finding.first)), frozenset(_showing(ledger, finding.second))
        )
        for finding in findings
    }


def _showing(ledger: Ledger, side: RadarSide) -> Iterator[int]:
    from context_engine.audit.ledger.look_up import MentionCriteria

    wanted = MentionCriteria(source_id=side.source_id, chunk_id=side.chunk.chunk_id, fates=("returned",))
    return (mention.record.index for mention in ledger.mentions(wanted))


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
    try:
        data = gzip.compress(json.dumps(_encoded(memory), separators=(",", ":")).encode(), _FAST, mtime=0)
        replace_file(file, data, private=True)
    except OSError as error:
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
