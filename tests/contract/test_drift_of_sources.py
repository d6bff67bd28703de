"""Answers over an embedded base and over Dify; then their documents change, and each change is told for what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace, places
from context_engine.audit.review.drift import ChunkDrift, ChunkState, FieldChange, drift
from context_engine.audit.review.shown import shown_chunks
from context_engine.core.engine import Engine, SystemClock
from context_engine.core.models import (
    NOBODY,
    Classification,
    DomainSpec,
    Principal,
    Registry,
    SearchRequest,
    SourceSpec,
)
from context_engine.core.policy.access import ManifestPolicy
from context_engine.core.protocols import Source
from context_engine.ingest.run import ingest
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify, FakeDocument, FakeSegment
from context_engine.testing.fakes import FixedClock

AUDITOR = Principal(id="auditor", clearance=Classification.RESTRICTED)
QUESTION = "approval limit of the desk"
HEAD = "---\ndocument_id: LIMITS\nversion: '{version}'\neffective_from: {since}\n{more}---\n# Limits\n\n"
FIRST = "## 1 Desk\n\nThe approval limit of the desk is 5 million a day, and its head may not raise it.\n\n"
SECOND = "## 2 Review\n\nThe approval limit of each desk is reviewed by the risk officer in May and in November.\n"


def told(found: Sequence[ChunkDrift]) -> list[tuple[str, str]]:
    """(section, state) of each chunk, by its section."""
    return sorted((str(one.shown.chunk and one.shown.chunk.section), str(one.state)) for one in found)


class Kept:
    """An answer over one source, and what became of it."""

    def __init__(self, spec: SourceSpec, open_source: Callable[[], Source]) -> None:
        domain = DomainSpec(version=1, domain="NPA", sources=(spec,))
        policy = ManifestPolicy({"NPA": domain})
        self.engine = Engine(
            Registry(domains={"NPA": domain}), lambda _domain, _spec: open_source(), access=policy, clock=FixedClock()
        )
        self.day = FixedClock().now().date()

    def answer(self, principal: Principal = AUDITOR) -> None:
        settings = {"min_relevance_score": 0.0, "dedup_threshold": 1.0}
        request = SearchRequest(query=QUESTION, domain="NPA", principal=principal, overrides=settings)
        self.shown = shown_chunks(self.engine.search(request))

    def drift(self, principal: Principal = AUDITOR) -> tuple[ChunkDrift, ...]:
        return drift(
            self.shown, lambda source, wanted: self.engine.fetch(source, wanted, principal), domain="NPA", day=self.day
        )


class Base(Kept):
    """An embedded base that a folder of documents is ingested into."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder / "documents", folder / "base"
        self.folder.mkdir()
        rules = [{"include": "*.md", "doc_type": "sop_document"}]
        self.spec = SourceSpec(
            id="sops", type="bank_sop", adapter="local", documents=rules, classification=Classification.INTERNAL
        )
        place = SourcePlace("", self.spec.classification)
        super().__init__(self.spec, lambda: LocalSource(self.path, "sops", spec=self.spec, place=place))

    def write(self, name: str = "limits.md", body: str = FIRST + SECOND, **head: Any) -> None:
        head = {"version": "1", "since": "2025-01-01", "more": "", **head}
        (self.folder / name).write_text(HEAD.format(**head) + body)

    def ingest(self) -> None:
        clock = lambda: datetime(2026, 3, 1, tzinfo=UTC)  # noqa: E731
        with LocalBase(self.path, now=clock, place=places([self.spec], lambda _: "")) as base, base.writer() as writer:
            ingest(self.folder, self.spec, writer, prune=True, allow_empty=True)


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Base]:
    made = Base(tmp_path)
    made.write()
    made.write("other.md", "## 1 Other\n\nThe register of desks is kept by operations.\n", version="9")
    (made.folder / "other.md").write_text((made.folder / "other.md").read_text().replace("LIMITS", "OTHER"))
    made.ingest()
    made.answer()
    assert [one.document_id for one in made.shown].count("LIMITS") == 2
    yield made
    made.engine.close()


class TestEmbeddedBase:
    def test_nothing_changes_by_ingesting_again(self, base: Base) -> None:
        base.ingest()
        assert {one.state for one in base.drift()} == {ChunkState.UNCHANGED}

    def test_an_edit_is_told_by_its_words_and_the_rest_stays(self, base: Base) -> None:
        base.write(body=FIRST.replace("5 million", "7 million") + SECOND)
        base.ingest()
        found = [one for one in base.drift() if one.shown.document_id == "LIMITS"]
        assert told(found) == [("1", "changed"), ("2", "unchanged")]
        (changed,) = [one for one in found if one.text_changed]
        assert [(one.was, one.now) for one in changed.text] == [("5", "7")] and not changed.fields

    def test_a_section_before_it_moves_a_text_and_changes_nothing_but_its_number(self, base: Base) -> None:
        moved = FIRST.replace("## 1", "## 2") + SECOND.replace("## 2", "## 3")
        base.write(body="## 1 Purpose\n\nThis procedure says what a desk may approve by itself.\n\n" + moved)
        base.ingest()
        for one in base.drift():
            assert one.shown.document_id == "OTHER" or (one.now_id and one.fields)
            assert {change.name for change in one.fields} <= {"section", "heading_path"} | {
                change.name for change in one.fields if change.name.startswith("metadata.")
            }

    def test_a_deleted_document_is_gone(self, base: Base) -> None:
        (base.folder / "limits.md").unlink()
        base.ingest()
        found = {one.shown.document_id: one for one in base.drift()}
        assert (found["LIMITS"].state, found["LIMITS"].why) == (ChunkState.GONE, "its document no longer exists")
        assert all(one.state is ChunkState.UNCHANGED for name, one in found.items() if name != "LIMITS")

    def test_a_document_cut_in_another_way(self, base: Base) -> None:
        base.write(body=FIRST.replace("## 1 Desk\n\n", "") + SECOND.replace("## 2 Review\n\n", ""))
        base.ingest()
        found = [one for one in base.drift() if one.shown.document_id == "LIMITS"]
        assert {one.state for one in found} == {ChunkState.CHANGED}

    def test_a_newer_version_beside_it_supersedes_it(self, base: Base) -> None:
        base.write("limits2.md", FIRST.replace("5", "7") + SECOND, version="2", since="2026-01-01")
        base.ingest()
        found = [one for one in base.drift() if one.shown.document_id == "LIMITS"]
        assert {(str(one.state), one.superseded_by) for one in found} == {("superseded", "2")}
        assert not any(one.text_changed for one in found)

    def test_a_newer_version_in_its_place_is_compared_with_it(self, base: Base) -> None:
        base.write(body=FIRST.replace("5", "7") + SECOND, version="2", since="2026-01-01")
        base.ingest()
        found = [one for one in base.drift() if one.shown.document_id == "LIMITS"]
        assert {(str(one.state), one.superseded_by) for one in found} == {("superseded", "2")}
        assert [[(change.was, change.now) for change in one.text] for one in found if one.text_changed] == [
            [("5", "7")]
        ]

    def test_a_raised_classification_is_a_change_for_who_may_read_it_and_gone_for_others(self, base: Base) -> None:
        base.write(more="classification: restricted\n")
        base.ingest()
        raised = FieldChange("classification", None, "restricted")
        found = [one for one in base.drift() if one.shown.document_id == "LIMITS"]
        assert all(raised in one.fields and one.state is ChunkState.CHANGED for one in found)
        hidden = [one for one in base.drift(NOBODY) if one.shown.document_id == "LIMITS"]
        assert {(one.state, one.why) for one in hidden} == {(ChunkState.GONE, "its document no longer exists")}

    def test_a_base_that_is_not_there_cannot_be_checked(self, base: Base) -> None:
        base.engine.close()
        for file in base.path.glob("base.sqlite3*"):
            file.unlink()
        again = Base.__new__(Base)
        again.__dict__ |= {**base.__dict__}
        Kept.__init__(again, base.spec, lambda: LocalSource(base.path, "sops", spec=base.spec))
        assert {one.state for one in again.drift()} == {ChunkState.CANNOT_CHECK}


LIMITS = FakeDocument(
    "Limits",
    ["The approval limit of the desk is 5 million a day.", "The approval limit of each desk is reviewed in May."],
    {"owner": "risk", "edition": "1"},
)


class InDify(Kept):
    def __init__(self, dify: FakeDify) -> None:
        self.dify = dify
        connection = Connection(base_url=dify.base_url, api_key=dify.api_key)
        names = {"document_version": "edition", "classification": "secrecy"}
        spec = SourceSpec(
            id="sops", type="bank_sop", adapter="dify", connection="dify", dataset_ids=(dify.dataset_id("Rules"),),
            settings={"cache_ttl_s": 0, "metadata": names, "attempts": 1},
        )  # fmt: skip
        super().__init__(spec, lambda: DifySource(spec, Workspace(lambda: connection, SystemClock()), SystemClock()))

    def write(self, *documents: FakeDocument) -> None:
        self.dify.put(FakeDataset("Rules", documents=documents))


@pytest.fixture
def in_dify() -> Iterator[InDify]:
    with FakeDify([FakeDataset("Rules", documents=[LIMITS])]) as dify:
        made = InDify(dify)
        made.answer()
        assert len(made.shown) == 2
        yield made
        made.engine.close()


class TestDify:
    def test_nothing_changed(self, in_dify: InDify) -> None:
        assert {one.state for one in in_dify.drift()} == {ChunkState.UNCHANGED}

    def test_an_edited_segment(self, in_dify: InDify) -> None:
        texts = [str(one) for one in LIMITS.segments]
        in_dify.write(replace(LIMITS, segments=[texts[0].replace("5", "7"), texts[1]]))
        changed = [one for one in in_dify.drift() if one.state is ChunkState.CHANGED]
        assert [[(word.was, word.now) for word in one.text] for one in changed] == [[("5", "7")]]

    @pytest.mark.parametrize("left", [[], [FakeSegment(str(LIMITS.segments[0]), enabled=False), LIMITS.segments[1]]])
    def test_a_segment_that_was_deleted_or_disabled(self, left: list[Any], in_dify: InDify) -> None:
        second = FakeSegment("The desk keeps a register.", id="00000000-0000-4000-8000-00000000beef")
        in_dify.write(replace(LIMITS, segments=left or [second]))
        first = next(one for one in in_dify.drift() if "5 million" in str(one.shown.chunk and one.shown.chunk.content))
        assert (first.state, first.why) == (ChunkState.GONE, "its document exists without this text")

    def test_segments_cut_anew_under_other_ids(self, in_dify: InDify) -> None:
        joined = FakeSegment(" ".join(map(str, LIMITS.segments)), id="00000000-0000-4000-8000-00000000beef")
        in_dify.write(replace(LIMITS, segments=[joined]))
        found = in_dify.drift()
        assert {(one.state, one.cut_into) for one in found} == {(ChunkState.CHANGED, (joined.id,))}

    def test_the_same_texts_uploaded_again(self, in_dify: InDify) -> None:
        ids = [f"00000000-0000-4000-8000-00000000000{n}" for n in (1, 2)]
        again = [FakeSegment(str(text), id=one) for text, one in zip(LIMITS.segments, ids, strict=True)]
        in_dify.write(replace(LIMITS, segments=again))
        found = in_dify.drift()
        assert {one.state for one in found} == {ChunkState.UNCHANGED} and {one.now_id for one in found} == set(ids)

    @pytest.mark.parametrize("change", [{"enabled": False}, {"archived": True}])
    def test_a_document_that_was_disabled_or_archived(self, change: dict[str, Any], in_dify: InDify) -> None:
        in_dify.write(replace(LIMITS, **change))
        assert {(one.state, one.why) for one in in_dify.drift()} == {(ChunkState.GONE, "its document no longer exists")}

    def test_metadata_that_were_changed(self, in_dify: InDify) -> None:
        in_dify.write(replace(LIMITS, metadata={"owner": "desk", "edition": "v1"}))
        for one in in_dify.drift():
            assert one.fields == (
                FieldChange("metadata.edition", "1", "v1"), FieldChange("metadata.owner", "risk", "desk"),
            )  # fmt: skip

    def test_a_document_raised_above_who_looks(self, in_dify: InDify) -> None:
        in_dify.write(replace(LIMITS, metadata={**(LIMITS.metadata or {}), "secrecy": "restricted"}))
        assert {one.state for one in in_dify.drift(NOBODY)} == {ChunkState.GONE}
        assert {one.state for one in in_dify.drift()} == {ChunkState.CHANGED}

    def test_an_outage_cannot_be_checked(self, in_dify: InDify) -> None:
        in_dify.dify.inject("status_503", endpoint="segments")
        assert {one.state for one in in_dify.drift()} == {ChunkState.CANNOT_CHECK}
