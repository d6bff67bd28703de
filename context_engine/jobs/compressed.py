"""A job's memory in less than two thousand tokens, for a model that answers the job's next question.

Lines are taken by the priority of their field until the room is used up: constraints, which are always whole, then the
open stage, risks, findings, earlier stages. Of what does not fit, the text says how much there is. The same memory
gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from context_engine.core.context import ApproxTokenCounter
from context_engine.core.text import counted
from context_engine.errors import InvalidRequest
from context_engine.jobs.memory import JobFinding, JobMemory, Stage

MEMORY_TOKENS: Final = 2_000
"""A compressed memory has fewer tokens than this."""

CONSTRAINT_TOKENS: Final = 1_000
"""Most tokens of all constraints of a job together."""

COUNTER: Final = ApproxTokenCounter()  # appending text never lowers its count
_FIELD_TOKENS: Final = 60  # of a title, a question, a risk or a finding
_RISK_TOKENS: Final = 250  # of all risks
_STAGE_TOKENS: Final = 250  # of all earlier stages
_PLACE_TOKENS: Final = 30
_END_TOKENS: Final = 60
_MARK: Final = "…"


class CompressedMemory(NamedTuple):
    """A memory as a model reads it.

    Attributes:
        tokens: of the text, by the counter `counter`; less than `MEMORY_TOKENS`.
        finding_ids: the findings in it; each resolves in the job's memory.
        left_out: number of findings that are not in it.
    """

    text: str
    tokens: int
    counter: str
    finding_ids: tuple[str, ...]
    left_out: int


class _Room:
    """Takes lines while they fit. A line costs its tokens and one for the line break."""

    def __init__(self, tokens: int) -> None:
        self._left = tokens

    def take(self, lines: Iterable[str], most: int = MEMORY_TOKENS) -> list[str]:
        """Return lines in their order, up to the first that does not fit or exceeds `most` tokens of all of them."""
        taken, room = [], min(most, self._left)
        for line in lines:
            cost = COUNTER.count(line) + 1
            if cost > room:
                break
            room, self._left = room - cost, self._left - cost
            taken.append(line)
        return taken

    def section(self, title: str, lines: Iterable[str], most: int = MEMORY_TOKENS) -> list[str]:
        """Return the lines that fit below a title; nothing if there are none."""
        taken = self.take(chain([title], lines), most)
        return taken if len(taken) > 1 else []


def compressed(memory: JobMemory) -> CompressedMemory:
    """Return a memory in less than `MEMORY_TOKENS` tokens."""
    newest = _by_priority(memory)
    room = _Room(MEMORY_TOKENS - 1 - _END_TOKENS)
    head = room.take(_head(memory))
    rules = room.section("Constraints, all of which hold:", constraint_lines(memory))
    risks = room.section("Risks:", (f"- {_short(note.text)}" for note in memory.risks[::-1]), _RISK_TOKENS)
    stages = room.section("Earlier stages:", _earlier(memory), _STAGE_TOKENS)
    findings = room.section("Findings:", (_finding(finding) for finding in newest))
    ids = tuple(finding.id for finding in newest[: max(len(findings) - 1, 0)])
    end = _end(len(newest) - len(ids), len(memory.risks) - max(len(risks) - 1, 0))
    text = "\n".join([*head, *rules, *risks, *stages, *findings, *end])
    return CompressedMemory(text, COUNTER.count(text), COUNTER.name, ids, len(newest) - len(ids))


def check_constraint(memory: JobMemory, text: str) -> None:
    """Refuse a constraint for which there is no room.

    Raises:
        InvalidRequest: with it the constraints have more than `CONSTRAINT_TOKENS` tokens.
    """
    lines = [*constraint_lines(memory), f"- {text}"]
    tokens = sum(COUNTER.count(line) + 1 for line in lines)
    if tokens > CONSTRAINT_TOKENS:
        raise InvalidRequest(
            f"with this constraint the job would have {tokens:,} tokens of constraints, and {CONSTRAINT_TOKENS:,} are "
            "allowed, because every question is asked under all of them: word it shorter"
        )


def constraint_lines(memory: JobMemory) -> list[str]:
    """Return the constraints as they stand in the compressed memory."""
    return [f"- {note.text}" for note in memory.constraints]


def _head(memory: JobMemory) -> list[str]:
    quality, current = memory.quality, memory.current
    share = "none" if quality.supported_share is None else f"{quality.supported_share:.0%}"
    limit = "" if memory.budget_limit is None else f" of {memory.budget_limit:f}"
    numbers = f"Answers: in {quality.answered} of {counted(quality.asked, 'reading')}. Sentences supported: {share}."
    lines = [
        f"Job {memory.job_id} in domain {memory.domain}: {_short(memory.title)}",
        f"{numbers} Cost {memory.cost_text}{limit}.",
    ]
    if current is not None:
        lines.append(
            f"Open stage {current.number}, {len(current.read)} of {current.documents} documents read: "
            f"{_short(current.question)}"
        )
    return lines


def _by_priority(memory: JobMemory) -> list[JobFinding]:
    """Return the findings: those added by hand, then those of the newest stage; within each the newest first."""
    ranked = sorted(enumerate(memory.findings), key=lambda pair: (pair[1].stage != 0, -pair[1].stage, -pair[0]))
    return [finding for _, finding in ranked]


def _finding(finding: JobFinding) -> str:
    cited = finding.citation
    place = "" if cited is None else " ".join(filter(None, (cited.document_id or cited.title, cited.section)))
    end = f" ({_short(place, _PLACE_TOKENS)})" if place else ""
    return f"- {finding.id}: {_short(finding.text)}{end}"


def _earlier(memory: JobMemory) -> Iterator[str]:
    done = (stage for stage in reversed(memory.stages) if stage.completed_at is not None)
    return (f"- {_stage(stage)}: {_short(stage.question)}" for stage in done)


def _stage(stage: Stage) -> str:
    score = "no sentences" if stage.quality.score is None else f"quality {stage.quality.score}"
    counts = f"{counted(len(stage.read), 'document')}, {counted(len(stage.key_findings), 'finding')}"
    return f"stage {stage.number}, {counts}, {score}"


def _end(findings: int, risks: int) -> list[str]:
    """Return a line about what is left out, if anything is."""
    more = [counted(count, f"more {noun}") for noun, count in (("finding", findings), ("risk", risks)) if count]
    return [f"Not listed here: {' and '.join(more)}."] if more else []


def _short(text: str, most: int = _FIELD_TOKENS) -> str:
    """Return a text on one line, cut at a word after `most` tokens at the latest."""
    text = " ".join(text.split())
    if COUNTER.count(text) <= most:
        return text
    low, high = 0, len(text)
    while low < high:  # the longest beginning that fits with the mark
        middle = (low + high + 1) // 2
        low, high = (middle, high) if COUNTER.count(text[:middle] + _MARK) <= most else (low, middle - 1)
    whole = text[:low].rpartition(" ")[0] or text[:low]
    return whole.rstrip() + _MARK
