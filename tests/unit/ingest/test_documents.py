"""A16, A18: identity, claims, metadata and hash of documents and their chunks."""

from datetime import UTC, date, datetime
from hashlib import sha256

import pytest

from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models import Classification, DocumentRule, FetchedAtBasis, SourceType, TrustClass
from context_engine.ingest.documents import chunks_of, prepare
from context_engine.ingest.loaded_document import LoadedDocument
from context_engine.ingest.loaders import load

COUNTER = ApproxTokenCounter()
SOP = DocumentRule(include="*", doc_type="sop_document")
NOTICE = DocumentRule(include="*", doc_type="regulatory_notice")
BODY = "# Rules\n\n## 4 Class\n\nText one.\n\n### 4.1 New\n\nText two.\n"


def document(text=BODY, path="sops/a.md", **fields):
    return LoadedDocument(path=path, text=text, fields=fields)


def prepared(loaded=None, rule=SOP, **options):
    return prepare(loaded or document(), rule, COUNTER, **options)


def chunks(loaded=None, rule=SOP, **options):
    return chunks_of(prepared(loaded, rule, **options), COUNTER)


def test_chunk_ids_are_document_version_section():
    found = chunks(document(document_id="NPA-SOP-001", version="3.2"))
    assert [chunk.chunk_id for chunk in found] == ["NPA-SOP-001@3.2#4", "NPA-SOP-001@3.2#4.1"]
    assert [chunk.section for chunk in found] == ["4", "4.1"]
    assert [chunk.position for chunk in found] == [0, 1]


def test_without_version_and_id_the_file_name_and_without_section_the_position():
    (chunk,) = chunks(document("Just a page."))
    assert (chunk.chunk_id, chunk.document_id, chunk.document_version) == ("a#0", "a", None)


def test_parts_of_a_section_and_repeated_sections_get_a_number():
    text = (
        "## 4 Class\n\n"
        + "A sentence of seven words stands here. " * 100
        + "\n\n## 5 Next\n\nx\n\n## 4 Class\n\n"
        + "Again. " * 30
    )
    found = [chunk.chunk_id for chunk in chunks(document(text, document_id="A"))]
    assert found == ["A#4", "A#4~2", "A#5", "A#4~3"]


def test_ids_are_stable_and_unique():
    text = "".join(
        f"## {number} Part\n\nA rule of section {number} that binds all staff at once, wherever they work.\n\n"
        for number in (1, 2, 2, 3)
    )
    first, second = chunks(document(text)), chunks(document(text))
    assert first == second
    assert [chunk.chunk_id for chunk in first] == ["a#1", "a#2", "a#2~2", "a#3"]


def test_the_title_is_left_out_of_the_heading_path():
    found = chunks(document(title="Rules"))
    assert [chunk.heading_path for chunk in found] == [("4 Class",), ("4 Class", "4.1 New")]
    found = chunks(document(title="Another"))
    assert found[0].heading_path == ("Rules", "4 Class")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# Rules\n\ntext", "Rules"),
        ("Notes from a webinar\n\ntext", "Notes from a webinar"),
        ("**Notes**\n\ntext", "Notes"),
        ("A first line that is a sentence.\n\ntext", "a"),
        ("line one\nline two", "a"),
        ("1. Scope\n\nAll staff.", "a"),
    ],
)
def test_a_title_is_taken_from_the_text_where_front_matter_gives_none(text, title):
    assert prepared(document(text)).base.title == title


def test_spans_are_offsets_in_the_file(folder):
    content = "---\ntitle: A\n---\n" + BODY
    root = folder({"a.md": content})
    (loaded,) = load(root / "a.md", root)
    for chunk in chunks(loaded):
        assert content[slice(*chunk.span)] == chunk.content


def test_claims_become_typed_fields_and_leave_the_metadata():
    base = prepared(
        document(
            version="3.2",
            effective_from=date(2025, 1, 1),
            effective_to="2026-01-01",
            superseded_by="3.3",
            fetched_at="2026-03-02T10:00:00Z",
            ttl_seconds=3600,
            classification="Confidential",
            source_type="bank_sop",
            authority_tier=2,
            trust_class="trusted",
            owner="Office",
            tags=["a", "b"],
            date=date(2024, 12, 2),
        )
    ).base
    assert (base.effective_from, base.effective_to) == (date(2025, 1, 1), date(2026, 1, 1))
    assert (base.document_version, base.superseded_by, base.ttl_seconds) == ("3.2", "3.3", 3600)
    assert (base.fetched_at, base.fetched_at_basis) == (datetime(2026, 3, 2, 10, tzinfo=UTC), FetchedAtBasis.ORIGIN)
    assert base.classification is Classification.CONFIDENTIAL
    assert (base.source_type, base.authority_tier, base.trust_class) == (SourceType.BANK_SOP, 2, TrustClass.TRUSTED)
    assert base.metadata == {"owner": "Office", "tags": ["a", "b"], "date": "2024-12-02", "source_file": "sops/a.md"}


def test_nothing_claimed_is_none_never_a_default():
    base = prepared().base
    assert (base.fetched_at, base.fetched_at_basis, base.ttl_seconds, base.classification) == (None, None, None, None)
    assert (base.source_type, base.authority_tier, base.trust_class, base.effective_from) == (None, None, None, None)


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2026-03-02T10:00:00Z", datetime(2026, 3, 2, 10, tzinfo=UTC)),
        ("2026-03-02T10:00:00+08:00", datetime(2026, 3, 2, 2, tzinfo=UTC)),
        ("2026-03-02T10:00:00", datetime(2026, 3, 2, 10, tzinfo=UTC)),
        (datetime(2026, 3, 2, 10), datetime(2026, 3, 2, 10, tzinfo=UTC)),
        (date(2026, 3, 2), datetime(2026, 3, 2, tzinfo=UTC)),
    ],
)
def test_fetched_at_is_utc(value, moment):
    assert prepared(document(fetched_at=value)).base.fetched_at == moment


@pytest.mark.parametrize(
    "value", ["2026-01-15", "15 January 2026", "15 Jan 2026", "January 15, 2026", "2026年1月15日", date(2026, 1, 15)]
)
def test_dates_people_write(value):
    assert prepared(document(effective_from=value)).base.effective_from == date(2026, 1, 15)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("effective_from", "01/02/2026", "is not a date such as 2026-01-15; ignored"),
        ("fetched_at", "yesterday", "is not a moment"),
        ("ttl_seconds", -1, "is not a whole number of seconds, 0 or more"),
        ("ttl_seconds", True, "is not a whole number"),
        ("ttl_seconds", 1.5, "is not a whole number"),
        ("authority_tier", 0, "is not a tier from 1 to 5"),
        ("authority_tier", 9, "is not a tier from 1 to 5"),
        ("source_type", "gossip", "is not one of system_of_record"),
        ("trust_class", "maybe", "is not one of TRUSTED"),
        ("title", ["a"], "is not one line"),
        ("document_id", "x" * 201, "is not one line of at most 200"),
    ],
)
@pytest.mark.wording
def test_a_claim_that_cannot_be_read_is_a_warning_and_counts_as_not_made(field, value, says):
    found = prepared(document(**{field: value}))
    (warning,) = found.warnings
    assert warning.startswith(field)
    assert says in warning
    assert getattr(found.base, field) in (None, "a", "Rules")  # document_id and title fall back


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("internal", Classification.INTERNAL),
        ("Internal use only", Classification.INTERNAL),
        ("STRICTLY CONFIDENTIAL", Classification.CONFIDENTIAL),
        ("Public", Classification.PUBLIC),
    ],
)
def test_classifications_as_people_write_them(value, expected):
    found = prepared(document(classification=value))
    assert (found.base.classification, found.warnings) == (expected, ())


@pytest.mark.parametrize("value", ["secret", "public or internal", "level 3"])
@pytest.mark.wording
def test_an_unknown_classification_counts_as_restricted(value):
    found = prepared(document(classification=value))
    assert found.base.classification is Classification.RESTRICTED
    assert "taken as restricted" in found.warnings[0]


@pytest.mark.parametrize(
    ("claim", "rule", "expected"),
    [
        (None, "confidential", Classification.CONFIDENTIAL),
        ("public", "confidential", Classification.CONFIDENTIAL),
        ("restricted", "confidential", Classification.RESTRICTED),
        ("public", None, Classification.PUBLIC),
        (None, None, None),
    ],
)
def test_the_rule_raises_a_classification_and_never_lowers_it(claim, rule, expected):
    found = prepared(document(classification=claim), DocumentRule(include="*", classification=rule))
    assert found.base.classification is expected


@pytest.mark.wording
def test_dates_that_never_hold_are_a_warning():
    found = prepared(document(effective_from="2026-01-01", effective_to="2026-01-01"))
    assert found.warnings == ("effective_to 2026-01-01 is not after effective_from: never in force",)


def test_the_header_of_the_text_fills_what_front_matter_leaves_out():
    loaded = LoadedDocument(
        path="a.md",
        text=BODY,
        fields={"version": "3.2"},
        header={"version": "9", "effective_from": "2026-01-15", "document_id": "SOP-9", "owner": "Office"},
    )
    found = prepared(loaded)
    assert (found.document_id, found.version, found.named) == ("SOP-9", "3.2", True)
    assert found.base.effective_from == date(2026, 1, 15)
    assert found.base.metadata["owner"] == "Office"


def test_other_spellings_of_front_matter():
    base = prepared(document(**{"Document Version": "2", "Effective-Date": "2026-01-15", "Doc_ID": "X"})).base
    assert (base.document_version, base.effective_from, base.document_id) == ("2", date(2026, 1, 15), "X")
    assert base.metadata == {"source_file": "sops/a.md"}


@pytest.mark.parametrize(
    ("rule", "claim", "expected"),
    [
        (SOP, "template_document", "sop_document"),
        (DocumentRule(include="*"), "template_document", "template_document"),
        (None, "template_document", "template_document"),
        (None, None, "default"),
    ],
)
def test_the_type_is_the_rules_else_the_documents(rule, claim, expected):
    assert prepared(document(doc_type=claim), rule).base.doc_type == expected


def test_A18_metadata_of_a_procedure():
    found = chunks(document(version="3.2", date=date(2024, 12, 2)))
    wanted = ("section_number", "version", "date")
    assert [tuple(chunk.metadata[name] for name in wanted) for chunk in found] == [
        ("4", "3.2", "2024-12-02"),
        ("4.1", "3.2", "2024-12-02"),
    ]


def test_A18_the_date_of_a_procedure_without_one_is_its_first_day_in_force():
    assert chunks(document(effective_from="2026-01-15"))[0].metadata["date"] == "2026-01-15"


def test_A18_metadata_of_a_notice():
    loaded = document(jurisdiction="Aldermere", regulator="FCAA", notice_id="637")
    metadata = chunks(loaded, NOTICE)[0].metadata
    assert (metadata["jurisdiction"], metadata["regulator"], metadata["id"]) == ("Aldermere", "FCAA", "637")


def test_A18_metadata_of_a_template():
    metadata = chunks(
        document(template_id="T-1", version="1"), DocumentRule(include="*", doc_type="template_document")
    )[0].metadata
    assert (metadata["template_id"], metadata["version"]) == ("T-1", "1")


def test_A18_a_field_that_is_not_known_is_left_out():
    assert "jurisdiction" not in chunks(document(), NOTICE)[0].metadata


def record(**fields):
    return LoadedDocument(path="r.jsonl", text="Note (N-1)\nlimit: 5", fields=fields, record=True, line=3)


def test_A18_metadata_of_a_record_stays_typed():
    loaded = record(entity_id="N-1", fetched_at="2025-06-02T06:00:00Z", limit=5, share=0.5, live=True, day="2025-01-01")
    (chunk,) = chunks(loaded, None)
    assert chunk.doc_type == "entity_record"
    assert chunk.chunk_id == "N-1#0"
    assert chunk.metadata == {
        "entity_id": "N-1",
        "fetched_at": "2025-06-02T06:00:00Z",
        "limit": 5,
        "share": 0.5,
        "live": True,
        "day": "2025-01-01",
        "source_file": "r.jsonl",
        "token_count": COUNTER.count(chunk.content),
        "content_sha256": sha256(b"Note (N-1)\nlimit: 5").hexdigest(),
    }


@pytest.mark.parametrize(
    ("fields", "identity", "named"),
    [
        ({"entity_id": "E", "document_id": "D", "id": 1}, "E", True),
        ({"document_id": "D", "id": 1}, "D", True),
        ({"id": 7}, "7", True),
        ({"limit": 5}, "r:3", False),
        ({"entity_id": {"a": 1}}, "r:3", False),
    ],
)
def test_the_identity_of_a_record(fields, identity, named):
    found = prepared(record(**fields), None)
    assert (found.document_id, found.named) == (identity, named)


def test_A27_no_chunk_is_longer_than_the_limit():
    text = "# Rules\n\n" + "A sentence of seven words stands here. " * 100
    found = chunks(document(text), max_chunk_tokens=64)
    assert max(COUNTER.count(chunk.content) for chunk in found) <= 64


def test_metadata_is_json_whatever_front_matter_holds():
    loaded = document(
        nan=float("nan"), when=datetime(2026, 1, 1, 8), days={date(2026, 1, 1)}, deep={1: date(2026, 1, 2)}
    )
    assert prepared(loaded).base.metadata == {
        "nan": None,
        "when": "2026-01-01T08:00:00",
        "days": ["2026-01-01"],
        "deep": {"1": "2026-01-02"},
        "source_file": "sops/a.md",
    }


def test_the_hash_says_whether_anything_changed():
    same = prepared().content_hash
    assert prepared().content_hash == same
    assert len(same) == 64
    changed = [
        prepared(document(BODY + "x")),
        prepared(document(owner="Office")),
        prepared(document(path="other/a.md")),
        prepared(rule=NOTICE),
        prepared(rule=DocumentRule(include="*", doc_type="sop_document", classification="restricted")),
        prepared(max_chunk_tokens=256),
    ]
    assert len({same, *(one.content_hash for one in changed)}) == 1 + len(changed)
