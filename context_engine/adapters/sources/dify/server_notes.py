"""What an operator should know of the Dify servers behind several sources: once for each connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from context_engine.adapters.sources.dify.advice import connections_advice
from context_engine.adapters.sources.dify.examine import DifyExamination, ServerFacts
from context_engine.adapters.sources.dify.versions import shortcomings
from context_engine.core.models import Examination

STORES_QUERIES: Final = "Dify stores the text of every query it is asked, in its own database (dataset_queries)."


def server_notes(examined: Sequence[tuple[str, Examination]]) -> Iterator[str]:
    """Yield what should be known of each server: its version and what fails there, and how many connections it wants.

    The advice is for the domain whose searches ask it the most.

    Args:
        examined: (domain, what was found out) of each source.
    """
    yield STORES_QUERIES
    by_name: dict[str, dict[str, list[ServerFacts]]] = {}
    for domain, found in examined:
        if isinstance(found, DifyExamination) and found.server.seconds:
            by_name.setdefault(found.server.connection, {}).setdefault(domain, []).append(found.server)
    for name, domains in by_name.items():
        first = next(iter(domains.values()))[0]
        yield f"connection {name}: Dify {first.version}" if first.version else f"connection {name}"
        yield from (f"connection {name}: {one}" for one in shortcomings(first.version))
        times = {domain: [one for server in servers for one in server.seconds] for domain, servers in domains.items()}
        domain = max(times, key=lambda one: sum(times[one]))
        if any(times[domain]):
            advice = connections_advice(times[domain], first.max_connections, first.search_timeout_s)
            yield from (f"connection {name}, domain {domain}: {one}" for one in advice)
