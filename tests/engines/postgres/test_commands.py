"""A bank in PostgreSQL: the commands teach it, switch what it learnt, replay its answers, and prove its access."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import respx
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from tests.e2e.test_eval_tune_adapter import COUNT, PIPELINE, embeddings, name

pytestmark = pytest.mark.slow
MANIFEST = """
version: 1
domain: BANK
sources:
  - {id: policies, type: bank_sop, adapter: ADAPTER, connection: store, documents: [{include: "rules/*.md"}]}
  - {id: papers, type: system_of_record, adapter: ADAPTER, connection: store, classification: confidential,
     access: {roles: [board]}, documents: [{include: "board/*.md"}]}
"""
QUESTION = f"{name(3, 'que')} when"
DATABASE = "commands"


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def ok(*args: str) -> Any:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def said(*args: str) -> str:
    """Return all that a command prints, on one line."""
    result = run(*args)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def prove(adapter: str) -> None:
    """Test that hidden texts of a bank do not influence its answers."""
    certificate = ok("access", "prove", "--adapter", adapter, "--changes", "12", "--questions", "5", "--json")
    assert certificate["holds"] and sum(certificate["changes"].values()) == 12


def rehearse() -> None:
    """Rehearse the ingestion of a document: an answer changes, and that of the bank does not."""
    ok("search", QUESTION, "-d", "BANK", "--json")
    draft = Path("draft/rules/new.md")
    draft.parent.mkdir(parents=True)
    draft.write_text(f"---\ndocument_id: SOP-NEW\n---\nThe {name(3, 'que')} is kept by nobody when asked.\n", "utf-8")
    rehearsed = run("audit", "rehearse", "--documents", "draft", "--domain", "BANK", "--json")
    assert rehearsed.exit_code == 3, rehearsed.output
    assert "SOP-NEW" in rehearsed.output
    chunks = ok("search", QUESTION, "-d", "BANK", "--json")["chunks"]
    assert "SOP-NEW" not in {chunk["document_id"] for chunk in chunks}


def copied_and_back(adapter: str) -> None:
    """Copy a bank that has learnt an adapter to a folder, and back: nothing is left behind."""
    (copied,) = ok("kb", "copy", "--from", adapter, "--to", "local", "--json")["domains"]
    assert copied["same"] and copied["adapters_kept"] and not copied["adapters_left"]
    assert {source["source_id"]: source["documents"] for source in copied["sources"]}["policies"] > 1
    (back,) = ok("kb", "copy", "--from", "local", "--to", adapter, "--connection", "store", "--json")["domains"]
    assert back["same"] and not any(source["written"] for source in back["sources"])
    assert back["adapters_kept"] == copied["adapters_kept"]


@contextmanager
def ingested(home: Path, adapter: str, connections: dict[str, Any], **pipeline: Any) -> Iterator[None]:
    """Ingest a bank whose model puts questions elsewhere than their answers, and stay in its folder."""
    files = {
        "manifests/bank.yaml": MANIFEST.replace("ADAPTER", adapter),
        "config/connections.yaml": json.dumps({**connections, "models": {"base_url": "https://models.example"}}),
        "config/rag-pipeline.json": json.dumps(PIPELINE | pipeline),
        "board/falcon.md": "The board alone knows project Falcon.\n",
        "q.tsv": "".join(f"q{place}\t{name(place, 'que')} when\n" for place in range(COUNT)),
        "r.tsv": "".join(f"q{place}\tSOP-{place}\t1\n" for place in range(COUNT)),
    }
    for place in range(COUNT):
        text = f"The {name(place, 'rul')} is kept by the desk."
        files[f"rules/{place}.md"] = f"---\ndocument_id: SOP-{place}\n---\n{text}\n"
    for path, text in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text, "utf-8")
    with pytest.MonkeyPatch.context() as patch, respx.mock(assert_all_called=False) as router:
        for key in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "XDG_CONFIG_HOME"):
            patch.delenv(key, raising=False)
        patch.setenv("HOME", str(home))
        patch.setenv("CONTEXT_ENGINE_DATA_DIR", str(home / "data"))
        patch.chdir(home)
        router.route(host="127.0.0.1").pass_through()
        router.post("https://models.example/v1/embeddings").mock(side_effect=embeddings)
        ok("ingest", ".", "--domain", "BANK", "--to", adapter, "--json")
        yield


@pytest.fixture(scope="module")
def bank(vector_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A bank in a database, which is yielded."""
    vector_server.execute(f"CREATE DATABASE {DATABASE}")
    server = urlsplit(vector_server.dsn(DATABASE))
    vector_server.execute(
        f"CREATE ROLE clerk LOGIN PASSWORD '{server.password}'; GRANT CREATE ON DATABASE {DATABASE} TO clerk"
    )
    connection = {
        "base_url": f"postgresql://{server.hostname}:{server.port}{server.path}",
        "user": server.username,
        "api_key": server.password,
    }
    connections = {"store": connection, "jobs": connection | {"user": "clerk"}}
    home = tmp_path_factory.mktemp("bank")
    with ingested(home, "postgres", connections, jobs_connection="jobs", audit_mode="required"):
        yield vector_server.dsn(DATABASE)
    vector_server.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")  # the tests of a module may run in two turns
    vector_server.execute("DROP ROLE clerk")


def scorers() -> set[str]:
    chunks = ok("search", QUESTION, "-d", "BANK", "--json")["chunks"]
    return {score["scorer"] for chunk in chunks for score in chunk["scores"] if score["kind"] == "cosine"}


def schemas(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'context_engine%'")
        return sorted(name for (name,) in rows)


def test_an_adapter_is_learnt_seen_by_searches_switched_and_replayed(bank: str) -> None:
    (plain,) = scorers()
    assert "has no adapter" in said("kb", "adapter", "list", "-d", "BANK")
    tuned = said("eval", "tune", "--adapter", "--queries", "q.tsv", "--qrels", "r.tsv", "-d", "BANK", "--folds", "3")
    assert "better beyond noise" in tuned and "scope threshold of BANK" in tuned
    (kept,) = ok("kb", "adapter", "list", "-d", "BANK", "--json")["adapters"]
    learnt = f"{plain}+{kept['adapter_id']}"
    assert kept["in_force"] and scorers() == {learnt}
    assert f"adapter of BANK: {kept['adapter_id']} in force" in said("doctor", "--no-query")

    saved = Path("saved.json")
    saved.write_text(run("search", QUESTION, "-d", "BANK", "--json", "--full").stdout, "utf-8")
    assert run("kb", "adapter", "off", "-d", "BANK").stdout == "off: BANK is searched with no adapter\n"
    assert scorers() == {plain}
    replayed = ok("audit", "replay", "--file", str(saved), "--json")
    assert replayed["identical"] and replayed["changed_scorer"] == {"was": learnt, "now": plain}

    in_force = f"in force: BANK is searched with {kept['adapter_id']}\n"
    assert run("kb", "adapter", "undo", "-d", "BANK").stdout == in_force
    assert run("kb", "adapter", "use", kept["adapter_id"], "-d", "BANK").stdout == in_force
    assert scorers() == {learnt}
    assert ok("audit", "replay", "--file", str(saved), "--json")["changed_scorer"] is None
    wrong = run("kb", "adapter", "use", kept["adapter_id"][:-1], "-d", "BANK")
    assert wrong.exit_code == 2 and f"Did you mean {kept['adapter_id']!r}?" in wrong.output


def test_its_answers_are_proved_and_nothing_is_left(bank: str) -> None:
    prove("postgres")
    assert schemas(bank) == ["context_engine"]


def test_doctor_tries_the_database_of_jobs(bank: str) -> None:
    assert "jobs are kept in the database of connection jobs" in said("doctor", "--no-query")
    assert ok("doctor", "--no-query", "--json")["jobs"] == {"connection": "jobs", "problem": None}
    with psycopg.connect(bank, autocommit=True) as connection:
        connection.execute(f"REVOKE CREATE ON DATABASE {DATABASE} FROM clerk")  # type: ignore[arg-type]
        refused = run("doctor", "--no-query")
        connection.execute(f"GRANT CREATE ON DATABASE {DATABASE} TO clerk")  # type: ignore[arg-type]
    assert refused.exit_code == 1 and "GRANT CREATE ON DATABASE lets it start jobs" in " ".join(refused.output.split())


def test_a_rehearsal_ingests_into_a_copy_and_leaves_nothing(bank: str) -> None:
    rehearse()
    assert schemas(bank) == ["context_engine"]
