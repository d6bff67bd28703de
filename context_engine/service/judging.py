"""Judgements that people give while they read an answer, kept in the form that `eval` reads.

They stand below `judgements` in the data folder, one line of JSON each: `passages.jsonl` is a file of questions and
judgements like that of `eval judge`, and `answers.jsonl` holds judgements of whole answers. Where the ledger does not
keep the words of questions, judgements stand in `passages-without-question.jsonl` under the id of their search.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, Literal

from context_engine.core.models import Key, SearchResult, utc_text
from context_engine.core.policy.masking import as_kept
from context_engine.errors import InvalidRequest
from context_engine.evaluation.qrels import hashed_id, judgement
from context_engine.service.appending import append_line
from context_engine.service.callers import Authenticated
from context_engine.service.deployment import Deployment

Thumb = Literal["up", "down"]
GRADES: Final[Mapping[Thumb, int]] = {"up": 2, "down": 0}
"""Grades as `eval judge` gives them: 2 answers the question, 0 does not."""

PASSAGES: Final = Path("judgements", "passages.jsonl")
WITHOUT_QUESTION: Final = Path("judgements", "passages-without-question.jsonl")
ANSWERS: Final = Path("judgements", "answers.jsonl")


def judge_passage(
    deployment: Deployment,
    caller: Authenticated,
    result: SearchResult,
    key: Key,
    thumb: Thumb,
    at: datetime,
) -> None:
    """Keep the judgement of a passage of an answer.

    Args:
        result: of a search of the caller's; see `own_result`.
        key: (source id, chunk id) of the passage.

    Raises:
        InvalidRequest: the answer has no such passage.
        ConfigError: the file cannot be written.
        AuditError: the ledger, which knows the caller's pseudonym, cannot be opened.
    """
    result = as_kept(result, deployment.engine.mask)
    chunk = next((chunk for chunk in result.chunks if (chunk.source_id, chunk.chunk_id) == key), None)
    if chunk is None:
        raise InvalidRequest(f"the answer of search {result.search_id!r} has no passage {'/'.join(key)!r}")
    by = _pseudonym(deployment, caller)
    row = judgement(_question_id(result), result, chunk, GRADES[thumb], as_of=_day(result), by=by, at=at)
    _append(deployment, WITHOUT_QUESTION if _is_hidden(result) else PASSAGES, result, row)


def judge_answer(
    deployment: Deployment,
    caller: Authenticated,
    result: SearchResult,
    answer_id: str,
    thumb: Thumb,
    at: datetime,
) -> None:
    """Keep the judgement of a whole answer.

    Args:
        result: of a search of the caller's; see `own_result`.
        answer_id: of the answer's record; "" if it has none.

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
        "by": _pseudonym(deployment, caller) or "",
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


def _pseudonym(deployment: Deployment, caller: Authenticated) -> str | None:
    """Return the caller's pseudonym in the ledger; None without a name or a ledger."""
    from context_engine.audit.review.stored import ledger_pseudonyms

    ledger = deployment.ledger.opened() if deployment.ledger.recording and caller.principal.id else None
    return None if ledger is None else ledger_pseudonyms(ledger)[0].of_caller(caller.principal.id)


def _append(deployment: Deployment, name: Path, result: SearchResult, row: Mapping[str, Any]) -> None:
    kept = {key: value for key, value in row.items() if key != "query" or not _is_hidden(result)}
    line = json.dumps({**kept, "search_id": result.search_id}, ensure_ascii=False)
    append_line(deployment.setup.data_dir(deployment.data_dir) / name, line)
