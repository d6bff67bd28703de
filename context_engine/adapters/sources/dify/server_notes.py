"""What `doctor` says of a Dify server: once for each connection, however many sources it serves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from context_engine.adapters.sources.dify.source import DifySource

__all__ = ["DifyServer", "server_notes", "server_of"]


class DifyServer(NamedTuple):
    """The server of one source, as the examination met it.

    Attributes:
        connection: its name.
        version: what it states; None where it states none.
        max_connections: calls to it at once.
        timeout_s: seconds that a search may take.
        seconds: what it took for each dataset of the source; empty where it was not reached.
    """

    connection: str
    version: str | None
    max_connections: int
    timeout_s: float
    seconds: tuple[float, ...]


def server_of(source: DifySource, timeout_s: float, *, reached: bool) -> DifyServer:
    """Return the server of a source.

    Raises:
        ConfigError: its connection cannot be used.
    """
    access = source.workspace.access()
    seconds = tuple(source.workspace.expected_s(access, one) for one in source.dataset_ids) if reached else ()
    name = source.spec.connection or "dify"
    return DifyServer(name, source.workspace.version, access.connection.max_connections, timeout_s, seconds)


def server_notes(found: Iterable[tuple[str, DifyServer]]) -> Iterator[str]:
    """Yield what should be known of each server: its version and what fails there, and how many connections it wants.

    The advice is for the domain whose searches ask it the most.

    Args:
        found: (domain, server) of each source that was reached.
    """
    from context_engine.adapters.sources.dify.advice import connections_advice
    from context_engine.adapters.sources.dify.versions import shortcomings

    by_name: dict[str, dict[str, list[DifyServer]]] = {}
    for domain, server in found:
        if server.seconds:
            by_name.setdefault(server.connection, {}).setdefault(domain, []).append(server)
    for name, domains in by_name.items():
        first = next(iter(domains.values()))[0]
        yield f"connection {name}: Dify {first.version}" if first.version else f"connection {name}"
        yield from (f"connection {name}: {one}" for one in shortcomings(first.version))
        times = {domain: [one for server in servers for one in server.seconds] for domain, servers in domains.items()}
        domain = max(times, key=lambda one: sum(times[one]))
        if any(times[domain]):
            advice = connections_advice(times[domain], first.max_connections, first.timeout_s)
            yield from (f"connection {name}, domain {domain}: {one}" for one in advice)
