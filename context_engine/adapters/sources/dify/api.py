"""The conventions of Dify's API, the meaning of its errors, and the known defects of its versions.

Dify answers 400 for outages behind it and 403 for its rate limit, so the status alone decides little: the body is read
as well. Bodies may contain SQL, host names and the query, and are never passed on. The rate limit counts refused calls
too, in a sliding window."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from context_engine.adapters.http import Api, Meaning, versioned
from context_engine.adapters.http.client import WINDOW_S
from context_engine.errors import (
    SourceAuthError,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceRateLimited,
    SourceUnavailable,
)

EXTERNAL_TRY_S: Final = 4.5
"""Seconds for one answer of an External Knowledge API: Dify waits five."""

EXTERNAL_PAUSES_S: Final = (0.5, 1.0, 2.0)
"""Seconds after which Dify repeats a request to it, once it got a 503 or no answer (`ssrf_proxy`, three retries)."""

EXTERNAL_TRIES_S: Final = (len(EXTERNAL_PAUSES_S) + 1) * EXTERNAL_TRY_S + sum(EXTERNAL_PAUSES_S)
"""Seconds for all its tries and the pauses between them: 4 · 4.5 + 3.5 = 21.5."""

_RATE: Final = re.compile(r"rate limit", re.IGNORECASE)
_SWITCHED_OFF: Final = re.compile(r"api access is not enabled", re.IGNORECASE)

_NO_INDEX: Final = re.compile(
    r"relation \"embedding_vector_index\S*\" does not exist|index_not_found|no such index|collection \S+ (?:not found|"
    r"does not exist)|can't find collection|could not find class",
    re.IGNORECASE,
)

_OUTAGE: Final = re.compile(
    r"plugin daemon|connection (?:refused|reset|aborted|timed out|error)|connect(?:ion)? timeout|could not connect|"
    r"failed to (?:connect|establish)|max retries exceeded|server closed the connection|remaining connection slots|"
    r"unreachable|timed? ?out|temporar(?:y|ily)|name or service not known|bad gateway|service unavailable",
    re.IGNORECASE,
)

_HARMLESS: Final = re.compile(
    r"Content is empty|Exceeded maximum segments limit of \d+|Metadata name already exists|"
    r"The dataset name already exists|Process rule rules is required|Document is not completed|Document is disabled|"
    r"doc_form is different from the dataset doc_form|Documents? not found|Segment not found|"
    r"indexing_technique is required"
)
"""Dify's answers to a write that contain only Dify's own words."""
_MODEL_CODES: Final = frozenset(
    {"provider_not_initialize", "provider_quota_exceeded", "model_currently_not_support", "completion_request_error"}
)
_MODEL: Final = re.compile(
    r"provider .* does not exist|no default model|default model not found|credentials|quota", re.IGNORECASE
)


def _bad_request(code: str, message: str) -> Meaning:
    if _OUTAGE.search(message):
        problem = "a part behind Dify is down (plugin daemon, model or vector store)"
        return Meaning(SourceUnavailable, problem, "see Dify's log", retryable=True)
    if _NO_INDEX.search(message):
        problem = "has no index for this search method: it is empty, or indexed by another technique"
        return Meaning(SourceNotFound, problem)
    if code in _MODEL_CODES or _MODEL.search(message):
        problem = "Dify cannot use the embedding or rerank model of the dataset"
        remedy = "set it up in Dify, or use a dataset of indexing_technique economy, which needs none"
        return Meaning(SourceUnavailable, problem, remedy)
    phrase = _HARMLESS.search(message)
    if phrase is not None:
        return Meaning(SourceProtocolError, "Dify refused the request", phrase[0])
    return Meaning(SourceProtocolError, "Dify refused the request (400)", "the debug log holds its words")


def _forbidden(code: str, message: str) -> Meaning:
    if code == "archived_document_immutable":
        return Meaning(SourceForbidden, "the document is archived in Dify and cannot be changed", "unarchive it")
    if _RATE.search(message):
        problem = "the workspace's rate limit is used up"
        remedy = "set rate_per_minute in the connection to the plan's number"
        return Meaning(SourceRateLimited, problem, remedy, retryable=True, pause_s=WINDOW_S)
    if _SWITCHED_OFF.search(message):
        problem = "API access to the dataset is switched off"
        return Meaning(SourceForbidden, problem, "switch it on in the dataset's settings")
    problem = "the key has no access to the dataset"
    return Meaning(SourceForbidden, problem, "it belongs to another workspace, or was revoked")


def _not_found(code: str, message: str) -> Meaning:
    phrase = _HARMLESS.search(message)
    if phrase is not None:
        return Meaning(SourceNotFound, "Dify refused the request", phrase[0])
    if code == "not_found":
        return Meaning(SourceNotFound, "no such dataset in the key's workspace", "correct dataset_ids")
    return Meaning(SourceNotFound, "Dify's API is not at base_url", "correct it in the connection")


DIFY: Final = Api(
    name="Dify",
    root=versioned("v1"),
    key_required="give it a dataset key ('dataset-…') of Dify",
    good=frozenset({200, 201, 204}),
    counted_methods=frozenset({"POST", "PUT", "PATCH", "DELETE"}),
    counts_refusals=frozenset({403}),
    bounded_elsewhere=True,
    statuses={
        400: _bad_request,
        401: Meaning(
            SourceAuthError,
            "the API key was refused",
            "give the connection a dataset key ('dataset-…') of the right workspace",
        ),
        403: _forbidden,
        404: _not_found,
    },
)
_VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})[0-9A-Za-z.+-]{0,32}")
_TRIED: Final = (1, 12)
_KNOWN: Final = (1, 17)
_FILTERS_DROPPED: Final = (1, 13)
_IN_BROKEN: Final = (1, 11)
_DOCUMENTS_UNNAMED: Final = ("1.14.1",)


def stated_version(headers: Mapping[str, str]) -> str | None:
    """Return the version in an answer's headers (names in lower case), or None."""
    stated = headers.get("x-version", "").strip()
    return stated if _VERSION.fullmatch(stated) else None


def drops_filters(version: str | None) -> bool:
    """Return whether this version silently ignores metadata filters, as 1.13 does."""
    return _release(version) == _FILTERS_DROPPED


def shortcomings(version: str | None) -> tuple[str, ...]:
    """Return the known defects of a version, one sentence each."""
    release = _release(version)
    if release is None:
        return ("Dify does not state its version (no X-Version header): a proxy may remove it",)
    defects: list[str] = []
    if release < _TRIED:
        defects.append("it is older than 1.12, the oldest version this adapter was tested with")
    if release == _IN_BROKEN:
        defects.append("its metadata filters with 'in' can find nothing: give one value, or update Dify")
    if release == _FILTERS_DROPPED:
        defects.append(
            "it ignores metadata filters: they are applied here to the best 100 chunks of each dataset, and lower "
            "chunks are missed; later versions apply them again"
        )
    if version in _DOCUMENTS_UNNAMED:
        defects.append(
            "it does not say to which document a segment belongs: the documents of each dataset are listed besides; "
            "1.14.2 says it again"
        )
    if release > _KNOWN:
        defects.append("it is newer than 1.17, the newest version this adapter knows")
    return tuple(defects)


def _release(version: str | None) -> tuple[int, int] | None:
    match = _VERSION.fullmatch(version) if version is not None else None
    return None if match is None else (int(match[1]), int(match[2]))
