"""The question of a record: stored as text, encrypted under the question itself, or not stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from context_engine.audit.record.exact import json_bytes, read_json
from context_engine.audit.record.packed import packed_question, unpacked_question
from context_engine.audit.record.pseudonym import Pseudonyms
from context_engine.audit.values import Addendum
from context_engine.errors import QueryNotRecorded

QUESTION: Final = "question"
_SEALED: Final = b"sealed1\x00"
QueryForm = Literal["text", "digest", "none"]


def kept_as(kept: QueryForm, query: str, pseudonyms: Pseudonyms) -> dict[str, str]:
    """Return an entry's statement about its question."""
    return {"kept": kept, "digest": pseudonyms.of_query(query)} if kept == "digest" else {"kept": kept}


def question_addendum(
    question: Mapping[str, Any], kept: QueryForm, query: str, pseudonyms: Pseudonyms, record_id: str
) -> dict[str, Addendum]:
    """Return the addendum of a question by its name; {} if it is not kept."""
    if kept == "none":
        return {}
    data = json_bytes(packed_question(question))
    if kept == "digest":
        from context_engine.audit.record.seal import sealed  # only here: it needs the extra

        data = _SEALED + sealed(data, pseudonyms.seal_secret(query), record_id)
    return {QUESTION: Addendum.of(QUESTION, data)}


def read_question(
    data: bytes, record_id: str, *, query: str | None = None, pseudonyms: Sequence[Pseudonyms] = ()
) -> dict[str, Any]:
    """Restore a question.

    Args:
        query: the question itself, needed if it is sealed.

    Raises:
        QueryNotRecorded: it is sealed, and the query is missing or another one.
        Unreadable: this version does not write such data.
    """
    if not data.startswith(_SEALED):
        return unpacked_question(read_json(data))
    if query is None:
        raise QueryNotRecorded(
            f"record {record_id}: only a digest of its question was kept: give the question itself (--query)"
        )
    from context_engine.audit.record.seal import unsealed  # only here: it needs the extra

    for names in pseudonyms:
        opened = unsealed(data[len(_SEALED) :], names.seal_secret(query), record_id)
        if opened is not None:
            return unpacked_question(read_json(opened))
    raise QueryNotRecorded(f"record {record_id}: its question is another one, or it was sealed under another audit key")
