"""Chunks by their ids, as a principal may have them: what may not be known looks as if it did not exist."""

from __future__ import annotations

import time

import pytest

from context_engine.core.models import (
    NOBODY,
    AccessRule,
    AccessScope,
    Classification,
    FetchRequest,
    Principal,
    ScoreKind,
)
from context_engine.core.policy.access import ManifestPolicy
from context_engine.errors import (
    FetchUnsupported,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceTimeout,
    SourceUnavailable,
    UnknownDomain,
)
from context_engine.testing.fakes import ScriptedSource

DESK = Principal(id="desk-7", roles=frozenset({"desk"}), clearance=Classification.INTERNAL)
BOARD = Principal(id="board-1", roles=frozenset({"desk"}), clearance=Classification.RESTRICTED)
RULE = AccessRule(roles=("desk",))


class Shelf(ScriptedSource):
    """Gives all it holds, whatever it is asked for, or what it is told to."""

    def __init__(self, source_id, chunks, gives=None):
        super().__init__(source_id, chunks)
        self.held, self.gives, self.asked = chunks, gives, []

    def fetch(self, request):
        self.asked.append(request)
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.held if self.gives is None else self.gives


@pytest.fixture
def shelf(chunk_of):
    return Shelf(
        "t1",
        [
            chunk_of("a", 0.9, document_id="limits"),
            chunk_of("b", 0.9, document_id="limits", classification=Classification.RESTRICTED),
            chunk_of("c", 0.9, document_id="other", document_version="v3.2"),
        ],
    )


@pytest.fixture
def engine(make_engine, spec_of, shelf):
    return make_engine([(spec_of(1), shelf)])


def wanted(*chunk_ids, documents=(), **fields):
    return FetchRequest(domain=fields.pop("domain", "NPA"), chunk_ids=chunk_ids, document_ids=documents, **fields)


def ids(chunks):
    return [chunk.chunk_id for chunk in chunks]


def test_what_was_asked_for_comes_and_nothing_else(engine):
    assert ids(engine.fetch("t1", wanted("c", "nothing"))) == ["c"]
    assert ids(engine.fetch("t1", wanted("c", documents=("limits",)))) == ["a", "b", "c"]
    assert engine.fetch("t1", wanted()) == ()


def test_chunks_are_checked_as_those_of_a_search_are(engine, shelf, chunk_of):
    assert engine.fetch("t1", wanted("c"))[0].document_version == "3.2"
    shelf.gives = [chunk_of("a", 0.9), chunk_of("a", 0.5), chunk_of("b", 0.5)._replace(content=" "), "c", None]
    assert [chunk.score(ScoreKind.RELEVANCE) for chunk in engine.fetch("t1", wanted("a", "b"))] == [0.9]
    shelf.gives = "a"
    with pytest.raises(SourceProtocolError, match="instead of a list"):
        engine.fetch("t1", wanted("a"))


def test_what_a_principal_may_not_read_is_not_there(make_engine, spec_of, shelf):
    spec = spec_of(1, access=RULE, classification=Classification.INTERNAL)
    policy = ManifestPolicy(dict(make_engine([(spec, shelf)]).registry.domains))
    engine = make_engine([(spec, shelf), (spec_of(2), Shelf("t2", []))], access=policy)
    assert ids(engine.fetch("t1", wanted("a", "b"), BOARD)) == ["a", "b"]
    assert ids(engine.fetch("t1", wanted("a", "b"), DESK)) == ["a"]
    with pytest.raises(SourceNotFound) as denied:
        engine.fetch("t1", wanted("a"), NOBODY)
    with pytest.raises(SourceNotFound) as unknown:
        engine.fetch("t9", wanted("a"), NOBODY)
    assert str(denied.value).replace("t1", "t9") == str(unknown.value)


def test_the_scope_is_that_of_the_principal_whatever_the_request_says(make_engine, spec_of, shelf):
    spec = spec_of(1, access=RULE, classification=Classification.INTERNAL)
    policy = ManifestPolicy(dict(make_engine([(spec, shelf)]).registry.domains))
    engine = make_engine([(spec, shelf)], access=policy)
    everything = AccessScope(clearance=Classification.RESTRICTED)
    assert ids(engine.fetch("t1", wanted("a", "b", access=everything), DESK)) == ["a"]
    assert shelf.asked[-1].access.clearance is Classification.INTERNAL


def test_a_source_that_cannot_fetch_says_so(make_engine, spec_of, chunk_of):
    engine = make_engine([(spec_of(1), ScriptedSource("t1", [chunk_of("a", 0.9)]))])
    with pytest.raises(FetchUnsupported, match="cannot give chunks by their ids"):
        engine.fetch("t1", wanted("a"))


def test_what_a_source_raises_is_an_error_of_the_source(engine, shelf):
    shelf.gives = SourceForbidden("the key is withdrawn")
    with pytest.raises(SourceForbidden, match=r"source 't1': the key is withdrawn"):
        engine.fetch("t1", wanted("a"))
    shelf.gives = ValueError("password=hunter2")
    with pytest.raises(SourceUnavailable) as caught:
        engine.fetch("t1", wanted("a"))
    assert "hunter2" not in str(caught.value)


def test_a_source_that_hangs_costs_its_time_and_no_more(engine, shelf, monkeypatch):
    monkeypatch.setattr(shelf, "fetch", lambda request: time.sleep(0.3))
    started = time.monotonic()
    with pytest.raises(SourceTimeout, match=r"no answer within 0\.05 s"):
        engine.fetch("t1", wanted("a", timeout_s=0.05))
    assert time.monotonic() - started < 0.25


def test_an_unknown_domain_is_refused(engine):
    with pytest.raises(UnknownDomain):
        engine.fetch("t1", wanted("a", domain="XXX"))
