"""A stand-in for Dify's plugin daemon: runs the plugin's real process and speaks its protocol over stdin and stdout."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

PROVIDER = "context_engine"
BACKWARDS = Callable[[str, Mapping[str, Any]], Any]
"""Answers a call of a model: (type, request) -> the answer, or an iterator of the parts of a streamed one."""

LONGEST_LINE = 5 * 1024 * 1024

NODE = {"app_id": "app-7", "conversation_id": "conv-8"}
"""What Dify names when a node of a chatflow calls: never a message."""

AGENT_APP = {**NODE, "message_id": "msg-9"}
"""What it names for an Agent app that calls functions. For the strategy of an Agent node, and for ReAct, nothing."""


class Failed(Exception):
    """The plugin answered with an error."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.error_type = error["error_type"]
        self.message = error["message"]
        self.whole = json.dumps(error)
        super().__init__(f"{self.error_type}: {self.message}")


class Reply:
    """What a tool call sent."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.messages = messages

    def of(self, kind: str) -> list[Any]:
        return [one["message"] for one in self.messages if one["type"] == kind]

    @property
    def text(self) -> str:
        return "".join(one["text"] for one in self.of("text"))

    @property
    def json(self) -> dict[str, Any]:
        (found,) = self.of("json")
        return found["json_object"]

    @property
    def variables(self) -> dict[str, Any]:
        return {one["variable_name"]: one["variable_value"] for one in self.of("variable")}


class PluginProcess:
    """One running plugin; a context manager.

    Args:
        python: of the plugin's own environment.
        folder: the unpacked plugin.
        env: beside PATH and HOME.
    """

    def __init__(self, python: Path, folder: Path, env: Mapping[str, str]) -> None:
        self.lines: list[str] = []
        self.longest = 0
        self._waiting: dict[str, queue.SimpleQueue[dict[str, Any]]] = {}
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._ready = threading.Event()
        self.manifest: dict[str, Any] = {}
        base = {"PATH": os.environ["PATH"], "INSTALL_METHOD": "local", "PYTHONDONTWRITEBYTECODE": "1"}
        base["TMPDIR"] = str(folder.parent)  # a killed process leaves its temporary folders
        self._stderr = (folder.parent / f"stderr-{uuid4().hex}.txt").open("w+b")
        self._process = subprocess.Popen(
            [str(python), "-m", "main"],
            cwd=folder,
            env={**base, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> PluginProcess:
        if not self._ready.wait(120):
            self.stop()
            raise AssertionError(f"no heartbeat: {self.lines[-5:]} {self.stderr[-3000:]}")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """The plugin does not end by itself when its input does."""
        self._process.kill()
        self._process.wait(60)
        self._reader.join(60)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._stderr.close()

    @property
    def stderr(self) -> str:
        return Path(self._stderr.name).read_text("utf-8", "replace")

    @property
    def everything(self) -> str:
        """All it has written so far, to look for secrets in."""
        return "\n".join(self.lines) + self.stderr

    def _read(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            self.longest = max(self.longest, len(raw))
            line = raw.decode().strip()
            if line:
                self.lines.append(line)
                self._take(json.loads(line))

    def _take(self, frame: dict[str, Any]) -> None:
        event = frame.get("event")
        if event is None:
            self.manifest = frame
        elif event == "heartbeat":
            self._ready.set()
        elif event == "session":
            with self._lock:
                waiting = self._waiting.get(frame["session_id"])
            if waiting is not None:
                waiting.put(frame["data"])

    def _send(self, frame: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with self._writing:  # not the lock of the reader, who must go on while the plugin is busy answering
            self._process.stdin.write((json.dumps(frame) + "\n").encode())
            self._process.stdin.flush()

    def request(
        self,
        data: Mapping[str, Any],
        *,
        session: Mapping[str, Any] | None = None,
        backwards: BACKWARDS | None = None,
        patience_s: float = 300.0,
    ) -> list[Any]:
        """Send a request and return what was streamed until its end; raises Failed."""
        session_id = uuid4().hex
        waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with self._lock:
            self._waiting[session_id] = waiting
        self._send({"session_id": session_id, "event": "request", "data": dict(data), **(session or {})})
        streamed: list[Any] = []
        error: Mapping[str, Any] | None = None
        while (frame := waiting.get(timeout=patience_s))["type"] != "end":
            if frame["type"] == "stream":
                streamed.append(frame["data"])
            elif frame["type"] == "error":
                error = frame["data"]
            elif frame["type"] == "invoke":
                self._answer(session_id, frame["data"], backwards)
        with self._lock:
            del self._waiting[session_id]
        if error is not None:
            raise Failed(error)
        return streamed

    def _answer(self, session_id: str, asked: Mapping[str, Any], backwards: BACKWARDS | None) -> None:
        def send(event: str, data: Any = None, message: str = "") -> None:
            body = {"backwards_request_id": asked["backwards_request_id"], "event": event}
            self._send(
                {
                    "session_id": session_id,
                    "event": "backwards_response",
                    "data": {**body, "message": message, "data": data},
                }
            )

        assert backwards is not None, asked
        try:
            answer = backwards(asked["type"], asked["request"])
            for part in answer if isinstance(answer, Iterator) else (answer,):
                send("response", part)
        except Exception as error:
            send("error", message=str(error))
            return
        send("end")

    def validate(self, credentials: Mapping[str, Any]) -> Any:
        """Have credentials checked; raises Failed with what is wrong."""
        data = {"type": "tool", "action": "validate_tool_credentials", "user_id": "u", "provider": PROVIDER}
        return self.request({**data, "credentials": dict(credentials)})

    def invoke(
        self,
        tool: str,
        parameters: Mapping[str, Any],
        credentials: Mapping[str, Any],
        *,
        user_id: str = "user-1",
        session: Mapping[str, Any] = NODE,
        backwards: BACKWARDS | None = None,
    ) -> Reply:
        """Call a tool, by default as a chatflow's node does."""
        data = {
            "type": "tool",
            "action": "invoke_tool",
            "user_id": user_id,
            "provider": PROVIDER,
            "tool": tool,
            "credentials": dict(credentials),
            "credential_type": "api-key",
            "tool_parameters": dict(parameters),
        }
        return Reply(self.request(data, session=session, backwards=backwards))

    def endpoint(
        self, settings: Mapping[str, Any], body: bytes | None, headers: Mapping[str, str], path: str = "/retrieval"
    ) -> tuple[int, Any]:
        """Send an HTTP request to the plugin's endpoint, as Dify hands it over; return status and parsed body."""
        lines = [f"POST {path} HTTP/1.1", "Host: dify", *(f"{name}: {value}" for name, value in headers.items())]
        raw = "\r\n".join([*lines, f"Content-Length: {len(body or b'')}", "", ""]).encode() + (body or b"")
        data = {
            "type": "endpoint",
            "action": "invoke_endpoint",
            "settings": dict(settings),
            "raw_http_request": raw.hex(),
        }
        parts = self.request(data)
        content = b"".join(bytes.fromhex(part.get("result", "")) for part in parts)
        return parts[0]["status"], json.loads(content)
