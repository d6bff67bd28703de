"""A result out of its record, and what stands in the way of it."""

import hashlib
import json
from types import SimpleNamespace

import pytest

from context_engine.audit.record.drafts import loss_draft, search_draft
from context_engine.audit.record.question import Pseudonyms
from context_engine.audit.record.restored import restore
from context_engine.audit.values import Addendum
from context_engine.core.engine import stage_two_bytes
from context_engine.core.models import AccessRecord, Principal
from context_engine.errors import InvalidRequest, LedgerCorrupt, LedgerVersionMismatch, QueryNotRecorded

SECRET, OTHER = Pseudonyms(b"s" * 32), Pseudonyms(b"o" * 32)


class Store:
    """Addenda in memory; what is erased is said by entry 7."""

    def __init__(self):
        self.held, self.gone = {}, set()

    def keep(self, draft):
        shared = {content.key: Addendum.of(content.kind, content.data) for content in draft.contents}
        composed = draft.compose({key: one.digest for key, one in shared.items()})
        self.held |= {one.digest: one for one in (*shared.values(), *composed.addenda)}
        return composed.entry

    def erase(self, kind, *, said=True):
        for digest in [digest for digest, one in self.held.items() if one.kind == kind]:
            del self.held[digest]
            self.gone |= {digest} if said else set()

    def addenda(self, digests):
        return {digest: self.held[digest] for digest in digests if digest in self.held}

    def erased(self, digest):
        return 7 if digest in self.gone else None

    def entry_at(self, index):
        entry = {"v": 1, "kind": "erasure", "id": "e", "time": "2026-04-01T08:00:00Z"}
        return SimpleNamespace(entry=json.dumps(entry).encode())


@pytest.fixture
def result(ask, chunk_of):
    return ask([(1, [chunk_of("a", 0.9), chunk_of("b", 0.01)]), (2, [chunk_of("c", 0.5)])])


def kept(result, kept="text", secret=SECRET):
    store = Store()
    access = AccessRecord(principal=Principal(id="u"))
    return store, store.keep(search_draft(result, access, pseudonyms=secret, code_version="0.9", kept=kept))


def test_a_record_gives_the_result_back(result):
    store, entry = kept(result)
    restored = restore(entry, store)
    assert restored.result == result
    assert stage_two_bytes(restored.result) == stage_two_bytes(result)
    assert (restored.code_version, restored.missing) == ("0.9", ())


def test_a_sealed_question_opens_to_who_brings_it_and_the_secret(result):
    store, entry = kept(result, "digest")
    assert restore(entry, store, query="approval rule", pseudonyms=[OTHER, SECRET]).result == result
    with pytest.raises(QueryNotRecorded, match="give the question itself"):
        restore(entry, store, pseudonyms=[SECRET])
    with pytest.raises(QueryNotRecorded, match="another one"):
        restore(entry, store, query="approval rules", pseudonyms=[SECRET])
    with pytest.raises(QueryNotRecorded, match="another audit key"):
        restore(entry, store, query="approval rule", pseudonyms=[OTHER])


def test_sealed_questions_of_two_records_are_different_bytes(ask, chunk_of):
    first, second = (kept(ask([(1, [chunk_of("a", 0.9)])]), "digest")[0] for _ in range(2))
    sealed = [next(one.data for one in store.held.values() if one.kind == "question") for store in (first, second)]
    assert sealed[0] != sealed[1]
    assert all(b"approval" not in data for data in sealed)


def test_without_its_question_a_record_says_why(result):
    store, entry = kept(result, "none")
    with pytest.raises(QueryNotRecorded, match="audit_query: none"):
        restore(entry, store, query="approval rule", pseudonyms=[SECRET])
    store, entry = kept(result)
    store.erase("question")
    with pytest.raises(QueryNotRecorded, match=r"was erased \(entry 7 of 2026-04-01T08:00:00Z\)"):
        restore(entry, store)


@pytest.mark.parametrize("kind", ["text", "card", "settings", "sources", "candidates"])
def test_what_was_erased_is_missing_with_the_entry_that_says_so(result, kind):
    store, entry = kept(result)
    count = sum(one.kind == kind for one in store.held.values())
    store.erase(kind)
    restored = restore(entry, store)
    assert restored.result is None
    assert [(one.kind, one.erased_by, one.erased_on) for one in restored.missing] == [
        (kind, 7, "2026-04-01T08:00:00Z")
    ] * count


def test_what_is_gone_without_an_entry_is_said_to_be(result):
    store, entry = kept(result)
    store.erase("text", said=False)
    assert "no entry records its erasure" in restore(entry, store).missing[0].why


def test_an_addendum_that_was_altered_is_not_taken(result):
    store, entry = kept(result)
    digest, addendum = next((digest, one) for digest, one in store.held.items() if one.kind == "text")
    store.held[digest] = addendum._replace(data=b"Another rule.")
    with pytest.raises(LedgerCorrupt, match="is not the one that was recorded"):
        restore(entry, store)


def test_a_record_of_a_newer_version_or_of_no_search_is_refused(result, now):
    store, entry = kept(result)
    newer = json.dumps({**json.loads(entry), "v": 2}).encode()
    with pytest.raises(LedgerVersionMismatch, match="upgrade"):
        restore(newer, store)
    lost = store.keep(loss_draft(1, now, now, record_id="l", now=now, code_version="0.9"))
    with pytest.raises(InvalidRequest, match="'loss'"):
        restore(lost, store)
    for damaged in (b"", b"[]", b"{}", entry[:-1], hashlib.sha256(entry).digest()):
        with pytest.raises(LedgerCorrupt):
            restore(damaged, store)
    nameless = json.dumps({**json.loads(entry), "addenda": {"question": "no hex"}}).encode()
    with pytest.raises(LedgerCorrupt, match="does not name"):
        restore(nameless, store)
    named = json.loads(entry)["addenda"]
    del named["candidates"]
    with pytest.raises(LedgerCorrupt, match="names no candidates"):
        restore(json.dumps({**json.loads(entry), "addenda": named}).encode(), store)
