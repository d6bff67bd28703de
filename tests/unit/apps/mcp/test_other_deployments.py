"""The tools where personal data is masked, where there is very much to list, and where the extra is not installed."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

from context_engine.apps.cli import main
from context_engine.apps.mcp.answers import DomainsAnswer
from context_engine.apps.mcp.reply import Call
from context_engine.apps.mcp.tools import TOOLS, tool_named
from context_engine.core.models import Authenticated, DomainSpec
from tests.unit.apps.mcp.test_http import app_of, posted, request
from tests.unit.service.small_bank import CLERK, DOCUMENTS, QUESTION, small_bank

ADDRESS = "asker@bank.example"


def test_no_tool_tells_personal_data_where_it_is_masked(tmp_path: Path) -> None:
    documents = DOCUMENTS | {"a.md": f"# 1 Losses by {ADDRESS}\n\nReport a loss event to {ADDRESS} within 24 hours.\n"}
    settings = {"privacy": {"mask_contexts": True, "mask_stored_queries": True}}
    deployment = small_bank(tmp_path, documents=documents, settings=settings)
    call = Call(deployment, Authenticated(principal=CLERK))
    try:
        found = tool_named("search").answered(call, {"question": f"{QUESTION}, {ADDRESS}", "detail": "full"})
        first = found.structured["results"][0]
        said = [found, tool_named("fetch").answered(call, {"id": first["id"]})]
        said.append(tool_named("explain").answered(call, {"search_id": found.structured["search_id"]}))
        for reply in said:
            assert "24 hours" in reply.read or reply is said[-1]
            assert ADDRESS not in reply.read + json.dumps(reply.structured)
    finally:
        deployment.close()


@pytest.mark.slow
def test_a_list_that_is_too_long_says_what_it_leaves_out() -> None:
    source: dict[str, Any] = {"type": "bank_sop", "title": "Procedures of a branch with a long name"}
    domains = {
        f"D{number}": DomainSpec(
            version=1,
            domain=f"D{number}",
            title="A domain",
            sources=tuple({**source, "id": f"s{number}-{place}"} for place in range(20)),
        )
        for number in range(200)
    }
    known = SimpleNamespace(domains=domains, names=tuple(domains))
    resolver = SimpleNamespace(personas=("analyst",))
    deployment = SimpleNamespace(known_to=lambda _who: known, setup=SimpleNamespace(resolver=resolver), demo=False)
    reply = tool_named("domains").answered(Call(deployment, Authenticated(principal=CLERK)), {})  # type: ignore[arg-type]
    answer = reply.content
    assert isinstance(answer, DomainsAnswer)
    assert reply.fits
    listed = len(answer.domains) + sum(len(one.sources) for one in answer.domains)
    of_those_listed = 20 * len(answer.domains)
    assert answer.not_listed == 200 + of_those_listed - listed > 0
    assert str(answer.not_listed) in reply.read


def test_each_name_and_description_stands_once() -> None:
    assert len({tool.name for tool in TOOLS}) == len({tool.description for tool in TOOLS}) == 9


def test_without_the_extra_the_command_says_which_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("context_engine.apps.cli.serve"), "find_spec", lambda _name: None)
    result = CliRunner().invoke(main, ["mcp"])
    assert result.exit_code == 2
    assert "[mcp]" in result.output


def test_without_the_extra_the_service_has_no_such_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_engine.apps.server.mcp.find_spec", lambda _name: None)
    deployment = small_bank(tmp_path)
    with TestClient(app_of(deployment)) as client:
        assert posted(client, request("tools/list")).status_code == 404
