"""The candidates of one search: the best by text and the best by vector, each with both of its true scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from tantivy import Occur, Query

from context_engine.models import Score, ScoreKind
from context_engine.sources.local.merge import boosted, kind_of, merged, ranked
from context_engine.sources.local.options import SearchOptions
from context_engine.sources.local.queries import TextQuery, both, rows
from context_engine.sources.local.reader import View

__all__ = ["Hit", "Question", "Scoped", "candidates"]

_CLEARLY: Final = 0.5


class Question(NamedTuple):
    """What is asked: the text as queries, its vector where an embedder is configured, and how to search."""

    query: TextQuery | None
    vector: Sequence[float] | None
    options: SearchOptions


class Scoped(NamedTuple):
    """Where to look.

    Attributes:
        query: finds all rows of the scope.
        source_key: of its source.
        selective: it holds a filter, so it may leave few rows of the source.
    """

    query: Query
    source_key: int
    selective: bool


class Hit(NamedTuple):
    """A row that was found, with its scores."""

    rid: int
    scores: tuple[Score, ...]


class _Found(NamedTuple):
    text: float
    group: int
    doc: int


def candidates(view: View, question: Question, scope: Scoped, limit: int) -> tuple[list[Hit], bool]:
    """Return the candidates, best first, and whether a higher limit might bring more."""
    found = _by_text(view, question.query, scope, limit)
    full = len(found) >= limit
    if question.vector is None or view.vectors is None:
        return _text_hits(view, question, found), full
    nearest = view.vectors.nearest(question.vector, limit, _Rows(view, scope), question.options)
    missing = [rid for rid in nearest if rid not in found]
    found |= _of_rows(view, question.query, missing)
    cosine = view.vectors.cosines(question.vector, found)
    return _merged_hits(view, question, found, cosine, scope), full or len(nearest) >= limit


class _Rows:
    """What the vectors may ask of the index about the scope."""

    def __init__(self, view: View, scope: Scoped) -> None:
        self._view, self._scope = view, scope
        self.source_key, self.selective = scope.source_key, scope.selective

    def count(self) -> int:
        """Return how many rows the scope has."""
        found = self._view.searcher.search(self._scope.query, limit=1, count=True)
        return int(found.count)  # type: ignore[attr-defined]

    def all(self, count: int) -> list[int]:
        """Return all rows of the scope, of which there are `count`."""
        return _rids(self._view, self._scope.query, count)

    def among(self, rids: Collection[int]) -> set[int]:
        """Return those of some rows that are in the scope."""
        return set(_rids(self._view, both(self._scope.query, rows(rids)), len(rids))) if rids else set()


def _rids(view: View, query: Query, limit: int) -> list[int]:
    hits = view.searcher.search(query, limit=max(limit, 1), count=False).hits
    return [int(rid or 0) for rid in view.searcher.fast_field_values("rid", [address for _, address in hits])]


def _by_text(view: View, query: TextQuery | None, scope: Scoped, limit: int) -> dict[int, _Found]:
    return {} if query is None else _read(view, both(query.text, scope.query), limit)


def _of_rows(view: View, query: TextQuery | None, rids: list[int]) -> dict[int, _Found]:
    """Return the true text score of some rows, 0 where nothing matches."""
    if not rids:
        return {}
    clauses = [(Occur.Must, rows(rids)), *([(Occur.Should, query.text)] if query else [])]
    return _read(view, Query.boolean_query(clauses), len(rids))


def _read(view: View, query: Query, limit: int) -> dict[int, _Found]:
    hits = view.searcher.search(query, limit=limit, count=False).hits
    addresses = [address for _, address in hits]
    rids, groups, docs = (view.searcher.fast_field_values(name, addresses) for name in ("rid", "group", "doc"))
    return {
        int(rid or 0): _Found(score, int(group or 0), int(doc or 0))
        for (score, _), rid, group, doc in zip(hits, rids, groups, docs)
    }


def _scores(view: View, query: Query, rids: Collection[int]) -> dict[int, float]:
    """Return the score of those rows that the query finds."""
    if not rids:
        return {}
    hits = view.searcher.search(both(query, rows(rids)), limit=len(rids), count=False).hits
    found = view.searcher.fast_field_values("rid", [address for _, address in hits])
    return {int(rid or 0): score for (score, _), rid in zip(hits, found)}


def _text_hits(view: View, question: Question, found: Mapping[int, _Found]) -> list[Hit]:
    """The best `depth` by BM25 are smoothed; what follows keeps its lower score."""
    options, query = question.options, question.query
    score = {rid: one.text for rid, one in found.items()}
    if query is not None:
        score |= _smoothed(view, query, {rid: found[rid] for rid in ranked(score)[: options.depth]}, options)
        score = _boosted(view, query, score, options) if _boosts(options) else score
    scorer = f"local:{view.state.base_id}"
    return [Hit(rid, (Score(ScoreKind.BM25, score[rid], scorer),)) for rid in ranked(score)]


def _merged_hits(
    view: View, question: Question, found: Mapping[int, _Found], cosine: Mapping[int, float], scope: Scoped
) -> list[Hit]:
    options, query = question.options, question.query
    text = {rid: one.text for rid, one in found.items()}
    best, kind = 0.0, kind_of(options)
    if query is not None:
        text |= _smoothed(view, query, found, options)
        best = _best(view, query, options)
    fused = merged(text, best, cosine, options)
    if query is not None:
        fused = _boosted(view, query, fused, options) if _boosts(options) else fused
        top = 1.0 if kind is ScoreKind.WEIGHTED else max(fused.values(), default=0.0)
        fused = _cited_first(view, query, text, best, fused, top)
    base, model = f"local:{view.state.base_id}", view.vectors.model_id if view.vectors else ""
    # Ranks in one source's list say nothing beside those in another's: they have a scorer of their own.
    scorer = f"{base}:{model}" if kind is ScoreKind.WEIGHTED else f"{base}:{model}:{scope.source_key}"

    def scores(rid: int) -> tuple[Score, ...]:
        dense = (Score(ScoreKind.COSINE, cosine[rid], model),) if rid in cosine else ()
        return (Score(kind, fused[rid], scorer), *dense, Score(ScoreKind.BM25, text[rid], base))

    return [Hit(rid, scores(rid)) for rid in ranked(fused)]


def _smoothed(view: View, query: TextQuery, found: Mapping[int, _Found], options: SearchOptions) -> dict[int, float]:
    """Return each text score with what its section and its neighbours add.

    score + section_weight * BM25 of the whole section + sibling_weight * best score in the section
    + neighbour_weight * (score of the chunk before + score of the chunk after).
    """
    sections: Mapping[int, float] = {}
    if options.section_weight:
        sections = _scores(view, query.section, {one.group for one in found.values()})
    siblings: dict[int, float] = {}
    for one in found.values():
        siblings[one.group] = max(one.text, siblings.get(one.group, 0.0))

    def beside(rid: int, doc: int) -> float:
        other = found.get(rid)
        return other.text if other is not None and other.doc == doc else 0.0

    return {
        rid: one.text
        + options.section_weight * sections.get(one.group, 0.0)
        + options.sibling_weight * siblings[one.group]
        + options.neighbour_weight * (beside(rid - 1, one.doc) + beside(rid + 1, one.doc))
        for rid, one in found.items()
    }


def _best(view: View, query: TextQuery, options: SearchOptions) -> float:
    """Return a bound on every text score of the query in the whole base; the same whatever the scope."""
    tops = [view.searcher.search(part, limit=1, count=False).hits for part in (query.text, query.section)]
    text, section = (hits[0][0] if hits else 0.0 for hits in tops)
    return text * (1.0 + options.sibling_weight + 2.0 * options.neighbour_weight) + options.section_weight * section


def _boosts(options: SearchOptions) -> bool:
    return options.title_boost > 0.0 or options.definition_boost > 0.0


def _boosted(view: View, query: TextQuery, scores: Mapping[int, float], options: SearchOptions) -> dict[int, float]:
    title = _scores(view, query.title, scores) if options.title_boost else {}
    defines = _scores(view, query.defines, scores) if options.definition_boost and query.defines else {}
    return boosted(scores, title, defines, options)


def _cited_first(
    view: View, query: TextQuery, text: Mapping[int, float], best: float, fused: Mapping[int, float], top: float
) -> dict[int, float]:
    """Lift what holds every code of a query that is little else, and matches its words well, above all others.

    `MAS Notice 637` asks for that notice; by cosine any notice is about as close. Both halves keep their order.
    """
    if query.codes is None:
        return dict(fused)
    holding = _scores(view, query.codes, [rid for rid, score in text.items() if score >= _CLEARLY * best])
    return {rid: (score + (top if rid in holding else 0.0)) / 2.0 for rid, score in fused.items()}
