"""The sections of an evaluation report about what a set-up costs and reads: tiers, tokens, times."""

from __future__ import annotations

from typing import Final

from context_engine.evaluation import charts
from context_engine.evaluation.account import latency, stages, tier_shares, token_efficiency
from context_engine.evaluation.blocks import Figure, ReportSection, Table, Text
from context_engine.evaluation.compared import Compared
from context_engine.evaluation.words import share_text, shown, signed, time_text

_TIERS: Final = ("tier 1", "tier 2", "tier 3", "tier 4", "tier 5")


def authority(compared: Compared) -> ReportSection:
    """What the authority boost does: to the tiers that are read and to the measures."""
    run, plain = compared.ours.run, compared.without_authority
    if run is None or plain is None:
        return ReportSection(title="", blocks=[])
    with_, without = (tier_shares(run.read(authority=boost), run.depth.top_k) for boost in (True, False))
    if not with_:
        return ReportSection(title="", blocks=[])
    shares = [("with boost", list(with_.values())), ("without", list(without.values()))]
    svg = charts.shares(shares, _TIERS, "Share of each tier in what is read")
    figure = Figure(svg=svg, caption=charts.key(_TIERS, "t", 1))
    rows = []
    for measure in compared.ours.measures:
        pair = compared.ours.against(plain, measure)
        rows.append(
            [
                measure,
                shown(compared.ours.mean(measure)),
                shown(plain.mean(measure)),
                signed(pair.mean),
                f"{signed(pair.low)} to {signed(pair.high)}",
            ]
        )
    table = Table(columns=["<measure", "with boost", "without", "difference", "95 %, paired"], rows=rows)
    high = sum(with_[tier] - without.get(tier, 0.0) for tier in (1, 2))
    said = f"The boost changes the share of tiers 1 and 2 in the first {run.depth} by {100 * high:+.1f} points."
    return ReportSection(title="Authority", blocks=[figure, Text(said), table])


def tokens(compared: Compared) -> ReportSection:
    """What a model reads, beside the whole corpus."""
    runs = [one for one in compared.both if one.run is not None]
    if not runs:
        return ReportSection(title="", blocks=[])
    found = [token_efficiency(one.run, compared.session.corpus) for one in runs if one.run is not None]
    rows = [
        [
            one.name,
            f"{each.context:,.0f}",
            f"{each.p95:,.0f}",
            "—" if each.corpus is None else f"{each.corpus:,.0f}",
            "—" if each.share is None else share_text(each.share),
        ]
        for one, each in zip(runs, found)
    ]
    table = Table(columns=["<set-up", "context", "95 % below", "corpus of the domain", "share"], rows=rows)
    blocks: list[Text | Figure | Table] = [table]
    first = found[0]
    if first.share and first.corpus:
        caption = f"A context is {share_text(first.share)} of the corpus: of {1 / first.share:,.0f} tokens 1 is read."
        blocks.insert(0, Figure(svg=charts.meter(first.share, "Context beside the corpus"), caption=caption))
    return ReportSection(title="Context tokens", blocks=blocks)


def times(compared: Compared) -> ReportSection:
    """Latency, and the stages with their candidates."""
    runs = [one for one in compared.both if one.run is not None]
    if not runs or runs[0].run is None:
        return ReportSection(title="", blocks=[])
    totals = [(one.name, latency(one.run)) for one in runs if one.run is not None]
    funnel = stages(runs[0].run)
    bars = [
        charts.Bar(stage.name, stage.p50, f"{time_text(stage.p50)} · {time_text(stage.p95)}", stage.p95)
        for stage in funnel
        if stage.p95 >= 0.05
    ]
    rows = [[name, *(time_text(value) for value in one)] for name, one in totals]
    steps = [
        [one.name, f"{one.entered:.1f}", f"{one.left:.1f}", time_text(one.p50), time_text(one.p95)] for one in funnel
    ]
    used = [Text(f"{one.name}: {one.run.embedder}.") for one in runs if one.run is not None and one.run.embedder]
    return ReportSection(
        title="Latency and stages",
        blocks=[
            Table(columns=["<search", "p50", "p95", "mean", "slowest"], rows=rows),
            Figure(svg=charts.bars(bars, "Time of each stage"), caption="Bar: p50, line: p95, one question at a time."),
            Table(columns=["<stage", "candidates in", "out", "p50", "p95"], rows=steps),
            *used,
        ],
    )
