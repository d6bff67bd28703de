"""`context-engine domains`: list what can be searched; draft a manifest from Dify datasets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.console import note, print_json, print_line, table, write_text
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context, with_acting, with_location
from context_engine.apps.cli.options import with_json
from context_engine.apps.cli.words import tier_text
from context_engine.apps.web.inert import clean
from context_engine.core.models import DomainSpec, SourceSpec
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.adapters.sources.dify.dataset import DatasetInfo


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n  context-engine domains\n  context-engine domains --json | jq '.domains[].domain'",
)
@with_json
@with_acting
@with_location
def domains(location: ConfigLocation, as_json: bool) -> None:
    """List the domains, their sources, and their documents and chunks in the embedded base."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    context = open_context(location)
    stored = _stored(context)
    if as_json:
        print_json(_published(context, stored))
        return
    registry = context.registry
    longest = max((len(source.id) for domain in registry.domains.values() for source in domain.sources), default=0)
    for problem in registry.unread:
        print_line(f"cannot be read: {problem}", "red")
    if not registry.names and not registry.unread:
        print_line("No domain is registered. Write one with 'context-engine init DIR'.")
    for number, name in enumerate(registry.names):
        if number:
            print_line()
        if name in registry.broken:
            print_line(_title(name, ""))
            for problem in registry.broken[name].each:
                print_line(f"  cannot be used: {problem}", "red")
        else:
            domain = registry.domain(name)
            print_line(_title(name, domain.title))
            print_line(_sources(domain, stored, longest))
    note(f"knowledge base: {context.base}")


def _title(name: str, title: str) -> Text:
    return Text(name, "bold").append(f"  {clean(title)}", "")


def _sources(domain: DomainSpec, stored: Mapping[str, tuple[int, int]] | None, width: int) -> Table:
    rows = []
    named_alike = any(source.namespace for source in domain.sources)
    for source in domain.sources:
        counts = _counts(source, stored)
        numbers = [Text("–", "dim") if count is None else Text(str(count)) for count in counts]
        title = Text(clean(source.title), "dim")
        named = (source.namespace or "",) if named_alike else ()
        rows.append((source.id, *named, tier_text(source.tier), source.adapter, *numbers, title))
    columns = ("source", *(("namespace",) if named_alike else ()), "tier", "adapter", ">documents", ">chunks", "title")
    made = table(columns, rows, indented=True)
    # The tables of all domains stand below each other: their columns begin at the same place.
    made.columns[0].min_width, made.columns[1 + named_alike].min_width = width, len("3 standard")
    return made


def _stored(context: CliContext) -> Mapping[str, tuple[int, int]] | None:
    """Return the documents and chunks that the user may read, by source; None if there is no base."""
    from context_engine.wiring.embedded_base import base_as_it_is

    with base_as_it_is(context.base) as opened:
        return opened.held(context.scope) if opened.exists() else None


def _counts(source: SourceSpec, stored: Mapping[str, tuple[int, int]] | None) -> tuple[int | None, int | None]:
    """Return the numbers of documents and chunks of a source; unknown if another system holds them."""
    from context_engine.wiring.embedded_base import in_embedded_base

    if stored is None or not in_embedded_base(source):
        return None, None
    return stored.get(source.id, (0, 0))


def _published(context: CliContext, stored: Mapping[str, tuple[int, int]] | None) -> dict[str, Any]:
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
                "sources": [_published_source(source, stored) for source in domain.sources],
                "namespaces": _published_namespaces(domain, stored),
            }
        )
    unread = [str(problem) for problem in registry.unread]
    return {"domains": rows, "problems": unread, "base": str(context.base), "demo": context.demo}


def _published_namespaces(
    domain: DomainSpec, stored: Mapping[str, tuple[int, int]] | None
) -> dict[str, dict[str, int | None]]:
    """Return the documents and chunks of each namespace; unknown if another system holds those of a source."""
    counts: dict[str, list[tuple[int | None, int | None]]] = {}
    for source in domain.sources:
        counts.setdefault(source.in_namespace, []).append(_counts(source, stored))
    return {
        name: {key: _total(numbers) for key, numbers in zip(("documents", "chunks"), zip(*of_sources))}
        for name, of_sources in counts.items()
    }


def _total(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _published_source(source: SourceSpec, stored: Mapping[str, tuple[int, int]] | None) -> dict[str, Any]:
    documents, chunks = _counts(source, stored)
    return {
        "id": source.id,
        "namespace": source.in_namespace,
        "title": source.title,
        "type": str(source.type),
        "tier": source.tier,
        "adapter": source.adapter,
        "documents": documents,
        "chunks": chunks,
    }


EPILOG: Final = """\b
Examples:
  context-engine domains import --connection dify
  context-engine domains import --connection dify --domain NPA --output manifests/npa.yaml
"""


@domains.command("import", epilog=EPILOG)
@click.option("--connection", required=True, metavar="NAME", help="A connection of connections.yaml.")
@click.option("--domain", default="DRAFT", show_default=True, metavar="NAME", help="The domain of the manifest.")
@click.option("--output", metavar="FILE", help="Write here, not to stdout; an existing file is not replaced.")
@with_location
def import_datasets(location: ConfigLocation, connection: str, domain: str, output: str | None) -> None:
    """List the datasets of a Dify workspace and write a draft manifest: every source is tier 5 until you edit it."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", domain):
        raise InvalidRequest(f"--domain {domain!r}: letters, digits, _ and -, at most 64")
    if output is not None and Path(output).exists():
        raise InvalidRequest(f"{output} is already there: name another file, or remove it")
    datasets = _listed(location, connection)
    text = "\n".join(manifest(datasets, connection, domain)) + "\n"
    if output is None:
        write_text(text)
    else:
        Path(output).write_text(text, encoding="utf-8")
    note(f"{len(datasets)} datasets. Give each its type; sources of one type may be joined into one.")


def _listed(location: ConfigLocation, connection: str) -> list[DatasetInfo]:
    from context_engine.adapters.sources.dify.workspace import Workspace, list_datasets
    from context_engine.core.engine import SystemClock

    setup = location.load()
    clock = SystemClock()
    with closing(Workspace(partial(setup.config.connections.get, connection), clock)) as workspace:
        return list_datasets(workspace, clock)


def manifest(datasets: Iterable[DatasetInfo], connection: str, domain: str) -> Iterator[str]:
    """Yield the lines of a draft manifest; a dataset that cannot be searched becomes a comment."""
    named = sorted(datasets, key=lambda dataset: (dataset.name.casefold(), dataset.dataset_id))
    searchable = [dataset for dataset in named if not dataset.external]
    external = [dataset for dataset in named if dataset.external]
    yield "# A draft. Every source is general web, tier 5 and untrusted, until you say what it is:"
    yield "# system_of_record (1), bank_sop (2), industry_standard (3), external_official (4), general_web (5)."
    yield "version: 1"
    yield f"domain: {domain}"
    yield "sources:" if searchable else "sources: []   # at least one is needed"
    taken: set[str] = set()
    for dataset in searchable:
        yield f"  # {_line(dataset.name)} ({dataset.technique or 'not indexed yet'}, {_count(dataset.documents)})"
        yield f"  - id: {_source_id(dataset.name, dataset.dataset_id, taken)}"
        yield f"    title: {json.dumps(_line(dataset.name), ensure_ascii=False)}"
        yield "    type: general_web"
        yield "    adapter: dify"
        yield f"    connection: {json.dumps(connection)}"
        yield f"    dataset_ids: [{dataset.dataset_id}]"
    for dataset in external:
        yield f"  # {_line(dataset.name)} ({dataset.dataset_id}): external knowledge, which Dify's API never searches"


def _line(text: str) -> str:
    return " ".join(clean(text).split())


def _count(documents: int | None) -> str:
    return "documents not counted" if documents is None else f"{documents} document{'s' * (documents != 1)}"


def _source_id(name: str, dataset_id: str, taken: set[str]) -> str:
    """Return an id made from a name; "dataset_" and the beginning of the dataset's id if the name is unusable or
    taken.
    """
    made = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:64]
    for candidate in (made, f"{made or 'dataset'}_{dataset_id[:8]}", f"dataset_{dataset_id}"):
        if candidate and candidate not in taken:
            taken.add(candidate)
            return candidate
    return dataset_id
