"""A search that was made before, rebuilt from its record: callers see their own, operators all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from context_engine.apps.web.addresses import SEARCHES, search_address, with_query
from context_engine.apps.web.funnel import funnel_bars
from context_engine.apps.web.rendering import Page, respond
from context_engine.apps.web.search_view import ShownAnswer, recorded_answer, search_view
from context_engine.core.models import SearchResult
from context_engine.errors import AuditError, AuditOff, RecordNotFound
from context_engine.service.callers import Authenticated
from context_engine.service.deployment import Deployment
from context_engine.service.explaining.explain import explain
from context_engine.service.judging import own_result
from context_engine.service.records import record_of

_ACTIVE: Final = "ask"
router = APIRouter(include_in_schema=False)


@router.get(f"{SEARCHES}/{{search_id}}")
async def search_page(request: Request, search_id: str) -> Response:
    """Show a search again: its passages, its answer, and how they came about."""
    return await respond(request, lambda deployment, caller: _page(deployment, caller, search_id))


def _page(deployment: Deployment, caller: Authenticated, search_id: str) -> Page:
    """Return the page of a search.

    Raises:
        RecordNotFound: neither kept nor recorded, or somebody else's.
        InvalidRequest: the record is not of a search.
        RecordNotWritten, LedgerCorrupt: see `own_result`.
    """
    try:
        result = own_result(deployment, caller, search_id)
    except RecordNotFound:
        raise
    except AuditError:  # parts of the record were erased or never kept: show what is left
        told = explain(deployment, caller, search_id)
        return Page("search_remains.html", {"active": _ACTIVE, "told": told, "bars": funnel_bars(told.funnel)})
    values = {
        "active": _ACTIVE,
        "search": search_view(deployment, result),
        "answer": _answer(deployment, caller, result),
        "asked": result.query,
        "is_unclear": False,
        "thread": (),
        "permalink": search_address(search_id),
        "ask_again": with_query("/", {"domain": result.domain, "q": result.query}),
    }
    return Page("search.html", values)


def _answer(deployment: Deployment, caller: Authenticated, result: SearchResult) -> ShownAnswer | None:
    """Return the newest recorded answer of a search; None if none is recorded in words."""
    try:
        answers = record_of(deployment, caller, result.search_id).answers
        facts: Mapping[str, Any] = answers[-1] if answers else {}
        words = record_of(deployment, caller, facts["id"]).answer if facts else None
    except (AuditOff, RecordNotFound):
        return None
    return None if words is None else recorded_answer(facts, words, result)
