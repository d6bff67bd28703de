"""The models and the learnt adapters of a deployment: each model tried once, and learnt blends that are not used."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_engine.core.concurrency.awaiting import awaited
from context_engine.core.concurrency.calls import Busy, DeadlineExceeded, call_within
from context_engine.core.models import ChatMessage, Chunk, StoredAdapter, scorer_name
from context_engine.core.protocols import ChatModel, Reranker, Trainable
from context_engine.errors import ContextEngineError, StoreError
from context_engine.wiring.build import source_opener
from context_engine.wiring.embedded_base import EMBEDDED, base_as_it_is, base_path
from context_engine.wiring.examine import opened_store, taught_source
from context_engine.wiring.models import Models
from context_engine.wiring.setup import Setup

logger = logging.getLogger(__name__)
MODEL_S: Final = 120.0  # large models load slowly
_WORD: Final = "approval"
_PASSAGES: Final = ("The committee approves a new product.", "Lunch is at noon.")


class ModelReport(NamedTuple):
    """The test of one model; `problem` is None if it works."""

    kind: str
    name: str
    problem: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the model works."""
        return self.problem is None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {**self._asdict(), "ok": self.ok}


def model_reports(setup: Setup, models: Models) -> Iterator[ModelReport]:
    """Test the embedder, the chat model and the rerankers that the settings name."""
    values = setup.resolver.base().values
    if values.embedder is not None:
        yield ModelReport("embedder", values.embedder, _tried(lambda: _embeds(models)))
    if values.chat_model is not None:
        yield ModelReport("chat model", values.chat_model, _tried(lambda: _answers(models.chat_model())))
    if not values.reranking_enabled:
        return
    if values.reranker != "noop":
        yield ModelReport("reranker", values.reranker, _tried(lambda: _reranks(models.reranker())))
    for name in values.rerankers:
        yield ModelReport("reranker", name, _tried(partial(_reranks_named, models, name)))


def _embeds(models: Models) -> str | None:
    embedder = models.embedder()
    if embedder is None:
        return None
    length = len(embedder.embed_query(_WORD))
    return None if length == embedder.dimension > 0 else f"gave {length} numbers, not {embedder.dimension}"


def _answers(model: ChatModel | None) -> str | None:
    """Ask for one token, which costs next to nothing; an answer without text is one too."""
    for _part in () if model is None else model.chat([ChatMessage("user", _WORD)], max_tokens=1):
        pass
    return None


def _reranks_named(models: Models, name: str) -> str | None:
    return _reranks(models.rerankers()[name])


def _reranks(reranker: Reranker | None) -> str | None:
    if reranker is None:
        return None
    scores = awaited(reranker.rerank(_WORD, [Chunk(content=text) for text in _PASSAGES]))
    scored = _PASSAGES if scores is None else list(scores)
    return None if len(scored) == len(_PASSAGES) else f"gave {len(scored)} scores for {len(_PASSAGES)} passages"


def _tried(test: Callable[[], str | None]) -> str | None:
    """Return the problem that a test finds, or None; the test of a hanging model ends after `MODEL_S` seconds."""

    def problem() -> str | None:
        try:
            return test()
        except ContextEngineError as error:
            return str(error)
        except BaseException as error:  # its text may contain secrets
            logger.debug("a model raised", exc_info=error)
            return f"failed with {type(error).__name__} (its text is in the debug log)"

    try:
        return call_within(MODEL_S, problem, name="doctor-model")
    except DeadlineExceeded:
        return f"no answer within {MODEL_S:g} s"
    except Busy as busy:
        return str(busy)


def stored_adapters(setup: Setup, data_dir: Path, only: str | None) -> tuple[list[StoredAdapter], dict[str, str]]:
    """Return the adapters stored for registered domains, and for each domain the embedding model of its store.

    A store that cannot be read counts as empty: its sources report the error.

    Args:
        only: this domain only; None: all domains.
    """
    domains = {
        name: domain
        for name, domain in sorted(setup.registry.domains.items())
        if only in (None, name) and domain.sources
    }
    embedded = [name for name, domain in domains.items() if taught_source(domain).adapter == EMBEDDED]
    stored: list[StoredAdapter] = []
    models: dict[str, str] = {}
    with suppress(StoreError), base_as_it_is(base_path(data_dir)) as base:
        if embedded and base.exists():
            stored += [adapter for adapter in base.adapters() if adapter.domain in embedded]
            models = dict.fromkeys(embedded, base.vector_model())
    opener = source_opener(setup, data_dir=data_dir, embedder=lambda: None)
    for name in domains.keys() - {*embedded}:
        first = taught_source(domains[name])
        # An adapter may raise anything.
        with suppress(Exception), opened_store(opener, domains[name], first, Trainable) as store:
            stored += store.adapters(name)
            models[name] = store.vector_model()
    return stored, {name: model for name, model in models.items() if model}


def blend_notes(
    setup: Setup, adapters: Sequence[StoredAdapter], models: Mapping[str, str], only: str | None
) -> Iterator[str]:
    """Yield a note for each domain whose learnt blend is unused because other scorers computed the cosines.

    Args:
        adapters, models: from `stored_adapters`.
        only: this domain only; None: all domains.
    """
    choice = setup.resolver.base().values.adapter
    for name, spec in sorted(setup.registry.domains.items()):
        blend = setup.resolver.base(spec).values.learnt_blend
        if name not in models or only not in (None, name) or blend is None or blend.cosine is None:
            continue
        in_force = [
            adapter.adapter_id
            for adapter in adapters
            if adapter.domain == name and adapter.in_force and not adapter.problem
        ]
        used = in_force if choice == "auto" else [choice] if choice != "off" else []
        scorers = {scorer_name(models[name], adapter_id) for adapter_id in used or (None,)}
        if blend.cosine not in scorers:
            yield (
                f"learnt_blend of {name} is not used: it was learnt with cosines by {blend.cosine}, and they are by "
                f"{', '.join(sorted(scorers))}: switch the adapter ('context-engine kb adapter list'), or learn it anew"
            )
