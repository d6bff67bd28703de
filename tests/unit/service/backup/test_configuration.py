"""Which files are the configuration, and which of them hold a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine import secrecy
from context_engine.errors import BackupError
from context_engine.secrecy import keep_secret
from context_engine.service.backup.taking import configuration_files, holds_secret
from context_engine.settings import find_config


@pytest.fixture(autouse=True)
def no_known_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that other tests registered may be parts of these texts."""
    monkeypatch.setattr(secrecy, "_KEYS", type(secrecy._KEYS)())


@pytest.mark.parametrize(
    "text",
    [
        "dify: {base_url: 'https://dify.bank.example/v1', api_key: ${DIFY_KEY}}",
        "dify:\n  api_key: ${file:/run/secrets/dify}\n  client_secret: '${SECRET}'\n  proxy: ''",
        'dify:\n  # api_key: "${KEY}"\n  # proxy: http://proxy.bank.example:3128\n  api_key: null',
        "dify: {api_key: ~, client_secret: , user: reader}",
        "dify: {proxy: 'http://${PROXY_USER}:${PROXY_PASSWORD}@proxy.bank.example'}",
        "dify: {api_key_header: api-key}",
        "",
    ],
)
def test_names_of_variables_and_files_are_no_secret(tmp_path: Path, text: str) -> None:
    assert not holds_secret(written(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "dify: {api_key: hunter2}",
        "dify:\n  api_key: 'a fictitious key'",
        '{"dify": {"client_secret": "abc"}}',
        "dify:\n  # api_key: retired-key-of-last-year\n  api_key: ${KEY}",
        "dify:\n  api_key: |\n    key-in-a-block",
        "dify:\n  proxy: http://reader:hunter2@proxy.bank.example",
        "dify: {proxy: http://${USER}:hunter2@proxy.bank.example}",
        "dify:\n  api_key: &key hunter2",
    ],
)
def test_a_key_in_plain_text_is_found_also_in_a_comment(tmp_path: Path, text: str) -> None:
    assert holds_secret(written(tmp_path, text))


def test_a_known_key_is_found_anywhere(tmp_path: Path) -> None:
    keep_secret("fictitious-key-of-this-very-test")
    assert holds_secret(written(tmp_path, "note: do not use fictitious-key-of-this-very-test again"))


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "connections.yaml"
    file.write_bytes(b"\xff")
    with pytest.raises(BackupError, match=r"connections\.yaml cannot be read: no UTF-8"):
        holds_secret(file)


def test_the_files_that_are_read_and_no_others(tmp_path: Path) -> None:
    names = ["config/rag-pipeline.json", "config/judgements.jsonl", "manifests/a.yaml", "manifests/stages/uat.yaml"]
    ignored = ["config/client.key", "config/.env", "manifests/b.example.yaml", "manifests/deploy/compose.yaml"]
    for name in [*names, *ignored, "manifests/.context-engine-id"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("domain: A\n")
    paths = find_config(tmp_path, env={}, cwd=tmp_path)
    files = dict(configuration_files(paths))
    assert files == {name: tmp_path / name for name in [*names, "manifests/.context-engine-id"]}


def written(folder: Path, text: str) -> Path:
    file = folder / "connections.yaml"
    file.write_text(text)
    return file
