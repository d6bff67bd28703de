"""Whether each source can be searched now, found out with as few calls as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from context_engine.adapters.sources.dify.fanout import Ticket, ask_each
from context_engine.core.engine import SystemClock
from context_engine.core.models import AccessDecision, DomainSpec, Examination, SourceSpec
from context_engine.errors import ConfigError, SourceError
from context_engine.service.deployment import Deployment
from context_engine.wiring import examine_source, source_opener

_WIDTH: Final = 8
_TIMEOUT_S: Final = 15.0
_PROBE: Final = "test"
_NO_DECISIONS: Final[Mapping[str, AccessDecision]] = MappingProxyType({})


class Health(NamedTuple):
    """How one part of a source, such as a dataset, is; or the source, where it has no parts.

    Attributes:
        dataset_id: None where the source has no parts.
        state: ok, empty (there is nothing in it), failed.
        problem: what is wrong and how to fix it, where it failed.
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


def refuse_unhealthy(deployment: Deployment) -> None:
    """Try everything once, whoever may search it: whoever saves the credentials holds the key to all of it.

    Raises:
        ConfigError: something cannot be searched; lists what, with the reason and how to fix it.
    """
    setup = deployment.setup
    broken = [str(problem) for problem in setup.registry.problems]
    found = [] if broken else health(deployment, setup.registry.domains.values())
    failed = [one for one in found if one.state == "failed"]
    if not (broken or failed):
        return
    reasons = broken or [f"{place}: {problem}" for problem, place in _grouped(failed).items()]
    many = f"{len(failed)} of {len(found)} sources cannot be searched. " if failed else ""
    raise ConfigError(many + " | ".join(reasons))


def health(
    deployment: Deployment,
    domains: Iterable[DomainSpec],
    *,
    decisions: Mapping[str, AccessDecision] = _NO_DECISIONS,
    timeout_s: float = _TIMEOUT_S,
) -> list[Health]:
    """Return the health of every source of the domains, in the order of the manifests.

    Args:
        decisions: what those may search who are told of it, by domain; a domain without one is told of to the operator.
        timeout_s: seconds for all of it.
    """
    clock = SystemClock()
    due = clock.monotonic() + timeout_s

    def left() -> float:
        return due - clock.monotonic()

    sources = [(domain, spec) for domain in domains for spec in domain.sources]
    jobs = [
        partial(_examined, deployment, domain, spec, decisions.get(domain.domain), left) for domain, spec in sources
    ]
    results = ask_each(jobs, width=_WIDTH, left=left)
    return [
        one
        for (domain, spec), result in zip(sources, results, strict=True)
        for one in (_failed(domain, spec, result.problem) if isinstance(result, SourceError) else result)
    ]


def _examined(
    deployment: Deployment,
    domain: DomainSpec,
    spec: SourceSpec,
    decision: AccessDecision | None,
    left: Callable[[], float],
    _ticket: Ticket,
) -> list[Health]:
    """Examine a source with as few calls as possible; no model is loaded for it."""
    opener = source_opener(deployment.setup, data_dir=deployment.data_dir, embedder=lambda: None)
    seconds = max(left(), 0.0)
    query = domain.title or _PROBE
    access = decision.scope if decision is not None else None
    report = examine_source(
        opener, domain, spec, query=query, quick=True, timeout_s=seconds, most_s=seconds, access=access
    )
    found = report.examination
    if found is None or not found.parts:
        if report.problem is not None:
            return _failed(domain, spec, report.problem)
        return [Health(domain.domain, spec.id, None, "ok" if found is None else found.state)]
    return [_part(domain, spec, part, report.problem) for part in found.parts]


def _part(domain: DomainSpec, spec: SourceSpec, part: Examination, problem: str | None) -> Health:
    reason = "; ".join(filter(None, [part.problem, problem]))
    return Health(
        domain=domain.domain,
        source_id=spec.id,
        dataset_id=part.id,
        state="failed" if reason else part.state,
        problem=reason or None,
        name=part.name or None,
        documents=part.documents,
    )


def _failed(domain: DomainSpec, spec: SourceSpec, problem: str) -> list[Health]:
    """Return what failed as a whole: each of its datasets has failed."""
    return [Health(domain.domain, spec.id, dataset, "failed", problem) for dataset in spec.dataset_ids or (None,)]


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
