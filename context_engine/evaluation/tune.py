"""Search for better settings, and test them on held-out questions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple

from context_engine.core.engine.recompute import recompute
from context_engine.core.models import MAX_TOP_K, Notice, Outcome, RankingSettings, SearchResult
from context_engine.errors import InvalidRequest
from context_engine.evaluation.account import Trouble, troubles_of
from context_engine.evaluation.gold import GoldHit
from context_engine.evaluation.metrics import Paired, paired_bootstrap
from context_engine.evaluation.run import SILENT, Depth, Progress, ask, hits_of, troubles_in, with_settings
from context_engine.evaluation.score import score_rankings
from context_engine.evaluation.session import Session
from context_engine.evaluation.variant import Variant, open_with_models, read_variant, with_variant
from context_engine.settings import Layer, Setting, call_layer
from context_engine.settings.files import Unparsed
from context_engine.wiring.models import Models

_WIDE: Final = {
    "min_relevance_score": 0.0,
    "scope_threshold": 0.0,
    "similarity_threshold": None,
    "dedup_method": "off",
    "reranking_enabled": True,
}
"""Settings of a search with a reranker, so that it scores every chunk that any candidate could return."""
_ONE_LOOK: Final = {"stage2_top_k": 1}
"""Prevents a second call to the sources, which only some settings would cause."""
_FOR_RELEVANCE: Final = frozenset({"relevance", "scope", "threshold"})
_MOST_CANDIDATES: Final = 5000
_BY_ROUNDING: Final = 1e-9
Values = Mapping[str, float]
"""{question id: value of the measure}."""


class TunedFold(NamedTuple):
    """One held-out part of the questions.

    Attributes:
        chosen: the candidate that is best on all other questions.
        trained, held_out: its mean on the other questions, and on these.
        baseline: mean of the unchanged configuration on these.
    """

    questions: tuple[str, ...]
    chosen: int
    trained: float
    held_out: float
    baseline: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The result of a search for settings.

    Attributes:
        candidates: the unchanged configuration, followed by the grid.
        values: values of each candidate by question.
        best: the candidate with the best mean over all questions, the first among equals.
        folds: held-out results of the candidates that the other folds chose.
        difference: paired difference of these results from the unchanged configuration.
        troubles: components that failed during the searches.
    """

    measure: str
    candidates: tuple[Variant, ...]
    values: tuple[Values, ...]
    best: int
    folds: tuple[TunedFold, ...]
    difference: Paired
    troubles: tuple[Trouble, ...] = ()

    @property
    def better(self) -> bool:
        """Whether the best candidate is not the configuration itself, and better beyond noise."""
        return self.best != 0 and self.difference.beyond_noise and self.difference.mean > 0.0


def candidates(grid: Mapping[str, Sequence[str]], session: Session) -> tuple[Variant, ...]:
    """Return the unchanged configuration and every combination of the grid's values.

    Raises:
        InvalidRequest: an unknown setting, one without values, or too many combinations.
        ConfigError: an invalid value.
    """
    count = prod(len(values) for values in grid.values())
    if not grid or not count:
        raise InvalidRequest("nothing to search: give --grid KEY=VALUE,VALUE")
    if count > _MOST_CANDIDATES:
        raise InvalidRequest(f"the grid has {count} combinations, at most {_MOST_CANDIDATES} are searched")
    for key, values in grid.items():
        for value in values:
            read_variant([(key, value)], session.setup)
    return (Variant(), *(read_variant(zip(grid, row), session.setup) for row in product(*grid.values())))


def folds_of(questions: Sequence[str], count: int) -> tuple[tuple[str, ...], ...]:
    """Divide the questions into disjoint parts of equal size; the order of the questions does not matter.

    Raises:
        InvalidRequest: fewer than two folds, or more than questions.
    """
    if not 2 <= count <= len(questions):
        raise InvalidRequest(f"folds must be from 2 to the number of judged questions ({len(questions)}), got {count}")

    def mixed(question: str) -> bytes:
        return hashlib.sha256(question.encode("utf-8", "surrogatepass")).digest()

    shuffled = sorted(questions, key=mixed)
    return tuple(tuple(shuffled[start::count]) for start in range(count))


def tune(
    session: Session,
    variants: Sequence[Variant],
    *,
    measure: str,
    folds: int = 5,
    top_k: int | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Return the best of some candidates, with its result on held-out questions.

    The sources are searched once for each different stage 1; candidates that differ only in stage 2 are recomputed from
    the answers. If a candidate's settings might cause a deeper search, that search is made.

    Args:
        measure: a name of ir_measures; a set measure (SetF ...) is taken on the first top_k.
        top_k: number of chunks that a reader gets; None: each domain's stage2_top_k.
        progress: receives (searches done, total, question id).

    Raises:
        InvalidRequest, ConfigError: an invalid number of folds or set-up, or a measure that the settings of the grid
            cannot change.
    """
    _check_top_k(variants, measure, top_k)
    parts = folds_of(list(session.qrels), folds)
    troubles: list[Sequence[Notice]] = []
    values = _measured(session, variants, measure, top_k, progress, troubles)
    chosen = tuple(chosen_by_folds(values, parts))
    held_out = {name: (values[fold.chosen][name], values[0][name]) for fold in chosen for name in fold.questions}
    ours, theirs = ([pair[side] for pair in held_out.values()] for side in (0, 1))
    return Tuned(
        measure=measure,
        candidates=tuple(variants),
        values=tuple(values),
        best=_best(values, list(session.qrels)),
        folds=chosen,
        difference=paired_bootstrap(ours, theirs),
        troubles=tuple(troubles_of(troubles)),
    )


def _check_top_k(variants: Sequence[Variant], measure: str, top_k: int | None) -> None:
    if not any("stage2_top_k" in variant.settings for variant in variants):
        return
    if not measure.startswith("Set"):
        raise InvalidRequest(f"{measure} is the same for every stage2_top_k: use a set measure, e.g. SetF")
    if top_k is not None:
        raise InvalidRequest("--top-k and --grid stage2_top_k are the same setting: leave one out")


def chosen_by_folds(values: Sequence[Values], parts: Sequence[Sequence[str]]) -> list[TunedFold]:
    """Return for each part the candidate that is best on the others, with its means on both."""
    out = []
    for part in parts:
        others = [name for other in parts if other is not part for name in other]
        best = _best(values, others)
        trained, held_out, baseline = (
            sum(values[which][name] for name in names) / len(names)
            for which, names in ((best, others), (best, part), (0, part))
        )
        out.append(TunedFold(tuple(part), best, trained, held_out, baseline))
    return out


def _best(values: Sequence[Values], questions: Sequence[str]) -> int:
    """Return the candidate with the best mean; the first of those that differ only by rounding."""
    means = [sum(value[name] for name in questions) / len(questions) for value in values]
    most = max(means)
    return next(place for place, mean in enumerate(means) if mean >= most - _BY_ROUNDING)


def _measured(
    session: Session,
    variants: Sequence[Variant],
    measure: str,
    top_k: int | None,
    progress: Progress | None,
    troubles: list[Sequence[Notice]],
) -> list[Values]:
    """Return the values of each candidate, and add to `troubles`; candidates with one stage 1 share its answers."""
    depths = [session.depth(variant, (measure,), top_k) for variant in variants]
    groups: dict[str, list[int]] = {}
    for place, variant in enumerate(variants):
        groups.setdefault(_stage_one(variant).name, []).append(place)
    judged = [(question, domain) for question, domain in session.questions if question.id in session.qrels]
    rankings: list[dict[str, Any]] = [{} for _ in variants]
    total, done = len(judged) * len(groups), 0
    models: Models | None = None
    for places in groups.values():  # an unusable reranker is reported before any search
        with_variant(session.setup, _stage_one(variants[places[0]])).models(session.data_dir).reranker()
    for places in groups.values():
        opened, models = open_with_models(session.setup, _stage_one(variants[places[0]]), session.data_dir, models)
        with opened as engine:
            ask_engine = partial(ask, engine, as_of=session.as_of, principal=session.principal)
            layers = {place: _layers(session, variants[place]) for place in places}
            asked = {**_ONE_LOOK, **(_WIDE if _reranks(session, variants[places[0]]) else {})}
            for question, domain in judged:
                result, _ = ask_engine(question, domain, depth=depths[0], overrides=asked)
                done += 1
                if progress is not None:
                    progress(done, total, question.id)
                troubles.append(SILENT if result is None else tuple(troubles_in(result)))
                if result is None:
                    continue
                for place in places:
                    changed, depth = with_settings(result, layers[place][domain]), depths[place]
                    hits = hits_of(changed, depth)
                    if len(hits) < depth.read(domain) and _cut_short(changed):
                        chosen = _plain_values(variants[place])
                        own, _ = ask_engine(question, domain, depth=depth, overrides=chosen)
                        hits = hits if own is None else hits_of(own, depth)
                    rankings[place][question.id] = hits
    return [_values(session, measure, *variant) for variant in zip(rankings, depths, strict=True)]


def _values(session: Session, measure: str, hits: Mapping[str, Sequence[GoldHit]], depth: Depth) -> Values:
    read = {question.id: depth.read(domain) for question, domain in session.questions}
    scored = score_rankings("", hits, session.qrels, (measure,), read=read, rejected=session.rejected)
    return {name: values[measure] for name, values in scored.scores.items()}


def _cut_short(result: SearchResult) -> bool:
    """Return whether chunks were removed for other reasons than relevance; a search might then ask sources again."""
    fates = recompute(with_settings(result, {"stage2_top_k": Setting(MAX_TOP_K, "evaluation")})).fates
    return any(fate.outcome is not Outcome.RETURNED and fate.stage not in _FOR_RELEVANCE for fate in fates)


def _plain_values(variant: Variant) -> Mapping[str, Any]:
    """Return the stage-2 settings that a set-up changes, in the form of call options."""
    own = call_layer(
        {key: Unparsed(value) for key, value in variant.settings.items() if key in RankingSettings.model_fields}
    )
    dumps = ((key, getattr(setting.value, "model_dump", None), setting.value) for key, setting in own.items())
    return {key: value if dump is None else dump() for key, dump, value in dumps}


def _reranks(session: Session, variant: Variant) -> bool:
    setup = with_variant(session.setup, _stage_one(variant))
    domains = {name for _, name in session.questions}
    return any(setup.resolver.base(setup.registry.domain(name)).values.reranker != "noop" for name in domains)


def _stage_one(variant: Variant) -> Variant:
    """Return the changes of a set-up that affect the sources or the reranker."""
    kept = {key: value for key, value in variant.settings.items() if key not in RankingSettings.model_fields}
    return Variant(settings=kept, sources=variant.sources)


def _layers(session: Session, variant: Variant) -> Mapping[str, Layer]:
    """Return the settings for stage 2 by domain: the variant's over the configured ones."""
    own = {key: Unparsed(value) for key, value in variant.settings.items() if key in RankingSettings.model_fields}
    out = {}
    for domain in {name for _, name in session.questions}:
        configured = session.setup.resolver.base(session.setup.registry.domain(domain)).values
        below = {key: Setting(getattr(configured, key), "configured") for key in RankingSettings.model_fields}
        out[domain] = {**below, **call_layer(own)}
    return out
