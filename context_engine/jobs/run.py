"""Puts one question to every document of a job, and keeps what is found after each.

The answer to a document is one event, written in one transaction. A run that was killed goes on with the first document
that has no such event, under the notes of its beginning, so that it finds what it would have found without the kill. A
call of a model whose answer was not kept yet is made again: the job's account in the budget has both, its memory one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from context_engine.answer.answering import last_of
from context_engine.answer.asking import JobShare, answerer_of
from context_engine.answer.budget import Cost, total
from context_engine.answer.composed import Answer
from context_engine.answer.values import Quote, Sentence, Verdict
from context_engine.core.models import Caller, Condition, FilterOp, Principal, SearchRequest
from context_engine.core.protocols import Clock
from context_engine.errors import CostLimitReached, InvalidRequest
from context_engine.jobs.compressed import compressed
from context_engine.jobs.documents import JobDocument, Progress
from context_engine.jobs.events import (
    JobEvent,
    QuestionAnswered,
    StageBegun,
    StageCompleted,
    finding_id,
    read_id,
)
from context_engine.jobs.memory import FindingCitation, JobFinding, JobMemory, Quality, Stage
from context_engine.jobs.store import JobRight, JobStore, require_open
from context_engine.service.deployment import Deployment

JOB_APP: Final = "job"


class JobRun(NamedTuple):
    """What a run works with.

    Attributes:
        deployment: of the job, see `job_deployment`.
        principal: whose rights decide what is searched.
        use_model: have the configured chat model write, if there is one.
    """

    store: JobStore
    job_id: str
    deployment: Deployment
    principal: Principal
    clock: Clock
    use_model: bool = True


def run_stage(
    run: JobRun,
    question: str | None,
    documents: Sequence[JobDocument],
    *,
    progress: Progress = lambda _done, _total, _name: None,
    stopped: Callable[[], bool] = lambda: False,
) -> JobMemory:
    """Put a question to every document that has not answered it, and return the job's memory.

    Args:
        question: begins a stage; None: go on with the open one.
        documents: of the job.
        progress: told documents read, documents in all, and the id of the next.
        stopped: asked before each document; once it is true, the stage stays open.

    Raises:
        InvalidRequest: the job is closed or has no documents, another stage is open, or none and no question is given.
        StoreLocked: the job is running already.
        CostLimitReached: a call would cost more than a limit leaves; what was found until then is kept.
        ContextEngineError: as `Answerer.stream`; what was found until then is kept.
    """
    with run.store.lock(run.job_id) as right:
        memory, stage = _stage(run, right, question, len(documents))
        share = JobShare(run.job_id, stage.notes, memory.budget_limit, memory.cost)
        read = frozenset(stage.read)
        for number, document in enumerate(documents):
            progress(number, len(documents), document.document_id)
            if document.document_id in read:
                continue
            if stopped():
                return run.store.memory(run.job_id)
            answer = _asked(run, share, stage.question, document.document_id)
            fact = answered_fact(answer, stage=stage.number, document_id=document.document_id)
            right.add([_event(run, read_id(stage.number, document.document_id), fact)])
            share = share._replace(spent=total((share.spent, fact.cost)))
        progress(len(documents), len(documents), "")
        right.add([_event(run, f"completed-{stage.number}", StageCompleted(stage=stage.number))])
        return run.store.memory(run.job_id)


def check_run(memory: JobMemory, question: str | None, documents: int) -> None:
    """Refuse a run that cannot begin or go on.

    Raises:
        InvalidRequest: see `run_stage`.
    """
    require_open(memory)
    if not documents:
        raise InvalidRequest(f"the job {memory.job_id} has no documents: add some with 'context-engine job add'")
    if memory.current is None and question is None:
        raise InvalidRequest("no stage is open: give the question that is put to each document")
    if memory.current is not None and question not in (None, memory.current.question):
        raise InvalidRequest(
            f"stage {memory.current.number} of the job {memory.job_id} is open, with another question: run it to its "
            "end first, without a question"
        )


def _stage(run: JobRun, right: JobRight, question: str | None, documents: int) -> tuple[JobMemory, Stage]:
    """Return the memory of the job and its open stage, which is begun if there is none."""
    memory = run.store.memory(run.job_id)
    check_run(memory, question, documents)
    if memory.current is None:
        assert question is not None
        number = len(memory.stages) + 1
        notes = compressed(memory).text
        begun = StageBegun(stage=number, question=question, documents=documents, notes=notes)
        right.add([_event(run, f"stage-{number}", begun)])
        memory = run.store.memory(run.job_id)
    assert memory.current is not None
    return memory, memory.current


def _asked(run: JobRun, share: JobShare, question: str, document_id: str) -> Answer:
    request = SearchRequest(
        query=question,
        domain=only_name(run.deployment),
        principal=run.principal,
        caller=Caller(app=JOB_APP, conversation=run.job_id),
        filters=Condition("document_id", FilterOp.EQ, document_id),
        overrides={"sources": (run.job_id,)},
        part_of=run.job_id,
    )
    answerer = answerer_of(run.deployment, request, use_model=run.use_model, policy=None, job=share)
    answer = last_of(answerer.stream(request))
    if answer.refusal is not None and answer.refusal.code == CostLimitReached.code:
        raise CostLimitReached(answer.refusal.message)
    return answer


def only_name(deployment: Deployment) -> str:
    """Return the name of the only domain of a job's deployment."""
    (name,) = deployment.setup.registry.domains
    return name


def answered_fact(answer: Answer, *, stage: int = 0, document_id: str | None = None) -> QuestionAnswered:
    """Return what a job keeps of an answer: its supported sentences as findings, counts, and what it cost."""
    supported = [sentence for sentence in answer.sentences if sentence.verdict is Verdict.SUPPORTED]
    shown = [sentence for sentence in answer.shown if sentence.verdict is Verdict.SUPPORTED]
    costs = list(_costs(answer))
    return QuestionAnswered(
        stage=stage,
        document_id=document_id,
        findings=tuple(_findings(answer, shown, stage)),
        quality=Quality(asked=1, answered=bool(shown), sentences=len(answer.sentences), supported=len(supported)),
        cost=total(cost.amount for cost in costs),
        currency=costs[0].currency if costs else "",
    )


def _costs(answer: Answer) -> Iterator[Cost]:
    deciding = () if answer.gathering is None else answer.gathering.calls
    for call in (answer.rewriting, answer.written, *deciding):
        if call is not None and call.cost is not None:
            yield call.cost


def _findings(answer: Answer, sentences: Iterable[Sentence], stage: int) -> Iterator[JobFinding]:
    for sentence in sentences:
        if sentence.quotes:
            cited = _citation(answer, sentence.quotes[-1])
            yield JobFinding(id=finding_id(sentence.text, cited), text=sentence.text, stage=stage, citation=cited)


def _citation(answer: Answer, quote: Quote) -> FindingCitation:
    evidence = next(item for item in answer.evidence if item.label == quote.label)
    key = (evidence.source_id, evidence.chunk_id)
    ranked = next(chunk for chunk in answer.result.chunks if (chunk.source_id, chunk.chunk_id) == key)
    tag = ranked.provenance.to_dict()
    return FindingCitation(
        source_id=ranked.source_id,
        chunk_id=ranked.chunk_id,
        document_id=ranked.chunk.document_id,
        document_version=ranked.chunk.document_version,
        title=ranked.title or "",
        section=ranked.section,
        page=ranked.page,
        quote=quote.text,
        tag={name: value for name, value in tag.items() if name != "extra"},
        content_sha256=str(tag["extra"].get("content_sha256", "")),
        search_id=answer.result.search_id,
        answer_id=answer.answer_id,
    )


def _event(run: JobRun, event_id: str, fact: StageBegun | QuestionAnswered | StageCompleted) -> JobEvent:
    return JobEvent(id=event_id, at=run.clock.now(), fact=fact)
