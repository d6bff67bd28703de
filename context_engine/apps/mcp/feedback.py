"""The `feedback` tool: the judgement of the person who reads an answer."""

from __future__ import annotations

from datetime import UTC, datetime

from context_engine.apps.mcp.arguments import FeedbackArguments
from context_engine.apps.mcp.reply import Call, Reply
from context_engine.errors import InvalidRequest
from context_engine.service.contract.feedback import Feedback
from context_engine.service.judging import keep_feedback


def feedback(call: Call, given: FeedbackArguments) -> Reply:
    """Keep a judgement of one of the caller's answers.

    Raises:
        InvalidRequest: `id` is none of a result of `search`.
        ContextEngineError: see `context_engine.service.judging.keep_feedback`.
    """
    source_id, chunk_id = (None, None) if given.id is None else _passage(given.id)
    asked = Feedback(search_id=given.search_id, thumb=given.thumb, source_id=source_id, chunk_id=chunk_id)
    kept = keep_feedback(call.deployment, call.caller, asked, datetime.now(UTC))
    return Reply(kept, f"Kept: thumbs {kept.thumb} for the {kept.judged}.")


def _passage(result_id: str) -> tuple[str, str]:
    """Return source and chunk of the id of a result; see `passage_id`."""
    _, _, rest = result_id.partition("/")
    source_id, _, chunk_id = rest.partition("/")
    if not source_id or not chunk_id:
        raise InvalidRequest("id: copy the id of a result of `search`, or leave it out to judge the whole answer")
    return source_id, chunk_id
