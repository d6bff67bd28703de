"""A learnt blend in a manifest: the rest of the file stays as it was written."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from context_engine.core.models import BlendTerm, DomainSettings, LearntBlend
from context_engine.errors import ConfigError
from context_engine.evaluation.learning.blend_tune import manifest_with_blend

BLEND = LearntBlend(
    measured_by="weighted",
    cosine="mini",
    terms={"cosine": BlendTerm(weight=0.00001234, mean=0.5, deviation=1e-6)},
    evidence={"questions": 60, "decided_by": "nDCG@10"},
)
SOURCES = """\
version: 1
domain: NPA  # Harbour Bank
sources:
  - id: sops
    type: bank_sop
"""
SETTINGS = """\
settings:
    # tuned by hand
    stage2_top_k: 5

    min_relevance_score: 0.2   # of March
description: New products
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return tmp_path / "npa.yaml"


def written(path: Path, text: str, blend: LearntBlend = BLEND) -> str:
    path.write_text(text, "utf-8")
    return manifest_with_blend(path, "NPA", blend)


@pytest.mark.parametrize(
    "text", [SOURCES, SOURCES + SETTINGS, SOURCES + "settings:\n  stage2_top_k: 5", SETTINGS + SOURCES]
)
def test_it_stands_in_the_settings_and_all_other_lines_stay(manifest: Path, text: str) -> None:
    found = written(manifest, text)
    held = yaml.safe_load(found)["settings"]
    assert DomainSettings.model_validate(held).learnt_blend == BLEND
    assert {**yaml.safe_load(text), "settings": held} == yaml.safe_load(found)
    for line in text.splitlines():
        assert line in found.splitlines()


def test_another_blend_takes_its_place(manifest: Path) -> None:
    more = {**BLEND.terms, "stage1": BlendTerm(weight=1.0, mean=0.5, deviation=0.25)}
    wide = BLEND.model_copy(update={"terms": more, "evidence": {"held_out": {"R@10": {"before": 0.5}}}})
    for text in (SOURCES, SOURCES + SETTINGS):
        once = written(manifest, text)
        assert written(manifest, written(manifest, once, wide)) == once


@pytest.mark.parametrize("settings", ["settings: {stage2_top_k: 5}\n", '"settings":\n  stage2_top_k: 5\n'])
def test_settings_on_one_line_are_refused(manifest: Path, settings: str) -> None:
    with pytest.raises(ConfigError, match="write 'settings:' on a separate line"):
        written(manifest, SOURCES + settings)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SOURCES.replace("NPA", "ORM"), "is not the manifest of NPA"),
        ("- a\n- b\n", "is not the manifest of NPA"),
        ("domain: [NPA\n", "cannot be added to"),
    ],
)
def test_a_file_that_is_no_manifest_of_the_domain(manifest: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        written(manifest, text)
    with pytest.raises(ConfigError, match="cannot be added to"):
        manifest_with_blend(manifest.with_name("gone.yaml"), "NPA", BLEND)
