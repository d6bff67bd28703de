"""What a search may find: the view of a caller, and filters, days and full text queries as the server reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from itertools import count
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.neo4j.server import Transaction
from context_engine.adapters.sources.neo4j.state import VISIBLE, GraphState, StoreClass, read_store
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.adapters.sources.stores.learnt import Learnt
from context_engine.adapters.sources.stores.pushdown import FieldValues
from context_engine.adapters.sources.stores.question import ScoredCollection, StoreQuestion
from context_engine.adapters.sources.stores.scope import Scope, pushed
from context_engine.core.models import AccessScope, Chunk

TITLES: Final = ("title_words", "head_words")
"""The fields of the words of a head."""
_SPECIAL: Final = re.compile(r'([+\-&|!(){}\[\]^"~*?:\\/])')


_MOST_NUMBERS: Final = 200
"""Numbers that a full text query may ask for; the server's limit is 1,024 clauses."""


class NodeCondition(NamedTuple):
    """A condition on a node `n`, in Cypher, and the values of its parameters.

    Attributes:
        lucene: a full text query that finds all chunks that meet it, and perhaps others; "" if there is none.
    """

    text: str
    values: Mapping[str, Any]
    lucene: str = ""


TRUE: Final = NodeCondition("true", {})
NOTHING: Final = NodeCondition("false", {})


class NodeConditions:
    """Sets of rows as conditions (`pushdown.RowSets`)."""

    everything: NodeCondition = TRUE
    nothing: NodeCondition = NOTHING

    def __init__(self) -> None:
        self._names = count()

    def having(self, numbers: Iterable[int]) -> NodeCondition:
        """Return the condition for rows with at least one of some numbers."""
        name, some = f"numbers_{next(self._names)}", list(numbers)
        lucene = " ".join(f"numbers:{number}" for number in some) if len(some) <= _MOST_NUMBERS else ""
        return NodeCondition(f"any(number IN n.attributes WHERE number IN ${name})", {name: some}, lucene)

    def without(self, rows: NodeCondition) -> NodeCondition:
        """Return the condition for all other rows."""
        return NodeCondition(f"NOT ({rows.text})", rows.values)

    def in_all(self, parts: list[NodeCondition]) -> NodeCondition:
        """Return the condition for rows of every part."""
        return self._joined(" AND ", parts, " ".join(f"+({part.lucene})" for part in parts if part.lucene))

    def in_any(self, parts: list[NodeCondition]) -> NodeCondition:
        """Return the condition for rows of any part."""
        known = all(part.lucene for part in parts)
        return self._joined(" OR ", parts, " ".join(f"({part.lucene})" for part in parts) if known else "")

    def _joined(self, word: str, parts: list[NodeCondition], lucene: str) -> NodeCondition:
        values = {name: value for part in parts for name, value in part.values.items()}
        asked = lucene if lucene.count(":") <= _MOST_NUMBERS else ""
        return NodeCondition(f"({word.join(part.text for part in parts)})", values, asked)


class GraphView(NamedTuple):
    """What a caller may read of a store after one commit.

    Attributes:
        store: the name of the store.
        classes: the readable access classes.
        learnt: what the store has learnt, from all classes.
    """

    transaction: Transaction
    store: str
    state: GraphState
    classes: tuple[StoreClass, ...]
    learnt: Learnt

    @classmethod
    def read(cls, transaction: Transaction, store: str, access: AccessScope | None = None) -> GraphView:
        """Return what a caller may read of the last commit; None: everything.

        Raises:
            SourceNotFound, StoreVersionMismatch: as `read_state`.
        """
        state, learnt = read_store(transaction, store)
        return cls(transaction, store, state, state.readable(access), learnt)

    @property
    def keys(self) -> list[int]:
        """The keys of the readable classes."""
        return [each.key for each in self.classes]

    def only(self, key: int) -> GraphView:
        """Return the view of one of its classes."""
        return self._replace(classes=tuple(each for each in self.classes if each.key == key))

    def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement about the visible nodes of the readable classes."""
        return self.transaction.rows(statement, generation=self.state.generation, keys=self.keys, **values)

    def chunks(self, condition: str, **values: Any) -> dict[int, Chunk]:
        """Return the readable chunks that meet a condition, by their numbers, in the order of writing."""
        rows = self.rows(
            f"MATCH (n:{self.store}:Chunk) WHERE ({condition}) AND n.store_class IN $keys AND {VISIBLE}"
            " RETURN n.row, n.indexed_at, n.chunk_id, n.content, n.fields ORDER BY n.row",
            **values,
        )
        return {row: decode((chunk_id, content, fields), at) for row, at, chunk_id, content, fields in rows}

    def values_of(self, name: str, _texts: Sequence[str] = ()) -> FieldValues:
        """Return the number that says "has the field", and (number, value) of each value (`ValuesOf`)."""
        rows = self.transaction.rows(
            f"MATCH (f:{self.store}_field {{name: $name}}) RETURN f.number, f.value ORDER BY f.number", name=name
        )
        has = next((number for number, value in rows if not value), None)
        return has, [(number, json.loads(value)) for number, value in rows if value]

    def fields_of(self, source_id: str) -> tuple[str, ...]:
        """Return the fields of a source's chunks."""
        rows = self.rows(
            f"MATCH (n:{self.store}:Document {{source: $source}}) WHERE n.store_class IN $keys AND {VISIBLE}"
            " UNWIND n.fields AS field RETURN DISTINCT field ORDER BY field",
            source=source_id,
        )
        return tuple(field for (field,) in rows)

    def collection(self, question: StoreQuestion | None) -> ScoredCollection:
        """Return the statistics of the readable texts for the terms of a question."""
        words = [] if question is None else [*{*question.weights, *question.credited}]
        rows = self.rows(
            f"MATCH (t:{self.store}_term) WHERE t.class IN $keys AND t.term IN $words"
            " RETURN t.term, sum(t.texts), sum(t.heads)",
            words=words,
        )
        return ScoredCollection(
            sum(each.texts for each in self.classes),
            sum(each.words for each in self.classes),
            {term: texts for term, texts, _ in rows},
            {term: heads for term, _, heads in rows},
        )


class ScopedNodes(NamedTuple):
    """The rows of a source that a search may find.

    Attributes:
        test: chunks must pass it; None if the condition is exact.
    """

    source_id: str
    condition: NodeCondition
    test: Callable[[Chunk], bool] | None


def scoped(view: GraphView, scope: Scope) -> ScopedNodes:
    """Return the rows of a source."""
    sets = NodeConditions()
    parts = [NodeCondition("n.source = $source", {"source": scope.source_id})]
    parts += [] if scope.as_of is None else [_in_force(scope.as_of)]
    if scope.filters is None:
        return ScopedNodes(scope.source_id, sets.in_all(parts), None)
    query, test = pushed(scope, sets, view.values_of, {})
    return ScopedNodes(scope.source_id, sets.in_all([*parts, query]), test)


def _in_force(day: date) -> NodeCondition:
    text = "(n.from_day IS NULL OR n.from_day <= $day) AND (n.to_day IS NULL OR n.to_day > $day)"
    return NodeCondition(text, {"day": day.toordinal()})


def lucene(field: str, term: str, weight: float = 1.0) -> str:
    """Return a clause of a full text query."""
    escaped = _SPECIAL.sub(r"\\\1", term)
    return f"{field}:{escaped}^{weight:.4f}"


def all_in_head(words: Iterable[str]) -> str:
    """Return the full text query for the heads that hold every one of some words."""
    return " ".join(f"+({' '.join(lucene(field, word) for field in TITLES)})" for word in words)
