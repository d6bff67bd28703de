"""`kb copy`: the documents of a store, with their vectors, to a store of another adapter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.app import FAILURE
from context_engine.apps.cli.console import note, outcome, print_line, print_table, publish
from context_engine.apps.cli.context import ConfigLocation, open_context, with_location
from context_engine.apps.cli.options import with_json
from context_engine.apps.cli.progress import progress_bar
from context_engine.core.text import counted
from context_engine.errors import ConfigError, InvalidRequest

if TYPE_CHECKING:
    from context_engine.adapters.sources.stores.copying import SourceCopy
    from context_engine.wiring.copying import DomainCopy

_MOST_NAMED: Final = 10
EPILOG: Final = """\b
Examples:
  context-engine kb copy --from local --to postgres --connection knowledge-db --dry-run
  context-engine kb copy --from local --to postgres --connection knowledge-db
  context-engine kb copy --from postgres --to local --domain DESK

\b
Exit code: 0 every document is the same in both stores, 1 some are not, 2 usage or configuration.
"""


@click.command(epilog=EPILOG)
@click.option("--from", "origin", metavar="ADAPTER", required=True, help="Copy from the store of this adapter.")
@click.option("--to", "target", metavar="ADAPTER", required=True, help="Copy to the store of this adapter.")
@click.option("--domain", "-d", metavar="NAME", help="Only the sources of this domain [default: of every domain].")
@click.option(
    "--source", "source_id", metavar="ID", help="Only this source; calibrations and learnt adapters are left out."
)
@click.option("--connection", metavar="NAME", help="The connection of the adapter that the manifest does not name.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of that adapter.")
@click.option("--delete", is_flag=True, help="Delete documents of these sources that only the target has.")
@click.option("--dry-run", is_flag=True, help="Report what would be copied; write nothing.")
@with_json
@with_location
def copy(location: ConfigLocation, domain: str | None, as_json: bool, settings: Sequence[str], **options: Any) -> int:
    """Copy the documents of a store to a store of another adapter, with their vectors: nothing is embedded again.

    The domain's calibrations and learnt adapters go along.

    The sources are those whose manifest names either adapter; the manifest stays as it is. Documents that the
    target already has with the same hash are skipped, so run an interrupted command again. At the end every document is
    read from both stores and compared, chunk by chunk and vector by vector.
    """
    from context_engine.wiring.copying import CopyOrder, copy_domain

    order = CopyOrder(**options, settings=dict(map(_setting, settings)))
    context = open_context(location, build_demo=False, operator=True)
    if context.demo:
        raise ConfigError("there is no domain of your own to copy. Write one with 'context-engine init DIR'.")
    registry = context.setup.registry
    names = [domain] if domain is not None else registry.names
    copied = []
    for spec in map(registry.domain, names):
        adapters = {source.adapter for source in spec.sources}
        if domain is None and adapters.isdisjoint((order.origin, order.target)):
            continue
        with progress_bar(f"Copying {spec.domain} …") as progress:
            copied.append(copy_domain(context.setup, spec, order, data_dir=context.data_dir, progress=progress))
    if not any(source.documents for result in copied for source in result.sources):
        raise InvalidRequest(f"the store of adapter {order.origin!r} has no document of any source: nothing was copied")
    if as_json:
        named = {"from": order.origin, "to": order.target, "dry_run": order.dry_run}
        publish({**named, "domains": [result.to_dict() for result in copied]})
    else:
        for result in copied:
            _print_copy(result, order.target, dry_run=order.dry_run)
    return 0 if all(result.same for result in copied) else FAILURE


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set takes KEY=VALUE, got {text!r}")
    return key, value


def _print_copy(result: DomainCopy, target: str, *, dry_run: bool) -> None:
    columns = ("source", ">documents", ">to write" if dry_run else ">written", ">mended", ">deleted", ">kept")
    print_table(
        columns,
        [
            (source.source_id, source.documents, source.written, source.mended, source.deleted, len(source.kept))
            for source in result.sources
        ],
    )
    for line in _lines(result, target):
        note(line)
    for source in result.sources:
        for document_id, version, what in source.differences:
            print_line(f"{source.source_id}: document {_name(document_id, version)} is not the same: {what}", "red")
    if not dry_run and result.same:
        documents = counted(sum(source.documents for source in result.sources), "document")
        chunks, vectors = (sum(getattr(source, name) for source in result.sources) for name in ("chunks", "vectors"))
        numbers = f"{counted(chunks, 'chunk')}, {counted(vectors, 'vector')}"
        outcome("copied", f"{result.domain}: {documents} are the same in both stores ({numbers})")


def _lines(result: DomainCopy, target: str) -> Iterator[str]:
    """Yield what an operator should know or do."""
    for source in result.sources:
        if source.kept:
            yield f"{source.source_id}: only the target has {_named(source)}; --delete deletes them"
    if result.vectors_refused:
        yield f"the store of adapter {target!r} can hold no vectors: they were left out"
    if result.adapters_left:
        yield f"learnt adapters of {result.domain} stay behind: {', '.join(result.adapters_left)}"
    if result.adapters_kept:
        yield f"{counted(len(result.adapters_kept), 'learnt adapter')} of {result.domain} kept"
    if result.calibrations:
        yield f"{counted(result.calibrations, 'calibration')} of {result.domain} kept"
    if result.manifest:
        keys = "; ".join(f"{key}: {value}" for key, value in next(iter(result.manifest.values())).items())
        yield f"to search the copy, give {', '.join(result.manifest)} in the manifest of {result.domain}: {keys}"


def _named(source: SourceCopy) -> str:
    names = [_name(*key) for key in source.kept[:_MOST_NAMED]]
    more = len(source.kept) - len(names)
    return ", ".join([*names, *([f"{more} more"] if more else [])])


def _name(document_id: str, version: str) -> str:
    return f"{document_id} {version}".strip()
