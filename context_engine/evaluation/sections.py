"""The sections of an evaluation report."""

from __future__ import annotations

import json
from collections import Counter
from html import escape
from typing import Final

from context_engine.core.models import Settings
from context_engine.evaluation import charts
from context_engine.evaluation.account import latency, stages, tier_shares, token_efficiency
from context_engine.evaluation.blocks import (
    Figure,
    ReportSection,
    Table,
    Text,
    cut,
    share_text,
    shown,
    signed,
    time_text,
)
from context_engine.evaluation.evaluate import Compared
from context_engine.evaluation.metrics import SAMPLES
from context_engine.evaluation.qrels import EXACT
from context_engine.evaluation.score import NOT_FOUND, RETURNED, Scored, gold_fates

_DEEPEST: Final = 20
_MOST_EXTREMES: Final = 10
_WORDS: Final = {
    NOT_FOUND: ("not found by any source", "raise stage1_top_k, or compare the words of the question and of the text"),
    "filter": ("dropped by a filter", "check the filter and the metadata"),
    "as_of": ("not in force on the day asked", "check the dates of the documents"),
    "expiry": ("expired", "check the TTL, or set expired to flag"),
    "dedup": ("merged into a text that is not returned", "raise dedup_threshold"),
    "threshold": ("below similarity_threshold", "lower similarity_threshold"),
    "scope": ("question taken for out of scope", "lower scope_threshold; 'eval scope' shows the trade-off"),
    "relevance": ("below min_relevance_score", "lower min_relevance_score"),
    "select": ("ranked below the chunks returned", "a reranker, other weights or a higher top_k"),
}


def _colours(compared: Compared) -> str:
    """Return a legend of both set-ups; "" without a baseline."""
    return charts.key([scored.name for scored in compared.both]) if compared.baseline is not None else ""


def measures(compared: Compared) -> ReportSection:
    """Return the means with intervals, and the paired differences."""
    ours, baseline = compared.ours, compared.baseline
    dots = [
        charts.IntervalBar(measure, *scored.interval(measure), series)
        for measure in ours.measures
        for series, scored in enumerate(compared.both)
    ]
    rows = []
    for measure in ours.measures:
        mean, low, high = ours.interval(measure)
        row = [measure, shown(mean), f"{shown(low)} to {shown(high)}"]
        if baseline is not None:
            pair = ours.against(baseline, measure)
            row += [shown(baseline.mean(measure)), signed(pair.mean), f"{signed(pair.low)} to {signed(pair.high)}"]
            row += [f"{pair.p:.3f}", f"{pair.wins} / {pair.losses} / {pair.ties}"]
        rows.append(row)
    columns = ["<measure", "mean", "95 %"]
    columns += ["baseline", "difference", "95 %, paired", "p", "won / lost / even"] if baseline is not None else []
    key = _colours(compared) + "The bar is the 95 % interval of the mean."
    figure = Figure(svg=charts.intervals(dots, "Means with 95 % intervals"), caption=key)
    return ReportSection(
        title="Measures", blocks=[figure, Table(columns=columns, rows=rows)], wide=baseline is not None
    )


def depth(compared: Compared) -> ReportSection:
    """Return recall at every depth."""
    drawn = []
    for series, scored in enumerate(compared.both):
        points = []
        for k in range(1, _DEEPEST + 1):
            recalls = [
                sum(gold in set(scored.rankings.get(question, ())[:k]) for gold in gold_ids) / len(gold_ids)
                for question, gold_ids in compared.session.qrels.items()
            ]
            points.append((float(k), sum(recalls) / len(recalls)))
        drawn.append(charts.LineSeries(scored.name, points, series))
    svg = charts.lines(drawn, "Recall by depth", x_label="chunks read", percent=True)
    caption = _colours(compared) + "Share of the gold answers among the first chunks, mean of questions."
    return ReportSection(title="Recall by depth", blocks=[Figure(svg=svg, caption=caption)])


def losses(compared: Compared) -> ReportSection:
    """Return the stages at which gold answers are lost."""
    run = compared.ours.run
    if run is None:
        return ReportSection(title="", blocks=[])
    fates = gold_fates(run, compared.session.qrels)
    counts = Counter(fate.stage for fate in fates)
    total = len(fates)
    left, bars = total, [charts.Bar("gold answers", total, str(total))]
    names = {NOT_FOUND: "found at all", "select": f"in the first {run.depth}"}
    for stage in _WORDS:
        if counts[stage] or stage in names:
            left -= counts[stage]
            label = names.get(stage, f"after {stage}")
            bars.append(charts.Bar(label, left, f"{left}  ({share_text(left / total)})"))
    rows = [[_WORDS[stage][0], str(counts[stage]), _WORDS[stage][1]] for stage in _WORDS if counts[stage]]
    lead = f"{counts[RETURNED]} of {total} gold answers are among the first {run.depth} chunks."
    figure = Figure(svg=charts.bars(bars, "Gold answers left after each stage"), caption=lead)
    table = Table(columns=["<lost because", "answers", "<what may help"], rows=rows)
    return ReportSection(title="Where gold answers are lost", blocks=[figure, table])


def spread(compared: Compared) -> ReportSection:
    """Return the distribution of questions by the primary measure."""
    measure = compared.primary
    values = [[values_of[measure] for values_of in scored.scores.values()] for scored in compared.both]
    svg = charts.histogram(values[0], values[1] if len(values) > 1 else None, f"Questions by {measure}")
    zero = sum(value == 0.0 for value in values[0])
    caption = _colours(compared)
    caption += escape(f"Questions by {measure}; {zero} of {len(values[0])} have 0.")
    return ReportSection(title=f"Questions by {measure}", blocks=[Figure(svg=svg, caption=caption)])


def side_by_side(compared: Compared) -> list[ReportSection]:
    """Return the questions that won and lost against the baseline."""
    baseline, measure = compared.baseline, compared.primary
    if baseline is None:
        return []
    ours, texts = compared.ours, compared.texts
    change = {name: values[measure] - baseline.scores[name][measure] for name, values in ours.scores.items()}
    pair = ours.against(baseline, measure)
    svg = charts.differences(list(change.values()), f"Difference of each question in {measure}")
    caption = f"{pair.wins} questions won, {pair.losses} lost, {pair.ties} even by {measure}; each bar is a question."
    sections = [ReportSection(title="Question by question", blocks=[Figure(svg=svg, caption=escape(caption))])]
    ordered = sorted(change, key=lambda name: (-abs(change[name]), name))
    for title, chosen in (
        ("Won most", [name for name in ordered if change[name] > 0]),
        ("Lost most", [name for name in ordered if change[name] < 0]),
    ):
        rows = [
            [name, cut(texts.get(name, "")), shown(ours.scores[name][measure]), signed(change[name])]
            for name in chosen[:_MOST_EXTREMES]
        ]
        table = Table(columns=["<question", "<text", measure, "difference"], rows=rows)
        sections.append(ReportSection(title=title, blocks=[table] if rows else [], wide=True))
    return sections


def by_group(compared: Compared) -> list[ReportSection]:
    """Return a table for each grouping."""
    ours, baseline, sections = compared.ours, compared.baseline, []
    for name, groups in compared.groups.items():
        rows = []
        for value, questions in groups.items():
            row = [value, str(len(questions)), *(shown(ours.mean(measure, questions)) for measure in ours.measures)]
            if baseline is not None:
                change = ours.mean(compared.primary, questions) - baseline.mean(compared.primary, questions)
                row.append(signed(change))
            rows.append(row)
        columns = [f"<{name}", "questions", *ours.measures]
        columns += [f"Δ {compared.primary}"] if baseline is not None else []
        title = f"By {name}"
        sections.append(ReportSection(title=title, blocks=[Table(columns=columns, rows=rows)], wide=len(columns) > 7))
    return sections


def unanswerable(compared: Compared) -> ReportSection:
    """Return the decisions on questions that have no answer."""
    run, other = compared.ours.run, compared.session.qrels.keys() | compared.session.unjudged
    left = [answer for answer in run.answers if answer.question.id not in other] if run is not None else []
    rows = [[answer.question.id, cut(answer.question.text), answer.decision or "failed"] for answer in left]
    right = sum(answer.decision in ("out_of_scope", "no_match") for answer in left)
    note = f"{right} of {len(left)} were turned away. They are not part of the measures."
    table = Table(columns=["<question", "<text", "<decision"], rows=rows)
    return ReportSection(title="Questions without an answer", blocks=[Text(note), table] if rows else [])


def extremes(compared: Compared) -> list[ReportSection]:
    """Return the worst questions with their lost gold answers, and the best questions."""
    ours, measure, texts = compared.ours, compared.primary, compared.texts
    ordered = sorted(ours.scores, key=lambda name: (ours.scores[name][measure], name))
    lost: dict[str, list[str]] = {}
    if ours.run is not None:
        for fate in gold_fates(ours.run, compared.session.qrels):
            if fate.stage != RETURNED:
                lost.setdefault(fate.question, []).append(f"{fate.gold.removeprefix(EXACT)}: {_WORDS[fate.stage][0]}")
    worst = [name for name in ordered if ours.scores[name][measure] < 1.0][:_MOST_EXTREMES]
    rows = [
        [name, cut(texts.get(name, "")), shown(ours.scores[name][measure]), "; ".join(lost.get(name, ())[:3])]
        for name in worst
    ]
    table = Table(columns=["<question", "<text", measure, "<lost"], rows=rows)
    best = [[name, cut(texts.get(name, "")), shown(ours.scores[name][measure])] for name in ordered[::-1][:5]]
    return [
        ReportSection(title="Worst questions", blocks=[table] if rows else [], wide=True),
        ReportSection(title="Best questions", blocks=[Table(columns=["<question", "<text", measure], rows=best)]),
    ]


def every_question(compared: Compared) -> ReportSection:
    """Return all questions with all measures."""
    ours, baseline, texts = compared.ours, compared.baseline, compared.texts
    times_ = {answer.question.id: answer for answer in ours.run.answers} if ours.run is not None else {}
    rows = []
    for name, values in ours.scores.items():
        row = [name, cut(texts.get(name, "")), *(shown(values[measure]) for measure in ours.measures)]
        row += [f"{values[compared.primary] - baseline.scores[name][compared.primary]:+.3f}"] if baseline else []
        row += [time_text(times_[name].elapsed_ms), str(times_[name].context_tokens)] if name in times_ else []
        rows.append(row)
    columns = ["<question", "<text", *ours.measures, *([f"Δ {compared.primary}"] if baseline else [])]
    columns += ["time", "tokens"] if times_ else []
    table = Table(columns=columns, rows=rows, folded=f"Show all {len(rows)} questions")
    return ReportSection(title="Every question", blocks=[table], wide=True)


def set_up(compared: Compared) -> ReportSection:
    """Return the settings that differ from the built-in defaults."""
    rows = [row for scored in compared.both for row in _changed(scored)]
    table = Table(columns=["<set-up", "<setting", "<value", "<from"], rows=rows)
    return ReportSection(title="Settings", blocks=[table if rows else Text("Every setting has its built-in value.")])


def _changed(scored: Scored) -> list[list[str]]:
    default, changes = Settings().model_dump(mode="json"), dict[tuple[str, str, str], None]()
    for settings in scored.run.settings.values() if scored.run is not None else ():
        for key, setting in settings.items():
            if setting["value"] != default.get(key) and key != "stage2_top_k":
                changes[key, json.dumps(setting["value"]), str(setting["origin"])] = None
    return [[scored.name, *row] for row in changes]


def method(compared: Compared) -> ReportSection:
    """Return how the numbers were computed."""
    text = (
        "A gold answer counts once, at the first chunk that holds it or has it among its merged copies. Questions are "
        "asked one after the other; a search that fails counts 0. Intervals: percentile bootstrap, "
        f"{SAMPLES} resamples of the questions; differences are paired. p is two-sided. Measures by ir_measures."
    )
    if compared.ours.run is not None:
        depth = compared.ours.run.depth
        text += (
            f" Every search returns {depth} chunks, over which losses, tiers and tokens are counted. For the measures, "
        )
        text += f"{depth.ranked} chunks of the same answers are ranked."
    return ReportSection(title="How it was measured", blocks=[Text(text)])


_TIERS: Final = ("tier 1", "tier 2", "tier 3", "tier 4", "tier 5")


def authority(compared: Compared) -> ReportSection:
    """Return the effect of the authority boost on the tiers read and on the measures."""
    run, plain = compared.ours.run, compared.without_authority
    if run is None or plain is None:
        return ReportSection(title="", blocks=[])
    with_, without = (tier_shares(run.read(authority=boost), run.depth.top_k) for boost in (True, False))
    if not with_:
        return ReportSection(title="", blocks=[])
    shares = [("with boost", list(with_.values())), ("without", list(without.values()))]
    svg = charts.shares(shares, _TIERS, "Share of each tier in the chunks read")
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
    note = f"The boost changes the share of tiers 1 and 2 in the first {run.depth} by {100 * high:+.1f} points."
    return ReportSection(title="Authority", blocks=[figure, Text(note), table])


def tokens(compared: Compared) -> ReportSection:
    """Return the tokens that a model reads, compared with the whole corpus."""
    runs = [scored for scored in compared.both if scored.run is not None]
    if not runs:
        return ReportSection(title="", blocks=[])
    efficiencies = [token_efficiency(scored.run, compared.session.corpus) for scored in runs if scored.run is not None]
    rows = [
        [
            scored.name,
            f"{each.context:,.0f}",
            f"{each.p95:,.0f}",
            "—" if each.corpus is None else f"{each.corpus:,.0f}",
            "—" if each.share is None else share_text(each.share),
        ]
        for scored, each in zip(runs, efficiencies)
    ]
    table = Table(columns=["<set-up", "context", "95 % below", "corpus of the domain", "share"], rows=rows)
    blocks: list[Text | Figure | Table] = [table]
    first = efficiencies[0]
    if first.share and first.corpus:
        caption = f"A context is {share_text(first.share)} of the corpus: 1 of {1 / first.share:,.0f} tokens."
        blocks.insert(0, Figure(svg=charts.meter(first.share, "Context compared with the corpus"), caption=caption))
    return ReportSection(title="Context tokens", blocks=blocks)


def times(compared: Compared) -> ReportSection:
    """Return the latency, and the stages with their candidates."""
    runs = [scored for scored in compared.both if scored.run is not None]
    if not runs or runs[0].run is None:
        return ReportSection(title="", blocks=[])
    totals = [(scored.name, latency(scored.run)) for scored in runs if scored.run is not None]
    funnel = stages(runs[0].run)
    bars = [
        charts.Bar(stage.name, stage.p50, f"{time_text(stage.p50)} · {time_text(stage.p95)}", stage.p95)
        for stage in funnel
        if stage.p95 >= 0.05
    ]
    rows = [[name, *(time_text(value) for value in latencies)] for name, latencies in totals]
    steps = [
        [stage.name, f"{stage.entered:.1f}", f"{stage.left:.1f}", time_text(stage.p50), time_text(stage.p95)]
        for stage in funnel
    ]
    used = [
        Text(f"{scored.name}: {scored.run.embedder}.")
        for scored in runs
        if scored.run is not None and scored.run.embedder
    ]
    return ReportSection(
        title="Latency and stages",
        blocks=[
            Table(columns=["<search", "p50", "p95", "mean", "slowest"], rows=rows),
            Figure(svg=charts.bars(bars, "Time of each stage"), caption="Bar: p50, line: p95, one question at a time."),
            Table(columns=["<stage", "candidates in", "out", "p50", "p95"], rows=steps),
            *used,
        ],
    )
