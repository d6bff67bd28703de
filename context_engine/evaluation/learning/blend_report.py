"""What learning a blend found, as a report."""

from __future__ import annotations

from context_engine.evaluation import charts
from context_engine.evaluation.blocks import Figure, ReportDocument, ReportSection, Table, Text, Tile
from context_engine.evaluation.learning.blend_tune import BlendTrial
from context_engine.evaluation.words import shown, signed

_HELD_OUT = (
    "Each part of the questions is held out once: it is ranked by the blend that was learnt on the others. Questions "
    "that share an answer are in one part."
)
_TERMS = (
    "A candidate's score is the sum of weight x (value - mean) / deviation over the terms; its relevance falls with "
    "the distance to the best of them."
)


def blend_report(found: BlendTrial, *, title: str) -> ReportDocument:
    """Return the trial of a blend as a report."""
    measure = found.measures[0]
    gain = found.difference(measure)
    verdict = "better beyond noise" if found.refusal is None else "not to be used"
    held_out = found.held_out
    return ReportDocument(
        title=title,
        lead=f"Learnt on {found.taught} of {len(found.before)} judged questions of {found.domain}, in "
        f"{len(found.parts.places)} folds. {(found.refusal or verdict).capitalize()}.",
        notes=[str(trouble) for trouble in found.troubles],
        tiles=[
            Tile(label=f"{measure}, held out", value=shown(held_out[measure]["after"]), note="learnt on the others"),
            Tile(label="Without a blend", value=shown(held_out[measure]["before"]), note="on the same questions"),
            Tile(
                label="Difference",
                value=signed(gain.mean),
                note=f"{signed(gain.low)} to {signed(gain.high)}",
                change=verdict,
                mood="good" if found.refusal is None else "even",
            ),
        ],
        sections=[
            ReportSection(title="Held out", blocks=[Text(_HELD_OUT), _measures(found)], wide=True),
            ReportSection(title="Terms", blocks=[Text(_TERMS), _weights(found)], wide=True),
            ReportSection(title="Weights", blocks=[_drawn(found)]),
        ],
    )


def _measures(found: BlendTrial) -> Table:
    rows = []
    for measure, row in found.held_out.items():
        mean, low, high = row["difference"]
        rows.append(
            [measure, shown(row["before"]), shown(row["after"]), signed(mean), f"{signed(low)} to {signed(high)}"]
        )
    return Table(columns=["<measure", "without", "held out", "difference", "95 %"], rows=rows)


def _weights(found: BlendTrial) -> Table:
    rows = [
        [name, signed(term.weight), shown(term.mean), shown(term.deviation)] for name, term in found.blend.terms.items()
    ]
    return Table(columns=["<term", "weight", "mean", "deviation"], rows=rows)


def _drawn(found: BlendTrial) -> Figure:
    bars = [
        charts.Bar(name, abs(term.weight), signed(term.weight), series=0 if term.weight >= 0.0 else 1)
        for name, term in sorted(found.blend.terms.items(), key=lambda item: -abs(item[1].weight))
    ]
    return Figure(svg=charts.bars(bars, "Weights of the terms"), caption=charts.key(["for a candidate", "against it"]))
