"""Chunk dicts: where a value is looked for, what counts as absent, and that nothing is lost."""

from copy import deepcopy
from datetime import UTC, date, datetime
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import (
    Chunk,
    Classification,
    FetchedAtBasis,
    NoticeCode,
    Score,
    ScoreKind,
    SourceType,
    TrustClass,
    chunk_from_dict,
    messages,
    to_date,
    to_moment,
)
from context_engine.errors import InvalidRequest

LOOKED_UP = [
    ("trust_class", "UNTRUSTED", "TRUSTED", TrustClass.UNTRUSTED, TrustClass.TRUSTED),
    (
        "fetched_at",
        "2026-01-01T00:00:00Z",
        "2025-01-01T00:00:00Z",
        *(datetime(y, 1, 1, tzinfo=UTC) for y in (2026, 2025)),
    ),
    ("ttl_seconds", 60, 120, 60, 120),
    ("document_id", "D1", "D2", "D1", "D2"),
    ("position", 3, 4, 3, 4),
    ("effective_from", "2026-01-01", "2025-01-01", date(2026, 1, 1), date(2025, 1, 1)),
    ("effective_to", "2026-01-01", "2025-01-01", date(2026, 1, 1), date(2025, 1, 1)),
    ("superseded_by", "v2", "v3", "v2", "v3"),
    ("source_type", "bank_sop", "general_web", SourceType.BANK_SOP, SourceType.GENERAL_WEB),
    ("authority_tier", 2, 5, 2, 5),
    ("classification", "restricted", "public", Classification.RESTRICTED, Classification.PUBLIC),
    ("fetched_at_basis", "origin", "indexed", FetchedAtBasis.ORIGIN, FetchedAtBasis.INDEXED),
]


@pytest.mark.parametrize(("key", "first", "second", "read_first", "read_second"), LOOKED_UP)
def test_the_top_level_comes_before_provenance_before_metadata(key, first, second, read_first, read_second):
    def read(**places):
        return getattr(chunk_from_dict({"content": "x", **places}), key)

    assert read(**{key: first}, _provenance={key: second}, metadata={key: second}) == read_first
    assert read(_provenance={key: first}, metadata={key: second}) == read_first
    assert read(_provenance={"extra": {key: first}}, metadata={key: second}) == read_first
    assert read(_provenance={key: first, "extra": {key: second}}) == read_first
    assert read(metadata={key: second}) == read_second
    assert read(**{key: None}, _provenance={key: None}, metadata={key: second}) == read_second
    assert read() is None


def test_a_falsy_value_is_a_value():
    chunk = chunk_from_dict(
        {"content": "x", "ttl_seconds": 0, "position": 0, "metadata": {"ttl_seconds": 9, "position": 9}}
    )
    assert (chunk.ttl_seconds, chunk.position) == (0, 0)


def test_the_seeds_keys():
    chunk = chunk_from_dict(
        {
            "content": "The rule.",
            "chunk_id": "chunk_042",
            "source_id": "bank_sops",
            "source_type": "bank_sop",
            "authority_tier": 2,
            "domain": "NPA",
            "relevance_score": 0.9,
            "metadata": {"version": 3, "year": 2026},
        }
    )
    assert (chunk.chunk_id, chunk.source_id, chunk.source_type) == ("chunk_042", "bank_sops", SourceType.BANK_SOP)
    assert (chunk.authority_tier, chunk.document_version) == (2, "3")
    assert chunk.scores == (Score(ScoreKind.RELEVANCE, 0.9),)
    assert chunk.extra == {"domain": "NPA", "relevance_score": 0.9}


# -- scores -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"relevance_score": 0.7}, [Score(ScoreKind.RELEVANCE, 0.7)]),
        ({"relevance_score": 0}, [Score(ScoreKind.RELEVANCE, 0.0)]),
        ({"relevance_score": 1}, [Score(ScoreKind.RELEVANCE, 1.0)]),
        ({"relevance_score": None, "score": None}, []),
        ({"score": 0.7}, [Score(ScoreKind.UNKNOWN, 0.7)]),
        ({"score": 0.7, "score_kind": "cosine"}, [Score(ScoreKind.COSINE, 0.7)]),
        ({"score": 12.4, "score_kind": "bm25"}, [Score(ScoreKind.BM25, 12.4)]),
        ({"score": 12.4, "score_kind": "rerank"}, [Score(ScoreKind.RERANK, 12.4)]),
        (
            {"scores": [{"kind": "cosine", "value": 0.5, "scorer": "e5"}], "relevance_score": 0.6, "score": 3},
            [Score(ScoreKind.COSINE, 0.5, "e5"), Score(ScoreKind.RELEVANCE, 0.6), Score(ScoreKind.UNKNOWN, 3.0)],
        ),
    ],
)
def test_scores(given, expected):
    notices = []
    assert list(chunk_from_dict({"content": "x", **given}, notices).scores) == expected
    assert notices == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1.0000001, -0.1, 7, "high", True, [], {}])
def test_a_relevance_that_is_none_counts_as_absent_with_a_warning_and_survives(value):
    notices = []
    chunk = chunk_from_dict({"content": "x", "chunk_id": "c", "relevance_score": value}, notices)
    assert chunk.scores == ()
    (notice,) = notices
    assert notice.code is NoticeCode.SCORE_UNUSABLE
    assert notice.detail == {"chunk_id": "c", "kind": "relevance", "value": repr(value)}
    assert repr(chunk.extra["relevance_score"]) == repr(value)


@pytest.mark.parametrize(
    ("kind", "value"), [("cosine", 12.4), ("cosine", -2), ("weighted", 1.5), ("bm25", -1), ("unknown", float("nan"))]
)
def test_so_does_a_score_its_kind_cannot_be(kind, value):
    notices = []
    assert chunk_from_dict({"content": "x", "score": value, "score_kind": kind}, notices).scores == ()
    assert [notice.code for notice in notices] == [NoticeCode.SCORE_UNUSABLE]


@pytest.mark.wording
def test_what_is_said_of_a_chunk_dict():
    notices = []
    chunk_from_dict({"content": "x", "chunk_id": "c", "relevance_score": 7, "span": [1]}, notices)
    assert messages(notices) == (
        "chunk c: relevance score 7 is not a usable number and counts as absent",
        "chunk c: span [1] cannot be read",
    )


# -- what cannot be a chunk -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "a chunk must be a dict with 'content', got NoneType"),
        ("text", "got str"),
        ([("content", "x")], "got list"),
        ({}, "chunk '\\?' has no text in 'content'"),
        ({"content": None}, "has no text"),
        ({"content": ""}, "has no text"),
        ({"content": " \n\t "}, "has no text"),
        ({"content": b"bytes"}, "has no text"),
        ({"content": 7, "chunk_id": "c9"}, "chunk 'c9' has no text in 'content'"),
        ({"content": "x", "authority_tier": 0}, "authority_tier must be a whole number from 1 to 5, got 0"),
        ({"content": "x", "authority_tier": 9}, "got 9"),
        ({"content": "x", "authority_tier": True}, "got True"),
        ({"content": "x", "authority_tier": "2"}, "got '2'"),
        ({"content": "x", "authority_tier": 1.5}, "got 1.5"),
        ({"content": "x", "_provenance": {"authority_tier": 9}}, "got 9"),
        (
            {"content": "x", "source_type": "bank_sops"},
            "source_type 'bank_sops' does not exist. Did you mean 'bank_sop'",
        ),
        ({"content": "x", "trust_class": "trusted"}, "trust_class 'trusted' does not exist. Did you mean 'TRUSTED'"),
        ({"content": "x", "classification": "secret"}, "classification 'secret' does not exist. Valid: "),
        (
            {"content": "x", "score": 1, "score_kind": "cosin"},
            "score_kind 'cosin' does not exist. Did you mean 'cosine'",
        ),
        ({"content": "x", "scores": [0.5]}, "'scores' takes dicts of kind, value and scorer, got 0.5"),
    ],
)
def test_what_is_refused_and_why(given, message):
    with pytest.raises(InvalidRequest, match=message):
        chunk_from_dict(given)


@pytest.mark.parametrize(
    ("key", "value"),
    [("authority_tier", "high"), ("source_type", "upload_file"), ("classification", "C2"), ("trust_class", "yes")],
)
def test_another_systems_word_in_metadata_says_nothing_and_is_noted(key, value):
    notices = []
    chunk = chunk_from_dict({"content": "x", "metadata": {key: value}}, notices)
    assert getattr(chunk, key) is None
    assert chunk.metadata == {key: value}
    (notice,) = notices
    assert (notice.code, notice.detail["field"]) == (NoticeCode.FIELD_UNUSABLE, key)


# -- nothing is lost --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fetched_at", "yesterday"),
        ("fetched_at", "9999-12-31T23:59:59-05:00"),
        ("ttl_seconds", "an hour"),
        ("ttl_seconds", -1),
        ("position", "third"),
        ("span", [1]),
        ("span", [0, float("inf")]),
        ("effective_from", "spring"),
        ("heading_path", "Scope > Limits"),
        ("heading_path", 7),
        ("metadata", "year=2026"),
        ("metadata", ["a"]),
        ("scores", "0.5"),
    ],
)
def test_a_value_that_cannot_be_read_is_kept_and_noted(key, value):
    notices = []
    chunk = chunk_from_dict({"content": "x", "chunk_id": "c", key: value}, notices)
    assert chunk.extra[key] == value
    (notice,) = notices
    assert notice.code is NoticeCode.FIELD_UNUSABLE
    assert notice.detail == {"chunk_id": "c", "field": key, "value": repr(value)}
    assert chunk.to_dict()[key] == (value if value != [0, float("inf")] else [0, None])


def test_unknown_keys_survive():
    given = {"content": "x", "canonical_url": "https://bank.example", "tags": ["a"], "year": 2026, "nested": {"a": [1]}}
    out = chunk_from_dict(given).to_dict()
    assert {key: out[key] for key in given} == given


def test_the_input_is_never_changed_nor_shared():
    given = {"content": "x", "metadata": {"tags": ["a"]}, "nested": {"b": [1]}, "score": 0.5}
    before = deepcopy(given)
    out = chunk_from_dict(MappingProxyType(given)).to_dict()
    out["metadata"]["tags"].append("b")
    out["nested"]["b"].append(2)
    assert given == before


def test_what_ranking_computed_is_computed_anew():
    given = {"content": "x", "rank": 3, "_rag_score": 0.7, "_relevance_score": 0.5, "_authority_boost": 0.1}
    assert chunk_from_dict({**given, "_provenance": {"source_id": "s"}}) == Chunk(content="x", source_id="s")


def test_a_whole_chunk_makes_the_round_trip():
    chunk = Chunk(
        content="The rule.",
        chunk_id="c",
        source_id="s",
        scores=(Score(ScoreKind.COSINE, 0.5, "e5"), Score(ScoreKind.RERANK, 4.5)),
        document_id="D",
        document_version="3.2",
        dataset_id="ds",
        title="Title",
        section="4.2",
        heading_path=("Scope", "Limits"),
        doc_type="sop_document",
        position=0,
        span=(10, 20),
        source_type=SourceType.BANK_SOP,
        authority_tier=2,
        trust_class=TrustClass.TRUSTED,
        classification=Classification.INTERNAL,
        fetched_at=datetime(2026, 3, 2, 10, 0, 0, 5, tzinfo=UTC),
        fetched_at_basis=FetchedAtBasis.INDEXED,
        ttl_seconds=0,
        effective_from=date(2026, 1, 1),
        effective_to=date(2027, 1, 1),
        superseded_by="4.0",
        metadata={"year": 2026},
        extra={"url": "https://bank.example"},
    )
    assert all(value not in (None, (), "") for value in chunk)
    assert chunk_from_dict(chunk.to_dict()) == chunk


KINDS = st.sampled_from([kind for kind in ScoreKind if kind is not ScoreKind.RELEVANCE])
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12).filter(str.strip)
DICTS = st.fixed_dictionaries(
    {"content": WORDS},
    optional={
        "chunk_id": WORDS,
        "relevance_score": st.floats(0, 1),
        "score": st.floats(0, 1),
        "score_kind": KINDS.map(str),
        "authority_tier": st.integers(1, 5),
        "position": st.integers(0, 99),
        "ttl_seconds": st.integers(0, 10**9),
        "heading_path": st.lists(WORDS, min_size=1, max_size=3),
        "fetched_at": st.datetimes(min_value=datetime(1990, 1, 1)).map(lambda moment: moment.isoformat() + "Z"),
        "effective_from": st.dates().map(date.isoformat),
        "metadata": st.dictionaries(st.sampled_from(["year", "tags", "ünï"]), st.integers() | st.lists(WORDS)),
        "x_anything": st.none() | WORDS | st.lists(st.integers()),
    },
)


@given(DICTS)
def test_reading_writing_and_reading_again_gives_the_same_chunk(given):
    chunk = chunk_from_dict(given)
    out = chunk.to_dict()
    assert chunk_from_dict(out) == chunk
    assert all(out[key] == value for key, value in given.items() if key.startswith(("x_", "content", "metadata")))


# -- dates ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-03-02T10:00:00Z", datetime(2026, 3, 2, 10, tzinfo=UTC)),
        (" 2026-03-02T18:00:00+08:00 ", datetime(2026, 3, 2, 10, tzinfo=UTC)),
        ("2026-03-02T10:00:00", datetime(2026, 3, 2, 10, tzinfo=UTC)),
        ("2026-03-02", datetime(2026, 3, 2, tzinfo=UTC)),
        (date(2026, 3, 2), datetime(2026, 3, 2, tzinfo=UTC)),
        (datetime(2026, 3, 2), datetime(2026, 3, 2, tzinfo=UTC)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (1772445600.5, datetime(2026, 3, 2, 10, 0, 0, 500000, tzinfo=UTC)),
        (None, None),
        ("", None),
        ("soon", None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**20, None),
        ([], None),
    ],
)
def test_moments(value, expected):
    assert to_moment(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (date(2026, 3, 2), date(2026, 3, 2)),
        ("2026-03-02", date(2026, 3, 2)),
        ("2026-03-02T23:59:59Z", date(2026, 3, 2)),
        (datetime(2026, 3, 2, 23, tzinfo=UTC), date(2026, 3, 2)),
        (0, date(1970, 1, 1)),
        ("March", None),
        (None, None),
    ],
)
def test_days(value, expected):
    assert to_date(value) == expected
