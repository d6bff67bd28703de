"""A user's text as index queries.

Queries are built from term queries; the query parser never sees a user's text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tantivy import Occur, Query

from context_engine.models import Expansion
from context_engine.sources.local.index import INDEX_OPTION, JOINT, MOST_DEFINED, SCHEMA
from context_engine.sources.local.options import SearchOptions
from context_engine.text import bigrams, term_weights, terms

__all__ = ["MOST_TERMS", "TextQuery", "both", "constant", "rows", "text_query"]

MOST_TERMS: Final = 256
"""Most different terms of one query; the rest of a longer one is not searched for."""

_CODE_WEIGHT: Final = 2.0
_MOST_WORDS_BESIDE: Final = 3


class TextQuery(NamedTuple):
    """A text ready to run against each part of the index.

    Attributes:
        text: body, pairs and headings; its BM25 is the text score.
        section: the text of whole sections.
        title: scores the share of the words that titles and headings hold, [0, 1].
        defines: scores 1 where a term of the text is defined; None where it can name none.
        codes: finds what holds all terms with a digit; None where the text has none, or many words beside them.
        shortened: the text had more than MOST_TERMS terms.
    """

    text: Query
    section: Query
    title: Query
    defines: Query | None
    codes: Query | None
    shortened: bool


def text_query(text: str, options: SearchOptions, expansions: Sequence[Expansion] = ()) -> TextQuery | None:
    """Return the query for a user's text and other words for it, None if there is nothing in them to search for.

    Words count in the body fully and in headings and metadata by `head_weight`; a term with a digit (a code, a clause
    number) counts there by _CODE_WEIGHT, for a document is more its own than another's that cites it. A piece of a code
    counts less (`text.term_weights`). An expansion of several words counts where they stand side by side.
    """
    weights = term_weights(text)
    others = list(_others(expansions))
    if not weights and not others:
        return None
    kept = dict(list(weights.items())[:MOST_TERMS])
    words = [word for word in terms(text) if word in kept]
    pairs = dict.fromkeys(bigrams(words), options.pairs_weight)
    head = {
        word: weight * (_CODE_WEIGHT if any(map(str.isdigit, word)) else options.head_weight)
        for word, weight in kept.items()
    }
    share = 1.0 / max(len(kept), 1)
    title = [(Occur.Should, constant(_term("title", word), share)) for word in sorted(kept)]
    names = _names(words)
    return TextQuery(
        Query.boolean_query([*_clauses("body", kept), *_clauses("pairs", pairs), *_clauses("head", head), *others]),
        Query.boolean_query(list(_clauses("section", kept))),
        Query.boolean_query(title),
        constant(Query.term_set_query(SCHEMA, "defines", names), 1.0) if names else None,
        _codes(kept),
        len(weights) > MOST_TERMS,
    )


def rows(rids: Collection[int]) -> Query:
    """Return the query for some rows, each with score 0."""
    return constant(Query.term_set_query(SCHEMA, "rid", list(rids)), 0.0)


def constant(query: Query, score: float) -> Query:
    """Return a query that gives each of its hits one score."""
    return Query.const_score_query(query, score)


def both(*queries: Query) -> Query:
    """Return the query for what all of them find, with the sum of their scores."""
    return Query.boolean_query([(Occur.Must, query) for query in queries])


def _term(field: str, word: str) -> Query:
    return Query.term_query(SCHEMA, field, word, INDEX_OPTION)


def _clauses(field: str, weights: Mapping[str, float]) -> Iterator[tuple[Occur, Query]]:
    for word, weight in sorted(weights.items()):
        if weight > 0.0:
            query = _term(field, word)
            yield Occur.Should, query if weight == 1.0 else Query.boost_query(query, weight)


def _others(expansions: Sequence[Expansion]) -> Iterator[tuple[Occur, Query]]:
    for expansion in expansions:
        words = terms(expansion.text)
        field, sought = ("pairs", bigrams(words)) if len(words) > 1 else ("body", words)
        yield from _clauses(field, dict.fromkeys(sought, expansion.weight))


def _codes(kept: Mapping[str, float]) -> Query | None:
    whole = [word for word, weight in kept.items() if weight == 1.0]
    codes = [word for word in whole if any(map(str.isdigit, word))]
    if not codes or len(whole) - len(codes) > _MOST_WORDS_BESIDE:
        return None
    either = (
        Query.boolean_query([(Occur.Should, _term("body", code)), (Occur.Should, _term("head", code))])
        for code in codes
    )
    return constant(both(*either), 0.0)


def _names(words: list[str]) -> list[str]:
    """Return what the text may name: its runs of one to MOST_DEFINED words, each as one word."""
    runs = (
        JOINT.join(words[start : start + length])
        for length in range(1, MOST_DEFINED + 1)
        for start in range(len(words) - length + 1)
    )
    return list(dict.fromkeys(runs))
