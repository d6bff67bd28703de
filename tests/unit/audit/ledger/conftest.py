"""Ledgers in a file and, as slow tests, in PostgreSQL; records small enough to be written out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.record.drafts import search_draft
from context_engine.audit.record.question import Pseudonyms
from context_engine.audit.values import Addendum, Composed, Content, Draft
from context_engine.core.engine.search_plan import TimeSortedIds
from context_engine.core.models import AccessRecord, Caller, Chunk, Principal, SearchRequest, SearchResult
from context_engine.testing.fakes import FixedClock

ORIGIN = "audit.bank.example/retrieval"
KEYRING = Keyring(SigningKey(ORIGIN, bytes(range(32))))


def draft_of(
    record_id: str, *, contents: tuple[Content, ...] = (), addenda: tuple[Addendum, ...] = (), **fields: Any
) -> Draft:
    """A record whose entry says its id, what else is given, and the digests of its contents and addenda."""

    def compose(digests: Mapping[bytes, bytes]) -> Composed:
        named = {one.kind: one.digest.hex() for one in addenda}
        shared = [digests[content.key].hex() for content in contents]
        entry = {"v": 1, "kind": "search", "id": record_id, **fields, "addenda": named, "shared": shared}
        return Composed(json.dumps(entry).encode(), addenda)

    return Draft(record_id=record_id, contents=contents, compose=compose)


@pytest.fixture(scope="session")
def draft() -> Callable[..., Draft]:
    return draft_of


@pytest.fixture(scope="session")
def keyring() -> Keyring:
    return KEYRING


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place for a ledger."""
    if request.param == "sqlite":
        return str(tmp_path / "audit/ledger.db")
    return str(request.getfixturevalue("postgresql_server").new_database())


@pytest.fixture
def open_at() -> Iterator[Callable[..., Ledger]]:
    """Opens the ledger of a place, once more with every call; all are closed at the end of the test."""
    opened: list[Ledger] = []

    def open_one(place: Path | str, keyring: Keyring | None = KEYRING, *, create: bool = True) -> Ledger:
        opened.append(Ledger.open(str(place), origin=ORIGIN, keyring=keyring, clock=FixedClock(), create=create))
        return opened[-1]

    yield open_one
    for ledger in opened:
        ledger.close()


@pytest.fixture
def open_ledger(open_at: Callable[..., Ledger], url: str) -> Callable[..., Ledger]:
    """Opens the ledger of this test, once more with every call."""
    return partial(open_at, url)


@pytest.fixture
def ledger(open_ledger: Callable[..., Ledger]) -> Ledger:
    return open_ledger()


Searches = Callable[..., list[SearchResult]]


@pytest.fixture
def searched(make_engine: Callable[..., Any], chunk_of: Callable[..., Any]) -> Searches:
    """Records searches for a rule in a ledger, one for each question, and integrates them."""

    def search(ledger: Ledger, *queries: str, chunks: Sequence[Chunk] = (), caller: str = "jo", **fields: Any) -> Any:
        given = list(chunks) or [chunk_of("r-1", 0.9, document_id="sop-7", document_version="3")]
        secret = ledger.pseudonym_salt if ledger.keyring is None else ledger.keyring.pseudonym_key
        results, drafts = [], []
        with make_engine([(1, given)], ids=TimeSortedIds()) as engine:
            for query in queries:
                request = SearchRequest(query=query, domain="NPA", caller=Caller(principal=caller, **fields))
                results.append(engine.search(request))
                access = AccessRecord(principal=Principal(id=caller))
                pseudonyms = Pseudonyms(secret)
                drafts.append(search_draft(results[-1], access, pseudonyms=pseudonyms, code_version="1"))
        ledger.append(drafts)
        ledger.integrate()
        return results

    return search
