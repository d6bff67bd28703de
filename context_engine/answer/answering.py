"""Answers a question from the passages of its search, sentence by sentence; nothing unsupported is shown.

Without a chat model the answer is made of verbatim sentences. With one, each sentence that the model writes is held
back until it is checked against the passages that it cites. A question out of scope, without passages or with required
evidence missing is refused before a model is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, cast, get_args

from context_engine.answer.composed import Answer, answer_record
from context_engine.answer.conflicts import conflicts
from context_engine.answer.extract import extract
from context_engine.answer.gathering import Gathering
from context_engine.answer.values import AnswerRefusal, Evidence, Extraction, Sentence, Verdict, evidence_of
from context_engine.answer.writing import COUNTER, ModelCall, Stopped, Writer, checked
from context_engine.core.context import from_result
from context_engine.core.context.render import Form
from context_engine.core.engine import Engine
from context_engine.core.engine.comparison import compare
from context_engine.core.models import AnswerPolicy, ChatMessage, Context, Decision, SearchRequest, SearchResult
from context_engine.core.query.follow_up import needs_subject
from context_engine.core.query.spelling import reworded
from context_engine.core.tracing import Step, spanned
from context_engine.errors import ChatModelError, CostLimitReached, InvalidRequest

logger = logging.getLogger(__name__)

_POLICIES: Final = get_args(AnswerPolicy)
_MOST_EXTRACTED: Final = 3
_REFUSED: Final = {
    Decision.NO_MATCH: "Nothing relevant was found in the sources of this domain. Use other words, the language of the "
    "documents, or another domain.",
    Decision.OUT_OF_SCOPE: "This question is not one for this domain. Ask another domain, name the subject, or ask in "
    "the language of the documents.",
    Decision.INCOMPLETE: "A source that this answer needs gave nothing. The warnings name it and say what to mend.",
}
_NO_SUBJECT: Final = (
    "This question does not say what it is about. Name its subject; a chat model, if one is set up, takes it from the "
    "conversation."
)
_NO_SENTENCE: Final = "The passages that were found do not hold the answer."
_UNSUPPORTED: Final = "What the model wrote is not supported by the passages that it cites, so it is not shown."


class Stated(NamedTuple):
    """A sentence that may be shown; `number` counts them from 1."""

    answer: Answer
    number: int
    sentence: Sentence


class Started(NamedTuple):
    """The search is done; the passages are known, and nothing is stated yet."""

    answer: Answer


class Finished(NamedTuple):
    """The answer is complete and recorded."""

    answer: Answer


Event = Started | Stated | Finished


class FoundPassages(NamedTuple):
    """What the searches of a workflow found.

    Attributes:
        result: holds the passages of the answer; see `gathered`.
    """

    result: SearchResult
    gathering: Gathering


FindPassages = Callable[[SearchRequest], FoundPassages]
"""Searches for a question in several steps, and records each search and each reading."""


def last_of(events: Iterable[Event]) -> Answer:
    """Return the answer after its last event."""
    *_, last = events
    return last.answer


class Answerer:
    """Answers questions over an engine. Thread-safe.

    Args:
        writer: has a chat model write; None: answers are extractive.
        policy: for unsupported sentences; None: as the domain's settings say.
        notes: what the job of the questions has noted, for the model; "" without a job.

    Attributes:
        writer: as given.
    """

    def __init__(
        self, engine: Engine, *, writer: Writer | None = None, policy: AnswerPolicy | None = None, notes: str = ""
    ) -> None:
        self._engine, self.writer, self._policy, self._notes = engine, writer, policy, notes

    def stream(
        self,
        request: SearchRequest,
        history: Sequence[ChatMessage] = (),
        stopped: Stopped | None = None,
        find: FindPassages | None = None,
    ) -> Generator[Event, None, None]:
        """Return the events of an answer: `Started`, a `Stated` for each sentence, `Finished`.

        A consumer that closes the generator stops the model; what was stated until then is recorded.

        Args:
            history: the turns before the question, oldest first.
            stopped: asked while a model writes; once it is true, the model is stopped.
            find: searches for the question; None: one search.

        Raises:
            AuditUnavailable: the answer could not be recorded; nothing more is given.
            InvalidRequest: a looser policy than the domain's; else as `Engine.search`.
            ContextEngineError: as `Engine.search`.
        """
        events = self._events(request, history, stopped, find)
        return spanned(events, Step.ANSWER, request.domain, tracer=self._engine.tracer)

    def _events(
        self, request: SearchRequest, history: Sequence[ChatMessage], stopped: Stopped | None, find: FindPassages | None
    ) -> Generator[Event, None, None]:
        alone, warnings = self.standalone(request, history)
        if find is None:
            yield from self.over(self._engine.search(alone), asked=request.query, warnings=warnings, stopped=stopped)
            return
        result, gathering = find(alone)
        yield from self.over(result, asked=request.query, warnings=warnings, stopped=stopped, gathering=gathering)

    def over(
        self,
        result: SearchResult,
        *,
        asked: str,
        warnings: Sequence[str] = (),
        stopped: Stopped | None = None,
        gathering: Gathering | None = None,
    ) -> Generator[Event, None, None]:
        """Yield the events of an answer over a result of the engine, as `stream` does after its search.

        Nothing is recorded if the consumer closes the generator at `Started`.

        Args:
            asked: the question as asked.
            warnings: sentences for people about what came before the search.
            gathering: of the workflow that found the result and recorded its passages; None: of one search.

        Raises:
            AuditUnavailable, InvalidRequest: as `stream`.
        """
        answer = self._begun(result, self._context(result, gathering), asked)
        answer.gathering = gathering
        answer.warnings += warnings
        yield Started(answer)
        try:
            if answer.refusal is None:
                for number, sentence in enumerate(self._sentences(answer, stopped), start=1):
                    yield Stated(answer, number, sentence)
        finally:
            self._complete(answer)
        yield Finished(answer)

    def standalone(self, request: SearchRequest, history: Sequence[ChatMessage]) -> tuple[SearchRequest, list[str]]:
        """Return the request with a question that needs no conversation, where a model can write it, and warnings."""
        if self.writer is None:
            return request, []
        query, warnings = standalone(self.writer, request.query, history)
        return replace(request, query=query), warnings

    def check(self, result: SearchResult, text: str, model: str) -> Answer:
        """Return an answer that a model elsewhere wrote from the context of a result, checked and recorded.

        Args:
            text: the answer as the model wrote it, with labels.
            model: who wrote it, for the record.

        Raises:
            AuditUnavailable: it could not be recorded.
            InvalidRequest: a looser policy than the domain's.
            ContextEngineError: as `Engine.context`.
        """
        answer = self._begun(result, self._engine.context(result, counter=COUNTER), result.query)
        answer.mode, answer.written = "model", ModelCall(model, text=text)
        if answer.refusal is None:
            for _ in _let_through(answer, checked([text], answer.evidence, None)):
                pass
        self._complete(answer)
        return answer

    def baseline(self, answer: Answer) -> Answer:
        """Return the answer to the same question from the candidates by relevance alone, for a comparison.

        It is not recorded: it follows from the record of the search.
        """
        result, made = compare(answer.result).baseline, answer.context
        context = from_result(
            result,
            counter=COUNTER,
            budget=made.budget,
            form=cast(Form, made.form),
            nonce=made.nonce,
            mask=self._engine.mask,
        )
        baseline = self._begun(result, context, answer.asked)
        if baseline.refusal is None:
            for _ in self._sentences(baseline, None):
                pass
        return baseline

    def _context(self, result: SearchResult, gathering: Gathering | None) -> Context:
        """Return the context of a result, recorded; that of a workflow follows from the record of the answer."""
        if gathering is None:
            return self._engine.context(result, counter=COUNTER)
        return from_result(result, counter=COUNTER, mask=self._engine.mask)

    def _begun(self, result: SearchResult, context: Context, asked: str) -> Answer:
        """Return the answer to a searched question before anything is stated, refused if nothing may be."""
        evidence = evidence_of(result, context)
        refusal = _refused_before(result, evidence)
        return Answer(
            result=result,
            context=context,
            evidence=evidence,
            asked=asked,
            mode="model" if refusal is None and self.writer is not None else "extractive",
            policy=_in_force(self._policy, result.settings.values.answer_unsupported),
            refusal=refusal,
            notes="" if self.writer is None else self._masked(self._notes, result),
            rewriting=None if self.writer is None else self.writer.rewriting,
            warnings=list(result.warnings),
        )

    def _masked(self, text: str, result: SearchResult) -> str:
        """Return a text as a model may read it, which is masked where the contexts of the domain are."""
        mask = self._engine.mask if result.settings.values.mask_contexts else None
        return text if mask is None else mask(text)

    def _sentences(self, answer: Answer, stopped: Stopped | None) -> Iterator[Sentence]:
        """Yield the sentences that may be shown; all of them, and a refusal, go to the answer."""
        if self.writer is not None:
            answer.written = ModelCall(self.writer.name)
            written = self.writer.write(
                answer.result.answered_query, answer.context, answer.evidence, answer.written, stopped, answer.notes
            )
            try:
                yield from _let_through(answer, written)
                return
            except CostLimitReached as error:
                answer.refusal = AnswerRefusal(error.code, str(error))
                return
            except ChatModelError as error:
                answer.mode = "extractive"
                _failed(answer, "The model did not answer, so the sentences are quoted", error)
        parts = _extractions(answer.result, answer.evidence, answer.gathering)
        extraction = _together(list(parts.values()))
        answer.wants, answer.refusal = extraction.wants, extraction.refusal
        answer.sentences += extraction.sentences
        if extraction.sentences:
            answer.warnings += [
                f"No sentence answers this part: {part}." for part, alone in parts.items() if not alone.sentences
            ]
        yield from extraction.sentences

    def _complete(self, answer: Answer) -> None:
        """Look for disagreements and record the answer."""
        if answer.refusal is None:
            supported = [sentence for sentence in answer.sentences if sentence.verdict is Verdict.SUPPORTED]
            answer.conflicts = conflicts(supported, {item.label: item for item in answer.evidence})
        answer.answer_id = self._engine.answered(answer.result, answer_record(answer, self._engine.mask))


def _let_through(answer: Answer, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yield the checked sentences that the policy lets through; under `refuse` only when all of them are known.

    Raises:
        ChatModelError: the model failed before its first sentence. If it fails later, the answer ends there.
    """
    whole = answer.policy == "refuse"
    try:
        for sentence in sentences:
            answer.sentences.append(sentence)
            if not whole and answer.allows(sentence):
                yield sentence
    except ChatModelError as error:
        if not answer.sentences:
            raise
        _failed(answer, "The answer is not complete", error)
    if not answer.sentences:
        answer.refusal = AnswerRefusal("no_sentence", _NO_SENTENCE)
    elif not answer.allowed or (whole and len(answer.allowed) < len(answer.sentences)):
        answer.refusal = AnswerRefusal("unsupported", _UNSUPPORTED)
    elif whole:
        yield from answer.allowed


def _failed(answer: Answer, outcome: str, error: ChatModelError) -> None:
    """Tell the reader and, in the log, the operator that the model failed."""
    logger.warning("answer to search %s: %s", answer.result.search_id, error)
    answer.warnings.append(f"{outcome}: {error}")


def standalone(writer: Writer, question: str, history: Sequence[ChatMessage]) -> tuple[str, list[str]]:
    """Return a question that needs no conversation, the question itself if the model fails, and warnings about that."""
    if not history:
        return question, []
    try:
        return writer.standalone(question, history), []
    except (ChatModelError, CostLimitReached) as error:
        return question, [f"The question was searched as asked: {error}"]


def extracted(result: SearchResult, evidence: Sequence[Evidence], gathering: Gathering | None = None) -> Extraction:
    """Return the sentences of a result's evidence that answer its question, or a refusal.

    Args:
        gathering: of a workflow: each part of the question that it searched is answered by itself.
    """
    return _together(list(_extractions(result, evidence, gathering).values()))


def _together(answers: Sequence[Extraction]) -> Extraction:
    """Return the sentences of the parts of a question, each once; the first refusal if there is none."""
    sentences = {sentence.text: sentence for answer in answers for sentence in answer.sentences}
    refusal = None if sentences else answers[0].refusal
    return Extraction(answers[0].wants, tuple(sentences.values()), refusal)


def _extractions(
    result: SearchResult, evidence: Sequence[Evidence], gathering: Gathering | None
) -> dict[str, Extraction]:
    """Return each part of a question, or the question itself, with the sentences that answer it.

    A question that nothing answers as it is written is read in the spelling that the search suggests.
    """
    prepared = result.prepared
    language = "und" if prepared is None else prepared.language
    answer = partial(extract, evidence=evidence, language=language, most=_MOST_EXTRACTED)
    questions = (() if gathering is None else gathering.parts) or (result.answered_query,)
    answers = {part: answer(part) for part in questions}
    if prepared is None or not prepared.suggestions or any(alone.sentences for alone in answers.values()):
        return answers
    respelt = {part: answer(reworded(part, prepared.suggestions)) for part in questions}
    return respelt if any(alone.sentences for alone in respelt.values()) else answers


def _in_force(asked: AnswerPolicy | None, configured: AnswerPolicy) -> AnswerPolicy:
    if asked is None:
        return configured
    if _POLICIES.index(asked) < _POLICIES.index(configured):
        raise InvalidRequest(
            f"unsupported may not be {asked!r}: answer_unsupported is {configured!r} in this domain, and a request may "
            "only be stricter"
        )
    return asked


def _refused_before(result: SearchResult, evidence: Sequence[Evidence]) -> AnswerRefusal | None:
    """Return why a question is refused before anything is composed."""
    if result.decision in _REFUSED:
        return AnswerRefusal(str(result.decision), _REFUSED[result.decision])
    if needs_subject(result.query):
        return AnswerRefusal("no_subject", _NO_SUBJECT)
    return None if evidence else AnswerRefusal(str(Decision.NO_MATCH), _REFUSED[Decision.NO_MATCH])
