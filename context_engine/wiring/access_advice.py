"""Advice about access rules that are unwise or cannot work."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from context_engine.adapters.sources.dify.settings import shared_datasets
from context_engine.core.models import Classification, DomainSpec, Notice, NoticeCode
from context_engine.core.policy.access import OpenAccess
from context_engine.core.policy.access_review import holders_in_rules
from context_engine.core.protocols import AccessPolicy
from context_engine.settings.access_file import ACCESS_FILE, MANIFEST_POLICY
from context_engine.settings.principals import Principals
from context_engine.wiring.setup import Setup

_OF_DIFY: Final = "dify"


def access_notices(setup: Setup) -> tuple[Notice, ...]:
    """Return advice about the access rules; none of it stops a search."""
    domains, principals = tuple(setup.registry.domains.values()), setup.config.principals
    return (
        *(_without_rules(domains) if principals.policy == MANIFEST_POLICY else ()),
        *_shared(domains, setup.access),
        *_held_by_nobody(domains, principals),
        *_writable(setup.config.paths.config_file(ACCESS_FILE), principals.file),
        *_unbound(domains, setup.access),
    )


def _without_rules(domains: Iterable[DomainSpec]) -> Iterator[Notice]:
    for domain in domains:
        for source in domain.sources:
            above = source.classification.rank > Classification.INTERNAL.rank
            if above and source.access is None and domain.access is None:
                message = (
                    f"source {source.id!r} of domain {domain.domain} is {source.classification} and has no access "
                    "rule: give it, or the domain, access: {roles: [...]}"
                )
                detail = {"domain": domain.domain, "classification": str(source.classification)}
                yield Notice(NoticeCode.SOURCE_WITHOUT_RULE, source.id, message, detail)


def _shared(domains: Iterable[DomainSpec], policy: AccessPolicy) -> Iterator[Notice]:
    for dataset, sources in shared_datasets(domains, policy):
        message = (
            f"dataset {dataset} is in {' and '.join(sources)}, which different callers may search: a caller of one "
            "of them reads all of it; give them the same rule and classification, or split the dataset"
        )
        yield Notice(NoticeCode.DATASET_RULES_DIFFER, dataset, message, {"sources": list(sources)})


def _held_by_nobody(domains: Iterable[DomainSpec], principals: Principals) -> Iterator[Notice]:
    """Yield roles and groups in rules that no principal has; claims may still grant them."""
    named = holders_in_rules(domains)
    if named and not principals.in_force:
        message = (
            f"rules name roles or groups, but there is no config/{principals.file}: nobody has any, unless Python code "
            "passes a principal; start with the config/access.example.yaml that 'context-engine init' writes"
        )
        yield Notice(NoticeCode.HOLDER_UNKNOWN, principals.file, message, {"kind": "file", "name": principals.file})
        return
    if principals.takes_claims:
        return
    holders = {("role", name) for entry in principals.named.values() for name in entry.roles}
    holders |= {("group", name) for entry in principals.named.values() for name in entry.groups}
    for kind, name in named:
        if (kind, name) not in holders:
            message = f"a rule names {kind} {name!r}, which no principal of {principals.file} has"
            yield Notice(NoticeCode.HOLDER_UNKNOWN, f"{kind} {name}", message, {"kind": kind, "name": name})


def _writable(path: Path | None, file: str) -> Iterator[Notice]:
    if path is None or os.name != "posix":
        return
    for place, name in ((path, file), (path.parent, f"the folder of {file}")):
        mode = place.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            message = f"{name} can be changed by every user of this machine: run chmod o-w {place}"
            yield Notice(NoticeCode.ACCESS_FILE_WRITABLE, file, message)


def _unbound(domains: Iterable[DomainSpec], policy: AccessPolicy) -> Iterator[Notice]:
    """Yield the Dify connections whose key opens more than a caller may search; none without access rules."""
    of_dify = [source for domain in domains for source in domain.sources if source.adapter == _OF_DIFY]
    names = sorted({source.connection for source in of_dify if source.connection})
    if not names or isinstance(policy, OpenAccess):
        return
    message = (
        f"the dataset key of {' and '.join(map(repr, names))} acts as the owner of Dify's workspace for every "
        "caller: only the access rules decide who may read its datasets through this engine"
    )
    yield Notice(NoticeCode.DATASET_KEY_UNBOUND, "dify", message, {"connections": names})
