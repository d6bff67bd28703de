"""`doctor` measures the service and says if its rate turns a caller away who could be served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main
from tests.unit.service.small_bank import small_bank

pytestmark = pytest.mark.slow


def doctored(folder: Path, settings: dict[str, Any], *options: str) -> str:
    small_bank(folder, rules=False, settings=settings).close()
    place = ("--config-dir", str(folder), "--data-dir", str(folder / "data"))
    return CliRunner().invoke(main, ["doctor", *place, *options]).stdout


def service(folder: Path, settings: dict[str, Any], *options: str) -> dict[str, Any]:
    published: dict[str, Any] = json.loads(doctored(folder, settings, "--json", *options))["service"]
    return published


def test_a_rate_below_what_the_service_serves_is_shown(tmp_path: Path) -> None:
    output = " ".join(doctored(tmp_path, {"server_rate_per_minute": 30}).split())
    assert "server_rate_per_minute allows a caller 30 requests a minute, and this machine serves" in output
    report = service(tmp_path, {"server_rate_per_minute": 30})
    assert report["rate_per_minute"] == 30
    assert report["searches_per_minute"] > 45


def test_without_a_rate_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert "server_rate_per_minute" not in doctored(tmp_path, {"server_rate_per_minute": 0})


def test_nothing_is_measured_without_a_query(tmp_path: Path) -> None:
    assert service(tmp_path, {}, "--no-query")["searches_per_minute"] is None


def test_nothing_is_measured_with_a_model_as_its_calls_may_cost_money(tmp_path: Path) -> None:
    assert service(tmp_path, {"reranker": "cross_encoder"})["searches_per_minute"] is None
