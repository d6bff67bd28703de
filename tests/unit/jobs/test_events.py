"""The memory of a job as a function of its events."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.errors import StoreCorrupt
from context_engine.jobs.contract import job_out
from context_engine.jobs.events import ConstraintAdded, FindingAdded, JobClosed, RiskAdded, finding_id, memory_of
from tests.unit.jobs.conftest import JOB, citation, event, finding, read, short_job


def test_a_stage_sums_its_documents():
    memory = memory_of(short_job())
    stage = memory.stages[0]

    assert (stage.number, stage.read, stage.key_findings) == (1, ("a.md", "b.md"), (finding("a.md").id,))
    assert stage.cost == memory.cost == Decimal("0.0012") + Decimal("0.0012")
    assert stage.quality.coverage == 1 / 2
    assert stage.quality.supported_share == 1 / (2 + 2)
    assert stage.quality.score == round(100 * 1 / 4)
    assert (memory.current, memory.state, memory.currency) == (None, "completed", "USD")


def test_the_export_has_the_designed_shape():
    events = [
        *short_job(),
        event(31, "c", ConstraintAdded(text="Only policies in force in 2026.")),
        event(32, "r", RiskAdded(text="One facility has no limit.")),
    ]
    out = job_out(memory_of(events)).model_dump(mode="json")

    assert list(out)[:6] == [
        "job_id",
        "executive_summary",
        "completed_stages",
        "current_stage",
        "constraints",
        "risks",
    ]
    assert out["completed_stages"][0] == {
        "stage": 1,
        "completed_at": "2026-03-02T09:30:00Z",
        "key_findings": ["The limit is USD 5 million."],
        "quality_score": 25,
        "cost": 0.0024,
        "question": "What is the limit?",
        "documents": 2,
        "coverage": 0.5,
    }
    assert out["current_stage"] == {"stage": 2, "status": "not_started", "question": None, "read": 0, "documents": 0}
    assert out["constraints"] == {
        "budget_used": 0.0024,
        "budget_limit": None,
        "time_elapsed_hours": round(32 / 60, 4),
        "rules": ["Only policies in force in 2026."],
    }
    assert out["risks"] == ["One facility has no limit."]
    assert out["cost"] == {"amount": "0.0024", "currency": "USD"}
    assert out["findings"][0]["search_id"] == "s-1"


@given(st.permutations([*short_job(), *short_job()]))
@settings(max_examples=50)
def test_neither_the_order_of_events_nor_a_repeated_one_changes_the_memory(events):
    assert memory_of(events) == memory_of(short_job())


def test_a_finding_that_is_made_again_is_one_finding():
    again = event(40, "later", read(40, "a.md", finding("a.md")).fact)
    assert memory_of([*short_job(), again]).findings == memory_of(short_job()).findings
    assert finding("a.md").id != finding("b.md").id


def test_a_finding_added_by_hand_has_no_citation():
    memory = memory_of([*short_job(), event(40, "x", FindingAdded(text="The board knows."))])
    assert memory.finding(finding_id("The board knows.")).citation is None
    assert memory.finding("f-nothing") is None
    assert finding_id("a", citation("a.md")) != finding_id("a")


def test_a_closed_job_says_so():
    memory = memory_of([*short_job(), event(50, "closed", JobClosed())])
    current = job_out(memory).current_stage
    assert (memory.state, current.stage, current.status) == ("closed", 1, "closed")


def test_events_without_a_beginning_are_refused():
    with pytest.raises(StoreCorrupt, match="no event that starts it"):
        memory_of(short_job()[1:])
    assert memory_of(short_job()).job_id == JOB
