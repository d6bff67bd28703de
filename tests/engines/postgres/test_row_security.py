"""The second wall: a role that searches sees only the classes that its transaction names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from context_engine.adapters.sources.postgres.schema import read_state
from context_engine.core.models import AccessRule, AccessScope, Chunk, ExaminationRequest, SourceQuery
from context_engine.errors import ConfigError
from tests.postgresql_store import Store

pytestmark = pytest.mark.slow
ROLE, PASSWORD = "searcher", "not-a-secret-of-anybody"
GUARDED = ("documents", "chunks", "words", "words_1", "words_2", "terms")


@pytest.fixture(scope="session")  # a role is made once for each server
def walled(plain_server: Any) -> Iterator[Store]:
    """A store with an open and a closed source, whose searches come from a role of their own."""
    plain_server.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
    store = Store(plain_server.dsn("postgres"))
    store.own["search_role"] = ROLE
    with store.sink(*specs(store), rules_of=rules_of) as sink:
        sink.put("notes", "a", "", "1", [Chunk(content="The approval limit is public.")])
        sink.put("board", "b", "", "1", [Chunk(content="The approval limit of the board is secret.")])
    yield store


def specs(store: Store) -> list[Any]:
    return [store.spec(), store.spec("board", access=AccessRule(roles=("board",)))]


def rules_of(name: str) -> str:
    return "board" if name == "board" else ""


def searching(store: Store) -> Any:
    """Return a session of the role."""
    session = psycopg.connect(f"postgresql://{ROLE}:{PASSWORD}@{store.dsn.partition('@')[2]}")
    session.execute(f"SET search_path = {store.schema}")
    return session


def test_a_query_without_our_conditions_sees_the_named_classes_only(walled: Store) -> None:
    with searching(walled) as session:
        assert [count(session, table) for table in GUARDED] == [0] * len(GUARDED)
        session.execute("SET LOCAL context_engine.classes = '1'")
        assert count(session, "chunks") == count(session, "documents") == count(session, "words") == 1
        assert session.execute("SELECT content FROM chunks").fetchall() == [("The approval limit is public.",)]
        assert session.execute("SELECT count(*) FROM terms WHERE term = 'secret'").fetchone() == (0,)
        assert count(session, "words_2") == 0
        session.execute("SET LOCAL context_engine.classes = '*'")
        assert count(session, "chunks") == 2


def count(session: Any, table: str) -> int:
    return int(session.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_the_role_writes_nothing(walled: Store) -> None:
    with searching(walled) as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute("DELETE FROM chunks")


def test_searches_of_the_role_find_what_their_callers_may_read(walled: Store) -> None:
    own = Store(walled.dsn)
    own.own = walled.own
    own.connection = own.connection.model_copy(update={"user": ROLE})
    notes, board = (own.source(spec, rules_of) for spec in specs(own))
    query = SourceQuery(text="approval limit", domain="NPA", top_k=5, access=AccessScope())
    assert [chunk.document_id for chunk in notes.search(query).chunks] == ["a"]
    assert board.search(query).chunks == []
    for source, guarded in ((notes, True), (walled.source(specs(walled)[0], rules_of), False)):
        with source.store._servers.reading(5.0) as session:
            assert read_state(session).guarded == guarded
    everybody = SourceQuery(text="approval limit", domain="NPA", top_k=5)
    assert [chunk.document_id for chunk in board.search(everybody).chunks] == ["b"]
    assert notes.examine(ExaminationRequest(domain="NPA")).details["row_security"] is True


@pytest.mark.wording
@pytest.mark.parametrize(("role", "problem"), [("nobody_here", "no role"), ("ledger", "sees every row")])
def test_a_role_that_would_see_everything_is_refused(plain_server: Any, role: str, problem: str) -> None:
    store = Store(plain_server.dsn("postgres"))
    store.own["search_role"] = role
    with pytest.raises(ConfigError, match=problem), store.sink():
        pass
