"""Domains as one line: what people paste, and what forms do to it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from context_engine.apps.dify.settings_line import SettingsLine, read_line, write_line
from context_engine.errors import ConfigError

MANIFEST = {"version": 1, "domain": "NPA", "title": "Zulassung – Prüfung", "sources": []}
WHOLE = SettingsLine(
    manifests=[MANIFEST, {**MANIFEST, "domain": "ORM"}],
    connections={"dify": {"base_url": "${KB_URL}"}},
    config={"rag-pipeline.json": {"stage2_top_k": 5}},
)


@pytest.mark.parametrize("as_base64", [False, True])
def test_a_line_is_one_line_and_reads_back(as_base64: bool) -> None:
    line = write_line(WHOLE, as_base64=as_base64)
    assert "\n" not in line and line.isascii()
    assert read_line(line) == WHOLE


def test_a_form_that_drops_line_breaks_does_no_harm() -> None:
    pretty = json.dumps({"version": 1, "manifests": WHOLE.manifests, "connections": WHOLE.connections}, indent=2)
    for pasted in (pretty, pretty.replace("\n", ""), pretty.replace("\n", " "), f"  {pretty}\n"):
        assert read_line(pasted).manifests == WHOLE.manifests


def test_base64_survives_wrapping_lost_padding_and_the_url_alphabet() -> None:
    packed = write_line(WHOLE, as_base64=True)
    wrapped = "\n".join(packed[at : at + 76] for at in range(0, len(packed), 76))
    urlsafe = base64.urlsafe_b64encode(base64.b64decode(packed)).decode()
    for pasted in (wrapped, packed.rstrip("="), urlsafe, wrapped.replace("\n", " ")):
        assert read_line(pasted) == WHOLE


@pytest.mark.parametrize("given", [MANIFEST, [MANIFEST], {"manifests": [MANIFEST]}])
def test_a_manifest_alone_will_do(given: object) -> None:
    assert read_line(json.dumps(given)).manifests == [MANIFEST]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("not json", "domains: is neither JSON nor base64"),
        ('{"manifests": [', "the end is missing"),
        ('{"manifests": [}', r"is not JSON: .*, character 16"),
        ('"text"', "is neither JSON nor base64"),
        ("[]", "at least one"),
        ('{"manifests": {}}', "must be a list of manifests"),
        ('{"manifest": []}', "domains.manifest: unknown key. Did you mean 'manifests'"),
        ('{"manifests": [{"domain": "A"}], "version": 2}', "domains.version: is 2, and this plugin reads 1"),
        ('{"manifests": [{"domain": "A"}], "config": {"rag.json": {}}}', "domains.config.rag.json: unknown file"),
        ('{"manifests": [{"domain": "A"}], "config": []}', "domains.config: must be an object"),
        ('{"manifests": [{"domain": "A", "domain": "B"}]}', "the key 'domain' appears twice"),
        ('{"manifests": [{"domain": NaN}]}', "NaN is not a JSON number"),
        ("[" * 100_000, "nested too deep|not JSON"),
    ],
)
@pytest.mark.usefixtures("collector_off")
def test_what_cannot_be_used_is_told(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_line(text)


def test_an_endless_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="longer than 1000000 characters"):
        read_line("[" + " " * 1_000_000)


def test_files_are_written_with_names_of_their_own(tmp_path: Path) -> None:
    twice = SettingsLine(manifests=[MANIFEST, MANIFEST, {"domain": "../../etc"}, {}], config=WHOLE.config)
    twice.write_files(tmp_path)
    names = sorted(path.name for path in (tmp_path / "manifests").iterdir())
    assert names == ["4.yaml", "etc.yaml", "npa-2.yaml", "npa.yaml"]
    assert json.loads((tmp_path / "config/rag-pipeline.json").read_text()) == {"stage2_top_k": 5}
