"""The adapter without its extra, and what its connection and settings may say."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("neo4j")

from neo4j.exceptions import ClientError, ServiceUnavailable, TransientError

from context_engine.adapters.sources.neo4j import check_neo4j, open_neo4j
from context_engine.adapters.sources.neo4j.server import GraphServer, failures
from context_engine.core.models import SourceSpec
from context_engine.errors import (
    ConfigError,
    MissingExtra,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceTimeout,
    SourceUnavailable,
)
from context_engine.settings.connections import Connection
from tests.certificate import write_certificate
from tests.engines.neo4j.conftest import Store

STORE = Store("bolt://127.0.0.1:1")


def test_without_the_driver_a_source_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "neo4j", None)
    with pytest.raises(MissingExtra, match=r"dify-context-engine\[neo4j\]"):
        open_neo4j(STORE.spec(), STORE.context())
    with pytest.raises(MissingExtra), STORE.sink():
        pass


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"connection": None}, "sources.notes.connection"),
        ({"settings": {"store_name": "Bank!"}}, "sources.notes.settings.store_name"),
        ({"settings": {"store_name": "bank_1"}}, "sources.notes.settings.store_name"),
        ({"settings": {"bulk_rows": 0}}, "sources.notes.settings.bulk_rows"),
        ({"settings": {"shards": 2}}, "sources.notes.settings.shards"),
    ],
)
def test_an_unusable_setting_is_named(fields: dict[str, Any], key: str) -> None:
    spec = SourceSpec(**{"id": "notes", "type": "bank_sop", "adapter": "neo4j", "connection": "graph", **fields})
    with pytest.raises(ConfigError) as caught:
        check_neo4j(spec)
    assert caught.value.key == key


def test_sources_of_several_stores_are_not_written_together() -> None:
    other = STORE.spec("other").model_copy(update={"settings": {"store_name": "another"}})
    with pytest.raises(ConfigError, match="--source"), STORE.sink(STORE.spec(), other):
        pass


@pytest.mark.parametrize("url", ["neo4j://graph.bank.example:7687", "bolt+s://127.0.0.1:7687", "neo4j+s://[::1]"])
def test_addresses_of_servers(url: str) -> None:
    assert Connection(base_url=url).base_url == url


@pytest.mark.parametrize("url", ["bolt://", "bolt://host/base", "neo4j://user@host:7687", "neo4j+ssc://host"])
def test_what_is_no_address_of_a_server(url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        Connection(base_url=url)


def test_a_connection_to_another_kind_of_server_is_refused() -> None:
    server = GraphServer(lambda: Connection(base_url="https://graph.bank.example"), None)
    with pytest.raises(ConfigError, match="neo4j://HOST:PORT"), server.reading(1.0):
        pass


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("Neo.ClientError.Security.Forbidden", SourceForbidden, False),
        ("Neo.ClientError.Database.DatabaseNotFound", SourceNotFound, False),
        ("Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration", SourceTimeout, True),
        ("Neo.ClientError.Procedure.ProcedureCallFailed", SourceUnavailable, False),
        ("Neo.ClientError.Statement.SyntaxError", SourceUnavailable, False),
    ],
)
def test_codes_of_the_server_are_errors_of_the_right_kind(code: str, kind: type[SourceError], retryable: bool) -> None:
    error = ClientError("host graph7.bank.example refused")
    error._neo4j_code = code
    with pytest.raises(kind) as caught, failures():
        raise error
    assert caught.value.retryable is retryable and "graph7" not in str(caught.value)


def test_a_server_that_is_gone_or_short_of_memory_may_be_asked_again() -> None:
    short = TransientError("too much")
    short._neo4j_code = "Neo.TransientError.General.MemoryPoolOutOfMemoryError"
    for error in (short, ServiceUnavailable("gone")):
        with pytest.raises(SourceUnavailable) as caught, failures():
            raise error
        assert caught.value.retryable


@pytest.fixture
def encrypted(own_ca: tuple[Path, ssl.SSLContext]) -> Iterator[int]:
    """The port of a server that speaks TLS and nothing else; its authority is `ca.pem`."""

    class Silent(BaseRequestHandler):
        def handle(self) -> None:
            try:
                own_ca[1].wrap_socket(self.request, server_side=True).close()
            except OSError:
                pass

    with ThreadingTCPServer(("127.0.0.1", 0), Silent) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "host", "bundle", "trusted"),
    [
        ("bolt+s", "127.0.0.1", "ca.pem", True),
        ("bolt", "127.0.0.1", "ca.pem", True),
        ("bolt+s", "127.0.0.1", "other.pem", False),
        ("bolt", "127.0.0.1", "other.pem", False),
        ("bolt+s", "127.0.0.1", None, False),
        ("bolt+s", "localhost", "ca.pem", False),
    ],
)
def test_a_certificate_that_is_not_trusted_is_named(
    encrypted: int, tmp_path: Path, scheme: str, host: str, bundle: str | None, trusted: bool
) -> None:
    write_certificate(tmp_path / "other.pem", tmp_path / "other.key")
    url, file = f"{scheme}://{host}:{encrypted}", bundle and tmp_path / bundle
    server = GraphServer(lambda: Connection(base_url=url, api_key="a-key-of-nobody", ca_bundle=file), None)
    with pytest.raises(SourceUnavailable) as caught, server.reading(5.0) as transaction:
        transaction.rows("RETURN 1")
    server.close()
    assert caught.value.retryable is trusted and ("certificate" not in str(caught.value)) is trusted


def test_a_file_that_holds_no_certificate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("not a certificate")
    connection = Connection(base_url="bolt+s://127.0.0.1:1", ca_bundle=tmp_path / "ca.pem")
    server = GraphServer(lambda: connection, None)
    with pytest.raises(ConfigError, match="a certificate file"), server.reading(5.0):
        pass
