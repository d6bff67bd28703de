"""The jobs of a caller over a small bank: documents of their own, findings with citations, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from context_engine.audit.record.entry import read_entry
from context_engine.audit.review.stored import find_record
from context_engine.core.models import Authenticated, Principal, SearchRequest
from context_engine.errors import InvalidRequest, JobNotFound, StoreLocked
from context_engine.jobs.documents import job_setup, job_source
from context_engine.jobs.folder_store import JOBS, FolderJobs
from context_engine.jobs.memory import JobMemory
from context_engine.jobs.owned import OwnedJobs
from context_engine.service.deployment import Deployment
from context_engine.wiring.audit_writers import close_writers
from tests.unit.service.small_bank import AUDITOR, CHAIR, CLERK, caller, searched, small_bank

PLANTED = "Zanzibarite"
FILES = {
    "a.md": f"# Agreement A\n\n## 1 Limit\n\nThe facility limit of {PLANTED} Ltd is USD 5 million.\n",
    "b.md": "# Agreement B\n\n## 1 Limit\n\nThe facility limit is USD 7 million.\n",
    "c.md": "# Canteen\n\nLunch is served at noon.\n",
}
LIMIT = "What is the facility limit?"


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("bank")
    (folder / "agreements").mkdir()
    for name, text in FILES.items():
        (folder / "agreements" / name).write_text(text)
    deployment = small_bank(folder, settings={"audit": {"audit_mode": "required", "audit_timeout_s": 60.0}})
    yield deployment
    deployment.close()
    close_writers()


@pytest.fixture(scope="module")
def agreements(bank: Deployment) -> Path:
    return bank.setup.cwd / "agreements"


@pytest.fixture(scope="module")
def reviewed(bank: Deployment, agreements: Path) -> JobMemory:
    """A job of the clerk that has put one question to three documents."""
    jobs = OwnedJobs(bank, caller(CLERK))
    job_id = jobs.start("Facility review").job_id
    jobs.add(job_id, "constraint", "Amounts\n in USD.")
    jobs.add_documents(job_id, agreements)
    return jobs.run(job_id, LIMIT)


def test_each_document_gives_its_finding_with_its_citation(reviewed):
    first, second = reviewed.findings
    cited = first.citation

    assert "USD 5 million" in first.text and "USD 7 million" in second.text
    assert (cited.source_id, cited.document_id, cited.title) == (reviewed.job_id, "a", "Agreement A")
    assert "USD 5 million" in cited.quote
    assert cited.tag["trust_class"] == "UNTRUSTED"
    assert cited.search_id and cited.answer_id
    assert reviewed.stages[0].read == ("a", "b", "c")
    assert reviewed.quality.coverage == 2 / 3
    assert [note.text for note in reviewed.constraints] == ["Amounts in USD."]
    assert "Amounts in USD." in reviewed.stages[0].notes


def test_the_searches_and_answers_of_a_stage_are_recorded_as_parts_of_the_job(bank, reviewed):
    ledger, cited = bank.ledger.opened(), reviewed.findings[0].citation
    for record_id in (cited.search_id, cited.answer_id):
        assert read_entry(find_record(ledger, record_id).entry)["part_of"] == reviewed.job_id


def test_no_other_search_finds_the_documents_of_a_job(bank, reviewed, agreements):
    other = OwnedJobs(bank, caller(CLERK))
    empty = other.start("Another job").job_id
    other.add_documents(empty, agreements / "c.md")
    request = SearchRequest(query=f"facility limit of {PLANTED}", domain="ORM", principal=CLERK)

    assert all(PLANTED not in chunk.content for chunk in searched(bank, CLERK, request.query).chunks)
    assert all(PLANTED not in item.text for item in other.ask(empty, request).evidence)
    assert any(PLANTED in item.text for item in other.ask(reviewed.job_id, request).evidence)


def test_a_question_beside_the_stages_searches_the_domain_too_and_is_remembered(bank, reviewed):
    jobs = OwnedJobs(bank, caller(CLERK))
    before = jobs.memory(reviewed.job_id)
    request = SearchRequest(query="When must a loss event be reported?", domain="ORM", principal=CLERK)
    answer = jobs.ask(reviewed.job_id, request)
    after = jobs.memory(reviewed.job_id)

    assert answer.sentences[0].text in [finding.text for finding in after.findings]
    assert after.quality.asked == before.quality.asked + 1
    assert after.findings[-1].citation.source_id == "sops"
    assert after.stages == before.stages


def test_a_question_may_take_several_searches(bank, reviewed):
    jobs = OwnedJobs(bank, caller(CLERK))
    request = SearchRequest(query="When must a loss event be reported?", domain="ORM", principal=CLERK)
    answer = jobs.ask(reviewed.job_id, request, workflow="agentic", rounds=2)
    assert answer.gathering is not None
    assert "24 hours" in answer.sentences[0].text


def test_a_job_is_its_starters_and_the_operators(bank, reviewed):
    chair, auditor = OwnedJobs(bank, caller(CHAIR)), OwnedJobs(bank, caller(AUDITOR))
    assert reviewed.starter == CLERK.id
    assert chair.all() == []
    for work in (chair.memory, chair.close, chair.delete, chair.documents, chair.run):
        with pytest.raises(JobNotFound):
            work(reviewed.job_id)
    assert auditor.memory(reviewed.job_id).title == "Facility review"


@pytest.mark.parametrize("job_id", ["", "..", "job-20260302-090000-0a1b2c", "../data"])
def test_an_unknown_job_is_not_found(bank, job_id):
    with pytest.raises(JobNotFound):
        OwnedJobs(bank, caller(AUDITOR)).memory(job_id)


def test_an_open_stage_takes_no_other_question(bank, agreements):
    jobs = OwnedJobs(bank, caller(CLERK))
    job_id = jobs.start("Two questions").job_id
    with pytest.raises(InvalidRequest, match="no documents"):
        jobs.run(job_id, LIMIT)
    jobs.add_documents(job_id, agreements)
    with pytest.raises(InvalidRequest, match="no stage is open"):
        jobs.run(job_id)
    stopped = iter([False, True])
    halted = jobs.run(job_id, LIMIT, stopped=lambda: next(stopped))
    assert (halted.state, halted.current.read) == ("in_progress", ("a",))
    with pytest.raises(InvalidRequest, match="another question"):
        jobs.run(job_id, "Who signs?")
    assert jobs.run(job_id).stages[0].read == ("a", "b", "c")


def test_one_run_at_a_time(bank, reviewed):
    jobs, store = OwnedJobs(bank, caller(CLERK)), FolderJobs(bank.data_dir)
    with store.lock(reviewed.job_id), pytest.raises(StoreLocked, match="running already"):
        assert jobs.is_running(reviewed.job_id)
        jobs.run(reviewed.job_id, "Who signs?")
    assert not jobs.is_running(reviewed.job_id)


def test_a_closed_job_takes_nothing_more(bank):
    jobs = OwnedJobs(bank, caller(CLERK))
    job_id = jobs.start("Short", budget_limit=Decimal("2.50")).job_id
    assert jobs.close(job_id).state == "closed"
    for work in (
        lambda: jobs.add(job_id, "risk", "Late."),
        lambda: jobs.run(job_id, LIMIT),
        lambda: jobs.close(job_id),
    ):
        with pytest.raises(InvalidRequest, match="is closed"):
            work()


@pytest.mark.parametrize("text", ["", " \n ", "x" * 201])
def test_a_title_that_cannot_be_used_is_refused(bank, text):
    with pytest.raises(InvalidRequest, match="a title has 1 to 200 characters"):
        OwnedJobs(bank, caller(CLERK)).start(text)


def test_a_deleted_job_leaves_nothing_in_the_data_folder(bank, agreements):
    jobs = OwnedJobs(bank, caller(CLERK))
    job_id = jobs.start("Gone").job_id
    jobs.add_documents(job_id, agreements / "a.md")
    jobs.run(job_id, LIMIT)
    folder = bank.data_dir / JOBS / job_id
    assert any(PLANTED.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())
    jobs.delete(job_id)

    assert not folder.exists()
    assert not list((bank.data_dir / JOBS).glob(".deleted-*"))
    assert job_id not in [memory.job_id for memory in jobs.all()]
    with pytest.raises(JobNotFound):
        jobs.memory(job_id)


def test_the_configuration_of_a_job_has_its_domain_and_no_cache(bank):
    setup = job_setup(bank.setup, "ORM", job_source("job-x", "local"))
    assert [source.id for source in setup.registry.domain("ORM").sources] == ["sops", "board", "web", "job-x"]
    assert setup.resolver.base(setup.registry.domain("ORM")).values.cache_ttl_s == 0
    assert "job-x" not in [source.id for source in bank.setup.registry.domain("ORM").sources]


def test_callers_who_are_not_told_apart_share_their_jobs(bank):
    nobody = Authenticated(principal=Principal())
    job_id = OwnedJobs(bank, nobody).start("Shared", "ORM").job_id
    assert OwnedJobs(bank, nobody).memory(job_id).starter is None
    with pytest.raises(JobNotFound):
        OwnedJobs(bank, caller(CLERK)).memory(job_id)
