"""The trade-off of the scope threshold: the questions kept and turned away at each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, NamedTuple

from context_engine.core.engine import Engine
from context_engine.core.models import NOBODY, Principal, SearchRequest
from context_engine.errors import InvalidRequest, RetrievalFailed
from context_engine.evaluation import charts
from context_engine.evaluation.blocks import Figure, ReportDocument, ReportSection, Table, Text, Tile, cut
from context_engine.evaluation.metrics import percentile
from context_engine.evaluation.questions import EvalQuestion
from context_engine.evaluation.run import Progress
from context_engine.learning.calibration import OUT_OF_SCOPE

__all__ = ["OUT_OF_SCOPE", "Calibration", "TradeOff", "best_signals", "calibrate", "scope_report"]

_EVERYTHING: Final = {
    "min_relevance_score": 0.0,
    "scope_threshold": 0.0,
    "stage2_top_k": 1000,
    "similarity_threshold": None,
    "dedup_method": "off",
    "max_per_document": None,
    "mmr_lambda": None,
    "reranking_enabled": False,
}
_STEP: Final = 0.05
_MOST_NAMED: Final = 10


class TradeOff(NamedTuple):
    """One threshold.

    Attributes:
        kept: share of the in-scope questions that are kept.
        turned_away: share of the out-of-scope questions that are turned away.
    """

    threshold: float
    kept: float
    turned_away: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The trade-off on two sets of questions.

    Attributes:
        inside, outside: (question id, best absolute relevance among its candidates, 0 without any).
        table: thresholds in steps of 0.05.
        chosen: the highest threshold that keeps the share `keep`.
        current: the threshold in force.
        separation: probability that an in-scope question has a higher signal than an out-of-scope one, [0, 1].
    """

    inside: Sequence[tuple[str, float]]
    outside: Sequence[tuple[str, float]]
    table: Sequence[TradeOff]
    chosen: TradeOff
    current: TradeOff
    separation: float
    keep: float

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return {
            "in_scope": len(self.inside),
            "out_of_scope": len(self.outside),
            "keep": self.keep,
            "chosen": self.chosen._asdict(),
            "current": self.current._asdict(),
            "separation": self.separation,
            "table": [row._asdict() for row in self.table],
            "signals": {"in_scope": dict(self.inside), "out_of_scope": dict(self.outside)},
        }


def best_signals(
    engine: Engine,
    questions: Sequence[tuple[EvalQuestion, str]],
    *,
    as_of: date | None = None,
    principal: Principal = NOBODY,
    progress: Progress | None = None,
) -> Iterator[tuple[str, float]]:
    """Yield (question id, best absolute relevance among all candidates), searched without any threshold.

    Raises:
        InvalidRequest, ConfigError: see `Engine.search`.
        RetrievalFailed: a source failed.
    """
    for number, (question, domain) in enumerate(questions, start=1):
        day = question.as_of or as_of
        request = SearchRequest(
            query=question.text, domain=domain, principal=principal, as_of=day, overrides=_EVERYTHING
        )
        result = engine.search(request)
        if any(source.state == "failed" for source in result.sources):
            failed = ", ".join(source.source_id for source in result.sources if source.state == "failed")
            raise RetrievalFailed(f"question {question.id!r}: {failed} did not answer: the signal would be too low")
        yield question.id, max((chunk.absolute for chunk in result.chunks), default=0.0)
        if progress is not None:
            progress(number, len(questions), question.id)


def calibrate(
    inside: Sequence[tuple[str, float]], outside: Sequence[tuple[str, float]], *, current: float, keep: float = 0.98
) -> Calibration:
    """Return the trade-off of every threshold.

    Args:
        inside, outside: (question id, best absolute relevance).
        keep: least share of the in-scope questions that the chosen threshold keeps, (0, 1].

    Raises:
        InvalidRequest: a set without questions, or a share out of range.
    """
    if not inside or not outside:
        raise InvalidRequest(f"no question {'in' if not inside else 'out of'} scope to calibrate with")
    if not 0.0 < keep <= 1.0:
        raise InvalidRequest(f"the share to keep must be above 0 and at most 1, got {keep:g}")
    ins, outs = [value for _, value in inside], [value for _, value in outside]
    steps = [round(number * _STEP, 2) for number in range(int(1 / _STEP) + 1)]
    return Calibration(
        inside=inside,
        outside=outside,
        table=[_trade_off(step, ins, outs) for step in steps],
        chosen=_chosen(ins, outs, keep),
        current=_trade_off(current, ins, outs),
        separation=_separation(ins, outs),
        keep=keep,
    )


def _trade_off(threshold: float, inside: Sequence[float], outside: Sequence[float]) -> TradeOff:
    kept = sum(value >= threshold for value in inside) / len(inside)
    return TradeOff(threshold, kept, sum(value < threshold for value in outside) / len(outside))


def _chosen(inside: Sequence[float], outside: Sequence[float], keep: float) -> TradeOff:
    """Return the highest threshold, with two decimals, that keeps the share."""
    rows = (_trade_off(round(number / 100, 2), inside, outside) for number in range(100, -1, -1))
    return next(row for row in rows if row.kept >= keep - 1e-12)


def _separation(inside: Sequence[float], outside: Sequence[float]) -> float:
    """Return the area under the ROC curve (Mann-Whitney): ties count half."""
    won = sum((signal > other) + 0.5 * (signal == other) for signal in inside for other in outside)
    return won / (len(inside) * len(outside))


def scope_report(
    calibration: Calibration, *, title: str, texts: Mapping[str, str], notes: Sequence[str] = ()
) -> ReportDocument:
    """Return the calibration as a report; `texts` are the questions by id."""
    chosen, current = calibration.chosen, calibration.current
    curves = [
        charts.LineSeries("in scope, kept", [(row.threshold, row.kept) for row in calibration.table], 0),
        charts.LineSeries(
            "out of scope, turned away", [(row.threshold, row.turned_away) for row in calibration.table], 1
        ),
    ]
    key, sets = charts.key([curve.label for curve in curves]), charts.key(["in scope", "out of scope"])
    svg = charts.lines(curves, "Trade-off", x_label="scope_threshold", percent=True, mark=chosen.threshold)
    ins, outs = [value for _, value in calibration.inside], [value for _, value in calibration.outside]
    spread = charts.histogram(ins, outs, "Best absolute relevance", percent=True)
    rows = [[f"{row.threshold:.2f}", f"{row.kept:.1%}", f"{row.turned_away:.1%}"] for row in calibration.table]
    lead = f"{len(ins)} questions in scope, {len(outs)} out of scope. Medians of the signal: "
    lead += f"{percentile(ins, 0.5):.2f} and {percentile(outs, 0.5):.2f}."
    rule = "A question is turned away if the best absolute relevance among its candidates is below the threshold."
    return ReportDocument(
        title=title,
        lead=lead,
        notes=notes,
        tiles=[
            Tile(
                label="Keeps enough",
                value=f"{chosen.threshold:.2f}",
                note=f"{calibration.keep:.0%} of the questions in scope",
            ),
            Tile(label="In scope, kept", value=f"{chosen.kept:.1%}", note=f"now {current.kept:.1%}"),
            Tile(label="Turned away", value=f"{chosen.turned_away:.1%}", note=f"now {current.turned_away:.1%}"),
            Tile(label="In force", value=f"{current.threshold:.2f}", note="scope_threshold"),
            Tile(label="Separation", value=f"{calibration.separation:.3f}", note="area under the ROC curve"),
        ],
        sections=[
            ReportSection(
                title="Trade-off", blocks=[Figure(svg=svg, caption=key + "Dashed: the threshold that keeps enough.")]
            ),
            ReportSection(title="Best signal of each question", blocks=[Figure(svg=spread, caption=sets), Text(rule)]),
            ReportSection(
                title="Thresholds", blocks=[Table(columns=["threshold", "in kept", "out turned away"], rows=rows)]
            ),
            ReportSection(title="In scope with the weakest signal", blocks=[_weakest(calibration.inside, texts)]),
            ReportSection(title="Out of scope with the strongest", blocks=[_weakest(calibration.outside, texts, -1)]),
        ],
    )


def _weakest(signals: Sequence[tuple[str, float]], texts: Mapping[str, str], sign: int = 1) -> Table:
    ordered = sorted(signals, key=lambda pair: (sign * pair[1], pair[0]))
    rows = [[name, cut(texts.get(name, "")), f"{value:.3f}"] for name, value in ordered[:_MOST_NAMED]]
    return Table(columns=["<question", "<text", "signal"], rows=rows)
