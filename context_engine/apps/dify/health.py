"""Whether each source can be searched now: one cheap call for each dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from context_engine.adapters.sources.dify.dataset import DatasetInfo
from context_engine.adapters.sources.dify.fanout import Ticket, ask_each
from context_engine.adapters.sources.dify.settings import check_dify
from context_engine.adapters.sources.dify.source import EXTERNAL
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.apps.dify.engines import OpenEngine
from context_engine.core.engine import SystemClock
from context_engine.core.models import DomainSpec, SearchRequest, SourceSpec
from context_engine.errors import AllSourcesFailed, ConfigError, ContextEngineError, SourceError
from context_engine.wiring import Setup

__all__ = ["Health", "health", "refuse_unhealthy"]

_WIDTH: Final = 8
_TIMEOUT_S: Final = 15.0
_PROBE: Final = "test"


class Health(NamedTuple):
    """How one dataset, or one source without datasets, is.

    Attributes:
        dataset_id: None where the source has none.
        state: ok, empty (there is nothing in it), failed.
        problem: what is wrong and how to mend it, where it failed.
        name: the dataset's name in Dify, where Dify says it.
        documents: how many can be found, None where not known.
    """

    domain: str
    source_id: str
    dataset_id: str | None
    state: str
    problem: str | None = None
    name: str | None = None
    documents: int | None = None


def refuse_unhealthy(opened: OpenEngine) -> None:
    """Try everything once.

    Raises:
        ConfigError: something cannot be searched; lists what, with the reason and how to mend it.
    """
    setup = opened.plugin.setup
    broken = [f"domain {name}: {problem}" for name, problem in sorted(setup.registry.broken.items())]
    found = [] if broken else health(opened)
    failed = [one for one in found if one.state == "failed"]
    if not (broken or failed):
        return
    reasons = broken or [f"{place}: {problem}" for problem, place in _grouped(failed).items()]
    many = f"{len(failed)} of {len(found)} sources cannot be searched. " if failed else ""
    raise ConfigError(many + " | ".join(reasons))


def health(opened: OpenEngine, domains: Iterable[str] | None = None, *, timeout_s: float = _TIMEOUT_S) -> list[Health]:
    """Return the health of every source of the domains, all of them if None, in the order of the manifests.

    Args:
        timeout_s: seconds for all of it.
    """
    setup = opened.plugin.setup
    clock = SystemClock()
    due = clock.monotonic() + timeout_s
    jobs: list[tuple[Health, Callable[[Ticket], Health]]] = []
    for name in domains if domains is not None else setup.registry.names:
        if name in setup.registry.broken:
            continue
        domain = setup.registry.domain(name)
        for source in domain.sources:
            jobs += _jobs(opened, domain, source)
    results = ask_each([job for _, job in jobs], width=_WIDTH, left=lambda: due - clock.monotonic())
    return [
        _failed(blank, result) if isinstance(result, SourceError) else result
        for (blank, _), result in zip(jobs, results, strict=True)
    ]


def _jobs(
    opened: OpenEngine, domain: DomainSpec, source: SourceSpec
) -> Sequence[tuple[Health, Callable[[Ticket], Health]]]:
    if source.adapter != "dify":
        blank = Health(domain.domain, source.id, None, "failed")
        return [(blank, partial(_searched, opened, domain, source, blank))]
    blanks = [Health(domain.domain, source.id, dataset, "failed") for dataset in source.dataset_ids or ("",)]
    return [(blank, partial(_described, opened.plugin.setup, source, blank)) for blank in blanks]


def _searched(opened: OpenEngine, domain: DomainSpec, source: SourceSpec, blank: Health, _ticket: Ticket) -> Health:
    """Search the source for anything at all."""
    request = SearchRequest(
        query=domain.title or _PROBE,
        domain=domain.domain,
        overrides={"sources": (source.id,), "stage1_top_k": 1, "stage2_top_k": 1},
    )
    try:
        opened.engine.search(request)
    except AllSourcesFailed as error:
        failed = error.statuses[0].error if error.statuses else None
        return blank._replace(problem=str(failed["message"]) if failed else str(error))
    except ContextEngineError as error:
        return _failed(blank, error)
    return blank._replace(state="ok")


def _described(setup: Setup, source: SourceSpec, blank: Health, ticket: Ticket) -> Health:
    """Ask Dify what it says of the dataset."""
    workspace: Workspace | None = None
    try:
        settings = check_dify(source)
        connect = partial(setup.config.connections.get, source.connection or "")
        workspace = Workspace(connect, SystemClock())
        info, refused = workspace.info(
            blank.dataset_id or "", workspace.access(), ticket, ttl_s=1.0, attempts=1, needed=True
        )
    except (ConfigError, SourceError) as error:
        return _failed(blank, error)
    finally:
        if workspace is not None:
            workspace.close()
    if info is None:
        return _failed(blank, refused or SourceError("Dify gave no answer"))
    return _judged(blank, info, settings.indexing_technique is not None)


def _judged(blank: Health, info: DatasetInfo, technique_declared: bool) -> Health:
    known = blank._replace(name=info.name or None, documents=info.documents)
    if info.external:
        return known._replace(problem=EXTERNAL)
    if not info.api_enabled:
        return known._replace(problem="API access is switched off: switch it on in the dataset's settings")
    if info.documents == 0 or (info.technique is None and not technique_declared):
        return known._replace(state="empty")
    return known._replace(state="ok")


def _failed(blank: Health, error: ContextEngineError) -> Health:
    problem = error.problem if isinstance(error, SourceError) else str(error)
    return blank._replace(state="failed", problem=problem)


def _grouped(failed: Sequence[Health]) -> dict[str, str]:
    """Return {problem: the places that have it}, so that one wrong key is named once."""
    places: dict[str, list[str]] = {}
    for one in failed:
        place = f"{one.domain}/{one.source_id}" + (f" (dataset {one.dataset_id})" if one.dataset_id else "")
        places.setdefault(one.problem or "", []).append(place)
    shown = {problem: where[:3] for problem, where in places.items()}
    return {
        problem: ", ".join(where) + (f" and {len(places[problem]) - 3} more" if len(places[problem]) > 3 else "")
        for problem, where in shown.items()
    }
