"""Prove that a store's answers do not depend on unreadable documents: a certificate for each principal, on a copy."""

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
from context_engine.wiring.draft import copied_store
from context_engine.wiring.embedded_base import EMBEDDED
from context_engine.wiring.setup import Setup

_MOST_NEW: Final = 12
ProofProgress = Callable[[Principal, int], None]


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
    progress: ProofProgress = lambda _principal, _changes: None,
) -> Iterator[AccessCertificate]:
    """Yield a certificate for each principal: its answers while documents that it may not read change.

    Works on a copy of the store (`AccessProvable`) in a temporary folder; the store itself is only read. Sources of
    other adapters are ignored.

    Args:
        changes: number of changes, >= 1, of documents that the principal may not read; new sources are among them.
        questions: number of questions, made of the store's texts; fewer if the texts do not suffice.
        seed: equal seeds give equal trials.
        outputs: further outputs to compare besides the result, the raw answers and the context.
        progress: receives the principal and the number of changes done.

    Raises:
        ConfigError: no access rule, no source of the adapter, or a store that is not `AccessProvable`.
        StoreError: the store does not exist or cannot be read.
    """
    if isinstance(setup.access, OpenAccess):
        raise ConfigError("nothing to prove: no manifest has an access rule, so everybody may search everything")
    setup = of_adapter(setup, adapter)
    first = next((domain for _, domain in sorted(setup.registry.domains.items())), None)
    if first is None:
        raise ConfigError(f"nothing to prove: no source has the adapter {adapter!r}; --adapter names another")
    opener = source_opener(setup, data_dir=data_dir, embedder=lambda: None)
    for principal in principals:
        with TemporaryDirectory(prefix="context-engine-proof-") as folder:
            copy = Path(folder)
            with copied_store(opener, first, first.sources[0], copy):
                trial = StoreTrial(setup, adapter, copy, outputs)
                try:
                    yield _certificate(trial, principal, changes, questions, seed, progress)
                finally:
                    trial.close()


def _certificate(
    trial: StoreTrial, principal: Principal, changes: int, questions: int, seed: int, progress: ProofProgress
) -> AccessCertificate:
    draw, setup = Random(seed), trial.setup
    domains = [domain for _, domain in sorted(setup.registry.domains.items())]
    known = setup.visible(principal).domains
    seen = {source.id for domain in known.values() for source in domain.sources}
    texts = trial.held(principal)
    requests = made_requests(
        draw,
        questions,
        domains=sorted(known),
        others=[domain.domain for domain in domains if domain.domain not in known],
        sources=[source.id for domain in domains for source in domain.sources if source.id not in seen],
        readable=texts.readable,
        hidden=texts.hidden,
    )
    by_manifest = isinstance(setup.access, ManifestPolicy)
    made = hidden_changes(
        list(hidden_places(domains, setup.access, principal)),
        HiddenTexts(draw, texts.readable, requests),
        draw,
        existing=texts.documents,
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
        progress=lambda done: progress(principal, done),
    )


def _new_places(domains: Sequence[str], draw: Random) -> Iterator[HiddenPlace]:
    """Yield places in sources that do not exist yet, in existing and in new domains; requests name some of them."""
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
