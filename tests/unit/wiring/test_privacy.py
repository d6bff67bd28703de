"""From settings to a mask: which maskers, which key, where it is on, and what is refused where it cannot be."""

from __future__ import annotations

import json
import logging
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

pytest.importorskip("stdnum")
pytest.importorskip("phonenumbers")

from click.testing import CliRunner

from context_engine import build_context_block, secrecy
from context_engine.apps.cli import main
from context_engine.core.models import NoticeCode, SearchRequest
from context_engine.core.protocols import PersonalData
from context_engine.errors import ConfigError, InvalidRequest, MissingExtra
from context_engine.rag import create_rag_pipeline
from context_engine.settings import find_config
from context_engine.settings.environment_secrets import PRIVACY_KEY
from context_engine.wiring.build import build_engine
from context_engine.wiring.check import check
from context_engine.wiring.setup import load_setup

CARD = "4111 1111 1111 1111"
KEY = "0123456789abcdef0123"


class Names:
    """Finds one name; an installed masker."""

    def __init__(self, options):
        if set(options) - {"name"}:
            raise ConfigError("unknown option", key=next(iter(set(options) - {"name"})))
        self._name = options.get("name", "Ana")

    def find(self, text):
        place = text.find(self._name)
        return [PersonalData(place, place + len(self._name), "NAME", self._name)] if place >= 0 else []


def no_masker():
    """Return what is none."""
    return object()


@pytest.fixture
def bank(tmp_path, monkeypatch):
    """Return a function that writes a configuration and loads it."""
    monkeypatch.setattr(secrecy, "_masks", type(secrecy._masks)())

    def write(privacy=None, domain=None):
        for folder in ("config", "manifests"):
            (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / "config" / "rag-pipeline.json").write_text(json.dumps({"privacy": privacy or {}}))
        manifest = {"version": 1, "domain": "NPA", "sources": [{"id": "sops", "type": "bank_sop"}]}
        (tmp_path / "manifests" / "npa.yaml").write_text(json.dumps({**manifest, "settings": domain or {}}))
        return tmp_path

    return write


def setup_of(folder, **env):
    return load_setup(config_dir=folder, env={"CONTEXT_ENGINE_DATA_DIR": str(folder / "data"), **env}, cwd=folder)


@pytest.fixture
def acme(monkeypatch):
    """Install two maskers."""
    points = [
        EntryPoint("acme_names", f"{__name__}:Names", "context_engine.maskers"),
        EntryPoint("acme_none", f"{__name__}:no_masker", "context_engine.maskers"),
    ]
    monkeypatch.setattr(EntryPoint, "load", lambda self: globals()[self.attr])
    monkeypatch.setattr("context_engine.wiring.adapters._points", lambda group: points)


def without_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "stdnum", None)
    monkeypatch.setitem(sys.modules, "phonenumbers", None)
    for name in [name for name in sys.modules if name.startswith("context_engine.adapters.maskers.")]:
        if not name.endswith((".personal_data", ".plain_text", ".own_patterns")):
            monkeypatch.delitem(sys.modules, name)


def test_a_key_makes_the_same_pseudonyms_in_every_process_and_a_random_one_in_one(bank):
    folder = bank()
    one, two = setup_of(folder, **{PRIVACY_KEY: KEY}).mask(), setup_of(folder, **{PRIVACY_KEY: KEY}).mask()
    assert one(CARD) == two(CARD) != setup_of(folder).mask()(CARD)
    assert setup_of(folder).mask()(CARD) == setup_of(folder).mask()(CARD)


def test_further_maskers_are_found_by_name_and_their_pseudonyms_are_keyed_alike(bank, acme):
    mask = setup_of(bank({"maskers": {"acme_names": {"name": "Bo"}}})).mask()
    assert mask(f"Bo paid with {CARD}").startswith("[NAME ") and CARD not in mask(f"Bo paid with {CARD}")


@pytest.mark.parametrize(
    ("maskers", "problem"),
    [
        ({"acme_nmes": {}}, r"maskers.acme_nmes: unknown masker .* Installed: acme_names, acme_none.* Did you mean"),
        ({"acme_names": {"x": 1}}, "maskers.acme_names.x: unknown option"),
        ({"acme_none": {}}, r"maskers.acme_none: made a object, which has no find\(text\)"),
        ({"acme_none": {"x": 1}}, "maskers.acme_none: 'acme_none' takes no options: remove x"),
    ],
)
def test_maskers_that_cannot_be_used(bank, acme, maskers, problem):
    with pytest.raises(ConfigError, match=problem):
        setup_of(bank({"maskers": maskers})).mask()("text")


@pytest.mark.parametrize(
    ("privacy", "problem"),
    [
        ({"mask_countries": ["XX"]}, "config/rag-pipeline.json: mask_countries: no national id is known of 'XX'"),
        ({"mask_patterns": {"staff": "(["}}, "config/rag-pipeline.json: mask_patterns.staff: is not a regular expr"),
    ],
)
def test_what_cannot_be_used_names_its_file_and_stops_the_domains_that_mask(bank, privacy, problem):
    folder = bank({**privacy, "mask_contexts": True})
    with build_engine(setup_of(folder)) as engine, pytest.raises(ConfigError, match=problem):
        engine.search(SearchRequest(query="q", domain="NPA"))
    report = check(find_config(folder, env={}, cwd=folder), env={})
    assert problem.split(":")[1].strip() in str(report.problems[0]) and report.unusable == ("NPA",)


def test_where_it_is_on_is_known_and_a_missing_key_is_a_notice(bank):
    setup = setup_of(bank({"mask_patterns": {"staff": "S-[0-9]+"}}, {"mask_contexts": True}))
    found = setup.masking()
    assert (found.contexts, found.stored_queries, found.logs, found.on) == (("NPA",), (), False, True)
    assert found.kinds[-1] == "staff" and found.key is None
    assert [notice.code for notice in setup.config.notices] == [NoticeCode.PRIVACY_KEY_MISSING]
    assert setup_of(bank({}, {"mask_contexts": True}), **{PRIVACY_KEY: KEY}).config.notices == ()
    assert not setup_of(bank()).masking().on and setup_of(bank()).config.notices == ()


def test_logs_are_masked_where_the_setting_says_so(bank, caplog):
    logger = logging.getLogger("context_engine.test")
    setup_of(bank())
    logger.warning("card %s", CARD)
    setup_of(bank({"mask_logs": True}), **{PRIVACY_KEY: KEY})
    logger.warning("card %s", CARD)
    try:
        raise ValueError(CARD)
    except ValueError:
        logger.exception("failed")
    logging.getLogger("another").warning("card %s", CARD)
    plain, masked, failed, another = caplog.records[-4:]
    assert CARD in plain.getMessage() and CARD in another.getMessage()
    assert masked.getMessage().startswith("card [CARD ")
    assert CARD not in str(failed.exc_text) and "[CARD " in str(failed.exc_text)


def test_a_log_record_that_cannot_be_masked_shows_nothing(bank, caplog):
    bank()

    def fails(text):
        raise ValueError(text)

    secrecy.mask_logs("fails", fails)
    logging.getLogger("context_engine.test").warning("card %s", CARD)
    assert caplog.records[-1].getMessage() == "(not shown: personal data in it could not be masked)"


def test_without_the_extra_what_should_be_masked_is_refused(bank, monkeypatch):
    folder = bank({}, {"mask_contexts": True})
    without_extra(monkeypatch)
    with build_engine(setup_of(folder)) as engine, pytest.raises(MissingExtra, match=r"dify-context-engine\[privacy\]"):
        engine.search(SearchRequest(query="q", domain="NPA"))
    with pytest.raises(MissingExtra, match=r"dify-context-engine\[privacy\]"):
        setup_of(bank({"mask_logs": True}))
    report = check(find_config(folder, env={}, cwd=folder), env={})
    assert isinstance(report.problems[0], MissingExtra)


def test_the_settings_of_the_guide_do_what_it_says(bank):
    guide = (Path(__file__).parents[3] / "docs/guides/operator.md").read_text("utf-8")
    (block,) = re.findall(r"^<!-- privacy -->\n```json\n(.*?)^```$", guide, flags=re.M | re.S)
    mask = setup_of(bank(json.loads(block)["privacy"]), **{PRIVACY_KEY: KEY}).mask()
    masked = mask("STF-12345, S1234567D, 6123 4567, +65 6123 4568, desk@bank.example, ana@mail.example")
    kinds = re.sub(r" [0-9a-f]{12}\]", "]", masked)
    assert kinds == "[STAFF], [ID], 6123 4567, [PHONE], desk@bank.example, [EMAIL]"


def doctor(folder, monkeypatch, *options):
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(folder / "data"))
    monkeypatch.delenv(PRIVACY_KEY, raising=False)
    return CliRunner().invoke(main, ["doctor", "--config-dir", str(folder), "--no-query", *options])


def test_a_domains_mask_holds_for_functions_and_dicts_of_that_domain_too(bank, monkeypatch):
    monkeypatch.setenv("CONTEXT_ENGINE_CONFIG_DIR", str(bank({}, {"mask_contexts": True})))
    given = [{"content": f"The card is {CARD}.", "source_type": "bank_sop"}]
    with create_rag_pipeline() as pipeline:
        asked = pipeline["retrieve"]("the card", domain="NPA", options={"adapter": lambda *_: given})
        ranked = pipeline["rerank"]("the card", [{**given[0], "domain": "NPA"}])
        for chunks in (asked, ranked):
            assert CARD in chunks[0]["content"]
            with pytest.raises(InvalidRequest, match=r"mask=pipeline\.mask"):
                build_context_block(chunks)
            assert "[CARD " in build_context_block(chunks, mask=pipeline.mask)
        other = pipeline["retrieve"]("the card", domain="ORM", options={"adapter": lambda *_: given})
        assert CARD in build_context_block(other)


@pytest.mark.wording
def test_doctor_says_where_it_is_on_and_what_is_missing(bank, monkeypatch):
    said = " ".join(doctor(bank(), monkeypatch).output.split())
    assert "personal data is not masked" in said
    folder = bank({}, {"mask_contexts": True, "mask_stored_queries": True})
    said = " ".join(doctor(folder, monkeypatch).output.split())
    assert "is masked in contexts of NPA; stored questions of NPA; a random key for each process" in said
    without_extra(monkeypatch)
    result = doctor(folder, monkeypatch, "--json")
    published = json.loads(result.output[result.output.index("{") :])
    assert result.exit_code == 1 and published["ok"] is False
    assert published["privacy"]["contexts"] == ["NPA"] and "[privacy]" in published["privacy"]["problem"]
