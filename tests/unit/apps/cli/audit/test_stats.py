"""`audit stats`: what the chat models of recorded answers used and cost, by domain, model and day."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.record.entry import composed
from context_engine.audit.values import Draft
from context_engine.core.engine import SystemClock

pytest.importorskip("sqlalchemy")


def call(name: str, usage: tuple[int, int] | None, cost: str) -> dict[str, Any]:
    tokens = None if usage is None else {"input_tokens": usage[0], "output_tokens": usage[1]}
    return {"name": name, "usage": tokens, "cost": {"amount": cost, "currency": "USD"} if cost else None}


ANSWERS: list[tuple[str, str, dict[str, Any] | None, dict[str, Any] | None]] = [
    ("2026-03-01", "NPA", call("large", (1000, 50), "0.1"), call("small", (200, 10), "0.02")),
    ("2026-03-01", "ORM", call("large", (500, 25), "0.2"), None),
    ("2026-03-02", "NPA", call("own", None, ""), None),
    ("2026-03-02", "NPA", None, None),
]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("ledger") / "ledger.db"
    with Ledger.open(str(file), origin="log", keyring=None, clock=SystemClock()) as opened:
        opened.append([draft(number) for number in range(len(ANSWERS))])
    return file


def draft(number: int) -> Draft:
    day, domain, model, rewriting = ANSWERS[number]
    entry = {"kind": "answer", "id": f"a{number}", "time": f"{day}T09:00:00.000000Z", "domain": domain, "search": "s"}
    entry |= {"model": model, "rewriting": rewriting}
    return Draft(record_id=f"a{number}", contents=(), compose=lambda _: composed(entry, {}, {}))


def stats(ledger: Path, *options: str) -> str:
    env = {"HOME": str(ledger.parent), "CONTEXT_ENGINE_AUDIT_KEY": ""}
    done = CliRunner().invoke(main, ["audit", "stats", *options, "--ledger", str(ledger)], env=env)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_models_are_counted_by_day_domain_and_model(ledger: Path) -> None:
    rows = [tuple(row.values()) for row in json.loads(stats(ledger, "--json"))["models"]]
    assert rows == [
        ("2026-03-01", "NPA", "large", 1, 1000, 50, "0.1", "USD"),
        ("2026-03-01", "NPA", "small", 1, 200, 10, "0.02", "USD"),
        ("2026-03-01", "ORM", "large", 1, 500, 25, "0.2", "USD"),
        ("2026-03-02", "NPA", "own", 1, 0, 0, "", ""),
    ]
    assert len(json.loads(stats(ledger, "--json", "--since", "2026-03-02"))["models"]) == 1


def test_the_tables_sum_by_domain_model_and_day(ledger: Path) -> None:
    lines = [line.split() for line in stats(ledger).splitlines()]
    assert ["large", "2", "1,500", "75", "0.3", "USD"] in lines  # 0.1 + 0.2, exactly
    assert ["NPA", "2", "1,200", "60", "0.12", "USD"] in lines
    assert ["2026-03-01", "3", "1,700", "85", "0.32", "USD"] in lines
    assert ["own", "1", "0", "0", "no", "price"] in lines


def test_the_page_shows_the_same_and_loads_nothing(ledger: Path, tmp_path: Path) -> None:
    assert stats(ledger, "--html", str(tmp_path / "stats.html")) == ""
    page = (tmp_path / "stats.html").read_text("utf-8")
    assert "<td class=w>large</td><td>2</td><td>1,500</td><td>75</td><td>0.3 USD</td>" in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_ledger_without_models_has_no_table_of_them(tmp_path: Path) -> None:
    Ledger.open(str(tmp_path / "empty.db"), origin="log", keyring=None, clock=SystemClock()).close()
    assert "Nothing is recorded yet." in stats(tmp_path / "empty.db")
    assert json.loads(stats(tmp_path / "empty.db", "--json"))["models"] == []
