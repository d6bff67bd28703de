"""The jobs of one caller: start, add, show, ask, run, close and delete. A job is its starter's and the operators'."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from context_engine.answer.answering import last_of
from context_engine.answer.asking import JobShare, answerer_of
from context_engine.answer.composed import Answer
from context_engine.core.engine import SystemClock
from context_engine.core.models import AnswerPolicy, Authenticated, SearchRequest
from context_engine.errors import InvalidRequest, JobNotFound
from context_engine.ingest.report import IngestReport
from context_engine.jobs.asking import workflow_finder
from context_engine.jobs.compressed import check_constraint, compressed
from context_engine.jobs.documents import JobDocument, Progress, add_documents, documents_of, job_deployment
from context_engine.jobs.events import ConstraintAdded, FindingAdded, JobClosed, JobEvent, RiskAdded, no_job
from context_engine.jobs.memory import JobMemory
from context_engine.jobs.run import JobRun, answered_fact, check_run, run_stage
from context_engine.jobs.store import open_store, require_open, started_event
from context_engine.service.deployment import Deployment
from context_engine.service.request import only_domain

NoteKind = Literal["constraint", "risk", "finding"]
NOTE_KINDS: Final = {"constraint": ConstraintAdded, "risk": RiskAdded, "finding": FindingAdded}
MOST_CHARS: Final = {"title": 200, "question": 2_000, "constraint": 5_000, "risk": 2_000, "finding": 2_000}
"""Most characters of a text by its kind."""


class OwnedJobs:
    """The jobs that a caller may work with. Others count as missing.

    Args:
        deployment: the service, or the configuration of a command.
        caller: whose jobs; an operator has all of them.
    """

    def __init__(self, deployment: Deployment, caller: Authenticated) -> None:
        self._deployment, self._caller, self._clock = deployment, caller, SystemClock()
        self._data_dir = deployment.setup.data_dir(deployment.data_dir)
        self._store = open_store(deployment.setup, self._data_dir)

    def start(self, title: str, domain: str | None = None, budget_limit: Decimal | None = None) -> JobMemory:
        """Start a job in a domain; None: the only one that the caller may search.

        Raises:
            UnknownDomain, InvalidRequest: no such domain, or an unusable title or budget.
            ConfigError: the data folder cannot be written to.
        """
        registry = self._deployment.known_to(self._caller.principal)
        name = registry.domain(only_domain(registry, domain)).domain
        if budget_limit is not None and not (budget_limit.is_finite() and budget_limit >= 0):
            raise InvalidRequest("the budget must be an amount of 0 or more")
        title = self._text("title", title, name)
        starter = self._caller.principal.id or None
        if not self._deployment.demo:
            self._deployment.setup.claim(self._data_dir)
        now = self._clock.now()
        return self._store.start(started_event(title, name, now=now, starter=starter, budget_limit=budget_limit))

    def all(self) -> list[JobMemory]:
        """Return the caller's jobs, newest first."""
        return list(filter(self._owns, self._store.memories()))

    def memory(self, job_id: str) -> JobMemory:
        """Return the memory of a job.

        Raises:
            JobNotFound: there is no such job, or it is not the caller's.
        """
        try:
            memory = self._store.memory(job_id)
        except JobNotFound:
            raise no_job(job_id) from None
        if not self._owns(memory):
            raise no_job(job_id)
        return memory

    def add(self, job_id: str, kind: NoteKind, text: str) -> JobMemory:
        """Add a constraint, a risk or a finding.

        Raises:
            JobNotFound: see `memory`.
            InvalidRequest: the job is closed, the text cannot be used, or the constraints are too long together.
        """
        memory = self._open(job_id)
        text = self._text(kind, text, memory.domain)
        if kind == "constraint":
            check_constraint(memory, text)
        return self._added(job_id, uuid.uuid4().hex, NOTE_KINDS[kind](text=text))

    def add_documents(self, job_id: str, path: Path, progress: Progress | None = None) -> IngestReport:
        """Add the documents of a folder or a file, which are searched in this job alone.

        Raises:
            JobNotFound, InvalidRequest, StoreError: see `memory`, and `context_engine.jobs.documents.add_documents`.
        """
        memory = self._open(job_id)
        with self._store.place(job_id) as place:
            return add_documents(self._deployment.setup, memory.domain, place, path, progress)

    def add_texts(self, job_id: str, texts: Mapping[str, str]) -> IngestReport:
        """Add documents that come as texts, by their file names; a name has no folder.

        Raises:
            JobNotFound, InvalidRequest, StoreError: see `add_documents`.
        """
        self._open(job_id)
        with self._store.place(job_id) as place, TemporaryDirectory(dir=place.folder) as folder:
            for name, text in texts.items():
                (Path(folder) / Path(name).name).write_text(text, "utf-8")
            return self.add_documents(job_id, Path(folder))

    def documents(self, job_id: str) -> list[JobDocument]:
        """Return the documents of a job.

        Raises:
            JobNotFound, StoreError: see `memory`, and the base cannot be read.
        """
        memory = self.memory(job_id)
        with self._store.place(job_id) as place:
            return documents_of(self._deployment.setup, memory.domain, place)

    def is_running(self, job_id: str) -> bool:
        """Return whether any process is running a job.

        Raises:
            JobNotFound: see `memory`.
        """
        self.memory(job_id)
        return self._store.is_running(job_id)

    def check_run(self, job_id: str, question: str | None) -> None:
        """Refuse a run that `run` would refuse at once.

        Raises:
            JobNotFound, InvalidRequest: see `run`.
        """
        memory = self._open(job_id)
        asked = None if question is None else self._text("question", question, memory.domain)
        check_run(memory, asked, len(self.documents(job_id)))

    def run(
        self,
        job_id: str,
        question: str | None = None,
        *,
        use_model: bool = True,
        progress: Progress = lambda _done, _total, _name: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> JobMemory:
        """Put a question to every document; see `run_stage` for arguments and errors."""
        memory = self._open(job_id)
        if question is not None:
            question = self._text("question", question, memory.domain)
        documents = self.documents(job_id)
        with self._opened(memory) as deployment:
            run = JobRun(self._store, job_id, deployment, self._caller.principal, self._clock, use_model)
            return run_stage(run, question, documents, progress=progress, stopped=stopped)

    def ask(
        self,
        job_id: str,
        request: SearchRequest,
        *,
        use_model: bool = True,
        policy: AnswerPolicy | None = None,
        workflow: str | None = None,
        rounds: int | None = None,
    ) -> Answer:
        """Answer a question from the domain and the job's documents, under the job's memory, and keep the findings.

        Args:
            request: its domain is the job's, and its principal the caller.
            use_model, policy: see `answerer_of`.
            workflow, rounds: see `workflow_finder`.

        Raises:
            JobNotFound: see `memory`.
            InvalidRequest: the job is closed, or the request names another domain.
            ContextEngineError: as `Answerer.stream`.
        """
        memory = self._open(job_id)
        if request.domain != memory.domain:
            raise InvalidRequest(f"the job {job_id} is in domain {memory.domain}: ask in that domain")
        share = JobShare(job_id, compressed(memory).text, memory.budget_limit, memory.cost)
        with self._opened(memory) as deployment:
            answerer = answerer_of(deployment, request, use_model=use_model, policy=policy, job=share)
            find = workflow_finder(deployment, workflow=workflow, rounds=rounds)
            answer = last_of(answerer.stream(request, find=find(request, answerer.writer)))
        self._added(job_id, answer.answer_id or answer.result.search_id, answered_fact(answer))
        return answer

    def close(self, job_id: str) -> JobMemory:
        """Close a job: it can be read, and nothing is added any more.

        Raises:
            JobNotFound, InvalidRequest: see `memory`; it is closed already.
        """
        self._open(job_id)
        return self._added(job_id, "closed", JobClosed())

    def delete(self, job_id: str) -> None:
        """Remove a job with its memory and documents; the ledger and older backups of the disk keep what they have.

        Raises:
            JobNotFound: see `memory`.
            StoreLocked, StoreError: it is running, or its files cannot be removed.
        """
        self.memory(job_id)
        self._store.delete(job_id)

    @contextmanager
    def having(self, source_id: str) -> Iterator[Deployment]:
        """Yield the deployment that has a source: that of a job if the source is the documents of one of the caller's.

        Raises:
            UnknownDomain, ConfigError: see `job_deployment`.
        """
        try:
            memory = self.memory(source_id)
        except JobNotFound:
            yield self._deployment
            return
        with self._opened(memory) as deployment:
            yield deployment

    def _owns(self, memory: JobMemory) -> bool:
        return self._caller.operator or memory.starter == (self._caller.principal.id or None)

    def _open(self, job_id: str) -> JobMemory:
        memory = self.memory(job_id)
        require_open(memory)
        return memory

    @contextmanager
    def _opened(self, memory: JobMemory) -> Iterator[Deployment]:
        with (
            self._store.place(memory.job_id) as place,
            job_deployment(self._deployment, memory.domain, place) as deployment,
        ):
            yield deployment

    def _added(self, job_id: str, event_id: str, fact: object) -> JobMemory:
        event = JobEvent.model_validate({"id": event_id, "at": self._clock.now(), "fact": fact})
        self._store.add(job_id, [event])
        return self._store.memory(job_id)

    def _text(self, kind: str, text: str, domain: str) -> str:
        """Return a text on one line, masked as the domain's questions are.

        Raises:
            InvalidRequest: it is empty or too long.
        """
        text, most = " ".join(text.split()), MOST_CHARS[kind]
        if not 0 < len(text) <= most:
            raise InvalidRequest(f"a {kind} has 1 to {most:,} characters, this one has {len(text):,}")
        registry = self._deployment.setup.registry
        masked = self._deployment.setup.resolver.base(registry.domain(domain)).values.mask_stored_queries
        return self._deployment.engine.mask(text) if masked and self._deployment.engine.mask else text
