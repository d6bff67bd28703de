"""A search in one view of the base, restricted to a source, a filter and a day."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from tantivy import Occur, Query

from context_engine.adapters.sources.local import index as indexing
from context_engine.adapters.sources.local import schema
from context_engine.adapters.sources.local.candidates import LocalQuery, SearchScope, candidates
from context_engine.adapters.sources.local.index import INDEX_OPTION, SCHEMA, WORDS
from context_engine.adapters.sources.local.partitions import in_force as calibration_in_force
from context_engine.adapters.sources.local.queries import IndexRows, both, constant, fields_held, in_force, values_of
from context_engine.adapters.sources.local.view import RowChunk, View, chunks_of_rows
from context_engine.adapters.sources.stores.chunk_rows import looked_up, unknown_words
from context_engine.adapters.sources.stores.scope import Scope, pushed
from context_engine.core.models import (
    Chunk,
    Notice,
    NoticeCode,
    ScopeCalibration,
    SourceAnswer,
    TermStatistics,
    UnknownWord,
)
from context_engine.core.query.spelling import near_words
from context_engine.core.text import terms

_MOST_HITS: Final = 100_000
_OUTDATED: Final = (
    "an older version wrote the embedded base, and it is only read, without near misses: 'context-engine kb rebuild', "
    "or the next ingestion, upgrades it; back it up first if you may go back"
)


class _FoundChunks(NamedTuple):
    """Chunks, best first, and notices of repairs to them."""

    chunks: list[Chunk]
    changed: list[Notice]


class SearchedScope(NamedTuple):
    """A source to search: its scope, and the test that its chunks must pass."""

    scope: SearchScope
    test: Callable[[Chunk], bool] | None


def answers(view: View, question: LocalQuery, top_k: int, scopes: Sequence[Scope]) -> list[SourceAnswer]:
    """Return the answer for each scope (see `LocalBase.answers`)."""
    asked = [searched_scope(view, question, scope) for scope in scopes]
    searched = [scope_asked for scope_asked in asked if isinstance(scope_asked, SearchedScope)]
    results = iter(_found(view, question, searched, top_k))
    return [
        _answer(view, question, scope, scope_asked, next(results))
        if isinstance(scope_asked, SearchedScope)
        else scope_asked
        for scope, scope_asked in zip(scopes, asked, strict=True)
    ]


def searched_scope(view: View, question: LocalQuery, scope: Scope) -> SearchedScope | SourceAnswer:
    """Return how to search a source, or its answer if nothing can be searched."""
    key = _source_key(view, scope)
    if key is None:
        return _nothing(view, question, NoticeCode.SOURCE_UNKNOWN if scope.access is None else None, scope)
    if question.query is None and (question.vector is None or view.vectors is None):
        return _nothing(view, question, NoticeCode.NO_SEARCH_TERMS, scope)
    clauses = [(Occur.Must, constant(Query.term_query(indexing.SCHEMA, "source", key), 0.0))]
    clauses += in_force(scope.as_of) if scope.as_of is not None else []
    test = _filtered(view, scope, clauses) if scope.filters is not None else None
    name = None if scope.filters is not None else (key, scope.as_of)
    query = Query.boolean_query(clauses)
    return SearchedScope(SearchScope(query, key, scope.filters is not None, scope.source_id, name), test)


def _answer(view: View, question: LocalQuery, scope: Scope, asked: SearchedScope, chunks: _FoundChunks) -> SourceAnswer:
    return SourceAnswer(
        chunks=chunks.chunks,
        notes=(*_notes(view, question, scope), *chunks.changed),
        statistics=view.once(("statistics", question.query), lambda: _statistics(view, question)),
        calibration=_calibration(view, question, scope),
        unknown_words=unknown_words(question.words, chunks.chunks, ScopeWords(view, asked.scope).unknown),
        filter_fields=None if scope.filters is None else _fields_of(view, asked.scope.source_key),
    )


def _source_key(view: View, scope: Scope) -> int | None:
    """Return the key of the source; None if it is unknown or the caller may read none of it.

    The two are deliberately indistinguishable, so that callers cannot learn which sources exist.
    """
    row = view.connection.execute("SELECT source_key FROM sources WHERE source_id = ?", (scope.source_id,)).fetchone()
    if row is None or scope.access is None:
        return None if row is None else int(row[0])
    own = Query.term_query(indexing.SCHEMA, "source", int(row[0]))
    return int(row[0]) if view.searcher.search(own, limit=1, count=False).hits else None


def best_of(view: View, question: LocalQuery, source_ids: Sequence[str], top_k: int) -> SourceAnswer:
    """Return the best chunks of several sources together, ignoring validity dates."""
    marks = ", ".join("?" * len(source_ids))
    rows = view.connection.execute(f"SELECT source_key FROM sources WHERE source_id IN ({marks})", tuple(source_ids))
    keys = [int(row[0]) for row in rows]
    if not keys or (question.query is None and (question.vector is None or view.vectors is None)):
        return SourceAnswer()
    terms = [(Occur.Should, Query.term_query(indexing.SCHEMA, "source", key)) for key in keys]
    key = keys[0] if len(keys) == 1 else None
    scope = SearchScope(constant(Query.boolean_query(terms), 0.0), key, len(keys) > 1, ",".join(source_ids))
    (result,) = _found(view, question, [SearchedScope(scope, None)], top_k)
    return SourceAnswer(chunks=result.chunks, statistics=_statistics(view, question))


def _calibration(view: View, question: LocalQuery, scope: Scope) -> ScopeCalibration | None:
    """Return the domain's calibration under the search's embedder, for the partitions of the view."""
    scorer_id = view.vectors.scorer_id if question.vector is not None and view.vectors is not None else ""
    domain = str(scope.constants.get("domain", ""))
    return view.once(
        ("calibration", domain, scorer_id),
        lambda: calibration_in_force(view.connection, domain, scorer_id, view.partitions),
    )


def _statistics(view: View, question: LocalQuery) -> TermStatistics:
    """Return the number of chunks with each of the question's terms, in text or heading, whichever is more.

    These are BM25's counts, which include deleted chunks until their segment is merged.
    """
    searcher = view.searcher
    chunks = int(searcher.num_docs)
    frequency = {
        term: min(max(searcher.doc_freq(field, term) for field in ("body", "head")), chunks)
        for term in (question.query.terms if question.query else ())
    }
    return TermStatistics(collection=f"local:{view.state.base_id}", chunks=chunks, document_frequency=frequency)


def _fields_of(view: View, source_key: int | None) -> tuple[str, ...]:
    """Return the fields of the source's chunks."""
    if source_key not in view.fields:
        source = (Occur.Must, constant(Query.term_query(indexing.SCHEMA, "source", source_key), 0.0))

        def is_held(number: int) -> bool:
            having = Query.boolean_query([source, (Occur.Must, Query.term_query(indexing.SCHEMA, "attr", number))])
            return bool(view.searcher.search(having, limit=1, count=False).hits)

        view.fields[source_key] = tuple(name for number, name in fields_held(view.connection) if is_held(number))
    return view.fields[source_key]


def _nothing(view: View, question: LocalQuery, why: NoticeCode | None, scope: Scope) -> SourceAnswer:
    also = () if why is None else (Notice(why, scope.source_id, why.sentence),)
    return SourceAnswer(notes=(*_notes(view, question, scope), *also))


def _notes(view: View, question: LocalQuery, scope: Scope) -> tuple[Notice, ...]:
    notes = tuple(Notice(code, scope.source_id, code.sentence) for code in _notices(view, question))
    if schema.version_of(view.connection) == schema.SCHEMA_VERSION:
        return notes
    return (*notes, Notice(NoticeCode.BASE_OUTDATED, scope.source_id, _OUTDATED))


def _notices(view: View, question: LocalQuery) -> Iterator[NoticeCode]:
    if view.held < view.state.generation:
        yield NoticeCode.INDEX_LAG
    if question.query is not None and question.query.shortened:
        yield NoticeCode.QUERY_SHORTENED
    if question.vector is not None and view.vectors is None:
        yield NoticeCode.NO_VECTORS


def _filtered(view: View, scope: Scope, clauses: list[tuple[Occur, Query]]) -> Callable[[Chunk], bool] | None:
    """Add the filter to the clauses; return a test for the chunks found, or None if the index answers it exactly."""
    query, test = pushed(scope, IndexRows(), partial(values_of, view.connection), view.resolved)
    clauses.append((Occur.Must, constant(query, 0.0)))
    return test


def _found(view: View, question: LocalQuery, asked: Sequence[SearchedScope], top_k: int) -> list[_FoundChunks]:
    """Return the best top_k chunks of each scope; a scope is searched deeper while rows are gone or fail its test."""
    limit = max(top_k, question.options.depth)
    by_place: dict[int, _FoundChunks] = {}
    while len(by_place) < len(asked):
        places = [place for place in range(len(asked)) if place not in by_place]
        reached = candidates(view, question, [asked[place].scope for place in places], limit)
        known = chunks_of_rows(view, chain.from_iterable(candidate.ranked[:top_k] for candidate in reached))
        for place, candidate in zip(places, reached, strict=True):
            best = _best(view, candidate.ranked, asked[place].test, known, top_k)
            if len(best) >= top_k or not candidate.more or limit >= _MOST_HITS:
                changed = [notice for _, chunk in best for notice in chunk.notices]
                by_place[place] = _FoundChunks([chunk.scored(candidate.scores(rid)) for rid, chunk in best], changed)
        limit = min(4 * limit, _MOST_HITS)
    return [by_place[place] for place in range(len(asked))]


def _best(
    view: View, ranked: Sequence[int], test: Callable[[Chunk], bool] | None, known: dict[int, RowChunk], top_k: int
) -> list[tuple[int, RowChunk]]:
    """Return the best existing rows that pass the test, at most top_k.

    Args:
        known: chunks that were read already; chunks read here are added.
    """
    best: list[tuple[int, RowChunk]] = []
    for start in range(0, len(ranked), top_k):
        batch = ranked[start : start + top_k]
        if start:
            known |= chunks_of_rows(view, batch)
        best += [
            (rid, chunk)
            for rid in batch
            if (chunk := known.get(rid)) is not None and (test is None or test(chunk.chunk))
        ]
        if len(best) >= top_k:
            break
    return best[:top_k]


_MOST_KEPT: Final = 4096
_MOST_WORDS: Final = 65_536


class ScopeWords(NamedTuple):
    """The words of a scope's texts, cached for the whole source (`Vocabulary`)."""

    view: View
    scope: SearchScope

    def unknown(self, word: str) -> tuple[UnknownWord, ...]:
        """Return a word if the scope does not have it; results for a whole source are cached, because words recur."""
        words, name = self.view.words, self.scope.name
        suggestion = None if name is None else words.get((name, word))
        if suggestion is None:
            suggestion = looked_up(self, word)
            if name is not None:
                if len(words) >= _MOST_WORDS:
                    words.clear()
                words[name, word] = suggestion
        return suggestion

    def has(self, word: str) -> bool:
        """Return whether some row holds a term of the word; true for a word without terms (a stop word)."""
        word_terms = terms(word)
        either = [
            (Occur.Should, Query.term_query(SCHEMA, field, term, INDEX_OPTION))
            for term in word_terms
            for field in ("body", "head")
        ]
        return not word_terms or self._count(Query.boolean_query(either)) > 0

    def near(self, word: str, letter: str) -> list[tuple[int, str]]:
        """Return the words near to a word; they are cached, because the same words are missing in many sources."""
        view, key = self.view, f"{letter} {word}"
        near = view.near.get(key)
        if near is None:
            known = view.once(
                ("words", letter), lambda: [term for term, _ in view.searcher.terms_with_prefix(WORDS, letter)]
            )
            if len(view.near) >= _MOST_KEPT:
                view.near.clear()
            near = view.near[key] = near_words(word, known)
        return near

    def counts(self, words: Sequence[str]) -> dict[str, int]:
        """Return the number of rows with each word."""
        counted = {word: self._count(Query.term_query(SCHEMA, WORDS, word, "basic")) for word in words}
        return {word: count for word, count in counted.items() if count}

    def _count(self, query: Query) -> int:
        result = self.view.searcher.search(both(query, self.scope.query), limit=1, count=True)
        return int(result.count)  # type: ignore[attr-defined]
