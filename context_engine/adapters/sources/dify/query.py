"""Queries in Dify's form: at most 250 characters, and filters as metadata conditions.

Shortening: the query is split at white space (text without spaces at its punctuation, then every 40 characters), and
repeated words are dropped, ignoring case. Words with a digit or in capitals rank first, then other words, then
function words; within each group rarer words, then longer, then earlier ones. The best words that fit are sent in
their original order.

Filters: the conditions sent admit at least what the filter admits, and every result is checked again here; one Dify
version silently drops conditions. Dify compares text case-sensitively and drops documents that lack a field, so a text
is sent in its usual spellings and a negative condition only together with "empty"; what cannot be expressed safely is
applied here. Dify has one level of conditions: the expressible parts of an `and`, or one `or` that is wholly
expressible."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.dify.metadata import MARKED
from context_engine.core.models import And, Condition, Filter, FilterOp, Or
from context_engine.core.policy.filters import VERSION_FIELDS
from context_engine.core.text import STOP_WORDS, bare_version

MOST_CHARACTERS: Final = 250
_LONGEST_WORD: Final = 40
_PART: Final = re.compile(rf"[^、。，；：？！,;:?!]{{1,{_LONGEST_WORD}}}")
_EDGE: Final = "\"'“”‘’()[]{}<>.,;:?!…、。，；：？！"


def shortened(query: str) -> str:
    """Return the query if it has at most 250 code points, else its rarest words.

    >>> shortened("What is the limit?")
    'What is the limit?'
    >>> shortened("limit " * 100 + "of NPA-001")
    'limit of NPA-001'
    """
    if len(query) <= MOST_CHARACTERS:
        return query
    words = [part for word in query.split() for part in _parts(word)]
    counts = Counter(_folded(word) for word in words)
    first: dict[str, int] = {}
    for place, word in enumerate(words):
        first.setdefault(_folded(word), place)
    ranked = sorted(first.values(), key=lambda place: (_group(words[place]), counts[_folded(words[place])],
                                                       -len(words[place]), place))  # fmt: skip
    room = MOST_CHARACTERS + 1
    taken: list[int] = []
    for place in ranked:
        if len(words[place]) + 1 <= room:
            room -= len(words[place]) + 1
            taken.append(place)
    return " ".join(words[place] for place in sorted(taken)) or query.strip()[:MOST_CHARACTERS]


def _parts(word: str) -> list[str]:
    return [word] if len(word) <= _LONGEST_WORD else _PART.findall(word)


def _folded(word: str) -> str:
    return word.strip(_EDGE).casefold()


def _group(word: str) -> int:
    bare = word.strip(_EDGE)
    if any(char.isdigit() for char in bare) or (len(bare) > 1 and bare.isupper()):
        return 0
    return 2 if not bare or bare.casefold() in STOP_WORDS else 1


_HIDDEN: Final = frozenset(
    (
        *("source", "source_id", "source_type", "tier", "authority_tier", "trust_class", "classification", "domain"),
        *("chunk_id", "document_id", "dataset_id", "title", "heading_path", "position", "fetched_at", "ttl_seconds"),
        *("effective_from", "effective_to", "superseded_by"),
    )
)
"""Fields that the engine or the chunk determines; metadata of the same name is ignored."""
_OF_PLACE: Final = frozenset(["section", "page", "reference"])
"""Fields of a chunk's line; metadata would give one value for all chunks of a document."""
_ORDERS: Final = {FilterOp.GT: ">", FilterOp.GTE: "≥", FilterOp.LT: "<", FilterOp.LTE: "≤"}
_LIKE: Final = {FilterOp.CONTAINS: "contains", FilterOp.STARTS_WITH: "start with", FilterOp.ENDS_WITH: "end with"}
_WILD: Final = frozenset("%_\\")  # wildcards of SQL's LIKE, which Dify passes on
_NEGATED: Final = {FilterOp.NE: FilterOp.EQ, FilterOp.NOT_IN: FilterOp.IN}
Row = dict[str, Any]


class Pushed(NamedTuple):
    """The part of a filter sent to Dify, or None; `complete` if it is the whole filter."""

    conditions: Mapping[str, Any] | None
    complete: bool


def push_down(
    filter: Filter | None, fields: Mapping[str, str], names: Mapping[str, str], *, chunk_line: bool = False
) -> Pushed:
    """Return the part of a filter that Dify can test.

    Args:
        fields: the dataset's metadata fields with their types; others are never sent, because Dify then finds nothing.
        names: {our name: Dify's name} from the manifest.
        chunk_line: whether the chunks state their document and version themselves.
    """
    if filter is None:
        return Pushed(None, True)
    of_place = _OF_PLACE if chunk_line or MARKED in fields else ()
    known = _Fields(fields, names, _HIDDEN.union(of_place, VERSION_FIELDS if chunk_line else ()))
    parts = list(filter.parts) if isinstance(filter, And) else [filter]
    rows = [known.row(part) for part in parts]
    expressed = [row for row in rows if row is not None]
    if expressed:
        return Pushed({"logical_operator": "and", "conditions": expressed}, len(expressed) == len(parts))
    for part in parts:
        either = known.either(part)
        if either:
            complete = len(parts) == 1 and all(row["comparison_operator"] != "not in" for row in either)
            return Pushed({"logical_operator": "or", "conditions": either}, complete)
    return Pushed(None, not parts)


class _Fields:
    """The fields of a dataset, and the conditions that Dify can test on them."""

    def __init__(self, fields: Mapping[str, str], names: Mapping[str, str], hidden: Collection[str]) -> None:
        self._fields, self._names, self._hidden = fields, names, hidden

    def row(self, part: Filter) -> Row | None:
        """Return one Dify condition for a part of the filter, or None."""
        if not isinstance(part, Condition) or part.op in _NEGATED or _names_a_numbered_version(part):
            return None
        name, kind = self._named(part.field)
        if name is None:
            return None
        if part.op is FilterOp.NOT_EMPTY:
            return {"name": name, "comparison_operator": "not empty", "value": ""}
        operator, value = (_text_test if kind == "string" else _number_test)(part.op, part.value)
        return None if operator is None else {"name": name, "comparison_operator": operator, "value": value}

    def either(self, part: Filter) -> list[Row] | None:
        """Return conditions of which one must hold, or None if a part cannot be expressed."""
        if isinstance(part, Or):
            rows: list[Row] = []
            for alternative in part.parts:
                conditions = self.either(alternative)
                if not conditions:
                    return None
                rows += conditions
            return rows
        if isinstance(part, Condition) and part.op in _NEGATED:
            return None if _names_a_numbered_version(part) else self._negated(part)
        row = self.row(part)
        return None if row is None else [row]

    def _negated(self, part: Condition) -> list[Row] | None:
        """Return a negated text condition; Dify's case-sensitive comparison admits no less than ours."""
        name, kind = self._named(part.field)
        values = part.value if part.op is FilterOp.NOT_IN else (part.value,)
        if name is None or kind != "string" or not values or not all(isinstance(item, str) and item for item in values):
            return None
        row = {"name": name, "comparison_operator": "not in", "value": list(values)}
        return [row, {"name": name, "comparison_operator": "empty", "value": ""}]

    def _named(self, field: str) -> tuple[str | None, str]:
        field = "document_version" if field == "version" else field
        name = self._names.get(field, field)
        kind = self._fields.get(name, "")
        return (None, "") if field in self._hidden or kind not in ("string", "number", "time") else (name, kind)


def _names_a_numbered_version(part: Condition) -> bool:
    """Whether this is a condition on a version such as "3.2", which a document may write as "v3.2"."""
    values = part.value if isinstance(part.value, list | tuple) else (part.value,)
    named = part.field in VERSION_FIELDS and part.op not in (FilterOp.EMPTY, FilterOp.NOT_EMPTY)
    return named and any(bare_version(str(value))[:1].isdigit() for value in values)


def _text_test(op: FilterOp, value: Any) -> tuple[str | None, Any]:
    if op is FilterOp.EQ and isinstance(value, str) and _is_plain_text(value):
        spellings = _spellings(value)
        return ("is", value) if len(spellings) == 1 else ("in", spellings)
    if op is FilterOp.IN and value and all(isinstance(text, str) and _is_plain_text(text) for text in value):
        return "in", list(dict.fromkeys(spelling for text in value for spelling in _spellings(text)))
    if op in _LIKE and isinstance(value, str) and value and len(_spellings(value)) == 1 and not _WILD & set(value):
        return _LIKE[op], value
    return None, None


def _number_test(op: FilterOp, value: Any) -> tuple[str | None, Any]:
    number = _number(value)
    if number is None:
        return None, None
    return ("=", number) if op is FilterOp.EQ else (_ORDERS.get(op), number)


def _spellings(text: str) -> list[str]:
    """Return the spellings that this package, unlike Dify, treats as equal: as is, lower, upper, capitalised, title."""
    return list(dict.fromkeys([text, text.lower(), text.upper(), text.capitalize(), text.title()]))


def _is_plain_text(text: str) -> bool:
    """Whether a text is compared as text: a number or a date equals other spellings of itself."""
    return bool(text.strip()) and not text.strip()[0].isdigit() and text.strip()[0] not in "+-."


def _number(value: Any) -> int | float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
