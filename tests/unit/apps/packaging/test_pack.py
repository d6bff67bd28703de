"""What a package holds, that it is the same bytes every time, and what it refuses."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from context_engine.apps.packaging import PackOptions, check, pack
from context_engine.apps.packaging.files import checksum, read_package, write_archive
from context_engine.apps.packaging.pack import BrokenPlugin
from context_engine.errors import ConfigError

Tree = Callable[[Path, dict[str, str]], Path]

UAT, PROD = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff", "7f9619ff-8b86-4d01-b42d-00cf4fc964ff"
SOURCE = "{id: npa_sops, type: bank_sop, adapter: dify, connection: dify, dataset_ids: [" + UAT + "]}"
BANK = {
    "config/rag-pipeline.json": '{"//": "a comment", "stage2_top_k": 5}',
    "config/connections.yaml": "dify: {base_url: 'https://dify.example/v1', api_key: '${DIFY_KEY}'}\n",
    "manifests/npa.yaml": f"version: 1\ndomain: NPA\nsources: [{SOURCE}]\n",
    "manifests/orm.example.yaml": "never read",
    "manifests/stages/prod.yaml": (
        f"connections: {{dify: {{base_url: 'https://prod.example/v1'}}}}\ndataset_ids: {{npa_sops: [{PROD}]}}\n"
    ),
}


@pytest.fixture
def bank(tmp_path: Path, write_tree: Tree) -> Path:
    return write_tree(tmp_path / "bank", BANK)


def baked(bank: Path, stage: str | None = None) -> PackOptions:
    return PackOptions(config=bank / "config", manifests=bank / "manifests", stage=stage)


def test_a_package_holds_the_plugin_and_the_engine_without_tests_and_caches(plugin_dir: Path, tmp_path: Path) -> None:
    (plugin_dir / "debug.log").write_text("left out")
    (plugin_dir / "drafts").mkdir()
    (plugin_dir / "drafts/a.md").write_text("left out")
    packed = pack(plugin_dir, tmp_path / "dist", env={})
    assert packed.path == tmp_path / "dist/context_engine-0.1.0.difypkg"
    assert list(read_package(packed.path)) == [
        ".difyignore",
        "PRIVACY.md",
        "README.md",
        "_assets/icon-dark.svg",
        "_assets/icon.svg",
        "context_engine/__init__.py",
        "context_engine/demo/bank/npa.md",
        "context_engine/local.py",
        "dify_context_engine-0.1.0.dist-info/METADATA",
        "dify_context_engine-0.1.0.dist-info/entry_points.txt",
        "endpoints/retrieval.py",
        "endpoints/retrieval.yaml",
        "group/retrieval.yaml",
        "main.py",
        "manifest.yaml",
        "provider/context_engine.py",
        "provider/context_engine.yaml",
        "readme/README_zh_Hans.md",
        "requirements.txt",
        "tools/search.py",
        "tools/search.yaml",
    ]


def test_the_manifest_is_carried_byte_for_byte(plugin_dir: Path, tmp_path: Path) -> None:
    packed = pack(plugin_dir, tmp_path, env={})
    assert packed.files["manifest.yaml"] == (plugin_dir / "manifest.yaml").read_bytes()
    assert b"2026-01-31T09:00:00+08:00" in packed.files["manifest.yaml"]


def test_entries_are_deflated_sorted_and_of_one_date(plugin_dir: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(pack(plugin_dir, tmp_path, env={}).path) as archive:
        entries = archive.infolist()
    assert [entry.filename for entry in entries] == sorted(entry.filename for entry in entries)
    assert {entry.compress_type for entry in entries} == {zipfile.ZIP_DEFLATED}
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {entry.external_attr >> 16 for entry in entries} == {0o100644}


def test_two_packs_are_the_same_bytes(plugin_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pack(plugin_dir, tmp_path / "one", env={}).path.read_bytes()
    for path in plugin_dir.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    (plugin_dir / "tools/__pycache__").mkdir()
    (plugin_dir / "tools/__pycache__/search.cpython-312.pyc").write_bytes(b"x")
    monkeypatch.chdir(plugin_dir.parent)
    assert pack(Path("dify_plugin"), tmp_path / "two", env={}).path.read_bytes() == first
    monkeypatch.chdir(plugin_dir)
    assert pack(Path(), tmp_path / "three", env={}).path.read_bytes() == first


def test_the_checksum_is_over_the_digests_of_paths_and_contents_sorted_by_path() -> None:
    parts = (b"a.py", b"x = 1\n", b"b/c.txt", b"")
    expected = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
    assert checksum({"b/c.txt": b"", "a.py": b"x = 1\n"}) == expected
    assert checksum({"a.py": b"", "b/c.txt": b"x = 1\n"}) != expected


def test_the_identifier_is_author_name_version_and_checksum(plugin_dir: Path, tmp_path: Path) -> None:
    packed = pack(plugin_dir, tmp_path, env={})
    assert packed.identifier == f"meridian-harbour/context_engine:0.1.0@{checksum(packed.files)}"


def test_a_package_passes_the_check_it_was_packed_under(plugin_dir: Path, tmp_path: Path) -> None:
    assert check(pack(plugin_dir, tmp_path, env={}).path).ok


def test_a_plugin_that_breaks_a_rule_is_not_packed(plugin_dir: Path, tmp_path: Path) -> None:
    (plugin_dir / "README.md").unlink()
    with pytest.raises(BrokenPlugin, match=r"README\.md: is missing") as caught:
        pack(plugin_dir, tmp_path / "dist", env={})
    assert [one.rule for one in caught.value.findings] == ["file"]
    assert not (tmp_path / "dist").exists()


@pytest.mark.parametrize("name", [".env.prod", "signing.key", "bank.p12", "id_rsa", "sub/.netrc", "prod.env"])
def test_what_must_never_ship_is_refused(plugin_dir: Path, tmp_path: Path, name: str) -> None:
    (plugin_dir / name).parent.mkdir(exist_ok=True)
    (plugin_dir / name).write_text("x")
    with pytest.raises(ConfigError, match=f"{name}: must never ship"):
        pack(plugin_dir, tmp_path, env={})


def test_what_the_ignore_file_leaves_out_is_not_refused(plugin_dir: Path, tmp_path: Path) -> None:
    (plugin_dir / ".env").write_text("INSTALL_METHOD=remote\n")
    assert ".env" not in pack(plugin_dir, tmp_path, env={}).files


def test_a_certificate_ships_and_a_key_does_not(plugin_dir: Path, tmp_path: Path) -> None:
    (plugin_dir / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIFazCCA1OgAwIBAgIRAIIQ\n")
    assert "ca.pem" in pack(plugin_dir, tmp_path, env={}).files
    (plugin_dir / "ca.pem").write_text("-----BEGIN PRIVATE KEY-----\nMIIFazCCA1OgAwIBAgIRAIIQ\n")
    with pytest.raises(ConfigError, match=r"ca\.pem: must never ship: it holds a private key"):
        pack(plugin_dir, tmp_path, env={})


def test_a_link_is_refused(plugin_dir: Path, tmp_path: Path) -> None:
    (plugin_dir / "notes.txt").symlink_to("/etc/hostname")
    with pytest.raises(ConfigError, match="is a link"):
        pack(plugin_dir, tmp_path, env={})


def test_outside_a_checkout_the_message_says_where_to_run_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="run this in the checkout's root"):
        pack(tmp_path / "dify_plugin", tmp_path, env={})


def test_configuration_is_baked_in_with_its_stage(plugin_dir: Path, tmp_path: Path, bank: Path) -> None:
    files = pack(plugin_dir, tmp_path, baked(bank, "prod"), env={}).files
    assert json.loads(files["config/rag-pipeline.json"]) == {"stage2_top_k": 5}
    assert b"https://prod.example/v1" in files["config/connections.yaml"]
    assert b"${DIFY_KEY}" in files["config/connections.yaml"]
    assert f"- {PROD}\n".encode() in files["manifests/npa.yaml"]
    assert {path for path in files if path.startswith("manifests/")} == {"manifests/npa.yaml"}


def test_without_a_stage_the_manifest_says_its_own_datasets(plugin_dir: Path, tmp_path: Path, bank: Path) -> None:
    files = pack(plugin_dir, tmp_path, baked(bank), env={}).files
    assert f"- {UAT}\n".encode() in files["manifests/npa.yaml"]


@pytest.mark.parametrize(
    ("file", "text", "key"),
    [
        ("config/connections.yaml", "dify: {base_url: 'https://d.example', api_key: 12ab34cd}", "dify.api_key"),
        ("config/connections.yaml", "dify: {base_url: 'https://d.example', api_key: '${K:-abc}'}", "dify.api_key"),
        ("config/connections.yaml", "dify: {base_url: 'https://d.example', api_key: 'x${K}'}", "dify.api_key"),
        ("config/connections.yaml", "dify: {base_url: 'https://d.example', proxy: 'http://u:pw@p:1'}", "dify.proxy"),
        ("manifests/npa.yaml", "version: 1\ndomain: NPA\ntitle: dataset-AbCdEf0123456789\nsources: []", "title"),
        ("manifests/npa.yaml", "version: 1\ndomain: NPA\nsources: [{id: a, settings: {password: x}}]", "password"),
        ("manifests/stages/prod.yaml", "connections: {dify: {api_key: secret}}", "dify.api_key"),
    ],
)
def test_a_secret_is_never_baked_in(
    plugin_dir: Path, tmp_path: Path, bank: Path, file: str, text: str, key: str
) -> None:
    (bank / file).write_text(text)
    with pytest.raises(ConfigError, match="holds a secret") as caught:
        pack(plugin_dir, tmp_path / "dist", baked(bank, "prod"), env={})
    assert (caught.value.key or "").endswith(key)
    assert not (tmp_path / "dist").exists()


def test_a_configuration_that_the_plugin_could_not_use_is_refused(plugin_dir: Path, tmp_path: Path, bank: Path) -> None:
    (bank / "manifests/npa.yaml").write_text(BANK["manifests/npa.yaml"].replace("bank_sop", "bank_sopp"))
    with pytest.raises(ConfigError, match=r"npa\.yaml: sources\.npa_sops\.type"):
        pack(plugin_dir, tmp_path, baked(bank), env={})


def test_a_certificate_path_is_noted_not_refused(plugin_dir: Path, tmp_path: Path, bank: Path) -> None:
    text = "dify: {base_url: 'https://d.example', ca_bundle: /etc/ssl/bank.pem}"
    (bank / "config/connections.yaml").write_text(text)
    packed = pack(plugin_dir, tmp_path, baked(bank), env={})
    (notice,) = packed.notices
    assert (notice.code, notice.subject) == ("file_needed", "dify.ca_bundle")
    assert notice.detail == {"path": "/etc/ssl/bank.pem"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (PackOptions(config=Path("none")), "there is no folder none"),
        (PackOptions(manifests=Path("none")), "there is no folder none"),
    ],
)
def test_a_folder_that_is_not_there_is_named(plugin_dir: Path, tmp_path: Path, options: PackOptions, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        pack(plugin_dir, tmp_path, options, env={})


def test_baked_in_files_do_not_overwrite_the_plugins(plugin_dir: Path, tmp_path: Path, bank: Path) -> None:
    (plugin_dir / "manifests").mkdir()
    (plugin_dir / "manifests/npa.yaml").write_text("x")
    with pytest.raises(ConfigError, match="would be overwritten"):
        pack(plugin_dir, tmp_path, baked(bank), env={})


def test_an_archive_with_unsafe_paths_is_refused(tmp_path: Path) -> None:
    for name in ("../a.py", "/a.py", "a\\b.py"):
        (tmp_path / "x.difypkg").write_bytes(write_archive({name: b"x"}))
        with pytest.raises(ConfigError, match="leaves the package"):
            read_package(tmp_path / "x.difypkg")


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.difypkg").write_bytes(b"not a zip")
    with pytest.raises(ConfigError, match="is not a plugin package"):
        check(tmp_path / "x.difypkg")


def test_nothing_is_left_behind_where_writing_fails(plugin_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "dist").write_text("a file, not a folder")
    with pytest.raises(ConfigError, match="cannot be written"):
        pack(plugin_dir, tmp_path / "dist", env={})


def test_an_archive_reads_back_as_its_files() -> None:
    files = {"b.txt": b"b" * 1000, "a/é.txt": b""}
    with zipfile.ZipFile(io.BytesIO(write_archive(files))) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == files
        assert archive.namelist() == ["a/é.txt", "b.txt"]


def test_what_an_extra_needs_is_required_where_it_is_asked_for(plugin_dir: Path, tmp_path: Path) -> None:
    def requirements(name: str, *extras: str) -> list[str]:
        packed = pack(plugin_dir, tmp_path / name, PackOptions(extras=extras), env={})
        metadata = packed.files["dify_context_engine-0.1.0.dist-info/METADATA"].decode()
        assert ("Requires-Dist: SQLAlchemy>=2.0.36,<3" in metadata) is ("audit" in extras)
        return packed.files["requirements.txt"].decode().splitlines()

    plain = requirements("plain")
    assert requirements("audit", "audit") == [*plain, "SQLAlchemy<3,>=2.0.36"]
    assert requirements("both", "documents", "audit") == [*plain, "lxml<8,>=5.3", "SQLAlchemy<3,>=2.0.36"]
    usual = pack(plugin_dir, tmp_path / "usual", env={}).files["requirements.txt"].decode().splitlines()
    assert usual == [*plain, "lxml<8,>=5.3"]
