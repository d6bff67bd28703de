"""What of a search goes into its record: an entry that is never long, and addenda that can be erased."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from context_engine.audit.record.candidates import mentions_of, read_candidates
from context_engine.audit.record.drafts import context_draft, loss_draft, refusal_draft, search_draft
from context_engine.audit.record.question import Pseudonyms
from context_engine.audit.values import MOST_ENTRY_BYTES
from context_engine.core.context import from_result
from context_engine.core.models import (
    AccessDecision,
    AccessReason,
    AccessRecord,
    Caller,
    Classification,
    Notice,
    NoticeCode,
    Principal,
    SearchRequest,
    SourceAccess,
    WithheldChunk,
)
from context_engine.core.text import content_sha256
from context_engine.errors import InvalidRequest

SECRET = Pseudonyms(b"s" * 32)
MOMENT = datetime(2026, 3, 2, 11, tzinfo=UTC)
ANALYST = Principal(id="u-4711", roles=frozenset({"analyst"}), clearance=Classification.INTERNAL)


def stored(draft):
    """The entry as it is read, the addenda by name, and the digests of contents, which are those of their keys."""
    digests = {content.key: hashlib.sha256(content.key).digest() for content in draft.contents}
    composed = draft.compose(digests)
    return json.loads(composed.entry), {one.kind: one.data for one in composed.addenda}, composed


def drafted(result, access=None, **options):
    options.setdefault("kept", "text")
    return search_draft(
        result, access or AccessRecord(principal=ANALYST), pseudonyms=SECRET, code_version="0.9", **options
    )


def test_an_entry_says_who_asked_what_came_and_why(ask, chunk_of):
    decision = AccessDecision(
        principal=ANALYST,
        domain="NPA",
        sources=(
            SourceAccess("vault", False, AccessReason.SOURCE_RULE),
            SourceAccess("t2", True, AccessReason.NO_RULE),
        ),
        policy_hash="p-1",
    )
    access = AccessRecord(
        principal=ANALYST, decision=decision, withheld=(WithheldChunk("t2", "secret", Classification.RESTRICTED),)
    )
    chunks = [chunk_of("a", 0.9, document_id="sop.md", document_version="3.2"), chunk_of("b", 0.01)]
    result = ask([(2, chunks)], caller=Caller(principal="said", app="desk"), request_id="r-1")
    entry, addenda, composed = stored(drafted(result, access))
    assert (entry["v"], entry["kind"], entry["id"], entry["time"]) == (1, "search", "s-000001", "2026-03-02T10:00:00Z")
    assert entry["caller"] == {
        "pseudonym": SECRET.of_caller("u-4711"),
        "roles": ["analyst"],
        "groups": [],
        "clearance": "internal",
    }
    assert (entry["app"], entry["domain"], entry["request_id"]) == ("desk", "NPA", "r-1")
    assert (entry["status"], entry["decision"], entry["code"]) == ("complete", "answered", "0.9")
    assert entry["counts"]["candidates"] == 2
    assert (entry["counts"]["returned"], entry["counts"]["merged"], entry["counts"]["dropped"]) == (1, 0, 1)
    assert entry["counts"]["stages"]["relevance"] == [2, 1]
    assert [(one["id"], one["state"], one["chunks"]) for one in entry["sources"]] == [("t2", "ok", 2)]
    (shown,) = entry["chunks"]
    assert (shown["source"], shown["chunk"], shown["document"], shown["version"]) == ("t2", "a", "sop.md", "3.2")
    assert shown["sha256"] == content_sha256(chunks[0].content)
    assert (shown["tier"], shown["type"], shown["trust"]) == (2, "bank_sop", "TRUSTED")
    assert shown["final"] == 0.66  # 0.6 * 0.9 + 0.4 * 0.3
    assert entry["denied"] == [["vault", "source_rule"]]
    assert entry["withheld"] == [["t2", "secret", "restricted"]]
    assert entry["hashes"]["policy"] == "p-1"
    assert sorted(addenda) == ["candidates", "question"]
    assert {name: bytes.fromhex(entry["addenda"][name]) for name in addenda} == {
        one.kind: one.digest for one in composed.addenda
    }


def test_the_entry_of_an_answer_from_the_cache_says_so(ask, chunk_of):
    result = ask([(2, [chunk_of("a", 0.9)])])
    assert "cache" not in stored(drafted(result))[0]
    notice = Notice(NoticeCode.FROM_CACHE, "", "12 s", {"age_s": 12})
    entry = stored(drafted(replace(result, notices=(notice,))))[0]
    assert entry["cache"] == {"hit": True, "age_s": 12}
    assert entry["notices"] == [["from_cache", ""]]


def test_settings_and_sources_are_named_by_their_hashes_and_shared(ask, chunk_of):
    result = ask([(2, [chunk_of("a", 0.9)])])
    draft = drafted(result)
    entry, _, _ = stored(draft)
    by_kind = {content.kind: content for content in draft.contents}
    assert entry["hashes"]["settings"] == hashlib.sha256(by_kind["settings"].data).hexdigest()
    assert json.loads(by_kind["settings"].data) == result.settings.to_dict()
    assert entry["hashes"]["registry"] == hashlib.sha256(by_kind["sources"].data).hexdigest()
    assert entry["addenda"]["settings"] == hashlib.sha256(by_kind["settings"].key).hexdigest()
    assert by_kind["text"].data == b"Rule a on approval of a."


def test_the_same_chunk_in_another_search_has_the_same_contents(ask, chunk_of, now):
    first = drafted(ask([(2, [chunk_of("a", 0.9, fetched_at=now)])]))
    second = drafted(ask([(2, [chunk_of("a", 0.4, fetched_at=now.replace(hour=9))])], query="limit rule"))
    assert {content.key for content in first.contents} == {content.key for content in second.contents}


def test_mentions_name_every_candidate_with_its_document_text_and_fate(ask, chunk_of):
    rule = "A proposal above the materiality limit goes to the product committee for approval."
    chunks = [chunk_of("a", 0.9, rule, document_id="sop.md", document_version="3"), chunk_of("low", 0.01)]
    result = ask([(1, [chunk_of("copy", 0.8, rule)]), (2, chunks)])
    composed = drafted(result).compose(_Any())
    candidates = next(one.data for one in composed.addenda if one.kind == "candidates")
    assert set(mentions_of(composed.entry, candidates)) == {
        ("t1", "copy", None, None, sha256(rule), "returned"),
        ("t2", "a", "sop.md", "3", sha256(rule), "merged"),
        ("t2", "low", None, None, sha256(chunks[1].content), "dropped"),
    }
    assert mentions_of(composed.entry, None) == (("t1", "copy", None, None, sha256(rule), "returned"),)


def sha256(text):
    return bytes.fromhex(content_sha256(text))


class _Any(dict):
    """A digest for every content."""

    def __missing__(self, key):
        return hashlib.sha256(key).digest()


def test_a_chunk_id_that_two_texts_share_is_told_apart(ask, chunk_of):
    one, other = chunk_of("a", 0.9, "The approval rule of notes."), chunk_of("a", 0.8, "Another rule of approval 7.")
    result = ask([(2, [one, other])])
    composed = drafted(result).compose(_Any())
    found = {chunk: text for _, chunk, _, _, text, _ in mentions_of(composed.entry, candidates_of(composed))}
    low, high = sorted(sha256(chunk.content) for chunk in (one, other))
    assert found == {"a": low, f"a~{high.hex()[:8]}": high}


def candidates_of(composed):
    return next(one.data for one in composed.addenda if one.kind == "candidates")


LONG = "x" * 4096


@pytest.mark.slow
def test_no_result_makes_an_entry_too_long(ask, chunk_of, spec_of):
    pool = [
        (
            spec_of(1 + number % 5, f"source-{number}"),
            [
                chunk_of(f"{LONG}{number}.{place}", 0.9, f"Rule {number} {place}", document_version=LONG)
                for place in range(10)
            ],
        )
        for number in range(100)
    ]
    caller = Caller(app="a" * 10_000)
    result = ask(pool, stage2_top_k=1000, dedup_method="off", caller=caller, request_id="é" * 10_000)
    assert len(result.chunks) == 1000
    person = Principal(id="u", roles=frozenset(f"role-{n}-{LONG}" for n in range(50)), groups=frozenset({LONG}))
    draft = drafted(result, AccessRecord(principal=person))
    composed = draft.compose(_Any())
    assert MOST_ENTRY_BYTES - 600 <= len(composed.entry) <= MOST_ENTRY_BYTES
    entry = json.loads(composed.entry)
    assert len(entry["chunks"]) + entry["more"]["chunks"] == 1000
    assert len(entry["sources"]) + entry["more"].get("sources", 0) == 100
    account = json.loads(next(one.data for one in composed.addenda if one.kind == "account"))
    assert len(account["chunks"]) == 1000
    assert [one["chunk"] for one in account["chunks"]] == [chunk.chunk_id for chunk in result.chunks]
    assert account["app"] == "a" * 10_000
    assert entry["app"].startswith("aaaa") and len(entry["app"]) < 200
    assert len(mentions_of(composed.entry, candidates_of(composed))) == 1000


WORD = "zyxqvort"


@pytest.mark.parametrize("kept", ["digest", "none"])
def test_without_the_text_no_word_of_the_question_stands_anywhere(ask, chunk_of, kept):
    def failing(_query, _domain, _top_k):
        raise ValueError(f"cannot search for {WORD}")

    result = ask(
        [(2, [chunk_of("a", 0.9), chunk_of("b", 0.5)]), (3, failing)],
        query=f'approval "{WORD} rule" {WORD}',
        caller=Caller(principal="person-77", conversation="conversation-88", on_behalf_of="person-99"),
    )
    assert any(WORD in str(notice.detail) for notice in result.notices)
    draft = drafted(result, kept=kept)
    composed = draft.compose(_Any())
    kept_bytes = [composed.entry, json.dumps(read_candidates(candidates_of(composed))).encode()]
    kept_bytes += [one.data for one in (*composed.addenda, *draft.contents)]
    for word in (WORD, "person-77", "person-99", "conversation-88", "u-4711"):
        assert not [data for data in kept_bytes if word.encode() in data], word
    entry = json.loads(composed.entry)
    assert entry["query"]["kept"] == kept
    assert ("question" in entry["addenda"]) == (kept == "digest")
    if kept == "digest":
        assert entry["query"]["digest"] == SECRET.of_query(result.query)


def test_the_domain_says_what_is_kept_of_a_question(ask, chunk_of):
    result = ask([(2, [chunk_of("a", 0.9)])], engine={"domain_fields": {"settings": {"audit_query": "none"}}})
    entry, addenda, _ = stored(drafted(result, kept=None))
    assert entry["query"] == {"kept": "none"}
    assert "question" not in addenda


def test_a_caller_that_nobody_authenticated_is_known_by_what_the_call_says(ask, chunk_of):
    result = ask([(2, [chunk_of("a", 0.9)])], caller=Caller(principal="said", on_behalf_of="other"))
    nobody = AccessRecord(principal=Principal())
    entry, _, _ = stored(drafted(result, nobody))
    assert entry["caller"]["pseudonym"] == SECRET.of_caller("said")
    assert entry["caller"]["for"] == SECRET.of_caller("other")
    entry, _, _ = stored(drafted(replace(result, caller=Caller()), nobody))
    assert entry["caller"]["pseudonym"] is None


def test_pseudonyms_are_of_the_secret():
    other = Pseudonyms(b"t" * 32)
    assert SECRET.of_caller("u") == Pseudonyms(b"s" * 32).of_caller("u") != other.of_caller("u")
    assert len(SECRET.of_caller("u")) == 32
    assert SECRET.of_query("u") != other.of_query("u")


def test_a_refused_request_leaves_an_entry_without_free_text():
    request = SearchRequest(query="limit of zyxqvort", domain="what is zyxqvort", caller=Caller(principal="p"))
    draft = refusal_draft(
        request,
        AccessRecord(principal=ANALYST),
        InvalidRequest("there is no zyxqvort"),
        record_id="f-1",
        now=MOMENT,
        pseudonyms=SECRET,
        code_version="0.9",
    )
    entry, addenda, composed = stored(draft)
    assert b"zyxqvort" not in composed.entry
    assert (entry["kind"], entry["id"], entry["time"]) == ("refusal", "f-1", "2026-03-02T11:00:00Z")
    assert (entry["error"], entry["domain"]) == ({"code": "invalid_request"}, None)
    assert json.loads(addenda["question"])["message"] == "there is no zyxqvort"
    assert mentions_of(composed.entry, None) == ()


def test_a_context_leaves_an_entry_that_names_its_search(ask, chunk_of):
    class Words:
        name = "words"

        def count(self, text):
            return len(text.split())

    result = ask([(2, [chunk_of("a", 0.9), chunk_of("b", 0.8)])])
    context = from_result(result, counter=Words(), budget=60)
    entry, addenda, _ = stored(context_draft(result, context, record_id="c-1", now=MOMENT, code_version="0.9"))
    assert (entry["kind"], entry["id"], entry["search"], entry["domain"]) == ("context", "c-1", "s-000001", "NPA")
    assert (entry["budget"], entry["tokens"], entry["counter"]) == (60, context.tokens, "words")
    assert entry["sha256"] == content_sha256(context.text)
    shown = [[one["label"], one["source"], one["chunks"]] for one in entry["chunks"]]
    assert shown == [[block.label, block.source_id, list(block.chunk_ids)] for block in context.blocks]
    assert not addenda


def test_lost_records_leave_an_entry():
    draft = loss_draft(7, MOMENT, MOMENT.replace(hour=12), record_id="l-1", now=MOMENT, code_version="0.9")
    entry, _, _ = stored(draft)
    assert (entry["kind"], entry["count"], entry["since"], entry["until"]) == (
        "loss",
        7,
        "2026-03-02T11:00:00Z",
        "2026-03-02T12:00:00Z",
    )
