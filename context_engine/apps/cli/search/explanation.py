"""`search --explain`: how a result came about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.console import show, table
from context_engine.apps.cli.words import ms, tier_text
from context_engine.apps.web.inert import clean
from context_engine.apps.web.naming import candidate_names, chunk_name
from context_engine.core.engine import blend_terms, reranker_id
from context_engine.core.models import Fate, Key, Outcome, PreparedQuery, SearchResult, Settings, SourceStatus
from context_engine.service.explaining.words import blend_words, reason_words, setting_words

_BAR: Final = 24
_TOP: Final = 5
_STATE_STYLES: Final = {"ok": "green", "empty": "dim", "partial": "yellow", "failed": "red"}


def print_explanation(console: Console, result: SearchResult) -> None:
    """Print the whole account of a result."""
    names = candidate_names(result)
    if result.prepared is not None:
        _section(console, "Question", question_table(result.prepared))
    _section(console, "Funnel", _funnel(result), *_scope(result))
    _section(console, "Sources", _sources(result))
    if result.chunks:
        _section(console, "Scores", _scores(result), *_reranker(result))
        _blend(console, result)
    _fates(console, result, names)
    _swaps(console, result, names)
    changed = _changed_settings(result)
    if changed.row_count:
        _section(console, "Settings that differ from the default", changed)
    if result.warnings:
        _section(console, "Warnings", *(Text(f"  {clean(warning)}") for warning in result.warnings))


def _section(console: Console, title: str, *parts: Table | Text) -> None:
    console.print()
    console.print(Text(title, "bold"))
    for part in parts:
        show(console, part)


def _grid(rows: Iterable[Sequence[object]], columns: Sequence[str] = ("",) * 5) -> Table:
    cells = list(rows)
    return table(columns[: max(map(len, cells), default=0)], cells, indented=True, header=False)


def _scope(result: SearchResult) -> list[Text]:
    """Return the scope threshold if the setting is `auto`."""
    if result.scope is None or not result.scope.origin:
        return []
    return [Text(f"  scope threshold {result.scope.value:.2f}, {result.scope.origin}", "dim")]


def _funnel(result: SearchResult) -> Table:
    rows = []
    most = max((stage.entered for stage in result.stages), default=0)
    for stage in result.stages:
        bar = "▪" * (max(round(stage.left / most * _BAR), 1) if stage.left and most else 0)
        counts = (Text(str(stage.entered), "dim"), Text(str(stage.left)))
        rows.append((stage.name, *counts, Text(ms(stage.elapsed_ms), "dim"), Text(bar, "cyan")))
    return _grid(rows, ("!", ">!", ">!", ">!", ""))


def _sources(result: SearchResult) -> Table:
    rows = []
    asked_first = result.settings.values.stage1_top_k
    first = {source.source_id: group[0].source_id for group in result.failed_alike for source in group[1:]}
    for source in result.sources:
        state = Text(source.state, _STATE_STYLES.get(source.state, ""))
        took = Text(ms(source.elapsed_ms), "dim")
        words = f"as {first[source.source_id]}" if source.source_id in first else _outcome(source, asked_first)
        outcome = Text(clean(words), "" if source.error else "dim")
        rows.append((source.source_id, tier_text(source.authority_tier), state, took, outcome))
    return _grid(rows)


def _outcome(source: SourceStatus, asked_first: int) -> str:
    if source.error is not None:
        return f"{source.error.get('code')}: {source.problem}"
    parts = [f"{source.chunks} chunks"]
    parts += [f"asked again, for {source.asked}"] if source.asked > asked_first else []
    parts += [f"by words and {source.embedding.model}"] if source.embedding is not None else []
    parts += [f"{source.cut} cut"] if source.cut else []
    parts += [f"{source.rejected} refused"] if source.rejected else []
    return ", ".join([*parts, *source.notes])


def _scores(result: SearchResult) -> Table:
    """Return the formula with its numbers: relevance_weight * relevance + authority_weight * boost = score."""
    values = result.settings.values
    rows = []
    for chunk in result.chunks:
        formula = (
            f"{values.relevance_weight:g} × {chunk.relevance:.4f} + {values.authority_weight:g} × {chunk.boost:.2f} "
            f"= {chunk.final:.4f}"
        )
        rerank = "" if chunk.rerank_score is None else f", reranker {chunk.rerank_score:.2f}"
        signal = Text(f"absolute {chunk.absolute:.2f}{rerank}", "dim")
        rows.append((chunk.rank, chunk_name(chunk.chunk, chunk.chunk_id), formula, signal))
    return _grid(rows)


def _reranker(result: SearchResult) -> list[Text]:
    """Return the reranker, with the adapter under which it compared vectors."""
    if not result.rerank_scores:
        return []
    return [Text(clean(f"  reranked by {reranker_id(result.settings.values, result.rerank_adapter)}"), "dim")]


def _blend(console: Console, result: SearchResult) -> None:
    """Print what each term of the domain's learnt blend adds to each chunk."""
    terms = blend_terms(result)
    if not terms:
        return
    rows = []
    for chunk in result.chunks:
        added = terms.get((chunk.source_id, chunk.chunk_id))
        if added is None:  # the reranker was not shown it: it stays below those that are blended
            continue
        name = chunk_name(chunk.chunk, chunk.chunk_id)
        rows.append((chunk.rank, name, f"{fsum(added.values()):+.2f}", Text(blend_words(added), "dim")))
    _section(console, "Learnt blend", _grid(rows))


def _fates(console: Console, result: SearchResult, names: Mapping[Key, str]) -> None:
    groups: dict[tuple[str, str, str], list[Fate]] = defaultdict(list)
    for fate in result.fates:
        if fate.outcome is not Outcome.RETURNED:
            groups[(str(fate.outcome), fate.stage, fate.reason)].append(fate)
    if not groups:
        return
    lines: list[Text] = []
    for (outcome, stage, reason), fates in sorted(groups.items(), key=lambda item: -len(item[1])):
        words = reason_words(reason)
        lines.append(Text(f"  {len(fates)} {outcome}").append(f" at {stage}: {words}", "dim"))
        lines += [_fate_line(fate, names) for fate in _nearest_miss(fates)[:_TOP]]
        if len(fates) > _TOP:
            lines.append(Text(f"      and {len(fates) - _TOP} more", "dim"))
    _section(console, "Merged and dropped", *lines)


def _nearest_miss(fates: Iterable[Fate]) -> list[Fate]:
    """Return the nearest candidates first: a place just beyond the cut, a score just below the limit."""

    def distance(fate: Fate) -> tuple[float, Key]:
        value = fate.value if isinstance(fate.value, int | float) else 0.0
        return (value if fate.reason == "beyond_top_k" else -value, (fate.source_id, fate.chunk_id))

    return sorted(fates, key=distance)


def _fate_line(fate: Fate, names: Mapping[Key, str]) -> Text:
    key = (fate.source_id, fate.chunk_id)
    line = Text(f"      {names.get(key, fate.chunk_id)}").append(f"  {fate.source_id}", "dim")
    if fate.into is not None:
        line.append(f"  → {names.get(fate.into, fate.into[1])}")
    if isinstance(fate.value, int | float):
        limit = f" (limit {_number(fate.limit)})" if fate.limit is not None else ""
        place = "place " if fate.reason == "beyond_top_k" else ""
        line.append(f"  {place}{_number(fate.value)}{limit}", "dim")
    elif fate.value is not None:
        line.append(f"  {fate.value}" + (f" (limit {fate.limit})" if fate.limit is not None else ""), "dim")
    return line


def _number(value: float | str | None) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _swaps(console: Console, result: SearchResult, names: Mapping[Key, str]) -> None:
    if not result.swaps:
        return
    lines = [
        Text(f"  {names.get(swap.winner, swap.winner[1])} (tier {swap.winner_tier}) passed ")
        .append(f"{names.get(swap.loser, swap.loser[1])} (tier {swap.loser_tier})")
        .append(f": relevance gap {swap.gap:.3f} overturned", "dim")
        for swap in result.swaps[: 2 * _TOP]
    ]
    if result.swap_count > len(lines):
        lines.append(Text(f"  and {result.swap_count - len(lines)} more", "dim"))
    _section(console, "Swaps by authority", *lines)


def _changed_settings(result: SearchResult) -> Table:
    defaults = Settings().model_dump(mode="json")
    return _grid(
        (key, setting_words(key, row["value"]), Text(clean(row["origin"]), "dim"))
        for key, row in result.settings.to_dict().items()
        if row["value"] != defaults[key]
    )


def question_table(query: PreparedQuery) -> Table:
    """Return a table of the searched query, with one line for each part derived from the user's words."""
    return _grid([(Text(name, "dim"), value) for name, value in _lines(query)])


def _lines(query: PreparedQuery) -> Iterator[tuple[str, str]]:
    if query.text != query.original:
        yield "searched as", query.text
    if query.words is not None:
        yield "words", query.words
    yield "language", query.language
    for name, values in (("codes", query.codes), ("sections", query.references), ("phrases", query.phrases)):
        if values:
            yield name, ", ".join(values)
    for added in query.expansions:
        yield "also", f"{added.term or query.refiner} = {added.text} (weight {added.weight:g}, {added.by})"
    for part in query.sub_queries:
        yield "beside it", part
    for translation in query.translations:
        yield "translated", translation
    for written, known in query.suggestions:
        yield ("corrected" if query.corrected else "did you mean"), f"{known} (for {written})"
    if query.concepts:
        yield "concepts", ", ".join(query.concepts)
