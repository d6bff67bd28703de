"""`kb adapter`: list the adapters of a store and choose the one that searches use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.console import note, outcome, print_json, print_line, table
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context, with_domain, with_location
from context_engine.apps.cli.kb.base import opened_base, print_calibrations
from context_engine.apps.cli.options import with_json
from context_engine.apps.cli.progress import busy
from context_engine.core.protocols import Calibratable, LearntAdapters

if TYPE_CHECKING:
    from context_engine.core.models import StoredAdapter


@click.group()
def adapter() -> None:
    """List the adapters that a base or store has learnt for a domain, and switch between them.

    'context-engine eval tune --adapter' learns one from judged questions. Stored vectors are never rewritten: an
    adapter is put in force or out of force at once, and all later searches use the change.
    """


@adapter.command("list", epilog="\b\nExample:\n  context-engine kb adapter list --domain NPA")
@with_domain("The domain they were learnt for")
@with_json
@with_location
def list_(location: ConfigLocation, domain: str | None, as_json: bool) -> None:
    """Show the adapters of a domain with the gains measured before they were kept.

    An adapter is in force for callers who may read the partitions it was learnt from ('kb stats' lists them).
    """
    context = _context(location, domain)
    name = context.domain
    with _opened(location, context) as store:
        adapters = store.adapters(name)
    if as_json:
        print_json({"domain": name, "adapters": [stored._asdict() for stored in adapters]})
    elif not adapters:
        note(f"{name} has no adapter: 'context-engine eval tune --adapter' learns one from judged questions.")
    else:
        print_line(_table(adapters))


@adapter.command(epilog="\b\nExample:\n  context-engine kb adapter use 3f9a1c0b7e42 --domain NPA")
@click.argument("adapter_id", metavar="ID")
@with_domain("The domain it was learnt for")
@with_location
def use(location: ConfigLocation, adapter_id: str, domain: str | None) -> None:
    """Calibrate the scope threshold under an adapter, then put the adapter in force."""
    from context_engine.evaluation.learning.taught_base import judged_questions
    from context_engine.wiring.examine import taught_source
    from context_engine.wiring.scope import use_adapter

    context = _context(location, domain)
    setup, name = context.setup, context.domain
    judged = judged_questions(setup).get(name, ())
    spec = setup.registry.domain(name)
    with _opened(location, context, embedder=True) as store:
        store.switchable_adapters(name, adapter_id)  # refuses a wrong id before the slow calibration
        with busy("Calibrating …"):
            calibration = use_adapter(
                setup, store, spec, adapter_id, judged=judged, adapter=taught_source(spec).adapter
            )
    print_calibrations([calibration])
    _print_in_force(name, adapter_id)


@adapter.command(epilog="\b\nExample:\n  context-engine kb adapter off --domain NPA")
@with_domain("The domain")
@with_location
def off(location: ConfigLocation, domain: str | None) -> None:
    """Put every adapter of a domain out of force: searches compare the model's own vectors again."""
    context = _context(location, domain)
    with _opened(location, context) as store:
        store.use_adapter(context.domain, None)
    _print_in_force(context.domain, None)


@adapter.command(epilog="\b\nExample:\n  context-engine kb adapter undo --domain NPA")
@with_domain("The domain")
@with_location
def undo(location: ConfigLocation, domain: str | None) -> None:
    """Revert the last 'use', 'off' or 'undo' of a domain."""
    from context_engine.evaluation.learning.taught_base import judged_questions
    from context_engine.wiring.examine import taught_source
    from context_engine.wiring.scope import calibrate_domain

    context = _context(location, domain)
    setup, name = context.setup, context.domain
    judged = judged_questions(setup).get(name, ())
    spec, calibrations = setup.registry.domain(name), []
    with _opened(location, context, embedder=True) as store:
        if not store.undo_adapter(name):
            outcome("nothing to undo", f"no adapter of {name} was ever in force")
            return
        if isinstance(store, Calibratable):
            with busy("Calibrating …"):
                adapter_name = taught_source(spec).adapter
                calibrations = [calibrate_domain(setup, store, spec, judged=judged, adapter=adapter_name)]
        used = [stored.adapter_id for stored in store.adapters(name) if stored.in_force]
    print_calibrations(calibrations)
    _print_in_force(name, ", ".join(used) or None)


def adapter_lines(adapters: Iterable[StoredAdapter]) -> Iterator[tuple[str, str]]:
    """Yield for each domain with adapters a label, and which of them are in force."""
    by_domain: dict[str, list[StoredAdapter]] = {}
    for stored in adapters:
        by_domain.setdefault(stored.domain, []).append(stored)
    for domain, kept in by_domain.items():
        used = [f"{stored.adapter_id} in force{_problem(stored)}" for stored in kept if stored.in_force]
        yield f"adapter of {domain}", "; ".join(used) or f"none in force of {len(kept)} kept"


def _context(location: ConfigLocation, domain: str | None) -> CliContext:
    return open_context(location, domain=domain, one_domain=True, build_demo=False, operator=True)


@contextmanager
def _opened(location: ConfigLocation, context: CliContext, *, embedder: bool = False) -> Iterator[LearntAdapters]:
    """Yield the store that learns for a domain: the embedded base, else the store of the domain's first source.

    Args:
        embedder: also open the configured embedder.
    """
    from context_engine.wiring.build import source_opener
    from context_engine.wiring.embedded_base import EMBEDDED
    from context_engine.wiring.examine import opened_store, taught_source

    spec = context.setup.registry.domain(context.domain)
    first = taught_source(spec)
    if first.adapter == EMBEDDED:
        with opened_base(location, embedder=embedder) as base:
            yield base
        return
    model = context.setup.models(context.data_dir).embedder if embedder else lambda: None
    opener = source_opener(context.setup, data_dir=context.data_dir, embedder=model)
    with opened_store(opener, spec, first, LearntAdapters) as store:
        yield store


def _print_in_force(domain: str, adapter_id: str | None) -> None:
    outcome("in force" if adapter_id else "off", f"{domain} is searched with {adapter_id or 'no adapter'}")


def _table(adapters: Iterable[StoredAdapter]) -> Table:
    columns = ("adapter", "model", ">questions", "gain, new answers", "gain, known answers", "made", "learnt from", "")
    rows = []
    for stored in adapters:
        state = Text("in force" if stored.in_force else "", "green").append(_problem(stored), "red")
        partitions = ", ".join(f"partition {key}" for key in stored.learnt_from)
        questions = str(stored.evidence.get("questions", "–"))
        gains = (_new_answers(stored), _known_answers(stored))
        rows.append((stored.adapter_id, stored.model_id, questions, *gains, stored.made_at[:10], partitions, state))
    return table(columns, rows)


def _problem(stored: StoredAdapter) -> str:
    return f", not used: {stored.problem}" if stored.problem else ""


def _new_answers(stored: StoredAdapter) -> str:
    """Return the measure and its gain for answers the adapter was not learnt from, with the interval if known."""
    gain = _gain(*(stored.evidence.get(name) for name in ("before", "after", "interval")))
    return f"{stored.evidence.get('measure', '')} {gain}".strip() if gain else "–"


def _known_answers(stored: StoredAdapter) -> str:
    """Return the gain, by the same measure, for answers the adapter was learnt from."""
    known: Any = stored.evidence.get("known")
    row = known.get(stored.evidence.get("measure")) if isinstance(known, dict) else None
    if not isinstance(row, dict):
        return "–"
    return _gain(row.get("before"), row.get("after"), (row.get("low"), row.get("high"))) or "–"


def _gain(before: Any, after: Any, interval: Any) -> str:
    if not _are_measured(before, after):
        return ""
    if not isinstance(interval, list | tuple) or len(interval) != 2 or not _are_measured(*interval):
        return f"{after - before:+.3f}"
    return f"{after - before:+.3f} ({interval[0]:+.3f} to {interval[1]:+.3f})"


def _are_measured(*values: Any) -> bool:
    """Return whether all values are possible means or differences: a damaged base may hold anything."""
    return all(isinstance(value, float | int) and abs(value) <= 1 for value in values)
