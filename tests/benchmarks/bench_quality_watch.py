"""How soon a planted drift is noticed, and how often an alarm is false.

    python tests/benchmarks/bench_quality_watch.py [--searches 5000] [--streams 50] [--seed 1]

The demo bank is searched and every search recorded, with a clock that spreads the searches over ten weeks. Some
questions are everyday ones, so they are out of scope, and in some searches a source fails. At a seeded place both
become more frequent, and `audit quality` reads the ledger. Then streams are drawn from the entries that were recorded
before that place: quiet ones, whose alarms are all false, and ones with a drift at a seeded place.

The baseline is a threshold on the share of the last hundred searches: a multiple of the share of the first thousand,
once three times, and once so high that it raises no more false alarms than the chart.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from context_engine import Engine, SearchRequest, demo
from context_engine.core.engine import SystemClock
from context_engine.core.models import utc_text
from context_engine.core.protocols import Source
from context_engine.errors import SourceError
from context_engine.insight.quality import USUAL, QualityChart, QualityOutcome, mean_delay, upper_limit
from context_engine.insight.quality_watch import outcomes_of
from context_engine.wiring.audit import open_ledger, open_recorder
from context_engine.wiring.audit_writers import close_writers
from context_engine.wiring.build import source_opener
from context_engine.wiring.setup import Setup, load_setup

Entry = Mapping[str, Any]
DOMAIN = "NPA"
DAYS = 70
PAST, WINDOW = 1000, 100
QUIET = {"out_of_scope": 0.04, "degraded": 0.02}
DRIFT = {"out_of_scope": 0.12, "degraded": 0.08}
EVERYDAY = Path(__file__).with_name("everyday_questions.txt").read_text("utf-8").splitlines()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--searches", type=int, default=5000)
    options.add_argument("--streams", type=int, default=50)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = random.Random(given.seed).randrange(given.searches // 2, 3 * given.searches // 4)
        entries = recorded(Path(folder), given.searches, place, given.seed)
        print(f"{len(entries)} searches of {DOMAIN} recorded, drift after {place}")
        told_by_command(Path(folder), entries, place)
    quiet = entries[:place]
    for figure in QUIET:
        compare(figure, quiet, entries[place:], given.searches, given.streams, given.seed)


class SpreadClock(SystemClock):
    """A clock that tells the time of a search that is spread over past days."""

    def __init__(self, searches: int) -> None:
        self.begin, self.step = datetime.now(UTC) - timedelta(days=DAYS), timedelta(days=DAYS) / searches
        self.number = 0

    def now(self) -> datetime:
        return self.begin + self.number * self.step


class DownSource:
    """A source that fails."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def search(self, query: Any) -> Any:
        raise SourceError("the source is down", source_id="down")


def recorded(folder: Path, searches: int, place: int, seed: int) -> list[Entry]:
    """Search the demo bank, and return the entries of the ledger in order."""
    os.environ["HOME"] = str(folder)
    os.environ["XDG_DATA_HOME"] = str(folder / "data")
    os.environ["CONTEXT_ENGINE_AUDIT_LEDGER"] = str(folder / "ledger.db")
    setup = load_setup(manifest_dir=demo.MANIFESTS, cwd=folder)
    data = folder / "base"
    data = demo.ensure_base(data, setup.registry)
    clock, rng = SpreadClock(searches), random.Random(seed)
    opener, last = source_opener(setup, data_dir=data, embedder=lambda: None), setup.registry.domain(DOMAIN).sources[-1]

    def down(domain: Any, spec: Any) -> Any:
        source = opener.open(domain, spec)
        return DownSource(source) if spec.id == last.id else source

    recorder = open_recorder(setup, data, clock=clock)
    asked = [row["query"] for row in map(json.loads, demo.QUESTIONS.open()) if row["domain"] == DOMAIN]
    with Engine(setup.registry, opener.open, resolve=setup.resolver.resolve) as engine:
        questions = [query for query in asked if decision(engine, query) == "answered"]
        outside = [query for query in EVERYDAY if decision(engine, query) == "out_of_scope"]
    more: dict[str, Any] = {"resolve": setup.resolver.resolve, "clock": clock, "recorder": recorder}
    with Engine(setup.registry, opener.open, **more) as whole, Engine(setup.registry, down, **more) as broken:
        for number in range(searches):
            shares = QUIET if number < place else DRIFT
            clock.number = number
            query = rng.choice(outside if rng.random() < shares["out_of_scope"] else questions)
            engine = broken if rng.random() < shares["degraded"] else whole
            engine.search(SearchRequest(query=query, domain=DOMAIN))
    close_writers(60.0)
    return entries_of(setup, data)


def decision(engine: Engine, query: str) -> str:
    return str(engine.search(SearchRequest(query=query, domain=DOMAIN)).decision)


def entries_of(setup: Setup, data: Path) -> list[Entry]:
    ledger = open_ledger(setup, data, create=False)
    ledger.integrate()
    rows = [json.loads(stored.entry) for stored in ledger.entries(0, ledger.size) if stored.entry]
    ledger.close()
    return [row for row in rows if row["kind"] == "search"]


def told_by_command(folder: Path, entries: Sequence[Entry], place: int) -> None:
    """Run `audit quality` on the ledger, and print what it says."""
    command = [sys.executable, "-m", "context_engine", "audit", "quality", "--json", "--domain", DOMAIN]
    command += ["--ledger", str(folder / "ledger.db"), "--data-dir", str(folder / "base")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    numbers = {entry["id"]: number for number, entry in enumerate(entries)}
    times = [entry["time"] for entry in entries]
    print(f"audit quality: exit code {done.returncode}")
    for line in json.loads(done.stdout)["figures"]:
        for excursion in line["excursions"]:
            noticed = times.index(excursion["alarmed"]) - place
            print(
                f"  {line['figure']}: {excursion['past_share']:.1%} to {excursion['share']:.1%}, noticed {noticed} "
                f"searches after the drift, said to begin {numbers[excursion['first_id']] - place:+d} from it"
            )


def drawn(first: Sequence[bool], then: Sequence[bool], place: int, size: int, seed: int) -> list[bool]:
    """Return outcomes drawn from the recorded ones, those of the second list from a place on."""
    rng = random.Random(seed)
    return [rng.choice(then if number >= place else first) for number in range(size)]


def chart_alarms(bad: Sequence[bool]) -> list[int]:
    """Return the places of the alarms of the chart."""
    chart, begin, step = QualityChart(), datetime(2026, 1, 5, tzinfo=UTC), timedelta(days=DAYS) / len(bad)
    outcomes = (QualityOutcome(utc_text(begin + number * step), str(number), each) for number, each in enumerate(bad))
    return [number for number, outcome in enumerate(outcomes) if chart.add(outcome) is not None]


def window_shares(bad: Sequence[bool]) -> list[float]:
    """Return the share of the last `WINDOW` outcomes after `PAST` of them, as a multiple of that of the past."""
    past, total = sum(bad[:PAST]) / PAST, [0, *accumulate(bad)]
    return [(total[end] - total[end - WINDOW]) / WINDOW / past for end in range(PAST + 1, len(bad) + 1)]


def window_alarms(bad: Sequence[bool], times: float) -> list[int]:
    """Return the places where the share of the window rises above a multiple of that of the past."""
    above = [False, *(share > times for share in window_shares(bad))]
    return [PAST + number for number, (was, now) in enumerate(pairwise(above)) if now and not was]


def compare(figure: str, quiet: Sequence[Entry], drifted: Sequence[Entry], size: int, streams: int, seed: int) -> None:
    """Print false alarms and delays of the chart and of both thresholds."""
    first, then = ([dict(outcomes_of(entry))[figure] for entry in part] for part in (quiet, drifted))
    calm = [drawn(first, then, size, size, seed + number) for number in range(streams)]
    rng = random.Random(seed)
    places = [rng.randrange(size // 2, 3 * size // 4) for _ in range(streams)]
    moved = [drawn(first, then, place, size, seed + number) for number, place in enumerate(places)]
    past, now = sum(first) / len(first), sum(then) / len(then)
    false = sum(len(chart_alarms(bad)) for bad in calm)
    fair = sorted(max(window_shares(bad)) for bad in calm)[-1 - false]
    print(f"\n{figure}: {past:.1%} to {now:.1%}; {streams} streams of {size}")
    delay = mean_delay(upper_limit(past, size // 2), now)
    print(f"  stated: at most {streams * size / USUAL.run_length:.0f} false alarms; {delay:.0f} searches on average")
    print(f"  {'':22}{'false':>8}{'noticed':>10}{'mean':>8}{'median':>8}{'90 %':>8}")
    methods: list[tuple[str, Callable[[Sequence[bool]], list[int]]]] = [
        ("chart", chart_alarms),
        ("3.0 times the past", lambda bad: window_alarms(bad, 3.0)),
        (f"{fair:.1f} times the past", lambda bad: window_alarms(bad, fair)),
    ]
    for name, alarms in methods:
        after = [[at - place for at in alarms(bad) if at >= place] for bad, place in zip(moved, places, strict=True)]
        delays = sorted(each[0] for each in after if each)
        row = f"  {name:22}{sum(len(alarms(bad)) for bad in calm):>8}{len(delays):>7}/{streams}"
        if delays:
            row += f"{sum(delays) / len(delays):>8.0f}{median(delays):>8.0f}{delays[int(0.9 * (len(delays) - 1))]:>8}"
        print(row)


if __name__ == "__main__":
    main()
