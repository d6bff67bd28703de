"""The stand-in for Dify's workflow engine, on messages made by hand: an Answer node loses what is not streamed."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def run(workflow: Any) -> Any:
    return workflow.Run()


def variable(name: str, value: Any, *, stream: bool) -> dict[str, Any]:
    return {"type": "variable", "message": {"variable_name": name, "variable_value": value, "stream": stream}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "message": {"text": value}}


def test_a_variable_that_is_not_streamed_is_printed_as_nothing(run: Any) -> None:
    run.tool("t", [variable("decision", "no_match", stream=False)])
    assert run.shown("Nothing found ({{#t.decision#}}).") == "Nothing found ()."
    assert run.logged("Nothing found ({{#t.decision#}}).") == "Nothing found (no_match)."
    assert run.value("t.decision") == "no_match"


def test_a_streamed_one_is_printed(run: Any) -> None:
    run.tool("t", [variable("decision", "no_", stream=True), variable("decision", "match", stream=True)])
    assert run.shown("Nothing found ({{#t.decision#}}).") == "Nothing found (no_match)."
    assert run.value("t.decision") == "no_match"


def test_a_list_is_printed_as_nothing_whatever_one_does(run: Any) -> None:
    run.tool("t", [variable("warnings", ["one"], stream=False)])
    assert (run.shown("{{#t.warnings#}}"), run.value("t.warnings")) == ("", ["one"])
    with pytest.raises(AssertionError, match="warnings cannot be streamed"):
        run.tool("u", [variable("warnings", ["one"], stream=True)])


def test_text_json_and_the_end_of_a_workflow(run: Any) -> None:
    run.tool("t", [text("a"), text("b"), {"type": "json", "message": {"json_object": {}}}])
    assert run.ended({"answer": "t.text", "whole": "t.json", "none": "t.x"}) == {
        "answer": "ab",
        "whole": [{"data": []}],
        "none": None,
    }
    assert run.shown("{{#t.text#}}!") == "ab!"


def test_a_failure_is_printed_with_our_name_in_it(run: Any) -> None:
    run.fail("t", "SourceMissing", "SourceMissing: the register is down", "acme/engine")
    assert run.shown("{{#t.error_type#}}") == "PluginInvokeError"
    assert run.shown("{{#t.error_message#}}").endswith("error details: SourceMissing: the register is down")
