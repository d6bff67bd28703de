"""The costs of a run: stages, latency, context tokens, tiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from context_engine.core.models import Notice
from context_engine.evaluation.gold import Corpus, GoldHit
from context_engine.evaluation.metrics import percentile
from context_engine.evaluation.run import Run


class Latency(NamedTuple):
    """Times of a search in milliseconds, with questions asked one after the other."""

    p50: float
    p95: float
    mean: float
    most: float


class LossStage(NamedTuple):
    """One stage over all questions: mean candidates in and out, and its time in milliseconds."""

    name: str
    entered: float
    left: float
    p50: float
    p95: float


class Trouble(NamedTuple):
    """A component that failed: its name, the number of searches, and its first message."""

    name: str
    searches: int
    problem: str

    def __str__(self) -> str:
        return f"{self.name} failed in {self.searches} search(es): {self.problem}"


class Tokens(NamedTuple):
    """Context tokens compared with the whole corpus of the question's domain.

    Attributes:
        context, p95: mean and 95th percentile of the tokens of a context.
        corpus: mean tokens of the domain's corpus over the questions; None if it cannot be listed.
        share: context / corpus, mean over the questions.
    """

    context: float
    p95: float
    corpus: float | None
    share: float | None


def latency(run: Run) -> Latency:
    times = [answer.elapsed_ms for answer in run.answers]
    average = sum(times) / len(times) if times else 0.0
    return Latency(percentile(times, 0.5), percentile(times, 0.95), average, max(times, default=0.0))


def stages(run: Run) -> list[LossStage]:
    """Return the funnel: each stage in order, with its means."""
    rows_of: dict[str, list[tuple[int, int, float]]] = {}
    for answer in run.answers:
        for stage in answer.stages:
            rows_of.setdefault(stage.name, []).append((stage.entered, stage.left, stage.elapsed_ms))
    out = []
    for name, rows in rows_of.items():
        times = [row[2] for row in rows]
        entered, left = (sum(row[place] for row in rows) / len(rows) for place in (0, 1))
        out.append(LossStage(name, entered, left, percentile(times, 0.5), percentile(times, 0.95)))
    return out


def troubles_of(searches: Iterable[Sequence[Notice]]) -> list[Trouble]:
    """Return the troubles of all searches, each name once."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for notices in searches:
        for notice in notices:
            first.setdefault(notice.subject, notice.message)
        counts.update({notice.subject for notice in notices})
    return [Trouble(name, counts[name], problem) for name, problem in first.items()]


def tier_shares(rankings: Sequence[Sequence[GoldHit]], top_k: int) -> Mapping[int, float]:
    """Return each tier's share of the first top_k chunks of all rankings; {} if there are none."""
    counts = Counter(hit.identity.tier for hits in rankings for hit in hits[:top_k] if hit.identity.tier is not None)
    total = sum(counts.values())
    return {tier: counts[tier] / total for tier in range(1, 6)} if total else {}


def token_efficiency(run: Run, corpus: Corpus) -> Tokens:
    """Return the length of the contexts, and their share of the whole corpus."""
    answers = [answer for answer in run.answers if not answer.failed]
    sizes = [answer.context_tokens for answer in answers]
    listed = {name: tokens for name, tokens in corpus.tokens.items() if tokens}
    pairs = [(answer.context_tokens, listed[answer.domain]) for answer in answers if answer.domain in listed]
    complete = not corpus.unlisted and bool(pairs)
    return Tokens(
        context=sum(sizes) / len(sizes) if sizes else 0.0,
        p95=percentile([float(size) for size in sizes], 0.95),
        corpus=sum(total for _, total in pairs) / len(pairs) if complete else None,
        share=sum(used / total for used, total in pairs) / len(pairs) if complete else None,
    )
