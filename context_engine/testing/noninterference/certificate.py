"""The certificate: repeats requests while hidden documents change, and compares the answers byte by byte."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import cycle, islice
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from context_engine.core.models import Principal, SearchRequest, canonical_json
from context_engine.testing.noninterference.changes import HiddenChange

_BATCHES: Final = (1, 1, 1, 2, 3, 5, 8, 40)
_MOST_SHOWN: Final = 200
_SHOWN_BEFORE: Final = 60
_ASKED: Final = ("query", "domain", "filters", "as_of", "require_sources", "overrides")


class StillClock:
    """A stopped clock, so that answers can be compared byte by byte."""

    def now(self) -> datetime:
        """Return 2026-03-02 10:00 UTC."""
        return datetime(2026, 3, 2, 10, tzinfo=UTC)

    def monotonic(self) -> float:
        """Return 0."""
        return 0.0


class AccessTrial(Protocol):
    """The knowledge base under test, which is searched while its hidden documents change."""

    def answer(self, request: SearchRequest) -> Mapping[str, Any]:
        """Return all outputs for the request's principal by name, JSON-ready, errors included."""
        ...

    def change(self, changes: Sequence[HiddenChange]) -> None:
        """Apply some changes, and commit them."""
        ...

    def reopen(self) -> None:
        """Drop everything cached in memory."""
        ...


class AnswerDifference(NamedTuple):
    """An answer that differs from the first answer to the same request.

    Attributes:
        request: the request as JSON.
        since, until: number of changes at the last equal answer and at this one; equal if nothing changed in between.
        where: path of the first difference.
        before, after: the values there, as JSON, shortened.
    """

    request: str
    since: int
    until: int
    where: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessCertificate:
    """The result of a trial for one principal.

    Attributes:
        changes: number of changes by kind.
        questions: number of distinct requests; `answers` counts the repeated and compared ones.
        outcomes: number of first answers by decision or error name.
        differing: number of answers that differ from the first, by the path of the first difference.
        first: the first difference.
        insider_saw: number of changed answers of the insider; 0: the trial proves nothing. None: no insider.
        digest: SHA-256 of requests and first answers, in hexadecimal; equal for equal trials.
    """

    principal: str
    changes: Mapping[str, int]
    batches: int
    questions: int
    answers: int
    outcomes: Mapping[str, int]
    differing: Mapping[str, int]
    first: AnswerDifference | None
    insider_saw: int | None
    digest: str

    @property
    def holds(self) -> bool:
        """Whether no answer changed, although the insider saw changes."""
        return not self.differing and self.insider_saw != 0 and bool(self.changes) and self.questions > 0

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        fields = asdict(self)
        return {**fields, "holds": self.holds, "first": self.first and self.first._asdict()}


def certify(
    trial: AccessTrial,
    principal: Principal,
    requests: Sequence[SearchRequest],
    changes: Iterable[HiddenChange],
    *,
    draw: Random,
    between: int = 5,
    insider: Principal | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> AccessCertificate:
    """Certify whether a principal's answers stay the same while documents it may not read change.

    Every request is asked twice before the changes and twice after them, the last time of a reopened trial. Between
    batches of random size some requests are asked in turn.

    Args:
        requests: their principal is replaced.
        changes: changes of documents that the principal may not read.
        between: number of requests after each batch.
        insider: a principal who may read the changed documents. It asks every request first, which reveals answers
            cached for one caller and given to another.
        progress: receives the number of changes done.
    """
    run = _PrincipalRun(trial, principal, requests, insider)
    run.ask(range(len(requests)))
    turns = cycle(range(len(requests)))
    done: Counter[str] = Counter()
    batches = 0
    for batch in _batches(changes, draw):
        trial.change(batch)
        done.update(str(change.kind) for change in batch)
        run.changes, batches = done.total(), batches + 1
        run.ask(islice(turns, between))
        progress(run.changes)
    run.ask(range(len(requests)))
    trial.reopen()
    run.ask(range(len(requests)))
    return AccessCertificate(
        principal=principal.id,
        changes=dict(sorted(done.items())),
        batches=batches,
        questions=len(requests),
        answers=run.answers,
        outcomes=dict(sorted(run.outcomes.items())),
        differing=dict(sorted(run.differing.items())),
        first=run.first,
        insider_saw=None if insider is None else run.insider_saw,
        digest=run.digest(),
    )


@dataclass
class _PrincipalRun:
    """The requests of one principal, their first answers and later differences."""

    trial: AccessTrial
    principal: Principal
    requests: Sequence[SearchRequest]
    insider: Principal | None
    changes: int = 0
    answers: int = 0
    insider_saw: int = 0
    first: AnswerDifference | None = None
    outcomes: Counter[str] = field(default_factory=Counter)
    differing: Counter[str] = field(default_factory=Counter)
    expected: list[Mapping[str, Any]] = field(default_factory=list)
    known: list[bytes] = field(default_factory=list)
    of_insider: list[bytes] = field(default_factory=list)
    same_at: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for request in self.requests:
            answer = self.trial.answer(replace(request, principal=self.principal))
            self.expected.append(answer)
            self.known.append(_bytes(answer))
            self.same_at.append(0)
            self.outcomes[str(answer.get("outcome", "answered"))] += 1
            if self.insider is not None:
                self.of_insider.append(_bytes(self.trial.answer(replace(request, principal=self.insider))))

    def ask(self, turns: Iterable[int]) -> None:
        """Repeat some of the requests and compare the answers."""
        for turn in turns:
            request = self.requests[turn]
            if self.insider is not None:
                seen = _bytes(self.trial.answer(replace(request, principal=self.insider)))
                self.insider_saw += seen != self.of_insider[turn]
            answer = self.trial.answer(replace(request, principal=self.principal))
            self.answers += 1
            if _bytes(answer) == self.known[turn]:
                self.same_at[turn] = self.changes
            else:
                difference = self._difference(turn, answer)
                self.differing[re.sub(r"\[\d+\]", "[]", difference.where)] += 1
                self.first = self.first or difference

    def digest(self) -> str:
        """Return a digest of the trial's result."""
        caller = self.principal
        identity = [caller.id, sorted(caller.roles), sorted(caller.groups), caller.clearance]
        digest = hashlib.sha256(canonical_json(identity).encode())
        for request, answer in zip(self.requests, self.known, strict=True):
            digest.update(hashlib.sha256(repr(request).encode()).digest() + hashlib.sha256(answer).digest())
        return digest.hexdigest()

    def _difference(self, turn: int, answer: Mapping[str, Any]) -> AnswerDifference:
        where, before, after = _first_difference(_plain(self.expected[turn]), _plain(answer))
        fields = {name: getattr(self.requests[turn], name) for name in _ASKED}
        request = canonical_json({name: value for name, value in fields.items() if value})
        return AnswerDifference(request, self.same_at[turn], self.changes, where, *_cut(before, after))


def _batches(changes: Iterable[HiddenChange], draw: Random) -> Iterator[list[HiddenChange]]:
    left = iter(changes)
    while batch := list(islice(left, draw.choice(_BATCHES))):
        yield batch


def _bytes(answer: Mapping[str, Any]) -> bytes:
    return canonical_json(answer).encode("utf-8", "surrogatepass")


def _plain(answer: Mapping[str, Any]) -> Any:
    """Return an answer as JSON values, keys in their order."""
    return json.loads(json.dumps(answer, default=str))


def _first_difference(before: Any, after: Any, path: str = "") -> tuple[str, Any, Any]:
    """Return the place where two JSON values first differ, and both values there."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        key = next(key for key in before if before[key] != after[key])
        return _first_difference(before[key], after[key], f"{path}.{key}" if path else key)
    if isinstance(before, list) and isinstance(after, list):
        for place, (earlier, other) in enumerate(zip(before, after, strict=False)):
            if earlier != other:
                return _first_difference(earlier, other, f"{path}[{place}]")
        path = f"{path}.length"
        before, after = len(before), len(after)
    return path, before, after


def _cut(before: Any, after: Any) -> tuple[str, str]:
    """Return two values as JSON, shortened around their first difference."""
    first, second = canonical_json(before), canonical_json(after)
    pairs = enumerate(zip(first, second, strict=False))
    same = next((place for place, (left, other) in pairs if left != other), min(len(first), len(second)))
    start = max(same - _SHOWN_BEFORE, 0)
    return _part(first, start), _part(second, start)


def _part(text: str, start: int) -> str:
    end = start + _MOST_SHOWN
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
