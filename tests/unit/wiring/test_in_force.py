"""The settings a recorded request would be searched with now are those the engine resolves for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.core.models import Principal, SearchRequest
from context_engine.errors import AllSourcesFailed, UnknownDomain
from context_engine.settings import SettingsResolver
from context_engine.wiring.build import build_engine
from context_engine.wiring.functions import FunctionEngines
from context_engine.wiring.in_force import settings_in_force
from context_engine.wiring.models import RerankerChoice
from context_engine.wiring.setup import Setup, load_setup

MANIFEST = """
version: 1
domain: ORM
sources:
  - {id: sops, type: bank_sop, access: {roles: [staff]}}
  - {id: web, type: general_web}
settings: {stage2_top_k: 5, sources: [sops, web]}
"""


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/orm.yaml").write_text(MANIFEST, "utf-8")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/rag-pipeline.json").write_text('{"min_relevance_score": 0.2}', "utf-8")
    return load_setup(config_dir=tmp_path, env={}, cwd=tmp_path)


@pytest.mark.parametrize("roles", [{"staff"}, {"guest"}])
@pytest.mark.parametrize("overrides", [{}, {"stage2_top_k": 2, "mmr_lambda": 0.5}])
def test_they_are_those_of_the_engine(setup: Setup, tmp_path: Path, roles: set[str], overrides: dict[str, int]) -> None:
    principal = Principal(id="u", roles=frozenset(roles), clearance="internal")  # type: ignore[arg-type]
    request = SearchRequest(query="a loss", domain="ORM", principal=principal, overrides=overrides)
    with build_engine(setup, data_dir=tmp_path / "data") as engine, pytest.raises(AllSourcesFailed) as failed:
        engine.search(request)  # there is no base
    result = failed.value.result
    assert result is not None
    assert settings_in_force(setup, request, result.specs).to_dict() == result.settings.to_dict()
    assert settings_in_force(setup, request, result.specs).values.min_relevance_score == 0.2


def test_a_domain_that_is_gone_has_none(setup: Setup) -> None:
    request = SearchRequest(query="a loss", domain="GONE")
    with pytest.raises(UnknownDomain):
        settings_in_force(setup, request, ())


def test_those_of_a_function_are_of_no_domain(setup: Setup) -> None:
    functions = FunctionEngines(RerankerChoice.of(SettingsResolver()), str, {})
    request = SearchRequest(query="a loss", domain="anything", overrides={"stage2_top_k": 2})
    result = functions.engine(lambda *_: [{"content": "a loss"}], "anything").search(request)
    now = settings_in_force(setup, request, result.specs).values
    assert (now.stage2_top_k, now.min_relevance_score) == (2, 0.2)
