"""The domains that can be searched, their sources, and the health of each source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.dify.fair_queue import Ticket, ask_each
from context_engine.apps.dify.answer import DEMO_LABEL, ToolOutput, lines
from context_engine.apps.dify.dify_json import fitted, plain
from context_engine.apps.dify.plugin_settings import PluginAudit
from context_engine.core.engine import SystemClock
from context_engine.core.models import (
    AccessDecision,
    Caller,
    Classification,
    DomainSpec,
    Examination,
    Principal,
    SourceSpec,
)
from context_engine.core.policy.access import OpenAccess
from context_engine.errors import ConfigError, SourceError
from context_engine.service.deployment import Deployment
from context_engine.wiring.audit import audit_mode
from context_engine.wiring.build import source_opener
from context_engine.wiring.examine import examine_source

_WIDTH: Final = 8
_TIMEOUT_S: Final = 15.0
_PROBE: Final = "test"
_NO_DECISIONS: Final[Mapping[str, AccessDecision]] = MappingProxyType({})


class PartHealth(NamedTuple):
    """The health of one part of a source, such as a dataset; of the source itself if it has no parts.

    Attributes:
        dataset_id: None if the source has no parts.
        state: ok, empty, failed.
        problem: of a failed part, and how to fix it.
        name: the dataset's name in Dify, if known.
        documents: number of searchable documents, None if unknown.
    """

    domain: str
    source_id: str
    dataset_id: str | None
    state: str
    problem: str | None = None
    name: str | None = None
    documents: int | None = None


def refuse_unhealthy(deployment: Deployment) -> None:
    """Try every source once, regardless of access rules: the person who saves the credentials has access to all.

    Raises:
        ConfigError: lists the sources that cannot be searched, with the reason and the remedy.
    """
    setup = deployment.setup
    broken = [str(problem) for problem in setup.registry.problems]
    states = [] if broken else health(deployment, setup.registry.domains.values())
    failed = [state for state in states if state.state == "failed"]
    if not (broken or failed):
        return
    reasons = broken or [f"{place}: {problem}" for problem, place in _grouped(failed).items()]
    many = f"{len(failed)} of {len(states)} sources cannot be searched. " if failed else ""
    raise ConfigError(many + " | ".join(reasons))


def health(
    deployment: Deployment,
    domains: Iterable[DomainSpec],
    *,
    decisions: Mapping[str, AccessDecision] = _NO_DECISIONS,
    timeout_s: float = _TIMEOUT_S,
) -> list[PartHealth]:
    """Return the health of every source of the domains, in the order of the manifests.

    Args:
        decisions: by domain, what the reader of the report may search; none for a domain reported to the operator.
        timeout_s: seconds for all sources together.
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
        state
        for (domain, spec), result in zip(sources, results, strict=True)
        for state in (_failed(domain, spec, result.problem) if isinstance(result, SourceError) else result)
    ]


def _examined(
    deployment: Deployment,
    domain: DomainSpec,
    spec: SourceSpec,
    decision: AccessDecision | None,
    left: Callable[[], float],
    _ticket: Ticket,
) -> list[PartHealth]:
    """Examine a source with as few calls as possible; no model is loaded for it."""
    opener = source_opener(deployment.setup, data_dir=deployment.data_dir, embedder=lambda: None)
    seconds = max(left(), 0.0)
    query = domain.title or _PROBE
    access = decision.scope if decision is not None else None
    report = examine_source(
        opener, domain, spec, query=query, quick=True, timeout_s=seconds, most_s=seconds, access=access
    )
    examination = report.examination
    if examination is None or not examination.parts:
        if report.problem is not None:
            return _failed(domain, spec, report.problem)
        return [PartHealth(domain.domain, spec.id, None, "ok" if examination is None else examination.state)]
    return [_part(domain, spec, part, report.problem) for part in examination.parts]


def _part(domain: DomainSpec, spec: SourceSpec, part: Examination, problem: str | None) -> PartHealth:
    reason = "; ".join(filter(None, [part.problem, problem]))
    return PartHealth(
        domain=domain.domain,
        source_id=spec.id,
        dataset_id=part.id,
        state="failed" if reason else part.state,
        problem=reason or None,
        name=part.name or None,
        documents=part.documents,
    )


def _failed(domain: DomainSpec, spec: SourceSpec, problem: str) -> list[PartHealth]:
    """Report each dataset of the source as failed."""
    return [PartHealth(domain.domain, spec.id, dataset, "failed", problem) for dataset in spec.dataset_ids or (None,)]


def _grouped(failed: Sequence[PartHealth]) -> dict[str, str]:
    """Return {problem: places}, so that one wrong key is reported once."""
    places: dict[str, list[str]] = {}
    for state in failed:
        place = f"{state.domain}/{state.source_id}" + (f" (dataset {state.dataset_id})" if state.dataset_id else "")
        places.setdefault(state.problem or "", []).append(place)
    shown = {problem: where[:3] for problem, where in places.items()}
    return {
        problem: ", ".join(where) + (f" and {len(places[problem]) - 3} more" if len(places[problem]) > 3 else "")
        for problem, where in shown.items()
    }


_HEALTH_S: Final = 15.0
_UNITS: Final = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def catalogue(
    deployment: Deployment,
    principal: Principal,
    domain: str | None = None,
    *,
    check: bool = True,
    caller: Caller | None = None,
    audit: PluginAudit | None = None,
) -> ToolOutput:
    """Return the domains with their sources (tier, freshness limit, health), and the personas.

    Args:
        principal: the caller; sources that it may not search are omitted. The number of documents in a dataset is
            shown only to those who may read all of them.
        domain: only this domain; None for all.
        check: whether to probe every source; otherwise its health is "unchecked".
        audit: the audit mode to report; None for that of the settings.

    Raises:
        UnknownDomain: the domain is not registered.
    """
    view = deployment.views.of(principal)
    registry = view.registry
    if domain is not None:
        registry.domain(domain)
    names = [domain] if domain else list(registry.names)
    searchable = [registry.domain(name) for name in names if name not in registry.broken]
    states = health(deployment, searchable, decisions=view.decisions, timeout_s=_HEALTH_S) if check else []
    states = states if _reads_all(deployment, principal) else [state._replace(documents=None) for state in states]
    rows = [
        {"domain": name, "title": "", "description": "", "problem": _joined(registry.broken[name].each), "sources": []}
        if name in registry.broken
        else _domain(registry.domain(name), [state for state in states if state.domain == name])
        for name in names
    ]
    personas = [
        {"name": name, "description": persona.description}
        for name, persona in sorted(deployment.setup.config.personas.items())
    ]
    audit = audit or PluginAudit(audit_mode(deployment.setup))
    answer = {"demo": deployment.demo, "caller": asdict(caller or Caller()), "domains": rows, "personas": personas}
    answer["audit"] = audit.mode
    fit = fitted("domains", plain(answer))
    failed = any(state.state == "failed" for state in states)
    healthy = not (failed or any(row["problem"] for row in rows) or registry.unread)
    unread = [str(problem) for problem in registry.unread]
    text = fitted("text", plain(_text(rows, personas, unread, str(audit), demo=deployment.demo))).value
    warnings = [warning for warning in ([DEMO_LABEL] if deployment.demo else []) + unread + [fit.cut] if warning]
    return ToolOutput(
        text=text,
        json=fit.value or {},
        variables={
            "domains": (fit.value or {}).get("domains", []),
            "names": names,
            "names_text": ", ".join(names),
            "personas": (fit.value or {}).get("personas", []),
            "personas_text": ", ".join(persona["name"] for persona in personas),
            "healthy": healthy,
            "healthy_text": "yes" if healthy else "no",
            "warnings": warnings,
            "warnings_text": lines("warnings_text", warnings),
        },
    )


def _reads_all(deployment: Deployment, principal: Principal) -> bool:
    """Return whether the principal may read every classification, so that no document can be hidden from it."""
    highest = max(Classification, key=lambda level: level.rank)
    return isinstance(deployment.setup.access, OpenAccess) or principal.clearance is highest


def _joined(problems: Sequence[ConfigError]) -> str:
    return "; ".join(map(str, problems))


def _domain(spec: DomainSpec, states: Sequence[PartHealth]) -> dict[str, Any]:
    return {
        "domain": spec.domain,
        "title": spec.title,
        "description": spec.description,
        "problem": None,
        "sources": [
            _source(source, [state for state in states if state.source_id == source.id]) for source in spec.sources
        ],
    }


def _source(spec: SourceSpec, states: Sequence[PartHealth]) -> dict[str, Any]:
    problems = [state.problem for state in states if state.problem]
    return {
        "source_id": spec.id,
        "namespace": spec.in_namespace,
        "title": spec.title,
        "source_type": str(spec.type),
        "authority_tier": spec.tier,
        "trust_class": str(spec.trust),
        "classification": str(spec.classification),
        "adapter": spec.adapter,
        "freshness": {"ttl_seconds": spec.ttl_seconds, "fresh_for": _duration(spec.ttl_seconds)},
        "health": {"state": _state(states), "problem": "; ".join(dict.fromkeys(problems)) or None},
        "datasets": [
            {"dataset_id": state.dataset_id, "name": state.name, "documents": state.documents, "state": state.state}
            for state in states
            if state.dataset_id is not None
        ],
    }


def _state(parts: Sequence[PartHealth]) -> str:
    """Return ok, partial (some datasets failed), failed, empty or unchecked."""
    states = {part.state for part in parts}
    if not states:
        return "unchecked"
    if "failed" in states:
        return "failed" if states == {"failed"} else "partial"
    return "empty" if states == {"empty"} else "ok"


def _duration(seconds: int) -> str:
    """Return a duration in the largest unit that divides it.

    >>> _duration(2592000), _duration(90), _duration(0)
    ('30 days', '90 seconds', 'no time')
    """
    for length, unit in _UNITS:
        if seconds and seconds % length == 0:
            count = seconds // length
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    return "no time"


def _text(
    rows: Sequence[Mapping[str, Any]],
    personas: Sequence[Mapping[str, str]],
    unread: Sequence[str],
    audit: str,
    *,
    demo: bool,
) -> str:
    lines = [DEMO_LABEL, ""] if demo else []
    lines += [f"Cannot be read: {problem}" for problem in unread]
    for row in rows:
        lines.append(f"## {row['domain']}" + (f" – {row['title']}" if row["title"] else ""))
        if row["problem"]:
            lines += [f"Cannot be searched: {row['problem']}", ""]
            continue
        lines += ["", "| source | tier | type | fresh for | health |", "|---|---|---|---|---|"]
        lines += [_line(source) for source in row["sources"]]
        lines.append("")
    if not rows:
        return "No domain is configured."
    if personas:
        lines.append("Personas, for the field Persona of a search:")
        lines += [
            f"- {persona['name']}" + (f": {persona['description']}" if persona["description"] else "")
            for persona in personas
        ]
        lines.append("")
    lines.append(audit)
    return "\n".join(lines).strip()


def _line(source: Mapping[str, Any]) -> str:
    problem = source["health"]["problem"]
    cells = (
        source["title"] or source["source_id"],
        source["authority_tier"],
        source["source_type"],
        source["freshness"]["fresh_for"],
        source["health"]["state"] + (f": {problem}" if problem else ""),
    )
    return "| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |"
