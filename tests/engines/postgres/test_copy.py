"""`kb copy` between the embedded base and PostgreSQL: the same documents, vectors and answers, whatever is killed."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

pytest.importorskip("numpy", reason="the extra 'vectors'")

from context_engine import demo
from context_engine.adapters.sources.adapter import SinkOptions
from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.stores.chunk_rows import places
from context_engine.adapters.sources.stores.copying import difference_of
from context_engine.core.models import Chunk, SearchRequest
from context_engine.ingest.run import ingest
from context_engine.testing import FakeEmbedder
from context_engine.wiring.build import build_engine
from context_engine.wiring.copying import CopyOrder, copy_domain
from context_engine.wiring.setup import load_setup
from context_engine.wiring.sinks import open_sink
from tests.postgresql_server import PostgresqlServer, programs

pytestmark = pytest.mark.slow
MANIFEST = """
version: 1
domain: DESK
sources:
  - {id: policies, type: bank_sop, adapter: local}
  - {id: papers, type: system_of_record, adapter: local, classification: confidential, access: {roles: [board]}}
"""
SUBJECTS = ("collateral", "custody", "dividends", "escrow", "factoring", "guarantees", "leasing", "netting")
COPY = ("kb", "copy", "--from", "local", "--to", "postgres", "--connection", "db", "--json")
BACK = ("kb", "copy", "--from", "postgres", "--to", "local", "--connection", "db", "--json")
SMALL_COMMITS = (
    "import sys; from context_engine.adapters.sources.stores import copying; copying._COMMIT_FROM = 100;"
    "from context_engine.apps.cli import main; sys.exit(main(sys.argv[1:]))"
)
QUESTIONS = [f"Who reviews {subject} with desk {number}?" for subject in SUBJECTS for number in range(4)]


class Place:
    """A configuration whose documents are in the embedded base; commands run in processes of their own."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder, self.dsn = folder, dsn
        server = urlsplit(dsn)
        connection = {
            "base_url": f"postgresql://{server.hostname}:{server.port}{server.path}",
            "user": server.username,
            "api_key": server.password,
        }
        files = {"manifests/desk.yaml": MANIFEST, "config/connections.yaml": json.dumps({"db": connection})}
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, "utf-8")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXT_ENGINE")}
        self.env = {**kept, "HOME": str(folder), "NO_COLOR": "1"}

    def base(self, name: str = "data") -> LocalBase:
        setup = load_setup(env={}, cwd=self.folder)
        place = places(setup.registry.domain("DESK").sources, setup.access.rules_of)
        return LocalBase(self.folder / name / "base", embedder=FakeEmbedder(64), place=place)

    def fill(self, documents: int, *, chunks: int = 2) -> None:
        """Write documents whose first chunk is a heading without text."""
        with self.base() as base, base.writer() as sink:
            for number in range(documents):
                subject, other = SUBJECTS[number % 8], SUBJECTS[number // 8 % 8]
                title, text = f"Rules of {subject}", f"The {subject} of {other} is reviewed by desk {number}"
                texts = [f"{text} and part {part}." for part in range(chunks)]
                made = [Chunk(content=title, title=title), *(Chunk(content=text, title=title) for text in texts)]
                source_id = "papers" if number % 10 == 9 else "policies"
                sink.put(source_id, f"d{number:04}", "1" if number % 3 else "", f"hash {number}", made)

    def start(self, *args: str, data: str = "data") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", SMALL_COMMITS, *args], cwd=self.folder, text=True,
            env={**self.env, "CONTEXT_ENGINE_DATA_DIR": str(self.folder / data)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *args: str, code: int = 0, data: str = "data") -> Any:
        with self.start(*args, data=data) as running:
            out, err = running.communicate(timeout=300)
        assert running.returncode == code, err
        return json.loads(out)["domains"][0] if code == 0 else " ".join(err.split())

    def written(self) -> int:
        """Return how many documents the server has."""
        try:
            with psycopg.connect(self.dsn) as connection:
                return int(connection.execute("SELECT count(*) FROM context_engine.documents").fetchone()[0])  # type: ignore[index]
        except psycopg.Error:
            return 0

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture
def bank(vector_server: Any, tmp_path: Path) -> Place:
    return Place(tmp_path, vector_server.new_database())


def counts(report: Any, name: str) -> list[int]:
    return [source[name] for source in report["sources"]]


def rows(base: Path) -> list[tuple[Any, ...]]:
    """Return the documents and chunks of a base without its own numbers, in the order of writing."""
    with sqlite3.connect(base / "base.sqlite3") as connection:
        return connection.execute(
            "SELECT source_id, document_id, version, content_hash, indexed_at, claimed, rules, classification,"
            " chunk_id, content, fields, chunks.digest"
            " FROM chunks JOIN documents USING (doc_key) JOIN sources USING (source_key)"
            " JOIN partitions USING (partition_key) WHERE removed IS NULL ORDER BY source_id, doc_key, rid"
        ).fetchall()


def scores(base: LocalBase, question: str) -> list[float]:
    chunks = base.best_of(question, ["policies", "papers"], top_k=10).chunks
    return [chunk.scores[0].value for chunk in chunks]


def test_a_base_comes_back_as_it_was(bank: Place) -> None:
    bank.fill(120)
    there = bank.run(*COPY)
    assert there["same"] and counts(there, "documents") == counts(there, "written") == [108, 12]
    assert counts(there, "chunks") == [324, 36] and counts(there, "vectors") == [216, 24], "none for the headings"
    assert there["manifest"]["policies"] == {"adapter": "postgres", "connection": "db"}
    back = bank.run(*BACK, data="second")
    assert back["same"] and counts(back, "digest") == counts(there, "digest")
    assert rows(bank.folder / "second/base") == rows(bank.folder / "data/base")
    with bank.base() as first, bank.base("second") as second:
        problems = second.verify().problems
        assert problems and all("vectors" in problem or "more" in problem for problem in problems)
        for source_id in ("policies", "papers"):
            keys = list(first.document_hashes(source_id))
            pairs = zip(first.stored_documents(source_id, keys), second.stored_documents(source_id, keys), strict=True)
            assert {difference_of(*pair) for pair in pairs} == {""}  # type: ignore[arg-type]
        with second.writer():
            pass  # embeds the headings, whose vectors the server does not keep
        assert second.verify().ok
        for question in QUESTIONS:
            assert scores(second, question) == pytest.approx(scores(first, question), abs=1e-3), "halves of a float"


def test_a_copy_is_continued_wherever_it_was_killed(bank: Place) -> None:
    bank.fill(600)
    for number, moment in enumerate((50, 150, 250, 400, 500)):
        killed_when(bank, moment, 0.02 * number)
        assert moment <= bank.written() < 600
    report = bank.run(*COPY)
    assert report["same"] and 0 < sum(counts(report, "written")) < 600 - 450
    assert bank.written() == sum(counts(report, "documents")) == 600
    assert sum(counts(report, "chunks")) == 1800 and sum(counts(report, "mended")) == 0
    assert counts(bank.run(*COPY), "written") == [0, 0]


def killed_when(bank: Place, moment: int, after_s: float) -> None:
    """Start a copy and kill it a little after the server has so many documents."""
    with bank.start(*COPY) as running:
        end = time.monotonic() + 120
        while bank.written() < moment and time.monotonic() < end:
            assert running.poll() is None, running.stderr and running.stderr.read()
            time.sleep(0.005)
        time.sleep(after_s)
        running.kill()


def test_a_copy_back_is_continued_where_it_was_killed(bank: Place) -> None:
    bank.fill(300)
    bank.run(*COPY)
    for least in (50, 150):
        with bank.start(*BACK, data="second") as running:
            while local_documents(bank.folder / "second/base") < least:
                assert running.poll() is None, running.stderr and running.stderr.read()
                time.sleep(0.005)
            running.kill()
    report = bank.run(*BACK, data="second")
    assert report["same"] and 0 < sum(counts(report, "written")) <= 150
    assert rows(bank.folder / "second/base") == rows(bank.folder / "data/base")


def local_documents(base: Path) -> int:
    try:
        with sqlite3.connect(f"file:{base / 'base.sqlite3'}?mode=ro", uri=True) as connection:
            return int(connection.execute("SELECT count(*) FROM documents").fetchone()[0])
    except sqlite3.Error:
        return 0


@pytest.fixture
def own_server() -> Iterator[PostgresqlServer]:
    if programs() is None:
        pytest.skip("no PostgreSQL here: apt-get install postgresql")
    with PostgresqlServer() as server:
        yield server


def test_a_server_that_crashes_is_copied_to_again(own_server: PostgresqlServer, tmp_path: Path) -> None:
    bank = Place(tmp_path, own_server.new_database())
    bank.fill(400)
    with bank.start(*COPY) as running:
        while bank.written() < 100:
            assert running.poll() is None, running.stderr and running.stderr.read()
        own_server.crash()
        _, err = running.communicate(timeout=120)
    assert running.returncode not in (0, None) and "Traceback" not in err and "error:" in err
    own_server.start()
    report = bank.run(*COPY)
    assert report["same"] and 0 < sum(counts(report, "written")) <= 300 and bank.written() == 400


def test_vectors_are_left_out_where_the_server_has_no_pgvector(plain_server: Any, tmp_path: Path) -> None:
    bank = Place(tmp_path, plain_server.new_database())
    with psycopg.connect(bank.dsn) as connection:
        if connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone():
            pytest.skip("this server has pgvector")
    bank.fill(20)
    report = bank.run(*COPY)
    assert report["same"] and report["vectors_refused"] and counts(report, "vectors") == [0, 0]
    assert bank.written() == 20


def test_vectors_of_another_model_or_dimension_are_refused_before_anything_is_written(bank: Place) -> None:
    bank.fill(20)
    bank.run(*COPY)
    bank.execute("UPDATE context_engine.state SET model_id = 'other-model'; DELETE FROM context_engine.documents")
    error = bank.run(*COPY, code=2)
    assert "64 numbers of 'other-model'" in error and "64 of 'fake-64'" in error and bank.written() == 0
    bank.execute("UPDATE context_engine.state SET model_id = 'fake-64', dimension = 32")
    assert "have 32 numbers" in bank.run(*COPY, code=2)


def test_documents_placed_by_other_access_rules_are_placed_by_those_of_the_configuration(bank: Place) -> None:
    bank.fill(20)
    manifest = bank.folder / "manifests/desk.yaml"
    manifest.write_text(manifest.read_text("utf-8").replace("[board]", "[desk]"), "utf-8")
    with bank.start(*COPY) as running:
        out, _ = running.communicate(timeout=120)
    (policies, papers) = json.loads(out)["domains"][0]["sources"]
    assert running.returncode == 1 and not policies["differences"]
    assert {difference["what"] for difference in papers["differences"]} == {"its access class differs"}


def test_the_demo_answers_alike_after_it_went_to_a_server_and_back(plain_server: Any, tmp_path: Path) -> None:
    """Beside the copied base, the copied tables are compared with tables that were ingested."""
    setups, dsn = {}, plain_server.new_database()
    for name in ("local", "copied", "ingested"):
        own = f"adapter: postgres\n    connection: db\n    settings: {{schema_name: {name}}}"
        Place(tmp_path / name, dsn)
        (tmp_path / name / "manifests/desk.yaml").unlink()
        for path in demo.MANIFESTS.glob("*.yaml"):
            manifest = path.read_text("utf-8").replace("adapter: local", "adapter: local" if name == "local" else own)
            (tmp_path / name / "manifests" / path.name).write_text(manifest, "utf-8")
        setups[name] = load_setup(env={}, cwd=tmp_path / name)
    for name in ("local", "ingested"):
        fill_from_the_bank(setups[name], tmp_path / "data", "local" if name == "local" else "postgres")
    there = CopyOrder("local", "postgres", connection="db", settings={"schema_name": "copied"})
    back = there._replace(origin="postgres", target="local")
    for order, data in ((there, "data"), (back, "second")):
        for domain in setups["local"].registry.domains.values():
            assert copy_domain(
                setups["local"], domain, order, data_dir=tmp_path / data, progress=lambda _done, _total, _name: None
            ).same
    assert rows(tmp_path / "second/base") == rows(tmp_path / "data/base")
    assert answers(setups["local"], tmp_path / "data") == answers(setups["local"], tmp_path / "second")
    assert answers(setups["copied"], tmp_path / "data") == answers(setups["ingested"], tmp_path / "data")


def fill_from_the_bank(setup: Any, data_dir: Path, adapter: str) -> None:
    for domain in setup.registry.domains.values():
        with open_sink(
            setup, domain, domain.sources, adapter, SinkOptions(), data_dir=data_dir, embedder=lambda: None
        ) as sink:
            ingest(demo.BANK, domain.sources, sink)


def answers(setup: Any, data_dir: Path) -> list[Any]:
    """Return the decision for each question of the demo, and its chunks with their scores and confidence."""
    engine, out = build_engine(setup, data_dir=data_dir, recorded=False), []
    for question in map(json.loads, demo.QUESTIONS.read_text("utf-8").splitlines()):
        day = question.get("as_of")
        result = engine.search(
            SearchRequest(query=question["query"], domain=question["domain"], as_of=day and date.fromisoformat(day))
        )
        hits = [(hit.chunk_id, hit.final, hit.absolute, hit.confidence) for hit in result.chunks]
        out.append((result.decision, hits))
    assert sum(bool(hits) for _, hits in out) > 10
    return out
