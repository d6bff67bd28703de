"""Experiments: stable arms, the settings of each, and what may not be declared."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from context_engine.core.models import Caller, Experiment, Principal, SearchRequest
from context_engine.errors import ConfigError
from context_engine.settings import config_layer
from context_engine.settings.resolver import Experiments, SettingsResolver, arm_of

DEEP = {"deep": {"domain": "NPA", "a": {"stage2_top_k": 5}, "b": {"stage2_top_k": 3}}}


def resolver(experiments: dict[str, Any]) -> SettingsResolver:
    return SettingsResolver(files=config_layer({"experiments": experiments}, "f", file="f"))


def request(name: str = "", domain: str = "NPA", **fields: Any) -> SearchRequest:
    return SearchRequest(query="limits", domain=domain, principal=Principal(id=name), **fields)


def test_a_caller_keeps_the_arm_and_both_arms_have_about_half() -> None:
    arms = Counter(arm_of("deep", f"caller {number}") for number in range(1000))
    assert set(arms) == {"a", "b"}
    assert 430 < arms["a"] < 570
    both = Counter((arm_of("deep", str(n)), arm_of("wide", str(n))) for n in range(1000))
    assert min(both.values()) > 180, "the arms of two experiments are independent"


@pytest.mark.parametrize("number", range(8))
def test_each_caller_is_served_the_settings_of_the_arm(number: int) -> None:
    caller = f"caller {number}"
    arm = arm_of("deep", caller)
    settings = resolver(DEEP).resolve(None, request(caller))
    assert settings.values.experiment_arm == f"deep/{arm}"
    assert settings.values.stage2_top_k == {"a": 5, "b": 3}[arm]
    assert settings.origins["stage2_top_k"] == "experiment deep"


def test_a_call_has_the_last_word() -> None:
    settings = resolver(DEEP).resolve(None, request("jo", overrides={"stage2_top_k": 7}))
    assert (settings.values.stage2_top_k, settings.values.experiment_arm[:5]) == (7, "deep/")


@pytest.mark.parametrize("asked", [request("jo", domain="ORM"), request()])
def test_other_domains_and_unknown_callers_are_in_no_arm(asked: SearchRequest) -> None:
    settings = resolver(DEEP).resolve(None, asked)
    assert (settings.values.experiment_arm, settings.values.stage2_top_k) == ("", 8)


def test_the_person_for_whom_a_program_asks_decides_the_arm() -> None:
    people = [request("gateway", caller=Caller(on_behalf_of=f"person {number}")) for number in range(20)]
    assert {resolver(DEEP).resolve(None, asked).values.experiment_arm for asked in people} == {"deep/a", "deep/b"}


@pytest.mark.parametrize(
    ("arm", "problem"),
    [
        ({"reranker": "noop"}, "experiments.deep.b.reranker"),
        ({"stage2_top_k": 0}, "experiments.deep.b.stage2_top_k"),
        ({"stage2_topk": 3}, "Did you mean 'stage2_top_k'"),
    ],
)
def test_an_arm_sets_what_a_search_may_have_its_own_value_of(arm: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Experiments({"deep": Experiment(domain="NPA", b=arm)}, "f")
    assert problem in str(refused.value)


def test_the_example_of_the_guide_can_be_used() -> None:
    guide = Path(__file__).resolve().parents[3] / "docs/guides/quality.md"
    written = guide.read_text("utf-8").partition("<!-- experiments -->\n```json\n")[2].partition("```")[0]
    declared = SettingsResolver(files=config_layer(json.loads(written), "f", file="f"))
    declared.check_experiments()
    assert declared.base().values.experiments["deep"].b == {"rerank_by": "deep"}


def test_a_domain_has_one_experiment() -> None:
    with pytest.raises(ConfigError):
        resolver({**DEEP, "wide": {"domain": "NPA"}})
