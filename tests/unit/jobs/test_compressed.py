"""A memory in less than 2,000 tokens."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.core.context import ApproxTokenCounter
from context_engine.errors import InvalidRequest
from context_engine.jobs.compressed import CONSTRAINT_TOKENS, MEMORY_TOKENS, check_constraint, compressed
from context_engine.jobs.events import ConstraintAdded, FindingAdded, JobEvent, RiskAdded, memory_of
from tests.unit.jobs.conftest import event, finding, read, short_job

COUNT = ApproxTokenCounter().count
WORDS = st.text(min_size=1, max_size=400).map(lambda text: " ".join(text.split())).filter(bool)


def history(texts: list[str], rules: list[str]) -> list[JobEvent]:
    """Return a job of about 500 events that repeat some texts, with the constraints for which there is room."""
    events = short_job()
    for number in range(480):
        text = f"{number} {texts[number % len(texts)]}"
        if number % 3 == 0:
            events.append(event(60 + number, f"r{number}", RiskAdded(text=text)))
        elif number % 3 == 1:
            events.append(event(60 + number, f"f{number}", FindingAdded(text=text)))
        else:
            events.append(read(60 + number, f"doc-{number}.md", finding(f"doc-{number}.md", text)))
    allowed = short_job()
    for number, rule in enumerate(rules):
        try:
            check_constraint(memory_of(allowed), rule)
        except InvalidRequest:
            continue
        allowed.append(event(600 + number, f"c{number}", ConstraintAdded(text=rule)))
    return events + allowed


@given(texts=st.lists(WORDS, min_size=1, max_size=4), rules=st.lists(WORDS, max_size=15))
@settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_history_fits_with_every_constraint_and_the_same_bytes(texts, rules):
    events = history(texts, rules)
    memory = memory_of(events)
    made = compressed(memory)

    assert made.tokens == COUNT(made.text) < MEMORY_TOKENS
    for note in memory.constraints:
        assert f"- {note.text}" in made.text
    assert made.text == compressed(memory_of(reversed(events))).text
    assert all(memory.finding(finding_id) is not None for finding_id in made.finding_ids)
    assert len(made.finding_ids) + made.left_out == len(memory.findings)


def test_a_small_memory_is_whole():
    made = compressed(memory_of(short_job()))
    assert made.text == (
        "Job job-20260302-090000-0a1b2c in domain ORM: Facility review\n"
        "Answers: in 1 of 2 readings. Sentences supported: 25%. Cost 0.0024 USD.\n"
        "Earlier stages:\n"
        "- stage 1, 2 documents, 1 finding, quality 25: What is the limit?\n"
        "Findings:\n"
        f"- {finding('a.md').id}: The limit is USD 5 million. (a.md)"
    )
    assert made.left_out == 0


def test_what_does_not_fit_is_counted():
    events = short_job()
    events += [event(60 + n, f"f{n}", FindingAdded(text=f"Statement {n} " + "about limits " * 40)) for n in range(200)]
    made = compressed(memory_of(events))
    assert made.text.endswith(f"Not listed here: {made.left_out} more findings.")
    assert made.tokens > MEMORY_TOKENS - 200
    assert "…" in made.text


def test_constraints_have_a_limit_together():
    rule = "word " * 333
    events = [*short_job(), event(60, "c1", ConstraintAdded(text=rule)), event(61, "c2", ConstraintAdded(text=rule))]
    memory = memory_of(events)
    assert 2 * (COUNT(f"- {rule}") + 1) < CONSTRAINT_TOKENS
    with pytest.raises(InvalidRequest, match="word it shorter"):
        check_constraint(memory, rule)
