from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from context_engine.core.models import Classification, NoticeCode, SourceType, TrustClass
from context_engine.errors import ConfigError, MissingVariable, UnknownDomain
from context_engine.settings import find_config
from context_engine.settings.registry import LoadedRegistry, load_registry, read_registry

NPA = """
version: 1
domain: NPA
title: New Product Approval
timezone: Asia/Singapore
sources:
  - &sop
    id: npa_sops
    type: bank_sop
    ttl_seconds: ${TTL:-86400}
    connection: dify
    dataset_ids: ["${SOP_DATASET:-d-1}"]
    documents:
      - {include: "sops/*.md", doc_type: sop_document, fields: [owner, desk]}
  - <<: *sop
    id: npa_web
    type: general_web
    classification: public
settings:
  stage2_top_k: 5
  sources: [npa_sops]
"""
ONE = "version: 1\ndomain: {domain}\nsources:\n  - {{id: {source}, type: bank_sop{more}}}\n"


def one(domain: str, source: str = "s", more: str = "") -> str:
    return ONE.format(domain=domain, source=source, more=more)


def load(folder: Path, files: Mapping[str, str], **env: str) -> LoadedRegistry:
    (folder / "manifests").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / "manifests" / name).write_text(text, "utf-8")
    paths = find_config(folder, env={}, cwd=folder)
    return load_registry(paths, env=env, connections=["dify"], doc_types=["sop_document", "default"])


def test_a_manifest(tmp_path: Path) -> None:
    registry = load(tmp_path, {"npa.yaml": NPA})
    spec = registry.domain("NPA")
    sops, web = spec.sources
    assert (registry.names, dict(registry.files)) == (("NPA",), {"NPA": "manifests/npa.yaml"})
    assert (sops.type, sops.tier, sops.trust, sops.ttl_seconds) == (SourceType.BANK_SOP, 2, TrustClass.TRUSTED, 86400)
    assert (sops.dataset_ids, sops.documents[0].doc_type) == (("d-1",), "sop_document")
    assert sops.documents[0].fields == ("owner", "desk")
    assert (web.tier, web.trust, web.classification) == (5, TrustClass.UNTRUSTED, Classification.PUBLIC)
    assert spec.timezone == "Asia/Singapore"


def test_no_manifest_is_no_domain(tmp_path: Path) -> None:
    registry = load(tmp_path, {})
    assert registry.names == ()
    with pytest.raises(UnknownDomain, match="No domain is registered"):
        registry.domain("NPA")


def test_an_unknown_domain_lists_the_known_ones(tmp_path: Path) -> None:
    registry = load(tmp_path, {"a.yaml": one("NPA", "a"), "b.yml": one("ORM", "b")})
    with pytest.raises(UnknownDomain, match=r"unknown domain 'NPB'\. Registered: NPA, ORM\. Did you mean 'NPA'"):
        registry.domain("NPB")


def test_a_missing_variable_fails_only_its_domain_and_only_when_it_is_asked_for(tmp_path: Path) -> None:
    files = {"a.yaml": one("NPA", "a", ", ttl_seconds: '${NONE}'"), "b.yaml": one("ORM", "b")}
    registry = load(tmp_path, files)
    assert registry.names == ("NPA", "ORM") and registry.domain("ORM").domain == "ORM"
    for _ in range(2):
        with pytest.raises(MissingVariable) as raised:
            registry.domain("NPA")
    assert (raised.value.file, raised.value.key) == ("manifests/a.yaml", "sources.a.ttl_seconds")
    assert load(tmp_path, files, NONE="60").domain("NPA").sources[0].ttl_seconds == 60


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        ("", None, "is empty"),
        ("domain: NPA\n", "version", "is required"),
        (one("NPA").replace("version: 1", "version: 2"), "version", "must be one of 1, got 2"),
        ("version: 1\ndomain: NPA\nsources: []\n", "sources", "must hold at least 1, got an empty list"),
        ("version: 1\ndomain: NPA\nsources: a\n", "sources", "must be a list, got 'a'"),
        ("version: 1\ndomain: NPA\nsources: [a]\n", "sources.0", "must be a mapping of keys to values, got 'a'"),
        (one("'N P A'"), "domain", "must consist of letters"),
        (one("'${DOMAIN}'"), "domain", "must be written out"),
        (one("12"), "domain", "must be text, got 12 (put it in quotes)"),
        (one("NPA", "s", ", tittle: x"), "sources.s.tittle", "unknown key. Did you mean 'title'?"),
        (
            one("NPA", "s", ", documents: [{include: a, feilds: [desk]}]"),
            "sources.s.documents.0.feilds",
            "unknown key. Did you mean 'fields'?",
        ),
        (one("NPA") + "domian: X\n", "domian", "unknown key. Did you mean 'domain'?"),
        (one("NPA") + "access:\n", "access", "names nobody: give it roles, groups or a clearance, or remove it"),
        (one("NPA", "s", ", access: "), "sources.s.access", "names nobody"),
        (
            one("NPA", "s", ", access: {roles: []}, classification: SECRET"),
            "sources.s.classification",
            "must be one of",
        ),
        (one("NPA") + "access: {allow: [all]}\n", "access.allow", "this version does not enforce this key"),
        (
            one("NPA", "s", ", allowed_groups: [x]"),
            "sources.s.allowed_groups",
            "unknown key: to say who may search it, use 'access: {groups: [...]}'.",
        ),
        (one("NPA", "s", ", documents: [{include: x, acl: y}]"), "sources.s.documents.0.acl", "does not enforce"),
        (one("NPA", "s", ", documents: [{doc_type: default}]"), "sources.s.documents.0.include", "is required"),
        (
            one("NPA", "s", ", documents: [{include: x, doc_type: sop_documents}]"),
            "sources.s.documents.0.doc_type",
            "unknown document type 'sop_documents'. Did you mean 'sop_document'?",
        ),
        (one("NPA").replace("bank_sop", "bank_sops"), "sources.s.type", "Did you mean 'bank_sop'?"),
        (one("NPA", "s", ", tier: 1"), "sources.s", "type 'bank_sop' is tier 2, but tier 1 is given"),
        (one("NPA", "s", ", tier: 9"), "sources.s", "but tier 9 is given"),
        (one("NPA", "s", ", tier: 0"), "sources.s.tier", "must be a tier from 1 to 5, got 0"),
        (one("NPA", "s", ", tier: true"), "sources.s.tier", "must be a tier from 1 to 5, got True"),
        (one("NPA", "s", ", tier: two"), "sources.s.tier", "must be a whole number, got 'two'"),
        (one("NPA", "s", ", ttl_seconds: -1"), "sources.s.ttl_seconds", "must be at least 0, got -1"),
        (one("NPA", "s", ", ttl_seconds: true"), "sources.s.ttl_seconds", "must be a number, got True"),
        (one("NPA", "s", ", trust_class: trusted"), "sources.s.trust_class", "must be one of TRUSTED, UNTRUSTED"),
        (one("NPA", "s", ", dataset_ids: d-1"), "sources.s.dataset_ids", "must be a list, got 'd-1'"),
        (one("NPA", "s", ", dataset_ids: [012]"), "sources.s.dataset_ids.0", "must be text, got 10 (put it in quotes)"),
        (
            one("NPA", "s", ", connection: difi"),
            "sources.s.connection",
            "unknown connection 'difi'. Did you mean 'dify'?",
        ),
        (one("NPA", "-bad-"), "sources.-bad-.id", "must consist of letters"),
        (one("NPA") + "  - {id: s, type: general_web}\n", None, "source id 's' appears twice in domain 'NPA'"),
        (one("NPA") + "timezone: Mars/Olympus\n", "timezone", "unknown time zone 'Mars/Olympus'"),
        (one("NPA") + "settings: {min_chunk: 1}\n", "settings.min_chunk", "unknown key. Did you mean 'min_chunks'?"),
        (
            one("NPA") + "settings: {stage1_top_k: '5'}\n",
            "settings.stage1_top_k",
            "must be a whole number from 1 to 1000",
        ),
        (one("NPA") + "settings: {sources: [t]}\n", "settings.sources", "domain 'NPA' has no source 't'. Valid: s."),
        (one("NPA") + "settings: [1]\n", "settings", "must be a mapping of keys to values, got a list"),
        (one("NPA") + "domain: ORM\n", None, "the key 'domain' appears twice"),
    ],
)
def test_what_cannot_be_used_is_told_with_file_key_and_nearest_choice(
    tmp_path: Path, text: str, key: str | None, problem: str
) -> None:
    found = load(tmp_path, {"npa.yaml": text}).problems[0]
    assert (found.file, found.key) == ("manifests/npa.yaml", key)
    assert problem in str(found)


def test_two_files_that_declare_one_domain_are_both_named_and_neither_is_taken(tmp_path: Path) -> None:
    files = {"a.yaml": one("NPA", "a"), "b.yaml": one("NPA", "b"), "c.yaml": one("ORM", "c")}
    registry = load(tmp_path, files)
    assert [(found.file, found.key) for found in registry.problems] == [
        ("manifests/a.yaml", "domain"),
        ("manifests/b.yaml", "domain"),
    ]
    assert "is in manifests/b.yaml too" in str(registry.problems[0])
    assert "is in manifests/a.yaml too" in str(registry.problems[1])
    assert (tuple(registry.domains), registry.names) == (("ORM",), ("NPA", "ORM"))
    with pytest.raises(ConfigError, match=r"is in manifests/b\.yaml too"):
        registry.domain("NPA")


def test_a_source_may_serve_two_domains_if_it_is_the_same_in_both(tmp_path: Path) -> None:
    registry = load(tmp_path, {"a.yaml": one("NPA", "notices"), "b.yaml": one("ORM", "notices")})
    assert registry.domain("NPA").sources == registry.domain("ORM").sources
    (found,) = load(tmp_path, {"b.yaml": one("ORM", "notices", ", ttl_seconds: 1")}).problems
    assert "b.yaml: sources.notices: is in manifests/a.yaml too, with other values" in str(found)


@pytest.mark.parametrize("other", [", access: {roles: [desk]}", ", classification: RESTRICTED"])
def test_of_a_source_with_two_rules_neither_is_taken(tmp_path: Path, other: str) -> None:
    found = load(tmp_path, {"a.yaml": one("NPA", "notices"), "b.yaml": one("ORM", "notices", other)})
    assert (tuple(found.domains), sorted(found.broken)) == ((), ["NPA", "ORM"])
    assert [(one.file, one.key) for one in found.problems] == [
        ("manifests/a.yaml", "sources.notices"),
        ("manifests/b.yaml", "sources.notices"),
    ]
    assert "is in manifests/b.yaml too" in str(found.problems[0])


def test_reading_goes_on_after_a_problem(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    for name, text in {"a.yaml": "x", "b.yaml": one("NPA"), "c.yaml": one("ORM", "c", ", tier: 9, x: 1")}.items():
        (tmp_path / "manifests" / name).write_text(text)
    registry, of_stage = read_registry(find_config(tmp_path, env={}, cwd=tmp_path), env={})
    assert (tuple(registry.domains), registry.names, of_stage) == (("NPA",), ("NPA", "ORM"), [])
    assert [(problem.file, problem.key) for problem in registry.problems] == [
        ("manifests/a.yaml", None),
        ("manifests/c.yaml", "sources.c.x"),
    ]


def test_all_that_is_wrong_with_a_file_is_found_at_once(tmp_path: Path) -> None:
    text = """version: 1
domain: NPA
titel: New Products
sources:
  - {id: a, type: bank_sop, tier: true, ttl_seconds: '${TTL}'}
  - {id: b, type: bank_sops, connection: '${CONNECTION}', ttl: 5}
  - {type: general_web, documents: [{doc_type: sop_document}]}
"""
    problems = load(tmp_path, {"npa.yaml": text}).problems
    assert {found.key for found in problems} == {
        "titel",
        "sources.a.tier",
        "sources.a.ttl_seconds",
        "sources.b.type",
        "sources.b.connection",
        "sources.b.ttl",
        "sources.2.id",
        "sources.2.documents.0.include",
    }
    text = one("NPA", "a", ", connection: difi, documents: [{include: a, doc_type: sops}]") + "settings: {x: 1, y: 2}\n"
    assert {found.key for found in load(tmp_path, {"npa.yaml": text}).problems} == {
        "sources.a.connection",
        "sources.a.documents.0.doc_type",
        "settings.x",
        "settings.y",
    }


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("domain: NPA\nsources: [\n", "NPA"),
        ("version: 1\ndomain: 'NPA' # of products\n\tsources:\n", "NPA"),
        ("sources: [\n", None),
        ("domain: NPA\ndomain: DCE\nsources: [\n", None),
        ("domain: '${DOMAIN}'\nsources: []\n", None),
        ("domain: N P A\nsources: [\n", None),
        ("", None),
    ],
)
def test_a_manifest_that_cannot_be_read_leaves_the_other_domains_and_is_named(
    tmp_path: Path, text: str, domain: str | None
) -> None:
    registry = load(tmp_path, {"bad.yaml": text, "orm.yaml": one("ORM")})
    assert registry.domain("ORM").sources[0].id == "s"
    assert registry.names == (("NPA", "ORM") if domain else ("ORM",))
    assert [(one.code, one.subject, one.detail["domain"]) for one in registry.notices] == [
        (NoticeCode.MANIFEST_UNUSABLE, "manifests/bad.yaml", domain)
    ]
    with pytest.raises(ConfigError if domain else UnknownDomain, match=r"manifests/bad\.yaml"):
        registry.domain("NPA")


def test_where_the_only_manifest_cannot_be_read_nobody_says_that_there_is_no_domain(tmp_path: Path) -> None:
    with pytest.raises(UnknownDomain) as raised:
        load(tmp_path, {"npa.yaml": "sources: [\n"}).domain("NPA")
    assert "No domain is registered" not in str(raised.value)
    assert "A manifest that cannot be read may hold it: manifests/npa.yaml: is not valid YAML" in str(raised.value)


def test_an_error_that_is_kept_is_raised_afresh_each_time(tmp_path: Path) -> None:
    """The same one would carry the traceback of every search before."""
    registry = load(tmp_path, {"npa.yaml": one("NPA", "s", ", tier: 9")})
    raised = []
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            registry.domain("NPA")
        raised.append(caught.value)
    assert raised[0] is not raised[1]
    assert str(raised[0]) == str(raised[1])


def test_the_demo_s_manifests_can_be_used() -> None:
    import context_engine

    folder = Path(context_engine.__file__).parent / "demo"
    paths = find_config(folder, env={}, cwd=folder)
    assert load_registry(paths, env={}).names == ("DCE", "DESK", "NPA", "ORM")


SECRET = "Wq7-never-to-be-shown-7qW"


@pytest.mark.parametrize(
    "form", ["${OTHER_SECRET}", "x ${OTHER_SECRET:-y}", "${file:secret.txt}", "${file:/etc/hostname}"]
)
@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("title: {}", "title"),
        ("description: {}", "description"),
        ("glossary: {{NPA: {}}}", "glossary.NPA"),
        ("glossary: {{NPA: [a, {}]}}", "glossary.NPA.1"),
        ("sources: [{{id: a, type: bank_sop, title: {}}}]", "sources.a.title"),
        ("sources: [{{id: a, type: bank_sop, adapter: {}}}]", "sources.a.adapter"),
        ("sources: [{{id: a, type: bank_sop, documents: [{{include: {}}}]}}]", "sources.a.documents.0.include"),
    ],
)
def test_a_text_that_is_shown_takes_no_variable_and_no_file(tmp_path: Path, text: str, key: str, form: str) -> None:
    head = "version: 1\ndomain: NPA\n"
    if "sources" not in text:
        head += "sources: [{id: a, type: bank_sop}]\n"
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    (folder / "npa.yaml").write_text(head + text.format(f"'{form}'"))
    paths = find_config(tmp_path, env={}, cwd=tmp_path)
    (found,) = load_registry(paths, env={"OTHER_SECRET": SECRET}).problems
    assert found.key == key
    assert SECRET not in str(found)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("ttl_seconds: '${file:secret.txt}'", "sources.a.ttl_seconds"),
        ("dataset_ids: ['${file:secret.txt}']", "sources.a.dataset_ids.0"),
        ("settings: {k: '${file:secret.txt}'}", "sources.a.settings.k"),
    ],
)
def test_no_value_of_a_manifest_is_read_from_a_file(tmp_path: Path, text: str, key: str) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "npa.yaml").write_text(f"version: 1\ndomain: NPA\nsources: [{{id: a, type: bank_sop, {text}}}]\n")
    (found,) = load_registry(find_config(tmp_path, env={}, cwd=tmp_path), env={}).problems
    assert "a file can be read in connections only" in str(found)
    assert found.key == key


@pytest.mark.parametrize(
    "text",
    [
        "connection: '${OTHER_SECRET}'",
        "type: bank_sop, tier: '${OTHER_SECRET}'",
        "type: '${OTHER_SECRET}'",
        "classification: '${OTHER_SECRET}'",
        "timeout_s: '${OTHER_SECRET}'",
    ],
)
def test_an_error_shows_the_expression_of_a_value_never_the_value(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    kind = "" if "type:" in text else "type: bank_sop, "
    (folder / "npa.yaml").write_text(f"version: 1\ndomain: NPA\nsources: [{{id: a, {kind}{text}}}]\n")
    (found,) = load_registry(find_config(tmp_path, env={}, cwd=tmp_path), env={"OTHER_SECRET": SECRET}).problems
    assert SECRET not in str(found)
    assert "${" in str(found)


def test_nor_does_that_of_a_time_zone(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "npa.yaml").write_text(
        "version: 1\ndomain: NPA\ntimezone: '${OTHER_SECRET}'\nsources: [{id: a, type: bank_sop}]\n"
    )
    (found,) = load_registry(find_config(tmp_path, env={}, cwd=tmp_path), env={"OTHER_SECRET": SECRET}).problems
    assert "unknown time zone '${OTHER_SECRET}'" in str(found)


def test_a_literal_dollar_brace_may_stand_in_a_title(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "npa.yaml").write_text(
        "version: 1\ndomain: NPA\ntitle: 'Costs $${100}'\nsources: [{id: a, type: bank_sop}]\n"
    )
    registry = load_registry(find_config(tmp_path, env={}, cwd=tmp_path), env={})
    assert registry.domain("NPA").title == "Costs ${100}"
