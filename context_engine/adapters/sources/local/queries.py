"""A user's text and filters as index queries.

Queries are built from term queries; the query parser never sees a user's text. A filter is numbers of values in SQLite,
or a set of rows as a query of tantivy.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Final, NamedTuple

from tantivy import FieldType, Occur, Query

from context_engine.adapters.sources.local.index import INDEX_OPTION, SCHEMA, WORDS
from context_engine.adapters.sources.stores.chunk_rows import names_in
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.pushdown import CLAIMS, FieldValues, attributes_of
from context_engine.adapters.sources.stores.question import (
    CODE_WEIGHT,
    HEADED,
    INFLECTED,
    MOST_TERMS,
    SYNONYM,
    code_words,
    with_synonyms,
)
from context_engine.core.models import Chunk, Expansion
from context_engine.core.query.spelling import is_offered
from context_engine.core.text import bigrams, term_weights, terms, terms_of_word, tokens

_MOST_REMEMBERED: Final = 200_000
FEW_ROWS: Final = 400
"""Rows up to which each is looked up, instead of the whole dictionary of rows."""


class Held(NamedTuple):
    """A term of the text, or of an expansion of the whole text.

    Attributes:
        query: scores 1 for rows with the term, by any name, in their text, INFLECTED for rows with other forms of the
            word only, HEADED for rows with it in the heading only.
    """

    term: str
    weight: float
    query: Query


class TextQuery(NamedTuple):
    """A text ready to run against each part of the index.

    Attributes:
        terms: of the text and the given expansions, each once, without synonyms.
        text: body, pairs and headings; its BM25 is the text score.
        held: the terms for coverage; each row that `text` finds holds at least one.
        section: the text of whole sections.
        title: scores the share of the words in titles and headings, [0, 1].
        defines: scores 1 for rows that define a term of the text; None if it can name none.
        codes: finds rows with all terms that have a digit; None if the text has no such term, or many other words.
        shortened: whether the text had more than MOST_TERMS terms.
    """

    terms: tuple[str, ...]
    text: Query
    held_words: tuple[Held, ...]
    section: Query
    title: Query
    defines: Query | None
    codes: Query | None
    shortened: bool


def text_query(text: str, options: SearchOptions, expansions: Sequence[Expansion] = ()) -> TextQuery | None:
    """Return the query for a user's text and its expansions, or None if they have no term.

    Words count fully in the body and by `head_weight` in headings and metadata; a term with a digit (a code, a clause
    number) counts there by CODE_WEIGHT, to rank the document itself above those that cite it. Pieces of codes count
    less (`text.term_weights`). A term with several names counts by the name that fits a chunk best, never twice; of a
    name of several words only the pairs count.
    """
    others = [word for expansion in expansions for word in terms(expansion.text)]
    names_of = [(each, _name(each, options)) for each in with_synonyms(text, options, expansions)]
    weights = term_weights(text)
    if not weights and not any(map(terms, (expansion.text for expansion in expansions))):
        return None
    kept = dict(list(weights.items())[:MOST_TERMS])
    words = [word for word in terms(text) if word in kept]
    pairs = dict.fromkeys(bigrams(words), options.pairs_weight)
    head = {
        word: weight * (CODE_WEIGHT if any(map(str.isdigit, word)) else options.head_weight)
        for word, weight in kept.items()
    }
    share = 1.0 / max(len(kept), 1)
    title = [(Occur.Should, constant(_term("title", word), share)) for word in sorted(kept)]
    names = names_in(words)
    return TextQuery(
        tuple(dict.fromkeys((*kept, *others))),
        Query.boolean_query([*_by_name(kept, pairs, names_of), *_clauses("head", head)]),
        tuple(_held(kept, _as_written(text), names_of)),
        Query.boolean_query(list(_clauses("section", kept))),
        Query.boolean_query(title),
        constant(Query.term_set_query(SCHEMA, "defines", names), 1.0) if names else None,
        _codes(kept),
        len(weights) > MOST_TERMS,
    )


def rows(rids: Collection[int]) -> Query:
    """Return the query for some rows, each with score 0."""
    if len(rids) > FEW_ROWS:
        return constant(Query.term_set_query(SCHEMA, "rid", list(rids)), 0.0)
    # A set query walks the whole term dictionary; a few single look-ups are faster.
    return constant(
        Query.boolean_query([(Occur.Should, Query.term_query(SCHEMA, "rid", rid)) for rid in sorted(rids)]), 0.0
    )


def constant(query: Query, score: float) -> Query:
    """Return a query that gives each hit the same score."""
    return Query.const_score_query(query, score)


def both(*queries: Query) -> Query:
    """Return the query for rows that all of `queries` find, with the sum of their scores."""
    return Query.boolean_query([(Occur.Must, query) for query in queries])


def _term(field: str, word: str) -> Query:
    return Query.term_query(SCHEMA, field, word, INDEX_OPTION)


def _clauses(field: str, weights: Mapping[str, float]) -> Iterator[tuple[Occur, Query]]:
    for word, weight in sorted(weights.items()):
        if weight > 0.0:
            query = _term(field, word)
            yield Occur.Should, query if weight == 1.0 else Query.boost_query(query, weight)


def _by_name(
    kept: Mapping[str, float], pairs: Mapping[str, float], expansions: Sequence[tuple[Expansion, Query]]
) -> Iterator[tuple[Occur, Query]]:
    """Yield the clauses of body and pairs; a term with several names has one clause, scored by the best name.

    On 1 428 questions with terms of a glossary R@10 / MAP@10 rise by .004 / .003, and by .032 / .040 if the texts use
    other names of the terms. Adding up the names gained about as much there and lost .003 MAP in the first case.
    """
    words, beside = dict(kept), dict(pairs)
    names: dict[str, list[Query]] = {}
    for expansion, query in expansions:
        names.setdefault(expansion.term or expansion.text, []).append(query)
    written = {expansion.term for expansion, _ in expansions}
    for term, others in names.items():
        own = terms(term) if term in written else []
        clauses = [*_clauses("body", _taken(words, own)), *_clauses("pairs", _taken(beside, bigrams(own)))]
        yield Occur.Should, Query.disjunction_max_query([Query.boolean_query(clauses), *others] if clauses else others)
    yield from _clauses("body", words)
    yield from _clauses("pairs", beside)


def _held(
    kept: Mapping[str, float], written: Mapping[str, Query], expansions: Sequence[tuple[Expansion, Query]]
) -> Iterator[Held]:
    """Yield the terms in alphabetical order; a term counts if any of its names occurs. A synonym counts INFLECTED."""
    names: dict[str, list[Query]] = {}
    others: dict[str, list[Query]] = {}
    weights = dict(kept)
    for expansion, query in expansions:
        for word in terms(expansion.term or expansion.text):
            weights.setdefault(word, expansion.weight)
            (others if expansion.by == SYNONYM else names).setdefault(word, []).append(query)
    for word, weight in sorted(weights.items()):
        text = Query.boolean_query([(Occur.Should, query) for query in (_term("body", word), *names.get(word, ()))])
        word_query = constant(text, 1.0)
        if word in written and word not in names:
            word_query = Query.boolean_query(
                [
                    (Occur.Should, constant(text, INFLECTED)),
                    (Occur.Should, constant(written[word], 1.0 - INFLECTED)),
                ]
            )
        head = constant(_term("head", word), 1.0 if any(map(str.isdigit, word)) else HEADED)
        ways = [word_query, head]
        if word in others:
            ways.append(constant(Query.boolean_query([(Occur.Should, query) for query in others[word]]), INFLECTED))
        yield Held(word, weight, Query.disjunction_max_query(ways))


def _as_written(text: str) -> dict[str, Query]:
    """Return {stem: query for the forms of its words in the question}, for stems whose forms are all indexed.

    Stemming merges words that a question distinguishes: a question about `rated` rarely means `rates`. Counting another
    form a little less gains, in a search by text only, R@10 / MAP@10 +.002 / +.004 in regulation with COVERAGE_EXPONENT
    .3 instead of .25, +.001 / +.002 in an FAQ and nothing in abstracts.
    """
    forms: dict[str, list[str]] = {}
    for word in dict.fromkeys(tokens(text)):
        for stem in terms_of_word(word):
            forms.setdefault(stem, []).append(word)
    return {
        stem: Query.boolean_query(
            [(Occur.Should, Query.term_query(SCHEMA, WORDS, word, "basic")) for word in forms_of_stem]
        )
        for stem, forms_of_stem in forms.items()
        if all(map(is_offered, forms_of_stem))
    }


def _name(expansion: Expansion, options: SearchOptions) -> Query:
    words = terms(expansion.text)
    if len(words) > 1:
        weight = expansion.weight * options.pairs_weight
        return Query.boolean_query(list(_clauses("pairs", dict.fromkeys(bigrams(words), weight))))
    return Query.boost_query(_term("body", words[0]), expansion.weight) if words else Query.empty_query()


def _taken(weights: dict[str, float], words: Sequence[str]) -> dict[str, float]:
    """Remove and return the weights of some words."""
    return {word: weights.pop(word) for word in dict.fromkeys(words) if word in weights}


def _codes(kept: Mapping[str, float]) -> Query | None:
    codes = code_words(kept)
    if not codes:
        return None
    either = (
        Query.boolean_query([(Occur.Should, _term("body", code)), (Occur.Should, _term("head", code))])
        for code in codes
    )
    return constant(both(*either), 0.0)


class Dictionary:
    """Numbers each (field, value), adding new ones in the writer's transaction.

    Args:
        connection: a writer's.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[tuple[str, str], int] = {}

    def numbers(self, chunk: Chunk) -> list[int]:
        """Return the numbers of `attributes_of` a chunk."""
        return [self._number(name, value) for name, value in attributes_of(chunk)]

    def forget(self) -> None:
        """Empty the cache: the transaction that added the numbers was rolled back."""
        self._known.clear()

    def _number(self, name: str, value: str) -> int:
        key = (name, value)
        number = self._known.get(key)
        if number is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            number = self._known[key] = self._look_up(key) or self._add(key)
        return number

    def _look_up(self, key: tuple[str, str]) -> int | None:
        row = self._connection.execute("SELECT attr_id FROM attributes WHERE name = ? AND value = ?", key).fetchone()
        return None if row is None else int(row[0])

    def _add(self, key: tuple[str, str]) -> int:
        return int(self._connection.execute("INSERT INTO attributes(name, value) VALUES (?, ?)", key).lastrowid or 0)


_LIKELY: Final = " AND (value = '' OR length(value) < length(CAST(value AS BLOB)) OR {})"


def values_of(connection: sqlite3.Connection, name: str, texts: Sequence[str] = ()) -> FieldValues:
    """Return the values of a field that may equal some texts (`ValuesOf`)."""
    if any("\ud800" <= char <= "\udfff" for char in name):
        return None, []  # lone surrogates cannot be stored
    has, values = None, []
    likely = _LIKELY.format(" OR ".join(["value LIKE ?"] * len(texts))) if texts else ""
    rows = connection.execute(
        f"SELECT attr_id, value FROM attributes WHERE name = ?{likely}", (name, *(f"%{text}%" for text in texts))
    )
    for number, text in rows:
        if text:
            values.append((number, json.loads(text)))
        else:
            has = number
    return has, values


def fields_held(connection: sqlite3.Connection) -> Iterator[tuple[int, str]]:
    """Yield (number of having it, field) for each field that some chunk of the base has or had."""
    name = CLAIMS
    while True:  # skip from name to name by the index, past the many values of each
        row = connection.execute(
            "SELECT attr_id, name FROM attributes WHERE name > ? ORDER BY name, value LIMIT 1", (name,)
        ).fetchone()
        if row is None:
            return
        number, name = row
        yield number, name


class IndexRows:
    """Sets of rows as queries of the index (`pushdown.RowSets`)."""

    everything = Query.all_query()
    nothing = Query.empty_query()

    def having(self, numbers: Iterable[int]) -> Query:
        """Return the query for rows with at least one of some numbers."""
        wanted = list(numbers)
        return Query.term_set_query(SCHEMA, "attr", wanted) if wanted else self.nothing

    def without(self, rows: Query) -> Query:
        """Return the query for all other rows."""
        return Query.boolean_query([(Occur.Must, self.everything), (Occur.MustNot, rows)])

    def in_all(self, parts: list[Query]) -> Query:
        """Return the query for rows of every part."""
        return _joined(Occur.Must, parts)

    def in_any(self, parts: list[Query]) -> Query:
        """Return the query for rows of any part."""
        return _joined(Occur.Should, parts)


def in_force(day: date) -> list[tuple[Occur, Query]]:
    """Return clauses that exclude chunks not in force on a day; a missing date is no bound."""
    number = day.toordinal()
    later = Query.range_query(SCHEMA, "from_day", FieldType.Unsigned, lower_bound=number, include_lower=False)
    over = Query.range_query(SCHEMA, "to_day", FieldType.Unsigned, upper_bound=number)
    return [(Occur.MustNot, later), (Occur.MustNot, over)]


def _joined(occur: Occur, parts: list[Query]) -> Query:
    return parts[0] if len(parts) == 1 else Query.boolean_query([(occur, part) for part in parts])
