"""Reads what shows the gaps of a domain: the recorded searches, readers' judgements, and the documents it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.look_up import Criteria
from context_engine.audit.review.account import account_of
from context_engine.audit.review.stored import ledger_pseudonyms
from context_engine.insight.gaps import DocumentName, Gaps, RecordedQuestion, ThumbDown, asked_question, gaps
from context_engine.service.judgements import votes
from context_engine.wiring.examine import listed_domain
from context_engine.wiring.setup import Setup


def revealed_gaps(setup: Setup, data_dir: Path, ledger: Ledger, domain: str, since: datetime) -> tuple[Gaps, list[str]]:
    """Return the gaps of a domain, and the sources that cannot list their documents.

    Args:
        data_dir: holds the judgements.
        since: searches and judgements before it are left out.

    Raises:
        ConfigError: a file of judgements cannot be read.
        AuditError: the ledger cannot be read.
    """
    listed, unread = listed_domain(setup, data_dir, setup.registry.domain(domain))
    documents = {
        DocumentName(source.id, chunk.document_id or chunk.chunk_id, chunk.document_version or "")
        for source, chunk in listed
    }
    return gaps(_asked(ledger, domain, since), documents, thumbs_down(data_dir, domain, since)), unread


def thumbs_down(data_dir: Path, domain: str, since: datetime) -> list[ThumbDown]:
    """Return the passages and answers that readers judged not to answer; see `votes`.

    Raises:
        ConfigError: a file of judgements cannot be read.
    """
    rows = (row for row in votes(data_dir) if row.get("domain") == domain and row.get("grade") == 0)
    return [_thumb(row) for row in rows if _is_since(row.get("at"), since)]


def _is_since(at: Any, since: datetime) -> bool:
    try:
        return datetime.fromisoformat(str(at)).astimezone(UTC) >= since
    except ValueError:
        return False


def _thumb(row: Mapping[str, Any]) -> ThumbDown:
    document = None
    if "chunk_id" in row:
        name, version = row.get("document_id") or row["chunk_id"], row.get("document_version") or ""
        document = DocumentName(row.get("source_id") or "", name, version)
    return ThumbDown(
        str(row.get("search_id") or ""), str(row["at"]), str(row.get("by") or ""), row.get("query"), document
    )


def _asked(ledger: Ledger, domain: str, since: datetime) -> Iterator[RecordedQuestion]:
    ledger.integrate()
    pseudonyms = ledger_pseudonyms(ledger)
    for row in ledger.rows(Criteria(since=since, domain=domain, kind="search")):
        stored = ledger.entry_at(row.index)
        if stored is None or stored.entry is None:
            continue
        account = account_of(stored.entry, row.index, ledger, pseudonyms=pseudonyms)
        if not account.entry.get("part_of"):  # nobody asked it: a workflow or a job did
            yield asked_question(account.to_dict())
