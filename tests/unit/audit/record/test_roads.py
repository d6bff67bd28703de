"""Whatever road a result came by, its record brings it back, and says no more of the question than it may."""

import json
from types import SimpleNamespace

import pytest

from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.audit.record.candidates import read_candidates
from context_engine.audit.record.drafts import search_draft
from context_engine.audit.record.question import Pseudonyms
from context_engine.audit.record.restored import restore
from context_engine.audit.review.account import account_of
from context_engine.audit.review.replay import replay
from context_engine.audit.values import Addendum
from context_engine.core.models import (
    NOBODY,
    AccessRecord,
    Chunk,
    Condition,
    FilterOp,
    NoticeCode,
    Principal,
    SearchRequest,
)
from context_engine.core.policy.masking import PseudonymMask
from context_engine.core.protocols import PersonalData
from context_engine.settings import SettingsResolver
from context_engine.wiring.functions import FunctionEngines
from context_engine.wiring.models import RerankerChoice

SECRET = Pseudonyms(b"s" * 32)


class Held:
    """A record in memory; nothing of it was erased."""

    def __init__(self, result, kept, access=None, kind="search"):
        access = access or AccessRecord(principal=NOBODY)
        draft = search_draft(result, access, pseudonyms=SECRET, code_version="0.9", kept=kept, kind=kind)
        shared = {content.key: Addendum.of(content.kind, content.data) for content in draft.contents}
        composed = draft.compose({key: one.digest for key, one in shared.items()})
        self.entry = composed.entry
        self.held = {one.digest: one for one in (*shared.values(), *composed.addenda)}

    def addenda(self, digests):
        return {digest: self.held[digest] for digest in digests if digest in self.held}

    def erased(self, _digest):
        return 4

    def entry_at(self, _index):
        return SimpleNamespace(entry=None)

    @property
    def own_bytes(self):
        """All that is stored of this record alone."""
        candidates = next(one.data for one in self.held.values() if one.kind == "candidates")
        others = [one.data for one in self.held.values() if one.kind not in ("text", "card")]
        return b"\n".join([self.entry, json.dumps(read_candidates(candidates)).encode(), *others])


def assert_comes_back(result, **options):
    held = Held(result, "text", **options)
    restored = restore(held.entry, held)
    assert restored.result == result
    assert replay(restored, code_version="0.9").identical


def test_a_question_that_was_corrected(make_engine, tmp_path):
    texts = {"length": "Passwords have a minimum length of 14 characters.", "vault": "Two keyholders open the vault."}
    with LocalBase.open(tmp_path / "base", create=True) as base:
        with base.writer() as writer:
            for name, text in texts.items():
                writer.put("t2", name, "1", name, [Chunk(content=text, chunk_id=name)])
        with make_engine([(2, LocalSource(base, "t2"))]) as engine:
            result = engine.search(SearchRequest(query="minimun pasword lenght", domain="NPA"))
    assert NoticeCode.QUERY_CORRECTED in [notice.code for notice in result.notices]
    assert_comes_back(result)
    for kept in ("digest", "none"):
        for word in (b"minimun", b"pasword", b"lenght", b"minim"):
            assert word not in Held(result, kept).own_bytes


def test_an_answer_that_was_refilled(ask, chunk_of):
    chunks = [chunk_of(f"c{place}", 0.9 - place / 20, document_id="one") for place in range(9)]
    chunks.append(chunk_of("last", 0.3, document_id="two"))
    settings = {"stage1_top_k": 4, "stage2_top_k": 2, "max_per_document": 1}
    result = ask([(2, lambda _query, _domain, top_k: chunks[:top_k])], **settings)
    assert [chunk.chunk_id for chunk in result.chunks] == ["c0", "last"]
    assert result.sources[0].asked == 20
    assert_comes_back(result)


def test_a_function_in_place_of_sources():
    functions = FunctionEngines(RerankerChoice.of(SettingsResolver()), str, {})

    def adapter(query, _domain, top_k):
        return [
            {"content": f"An approval rule {place}.", "source_id": "desk", "authority_tier": 2, "echo": 1.0}
            for place in range(3)
        ]

    result = functions.engine(adapter, "any domain").search(SearchRequest(query="approval", domain="any domain"))
    assert {chunk.source_id for chunk in result.chunks} == {"desk"}
    assert_comes_back(result, kind="rank")


ACCOUNT = "AC-1234-5678"


class Accounts:
    """Finds account numbers written AC-1234-5678."""

    def find(self, text):
        place = text.find(ACCOUNT)
        if place >= 0:
            yield PersonalData(place, place + len(ACCOUNT), "ACCOUNT", ACCOUNT)


class Kept:
    """A recorder that keeps what it is given."""

    def record(self, result, access):
        self.result, self.access = result, access


def test_a_question_that_was_masked_is_stored_masked(ask, chunk_of):
    kept = Kept()
    mask = PseudonymMask([Accounts()], b"0123456789abcdef")
    engine = {
        "mask": mask,
        "recorder": kept,
        "domain_fields": {"settings": {"mask_stored_queries": True}},
    }
    filters = Condition("title", FilterOp.NE, ACCOUNT)
    ask([(2, [chunk_of("a", 0.9), chunk_of("b")])], query=f"approval of {ACCOUNT}", engine=engine, filters=filters)
    assert kept.result.query == f"approval of {mask(ACCOUNT)}"
    held = Held(kept.result, "text", access=kept.access)
    assert ACCOUNT.encode() not in held.own_bytes
    restored = restore(held.entry, held)
    assert restored.result == kept.result
    replayed = replay(restored, code_version="0.9")
    assert replayed.identical or replayed.reason == "question_masked"


def test_an_account_tells_of_a_record_what_can_be_told(ask, chunk_of):
    chunks = [chunk_of("a", 0.9, document_id="sop"), chunk_of("b", 0.01)]
    result = ask([(2, chunks)], principal=Principal(id="u-4711"))
    held = Held(result, "text", access=AccessRecord(principal=result.request.principal))
    account = account_of(held.entry, 3, held)
    assert account.question["result"]["query"] == "approval rule"
    assert [(one["chunk_id"], one["outcome"], one.get("document_id")) for one in account.fates] == [
        ("a", "returned", "sop"),
        ("b", "dropped", None),
    ]
    assert account.settings == result.settings.to_dict()
    assert account.missing == ()
    for kind in ("question", "candidates", "settings"):
        digest = next(digest for digest, one in held.held.items() if one.kind == kind)
        del held.held[digest]
    account = account_of(held.entry, 3, held)
    assert (account.question, account.fates, account.settings) == (None, (), None)
    assert "was erased (entry 4)" in account.question_missing
    assert sorted(one.kind for one in account.missing) == ["candidates", "question", "settings"]
    assert account.entry["chunks"][0]["chunk"] == "a"
    json.dumps(account.to_dict(), allow_nan=False)


@pytest.mark.parametrize("query", [None, "another rule", "approval rule"])
def test_an_account_opens_a_sealed_question_to_who_brings_it(ask, chunk_of, query):
    held = Held(ask([(2, [chunk_of("a", 0.9)])]), "digest")
    account = account_of(held.entry, None, held, query=query, pseudonyms=[SECRET])
    if query == "approval rule":
        assert account.question["result"]["query"] == query
    else:
        assert account.question is None
        assert account.question_missing
