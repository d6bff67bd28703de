"""The candidates of one search: the best by text and the best by vector, each with both of its true scores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Final, NamedTuple

from tantivy import Occur, Query

from context_engine.adapters.sources.local.evidence import coverage, covered, evidence
from context_engine.adapters.sources.local.merge import boosted, kind_of, lifted, merged, ranked
from context_engine.adapters.sources.local.options import SearchOptions
from context_engine.adapters.sources.local.queries import TextQuery, both, rows
from context_engine.adapters.sources.local.reader import View
from context_engine.adapters.sources.local.row_scores import row_scores
from context_engine.adapters.sources.local.row_scores import scores as scores_of
from context_engine.core.models import Score, ScoreKind

__all__ = ["Candidates", "LocalQuery", "SearchScope", "candidates", "foresee"]

_CLEARLY: Final = 0.5


class LocalQuery(NamedTuple):
    """What is asked: the text as queries, its vector where an embedder is configured, and how to search.

    Attributes:
        words: of the text, those that may be misspelt.
    """

    query: TextQuery | None
    vector: Sequence[float] | None
    options: SearchOptions
    words: Sequence[str] = ()


class SearchScope(NamedTuple):
    """Where to look.

    Attributes:
        query: finds all rows of the scope.
        source_key: of its source; None: it may hold rows of any.
        selective: it may leave few rows of the source: it holds a filter, or other sources.
        source_id: what is searched, as callers know it; row keys would tell how many sources the base has.
    """

    query: Query
    source_key: int | None
    selective: bool
    source_id: str


class Candidates(NamedTuple):
    """The rows found.

    Attributes:
        ranked: the rows, best first.
        scores: returns the scores of one of them.
        more: whether a higher limit might bring more.
    """

    ranked: list[int]
    scores: Callable[[int], tuple[Score, ...]]
    more: bool


class _TextHit(NamedTuple):
    text: float
    group: int
    doc: int


class _Found(NamedTuple):
    """The rows a search begins with, and whether a higher limit might bring more."""

    rows: dict[int, _TextHit]
    full: bool


def candidates(view: View, question: LocalQuery, scope: SearchScope, limit: int) -> Candidates:
    """Return the candidates of a search."""
    found, full = _found(view, question, scope, limit)
    if question.vector is None or view.vectors is None:
        return _by_text(view, question, found, full=full)
    return _merged(view, question, found, scope, full=full)


def foresee(view: View, question: LocalQuery, scopes: Sequence[SearchScope], limit: int) -> None:
    """Ask the index what the rows of all these scopes score, in one call, before `candidates` asks for those of one.

    A call for the rows of twenty sources takes a fifth of twenty calls.
    """
    found = [_found(view, question, scope, limit).rows for scope in scopes]
    if question.query is not None:
        coverage(view, question.query, [rid for rows in found for rid, one in rows.items() if one.text > 0.0])
        if question.options.section_weight:
            _sections(view, question.query, {one.group for rows in found for one in rows.values()})


def _found(view: View, question: LocalQuery, scope: SearchScope, limit: int) -> _Found:
    return view.once(("found", scope, limit), lambda: _find(view, question, scope, limit))


def _find(view: View, question: LocalQuery, scope: SearchScope, limit: int) -> _Found:
    found = {} if question.query is None else _read(view, both(question.query.text, scope.query), limit)
    full = len(found) >= limit
    if question.vector is None or view.vectors is None:
        return _Found(found, full)
    rows_of_scope = _ScopeRows(view, question, scope)
    nearest = view.vectors.nearest(question.vector, limit, rows_of_scope, question.options)
    return _Found({rid: rows_of_scope.read[rid] for rid in nearest} | found, full or len(nearest) >= limit)


class _ScopeRows:
    """What the vectors may ask of the index about the scope; what is read on the way is kept."""

    def __init__(self, view: View, question: LocalQuery, scope: SearchScope) -> None:
        self._view, self._query, self._scope = view, question.query, scope
        self.source_key, self.selective = scope.source_key, scope.selective
        self.read: dict[int, _TextHit] = {}

    def count(self) -> int:
        """Return how many rows the scope has."""
        found = self._view.searcher.search(self._scope.query, limit=1, count=True)
        return int(found.count)  # type: ignore[attr-defined]

    def all(self, count: int) -> list[int]:
        """Return all rows of the scope, of which there are `count`."""
        hits = self._view.searcher.search(self._scope.query, limit=max(count, 1), count=False).hits
        return [int(rid or 0) for rid in self._view.searcher.fast_field_values("rid", [place for _, place in hits])]

    def among(self, rids: Collection[int]) -> Container[int]:
        """Return those of some rows that are in the scope, and keep their true text score, 0 where nothing matches."""
        clauses = [(Occur.Must, rows(rids)), (Occur.Must, self._scope.query)]
        clauses += [(Occur.Should, self._query.text)] if self._query else []
        self.read |= _read(self._view, Query.boolean_query(clauses), len(rids)) if rids else {}
        return self.read


def _read(view: View, query: Query, limit: int) -> dict[int, _TextHit]:
    hits = view.searcher.search(query, limit=limit, count=False).hits
    addresses = [address for _, address in hits]
    rids, groups, docs = (view.searcher.fast_field_values(name, addresses) for name in ("rid", "group", "doc"))
    return {
        int(rid or 0): _TextHit(score, int(group or 0), int(doc or 0))
        for (score, _), rid, group, doc in zip(hits, rids, groups, docs)
    }


def _sections(view: View, query: TextQuery, groups: Collection[int]) -> dict[int, float]:
    """Return the score of the whole section of each group."""
    return row_scores(view, "section", query, lambda: query.section, groups)


def _by_text(view: View, question: LocalQuery, found: Mapping[int, _TextHit], *, full: bool) -> Candidates:
    """The best `depth` by BM25 and coverage are smoothed; what follows keeps its lower score."""
    options, query = question.options, question.query
    score: dict[int, float] = {}
    if query is not None:
        found = _covering(found, coverage(view, query, found))
        score = {rid: one.text for rid, one in found.items()}
        score |= _smoothed(view, query, {rid: found[rid] for rid in ranked(score)[: options.depth]}, options)
        score = _boosted(view, query, score, options) if _boosts(options) else score
    scorer = f"local:{view.state.base_id}"
    return Candidates(ranked(score), lambda rid: (Score(ScoreKind.BM25, score[rid], scorer),), full)


def _merged(
    view: View, question: LocalQuery, found: Mapping[int, _TextHit], scope: SearchScope, *, full: bool
) -> Candidates:
    assert view.vectors is not None and question.vector is not None
    options, query = question.options, question.query
    cosine = view.vectors.cosines(question.vector, found)
    text = {rid: one.text for rid, one in found.items()}
    best, trust, kind = 0.0, 1.0, kind_of(options)
    if query is not None:
        said = evidence(view, query, [rid for rid, one in found.items() if one.text > 0.0])
        text = _smoothed(view, query, _covering(found, said.coverage), options)
        best, trust = said.best * _whole(options), said.trust
    fused = merged(text, best, cosine, options, trust)
    if query is not None:
        fused = _boosted(view, query, fused, options) if _boosts(options) else fused
        fused = _cited_first(view, query, text, best, fused, kind)
    base, model = f"local:{view.state.base_id}", view.vectors.scorer_id
    # Ranks in one source's list say nothing beside those in another's: they have a scorer of their own.
    scorer = f"{base}:{model}" if kind is ScoreKind.WEIGHTED else f"{base}:{model}:{scope.source_id}"

    def scores(rid: int) -> tuple[Score, ...]:
        dense = (Score(ScoreKind.COSINE, cosine[rid], model),) if rid in cosine else ()
        return (Score(kind, fused[rid], scorer), *dense, Score(ScoreKind.BM25, text[rid], base))

    return Candidates(ranked(fused), scores, full)


def _covering(found: Mapping[int, _TextHit], shares: Mapping[int, float]) -> dict[int, _TextHit]:
    """Return each row with the text score that its share of the question leaves it."""
    return {rid: _TextHit(covered(text, shares.get(rid, 0.0)), group, doc) for rid, (text, group, doc) in found.items()}


def _smoothed(view: View, query: TextQuery, found: Mapping[int, _TextHit], options: SearchOptions) -> dict[int, float]:
    """Return each text score with what its section and its neighbours add.

    score + section_weight * BM25 of the whole section + sibling_weight * best score in the section
    + neighbour_weight * (score of the chunk before + score of the chunk after).
    """
    sections: Mapping[int, float] = {}
    if options.section_weight:
        sections = _sections(view, query, {one.group for one in found.values()})
    siblings: dict[int, float] = {}
    for one in found.values():
        siblings[one.group] = max(one.text, siblings.get(one.group, 0.0))

    smoothed = {
        rid: one.text
        + options.section_weight * sections.get(one.group, 0.0)
        + options.sibling_weight * siblings[one.group]
        for rid, one in found.items()
    }
    if options.neighbour_weight:
        for rid, one in found.items():
            beside = (found.get(rid - 1), found.get(rid + 1))
            near = sum(other.text for other in beside if other is not None and other.doc == one.doc)
            smoothed[rid] += options.neighbour_weight * near
    return smoothed


def _whole(options: SearchOptions) -> float:
    """Return about how often the highest text score counts where its section and neighbours match as well."""
    return 1.0 + options.section_weight + options.sibling_weight + 2.0 * options.neighbour_weight


def _boosts(options: SearchOptions) -> bool:
    return options.title_boost > 0.0 or options.definition_boost > 0.0


def _boosted(view: View, query: TextQuery, scores: Mapping[int, float], options: SearchOptions) -> dict[int, float]:
    title = scores_of(view, query.title, scores) if options.title_boost else {}
    defines = scores_of(view, query.defines, scores) if options.definition_boost and query.defines else {}
    return boosted(scores, title, defines, options)


def _cited_first(
    view: View, query: TextQuery, text: Mapping[int, float], best: float, fused: Mapping[int, float], kind: ScoreKind
) -> dict[int, float]:
    """Lift what holds every code of a query that is little else, and matches its words well (`merge.lifted`).

    `MAS Notice 637` asks for that notice; by cosine any notice is about as close. Where nothing in the base holds the
    codes, whatever the source, all scores stay as they are.
    """
    codes = query.codes
    if codes is None or not view.once(("codes", query), lambda: view.searcher.search(codes, limit=1, count=False).hits):
        return dict(fused)
    holding = scores_of(view, codes, [rid for rid, score in text.items() if score >= _CLEARLY * best])
    return lifted(fused, holding, kind)
