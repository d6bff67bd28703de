"""`context-engine domains import`: the datasets of a Dify workspace as a draft manifest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from context_engine.apps.cli.console import clean, note, write_text
from context_engine.apps.cli.context import ConfigLocation, with_location
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.adapters.sources.dify.dataset import DatasetInfo


EPILOG: Final = """\b
Examples:
  context-engine domains import --connection dify
  context-engine domains import --connection dify --domain NPA --output manifests/npa.yaml
"""


@click.command("import", epilog=EPILOG)
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
    from functools import partial

    from context_engine.adapters.sources.dify.listing import list_datasets
    from context_engine.adapters.sources.dify.workspace import Workspace
    from context_engine.core.engine import SystemClock
    from context_engine.wiring import load_setup

    setup = load_setup(config_dir=location.config_dir, stage=location.stage)
    clock = SystemClock()
    workspace = Workspace(partial(setup.config.connections.get, connection), clock)
    try:
        return list_datasets(workspace, clock)
    finally:
        workspace.close()


def manifest(datasets: Iterable[DatasetInfo], connection: str, domain: str) -> Iterator[str]:
    """Yield the lines of a draft manifest; a dataset that cannot be searched stands in it as a comment."""
    named = sorted(datasets, key=lambda one: (one.name.casefold(), one.dataset_id))
    searchable = [one for one in named if not one.external]
    external = [one for one in named if one.external]
    yield "# A draft. Every source is general web, tier 5 and untrusted, until you say what it is:"
    yield "# system_of_record (1), bank_sop (2), industry_standard (3), external_official (4), general_web (5)."
    yield "version: 1"
    yield f"domain: {domain}"
    yield "sources:" if searchable else "sources: []   # at least one is needed"
    taken: set[str] = set()
    for one in searchable:
        yield f"  # {_line(one.name)} ({one.technique or 'not indexed yet'}, {_count(one.documents)})"
        yield f"  - id: {_source_id(one.name, one.dataset_id, taken)}"
        yield f"    title: {json.dumps(_line(one.name), ensure_ascii=False)}"
        yield "    type: general_web"
        yield "    adapter: dify"
        yield f"    connection: {json.dumps(connection)}"
        yield f"    dataset_ids: [{one.dataset_id}]"
    for one in external:
        yield f"  # {_line(one.name)} ({one.dataset_id}): external knowledge, which Dify's API never searches"


def _line(text: str) -> str:
    return " ".join(clean(text).split())


def _count(documents: int | None) -> str:
    return "documents not counted" if documents is None else f"{documents} document{'s' * (documents != 1)}"


def _source_id(name: str, dataset_id: str, taken: set[str]) -> str:
    """Return an id made of a name, "dataset_" and the beginning of its own id where that says nothing or is taken."""
    made = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:64]
    for candidate in (made, f"{made or 'dataset'}_{dataset_id[:8]}", f"dataset_{dataset_id}"):
        if candidate and candidate not in taken:
            taken.add(candidate)
            return candidate
    return dataset_id
