"""Filters as tests on numbered values.

A store numbers each (field, value) pair and keeps with each row the numbers of its values. A condition is tested in
Python once on each distinct value of its field; the store is then asked for the rows with the numbers that match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from context_engine.adapters.sources.stores.chunk_rows import canonical
from context_engine.core.models import (
    And,
    Chunk,
    Classification,
    Condition,
    Filter,
    FilterOp,
    Not,
    Or,
    SourceSpec,
    SourceType,
    TrustClass,
)
from context_engine.core.policy.filters import VERSION_FIELDS, matches, own_fields
from context_engine.core.policy.trust import effective_authority

CLAIMS: Final = ""
"""The name under which a document's claims of authority are stored; no field has an empty name."""
NOT_INDEXED: Final = frozenset({"chunk_id", "content_sha256", "previous_chunk_id", "next_chunk_id"})
"""Fields that differ for each chunk: tested on the rows found, not indexed."""
_CLAIM_FIELDS: Final = ("source_type", "authority_tier", "trust_class", "classification")


def attributes_of(chunk: Chunk) -> Iterator[tuple[str, str]]:
    """Yield (field, value) of all values of a chunk that filters see, and for each field (field, "") for having it."""
    yield CLAIMS, canonical([getattr(chunk, name) for name in _CLAIM_FIELDS])
    for name, value in own_fields(chunk).items():
        if name and name not in NOT_INDEXED and value is not None:
            yield name, ""
            yield name, canonical(value)


def claims_chunk(value: list[Any]) -> Chunk:
    """Return a chunk with the claims in a value of CLAIMS."""
    kind, tier, trust, classification = value
    return Chunk(
        content="-",
        source_type=kind and SourceType(kind),
        authority_tier=tier,
        trust_class=trust and TrustClass(trust),
        classification=classification and Classification(classification),
    )


Standing = Callable[[Chunk], Mapping[str, Any]]
"""From a chunk with a document's claims to the fields that the engine sees after applying the manifest's limits."""
ENGINE_FIELDS: Final = frozenset({"source_type", "tier", "authority_tier", "classification"})


def standing_of(spec: SourceSpec, chunk: Chunk) -> Mapping[str, Any]:
    """Return ENGINE_FIELDS of a chunk of a source."""
    authority = effective_authority(chunk, spec)
    return {
        "source_type": str(authority.source_type),
        "tier": authority.tier,
        "authority_tier": authority.tier,
        "classification": str(authority.classification),
    }


_MOST_RESOLVED: Final = 64
T = TypeVar("T")
FieldValues = tuple[int | None, list[tuple[int, Any]]]
"""The number that says "has the field" (None if no row has it), and (number, value) of each distinct value."""
ValuesOf = Callable[[str, Sequence[str]], FieldValues]
"""From a field and some texts to the field's values. Of values in ASCII, those whose JSON holds none of the texts in
either case may be left out; without texts none may."""
_EQUALITIES: Final = frozenset((FilterOp.EQ, FilterOp.NE, FilterOp.IN, FilterOp.NOT_IN))
_AS_IN_JSON: Final = re.compile(r"[a-z][ !#-\[\]-~]*")
"""A text in ASCII that is no number and no date, and that JSON writes as it is."""
_MOST_TEXTS: Final = 32


def texts_of(condition: Condition) -> list[str]:
    """Return lower-case texts for a prefilter: the JSON of each ASCII value that matches has one; [] if unknown."""
    if condition.op not in _EQUALITIES or condition.field in VERSION_FIELDS:
        return []
    value = condition.value
    wanted = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
    texts = [each.casefold() for each in wanted if isinstance(each, str)]
    known = len(texts) == len(wanted) <= _MOST_TEXTS and all(map(_AS_IN_JSON.fullmatch, texts))
    return texts if known else []


class RowSets(Protocol[T]):
    """Builds a store's queries for sets of rows.

    Attributes:
        everything, nothing: the queries for all rows and for none.
    """

    @property
    def everything(self) -> T: ...

    @property
    def nothing(self) -> T: ...

    def having(self, numbers: Iterable[int]) -> T:
        """Return the query for rows with at least one of some numbers."""
        ...

    def without(self, rows: T) -> T:
        """Return the query for all other rows."""
        ...

    def in_all(self, parts: list[T]) -> T:
        """Return the query for rows of every part; at least one part is given."""
        ...

    def in_any(self, parts: list[T]) -> T:
        """Return the query for rows of any part; at least one part is given."""
        ...


class Pushdown(Generic[T]):
    """Turns filters into a store's queries, for one snapshot of the store.

    Args:
        sets: builds the queries.
        values_of: returns the values of a field, at least those that may equal some texts.
        resolved: caches the query of each condition on values; valid for one snapshot.
        constants: fields that are the same for every chunk of the source.
        standing: resolves ENGINE_FIELDS; without it the filter must be `relaxed` first.

    Attributes:
        exact: False once the store could not answer a condition; the rows found must then be tested.
    """

    def __init__(
        self,
        sets: RowSets[T],
        values_of: ValuesOf,
        resolved: MutableMapping[str, T],
        constants: Mapping[str, Any],
        standing: Standing | None = None,
    ) -> None:
        self._sets, self._values_of, self._resolved = sets, values_of, resolved
        self._constants, self._standing = constants, standing
        self.exact = True

    def query(self, filter: Filter, *, widen: bool = True) -> T:
        """Return a query for the chunks that match a filter.

        Args:
            widen: whether a condition that the store cannot answer admits all (else none), so that the query admits
                too much rather than too little, also under a `not`.
        """
        if isinstance(filter, Condition):
            return self._condition(filter, widen)
        if isinstance(filter, Not):
            return self._sets.without(self.query(filter.part, widen=not widen))
        parts = [self.query(part, widen=widen) for part in filter.parts]
        if isinstance(filter, And):
            return self._sets.in_all(parts) if parts else self._sets.everything
        assert isinstance(filter, Or)
        return self._sets.in_any(parts) if parts else self._sets.nothing

    def _condition(self, condition: Condition, widen: bool) -> T:
        name = condition.field
        if name in self._constants:
            return self._sets.everything if matches(condition, self._constants) else self._sets.nothing
        if name in ENGINE_FIELDS and self._standing is not None:
            return self._by_standing(condition, self._standing)
        if name in NOT_INDEXED or name == CLAIMS:
            self.exact = False
            return self._sets.everything if widen else self._sets.nothing
        key = repr(condition)
        query = self._resolved.get(key)
        if query is None:
            if len(self._resolved) >= _MOST_RESOLVED:
                self._resolved.clear()
            query = self._resolved[key] = self._by_value(condition)
        return query

    def _by_value(self, condition: Condition) -> T:
        """Query the values that match; if a missing field matches too, exclude the values that fail instead."""
        texts = texts_of(condition)
        has, values = self._values_of(condition.field, texts)
        holding: list[int] = []
        failing: list[int] = []
        for number, value in values:
            (holding if matches(condition, {condition.field: value}) else failing).append(number)
        if not matches(condition, {}):
            if has is None or not holding:
                return self._sets.nothing
            return self._sets.having(holding if failing or texts else (has,))
        return self._sets.without(self._sets.having(failing)) if failing else self._sets.everything

    def _by_standing(self, condition: Condition, standing: Standing) -> T:
        _, values = self._values_of(CLAIMS, ())
        return self._sets.having(
            number for number, value in values if matches(condition, standing(claims_chunk(value)))
        )


def relaxed(filter: Filter, fields: Collection[str], *, widen: bool = True) -> Filter:
    """Return a filter without the conditions on some fields; it admits at least what the full filter admits."""
    if isinstance(filter, Condition):
        return filter if filter.field not in fields else And(()) if widen else Or(())
    if isinstance(filter, Not):
        return Not(relaxed(filter.part, fields, widen=not widen))
    return type(filter)(tuple(relaxed(part, fields, widen=widen) for part in filter.parts))
