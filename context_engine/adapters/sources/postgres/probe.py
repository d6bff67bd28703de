"""What a server is and what a store holds, for operators."""

from __future__ import annotations

from typing import Final

from context_engine.adapters.sources.postgres.connection import Session, one_row
from context_engine.adapters.sources.postgres.copies import copies_of
from context_engine.adapters.sources.postgres.schema import StoreState
from context_engine.core.models import AccessScope, Examination, Notice, NoticeCode, notices_about
from context_engine.core.protocols import LEAST_RECALL

_EXTENSIONS: Final = ("vector", "pg_textsearch", "pg_search")


def probe(
    session: Session, state: StoreState, source_id: str, access: AccessScope | None, recall: float | None
) -> Examination:
    """Return the findings, as far as a caller may know them.

    Args:
        recall: of approximate searches; None if none was measured.
    """
    classes = state.readable(access)
    (version,) = one_row(session, "SHOW server_version")
    rows = session.execute("SELECT extname, extversion FROM pg_extension WHERE extname = ANY(%s)", (list(_EXTENSIONS),))
    version, extensions = str(version).partition(" ")[0], dict(rows.fetchall())
    (documents,) = one_row(
        session,
        "SELECT count(*) FROM documents JOIN sources USING (source_key) WHERE source_id = %s AND class_key = ANY(%s)",
        (source_id, [access_class.key for access_class in classes]),
    )
    remarks = [
        f"{name} is a copy of it that a trial left, unless one runs now: DROP SCHEMA {name} CASCADE removes it"
        for name in (copies_of(session) if access is None else [])
    ]
    is_low = recall is not None and recall < LEAST_RECALL
    low = [Notice(NoticeCode.ANN_RECALL_LOW, source_id, "ann_recall_low")] if is_low else []
    by_text = "BM25 (pg_textsearch)" if classes and all(access_class.ranked for access_class in classes) else "tsvector"
    (walled,) = one_row(session, "SELECT row_security_active('words')")
    measured = {} if recall is None else {"ann_recall": round(recall, 3)}
    return Examination(
        kind=f"PostgreSQL {version}",
        version=version,
        documents=documents,
        search_method=by_text if state.model_id is None else f"{by_text}, pgvector {extensions.get('vector', '')}",
        warnings=notices_about(source_id, *low, *remarks),
        details={"extensions": extensions, "row_security": walled, **measured},
    )
