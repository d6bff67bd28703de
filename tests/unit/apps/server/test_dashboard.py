"""The dashboard and the alert rules name only metrics, and labels that a scrape has."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from context_engine.adapters.http.client import shared_budget
from context_engine.apps.server.app import create_app
from context_engine.apps.server.quality import QualityCheck
from context_engine.apps.server.service import Service
from context_engine.core.engine.source_pool import SourcePool
from context_engine.core.models import AnswerRecord
from context_engine.insight.quality import Count
from context_engine.insight.quality_watch import QualityLine
from context_engine.service.deployment import LiveDeployment
from tests.unit.service.small_bank import AUDITOR, QUESTION, Tokens, as_, small_bank

DEPLOY = Path(__file__).resolve().parents[4] / "manifests/deploy"
GUIDE = DEPLOY.parents[1] / "docs/guides/observability.md"
BOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text("utf-8"))
RULES = yaml.safe_load((DEPLOY / "prometheus-alerts.yaml").read_text("utf-8"))["groups"][0]["rules"]
MODEL = {"name": "m", "usage": {"input_tokens": 9, "output_tokens": 3}, "cost": {"amount": "0.5", "currency": "EUR"}}
ANSWER = {"mode": "model", "refusal": None, "sentences": [{"verdict": "supported"}], "rewriting": None, "model": MODEL}
LINE = QualityLine("ORM", "degraded", Count(3, 100), Count(9, 900), True, 500.0, (), ())
OF_PROMETHEUS = {"instance", "job"}


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """The labels of each sample by its name, of a service that has searched and answered."""
    bank = small_bank(tmp_path_factory.mktemp("bank"), settings={"audit": {"audit_mode": "off"}})
    bank.engine.tally.note_answer("ORM", AnswerRecord(facts=ANSWER, words={}))
    shared_budget("https://kb.bank.example", "key").take(60, time.monotonic(), 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QualityCheck, "lines", lambda _: [LINE])
        patch.setattr(SourcePool, "watched_recall", lambda _: {("ORM", "sops"): 0.97})
        with TestClient(create_app(Service(LiveDeployment(lambda: bank), Tokens(), threads=4))) as client:
            assert client.post("/api/v1/rag/query", json={"query": QUESTION}, headers=as_(AUDITOR)).status_code == 200
            text = client.get("/metrics", headers=as_(AUDITOR)).text
    yield {
        sample.name: set(sample.labels) for family in text_string_to_metric_families(text) for sample in family.samples
    }
    bank.close()


def panels() -> list[dict[str, Any]]:
    return [panel for panel in BOARD["panels"] if panel["type"] != "row"]


def queries() -> list[tuple[str, str]]:
    """Each query with the text that shows its labels."""
    drawn = [(target["expr"], target["legendFormat"]) for panel in panels() for target in panel["targets"]]
    variables = [(row["query"], "") for row in BOARD["templating"]["list"] if row["type"] == "query"]
    return [*drawn, *variables, *((rule["expr"], json.dumps(rule["annotations"])) for rule in RULES)]


def test_a_query_names_what_a_scrape_has(scraped: dict[str, set[str]]) -> None:
    for query, words in queries():
        selected = re.findall(r"\b(context_engine_\w+)(?:\{([^}]*)\})?", query)
        assert selected, query
        for name, matchers in selected:
            assert name in scraped, query
            assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)) <= scraped[name], query
        grouped = {label for by in re.findall(r"\bby \(([^)]*)\)", query) for label in by.split(", ")}
        known = set.union(*(scraped[name] for name, _ in selected)) | OF_PROMETHEUS
        assert grouped <= known, query
        shown = set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", words))
        assert shown <= (grouped or known), query


def test_every_metric_is_drawn_or_alerted_on(scraped: dict[str, set[str]]) -> None:
    text = " ".join(query for query, _ in queries())
    families = {re.sub(r"_(?:bucket|count|sum|total|created)$", "", name) for name in scraped}
    ours = {name for name in families if "_process_" not in name and not name.endswith(("_info", "_source_seconds"))}
    assert [name for name in sorted(ours) if name not in text] == []


def test_the_guide_lists_every_metric_with_its_labels(scraped: dict[str, set[str]]) -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \| (.*?) \|", GUIDE.read_text("utf-8"), flags=re.M)
    words = [(re.findall(r"`(\w+)`", names), set(re.findall(r"`(\w+)`", labels))) for names, labels in rows]
    listed = {name: labels for names, labels in words for name in names}
    for name, labels in scraped.items():
        family = re.sub(r"_(?:bucket|count|sum)$", "", name).removeprefix("context_engine_")
        if not family.startswith("process_") and not family.endswith("_created"):
            assert labels - {"le"} <= listed[family], name


def test_panels_do_not_overlap_and_have_a_description() -> None:
    places = [
        (column, row)
        for panel in BOARD["panels"]
        for column in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for row in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places)) and max(column for column, _ in places) == 23
    assert all(panel["description"].endswith(".") for panel in panels())


def test_an_alert_says_what_is_wrong_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert all(rule["annotations"][part].endswith(".") for part in ("summary", "description"))
