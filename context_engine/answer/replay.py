"""Composes a recorded answer again from its record alone: same context, same sentences, same verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from context_engine.answer.answering import extracted
from context_engine.answer.composed import sentence_words
from context_engine.answer.gathering import Gathering, gathered, in_turns, keys_of, read_gathering
from context_engine.answer.values import Evidence, Sentence, evidence_of
from context_engine.answer.writing import Judge, checked
from context_engine.audit.review.account import account_of
from context_engine.audit.review.replay import FirstDifference, first_difference
from context_engine.audit.review.stored import find_record, ledger_pseudonyms, recorded_result
from context_engine.core.context import from_result
from context_engine.core.models import Context, SearchResult
from context_engine.core.protocols import Mask, TokenCounter
from context_engine.core.text import content_sha256
from context_engine.errors import AuditError, ContextEngineError, InvalidRequest

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


DecidedAgain = Callable[[Gathering, Sequence[SearchResult]], str]
"""Returns which step of a workflow would now be another one, for people; "" if none."""

_MASKED: Final = (
    "personal data in the model's text was masked before it was recorded (mask_stored_queries), so its sentences "
    "cannot be checked again"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerReplay:
    """The outcome of a replay.

    Attributes:
        sentences: number of recorded sentences.
        difference: the first difference of the sentences, their quotes and verdicts; None if there is none.
        explanation: why they could not be compared or differ, for people; "" if they are identical.
    """

    answer_id: str
    search_id: str
    identical: bool
    sentences: int
    difference: FirstDifference | None = None
    explanation: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {
            "kind": "answer",
            "answer_id": self.answer_id,
            "search_id": self.search_id,
            "identical": self.identical,
            "sentences": self.sentences,
            "difference": None if self.difference is None else self.difference._asdict(),
            "explanation": self.explanation,
        }


def replay_answer(
    ledger: Ledger,
    record_id: str,
    *,
    query: str | None = None,
    counter: Callable[[str], TokenCounter],
    mask: Mask | None = None,
    decided: DecidedAgain | None = None,
) -> AnswerReplay:
    """Return whether a recorded answer follows from its record: no source and no model is called.

    Args:
        query: the question, if only its digest was recorded.
        counter: returns the token counter of a name.
        mask: the mask of the domain, if it masks contexts.
        decided: checks the steps of a workflow; None: they are taken from the record.

    Raises:
        RecordNotFound: the answer or its search is no longer in the ledger.
        InvalidRequest: the record is not of an answer.
        QueryNotRecorded: only a digest of the question was recorded, and `query` is missing or another.
        AuditError: something needed is missing, erased or unreadable.
    """
    record = find_record(ledger, record_id)
    account = account_of(record.entry, record.index, ledger, query=query, pseudonyms=ledger_pseudonyms(ledger))
    entry, words = account.entry, account.answer
    if entry["kind"] != "answer":
        raise InvalidRequest(f"record {record_id} is of kind {entry['kind']}, not of an answer")
    if words is None:
        raise AuditError(f"answer {record_id} cannot be composed again: its question {account.question_missing}")
    gathering = read_gathering(entry["workflow"], words["searches"]) if "workflow" in entry else None
    rounds = () if gathering is None else gathering.rounds
    searches = [searched.search_id for searched in rounds] or [str(entry["search"])]
    results = [recorded_result(ledger, name, find_record(ledger, name).entry, query) for name in searches]
    difference: FirstDifference | None = None
    explanation = "" if gathering is None else _changed_steps(gathering, results, decided)
    if not explanation:
        difference, explanation = _difference(entry, words, results, gathering, counter, mask)
    return AnswerReplay(
        answer_id=record_id,
        search_id=str(entry["search"]),
        identical=not explanation,
        sentences=len(words["sentences"]),
        difference=difference,
        explanation=explanation,
    )


def _changed_steps(gathering: Gathering, results: Sequence[SearchResult], decided: DecidedAgain | None) -> str:
    """Return what of a workflow would now be otherwise, for people; "" if nothing."""
    keys = [keys_of(result, searched.cites) for result, searched in zip(results, gathering.rounds)]
    if gathering.picks != in_turns(keys, results[0].settings.values.stage2_top_k):
        return "the passages that its searches give in turns are others now"
    return "" if decided is None else decided(gathering, results)


def _difference(
    entry: Mapping[str, Any],
    words: Mapping[str, Any],
    results: Sequence[SearchResult],
    gathering: Gathering | None,
    counter: Callable[[str], TokenCounter],
    mask: Mask | None,
) -> tuple[FirstDifference | None, str]:
    """Return the first difference of the sentences, and why they differ or cannot be compared; (None, "") if equal."""
    result = results[0] if gathering is None else gathered(results, gathering.picks)
    try:
        context = _context(entry["context"], result, counter, mask)
    except ContextEngineError as error:
        return None, f"its context cannot be made again: {error}"
    if content_sha256(context.text) != entry["context"]["sha256"]:
        return None, "the context that is made again is another one; 'audit replay' of the search tells more"
    if words.get("masked"):
        return None, _MASKED
    evidence = evidence_of(result, context)
    again = [sentence_words(sentence, evidence) for sentence in _again(words, entry, result, evidence, gathering)]
    difference = first_difference(list(words["sentences"]), again, "sentences")
    return difference, "" if difference is None else "the same rules now give another sentence or verdict"


def _context(
    made: Mapping[str, Any], result: SearchResult, counter: Callable[[str], TokenCounter], mask: Mask | None
) -> Context:
    return from_result(
        result,
        counter=counter(made["counter"]),
        budget=made["budget"],
        form=made["form"],
        nonce=made["nonce"],
        mask=mask,
    )


def _again(
    words: Mapping[str, Any],
    entry: Mapping[str, Any],
    result: SearchResult,
    evidence: Sequence[Evidence],
    gathering: Gathering | None,
) -> list[Sentence]:
    """Return the sentences that the record gives: those of the model's text checked again, or extracted again.

    A text that broke off, or was not read to its end, gives as many sentences as were checked then.
    """
    if words.get("written") is not None and entry["mode"] == "model":
        judge, model = words.get("judge"), entry["model"]
        again = checked([words["written"]], evidence, None if judge is None else Judge(**judge))
        broke_off = bool(model["prompt_sha256"]) and model["finish"] in {"", "failed"}
        return list(islice(again, len(words["sentences"])) if broke_off else again)
    if not words["sentences"]:
        return []
    return list(extracted(result, evidence, gathering).sentences)
