"""What documents claim of themselves."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from context_engine.adapters.sources.dify import DifySettings
from context_engine.adapters.sources.dify.metadata import MetadataReader
from context_engine.core.models import Classification, FetchedAtBasis, SourceType, TrustClass


def claims(metadata, words=None, **names):
    notices = []
    settings = DifySettings(metadata=names, source_types=words or {})
    return MetadataReader(settings).claims(metadata, notices), notices


def test_only_names_of_the_manifest_are_read():
    assert claims({"authority_tier": 1, "effective_from": "2024-04-01"}) == ({}, [])


@pytest.mark.parametrize(
    ("value", "tier"), [(2, 2), ("2", 2), ("tier2", 2), ("Tier 2", 2), ("tier_5", 5), (2.0, 2), (2.5, None)]
)
def test_tiers(value, tier):
    found, notices = claims({"t": value}, authority_tier="t")
    assert found.get("authority_tier") == tier
    assert len(notices) == (tier is None)


@pytest.mark.parametrize("value", [0, 6, "tier6", True, "high", [1]])
def test_tiers_that_do_not_exist_count_as_not_known(value):
    found, notices = claims({"t": value}, authority_tier="t")
    assert found == {}
    (notice,) = notices
    assert (notice.code, notice.detail["field"]) == ("field_unusable", "authority_tier")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("bank_sop", SourceType.BANK_SOP),
        ("Bank SOP", SourceType.BANK_SOP),
        ("internal-sop", SourceType.BANK_SOP),
        ("Internal SOP", SourceType.BANK_SOP),
        ("unknown", None),
    ],
)
def test_source_types_in_the_banks_own_words(value, kind):
    assert claims({"k": value}, {"internal_sop": "bank_sop"}, source_type="k")[0].get("source_type") == kind


@pytest.mark.parametrize(
    ("value", "day"),
    [
        ("2024-04-01", date(2024, 4, 1)),
        (20240401, date(2024, 4, 1)),
        (20240401.0, date(2024, 4, 1)),
        ("20240401", date(2024, 4, 1)),
        (1711929600, date(2024, 4, 1)),
        ("1711929600", date(2024, 4, 1)),
        (1711929600.5, date(2024, 4, 1)),
        ("soon", None),
        (20241301, date(1970, 8, 23)),  # no day of that number: seconds since 1970
        ({}, None),
    ],
)
def test_days(value, day):
    assert claims({"d": value}, effective_from="d")[0].get("effective_from") == day


def test_when_the_content_left_its_origin():
    found, _ = claims({"at": 1711929600}, fetched_at="at")
    assert found == {"fetched_at": datetime(2024, 4, 1, tzinfo=UTC), "fetched_at_basis": FetchedAtBasis.ORIGIN}


def test_the_other_fields():
    metadata = {"trust": "untrusted", "class": "Restricted", "v": 3.2, "ttl": "3600", "kind": "policy", "none": None}
    found, notices = claims(
        metadata, trust_class="trust", classification="class", document_version="v", ttl_seconds="ttl", doc_type="kind",
        section="none", superseded_by="missing",
    )  # fmt: skip
    assert found == {
        "trust_class": TrustClass.UNTRUSTED,
        "classification": Classification.RESTRICTED,
        "document_version": "3.2",
        "ttl_seconds": 3600,
        "doc_type": "policy",
    }
    assert notices == []


def test_a_classification_that_cannot_be_read_is_the_highest():
    found, notices = claims({"class": "C4 - board"}, classification="class")
    assert found == {"classification": Classification.RESTRICTED}
    assert [notice.detail["field"] for notice in notices] == ["classification"]


def test_a_time_is_a_day_where_the_bank_is():
    """Dify keeps midnight in Singapore as 16:00 of the day before, UTC."""
    midnight = datetime(2025, 1, 1, tzinfo=ZoneInfo("Asia/Singapore")).timestamp()
    settings = DifySettings(metadata={"effective_from": "effective_date"})
    read = MetadataReader(settings, "Asia/Singapore").claims({"effective_date": midnight}, [])
    assert read["effective_from"] == date(2025, 1, 1)
    assert MetadataReader(settings).claims({"effective_date": midnight}, [])["effective_from"] == date(2024, 12, 31)
