"""What the driver is told for a connection, and what a manifest may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg")

from context_engine.adapters.sources.postgres import check_postgres
from context_engine.adapters.sources.postgres.connection import parameters
from context_engine.core.models import SourceSpec
from context_engine.errors import ConfigError
from context_engine.settings.connections import Connection


def connection(url: str = "postgresql://db1.bank.example/knowledge", **fields: Any) -> Connection:
    return Connection(base_url=url, user="reader", api_key="a-password-of-nobody", **fields)


def test_user_password_and_database_are_passed() -> None:
    found = parameters(connection(), write=False, read_from="primary")
    assert (found["host"], found["port"], found["dbname"]) == ("db1.bank.example", "5432", "knowledge")
    assert (found["user"], found["password"]) == ("reader", "a-password-of-nobody")


@pytest.mark.parametrize(
    ("url", "fields", "mode"),
    [
        ("postgresql://db1.bank.example/knowledge", {}, "require"),
        ("postgresql://db1.bank.example/knowledge", {"ca_bundle": Path("ca.pem")}, "verify-full"),
        ("postgresql://127.0.0.1/knowledge", {}, "prefer"),
        ("postgresql://[::1]:5433/knowledge", {}, "prefer"),
        ("postgresql://localhost,db1.bank.example/knowledge", {}, "require"),
    ],
)
def test_another_machine_is_asked_over_tls(url: str, fields: Any, mode: str) -> None:
    assert parameters(connection(url, **fields), write=False, read_from="primary")["sslmode"] == mode


def test_a_certificate_holds_its_key_unless_another_file_does() -> None:
    found = parameters(connection(client_certificate=Path("c.pem")), write=False, read_from="primary")
    assert (found["sslcert"], found["sslkey"]) == ("c.pem", "c.pem")


@pytest.mark.parametrize(
    ("write", "read_from", "session"),
    [(True, "standby", "read-write"), (False, "standby", "prefer-standby"), (False, "primary", "primary")],
)
def test_of_several_hosts_the_right_one_is_asked(write: bool, read_from: Any, session: str) -> None:
    two = connection("postgresql://db1.bank.example,db2.bank.example:5433/knowledge")
    found = parameters(two, write=write, read_from=read_from)
    assert (found["host"], found["port"]) == ("db1.bank.example,db2.bank.example", "5432,5433")
    assert found["target_session_attrs"] == session


def test_another_server_is_refused() -> None:
    with pytest.raises(ConfigError, match="postgresql://HOST"):
        parameters(Connection(base_url="https://db1.bank.example"), write=False, read_from="primary")


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"connection": None}, "sources.notes.connection"),
        ({"dataset_ids": ("1",)}, "sources.notes.dataset_ids"),
        ({"settings": {"schema_name": "Not A Name"}}, "sources.notes.settings.schema_name"),
        ({"settings": {"shema_name": "notes"}}, "sources.notes.settings.shema_name"),
        ({"settings": {"read_from": "anywhere"}}, "sources.notes.settings.read_from"),
    ],
)
def test_what_a_source_may_not_say_is_refused_with_its_key(fields: Any, key: str) -> None:
    spec = SourceSpec(**{"id": "notes", "type": "bank_sop", "adapter": "postgres", "connection": "pg", **fields})
    with pytest.raises(ConfigError) as caught:
        check_postgres(spec)
    assert caught.value.key == key
