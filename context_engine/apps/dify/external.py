"""Dify's External Knowledge API: requests and answers.

Dify sorts records by `score`. It turns any status but 200 into "succeeded, nothing found", and drops records whose
`metadata` is not an object; since 1.16 its node fails instead. After 429 and 5xx it repeats the request three times. So
every answer is a 200, and failures are reported in a record. Dify refuses a registration only on 403, 404 and
502, so a wrong token is a 403.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from context_engine.apps.dify.conditions import read_conditions
from context_engine.apps.dify.dify_json import fitted, plain, plain_text, unusable
from context_engine.apps.dify.node_output import (
    BELOW_NOTICE,
    SCORE_STEP,
    content_for_model,
    document_metadata,
    missing_sources,
    notice_metadata,
    of_missing_sources,
    title_for_model,
)
from context_engine.apps.dify.reader_texts import Tongue, reader_text, tongue_of
from context_engine.core.context import for_a_model
from context_engine.core.models import Decision, Filter, NoticeCode, SearchResult, SourceStatus
from context_engine.core.protocols import Mask
from context_engine.errors import InvalidRequest

LEAST_TOKEN: Final = 32
_MOST_RECORDS: Final = 100
_MOST_SHOWN: Final = 40
_MOST_DIGITS: Final = 4000
_DEFAULT_TOP_K: Final = 4
_FIRST_EAST_ASIAN: Final = "\u3000"
_FAILED_SCORE: Final = 0.01
"""The score of a notice without passages, below the results of other knowledge bases in the same node."""


@dataclass(frozen=True, slots=True)
class ExternalAnswer:
    """An HTTP answer: a status and a JSON body."""

    status: int
    body: Mapping[str, Any]

    def encoded(self) -> bytes:
        """Return the body as UTF-8 JSON."""
        return json.dumps(plain(self.body), ensure_ascii=False, default=str).encode("utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalRequest:
    """A request of the External Knowledge API.

    Attributes:
        knowledge_id: a domain.
        score_threshold: [0, 1], compared with the absolute signal, which is comparable across questions; relevance is
            relative to the other candidates of one search.
        raw: the request as received.
    """

    knowledge_id: str
    query: str
    top_k: int
    score_threshold: float
    filters: Filter | None
    raw: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


def authorised(token: Any, header: str | None) -> bool:
    """Return whether a request carries the token, compared in constant time.

    A token shorter than 32 characters is never accepted.
    """
    expected = token.strip() if isinstance(token, str) else ""
    scheme, _, shown = (header or "").strip().partition(" ")
    equal = hmac.compare_digest(_octets(shown.strip()), _octets(expected))
    return equal and len(expected) >= LEAST_TOKEN and scheme.casefold() == "bearer"


def has_bearer(header: str | None) -> bool:
    """Return whether an Authorization header has the form `Bearer TOKEN`."""
    scheme, _, shown = (header or "").strip().partition(" ")
    return scheme.casefold() == "bearer" and bool(shown.strip())


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def read_request(body: bytes) -> ExternalRequest | None:
    """Read a request; None for the probes of a registration, which have no body or an empty question.

    Raises:
        InvalidRequest: an invalid request.
        InvalidFilter: an invalid condition.
    """
    if not body.strip():
        return None
    value = _parsed(body)
    knowledge_id, query = value.get("knowledge_id"), value.get("query")
    if not knowledge_id and not query:
        return None
    setting = _object(value.get("retrieval_setting"), "retrieval_setting")
    top_k, threshold, condition = setting.get("top_k"), setting.get("score_threshold"), value.get("metadata_condition")
    for name, unreadable in (("top_k", top_k), ("score_threshold", threshold), ("metadata_condition", condition)):
        problem = unusable(unreadable)
        if problem is not None:
            raise InvalidRequest(f"{name} {problem}")
    return ExternalRequest(
        knowledge_id=_text(knowledge_id, "knowledge_id").strip(),
        query=_text(query, "query"),
        top_k=_top_k(top_k),
        score_threshold=_threshold(threshold),
        filters=read_conditions(condition),
        raw=value,
    )


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(body, parse_int=_integer)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, Mapping):
        raise InvalidRequest("the body must be a JSON object")
    return value


def _integer(digits: str) -> int | float:
    """Read an integer; one too long for Python is too large for every field."""
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"'knowledge_id' and 'query' must be texts: {name} is {_kind(value)}")
    if not value.strip():
        raise InvalidRequest(f"{name} is empty")
    if "\x00" in value or plain_text(value) != value:
        raise InvalidRequest(f"{name} holds binary data (NUL or lone surrogates): send UTF-8 text")
    return value


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidRequest(f"{name} must be an object, got {_kind(value)}")
    return value or {}


def _kind(value: Any) -> str:
    return "missing" if value is None else type(value).__name__


def records_answer(
    result: SearchResult,
    request: ExternalRequest,
    *,
    notice_records: bool,
    demo: bool = False,
    mask: Mask | None = None,
) -> ExternalAnswer:
    """Return a result as records.

    Args:
        notice_records: whether to put a record first that names the sources that did not answer, or to return a single
            record if the filter excluded everything.
        mask: masks personal data if the domain sets `mask_contexts`.

    Raises:
        InvalidRequest: the domain requires masking, and no mask is given.
        MaskingError: a masker failed.
    """
    result = for_a_model(result, mask)
    missing = missing_sources(result) if notice_records else []
    tongue = tongue_of(request.query)
    notices = [notice_record(missing, result.search_id, tongue)] if missing else []
    room = request.top_k - len(notices)
    beside = plain(list(result.beside_the_answer))
    extra = {"warnings": beside} if beside else {}
    if result.decision is Decision.OUT_OF_SCOPE:
        return ExternalAnswer(200, {"records": notices, **extra})
    titles = {source.source_id: source.title or source.source_id for source in result.sources}
    shown = [chunk for chunk in result.chunks if chunk.absolute >= request.score_threshold][:room]
    scores = record_scores([chunk.absolute for chunk in shown], most=BELOW_NOTICE if notices else 1.0)
    records: list[dict[str, Any]] = []
    for chunk, score in zip(shown, scores, strict=True):
        title = title_for_model(chunk, titles.get(chunk.source_id, chunk.source_id))
        metadata = document_metadata(chunk, result.search_id) | {"source_title": titles.get(chunk.source_id)}
        records.append(
            {
                "content": content_for_model(chunk, result.search_id),
                "score": score,
                "title": f"{reader_text('demo', tongue)} {title}" if demo else title,
                "metadata": {**metadata, "demo": True} if demo else metadata,
            }
        )
    if notice_records and not notices and _is_filtered_to_nothing(result):
        answer = failed_answer(reader_text("filter_left_nothing", tongue), " ".join(beside), search_id=result.search_id)
        return ExternalAnswer(200, {**answer.body, **extra})
    fit = fitted("records", plain([*notices, *records]))
    if fit.cut is None:
        return ExternalAnswer(200, {"records": fit.value, **extra})
    return ExternalAnswer(200, {"records": fit.value or notices, "cut": fit.cut, **extra})


def record_scores(absolutes: Sequence[float], *, most: float = 1.0) -> list[float]:
    """Return one score in (0, `most`] per record, strictly decreasing because Dify sorts by it.

    A score is the highest absolute signal of its record and all later ones, so that no record is shown with less than
    the score threshold that it passed; equal scores are told apart by millionths.

    Args:
        absolutes: the absolute signal of each record in our order, [0, 1].
    """
    millionths: list[int] = []
    for absolute in reversed(absolutes):
        millionths.append(max(round(absolute / SCORE_STEP), millionths[-1] + 1 if millionths else 1))
    highest = round(most / SCORE_STEP)
    return [min(score, highest - place) / 1_000_000 for place, score in enumerate(reversed(millionths))]


def _is_filtered_to_nothing(result: SearchResult) -> bool:
    """Whether metadata conditions excluded every candidate, which Dify would show as "nothing found"."""
    return any(notice.code is NoticeCode.FILTER_LEFT_NOTHING for notice in result.notices)


def notice_record(missing: Sequence[SourceStatus], search_id: str, tongue: Tongue = "en") -> dict[str, Any]:
    """Return a record that reports missing sources; its score puts it first."""
    notice = of_missing_sources(missing, "records", tongue)
    metadata = notice_metadata([source.source_id for source in missing], search_id)
    return {"content": notice.content, "score": 1.0, "title": notice.title, "metadata": metadata}


def failed_answer(title: str, problem: str, *, search_id: str = "", source_ids: Sequence[str] = ()) -> ExternalAnswer:
    """Return a 200 with one record about the failure, because Dify shows any other status as "nothing found".

    Args:
        problem: the failure and the remedy.
        search_id: if a search was begun.
        source_ids: of the sources that did not answer.
    """
    metadata = notice_metadata(list(source_ids), search_id)
    stop = "。" if title[-1] >= _FIRST_EAST_ASIAN else ". "
    record = {"content": f"{title}{stop}{problem}", "score": _FAILED_SCORE, "title": title, "metadata": metadata}
    return ExternalAnswer(200, {"records": [record]})


def refused(status: int, code: int, message: str) -> ExternalAnswer:
    """Return a refusal in the API's form."""
    return ExternalAnswer(status, {"error_code": code, "error_msg": message})


def _top_k(value: Any) -> int:
    if value is None:
        return _DEFAULT_TOP_K
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole or value < 1:
        raise InvalidRequest(f"top_k must be a whole number, 1 or more, got {_shown(value)}")
    return min(int(value), _MOST_RECORDS)


def _threshold(value: Any) -> float:
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidRequest(f"score_threshold must be a number from 0 to 1, got {_shown(value)}")
    return float(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
