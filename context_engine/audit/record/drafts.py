"""Drafts of records: a search, a refused request, a context read, an answer, a fetch, or lost records."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from context_engine.audit.record.candidates import CANDIDATES, candidates_addendum
from context_engine.audit.record.codec import dumped
from context_engine.audit.record.contents import settings_content, sources_content
from context_engine.audit.record.entry import composed
from context_engine.audit.record.parts import PARTS_VERSION, split
from context_engine.audit.record.question import (
    Pseudonyms,
    QueryForm,
    answer_addendum,
    described_caller,
    kept_as,
    question_addendum,
)
from context_engine.audit.values import Composed, Draft
from context_engine.core.models import (
    NOBODY,
    AccessRecord,
    AnswerRecord,
    Caller,
    Chunk,
    Context,
    Outcome,
    Principal,
    SearchRequest,
    SearchResult,
    Settings,
    SourceStatus,
    utc_text,
)
from context_engine.core.text import content_sha256

_DOMAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def search_draft(
    result: SearchResult,
    access: AccessRecord,
    *,
    pseudonyms: Pseudonyms,
    code_version: str,
    kept: QueryForm | None = None,
    kind: Literal["search", "rank"] = "search",
) -> Draft:
    """Return the record of a result, under its search id.

    Args:
        access: what access control did to the search.
        code_version: of this package.
        kept: how the question is kept; None: as the result's settings say.
        kind: "rank" if passages were ranked without searching a source.
    """
    kept = kept or result.settings.values.audit_query
    parts = split(result)
    settings, sources = settings_content(result.settings), sources_content(result.specs)
    entry = {
        "kind": kind,
        "id": result.search_id,
        "time": utc_text(result.now),
        "caller": described_caller(access.principal, result.caller, pseudonyms),
        "app": result.caller.app,
        "domain": result.domain,
        "request_id": result.request_id,
        "status": result.status,
        "decision": result.decision,
        "code": code_version,
        "hashes": {
            "settings": hashlib.sha256(settings.data).hexdigest(),
            "registry": hashlib.sha256(sources.data).hexdigest(),
            "policy": access.decision.policy_hash if access.decision else "",
        },
        "query": kept_as(kept, result.query, pseudonyms),
        **_part_of(result.request),
        **({"experiment": arm} if (arm := result.settings.values.experiment_arm) else {}),
        **of_result(result, access),
    }

    def compose(digests: Mapping[bytes, bytes]) -> Composed:
        of_contents = [digests[content.key] for content in parts.contents]
        addenda = {
            **question_addendum(parts.question, kept, result.query, pseudonyms, result.search_id),
            CANDIDATES: candidates_addendum(parts.candidates, of_contents),
        }
        return composed(entry, addenda, {"settings": digests[settings.key], "sources": digests[sources.key]})

    return Draft(record_id=result.search_id, contents=parts.contents, compose=compose)


def refusal_draft(
    request: SearchRequest,
    access: AccessRecord,
    error: Exception,
    *,
    record_id: str,
    now: datetime,
    pseudonyms: Pseudonyms,
    code_version: str,
    kept: QueryForm = "text",
) -> Draft:
    """Return the record of a request without a result; the error message is kept with the question.

    Args:
        record_id: unique in the ledger.
        now: aware.
    """
    decision = access.decision
    entry = {
        "kind": "refusal",
        "id": record_id,
        "time": utc_text(now),
        "caller": described_caller(access.principal, request.caller, pseudonyms),
        "app": request.caller.app,
        "domain": request.domain if _DOMAIN.fullmatch(request.domain) else None,
        "request_id": request.request_id,
        "error": {"code": str(getattr(error, "code", "internal"))},
        "code": code_version,
        "hashes": {"policy": decision.policy_hash if decision else ""},
        "query": kept_as(kept, request.query, pseudonyms),
        "denied": [[denial.source_id, denial.reason] for denial in decision.denied] if decision else [],
        **_part_of(request),
    }
    question = {"v": PARTS_VERSION, "request": dumped(request), "message": str(error)}

    def compose(_digests: Mapping[bytes, bytes]) -> Composed:
        return composed(entry, question_addendum(question, kept, request.query, pseudonyms, record_id), {})

    return Draft(record_id=record_id, contents=(), compose=compose)


def _part_of(request: SearchRequest | None) -> dict[str, str]:
    """Return what a search is a part of; {} if it is a question of its own."""
    return {} if request is None or request.part_of is None else {"part_of": request.part_of}


def context_draft(result: SearchResult, context: Context, *, record_id: str, now: datetime, code_version: str) -> Draft:
    """Return the record of a context given to a model; its text can be rebuilt from the record of the search.

    Args:
        record_id: unique in the ledger.
        now: aware.
    """
    entry = {
        "kind": "context",
        "id": record_id,
        "time": utc_text(now),
        "search": result.search_id,
        "domain": result.domain,
        "code": code_version,
        "budget": context.budget,
        "tokens": context.tokens,
        "form": context.form,
        "counter": context.counter,
        "nonce": context.nonce,
        "masked": result.settings.values.mask_contexts,
        "sha256": content_sha256(context.text),
        "chunks": [_block(block.label, block.source_id, block.chunk_ids, block.truncated) for block in context.blocks],
        "left_out": [[omission.source_id, omission.chunk_id, omission.reason] for omission in context.left_out],
    }
    if context.part > 1:
        entry["part"] = context.part
    return _plain(record_id, entry)


def answer_draft(
    result: SearchResult,
    answer: AnswerRecord,
    *,
    record_id: str,
    now: datetime,
    pseudonyms: Pseudonyms,
    code_version: str,
) -> Draft:
    """Return the record of an answer that was composed from a result; its words are kept as the question is.

    Args:
        record_id: unique in the ledger.
        now: aware.
    """
    kept = result.settings.values.audit_query
    principal = NOBODY if result.request is None else result.request.principal
    entry = {
        "kind": "answer",
        "id": record_id,
        "time": utc_text(now),
        "caller": described_caller(principal, result.caller, pseudonyms),
        "app": result.caller.app,
        "search": result.search_id,
        "domain": result.domain,
        "request_id": result.request_id,
        "code": code_version,
        "query": kept_as(kept, result.query, pseudonyms),
        **_part_of(result.request),
        **answer.facts,
    }

    def compose(_digests: Mapping[bytes, bytes]) -> Composed:
        return composed(entry, answer_addendum(answer.words, kept, result.query, pseudonyms, record_id), {})

    return Draft(record_id=record_id, contents=(), compose=compose)


def fetch_draft(
    principal: Principal,
    domain: str,
    source_id: str,
    chunks: Sequence[Chunk],
    *,
    record_id: str,
    now: datetime,
    pseudonyms: Pseudonyms,
    code_version: str,
) -> Draft:
    """Return the record of chunks fetched by their ids; it holds the hashes of their texts, not the texts.

    Args:
        record_id: unique in the ledger.
        now: aware.
    """
    entry = {
        "kind": "fetch",
        "id": record_id,
        "time": utc_text(now),
        "caller": described_caller(principal, Caller(), pseudonyms),
        "domain": domain,
        "code": code_version,
        "chunks": [
            {
                "source": source_id,
                "chunk": chunk.chunk_id,
                "document": chunk.document_id,
                "version": chunk.document_version,
                "sha256": content_sha256(chunk.content),
            }
            for chunk in chunks
        ],
    }
    return _plain(record_id, entry)


def loss_draft(
    count: int, since: datetime, until: datetime, *, record_id: str, now: datetime, code_version: str
) -> Draft:
    """Return the record that records were lost.

    Args:
        count: number of lost records.
        since, until: times of the first and last loss, aware.
        record_id: unique in the ledger.
        now: aware.
    """
    lost = {"count": count, "since": utc_text(since), "until": utc_text(until)}
    return _plain(record_id, {"kind": "loss", "id": record_id, "time": utc_text(now), "code": code_version, **lost})


def _plain(record_id: str, entry: dict[str, Any]) -> Draft:
    return Draft(record_id=record_id, contents=(), compose=lambda _digests: composed(entry, {}, {}))


def _block(label: str, source_id: str, chunk_ids: tuple[str, ...], truncated: bool) -> dict[str, Any]:
    block = {"label": label, "source": source_id, "chunks": list(chunk_ids)}
    return {**block, "truncated": True} if truncated else block


_SUBJECTS: Final = frozenset((*Settings.model_fields, "filters", "as_of", "rerank", "query"))


def of_result(result: SearchResult, access: AccessRecord) -> dict[str, Any]:
    """Return the part of an entry that states the outcome of a search."""
    return {
        "counts": _counts(result),
        "sources": [_source(status) for status in result.sources],
        "chunks": [chunk.to_entry() for chunk in result.chunks],
        "denied": [[denial.source_id, denial.reason] for denial in access.decision.denied] if access.decision else [],
        "withheld": [list(chunk) for chunk in access.withheld],
        "notices": _notices(result),
        **({} if result.cache_age_s is None else {"cache": {"hit": True, "age_s": result.cache_age_s}}),
    }


def _counts(result: SearchResult) -> dict[str, Any]:
    ends = Counter(fate.outcome for fate in result.fates)
    return {
        "stages": {stage.name: [stage.entered, stage.left] for stage in result.stages},
        "candidates": len(result.fates),
        **{str(outcome): ends[outcome] for outcome in Outcome},
        "swaps": result.swap_count,
    }


def _source(status: SourceStatus) -> dict[str, Any]:
    about: dict[str, Any] = {
        "id": status.source_id,
        "state": status.state,
        "chunks": status.chunks,
        "ms": round(status.elapsed_ms, 1),
    }
    if status.error is not None:
        about["error"] = str(status.error.get("code", ""))
    return about


def _notices(result: SearchResult) -> list[list[str]]:
    """Return code and subject of each notice, once; a subject is omitted where it could be a word of the question."""
    known = _SUBJECTS | {status.source_id for status in result.sources}
    pairs = {(str(notice.code), notice.subject if notice.subject in known else ""): None for notice in result.notices}
    return [list(pair) for pair in pairs]
