"""From settings to a recorder: which mode is in force, where the ledger is, what is refused before any search."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("cryptography")

from context_engine import rag
from context_engine.audit.formats.keys import SigningKey
from context_engine.audit.ledger.engines import postgresql_engine
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.look_up import Criteria
from context_engine.core.context import ApproxTokenCounter
from context_engine.core.engine import SystemClock
from context_engine.core.models import SearchRequest
from context_engine.errors import (
    AllSourcesFailed,
    AuditError,
    AuditUnavailable,
    ConfigError,
    MissingExtra,
    UnknownDomain,
)
from context_engine.secrecy import MASK, hide
from context_engine.settings.environment_secrets import AUDIT_KEY, AUDIT_LEDGER
from context_engine.wiring import audit
from context_engine.wiring.audit import (
    audit_mode,
    ledger_keyring,
    ledger_place,
    open_ledger,
    open_recorder,
)
from context_engine.wiring.audit_writers import close_writers
from context_engine.wiring.build import build_engine
from context_engine.wiring.setup import Setup, load_setup

Bank = Callable[..., Setup]
PASSAGES = [{"content": "The limit of a desk is set each year.", "relevance_score": 0.9}]


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bank]:
    """Return a function that writes a configuration, makes it the process's own and loads it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("CONTEXT_ENGINE_CONFIG_DIR", str(tmp_path))

    def write(audit: dict[str, Any] | None = None, domain: dict[str, Any] | None = None, **env: str) -> Setup:
        for folder in ("config", "manifests"):
            (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / "config/rag-pipeline.json").write_text(json.dumps({"audit": audit or {}}))
        manifest = {"version": 1, "domain": "NPA", "sources": [{"id": "sops", "type": "bank_sop"}]}
        manifest |= {"settings": domain} if domain else {}
        (tmp_path / "manifests/npa.yaml").write_text(json.dumps(manifest))
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return load_setup()

    yield write
    close_writers()


def adapter(query: str, domain: str, top_k: int) -> list[dict[str, Any]]:
    return PASSAGES


def kinds(setup: Setup) -> list[str]:
    """Write what waits, and return the kinds of the records in the order of the log."""
    close_writers()
    with open_ledger(setup, create=False) as ledger:
        ledger.integrate()
        return [json.loads(one.entry or b"")["kind"] for one in ledger.entries(0, ledger.size)]


class TestMode:
    def test_nothing_is_recorded_unless_it_is_asked_for(self, bank: Bank, tmp_path: Path) -> None:
        setup = bank()
        assert audit_mode(setup) == "off"
        assert open_recorder(setup) is None
        rag.retrieve("limit", options={"adapter": adapter})
        assert not (tmp_path / "data").exists()

    def test_naming_a_ledger_asks_for_it(self, bank: Bank, tmp_path: Path) -> None:
        assert audit_mode(bank(CONTEXT_ENGINE_AUDIT_LEDGER=str(tmp_path / "ledger.db"))) == "best_effort"

    def test_what_is_set_wins(self, bank: Bank, tmp_path: Path) -> None:
        ledger = {AUDIT_LEDGER: str(tmp_path / "ledger.db")}
        assert audit_mode(bank({"audit_mode": "off"}, **ledger)) == "off"
        assert audit_mode(bank({"audit_mode": "required"}, **ledger)) == "required"
        assert audit_mode(bank(CONTEXT_ENGINE_AUDIT_MODE="best_effort")) == "best_effort"


class TestPlace:
    def test_it_lies_beside_the_embedded_base_where_nothing_is_named(self, bank: Bank, tmp_path: Path) -> None:
        place = ledger_place(bank())
        assert (place.file, place.named) == (tmp_path / "data/audit/ledger.db", False)
        assert ledger_place(bank(), tmp_path / "other").file == tmp_path / "other/audit/ledger.db"

    def test_a_file_is_named_by_its_whole_path(self, bank: Bank, tmp_path: Path) -> None:
        assert ledger_place(bank(CONTEXT_ENGINE_AUDIT_LEDGER="~/a.db")).file == tmp_path / "a.db"
        with pytest.raises(ConfigError, match=r"'audit/a\.db' is relative") as error:
            open_recorder(bank(CONTEXT_ENGINE_AUDIT_LEDGER="audit/a.db"))
        assert error.value.key == AUDIT_LEDGER
        with pytest.raises(ConfigError, match="is a folder"):
            open_recorder(bank(CONTEXT_ENGINE_AUDIT_LEDGER=str(tmp_path)))

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://ana:BAD@pw/hidden@127.0.0.1:50335/ledger",
            "postgresql://ana:BAD@hidden@127.0.0.1/ledger",
            "postgresql://ana:BAD?hidden@127.0.0.1/ledger",
            "host=127.0.0.1 password=hidden dbname=ledger",
            "host=127.0.0.1 password = 'hidden' dbname=ledger",
        ],
    )
    def test_a_password_with_signs_of_a_url_is_shown_nowhere(self, bank: Bank, url: str) -> None:
        with pytest.raises(ConfigError, match=r"percent-encode the password|connection string of libpq") as error:
            ledger_place(bank(CONTEXT_ENGINE_AUDIT_LEDGER=url))
        assert "hidden" not in str(error.value)
        if "@" in url:
            with pytest.raises(AuditError) as refused:
                postgresql_engine(url)
            assert "hidden" not in str(refused.value)

    def test_a_password_is_shown_nowhere(self, bank: Bank) -> None:
        setup = bank(CONTEXT_ENGINE_AUDIT_LEDGER="postgresql://ana:pass%20word123@db.bank.example:6432/records")
        place = ledger_place(setup)
        assert place.shown == "postgresql://db.bank.example:6432/records"
        assert "word123" not in repr(place)
        assert "ana" not in repr(place)

    @pytest.mark.parametrize(("name", "password"), [("password", "north-gate-17"), ("sslpassword", "tall-oak-442")])
    def test_a_password_behind_the_question_mark_is_hidden_too(self, bank: Bank, name: str, password: str) -> None:
        ledger_place(bank(CONTEXT_ENGINE_AUDIT_LEDGER=f"postgresql://ana@db.bank.example/records?{name}={password}"))
        assert hide(f"given {password}") == f"given {MASK}"

    def test_another_database_is_refused(self, bank: Bank) -> None:
        with pytest.raises(ConfigError, match="not in mysql://") as error:
            open_recorder(bank(CONTEXT_ENGINE_AUDIT_LEDGER="mysql://ana:secret-word@db/x"))
        assert "secret-word" not in str(error.value)

    def test_a_file_may_say_where_it_is(self, bank: Bank, tmp_path: Path) -> None:
        (tmp_path / "place").write_text("postgresql://u:s3cret-s3cret@host/db\n")
        place = ledger_place(bank(CONTEXT_ENGINE_AUDIT_LEDGER="${file:place}"))
        assert place.shown == "postgresql://host/db"


class TestKeys:
    def test_a_bad_key_is_refused_without_being_shown(self, bank: Bank) -> None:
        setup = bank({"audit_mode": "required"}, CONTEXT_ENGINE_AUDIT_KEY="PRIVATE+KEY+bank+12345678+notakey")
        with pytest.raises(ConfigError) as error:
            build_engine(setup)
        assert error.value.key == AUDIT_KEY
        assert "notakey" not in str(error.value)

    def test_a_key_names_the_log(self, bank: Bank) -> None:
        setup = bank(CONTEXT_ENGINE_AUDIT_KEY=SigningKey.generate("audit.bank.example").text)
        with open_ledger(setup) as ledger:
            assert ledger.origin == "audit.bank.example"

    def test_a_key_of_another_log_is_refused(self, bank: Bank) -> None:
        setup = bank({"audit_origin": "bank/two"}, CONTEXT_ENGINE_AUDIT_KEY=SigningKey.generate("bank/one").text)
        with pytest.raises(ConfigError, match=r"'bank/one'.*'bank/two'"):
            ledger_keyring(setup)

    def test_no_key_is_needed(self, bank: Bank) -> None:
        assert ledger_keyring(bank()) is None


def test_what_checkpoints_are_handed_to_is_read_before_any_search(bank: Bank, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is relative") as error:
        build_engine(bank({"audit_mode": "required", "audit_checkpoint_file": "points.txt"}))
    assert error.value.key == "audit_checkpoint_file"
    with pytest.raises(ConfigError) as error:
        build_engine(bank({"audit_mode": "required", "audit_witnesses": ["w=nokey"]}))
    assert error.value.key == "audit_witnesses"


def test_checkpoints_go_to_a_file_and_the_key_stands_in_the_log(bank: Bank, tmp_path: Path) -> None:
    key = SigningKey.generate("audit.bank.example")
    file = tmp_path / "points.txt"
    setup = bank({"audit_mode": "required", "audit_checkpoint_file": str(file)}, CONTEXT_ENGINE_AUDIT_KEY=key.text)
    rag.retrieve("limit", options={"adapter": adapter})
    assert kinds(setup) == ["key", "search"]
    assert "audit.bank.example\n2\n" in file.read_text()


@pytest.mark.parametrize("mode", ["best_effort", "required"])
def test_a_missing_extra_is_named_before_any_search(bank: Bank, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setattr(audit, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"dify-context-engine\[audit\]"):
        build_engine(bank({"audit_mode": mode}))


@pytest.mark.parametrize("mode", ["best_effort", "required"])
class TestRecording:
    def test_every_road_through_the_dict_api_leaves_a_record(self, bank: Bank, mode: str) -> None:
        setup = bank({"audit_mode": mode})
        with rag.create_rag_pipeline({}) as pipeline:
            pipeline["retrieve"]("limit", options={"adapter": adapter})
            pipeline["rerank"]("limit", PASSAGES)
            with pytest.warns(UserWarning, match="unknown domain"):
                pipeline["retrieve"]("limit", domain="NPX")
        assert kinds(setup) == ["search", "rank", "refusal"]
        with open_ledger(setup) as ledger:
            assert [one.size for one in ledger.checkpoints()][-1:] == [3], "the last one, at the end of the process"

    def test_a_search_that_failed_and_a_context_are_records_of_their_own(self, bank: Bank, mode: str) -> None:
        setup = bank({"audit_mode": mode})
        with build_engine(setup) as engine:
            with pytest.raises(AllSourcesFailed) as error:  # nothing was ingested
                engine.search(SearchRequest(query="limit", domain="NPA"))
            engine.context(error.value.result, counter=ApproxTokenCounter())
            with pytest.raises(UnknownDomain):
                engine.search(SearchRequest(query="limit", domain="NPX"))
        assert kinds(setup) == ["search", "context", "refusal"]

    def test_engines_of_one_ledger_share_its_writer(self, bank: Bank, mode: str) -> None:
        setup = bank({"audit_mode": mode})
        one, two = open_recorder(setup), open_recorder(setup, kind="rank")
        assert one is not None
        assert two is not None
        assert one._writer is two._writer

    def test_a_trial_is_not_recorded(self, bank: Bank, tmp_path: Path, mode: str) -> None:
        setup = bank({"audit_mode": mode})
        with build_engine(setup, recorded=False) as engine, pytest.raises(AllSourcesFailed):
            engine.search(SearchRequest(query="limit", domain="NPA"))
        close_writers()
        assert not (tmp_path / "data/audit").exists()

    def test_callers_are_named_by_pseudonyms_alone(self, bank: Bank, mode: str) -> None:
        setup = bank({"audit_mode": mode})
        options = {"adapter": adapter, "principal": {"id": "ana.garcia", "roles": ["trader"]}}
        rag.retrieve("limit", options=options)
        close_writers()
        with open_ledger(setup) as ledger:
            (row,) = ledger.rows(Criteria())
            (entry,) = [one.entry for one in ledger.entries(0, 1)]
        assert row.caller is not None
        assert b"ana.garcia" not in (entry or b"")
        assert b"trader" in (entry or b"")


class TestLedgerDown:
    @pytest.fixture
    def down(self, tmp_path: Path) -> str:
        """Return the path of a ledger in a folder that is a file."""
        (tmp_path / "taken").write_text("no folder")
        return str(tmp_path / "taken/ledger.db")

    def test_required_refuses_the_answer_and_says_why(self, bank: Bank, down: str) -> None:
        bank({"audit_mode": "required"}, CONTEXT_ENGINE_AUDIT_LEDGER=down)
        with pytest.raises(AuditUnavailable, match="no unrecorded answer is returned"):
            rag.retrieve("limit", options={"adapter": adapter})
        with pytest.raises(AuditUnavailable):
            rag.rerank("limit", PASSAGES)

    def test_best_effort_answers_all_the_same(self, bank: Bank, down: str) -> None:
        bank({"audit_mode": "best_effort"}, CONTEXT_ENGINE_AUDIT_LEDGER=down)
        assert len(rag.retrieve("limit", options={"adapter": adapter})) == 1


class TestRefusedQuestions:
    def test_they_are_kept_as_the_domain_says(self, bank: Bank) -> None:
        assert audit._kept_of(bank(), "NPA") == "text"
        assert audit._kept_of(bank(domain={"audit_query": "digest"}), "NPA") == "digest"

    def test_of_no_known_domain_as_the_most_secretive_says(self, bank: Bank) -> None:
        assert audit._kept_of(bank(domain={"audit_query": "none"}), "NPX") == "none"
        assert audit._kept_of(bank({"audit_query": "digest"}, {"audit_query": "text"}), "NPX") == "digest"


def test_all_sources_failing_is_recorded(bank: Bank) -> None:
    def broken(query: str, domain: str, top_k: int) -> list[dict[str, Any]]:
        raise OSError("no route")

    setup = bank({"audit_mode": "required"})
    with pytest.raises(AllSourcesFailed):
        rag.retrieve("limit", options={"adapter": broken})
    close_writers()
    with open_ledger(setup) as ledger:
        (row,) = ledger.rows(Criteria())
    assert (row.kind, row.status) == ("search", "failed")


_PROCESS = """
import multiprocessing, sys
from context_engine import rag
def search(_=None):
    rag.retrieve("limit", options={"adapter": lambda *a: [{"content": "A limit.", "relevance_score": 0.9}]})
if __name__ == "__main__":
    search()
    if sys.argv[1] == "child":
        child = multiprocessing.get_context("fork").Process(target=search)
        child.start()
        child.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("how", "records"), [("alone", 1), ("child", 2)])
def test_a_process_that_ends_at_once_has_written_what_waited(
    bank: Bank, tmp_path: Path, how: str, records: int
) -> None:
    setup = bank({"audit_mode": "best_effort"})
    (tmp_path / "process.py").write_text(_PROCESS)
    subprocess.run([sys.executable, "process.py", how], check=True, cwd=tmp_path, env=dict(os.environ), timeout=60)
    assert len(kinds(setup)) == records


def test_a_ledger_is_opened_with_its_own_url(bank: Bank, tmp_path: Path) -> None:
    setup = bank(CONTEXT_ENGINE_AUDIT_LEDGER=str(tmp_path / "x.db"))
    open_ledger(setup).close()
    with Ledger.open(str(tmp_path / "x.db"), origin="any", keyring=None, clock=SystemClock(), create=False) as ledger:
        assert (ledger.origin, ledger.size) == ("context-engine/audit", 0)
