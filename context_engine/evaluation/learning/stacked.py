"""A blend learnt from the questions that an adapter was learnt from too.

An adapter is better on its own questions than it will be on any other, and a blend that learnt from what it finds there
would trust the cosine too much. So each question is searched for under the adapter of its fold, which was learnt from
the other folds and never shown it (stacked generalisation: Wolpert 1992). What these find stands for what the adapter
of all questions will find on new ones, and the blend is bound to that one.
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
    """Search for each question that an adapter was learnt from under the adapter of its fold.

    The base keeps the adapters of the folds meanwhile, none of them in force.

    Args:
        session: with the questions.
        base, origin: what the adapter was learnt from.
        domain: of the questions.
        trial: of the adapter, which is not None.
        depth: how far is looked.
        progress: told of (questions done, all of them, question).

    Raises:
        InvalidRequest: no adapter was learnt.
        StoreError: the base cannot be written.
    """
    if trial.adapter is None:
        raise InvalidRequest("no adapter was learnt that a blend could be learnt beside")
    found: dict[str, BlendLesson] = {}
    troubles: list[Trouble] = []
    models: Models | None = None
    for fold in trial.folds.folds:
        names = {trial.ids[place] for place in fold.questions}
        with _kept(base, origin, domain, fold) as choice:
            engine, models = open_with_models(
                session.setup, Variant(settings={"adapter": choice}), session.data_dir, models
            )
            with engine:
                told = None if progress is None else _counted(progress, len(found), len(trial.ids))
                lessons = blend_lessons(session.only(names), engine, domain, depth, told)
        found |= lessons.of
        troubles += lessons.troubles
    return standing_for(trial.adapter, domain, found, troubles)


def standing_for(
    adapter: DomainAdapter, domain: str, found: Mapping[str, BlendLesson], troubles: Sequence[Trouble]
) -> BlendLessons:
    """Return what was found under the adapters of folds as what stands for an adapter of all questions."""
    reranked = any(one.result.rerank_adapter is not None for one in found.values())
    lessons = {name: one.standing_for(adapter, reranked=reranked) for name, one in found.items()}
    return BlendLessons.of_all(domain, lessons, tuple(dict.fromkeys(troubles)))


@contextmanager
def _kept(base: Trainable, origin: Any, domain: str, fold: Fold) -> Iterator[str]:
    """Yield the value of the setting `adapter` for a fold; its adapter is gone from the base afterwards."""
    if fold.maps is None:
        yield _OFF
        return
    adapter = DomainAdapter(base.vector_model(), *fold.maps)
    known = {one.adapter_id for one in base.adapters(domain)}
    if adapter.adapter_id not in known:
        base.keep_adapter(domain, adapter, _EVIDENCE, origin)
    try:
        yield adapter.adapter_id
    finally:
        if adapter.adapter_id not in known:
            base.forget_adapters(domain, [adapter.adapter_id])


def _counted(progress: Progress, before: int, total: int) -> Progress:
    return lambda done, _total, name: progress(before + done, total, name)
