"""Judgements that people give while they read an answer, on the pages, over HTTP or in a tool; see `judgements`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, Literal

from context_engine.core.models import Authenticated, Key, SearchResult, utc_text
from context_engine.core.policy.masking import as_kept
from context_engine.errors import InvalidRequest
from context_engine.evaluation.qrels import hashed_id, judgement
from context_engine.service.appending import append_line
from context_engine.service.contract.feedback import Feedback, FeedbackKept, Thumb
from context_engine.service.deployment import Deployment
from context_engine.service.judgements import ANSWERS, PASSAGES, WITHOUT_QUESTION
from context_engine.service.records import own_result

GRADES: Final[Mapping[Thumb, int]] = {"up": 2, "down": 0}
"""Grades as `eval judge` gives them: 2 answers the question, 0 does not."""


def keep_feedback(deployment: Deployment, caller: Authenticated, given: Feedback, at: datetime) -> FeedbackKept:
    """Keep a judgement of an answer of the caller's.

    Raises:
        RecordNotFound, RecordNotWritten, AuditError: the answer is unknown, somebody else's, or cannot be read; see
            `own_result`.
        InvalidRequest, ConfigError: see `judge_passage`.
    """
    result = own_result(deployment, caller, given.search_id)
    if given.source_id is not None and given.chunk_id is not None:
        judge_passage(
            deployment, caller, result, (given.source_id, given.chunk_id), given.thumb, at, person=given.person
        )
    else:
        judge_answer(deployment, caller, result, given.answer_id or "", given.thumb, at, person=given.person)
    judged: Literal["passage", "answer"] = "answer" if given.chunk_id is None else "passage"
    return FeedbackKept(search_id=result.search_id, thumb=given.thumb, judged=judged)


def judge_passage(
    deployment: Deployment,
    caller: Authenticated,
    result: SearchResult,
    key: Key,
    thumb: Thumb,
    at: datetime,
    *,
    person: str | None = None,
) -> None:
    """Keep the judgement of a passage of an answer.

    Args:
        result: of a search of the caller's; see `own_result`.
        key: (source id, chunk id) of the passage.
        person: whose judgement it is; None: the caller's, or that of the person for whom it asked.

    Raises:
        InvalidRequest: the answer has no such passage.
        ConfigError: the file cannot be written.
        AuditError: the ledger, which knows the caller's pseudonym, cannot be opened.
    """
    result = as_kept(result, deployment.engine.mask)
    chunk = next((chunk for chunk in result.chunks if (chunk.source_id, chunk.chunk_id) == key), None)
    if chunk is None:
        raise InvalidRequest(f"the answer of search {result.search_id!r} has no passage {'/'.join(key)!r}")
    by = _pseudonym(deployment, person or _judge(caller, result))
    row = judgement(_question_id(result), result, chunk, GRADES[thumb], as_of=_day(result), by=by, at=at)
    _append(deployment, WITHOUT_QUESTION if _is_hidden(result) else PASSAGES, result, row)


def judge_answer(
    deployment: Deployment,
    caller: Authenticated,
    result: SearchResult,
    answer_id: str,
    thumb: Thumb,
    at: datetime,
    *,
    person: str | None = None,
) -> None:
    """Keep the judgement of a whole answer.

    Args:
        result: of a search of the caller's; see `own_result`.
        answer_id: of the answer's record; "" if it has none.
        person: see `judge_passage`.

    Raises:
        ConfigError, AuditError: see `judge_passage`.
    """
    result, day = as_kept(result, deployment.engine.mask), _day(result)
    row = {
        "query_id": _question_id(result),
        "query": result.query,
        "domain": result.domain,
        "as_of": day.isoformat() if day else "",
        "answer_id": answer_id,
        "grade": GRADES[thumb],
        "by": _pseudonym(deployment, person or _judge(caller, result)) or "",
        "at": utc_text(at),
    }
    _append(deployment, ANSWERS, result, {name: value for name, value in row.items() if value != ""})


def _day(result: SearchResult) -> date | None:
    return None if result.request is None else result.request.as_of


def _question_id(result: SearchResult) -> str:
    """Return the id of the question; a hash of its text, unless the ledger may not show what was asked."""
    if _is_hidden(result):
        return result.search_id
    return hashed_id(result.query, result.domain, _day(result))


def _is_hidden(result: SearchResult) -> bool:
    return result.settings.values.audit_query != "text"


def _judge(caller: Authenticated, result: SearchResult) -> str | None:
    """Return who judges: the person for whom the caller asked, else the caller."""
    asked_by = None if result.request is None else result.request.principal.id
    own = not caller.operator or asked_by == caller.principal.id
    return (result.caller.on_behalf_of if own else None) or caller.principal.id


def _pseudonym(deployment: Deployment, person: str | None) -> str | None:
    """Return a person's pseudonym in the ledger; None without a name or a ledger."""
    from context_engine.audit.review.stored import ledger_pseudonyms

    ledger = deployment.ledger.opened() if deployment.ledger.recording and person else None
    return None if ledger is None or not person else ledger_pseudonyms(ledger)[0].of_caller(person)


def _append(deployment: Deployment, name: Path, result: SearchResult, row: Mapping[str, Any]) -> None:
    kept = {key: value for key, value in row.items() if key != "query" or not _is_hidden(result)}
    arm = result.settings.values.experiment_arm
    about = {"search_id": result.search_id, **({"experiment": arm} if arm else {})}
    line = json.dumps({**kept, **about}, ensure_ascii=False)
    append_line(deployment.setup.data_dir(deployment.data_dir) / name, line)
