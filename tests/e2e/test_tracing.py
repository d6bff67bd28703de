"""Traces over OTLP/HTTP from real processes to a collector of the test's own, and what one that is gone costs."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

pytestmark = pytest.mark.slow
GUIDE = (Path(__file__).resolve().parents[2] / "docs/guides/observability.md").read_text("utf-8")
SEARCH = ["-m", "context_engine", "search", "NPA classification criteria", "--domain", "NPA", "--json"]
GEVENT = """
from gevent import monkey

monkey.patch_all()

import gevent
from context_engine import SearchRequest, build_engine
from context_engine.core.tracing import current_span

with build_engine() as engine:
    request = SearchRequest(query="loss event", domain="ORM")
    jobs = [gevent.spawn(engine.search, request) for _ in range(6)]
    gevent.joinall(jobs, timeout=60, raise_error=True)
    print(len({job.value.search_id for job in jobs}), dict(current_span().headers()))
"""


class Collector:
    """Takes spans as a collector does, or fails as it is told.

    Attributes:
        resources: the spans of each request, with what they come from.
    """

    def __init__(self) -> None:
        self.resources: list[Any] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
                assert self.path == "/v1/traces"
                collector.resources += ExportTraceServiceRequest.FromString(body).resource_spans
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def spans(self) -> list[Any]:
        return [span for resource in self.resources for scope in resource.scope_spans for span in scope.spans]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


def ran(arguments: Sequence[str], home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("CONTEXT_ENGINE_", "OTEL_"))}
    if (home / "manifests").exists():
        kept["CONTEXT_ENGINE_CONFIG_DIR"] = str(home)
    kept |= {"XDG_DATA_HOME": str(home / "data"), "XDG_CONFIG_HOME": str(home / "config"), **env}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=home, env=kept, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def values(attributes: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}


def test_a_command_sends_its_trace_before_it_ends(collector: Collector, tmp_path: Path) -> None:
    settings = {"CONTEXT_ENGINE_TRACING": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    result = json.loads(ran(SEARCH, tmp_path, **settings).stdout)
    spans = {span.name: span for span in collector.spans()}
    search = values(spans["retrieval NPA"].attributes)
    assert values(collector.resources[0].resource.attributes)["service.name"] == "context-engine"
    assert search["context_engine.search_id"] == result["search_id"]
    assert search["retrieval.documents.0.document.id"] == result["chunks"][0]["chunk_id"]
    assert "input.value" not in search and "retrieval.documents.0.document.content" not in search
    assert len({span.trace_id for span in spans.values()}) == 1
    assert spans["stage dedup"].parent_span_id == spans["retrieval NPA"].span_id
    assert "stage rerank" in spans


def block(name: str) -> str:
    (text,) = re.findall(rf"^<!-- {name} -->\n```\w+\n(.*?)^```$", GUIDE, flags=re.M | re.S)
    return str(text)


def test_the_command_of_the_guide_is_traced(collector: Collector, tmp_path: Path) -> None:
    lines = block("trace").replace("http://127.0.0.1:4318", collector.url).splitlines()
    settings = dict(line.removeprefix("export ").split("=") for line in lines if line.startswith("export "))
    ran(["-m", *shlex.split(lines[-1].replace("context-engine", "context_engine"))], tmp_path, **settings)
    assert "retrieval NPA" in {span.name for span in collector.spans()}


def test_the_program_of_the_guide_runs(tmp_path: Path) -> None:
    write_bank(tmp_path)
    ran(["-c", block("library")], tmp_path)


def test_off_is_the_default_and_imports_nothing(tmp_path: Path) -> None:
    program = "import sys, context_engine as c\nwith c.build_engine(): pass\nprint('opentelemetry' in sys.modules)"
    write_bank(tmp_path)
    assert ran(["-c", program], tmp_path).stdout.strip() == "False"


def test_a_collector_that_is_gone_costs_spans_alone(tmp_path: Path) -> None:
    settings = {"CONTEXT_ENGINE_TRACING": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    done = ran(SEARCH, tmp_path, **settings)
    assert json.loads(done.stdout)["decision"] == "answered"
    assert "Traceback" not in done.stderr and "/v1/traces" not in done.stderr


def test_greenlets_have_a_trace_each(collector: Collector, tmp_path: Path) -> None:
    write_bank(tmp_path)
    settings = {"CONTEXT_ENGINE_TRACING": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    assert ran(["-c", GEVENT], tmp_path, **settings).stdout.strip() == "6 {}"
    searches = [span for span in collector.spans() if span.name == "retrieval ORM"]
    assert len({span.trace_id for span in searches}) == 6 and not any(span.parent_span_id for span in searches)
    of_source = [span for span in collector.spans() if span.name == "retrieval notes"]
    assert len({span.trace_id for span in of_source}) == 6


def write_bank(folder: Path) -> None:
    """A domain of one source with one document."""
    (folder / "manifests").mkdir()
    (folder / "documents").mkdir()
    (folder / "documents/a.md").write_text("# 1 Losses\n\nA loss event is reported within 24 hours.\n", "utf-8")
    source = {"id": "notes", "type": "bank_sop", "documents": [{"include": "*.md"}]}
    (folder / "manifests/orm.yaml").write_text(json.dumps({"version": 1, "domain": "ORM", "sources": [source]}))
    ran(["-m", "context_engine", "ingest", "documents"], folder)
