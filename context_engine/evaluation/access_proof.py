"""Non-interference of an operator's own store: a certificate for each principal, made on a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from context_engine.core.models import NOTHING, Principal
from context_engine.core.policy.access import ManifestPolicy, OpenAccess
from context_engine.core.protocols import AccessProvable
from context_engine.errors import ConfigError
from context_engine.evaluation.access_trial import INSIDER_ROLE, Outputs, StoreTrial
from context_engine.testing.noninterference import (
    NO_SUCH_DOMAINS,
    NO_SUCH_SOURCES,
    AccessCertificate,
    HiddenPlace,
    HiddenTexts,
    certify,
    hidden_changes,
    hidden_places,
    insider_of,
    made_requests,
)
from context_engine.wiring.build import source_opener
from context_engine.wiring.embedded_base import EMBEDDED
from context_engine.wiring.examine import opened_store
from context_engine.wiring.setup import Setup

_MOST_NEW: Final = 12
Told = Callable[[Principal, int], None]


def prove_access(
    setup: Setup,
    data_dir: Path,
    principals: Sequence[Principal],
    *,
    changes: int = 1000,
    questions: int = 200,
    seed: int = 0,
    outputs: Outputs = NOTHING,
    adapter: str = EMBEDDED,
    told: Told = lambda _principal, _changes: None,
) -> Iterator[AccessCertificate]:
    """Yield a certificate for each principal: the answers it gets, while what it may not read changes.

    Made on a copy of a store (`AccessProvable`) in a temporary folder; the store itself is only read. Sources of other
    adapters take no part.

    Args:
        changes: of documents that the principal may not read, >= 1; new sources among them.
        questions: made of the store's own texts, at least as many as there are texts to make them of.
        seed: equal seeds give equal trials.
        outputs: what a caller gets beside the result, the raw answers and the context.
        adapter: the adapter of the store's sources.
        told: called with the principal and the number of changes done.

    Raises:
        ConfigError: there is no access control, no source of the adapter, or its store cannot be proved.
        StoreError: there is no store, or it cannot be read.
    """
    if isinstance(setup.access, OpenAccess):
        raise ConfigError("there is nothing to prove: no manifest has an access rule, everybody may search everything")
    setup = of_adapter(setup, adapter)
    first = next((domain for _, domain in sorted(setup.registry.domains.items())), None)
    if first is None:
        raise ConfigError(f"there is nothing to prove: no source has the adapter {adapter!r}")
    opener = source_opener(setup, data_dir=data_dir, embedder=lambda: None)
    for principal in principals:
        with TemporaryDirectory(prefix="context-engine-proof-") as folder:
            copy = Path(folder)
            with opened_store(opener, first, first.sources[0], AccessProvable) as store:
                store.copy_to(copy)
            trial = StoreTrial(setup, adapter, copy, outputs)
            try:
                yield _certificate(trial, principal, changes, questions, seed, told)
            finally:
                trial.close()


def _certificate(
    trial: StoreTrial, principal: Principal, changes: int, questions: int, seed: int, told: Told
) -> AccessCertificate:
    draw, setup = Random(seed), trial.setup
    domains = [domain for _, domain in sorted(setup.registry.domains.items())]
    known = setup.visible(principal).domains
    seen = {source.id for domain in known.values() for source in domain.sources}
    held = trial.held(principal)
    requests = made_requests(
        draw,
        questions,
        domains=sorted(known),
        others=[domain.domain for domain in domains if domain.domain not in known],
        sources=[source.id for domain in domains for source in domain.sources if source.id not in seen],
        readable=held.readable,
        hidden=held.hidden,
    )
    by_manifest = isinstance(setup.access, ManifestPolicy)
    made = hidden_changes(
        list(hidden_places(domains, setup.access, principal)),
        HiddenTexts(draw, held.readable, requests),
        draw,
        existing=held.documents,
        new_places=_new_places([domain.domain for domain in domains], draw) if by_manifest else (),
        new_rules=by_manifest,
    )
    return certify(
        trial,
        principal,
        requests,
        islice(made, changes),
        draw=draw,
        insider=insider_of(domains, INSIDER_ROLE),
        progress=lambda done: told(principal, done),
    )


def _new_places(domains: Sequence[str], draw: Random) -> Iterator[HiddenPlace]:
    """Yield sources that are not there yet: those that requests name, in domains of today, and in new ones."""
    for number in range(_MOST_NEW):
        source = NO_SUCH_SOURCES[number // 2] if number // 2 < len(NO_SUCH_SOURCES) else f"proof_source_{number}"
        if number % 2:
            domain = NO_SUCH_DOMAINS[number // 2] if number // 2 < len(NO_SUCH_DOMAINS) else f"PROOF-{number}"
            yield HiddenPlace(domain, f"{source}_of_{number}")
        else:
            yield HiddenPlace(draw.choice(domains), source)


def of_adapter(setup: Setup, adapter: str) -> Setup:
    """Return the configuration with only the sources of one adapter."""
    domains = {}
    for name, domain in setup.registry.domains.items():
        sources = tuple(spec for spec in domain.sources if spec.adapter == adapter)
        if sources:
            domains[name] = domain.model_copy(update={"sources": sources})
    return replace(setup, registry=setup.registry.only(domains))
