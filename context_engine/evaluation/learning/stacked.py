"""Learn a blend from the same questions as an adapter.

An adapter is better on its training questions than on new ones, so a blend learnt from its answers to them would trust
the cosine too much. Each question is therefore searched under the adapter of its fold, which was learnt from the other
folds only (stacked generalisation: Wolpert 1992). These answers represent those of the final adapter on new questions,
and the blend is valid for the final adapter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from context_engine.adapters.sources.domain_adapter import DomainAdapter
from context_engine.errors import InvalidRequest
from context_engine.evaluation.account import Trouble
from context_engine.evaluation.learning.adapter_gate import AdapterTrial
from context_engine.evaluation.learning.blend_lessons import BlendLesson, BlendLessons, blend_lessons
from context_engine.evaluation.run import Depth, Progress
from context_engine.evaluation.session import Session
from context_engine.evaluation.variant import Variant, open_with_models

if TYPE_CHECKING:
    from context_engine.core.protocols import Trainable
    from context_engine.evaluation.learning.folds import Fold
    from context_engine.wiring.models import Models


_OFF: Final = "off"
_EVIDENCE: Final[Mapping[str, Any]] = {"of": "a fold, while a blend is being learnt"}


def stacked_lessons(
    session: Session,
    base: Trainable,
    origin: Any,
    domain: str,
    trial: AdapterTrial,
    depth: Depth,
    progress: Progress | None = None,
) -> BlendLessons:
    """Search for each training question of an adapter under the adapter of its fold.

    The store holds the adapters of the folds meanwhile; none of them is in force.

    Args:
        origin: the state of the store that the adapter was learnt from.
        progress: receives (questions done, total, question id).

    Raises:
        InvalidRequest: no adapter was learnt.
        StoreError: the base cannot be written.
    """
    if trial.adapter is None:
        raise InvalidRequest("no adapter was learnt, so no blend can be learnt for it")
    searched: dict[str, BlendLesson] = {}
    troubles: list[Trouble] = []
    models: Models | None = None
    for fold in trial.folds.folds:
        names = {trial.ids[place] for place in fold.questions}
        with _kept(base, origin, domain, fold) as choice:
            engine, models = open_with_models(
                session.setup, Variant(settings={"adapter": choice}), session.data_dir, models
            )
            with engine:
                counted = None if progress is None else _counted(progress, len(searched), len(trial.ids))
                lessons = blend_lessons(session.only(names), engine, domain, depth, counted)
        searched |= lessons.of
        troubles += lessons.troubles
    return standing_for(trial.adapter, domain, searched, troubles)


def standing_for(
    adapter: DomainAdapter, domain: str, searched: Mapping[str, BlendLesson], troubles: Sequence[Trouble]
) -> BlendLessons:
    """Return lessons searched under the adapters of folds as lessons of the final adapter."""
    reranked = any(lesson.result.rerank_adapter is not None for lesson in searched.values())
    lessons = {name: lesson.standing_for(adapter, reranked=reranked) for name, lesson in searched.items()}
    return BlendLessons.of_all(domain, lessons, tuple(dict.fromkeys(troubles)))


@contextmanager
def _kept(base: Trainable, origin: Any, domain: str, fold: Fold) -> Iterator[str]:
    """Yield the setting `adapter` for a fold; the fold's adapter is removed from the store afterwards."""
    if fold.maps is None:
        yield _OFF
        return
    adapter = DomainAdapter(base.vector_model(), *fold.maps)
    known = {stored.adapter_id for stored in base.adapters(domain)}
    if adapter.adapter_id not in known:
        base.keep_adapter(domain, adapter, _EVIDENCE, origin)
    try:
        yield adapter.adapter_id
    finally:
        if adapter.adapter_id not in known:
            base.forget_adapters(domain, [adapter.adapter_id])


def _counted(progress: Progress, before: int, total: int) -> Progress:
    return lambda done, _total, name: progress(before + done, total, name)
