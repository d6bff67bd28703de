"""The conflict radar over the documents of a domain, with what it remembers, and where the findings were shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from context_engine.core.policy.trust import effective_authority
from context_engine.errors import ConfigError
from context_engine.insight.memory_file import memory_file, read_memory, write_memory
from context_engine.insight.radar import RadarFinding, RadarPassage, RadarReport, RadarSide, radar
from context_engine.wiring.examine import listed_domain
from context_engine.wiring.setup import Setup

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


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
