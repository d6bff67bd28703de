from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import ConfigError, MissingVariable
from context_engine.settings import ConfigPaths, Connections, load_config
from context_engine.settings.connections import read_connections, read_fields
from context_engine.settings.files import Interpolator

Write = Callable[[Mapping[str, Any]], ConfigPaths]
URL = "https://dify.bank.example/v1"


def connections(write: Write, text: str, stage: str | None = None, **env: str) -> Connections:
    return load_config(write({"config/connections.yaml": text}), env=env, stage=stage).connections


def test_a_connection_and_its_defaults(write: Write) -> None:
    found = connections(write, f"dify: {{base_url: '{URL}/', api_key: '${{KEY}}'}}", KEY="app-s3cret").get("dify")
    assert found.base_url == URL
    assert found.api_key is not None and found.api_key.get_secret_value() == "app-s3cret"
    assert (found.max_connections, found.timeout_s, found.rate_per_minute, found.rate_share) == (4, 10.0, None, 1.0)


def test_no_secret_is_ever_shown(write: Write) -> None:
    text = f"d: {{base_url: '{URL}', api_key: app-s3cret, proxy: 'http://u:s3cret@proxy:3128'}}"
    found = connections(write, text)
    connection = found.get("d")
    assert connection.proxy is not None and connection.proxy.get_secret_value() == "http://u:s3cret@proxy:3128"
    for shown in (repr(connection), str(connection), str(connection.model_dump()), repr(found), str(found.shown("d"))):
        assert "s3cret" not in shown
    assert found.shown("d") == {"base_url": URL, "api_key": "********", "proxy": "********"}


@pytest.mark.parametrize(
    ("row", "key", "problem"),
    [
        ("{}", "d.base_url", "is required"),
        ("{base_url: 'ftp://s3cret'}", "d.base_url", "must be an http or https URL"),
        ("{base_url: 'https://'}", "d.base_url", "must be an http or https URL"),
        ("{base_url: 's3cret.example/v1'}", "d.base_url", "must be an http or https URL"),
        ("{base_url: 'https://h:s3cret'}", "d.base_url", "is not a URL"),
        ("{base_url: 'https://u:s3cret@h'}", "d.base_url", "must not hold a user name or password"),
        ("{base_url: 'https://h?key=s3cret'}", "d.base_url", "must not have a query"),
        (f"{{base_url: '{URL}', api_key: 12345}}", "d.api_key", "must be text"),
        (f"{{base_url: '{URL}', api_key: ''}}", "d.api_key", "must hold at least 1"),
        (f"{{base_url: '{URL}', proxy: 'socks5://s3cret'}}", "d.proxy", "must be an http or https URL"),
        (f"{{base_url: '{URL}', apikey: s3cret}}", "d.apikey", "unknown key. Did you mean 'api_key'?"),
        (f"{{base_url: '{URL}', max_connections: 0}}", "d.max_connections", "must be at least 1"),
        (f"{{base_url: '{URL}', max_connections: true}}", "d.max_connections", "must be a number, not true or false"),
        (f"{{base_url: '{URL}', timeout_s: 601}}", "d.timeout_s", "must be at most 600"),
        (f"{{base_url: '{URL}', timeout_s: .nan}}", "d.timeout_s", "must be"),
        (f"{{base_url: '{URL}', rate_share: 1.5}}", "d.rate_share", "must be at most 1"),
        (f"{{base_url: '{URL}', rate_per_minute: many}}", "d.rate_per_minute", "must be a whole number"),
        (f"{{base_url: '{URL}', client_key: k.pem}}", "d", "client_key needs client_certificate"),
        (f"{{base_url: '{URL}', ca_bundle: none.pem}}", "d.ca_bundle", "there is no file"),
        ("s3cret", "d", "must be a mapping with at least base_url"),
    ],
)
def test_a_connection_that_cannot_be_used(write: Write, row: str, key: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        connections(write, f"d: {row}")
    assert (raised.value.file, raised.value.key) == ("config/connections.yaml", key)
    assert problem in str(raised.value) and "s3cret" not in str(raised.value)


def test_a_missing_variable_fails_only_the_connection_that_uses_it(write: Write) -> None:
    found = connections(write, f"a: {{base_url: '{URL}'}}\nb: {{base_url: '{URL}', api_key: '${{NONE}}'}}")
    assert found.names == ("a", "b") and found.get("a").base_url == URL
    with pytest.raises(MissingVariable, match=r"config/connections.yaml: b.api_key: the variable NONE is not set"):
        found.get("b")
    assert [problem.key for problem in found.problems()] == ["b.api_key"]


def test_an_unknown_connection_names_the_nearest(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"unknown connection 'difi'\. Did you mean 'dify'"):
        connections(write, f"dify: {{base_url: '{URL}'}}").get("difi")
    with pytest.raises(ConfigError, match=r"unknown connection 'x'\. None is configured"):
        Connections().get("x")


def test_keys_rotate_without_a_restart(write: Write, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    secret = tmp_path / "config/key"
    secret.write_text("old\n")
    found = connections(write, f"d: {{base_url: '{URL}', api_key: '${{file:key}}'}}")
    first = found.get("d").api_key
    secret.write_text("new\n")
    second = found.get("d").api_key
    assert first is not None and second is not None
    assert (first.get_secret_value(), second.get_secret_value()) == ("old", "new")


def test_certificate_files_are_found_beside_the_file_that_names_them(write: Write, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/ca.pem").write_text("x")
    assert (
        connections(write, f"d: {{base_url: '{URL}', ca_bundle: ca.pem}}").get("d").ca_bundle
        == tmp_path / "config/ca.pem"
    )


@pytest.mark.parametrize("host", ["dify.bank.example", "127.0.0.1.bank.example", "10.0.0.7:5001"])
def test_a_key_over_plain_http_is_a_warning(write: Write, host: str) -> None:
    paths = write({"config/connections.yaml": f"d: {{base_url: 'http://{host}', api_key: k}}"})
    (notice,) = load_config(paths, env={}).notices
    assert (notice.code, notice.subject) == ("api_key_unencrypted", "connections.d")


@pytest.mark.parametrize(
    ("base", "tokens", "warned"), [("https", "http", 1), ("http", "https", 1), ("https", "https", 0)]
)
def test_a_client_secret_over_plain_http_is_a_warning(write: Write, base: str, tokens: str, warned: int) -> None:
    fields = f"base_url: '{base}://m.example', token_url: '{tokens}://t.example/token', client_id: c, client_secret: s"
    found = load_config(write({"config/connections.yaml": f"d: {{{fields}}}"}), env={}).notices
    assert [notice.code for notice in found] == ["api_key_unencrypted"] * warned


def test_a_client_secret_is_shown_masked(write: Write) -> None:
    fields = "base_url: 'https://m.example', token_url: 'https://t.example/token', client_id: c, client_secret: Harb0ur"
    found = connections(write, f"d: {{{fields}}}")
    assert "Harb0ur" not in repr(found.get("d")) + str(found.shown("d"))


@pytest.mark.parametrize("host", ["127.0.0.1:5001", "localhost", "[::1]:80"])
def test_a_key_that_never_leaves_the_machine_is_none(write: Write, host: str) -> None:
    paths = write({"config/connections.yaml": f"d: {{base_url: 'http://{host}/v1', api_key: k}}"})
    assert load_config(paths, env={}).notices == ()


def test_a_file_of_comments_holds_no_connection(write: Write) -> None:
    assert connections(write, "# d:\n#   base_url: x\n").names == ()


@pytest.mark.parametrize(
    ("key", "env", "problem"),
    [
        ("${K}", {"K": ""}, "d.api_key: ${K}: the variable is set, but empty: give it a value"),
        ("${K:-}", {}, "d.api_key: ${K:-}: the variable and its default are empty: give it a value"),
        ("${file:key}", {}, "d.api_key: ${file:key}: the file is there, but empty: put the value in it"),
    ],
)
def test_an_empty_key_says_where_it_came_from_and_fails_only_its_connection(
    write: Write, key: str, env: Mapping[str, str], problem: str
) -> None:
    paths = write({"config/key": "\n", "config/connections.yaml": f"d: {{base_url: '{URL}', api_key: '{key}'}}"})
    found = load_config(paths, env=env).connections
    with pytest.raises(MissingVariable) as raised:
        found.get("d")
    assert str(raised.value) == f"config/connections.yaml: {problem}"


def test_a_server_is_called_by_its_url_or_by_the_expression_of_its_url(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("a: {base_url: 'https://kb.example/v1'}\nb: {base_url: '${KB_URL}'}\n")
    connections = read_connections(tmp_path / "c.yaml", "c.yaml", {"KB_URL": "https://hidden.example/v1"})
    assert connections.get("a").shown_url == "https://kb.example/v1"
    assert connections.get("b").shown_url == "${KB_URL}"


def test_a_certificate_that_is_not_there_is_named_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("a: {base_url: 'https://kb.example/v1', ca_bundle: '${CA}'}\n")
    with pytest.raises(ConfigError, match=r"a\.ca_bundle: there is no file \$\{CA\}$"):
        read_connections(tmp_path / "c.yaml", "c.yaml", {"CA": "hidden.pem"})


def test_a_key_in_a_value_that_is_shown_is_masked(tmp_path: Path) -> None:
    fields = read_fields(
        {"a": {"base_url": "https://kb.example/dataset-4Kq9wLk3vT0pX77a"}}, Interpolator({}, tmp_path, "c.yaml")
    )
    assert Connections(fields).shown("a") == {"base_url": "https://kb.example/********"}


def test_connections_below_a_key_of_their_own_are_told_to_move_up(write: Write) -> None:
    with pytest.raises(ConfigError) as caught:
        connections(write, f"connections: {{dify: {{base_url: '{URL}'}}}}")
    assert caught.value.key == "connections"
    assert "at the top of the file" in caught.value.problem
    assert connections(write, f"connections: {{base_url: '{URL}'}}").get("connections").base_url == URL
