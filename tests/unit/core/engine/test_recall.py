"""Stage 1: sources are asked at once, and whatever one of them does stays its own affair."""

import threading
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from context_engine.core.concurrency.calls import EXECUTOR
from context_engine.core.engine import SystemClock
from context_engine.core.models import (
    Chunk,
    Decision,
    NoticeCode,
    Score,
    ScoreKind,
    SearchRequest,
    SourceAnswer,
    Status,
)
from context_engine.errors import (
    AllSourcesFailed,
    EmbedderError,
    MissingVariable,
    SourceAuthError,
    SourceRateLimited,
    SourceUnavailable,
)

BEYOND_TIME = datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=12)))


class Plain:
    """A source that does as it is told."""

    score_kinds = frozenset(ScoreKind)

    def __init__(self, search, source_id="t2"):
        self.source_id = source_id
        self.calls = 0
        self._search = search

    def search(self, query):
        self.calls += 1
        return self._search(query)

    def close(self):
        pass


@pytest.fixture
def hang():
    """A source's search that never returns, until the test is over."""
    release = threading.Event()
    yield lambda _query: release.wait()
    release.set()


def request(**overrides):
    return SearchRequest(query="approval rule", domain="NPA", overrides=overrides)


def status(result, source_id="t2"):
    return next(one for one in result.sources if one.source_id == source_id)


def test_sources_are_asked_in_parallel(make_engine, chunk_of):
    together = threading.Barrier(5, timeout=10)

    def adapter(_query, _domain, _top_k):
        together.wait()
        return [chunk_of(f"c{threading.get_ident()}", 0.5)]

    result = make_engine([(tier, adapter) for tier in range(1, 6)]).search(request())
    assert [one.state for one in result.sources] == ["ok"] * 5


@pytest.mark.parametrize(
    "error",
    [ValueError, RuntimeError, KeyError, MemoryError, RecursionError, SystemExit, KeyboardInterrupt, GeneratorExit],
)
def test_a_source_that_raises_anything_fails_alone(make_engine, chunk_of, error):
    def broken(_query, _domain, _top_k):
        raise error("the key is hunter2")

    result = make_engine([(1, [chunk_of("a", 0.9)]), (2, broken)]).search(request())
    assert [chunk.chunk_id for chunk in result.chunks] == ["a"]
    assert result.status is Status.DEGRADED
    assert status(result).state == "failed"
    assert status(result).error == {
        "code": "unavailable",
        "message": f"source 't2': failed with {error.__name__} (its text is in the debug log)",
        "source_id": "t2",
        "retryable": False,
        "retry_after_s": None,
    }
    assert "hunter2" not in str(result.to_dict())


def test_what_a_configuration_lacks_is_said(make_engine, chunk_of):
    def rotated(_query, _domain, _top_k):
        raise MissingVariable("the file ../key cannot be read", file="config/connections.yaml", key="db.api_key")

    result = make_engine([(1, [chunk_of("a", 0.9)]), (2, rotated)]).search(request())
    said = "source 't2': config/connections.yaml: db.api_key: the file ../key cannot be read"
    assert status(result).error["message"] == said


def test_what_an_embedder_lacks_is_told(make_engine, chunk_of):
    def embedded(_query, _domain, _top_k):
        raise EmbedderError("there is no model in /models/x")

    result = make_engine([(1, [chunk_of("a", 0.9)]), (2, embedded)]).search(request())
    assert status(result).problem == "there is no model in /models/x"


@pytest.mark.parametrize(
    ("error", "code", "retryable", "retry_after_s"),
    [
        (SourceAuthError("the key was refused"), "auth", False, None),
        (SourceRateLimited("the quota is used up", retryable=True, retry_after_s=60.0), "rate_limited", True, 60.0),
        (SourceUnavailable("HTTP 503", retryable=True), "unavailable", True, None),
    ],
)
def test_a_source_error_is_passed_on_as_it_is(make_engine, chunk_of, error, code, retryable, retry_after_s):
    def broken(_query, _domain, _top_k):
        raise error

    told = status(make_engine([(1, [chunk_of("a", 0.9)]), (2, broken)]).search(request())).error
    assert (told["code"], told["retryable"], told["retry_after_s"]) == (code, retryable, retry_after_s)
    assert told["source_id"] == "t2"


def test_a_hanging_source_costs_one_search_its_limit_and_the_next_ones_nothing(make_engine, spec_of, chunk_of, hang):
    hung = Plain(hang)
    engine = make_engine([(1, [chunk_of("a", 0.9)]), (spec_of(2, timeout_s=0.2), hung), (5, [chunk_of("w", 0.9)])])
    first = engine.search(request())
    assert status(first).error["code"] == "timeout"
    assert status(first).error["message"] == "source 't2': no answer within 0.2 s"
    assert status(first).error["retryable"] is True
    for _ in range(3):
        result = engine.search(request(source_timeout_s=600.0, deadline_s=600.0))
        assert [chunk.chunk_id for chunk in result.chunks] == ["a", "w"]
        assert status(result).error["code"] == "busy"
        assert status(result).error["message"] == "source 't2': still busy with an overdue call"
        assert (result.status, result.decision) == (Status.DEGRADED, Decision.ANSWERED)
    assert hung.calls == 1


def test_the_deadline_of_the_search_bounds_every_source(make_engine, hang):
    with pytest.raises(AllSourcesFailed) as caught:
        make_engine([(2, Plain(hang))]).search(request(source_timeout_s=600.0, deadline_s=0.1))
    assert status(caught.value.result).error["message"] == "source 't2': no answer within 0.1 s"


def test_a_manifest_may_give_a_source_a_limit_of_its_own(make_engine, spec_of, chunk_of, hang):
    spec = spec_of(2, timeout_s=0.1)
    result = make_engine([(1, [chunk_of("a", 0.9)]), (spec, Plain(hang))]).search(request(source_timeout_s=600.0))
    assert status(result).error["message"] == "source 't2': no answer within 0.1 s"


def test_at_its_bound_a_source_is_busy_at_once(make_engine, chunk_of):
    inside, release = threading.Semaphore(0), threading.Event()

    def slow(_query, _domain, _top_k):
        inside.release()
        release.wait(30)
        return [chunk_of("b", 0.5)]

    three = {"settings": {"source_concurrency": 3}}
    engine = make_engine([(1, [chunk_of("a", 0.9)]), (2, slow)], domain_fields=three)
    results = []
    threads = [threading.Thread(target=lambda: results.append(engine.search(request()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert inside.acquire(timeout=10)
    refused = engine.search(request())
    assert (
        status(refused).error["message"]
        == "source 't2': not asked, because 3 calls are under way, as many as it may have now"
    )
    assert status(refused).error["code"] == "busy"
    assert [chunk.chunk_id for chunk in refused.chunks] == ["a"]
    release.set()
    for thread in threads:
        thread.join(10)
    assert [[chunk.chunk_id for chunk in result.chunks] for result in results] == [["a", "b"]] * 3


def test_a_thread_that_cannot_be_started_makes_the_source_busy_for_that_search_only(make_engine, chunk_of, monkeypatch):
    engine = make_engine([(2, [chunk_of("b", 0.5)])])

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        patch.setattr(EXECUTOR, "_idle", [])
        with pytest.raises(AllSourcesFailed, match="no thread could be started"):
            engine.search(request())
    assert status(engine.search(request())).state == "ok"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "search() returned NoneType instead of a SourceAnswer"),
        ("some text", "search() returned str instead of a SourceAnswer"),
        ([Chunk(content="text", chunk_id="x")], "search() returned list instead of a SourceAnswer"),
        (SourceAnswer(chunks=None), "its chunks are NoneType instead of a list"),
        (SourceAnswer(chunks="some text"), "its chunks are str instead of a list"),
        (SourceAnswer(chunks={"content": "text"}), "its chunks are dict instead of a list"),
        (SourceAnswer(chunks=iter(())), "its chunks are tuple_iterator instead of a list"),
        (SourceAnswer(chunks=7), "its chunks are int instead of a list"),
    ],
)
def test_an_answer_of_another_shape_is_a_protocol_error(make_engine, chunk_of, answer, message):
    result = make_engine([(1, [chunk_of("a", 0.9)]), (2, Plain(lambda _query: answer))]).search(request())
    assert [chunk.chunk_id for chunk in result.chunks] == ["a"]
    assert (status(result).error["code"], status(result).error["message"]) == ("protocol", f"source 't2': {message}")


@pytest.mark.parametrize("given", [None, "text", b"bytes", {"content": "x"}, 7])
def test_an_adapter_function_that_returns_no_list_is_a_protocol_error(make_engine, chunk_of, given):
    result = make_engine([(1, [chunk_of("a", 0.9)]), (2, lambda _query, _domain, _top_k: given)]).search(request())
    assert status(result).error["message"] == (
        f"source 't2': the adapter returned {type(given).__name__} instead of a list of chunks"
    )


def test_a_million_chunks_are_cut_at_top_k_and_counted(make_engine, chunk_of):
    class Million(list):
        """Counts what is looked at."""

        looked_at = 0

        def __len__(self):
            return 1_000_000

        def __iter__(self):
            for number in range(1_000_000):
                self.looked_at += 1
                yield chunk_of(f"{number:06d}", 0.5)

    chunks = Million()
    result = make_engine([(2, Plain(lambda _query: SourceAnswer(chunks=chunks, cut=5)))]).search(request())
    assert (status(result).chunks, status(result).cut) == (40, 999_960 + 5)
    assert chunks.looked_at == 40
    assert len(result.fates) == 40

    many = [{"content": f"Rule {number}", "chunk_id": str(number)} for number in range(1_000)] * 1_000
    result = make_engine([(2, lambda _query, _domain, _top_k: many)]).search(request())
    assert (status(result).chunks, status(result).cut) == (40, 999_960)


def test_an_endless_generator_is_read_to_top_k(make_engine, chunk_of):
    def endless(_query, _domain, _top_k):
        number = 0
        while True:
            number += 1
            yield chunk_of(f"{number:06d}", 0.5)

    result = make_engine([(2, endless)]).search(request(stage1_top_k=7))
    assert (status(result).chunks, status(result).cut) == (7, 0)


def test_chunks_without_text_are_refused_and_counted(make_engine, chunk_of):
    rubbish = [Chunk(content=""), Chunk(content=" \n\t"), Chunk(content=None), "text", None, 3, {"content": "a dict"}]
    answer = SourceAnswer(chunks=[chunk_of("a", 0.5), *rubbish])
    result = make_engine([(2, Plain(lambda _query: answer))]).search(request())
    assert (status(result).chunks, status(result).rejected, status(result).cut) == (1, 7, 0)
    (notice,) = result.notices
    assert (notice.code, notice.subject, notice.detail) == (NoticeCode.CHUNKS_REFUSED, "t2", {"count": 7})
    assert (result.stages[0].entered, result.stages[0].left) == (8, 1)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ScoreKind.RELEVANCE, float("nan")),
        (ScoreKind.RELEVANCE, float("inf")),
        (ScoreKind.RELEVANCE, 1.0000001),
        (ScoreKind.RELEVANCE, -0.1),
        (ScoreKind.RELEVANCE, None),
        (ScoreKind.RELEVANCE, True),
        (ScoreKind.RELEVANCE, "high"),
        (ScoreKind.COSINE, 12.4),
        (ScoreKind.COSINE, -1.1),
        (ScoreKind.WEIGHTED, 1.2),
        (ScoreKind.BM25, -3.0),
        (ScoreKind.BM25, float("-inf")),
        (ScoreKind.RERANK, float("nan")),
        (ScoreKind.UNKNOWN, float("nan")),
        ("cosine", 0.5),
    ],
)
def test_a_score_its_kind_cannot_be_counts_as_absent(make_engine, kind, value):
    scores = (Score(kind, value), Score(ScoreKind.FULLTEXT, 2.0))
    chunk = Chunk(content="The approval rule.", chunk_id="a", scores=scores)
    result = make_engine([(2, Plain(lambda _query: SourceAnswer(chunks=[chunk])))]).search(request())
    assert result.chunks[0].chunk.scores == (Score(ScoreKind.FULLTEXT, 2.0),)
    (notice,) = result.notices
    assert (notice.code, notice.detail["chunk_id"]) == (NoticeCode.SCORE_UNUSABLE, "a")


@pytest.mark.parametrize("scorer", [5, ["e5"]])
def test_a_score_whose_scorer_is_no_name_counts_as_absent(make_engine, scorer):
    """Two legs of one chunk are joined by kind and scorer: those must be comparable."""
    legs = [
        Chunk(content="The approval rule.", chunk_id="a", scores=(Score(ScoreKind.BM25, 1.0, name),))
        for name in (scorer, "index")
    ]
    result = make_engine([(2, Plain(lambda _query: SourceAnswer(chunks=legs)))]).search(request())
    assert result.chunks[0].chunk.scores == (Score(ScoreKind.BM25, 1.0, "index"),)


def test_numbers_of_other_libraries_are_scores_too(make_engine):
    chunk = Chunk(content="The approval rule.", chunk_id="a", scores=(Score(ScoreKind.COSINE, np.float32(0.5), "e5"),))
    result = make_engine([(2, Plain(lambda _query: SourceAnswer(chunks=[chunk])))]).search(request())
    [score] = result.chunks[0].chunk.scores
    assert (score, type(score.value)) == (Score(ScoreKind.COSINE, 0.5, "e5"), float)


@pytest.mark.parametrize(
    "field",
    [
        {"chunk_id": 7},
        {"source_id": 7},
        {"authority_tier": 0},
        {"authority_tier": 9},
        {"authority_tier": "1"},
        {"source_type": "system_of_record!"},
        {"trust_class": "TRUSTED?"},
        {"classification": "secret"},
        {"fetched_at": "yesterday"},
        {"fetched_at": SystemClock().now().replace(tzinfo=None)},
        {"fetched_at": BEYOND_TIME},
        {"fetched_at_basis": "guessed"},
        {"ttl_seconds": "3600"},
        {"ttl_seconds": -1},
        {"effective_from": "2026-01-01"},
        {"effective_to": SystemClock().now()},
        {"superseded_by": 2},
        {"document_id": 5},
        {"document_version": [3.2]},
        {"position": -1},
        {"span": (3,)},
        {"heading_path": "A > B"},
        {"metadata": None},
        {"metadata": ["a"]},
        {"extra": None},
        {"scores": None},
    ],
)
def test_a_field_that_is_not_what_it_should_be_counts_as_not_known(make_engine, chunk_of, spec_of, field):
    [name] = field
    rubbish = Chunk(content="The approval rule.", **field)
    for spec in (spec_of(2), spec_of(2, trust_document_metadata=True)):
        result = make_engine(
            [(1, [chunk_of("a", 0.9)]), (spec, Plain(lambda _query: SourceAnswer(chunks=[rubbish])))]
        ).search(request())
        assert len(result.chunks) == 2
        [kept] = [one.chunk for one in result.chunks if one.source_id == "t2"]
        assert getattr(kept, name) == Chunk._field_defaults[name]
        (notice,) = result.notices
        assert (notice.code, notice.detail["field"]) == (NoticeCode.FIELD_UNUSABLE, name)


@pytest.mark.parametrize("moment", ["now", 5, SystemClock().now().replace(tzinfo=None), BEYOND_TIME])
def test_a_time_of_answer_that_is_no_moment_is_replaced_by_the_clock(make_engine, chunk_of, now, moment):
    answer = SourceAnswer(chunks=[chunk_of("a", 0.5)], retrieved_at=moment)
    result = make_engine([(2, Plain(lambda _query: answer))]).search(request())
    assert result.raw[0].retrieved_at == now
    (notice,) = result.notices
    assert (notice.code, notice.detail["field"]) == (NoticeCode.FIELD_UNUSABLE, "retrieved_at")


def test_notes_and_cut_of_the_source_reach_the_status(make_engine, chunk_of):
    answer = SourceAnswer(chunks=[chunk_of("a", 0.5)], notes=("cut in half",), cut=3)
    result = make_engine([(2, Plain(lambda _query: answer))]).search(request())
    assert status(result).cut == 3
    for (notice,) in (status(result).notices, result.notices):
        assert (notice.code, notice.subject) == (NoticeCode.SOURCE_NOTE, "t2")


@pytest.mark.wording
def test_the_sentences_of_notices_are_published_the_search_names_the_source(make_engine, chunk_of):
    answer = SourceAnswer(chunks=[chunk_of("a", 0.5), None], notes=("cut in half",))
    result = make_engine([(2, Plain(lambda _query: answer))]).search(request())
    said = ("cut in half", "1 chunk(s) without text were refused")
    assert status(result).notes == said == tuple(result.to_dict()["sources"][0]["notes"])
    assert result.warnings == tuple(f"source 't2': {one}" for one in said)


def test_a_source_that_answers_in_part_is_partial_and_named(make_engine, chunk_of):
    failures = (SourceUnavailable("dataset 2: HTTP 503", retryable=True), SourceAuthError("dataset 3: refused"))
    answer = SourceAnswer(chunks=[chunk_of("a", 0.5)], failures=failures)
    result = make_engine([(2, Plain(lambda _query: answer))]).search(request())
    assert (status(result).state, status(result).error["code"]) == ("partial", "unavailable")
    assert status(result).error["message"] == "source 't2': dataset 2: HTTP 503; source 't2': dataset 3: refused"
    assert (result.status, result.decision) == (Status.DEGRADED, Decision.ANSWERED)
    nothing = SourceAnswer(failures=failures)
    result = make_engine([(2, Plain(lambda _query: nothing))]).search(request())
    assert (result.status, result.decision) == (Status.DEGRADED, Decision.INCOMPLETE)
    rubbish = SourceAnswer(failures=("HTTP 503",))
    result = make_engine([(1, [chunk_of("a", 0.9)]), (2, Plain(lambda _query: rubbish))]).search(request())
    assert status(result).error["message"] == "source 't2': its failures hold a str instead of a SourceError"


def test_what_a_source_is_asked(make_engine, chunk_of, now):
    seen = []
    engine = make_engine([(2, Plain(lambda query: seen.append(query) or SourceAnswer(chunks=[chunk_of("a", 0.5)])))])
    engine.search(request(stage1_top_k=17, deadline_s=3.0))
    [query] = seen
    assert (query.text, query.domain, query.top_k, query.timeout_s) == ("approval rule", "NPA", 17, 3.0)
    assert (query.as_of, query.search_id) == (now.date(), "s-000001")
