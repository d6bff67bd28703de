"""A search in one view of the base, restricted to a source, a filter and a day."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, groupby
from typing import Final, NamedTuple

from tantivy import Occur, Query

from context_engine.adapters.sources.local import index as indexing
from context_engine.adapters.sources.local import schema
from context_engine.adapters.sources.local.calibrations import in_force as calibration_in_force
from context_engine.adapters.sources.local.candidates import LocalQuery, SearchScope, candidates
from context_engine.adapters.sources.local.filters import IndexRows, fields_held, in_force, values_of
from context_engine.adapters.sources.local.index import INDEX_OPTION, SCHEMA, WORDS
from context_engine.adapters.sources.local.queries import both, constant
from context_engine.adapters.sources.local.view import RowChunk, View, chunks_of_rows
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
        unknown_words=unknown_words(view, asked.scope, question.words, chunks.chunks),
        filter_fields=None if scope.filters is None else tuple(_fields_of(view, asked.scope.source_key)),
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


def _fields_of(view: View, source_key: int | None) -> Iterator[str]:
    """Yield the fields of the source's chunks."""
    source = (Occur.Must, constant(Query.term_query(indexing.SCHEMA, "source", source_key), 0.0))
    for number, name in fields_held(view.connection):
        having = Query.boolean_query([source, (Occur.Must, Query.term_query(indexing.SCHEMA, "attr", number))])
        if view.searcher.search(having, limit=1, count=False).hits:
            yield name


def _nothing(view: View, question: LocalQuery, why: NoticeCode | None, scope: Scope) -> SourceAnswer:
    also = () if why is None else (Notice(why, scope.source_id, str(why)),)
    return SourceAnswer(notes=(*_notes(view, question, scope), *also))


def _notes(view: View, question: LocalQuery, scope: Scope) -> tuple[Notice, ...]:
    notes = tuple(Notice(code, scope.source_id, str(code)) for code in _notices(view, question))
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
_FIRST: Final = 5
"""Chunks that are read before the index is queried: the best few contain most words."""


def unknown_words(
    view: View, scope: SearchScope, words: Sequence[str], chunks: Sequence[Chunk]
) -> tuple[UnknownWord, ...]:
    """Return the words that no text of a scope has, each with the nearest word of its texts.

    The nearest word has the fewest edits; of several, the most frequent. It begins with the word's first letter, or if
    no such word is near, with its second: the first letter may be superfluous or swapped.

    Args:
        chunks: of the scope, best first: most words are in the first ones, and need no look-up.
    """
    texts = cache(lambda: "\n".join(chunk.content.casefold() for chunk in chunks[:_FIRST]))
    return tuple(chain.from_iterable(_unknown(view, scope, word, texts) for word in words))


def _unknown(view: View, scope: SearchScope, word: str, texts: Callable[[], str]) -> tuple[UnknownWord, ...]:
    """Return a word if the scope does not have it; results for a whole source are cached, because words recur."""
    suggestion = None if scope.name is None else view.words.get((scope.name, word))
    if suggestion == () or _is_in(texts(), word.casefold()):
        return ()
    if suggestion is None:
        suggestion = _looked_up(view, scope.query, word)
        if scope.name is not None:
            if len(view.words) >= _MOST_WORDS:
                view.words.clear()
            view.words[scope.name, word] = suggestion
    return suggestion


def _looked_up(view: View, scope: Query, word: str) -> tuple[UnknownWord, ...]:
    return () if _is_held(view, scope, word) else (UnknownWord(word, _nearest(view, scope, word.casefold())),)


def _is_in(texts: str, word: str) -> bool:
    """Whether a text contains the word as a whole word."""
    start = texts.find(word)
    while start >= 0:
        end = start + len(word)
        if not texts[max(start - 1, 0) : start].isalnum() and not texts[end : end + 1].isalnum():
            return True
        start = texts.find(word, end)
    return False


def _is_held(view: View, scope: Query, word: str) -> bool:
    """Whether some row holds a term of the word; true for a word without terms (a stop word)."""
    word_terms = terms(word)
    either = [
        (Occur.Should, Query.term_query(SCHEMA, field, term, INDEX_OPTION))
        for term in word_terms
        for field in ("body", "head")
    ]
    return not word_terms or _count(view, both(Query.boolean_query(either), scope)) > 0


def _nearest(view: View, scope: Query, word: str) -> str:
    for letter in dict.fromkeys(word[:2]):
        for _, tied in groupby(_near(view, word, letter), key=lambda candidate: candidate[0]):
            if counts := dict(_held(view, scope, [name for _, name in tied])):
                return min(counts, key=lambda word_of: (-counts[word_of], word_of))
    return ""


def _near(view: View, word: str, letter: str) -> list[tuple[int, str]]:
    """Return the words of all texts, of any source, that begin with a letter and are near to a word.

    They are cached, because the same words are missing in many small sources.
    """
    key = f"{letter} {word}"
    near = view.near.get(key)
    if near is None:
        known = view.once(
            ("words", letter), lambda: [term for term, _ in view.searcher.terms_with_prefix(WORDS, letter)]
        )
        if len(view.near) >= _MOST_KEPT:
            view.near.clear()
        near = view.near[key] = near_words(word, known)
    return near


def _held(view: View, scope: Query, words: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the words that occur in the scope, with the number of rows."""
    for word in words:
        count = _count(view, both(Query.term_query(SCHEMA, WORDS, word, "basic"), scope))
        if count:
            yield word, count


def _count(view: View, query: Query) -> int:
    result = view.searcher.search(query, limit=1, count=True)
    return int(result.count)  # type: ignore[attr-defined]
