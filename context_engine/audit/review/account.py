"""The content of one record: who asked, under which rule, which chunks were shown or not, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from context_engine.audit.record.candidates import CANDIDATES, read_candidates
from context_engine.audit.record.entry import Addenda, Missing, fetch, missing_part, read_entry
from context_engine.audit.record.exact import Unreadable, read_json
from context_engine.audit.record.question import ANSWER, QUESTION, Pseudonyms, read_kept, read_question
from context_engine.errors import LedgerCorrupt, QueryNotRecorded

_ACCOUNT: Final = "account"
_SETTINGS: Final = "settings"
_NOT_KEPT: Final = "was not recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The content of a record.

    Attributes:
        index: its index in the log; None while pending.
        entry: with the lists that were cut from it, if they are still stored.
        question: everything derived from the question's words, and the caller's ids; None if it cannot be read.
        question_missing: why it, or the answer of such a record, cannot be read; "" if it can.
        fates: of each candidate, with its document, version and content hash.
        answer: the question as asked, the sentences and their quotes; None if the record is of no answer, or they
            cannot be read.
        settings: {key: {"value", "origin"}}; None if they cannot be read.
        missing: addenda that are named and no longer stored.
        contexts: the entries of the contexts that models were given.
        answers: the entries of the answers composed from it.
    """

    index: int | None
    entry: Mapping[str, Any]
    question: Mapping[str, Any] | None = None
    question_missing: str = ""
    answer: Mapping[str, Any] | None = None
    fates: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] | None = None
    missing: tuple[Missing, ...] = ()
    contexts: tuple[Mapping[str, Any], ...] = ()
    answers: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {
            "index": self.index,
            "entry": dict(self.entry),
            "question": self.question,
            "question_missing": self.question_missing,
            "answer": self.answer,
            "fates": [dict(fate) for fate in self.fates],
            "settings": self.settings,
            "missing": [
                {
                    "kind": part.kind,
                    "digest": part.digest.hex(),
                    "erased_by": part.erased_by,
                    "erased_on": part.erased_on,
                }
                for part in self.missing
            ],
            "contexts": [dict(context) for context in self.contexts],
            "answers": [dict(answer) for answer in self.answers],
        }


def account_of(
    entry: bytes,
    index: int | None,
    addenda: Addenda,
    *,
    query: str | None = None,
    pseudonyms: Sequence[Pseudonyms] = (),
    contexts: Iterable[bytes] = (),
    answers: Iterable[bytes] = (),
) -> Account:
    """Return the content of a record of any kind.

    Args:
        entry: stored bytes.
        index: its index in the log, None while pending.
        addenda: the ledger.
        query: the question, if only its digest was kept.
        pseudonyms: of the current and former secrets, for such a question.

    Raises:
        LedgerCorrupt: an addendum does not match the record, or cannot be read.
        LedgerVersionMismatch: a newer version of this package wrote it.
    """
    read = read_entry(entry)
    try:
        named = {name: bytes.fromhex(digest) for name, digest in read.get("addenda", {}).items()}
        present = fetch(addenda, list(named.values()), read["id"])
        parts = {name: present[digest] for name, digest in named.items() if digest in present}
        question, why = _kept(read_question, QUESTION, read, parts, query, pseudonyms)
        answer, why_no_answer = _kept(read_kept, ANSWER, read, parts, query, pseudonyms)
        missing = tuple(missing_part(addenda, name, digest) for name, digest in named.items() if digest not in present)
        return Account(
            index=index,
            entry=read if _ACCOUNT not in parts else {**read, **read_json(parts[_ACCOUNT]), "addenda": read["addenda"]},
            question=question,
            question_missing=next(
                (part.why for part in missing if part.kind in (QUESTION, ANSWER)),
                why_no_answer if read["kind"] == "answer" else why,
            ),
            answer=answer,
            fates=_fates(read_candidates(parts[CANDIDATES])["fates"]) if CANDIDATES in parts else (),
            settings=read_json(parts[_SETTINGS]) if _SETTINGS in parts else None,
            missing=missing,
            contexts=tuple(map(read_entry, contexts)),
            answers=tuple(map(read_entry, answers)),
        )
    except (Unreadable, KeyError, TypeError, ValueError, AttributeError) as error:
        raise LedgerCorrupt(f"record {read['id']} cannot be read: {error}; run 'audit verify'") from None


def _kept(
    reader: Callable[..., dict[str, Any]],
    kind: str,
    read: Mapping[str, Any],
    parts: Mapping[str, bytes],
    query: str | None,
    pseudonyms: Sequence[Pseudonyms],
) -> tuple[dict[str, Any] | None, str]:
    """Return the words of a question or an answer, or None and the reason."""
    if kind not in parts:
        return None, _NOT_KEPT
    try:
        return reader(parts[kind], read["id"], query=query, pseudonyms=pseudonyms), ""
    except QueryNotRecorded as error:
        return None, str(error)


def _fates(columns: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Any], ...]:
    rows = zip(*columns.values(), strict=True)
    return tuple({name: value for name, value in zip(columns, row) if value is not None} for row in rows)
