"""Freshness: fetched_at + ttl against the clock, to the microsecond."""

from datetime import UTC, datetime, timedelta

import pytest

from context_engine.core.models import Chunk, FetchedAtBasis
from context_engine.core.policy.freshness import freshness

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
ANSWERED = datetime(2026, 3, 2, 9, 59, tzinfo=UTC)


def state(spec, **fields):
    return freshness(Chunk(content="x", **fields), spec, now=NOW, retrieved_at=ANSWERED)


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        (timedelta(0), "fresh"),
        (timedelta(seconds=3600), "fresh"),  # to the moment
        (timedelta(seconds=3600, microseconds=1), "expired"),
        (timedelta(days=400), "expired"),
        (timedelta(days=-1), "fresh"),  # a clock ahead of ours
    ],
)
def test_it_expires_after_its_ttl_not_at_it(spec_of, age, expected):
    found = state(spec_of(2), fetched_at=NOW - age, ttl_seconds=3600)
    assert (found.state, found.basis, found.ttl_seconds) == (expected, FetchedAtBasis.ORIGIN, 3600)


def test_the_chunks_ttl_comes_before_the_manifests(spec_of):
    spec = spec_of(2, ttl_seconds=60)
    fetched_at = NOW - timedelta(seconds=90)
    assert state(spec, fetched_at=fetched_at).state == "expired"
    assert state(spec, fetched_at=fetched_at, ttl_seconds=120).state == "fresh"
    assert state(spec_of(2)).ttl_seconds == 3600


def test_a_ttl_of_zero_is_a_ttl(spec_of):
    assert state(spec_of(2), fetched_at=NOW, ttl_seconds=0).state == "fresh"
    assert state(spec_of(2), fetched_at=NOW - timedelta(microseconds=1), ttl_seconds=0).state == "expired"
    assert state(spec_of(2, ttl_seconds=0), fetched_at=NOW - timedelta(seconds=1)).state == "expired"


def test_the_time_of_the_answer_says_nothing_about_age(spec_of):
    found = state(spec_of(2), ttl_seconds=0)
    assert (found.fetched_at, found.basis, found.state) == (ANSWERED, FetchedAtBasis.RETRIEVED, "unknown")
    old = NOW - timedelta(days=400)
    found = state(spec_of(2), fetched_at=old, fetched_at_basis=FetchedAtBasis.RETRIEVED)
    assert (found.fetched_at, found.state) == (old, "unknown")


def test_the_time_of_indexing_counts_and_is_named(spec_of):
    found = state(spec_of(2), fetched_at=NOW - timedelta(hours=2), fetched_at_basis=FetchedAtBasis.INDEXED)
    assert (found.basis, found.state) == (FetchedAtBasis.INDEXED, "expired")


def test_zones_do_not_matter(spec_of):
    singapore = (NOW - timedelta(seconds=3600)).astimezone(datetime.fromisoformat("2026-01-01T00:00+08:00").tzinfo)
    assert state(spec_of(2), fetched_at=singapore).state == "fresh"


def test_a_ttl_longer_than_the_calendar_is_a_ttl(spec_of):
    assert state(spec_of(2), fetched_at=NOW - timedelta(days=9000), ttl_seconds=10**30).state == "fresh"
