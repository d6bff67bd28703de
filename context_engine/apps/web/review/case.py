"""One recorded search or answer, rebuilt for the auditor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.audit.review.overview import EXCEPTIONS, SEARCHES, STALE, exceptions_of
from context_engine.audit.review.shown import recorded_answer
from context_engine.core.models import Settings
from context_engine.errors import LedgerCorrupt
from context_engine.service.contract.explanation import ExplainedStage
from context_engine.service.explaining.explain import explained
from context_engine.service.explaining.words import reason_words, setting_words
from context_engine.service.records import OwnedRecord, described

if TYPE_CHECKING:
    from context_engine.core.protocols import Mask
    from context_engine.service.contract.chunks import ChunkShown
    from context_engine.service.contract.explanation import Explanation
    from context_engine.service.contract.fetch import RecordResponse

_MOST_FATES: Final = 200
_MOST_ANSWERS: Final = 10
_DEFAULTS: Final = Settings().model_dump(mode="json")


class CaseChunk(NamedTuple):
    """A chunk that was shown.

    Attributes:
        listed: its part of the entry: document, version, tier, trust, fetched_at, sha256, final ...
        told: the numbers of its ranking; None if they were erased.
        freshness: expired, superseded or "".
        text: None if it is erased, or not for this reader.
    """

    rank: int
    listed: Mapping[str, Any]
    told: ChunkShown | None
    freshness: str
    text: str | None


class CaseFate(NamedTuple):
    """A candidate that was not shown, and why."""

    source: str
    chunk: str
    document: str
    outcome: str
    stage: str
    reason: str
    value: str
    limit: str


class CaseSentence(NamedTuple):
    """A sentence of an answer.

    Attributes:
        text: None if the words are not kept.
        findings: what the check found wrong, in words.
        quotes: label, SOURCE/CHUNK and text of each.
    """

    text: str | None
    verdict: str
    shown: bool
    labels: Sequence[str]
    findings: tuple[str, ...] = ()
    quotes: tuple[tuple[str, str, str], ...] = ()


class CaseAnswer(NamedTuple):
    """An answer composed from a search.

    Attributes:
        entry: of its record.
        missing: why its words are not here; "" if they are.
    """

    entry: Mapping[str, Any]
    sentences: tuple[CaseSentence, ...]
    missing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewCase:
    """Everything about one record.

    Attributes:
        record: without what its reader may not know.
        explanation: of a search; None for other records.
        question: None if it is not here; then `record.question_missing` says why.
        stages: the candidates before and after each stage.
        more_fates: number of candidates that are not shown and not listed here.
        settings: name, value and origin of those that differ from the default.
        problem: why a part of the record cannot be read, although nothing says that it was erased; "" if all can.
    """

    record: RecordResponse
    explanation: Explanation | None
    question: str | None
    exceptions: tuple[str, ...]
    stages: tuple[ExplainedStage, ...]
    chunks: tuple[CaseChunk, ...]
    fates: tuple[CaseFate, ...]
    more_fates: int
    settings: tuple[tuple[str, Any, str], ...]
    answers: tuple[CaseAnswer, ...]
    problem: str = ""

    @property
    def entry(self) -> Mapping[str, Any]:
        """The entry of the record."""
        return self.record.entry

    @property
    def is_search(self) -> bool:
        """Whether it is of a search or a ranking, which can be compared with its sources."""
        return self.entry["kind"] in SEARCHES

    @property
    def replayable(self) -> bool:
        """Whether it is of a search, a ranking or an answer, which can be computed again."""
        return self.is_search or self.entry["kind"] == "answer"

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        explanation = None if self.explanation is None else self.explanation.model_dump(mode="json")
        return {"record": self.record.model_dump(mode="json"), "explanation": explanation}


def case_of(record: OwnedRecord, *, operator: bool, mask: Mask | None, demo: bool) -> ReviewCase:
    """Rebuild a case from its record.

    Args:
        operator: whether an operator reads it, who sees all of it.
        mask: masks personal data if the search's settings want it.
        demo: whether the documents are the fictitious bank's.

    Raises:
        AuditError: the ledger cannot be read.
        MaskingError: a masker failed.
    """
    response = described(record, operator=operator)
    entry = response.entry
    is_search = entry["kind"] in SEARCHES
    explanation, texts, problem = None, {}, ""
    try:
        if is_search:
            explanation = explained(record, mask=mask, demo=demo, compared=False)
            texts = _texts(record) if operator else {}
    except LedgerCorrupt as error:
        problem = str(error)
    masked = mask if mask is not None and _setting(response, "mask_contexts") else None
    stages = tuple(_stages(entry))
    order = {stage.name: place for place, stage in enumerate(stages)}
    ended = sorted(
        (fate for fate in response.fates if fate["outcome"] != "returned"), key=lambda fate: _distance(fate, order)
    )
    full = exceptions_of(entry)
    return ReviewCase(
        record=response,
        explanation=explanation,
        question=_question(response, explanation, masked),
        exceptions=tuple(words for name, words in EXCEPTIONS.items() if name in full),
        stages=stages,
        chunks=tuple(_chunks(response, explanation, texts, masked)) if is_search else (),
        fates=tuple(map(_fate, ended[:_MOST_FATES])),
        more_fates=max(len(ended) - _MOST_FATES, 0),
        settings=tuple(_settings(response)),
        answers=tuple(_answers(record, response, masked)),
        problem=problem,
    )


def _setting(record: RecordResponse, name: str) -> bool:
    return bool(((record.settings or {}).get(name) or {}).get("value"))


def _question(record: RecordResponse, explanation: Explanation | None, mask: Mask | None) -> str | None:
    if explanation is not None:
        return explanation.question or None
    kept: Mapping[str, Any] = record.answer or record.question or {}
    asked = kept.get("asked") or (kept.get("request") or {}).get("query")
    return None if asked is None else str(asked) if mask is None else mask(str(asked))


def _stages(entry: Mapping[str, Any]) -> Iterator[ExplainedStage]:
    for name, (entered, left) in ((entry.get("counts") or {}).get("stages") or {}).items():
        yield ExplainedStage(name=name, entered=entered, left=left)


def _chunks(
    told: RecordResponse,
    explanation: Explanation | None,
    texts: Mapping[tuple[str, str], str],
    mask: Mask | None,
) -> Iterator[CaseChunk]:
    ranked = {} if explanation is None else {(chunk.source_id, chunk.chunk_id): chunk for chunk in explanation.shown}
    for rank, listed in enumerate(told.entry.get("chunks", ()), 1):
        key = (listed["source"], listed["chunk"])
        text = texts.get(key)
        yield CaseChunk(
            rank=rank,
            listed=listed,
            told=ranked.get(key),
            freshness=next((flag for flag in listed.get("flags", ()) if flag in STALE), ""),
            text=text if text is None or mask is None else mask(text),
        )


def _texts(record: OwnedRecord) -> dict[tuple[str, str], str]:
    shown = recorded_answer(record.entry, record.ledger).chunks
    return {(each.source_id, each.chunk_id): each.chunk.content for each in shown if each.chunk is not None}


def _distance(fate: Mapping[str, Any], order: Mapping[str, int]) -> tuple[bool, int, float]:
    """Order candidates that came furthest first, and merged ones last."""
    value = fate.get("value")
    number = value if isinstance(value, int | float) else 0.0
    place = order.get(fate.get("stage", ""), -1)
    return fate["outcome"] == "merged", -place, number if fate.get("reason") == "beyond_top_k" else -number


def _fate(fate: Mapping[str, Any]) -> CaseFate:
    merged = "/".join(fate["into"]) if fate.get("into") else ""
    reason = reason_words(fate.get("reason", ""))
    return CaseFate(
        source=fate["source_id"],
        chunk=fate["chunk_id"],
        document=fate.get("document_id") or "",
        outcome=fate["outcome"],
        stage=fate.get("stage", ""),
        reason=f"{reason}: {merged}" if merged else reason,
        value=_number(fate.get("value")),
        limit=_number(fate.get("limit")),
    )


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _settings(record: RecordResponse) -> Iterator[tuple[str, Any, str]]:
    for name, row in (record.settings or {}).items():
        if name not in _DEFAULTS or row["value"] != _DEFAULTS[name]:
            yield name, setting_words(name, row["value"]), str(row["origin"])


def _answers(record: OwnedRecord, response: RecordResponse, mask: Mask | None) -> Iterator[CaseAnswer]:
    if response.entry["kind"] == "answer":
        yield _answer(response.entry, response.answer, response.question_missing, mask)
        return
    from context_engine.audit.review.account import account_of

    for entry in response.answers[:_MOST_ANSWERS]:
        stored = record.ledger.entry(entry["id"])
        if stored is None or stored.entry is None:
            continue
        try:
            account = account_of(stored.entry, stored.index, record.ledger)
        except LedgerCorrupt as error:
            yield CaseAnswer(entry, (), str(error))
            continue
        yield _answer(account.entry, account.answer, account.question_missing, mask)


def _answer(entry: Mapping[str, Any], words: Mapping[str, Any] | None, missing: str, mask: Mask | None) -> CaseAnswer:
    plain = mask or str
    kept: Sequence[Mapping[str, Any]] = () if words is None else words["sentences"]
    sentences = []
    for place, facts in enumerate(entry["sentences"]):
        sentence = kept[place] if place < len(kept) else None
        sentences.append(
            CaseSentence(
                text=None if sentence is None else plain(sentence["text"]),
                verdict=facts["verdict"],
                shown=facts["shown"],
                labels=facts["labels"],
                findings=()
                if sentence is None
                else tuple(plain(finding["detail"]) for finding in sentence["findings"]),
                quotes=() if sentence is None else tuple(_quote(quote, mask) for quote in sentence["quotes"]),
            )
        )
    return CaseAnswer(entry, tuple(sentences), missing if words is None else "")


def _quote(quote: Mapping[str, Any], mask: Mask | None) -> tuple[str, str, str]:
    place = f"{quote.get('source')}/{quote.get('chunk')}"
    return str(quote["label"]), place, str(quote["text"]) if mask is None else mask(str(quote["text"]))


class LogStanding(NamedTuple):
    """The oldest checkpoint that covers a record: the first proof that it existed.

    Attributes:
        size: number of records that it covers.
        written: seconds since 1970.
        signers: names of its signatures.
    """

    size: int
    written: float
    signers: tuple[str, ...]


def standing_of(record: OwnedRecord) -> LogStanding | None:
    """Return the first checkpoint that covers a record; None if none does yet."""
    from context_engine.audit.formats.checkpoint import parse_note
    from context_engine.audit.formats.strict import FormatError

    if record.index is None:
        return None
    covering = next((each for each in record.ledger.checkpoints() if each.size > record.index), None)
    if covering is None:
        return None
    try:
        signers = tuple(dict.fromkeys(sign.name for sign in parse_note(covering.note).signatures))
    except FormatError:  # `audit verify` reports it
        signers = ()
    return LogStanding(covering.size, covering.written, signers)
