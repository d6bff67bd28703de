"""What goes to a model and what is kept is masked where a domain says so, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from context_engine.adapters.rerankers import CallableReranker
from context_engine.apps.dify.answer import search_answer
from context_engine.apps.dify.external import ExternalRequest, records_answer
from context_engine.core.context import ApproxTokenCounter, build_context_block, for_a_model, from_result
from context_engine.core.models import (
    Caller,
    Condition,
    FilterOp,
    Notice,
    NoticeCode,
    SearchRequest,
    Settings,
)
from context_engine.core.policy.masking import PseudonymMask, with_masked_query
from context_engine.core.protocols import PersonalData
from context_engine.errors import ConfigError, InvalidRequest, MaskingError, UnknownDomain

COUNTER = ApproxTokenCounter()
ACCOUNT = "AC-1234-5678"
OPEN = f"The approval rule names account {ACCOUNT} twice: {ACCOUNT}."


class Accounts:
    """Finds account numbers written AC-1234-5678."""

    def find(self, text):
        place = text.find(ACCOUNT)
        while place >= 0:
            yield PersonalData(place, place + len(ACCOUNT), "ACCOUNT", ACCOUNT)
            place = text.find(ACCOUNT, place + 1)


MASK = PseudonymMask([Accounts()], b"0123456789abcdef")
TOKEN = MASK(ACCOUNT)


class Kept:
    """A recorder that keeps what it is given."""

    def __init__(self):
        self.results, self.requests = [], []

    def record(self, result, access):
        self.results.append(result)

    def refuse(self, request, access, error):
        self.requests.append(request)


def chunk(chunk_of, **fields):
    fields.setdefault("title", f"Letter about {ACCOUNT}")
    fields.setdefault("metadata", {"account": ACCOUNT, "source_file": f"{ACCOUNT}.md", "tags": [ACCOUNT]})
    return chunk_of("a", 0.9, OPEN, document_id=f"doc-{ACCOUNT}", heading_path=(f"On {ACCOUNT}",), **fields)


@pytest.fixture
def masked_result(ask, chunk_of):
    engine = {"mask": MASK, "domain_fields": {"settings": {"mask_contexts": True}}}
    return ask([(1, [chunk(chunk_of)])], query=f"approval rule {ACCOUNT}", engine=engine)


def test_a_search_gives_the_audience_everything(masked_result):
    assert masked_result.chunks[0].content == OPEN and masked_result.query == f"approval rule {ACCOUNT}"


def test_a_context_is_masked_and_its_ids_are_not(masked_result):
    context = from_result(masked_result, counter=COUNTER, mask=MASK)
    assert f"account {TOKEN} twice: {TOKEN}." in context.text
    assert context.blocks[0].text == OPEN.replace(ACCOUNT, TOKEN)
    assert context.citations[0].document_id == f"doc-{ACCOUNT}"
    assert context.citations[0].path == f"{ACCOUNT}.md"
    assert context.citations[0].attribution in context.text and ACCOUNT not in context.citations[0].title
    assert ACCOUNT not in context.text.replace(f"{ACCOUNT}.md", "")
    assert context.tokens == COUNTER.count(context.text) <= context.budget


def test_without_a_mask_no_context_is_made(masked_result):
    with pytest.raises(InvalidRequest, match=r"masks personal data in contexts .* pass mask=engine.mask"):
        from_result(masked_result, counter=COUNTER)
    with pytest.raises(InvalidRequest, match=r"pass mask=engine\.mask"):
        search_answer(masked_result)

    chunks = [one.to_dict() for one in masked_result.chunks]
    for given in (chunks, chunks[:1], json.loads(json.dumps(chunks))):
        with pytest.raises(InvalidRequest, match=r"pass mask=engine\.mask"):
            build_context_block(given)
    assert TOKEN in build_context_block(chunks, mask=MASK)


def test_a_domain_that_masks_nothing_gives_its_contexts_in_full(ask, chunk_of):
    result = ask([(1, [chunk(chunk_of)])], engine={"mask": MASK})
    assert from_result(result, counter=COUNTER, mask=MASK).blocks[0].text == OPEN
    assert for_a_model(result, MASK) is result


def test_neighbours_are_masked_as_one_text_and_keep_their_place(ask, chunk_of):
    whole = f"The approval rule of {ACCOUNT} and of {ACCOUNT}, which the committee reads."
    cut = whole.index(ACCOUNT) + 5
    parts = [(0, cut, "a"), (cut - 3, len(whole), "b")]
    chunks = [
        chunk_of(name, 0.9, whole[start:end], document_id="d", span=(start, end), document_version="1")
        for start, end, name in parts
    ]
    engine = {"mask": MASK, "domain_fields": {"settings": {"mask_contexts": True, "dedup_method": "off"}}}
    context = from_result(ask([(1, chunks)], engine=engine), counter=COUNTER, mask=MASK)
    assert [block.text for block in context.blocks] == [whole.replace(ACCOUNT, TOKEN)]
    assert context.blocks[0].span == (0, len(whole))


def test_a_passage_that_is_cut_to_fit_shows_no_part_of_a_number(ask, chunk_of):
    text = "approval rule " + f"{ACCOUNT} " * 60
    engine = {"mask": MASK, "domain_fields": {"settings": {"mask_contexts": True}}}
    result = ask([(1, [chunk_of("a", 0.9, text)])], engine=engine)
    for budget in range(70, 130, 3):
        context = from_result(result, counter=COUNTER, mask=MASK, budget=budget)
        assert context.tokens <= budget
        assert "AC-" not in context.text


def test_every_output_of_the_plugin_is_masked(masked_result):
    answer = search_answer(masked_result, mask=MASK)
    shown = str(answer.variables) + str(answer.json)
    left = shown.replace(f"doc-{ACCOUNT}", "").replace(f"{ACCOUNT}.md", "")
    assert TOKEN in answer.text and TOKEN in shown and ACCOUNT not in left
    request = ExternalRequest(knowledge_id="NPA", query="q", top_k=4, score_threshold=0.0, filters=None)
    body = str(records_answer(masked_result, request, notice_records=True, mask=MASK).body)
    assert TOKEN in body and ACCOUNT not in body.replace(f"doc-{ACCOUNT}", "").replace(f"{ACCOUNT}.md", "")
    with pytest.raises(InvalidRequest, match=r"pass mask=engine\.mask"):
        records_answer(masked_result, request, notice_records=True)


def test_a_reranker_reads_masked_texts(ask, chunk_of):
    read = []

    def score(query, texts):
        read.extend([query, *texts])
        return [0.5] * len(texts)

    engine = {"reranker": CallableReranker(score), "domain_fields": {"settings": {"mask_contexts": True}}, "mask": MASK}
    ask([(1, [chunk(chunk_of)])], query=f"approval rule {ACCOUNT}", engine=engine)
    assert read == [f"approval rule {TOKEN}", OPEN.replace(ACCOUNT, TOKEN)]


def test_a_question_that_is_kept_is_masked_wherever_it_stands(make_engine, chunk_of):
    kept = Kept()
    fields = {"settings": {"mask_stored_queries": True}}
    query = f'approval "rule {ACCOUNT}" of AC-1234 5678'
    with make_engine([(1, [chunk(chunk_of)])], domain_fields=fields, recorder=kept, mask=MASK) as engine:
        filters = Condition("account", FilterOp.EQ, ACCOUNT)
        result = engine.search(SearchRequest(query=query, domain="NPA", filters=filters))
        assert result.query == query
        with pytest.raises(UnknownDomain):
            engine.search(SearchRequest(query=query, domain="NPB"))
    (stored,), (refused,) = kept.results, kept.requests
    assert refused.query == stored.query == stored.request.query == query.replace(ACCOUNT, TOKEN)
    assert stored.request.filters.value == TOKEN
    assert stored.prepared.phrases == () and stored.raw[0].statistics is None
    without_chunks = replace(stored, chunks=(), raw=())
    assert ACCOUNT not in repr(without_chunks)


def test_a_question_without_personal_data_is_kept_as_it_is(ask, chunk_of):
    result = ask([(1, [chunk(chunk_of)])])
    assert with_masked_query(result, MASK) is result


@pytest.mark.parametrize("key", ["mask_contexts", "mask_stored_queries"])
def test_a_search_that_should_mask_and_cannot_is_refused_before_any_source_is_asked(make_engine, key):
    def never(query, domain, top_k):
        raise AssertionError("a source was asked")

    def closed(text):
        raise ConfigError("no key")

    for mask, problem in ((None, f"domain 'NPA' sets {key}, and this engine has no mask"), (closed, "no key")):
        with (
            make_engine([(1, never)], domain_fields={"settings": {key: True}}, mask=mask) as engine,
            pytest.raises(ConfigError, match=problem),
        ):
            engine.search(SearchRequest(query="approval", domain="NPA"))


def test_what_cannot_be_masked_is_not_recorded(make_engine, chunk_of):
    def fails(text):
        if text:
            raise MaskingError("a masker failed")
        return text

    kept = Kept()
    fields = {"settings": {"mask_stored_queries": True}}
    with make_engine([(1, [chunk(chunk_of)])], domain_fields=fields, recorder=kept, mask=fails) as engine:
        assert engine.search(SearchRequest(query="approval rule", domain="NPA")).chunks
    assert kept.results == []


def test_nothing_is_masked_by_default():
    values = Settings()
    assert not (values.mask_contexts or values.mask_stored_queries or values.mask_logs)


@pytest.mark.wording
def test_who_asked_and_what_failed_are_masked_for_a_model(masked_result):
    failed = replace(masked_result.sources[0], error={"code": "x", "message": f"no {ACCOUNT}"}, problem=f"no {ACCOUNT}")
    notice = Notice(NoticeCode.CLAIM_REFUSED, "t1", f"claims {ACCOUNT}")
    caller = Caller(app="app-1", on_behalf_of=ACCOUNT)
    given = replace(masked_result, query="plain", request=None, caller=caller, sources=(failed,), notices=(notice,))
    shown = for_a_model(given, MASK)
    assert shown.caller == Caller(app="app-1", on_behalf_of=TOKEN)
    assert (shown.sources[0].error["message"], shown.sources[0].problem) == (f"no {TOKEN}", f"no {TOKEN}")
    assert shown.notices[0].message == f"claims {TOKEN}"
