"""A filter by the names that the answers of the RAG API use, in the names that chunks have."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from context_engine.core.models import And, Condition, Filter, Not, Or

_NAMES: Final = {"namespace": "source_id", "doc_id": "document_id"}


def by_own_names(asked: Filter) -> Filter:
    """Return a filter with the ids of source and document by their own names; all other fields are as they are."""
    match asked:
        case And(parts):
            return And(tuple(map(by_own_names, parts)))
        case Or(parts):
            return Or(tuple(map(by_own_names, parts)))
        case Not(part):
            return Not(by_own_names(part))
        case Condition():
            return replace(asked, field=_NAMES.get(asked.field, asked.field))
