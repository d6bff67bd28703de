"""The rows of a source as a graph, and as a vocabulary: what is read of them beside a search."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from context_engine.adapters.sources.opensearch.conditions import (
    CHUNK_FIELDS,
    Query,
    StoreView,
    any_of,
    both,
    buckets_of,
    chunk_of,
    sources_of,
)
from context_engine.adapters.sources.opensearch.search import IndexedRows, holding_any
from context_engine.adapters.sources.stores.links import MOST_NAMED, GraphRow, SearchedGraph
from context_engine.adapters.sources.stores.question import head_forms, kept
from context_engine.core.models import Key
from context_engine.core.query.features import belongs_to
from context_engine.core.query.spelling import near_words
from context_engine.core.text import terms

_MOST_WORDS: Final = 50_000
"""Words with one first letter that are looked through for a misspelt one."""


class IndexGraph(SearchedGraph[StoreView, IndexedRows]):
    """The rows of a source in a view."""

    def nodes(self, keys: Sequence[Key]) -> Mapping[Key, GraphRow]:
        """Return the rows of the chunks in the view's classes."""
        sources, chunks = ({key[place] for key in keys} for place in (0, 1))
        query = both(any_of("source", sources), any_of("chunk_id", chunks))
        rows = self._view.rows(query, ("source", "chunk_id", "row", "document"))
        known = {(row["source"], row["chunk_id"]): GraphRow(row["row"], row["document"]) for row in rows}
        return {key: known[key] for key in keys if key in known}

    def has_source(self, source_id: str) -> bool:
        """Return whether documents of a source were ever written."""
        return source_id in self._view.state.sources

    def documents(self, names: Collection[str]) -> Mapping[str, Sequence[int]]:
        """Return the documents whose id or title has each name, of those whose heads hold its words."""
        wanted = [(name, query) for name in sorted(names) if (query := _headed(name))]
        each = {"_source": [*CHUNK_FIELDS, "document"], "collapse": {"field": "document"}, "sort": [{"row": "asc"}]}
        visible = both(self._view.state.visible, self._source.query)
        results = self._view.search(
            [{**each, "size": MOST_NAMED, "query": both(visible, query)} for _, query in wanted]
        )
        return {
            name: [row["document"] for row in sources_of(result) if belongs_to(chunk_of(row), name)]
            for (name, _), result in zip(wanted, results, strict=True)
        }

    def sections(self, doc_keys: Collection[int]) -> Mapping[int, Sequence[tuple[int, str | None]]]:
        """Return the row and the section number of each chunk of some documents."""
        rows = self._view.rows(any_of("document", doc_keys), ("row", "document", "fields"))
        return {
            document: [(row["row"], json.loads(row["fields"]).get("section")) for row in some]
            for document, some in groupby(sorted(rows, key=itemgetter("document", "row")), key=itemgetter("document"))
        }

    def beside(self, nodes: Sequence[GraphRow]) -> Mapping[int, Sequence[int]]:
        """Return the rows after and before each row in its document."""
        numbers = [node.rid + step for node in nodes for step in (1, -1)]
        known = self._view.numbered(numbers, ("row", "document"))
        return {
            node.rid: [
                row for row in (node.rid + 1, node.rid - 1) if known.get(row, {}).get("document") == node.doc_key
            ]
            for node in nodes
        }


def _headed(name: str) -> Query | None:
    """Return the query for the heads that hold all words of a name, in one of its spellings; None without words."""
    parts = [both(*({"term": {"head": term}} for term in form)) for form in head_forms(name)]
    return {"bool": {"should": parts, "minimum_should_match": 1}} if parts else None


class IndexWords:
    """The words of some rows (`misspelt.Vocabulary`).

    Args:
        rows: of a source.
        asked: the words that may be asked for; they are looked up in one call.
    """

    def __init__(self, view: StoreView, rows: Query, asked: Sequence[str]) -> None:
        self._view, self._rows, self._asked = view, both(view.state.visible, rows), asked
        self._held = cache(self._look_up)
        self._counts: dict[str, int] = {}

    def has(self, word: str) -> bool:
        """Return whether some row holds a term of the word; true for a word without terms (a stop word)."""
        return word in self._held()

    def near(self, word: str, letter: str) -> list[tuple[int, str]]:
        """Return the words near to a word among those that begin with a letter."""
        # Version 2.19 fails at a prefix (".*") behind the last word of a shard.
        among = {"include": f"{letter}.+", "size": _MOST_WORDS, "shard_size": _MOST_WORDS}
        words = {"terms": {"field": "written", **among}}
        (result,) = self._view.search([{"size": 0, "query": self._rows, "aggs": {"words": words}}])
        self._counts |= {bucket["key"]: bucket["doc_count"] for bucket in buckets_of(result, "words")}
        return near_words(word, [name for name in self._counts if name.startswith(letter)])

    def counts(self, words: Sequence[str]) -> dict[str, int]:
        """Return the number of rows with each word."""
        return {word: self._counts[word] for word in words if word in self._counts}

    def _look_up(self) -> frozenset[str]:
        terms_of = [(word, [kept(term) for term in terms(word)]) for word in self._asked]
        looked_up = [(word, own) for word, own in terms_of if own]
        bodies: list[Mapping[str, Any]] = [
            {"size": 1, "_source": False, "query": both(self._rows, holding_any(own))} for _, own in looked_up
        ]
        results = self._view.search(bodies)
        some = {word for (word, _), result in zip(looked_up, results, strict=True) if result["hits"]["hits"]}
        return frozenset(some | {word for word, own in terms_of if not own})
