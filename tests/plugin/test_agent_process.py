"""The tools as an agent calls them: its model reads every text and JSON of a tool, and no variable."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.slow

QUESTION = "How long is a host clearance valid?"
DEMO = {"demo_bank": True}


@pytest.fixture(params=["strategy", "app"])
def session(driver: Any, request: pytest.FixtureRequest) -> dict[str, str]:
    """An Agent node's strategy is known by no app, an Agent app by its message."""
    return {} if request.param == "strategy" else dict(driver.AGENT_APP)


@pytest.mark.parametrize("tool", ["search", "answer", "domains"])
def test_an_agent_gets_a_text_and_no_json(plugin: Any, session: dict[str, str], tool: str) -> None:
    given = {} if tool == "domains" else {"query": QUESTION, "domain_name": "NPA"}
    agent, node = plugin.invoke(tool, given, DEMO, session=session), plugin.invoke(tool, given, DEMO)
    assert agent.of("json") == [] and len(node.of("json")) == 1
    assert agent.variables.keys() == node.variables.keys()
    assert agent.text.startswith(node.text)


def test_an_answer_lists_what_its_labels_name(plugin: Any, session: dict[str, str]) -> None:
    reply = plugin.invoke("answer", {"query": QUESTION, "domain_name": "NPA"}, DEMO, session=session)
    listed = reply.variables["citations_text"]
    assert "[1]" in listed and reply.text.endswith(f"\n\n{listed}")


def test_a_refused_answer_lists_nothing(plugin: Any, session: dict[str, str]) -> None:
    given = {"query": "Who won the football match yesterday?", "domain_name": "NPA"}
    reply = plugin.invoke("answer", given, DEMO, session=session)
    assert reply.variables["refused"] and reply.variables["citations_text"] == ""
    assert "[1]" not in reply.text and not reply.text.endswith("\n")
