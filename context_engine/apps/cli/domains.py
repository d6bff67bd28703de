"""`context-engine domains`: what can be searched."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.acting import with_acting
from context_engine.apps.cli.console import clean, note, out, print_json, show
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context, with_location
from context_engine.apps.cli.words import tier_text
from context_engine.core.models import DomainSpec, SourceSpec


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n  context-engine domains\n  context-engine domains --json | jq '.domains[].domain'",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_acting
@with_location
def domains(location: ConfigLocation, as_json: bool) -> None:
    """List the domains, their sources, and what the embedded base holds of them."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    context = open_context(location)
    held = _held(context)
    if as_json:
        print_json(json.dumps(_published(context, held), ensure_ascii=False))
        return
    console = out()
    registry = context.registry
    longest = max((len(source.id) for domain in registry.domains.values() for source in domain.sources), default=0)
    for problem in registry.unread:
        show(console, Text(f"cannot be read: {clean(str(problem))}", "red"))
    if not registry.names and not registry.unread:
        show(console, Text("No domain is registered. Write one with 'context-engine init DIR'."))
    for number, name in enumerate(registry.names):
        if number:
            console.print()
        if name in registry.broken:
            show(console, _title(name, ""))
            for problem in registry.broken[name].each:
                show(console, Text(f"  cannot be used: {clean(str(problem))}", "red"))
        else:
            domain = registry.domain(name)
            show(console, _title(name, domain.title))
            show(console, _sources(domain, held, longest))
    note(f"knowledge base: {context.base}")


def _title(name: str, title: str) -> Text:
    return Text(name, "bold").append(f"  {clean(title)}", "")


def _sources(domain: DomainSpec, held: Mapping[str, tuple[int, int]] | None, width: int) -> Table:
    table = Table(box=None, pad_edge=True, padding=(0, 1, 0, 1), header_style="dim")
    table.add_column("source", overflow="fold", min_width=width)
    table.add_column("tier", min_width=len("3 standard"))
    table.add_column("adapter", overflow="fold")
    for header in ("documents", "chunks"):
        table.add_column(header, justify="right")
    table.add_column("title", overflow="fold", style="dim")
    for source in domain.sources:
        counts = _counts(source, held)
        numbers = [Text("–", "dim") if count is None else Text(str(count)) for count in counts]
        table.add_row(source.id, tier_text(source.tier), source.adapter, *numbers, clean(source.title))
    return table


def _held(context: CliContext) -> Mapping[str, tuple[int, int]] | None:
    """Return the documents and chunks that the user may read, by source; None where there is no base."""
    from context_engine.adapters.sources.local.base import LocalBase

    with LocalBase(context.base) as opened:
        return opened.held(context.scope) if opened.exists() else None


def _counts(source: SourceSpec, held: Mapping[str, tuple[int, int]] | None) -> tuple[int | None, int | None]:
    """Return documents and chunks of a source; not known where another system holds them."""
    from context_engine.adapters.sources.factory import in_embedded_base

    if held is None or not in_embedded_base(source):
        return None, None
    return held.get(source.id, (0, 0))


def _published(context: CliContext, held: Mapping[str, tuple[int, int]] | None) -> dict[str, Any]:
    registry = context.registry
    rows: list[dict[str, Any]] = []
    for name in registry.names:
        if name in registry.broken:
            rows.append({"domain": name, "problem": str(registry.broken[name]), "sources": []})
            continue
        domain = registry.domain(name)
        rows.append(
            {
                "domain": name,
                "title": domain.title,
                "problem": None,
                "sources": [_published_source(source, held) for source in domain.sources],
            }
        )
    unread = [str(problem) for problem in registry.unread]
    return {"domains": rows, "problems": unread, "base": str(context.base), "demo": context.demo}


def _published_source(source: SourceSpec, held: Mapping[str, tuple[int, int]] | None) -> dict[str, Any]:
    documents, chunks = _counts(source, held)
    return {
        "id": source.id,
        "title": source.title,
        "type": str(source.type),
        "tier": source.tier,
        "adapter": source.adapter,
        "documents": documents,
        "chunks": chunks,
    }
