"""A stand-in for Dify's workflow engine: what a tool node makes of a plugin's messages, and what its readers see then.

Two rules of Dify make the difference between a value and what a person is shown:

- The tool node ends with an empty, final chunk for `text` and for every variable, streamed or not.
- An Answer node prints, of a variable whose stream is closed, the chunks and nothing else; of any other its value.

An LLM, IF/ELSE, Code or Template node reads the value; so does the Answer node for its own output in the run's log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

RESERVED = ("text", "json", "files")
PLACEHOLDER = re.compile(r"\{\{#([a-zA-Z0-9_]{1,50}(?:\.[a-zA-Z_][a-zA-Z0-9_]{0,29}){1,10})#\}\}")
Selector = tuple[str, str]


@dataclass
class Run:
    """One run: the values of the nodes' outputs, the chunks that were streamed, and which streams are closed."""

    values: dict[Selector, Any] = field(default_factory=dict)
    chunks: dict[Selector, list[str]] = field(default_factory=dict)
    closed: set[Selector] = field(default_factory=set)

    def stream(self, node: str, name: str, chunk: str, *, final: bool = False) -> None:
        """Take a chunk."""
        assert (node, name) not in self.closed, "a closed stream takes no chunk"
        self.chunks.setdefault((node, name), []).append(chunk)
        if final:
            self.closed.add((node, name))

    def tool(self, node: str, messages: Iterable[Mapping[str, Any]]) -> None:
        """Run a tool node over the messages of its plugin."""
        text, objects, variables = "", [], {}
        for message in messages:
            kind, body = message["type"], message["message"]
            if kind == "text":
                text += body["text"]
                self.stream(node, "text", body["text"])
            elif kind == "json":
                objects += [body["json_object"]] if body["json_object"] else []
            elif kind == "variable":
                name, value = body["variable_name"], body["variable_value"]
                assert name not in RESERVED, f"the name {name!r} is reserved"
                if body["stream"]:
                    assert isinstance(value, str), f"{name} cannot be streamed"
                    variables[name] = variables.get(name, "") + value
                    self.stream(node, name, value)
                else:
                    variables[name] = value
        for name in ("text", *variables):
            self.stream(node, name, "", final=True)
        self.succeed(node, {"text": text, "files": [], "json": objects or [{"data": []}], **variables})

    def fail(self, node: str, error_type: str, message: str, plugin: str) -> None:
        """Fail a tool node into its fail branch: Dify's own class is the type, the plugin's stands in the message."""
        told = f"An error occurred in the {plugin}, please contact the author of {plugin} for help, "
        told += f"error type: {error_type}, error details: {message}"
        self.succeed(node, {"error_message": told, "error_type": "PluginInvokeError"})

    def succeed(self, node: str, outputs: Mapping[str, Any]) -> None:
        """Take the outputs of a node."""
        self.values |= {(node, name): value for name, value in outputs.items()}

    def value(self, path: str | list[str]) -> Any:
        """Return a value, None where there is none."""
        node, name = path.split(".") if isinstance(path, str) else path
        return self.values.get((node, name))

    def shown(self, template: str) -> str:
        """Return what an Answer node prints for a person, in a streaming and in a blocking call alike."""
        return self._filled(template, self._printed)

    def logged(self, template: str) -> str:
        """Return the Answer node's own output, as the run's log keeps it; a Template node sees the same."""
        return self._filled(template, lambda selector: markdown(self.values.get(selector)))

    def ended(self, outputs: Mapping[str, str]) -> dict[str, Any]:
        """Return the outputs of a workflow's End node: {name: selector}."""
        return {name: self.value(path) for name, path in outputs.items()}

    def context(self, path: list[str]) -> str:
        """Return what an LLM node puts in the place of {{#context#}}."""
        value = self.value(path)
        return value if isinstance(value, str) else "".join(f"{item['content']}\n" for item in value or [])

    def _printed(self, selector: Selector) -> str:
        if selector in self.closed:
            return "".join(self.chunks[selector])
        return markdown(self.values.get(selector))

    @staticmethod
    def _filled(template: str, value_of: Callable[[Selector], str]) -> str:
        def filled(found: re.Match[str]) -> str:
            node, name = found[1].split(".")
            return value_of((node, name))

        return PLACEHOLDER.sub(filled, template)


def markdown(value: Any) -> str:
    """Return a value as an Answer node writes it."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "\n".join(f"- {item}" for item in value)
    return json.dumps(value, ensure_ascii=False, indent=2) if isinstance(value, dict) else str(value)


@dataclass
class Chat:
    """What one question to an imported chatflow gave.

    Attributes:
        shown: to the person.
        path: the titles of the nodes that ran.
        cited: titles under the answer.
    """

    shown: str
    logged: str
    path: list[str]
    cited: list[str]
    run: Run


class Chatflow:
    """An imported chatflow of start, tool, IF/ELSE, LLM and Answer nodes.

    Args:
        dsl: the YAML text.
        invoke: calls a tool: (name, parameters) -> messages; raises with `error_type` and `message`.
        model: answers for LLM nodes: (system prompt, question) -> text.
    """

    def __init__(
        self,
        dsl: str,
        invoke: Callable[[str, dict[str, Any]], Iterable[Mapping[str, Any]]],
        model: Callable[[str, str], str],
    ) -> None:
        graph = yaml.safe_load(dsl)["workflow"]["graph"]
        self._nodes = {node["id"]: node["data"] for node in graph["nodes"]}
        self._next = {(edge["source"], edge["sourceHandle"]): edge["target"] for edge in graph["edges"]}
        self._invoke, self._model = invoke, model

    def ask(self, question: str, *, turn: int = 1, **overrides: Any) -> Chat:
        """Run it once, as a turn of a conversation; `overrides` replace fields of the tool node."""
        run, path, cited = Run(), [], []
        run.values |= {("sys", "query"): question, ("sys", "dialogue_count"): turn}
        (node,) = [name for name, data in self._nodes.items() if data["type"] == "start"]
        while True:
            data = self._nodes[node]
            path.append(data["title"])
            if data["type"] == "answer":
                return Chat(run.shown(data["answer"]), run.logged(data["answer"]), path, cited, run)
            handle = "source"
            if data["type"] == "tool":
                handle = self._tool(run, node, data, overrides)
            elif data["type"] == "if-else":
                handle = next((case["case_id"] for case in data["cases"] if self._holds(run, case)), "false")
            elif data["type"] == "llm":
                cited += self._answered(run, node, data)
            node = self._next[node, handle]

    def _tool(self, run: Run, node: str, data: Mapping[str, Any], overrides: Mapping[str, Any]) -> str:
        fields = {**data["tool_configurations"], **data["tool_parameters"]}
        given = {
            name: run.logged(one["value"]) if isinstance(one["value"], str) else one["value"]
            for name, one in fields.items()
        }
        try:
            messages = list(self._invoke(data["tool_name"], {**given, **overrides}))
        except Exception as error:
            if not hasattr(error, "error_type"):
                raise
            run.fail(node, error.error_type, error.message, data["provider_name"])
            return "fail-branch"
        run.tool(node, messages)
        return "source"

    def _holds(self, run: Run, case: Mapping[str, Any]) -> bool:
        operators: dict[str, Callable[[Any, str], bool]] = {
            "is": lambda value, wanted: value == wanted,
            "is not": lambda value, wanted: value != wanted,
            "contains": lambda value, wanted: wanted in (value or ""),
        }
        found = [
            operators[one["comparison_operator"]](run.value(one["variable_selector"]), one["value"])
            for one in case["conditions"]
        ]
        return all(found) if case["logical_operator"] == "and" else any(found)

    def _answered(self, run: Run, node: str, data: Mapping[str, Any]) -> list[str]:
        """Run an LLM node, which streams; return what it cites."""
        selector = data["context"]["variable_selector"]
        system, user = (one["text"] for one in data["prompt_template"])
        text = self._model(system.replace("{{#context#}}", run.context(selector)), run.logged(user))
        run.stream(node, "text", text)
        run.stream(node, "text", "", final=True)
        run.succeed(node, {"text": text})
        passages = run.value(selector) or []
        return [one["title"] for one in passages if one["metadata"]["_source"] == "knowledge"]
