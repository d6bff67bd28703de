"""The searches of an answer that took several, and a search rebuilt from its record.

Callers see their own searches, operators all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fastapi import APIRouter, Request, Response

from context_engine.answer.gathering import Gathering, SearchRound, read_gathering
from context_engine.apps.web.addresses import SEARCHES, search_address, with_query
from context_engine.apps.web.charts import funnel_bars
from context_engine.apps.web.rendering import Page, respond
from context_engine.apps.web.search_view import recorded_answer, search_view
from context_engine.core.models import Authenticated, RankedChunk, SearchResult
from context_engine.core.policy.access import access_class
from context_engine.errors import AuditError, AuditOff, RecordNotFound
from context_engine.service.deployment import Deployment
from context_engine.service.explaining.explain import explained_record
from context_engine.service.records import find_owned, own_result, record_of

_WHY: Final = {
    "question": "the question itself",
    "part": "a part of the question",
    "gap": "words that no passage had",
    "translation": "the question in another language",
    "model": "the model asked for it",
}
_STOPPED: Final = {
    "complete": "Every part of the question is covered.",
    "nothing_new": "There was nothing else to search for.",
    "rounds": "As many searches were made as are allowed.",
    "hops": "No further citation may be followed.",
    "deadline": "The time was up.",
    "budget": "The cost limit was reached.",
    "policy_failed": "The model that decides what to search failed.",
    "search_failed": "The next search failed.",
}
_ACTIVE: Final = "ask"
_ERASED: Final = "Parts of its record were erased or never kept."
_NO_RIGHT: Final = "It showed texts that you may not read today."
router = APIRouter(include_in_schema=False)


class ShownStep(NamedTuple):
    """One search.

    Attributes:
        number: 1-based.
        why: it was made, in words.
        passages: number of passages that were read.
        used: number of those that the answer could rest on.
        address: of its page.
    """

    number: int
    query: str
    why: str
    passages: int
    used: int
    search_id: str
    address: str


class StepsView(NamedTuple):
    """The searches of an answer.

    Attributes:
        stopped: why there was no further one, as a sentence.
        found_by: for each passage of the answer, best first, the number of the search that found it.
    """

    steps: tuple[ShownStep, ...]
    stopped: str
    found_by: tuple[int, ...]

    @property
    def counted(self) -> str:
        """The number of searches, with the noun."""
        return "one search" if len(self.steps) == 1 else f"{len(self.steps)} searches"

    def of(self, rank: int) -> ShownStep:
        """Return the search that found the passage of a rank, 1-based."""
        return self.steps[self.found_by[rank - 1] - 1]


def steps_view(gathering: Gathering) -> StepsView:
    """Return the searches of an answer just made."""
    return _view(gathering, [len(searched.keys) for searched in gathering.rounds])


def recorded_steps(facts: Mapping[str, Any], words: Mapping[str, Any]) -> StepsView | None:
    """Return the searches of an answer from its record; None if it took one.

    Args:
        facts, words: of the record; see `answer_record`.
    """
    workflow = facts.get("workflow")
    if workflow is None:
        return None
    return _view(read_gathering(workflow, words["searches"]), [made["chunks"] for made in workflow["rounds"]])


def _view(gathering: Gathering, read: Sequence[int]) -> StepsView:
    """Return the view of searches, of each of which some passages were read."""
    found_by = tuple(pick.round + 1 for pick in gathering.picks)
    numbered = enumerate(zip(gathering.rounds, read, strict=True), start=1)
    steps = (_step(number, searched, passages, found_by.count(number)) for number, (searched, passages) in numbered)
    return StepsView(tuple(steps), _STOPPED.get(gathering.stopped, ""), found_by)


def _step(number: int, searched: SearchRound, passages: int, used: int) -> ShownStep:
    why = f"a passage cites {searched.cites}" if searched.why == "citation" else _WHY.get(searched.why, searched.why)
    address = search_address(searched.search_id)
    return ShownStep(number, searched.query, why, passages, used, searched.search_id, address)


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
    except AuditError:
        return _remains(deployment, caller, search_id, _ERASED)
    if not _may_read(deployment, caller, result):
        return _remains(deployment, caller, search_id, _NO_RIGHT)
    answer = _answer(deployment, caller, result)
    values = {
        "active": _ACTIVE,
        "search": search_view(deployment, result),
        "answer": None if answer is None else recorded_answer(*answer, result),
        "steps": None,  # the passages are those of this search alone
        "searches": None if answer is None else recorded_steps(*answer),
        "asked": result.query,
        "is_unclear": False,
        "thread": (),
        "permalink": search_address(search_id),
        "ask_again": with_query("/", {"domain": result.domain, "q": result.query}),
    }
    return Page("search.html", values)


def _remains(deployment: Deployment, caller: Authenticated, search_id: str, why: str) -> Page:
    """Return a page of what the log itself says of a search, without any text."""
    record = explained_record(find_owned(deployment, caller, search_id), demo=deployment.demo)
    return Page(
        "search_remains.html", {"active": _ACTIVE, "told": record, "why": why, "bars": funnel_bars(record.funnel)}
    )


def _may_read(deployment: Deployment, caller: Authenticated, result: SearchResult) -> bool:
    """Return whether a caller may read every passage of a result today; operators read every record.

    Raises:
        PolicyError: the access policy failed.
    """
    if caller.operator:
        return True
    known, access = deployment.known_to(caller.principal).domains.get(result.domain), deployment.setup.access
    if known is None:
        return False
    declared = {spec.id: spec.classification for spec in known.sources}
    scope = access.decide(caller.principal, deployment.setup.registry.domain(result.domain)).scope

    def is_readable(chunk: RankedChunk) -> bool:
        source = chunk.source_id
        if source not in declared or scope is None:
            return source in declared
        return scope.admits(access_class(access.rules_of(source), declared[source], chunk.classification))

    return all(map(is_readable, result.chunks))


def _answer(
    deployment: Deployment, caller: Authenticated, result: SearchResult
) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """Return facts and words of the newest recorded answer of a search; None if none is recorded in words."""
    try:
        answers = record_of(deployment, caller, result.search_id).answers
        facts: Mapping[str, Any] = answers[-1] if answers else {}
        words = record_of(deployment, caller, facts["id"]).answer if facts else None
    except (AuditOff, RecordNotFound):
        return None
    return None if words is None else (facts, words)
