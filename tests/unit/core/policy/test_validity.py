"""What is in force on a day, and which of several versions stands."""

from datetime import UTC, date, datetime, timedelta
from itertools import permutations

import pytest

from context_engine.core.models import Chunk, FetchedAtBasis
from context_engine.core.policy.trust import Removal, freshness, in_force, superseded

DAY = date(2026, 3, 2)


def version(number, since=None, until=None, document="D", **fields):
    return Chunk(
        content=f"Version {number}.",
        chunk_id=f"v{number}",
        document_id=document,
        document_version=str(number),
        effective_from=since,
        effective_to=until,
        **fields,
    )


@pytest.mark.parametrize(
    ("since", "until", "reason"),
    [
        (None, None, None),
        (DAY, None, None),  # from is inclusive
        (DAY + timedelta(days=1), None, "not_yet_effective"),
        (None, DAY, "no_longer_effective"),  # to is exclusive
        (None, DAY + timedelta(days=1), None),
        (DAY, DAY, "no_longer_effective"),  # in force on no day
        (DAY, DAY + timedelta(days=1), None),
    ],
)
def test_in_force(since, until, reason):
    removal = in_force(version(1, since, until), DAY)
    assert (removal and removal.reason) == reason
    if removal:
        assert removal.limit == "2026-03-02"


def removed(*chunks, today=True, source="s"):
    pairs = [(source, chunk) for chunk in chunks]
    return {chunks[index].chunk_id: removal for index, removal in superseded(pairs, today=today).items()}


def test_the_version_that_came_into_force_last_stands_in_any_order():
    versions = [version(1, date(2024, 1, 1)), version(2, date(2025, 1, 1)), version(3, date(2026, 1, 1))]
    for order in permutations(versions):
        assert removed(*order, today=False) == {
            "v1": Removal("superseded", "1", "3"),
            "v2": Removal("superseded", "2", "3"),
        }


def test_the_date_decides_not_the_name_of_the_version():
    assert set(removed(version("9", date(2024, 1, 1)), version("10", date(2025, 1, 1)))) == {"v9"}


def test_a_version_without_a_date_is_older_than_one_with():
    assert set(removed(version(1), version(2, date(2025, 1, 1)))) == {"v1"}


def test_without_any_date_nothing_is_known_to_be_older():
    assert removed(version(1), version(2)) == {}


def test_two_versions_of_one_day_both_stand():
    assert removed(version(1, DAY), version(2, DAY)) == {}


def test_chunks_of_the_standing_version_all_stand():
    again = version(2, date(2025, 1, 1))._replace(chunk_id="v2b")
    assert set(removed(version(1, date(2024, 1, 1)), version(2, date(2025, 1, 1)), again)) == {"v1"}


def test_other_documents_and_other_sources_are_nobodys_versions():
    old, new = version(1, date(2024, 1, 1)), version(2, date(2025, 1, 1))
    assert removed(old, new._replace(document_id="E")) == {}
    assert superseded([("a", old), ("b", new)], today=True) == {}
    assert removed(old._replace(document_id=None), new._replace(document_id=None)) == {}


def test_a_named_successor_removes_it_today_unless_an_end_date_already_says_when():
    replaced = version(1, superseded_by="2")
    assert removed(replaced) == {"v1": Removal("superseded", "1", "2")}
    assert removed(replaced, today=False) == {}
    assert removed(replaced._replace(effective_to=date(2027, 1, 1))) == {}
    assert removed(Chunk(content="x", chunk_id="v1", superseded_by="B")) == {"v1": Removal("superseded", "", "B")}


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
