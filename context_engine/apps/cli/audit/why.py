"""`audit why`: why a chunk was shown or not, and the smallest change that would show it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from rich.console import Console
from rich.text import Text

from context_engine.apps.cli.audit.ledger import (
    NO_KEY,
    LedgerLocation,
    opened_ledger,
    read_saved,
    say_unproved,
    with_ledger,
)
from context_engine.apps.cli.console import out, print_json, show
from context_engine.apps.web.inert import clean
from context_engine.apps.web.naming import candidate_names
from context_engine.audit.review.stored import find_record, recorded_result
from context_engine.core.models import Key, Outcome, SearchResult, Settings
from context_engine.service.explaining.words import reason_words

if TYPE_CHECKING:
    from context_engine.audit.review.case import Change
    from context_engine.audit.review.smallest import Counterfactual, Search
    from context_engine.audit.review.why import Absence, AccessTaken, Standing, Why
    from context_engine.core.models import Fate


SCHEMA_VERSION: Final = 1
_FILE: Final = click.Path(dir_okay=False, exists=True, path_type=Path)

WHY: Final = """\b
Examples:
  context-engine audit why 019cad50-24a0-7afe-8262-0d28d32447a6 NPA-SOP-001@3.2#4
  context-engine audit why 019cad50-24a0-7afe-8262-0d28d32447a6 web-17 --source regulators
  context-engine search "default fund" -d DCE --json --full > answer.json
  context-engine audit why --file answer.json NPA-SOP-001@3.2#4
"""


class _Recorded(NamedTuple):
    """A search, and the chunks that access control removed from it."""

    result: SearchResult
    access: AccessTaken


@click.command(epilog=WHY)
@click.argument("names", metavar="[ID] CHUNK", nargs=-1)
@click.option("--source", metavar="ID", help="The chunk's source; needed for a chunk that was no candidate.")
@click.option("--file", type=_FILE, metavar="FILE", help="A result written by 'search --json --full', instead of ID.")
@click.option("--query", metavar="TEXT", help="The question, if only its digest was recorded.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_ledger
def why(
    at: LedgerLocation, names: tuple[str, ...], source: str | None, file: Path | None, query: str | None, as_json: bool
) -> None:
    """Tell why a chunk was shown in answer ID or not, and the smallest change that would have shown it.

    CHUNK is the chunk's id, the beginning of it, or SOURCE/CHUNK as shown by 'audit show'. The change is proved by
    computing the answer again with it; the guide to auditing defines the size of a change.
    Exit code: 0, 4 the question was not recorded, 2 no such chunk, usage or configuration.
    """
    from context_engine.audit.review.why import why as why_shown

    if len(names) != (2 if file is None else 1):
        raise click.UsageError("Give the ID of a record, or --file, and a CHUNK.")
    if file is not None and (query is not None or at.ledger is not None):
        raise click.UsageError("--query and --ledger are for a record of a ledger, not for --file.")
    recorded = _of_ledger(at, names[0], query) if file is None else _of_file(file)
    answer = why_shown(recorded.result, names[-1], source, recorded.access)
    if as_json:
        published = {"schema_version": SCHEMA_VERSION, **answer.to_dict()}
        print_json(published)
    else:
        print_why(out(), answer, recorded.result)


def _of_ledger(at: LedgerLocation, record_id: str, query: str | None) -> _Recorded:
    from context_engine.audit.review.account import account_of
    from context_engine.audit.review.why import AccessTaken

    with opened_ledger(at) as opened:
        ledger = opened.ledger
        record = find_record(ledger, record_id)
        result = recorded_result(ledger, record_id, record.entry, query)
        entry = account_of(record.entry, record.index, ledger).entry
        say_unproved([NO_KEY] if ledger.keyring is None else [])
    return _Recorded(result, AccessTaken.of_entry(entry))


def _of_file(file: Path) -> _Recorded:
    from context_engine.audit.record.parts import load_result
    from context_engine.audit.review.why import AccessTaken

    return _Recorded(load_result(read_saved(file)), AccessTaken())


_MOST_NAMED: Final = 5

_NOT_SAME: Final = (
    "Stage 2 computed again does not give the recorded answer: the following describes the new result. "
    "'audit replay' shows where they differ."
)

_UNSCORED: Final = "The reranker has no score for it: this rank rests on the relevance of stage 1 alone."

_ASKED_OTHERWISE: Final = (
    "With another filter or day the sources might return other candidates: this used the recorded ones."
)


def print_why(console: Console, why: Why, result: SearchResult) -> None:
    """Print why a chunk was shown or not."""
    if not why.same:
        show(console, Text(_NOT_SAME, "yellow"))
    names = _Names(candidate_names(result))
    for line in _lines(why, result, names):
        show(console, Text(clean(line)))


class _Names:
    """Names of the chunks of a search, for people."""

    def __init__(self, names: Mapping[Key, str]) -> None:
        self._names = names

    def of(self, key: Key) -> str:
        """Return the name of a chunk with its source."""
        return f"{self._names.get(key, key[1])} ({key[0]})"

    def of_all(self, keys: Sequence[Key]) -> str:
        """Return the names of the first chunks, and how many more there are."""
        more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
        return ", ".join(self.of(key) for key in keys[:_MOST_NAMED]) + more


def _lines(why: Why, result: SearchResult, names: _Names) -> Iterator[str]:
    chunk = names.of((why.source_id, why.chunk_id))
    if why.absence is not None:
        yield f"{chunk} was no candidate: {_absence(why.absence)}."
        return
    if why.fate is not None:
        yield f"{chunk} {_fate(why.fate, why.rank, names)}."
    yield f"  left after each stage: {' → '.join(f'{stage.name} {stage.left}' for stage in why.funnel)}"
    if why.standing is not None:
        yield from _standing(why.standing, result.settings.values)
    yield from _shown(why, names)
    if why.changes is not None:
        yield from _changes(why.changes, names)


def _absence(absence: Absence) -> str:
    asked = f"the source was asked for {absence.asked} and gave {absence.chunks}"
    detail = f" ({absence.detail})" if absence.detail else ""
    return {
        "withheld": f"the source gave it, and the caller was not cleared for it{detail}",
        "source_denied": f"its source was not searched for the caller{detail}",
        "source_not_searched": "its source was not searched",
        "source_failed": f"its source did not answer, or not in full{detail}",
        "maybe_cut": f"{asked}, {absence.cut} more were cut, and which is not recorded",
        "maybe_beyond": f"{asked}; it may have come next, and stage1_top_k would have to be larger",
        "maybe_refused": f"{asked}, {absence.rejected} more were unusable, and which is not recorded",
        "not_found": f"{asked}, and this was not among them",
    }[absence.why]


def _fate(fate: Fate, rank: int | None, names: _Names) -> str:
    if fate.outcome is Outcome.RETURNED:
        return f"was shown at rank {rank}"
    tested = "" if fate.value is None else f", {_rounded(fate.value)}"
    limit = "" if fate.limit is None else f" (limit {_number(fate.limit)})"
    if fate.outcome is Outcome.MERGED and fate.into is not None:
        return f"was merged into {names.of(fate.into)}: {reason_words(fate.reason)}{tested}{limit}"
    place = f", place {fate.value}" if fate.reason == "beyond_top_k" else tested
    return f"was dropped at {fate.stage}: {reason_words(fate.reason)}{place}{limit}"


def _standing(standing: Standing, settings: Settings) -> Iterator[str]:
    parts = [f"tier {standing.tier}", f"relevance {standing.relevance:.4f}"]
    if standing.absolute is not None:
        parts.append(f"absolute {standing.absolute:.4f}")
    if standing.rerank_score is not None:
        parts.append(f"reranker {standing.rerank_score:.4f}")
    yield f"  {', '.join(parts)}"
    if standing.final is not None and standing.boost is not None:
        supposed = ", had no limit stood in its way" if standing.supposed else ""
        yield (
            f"  {settings.relevance_weight:g} × {standing.relevance:.4f} + {settings.authority_weight:g} × "
            f"{standing.boost:.2f} = {standing.final:.4f}{supposed}"
        )
    if standing.place is not None:
        gap = standing.gap or 0.0
        below = f", {gap:.4f} below the last that was shown" if gap > 0.0 else ""
        yield f"  place {standing.place} of {standing.ranked}{below}"


def _shown(why: Why, names: _Names) -> Iterator[str]:
    """Yield the reasons for the rank of a shown chunk."""
    if why.also_in:
        yield f"  merged into it: {names.of_all([(member.source_id, member.chunk_id) for member in why.also_in])}"
    own = (why.source_id, why.chunk_id)
    passed = [swap.loser for swap in why.swaps if swap.winner == own]
    lost = [swap.winner for swap in why.swaps if swap.loser == own]
    if passed:
        yield f"  by its tier it passed {names.of_all(passed)}"
    if lost:
        yield f"  by their tiers it was passed by {names.of_all(lost)}"


def _changes(search: Search, names: _Names) -> Iterator[str]:
    if search.single is not None:
        yield _sentence(search.single, names)
        yield from _beside(search.single, names)
        return
    yield "No single change would have shown it."
    if search.pair is not None:
        yield f"Two together would: {_sentence(search.pair, names)}"
        yield from _beside(search.pair, names)
    yield f"  tried in vain: {', '.join(f'{name} ({count})' for name, count in search.tried)}"


def _sentence(counterfactual: Counterfactual, names: _Names) -> str:
    told = " and ".join(_change(change, names) for change in counterfactual.changes)
    return f"{told[:1].upper()}{told[1:]} it would have been shown at rank {counterfactual.rank}."


def _change(change: Change, names: _Names) -> str:
    was, now = _number(change.was), _number(change.now)
    if change.kind == "text":
        source, _, chunk = change.name.partition("/")
        return f"without the text {names.of((source, chunk))}"
    if change.kind == "source":
        source, _, field = change.name.rpartition(".")
        return f"with the {field} of source {source} {now} instead of {was}"
    if change.name == "as_of":
        return f"asked about {now} instead of {was}"
    if change.name == "filters":
        return "without the filter" if change.now is None else f"with no more of the filter than {now}"
    return f"with {change.name} {now} instead of {was}"


def _beside(counterfactual: Counterfactual, names: _Names) -> Iterator[str]:
    """Yield the further effects of a change, and its uncertainties."""
    if counterfactual.left:
        yield f"  no longer shown then: {names.of_all(counterfactual.left)}"
    if counterfactual.came:
        yield f"  shown then as well: {names.of_all(counterfactual.came)}"
    if counterfactual.unscored:
        yield f"  {_UNSCORED}"
    if counterfactual.asks_otherwise:
        yield f"  {_ASKED_OTHERWISE}"


def _rounded(value: float | str) -> str:
    return _number(round(value, 4) if isinstance(value, float) else value)


def _number(value: Any) -> str:
    """Return a value for people; a limit has all its digits, because the user has to set it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".") if value == round(value, 4) else repr(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
