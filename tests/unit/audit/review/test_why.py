"""What became of a chunk, whoever asks: its fate with numbers, or why it was no candidate."""

import json
from dataclasses import replace

import pytest

from context_engine.audit.record.drafts import search_draft
from context_engine.audit.record.entry import read_entry
from context_engine.audit.record.question import Pseudonyms
from context_engine.audit.review.why import AccessTaken, why
from context_engine.core.models import (
    NOBODY,
    AccessDecision,
    AccessReason,
    AccessRecord,
    Chunk,
    Classification,
    Outcome,
    SourceAccess,
    WithheldChunk,
)
from context_engine.errors import InvalidRequest

RULE = "A proposal above the materiality limit goes to the product committee for approval."


@pytest.fixture(scope="module")
def result(ask, chunk_of):
    return ask(
        [
            (1, [chunk_of("record", 0.7, RULE)]),
            (2, [chunk_of("copy", 0.8, RULE), chunk_of("sop-1", 0.6), chunk_of("sop-2", 0.5), chunk_of("weak", 0.1)]),
            (5, [chunk_of("web", 0.72)]),
            (4, lambda _query, _domain, _top_k: None),
        ],
        stage2_top_k=2,
    )


def test_a_shown_chunk_has_its_rank_its_terms_its_copies_and_its_swaps(result):
    found = why(result, "record")
    assert (found.rank, found.changes, found.absence, found.same) == (1, None, None, True)
    # a cluster's relevance is the best of it: 0.6 * 0.8 + 0.4 * 0.4 = 0.64
    standing = found.standing
    assert (standing.relevance, standing.boost, standing.place, standing.ranked) == (0.8, 0.4, 1, 4)
    assert standing.final == pytest.approx(0.64)
    assert [(member.source_id, member.chunk_id) for member in found.also_in] == [("t2", "copy")]
    assert [stage.name for stage in found.funnel][-1] == "select"
    swaps = why(result, "sop-1").swaps  # 0.6 * 0.6 + 0.4 * 0.3 = 0.48 stands above 0.6 * 0.72 = 0.432
    assert [(swap.winner[1], swap.loser[1]) for swap in swaps] == [("sop-1", "web")]


def test_a_chunk_beyond_the_cut_has_its_place_and_the_gap_to_the_last_shown(result):
    found = why(result, "web")
    assert (found.fate.reason, found.fate.value, found.fate.limit) == ("beyond_top_k", 3, 2)
    assert (found.rank, found.standing.place, found.standing.ranked) == (None, 3, 4)
    assert found.standing.gap == pytest.approx(0.48 - 0.432)
    assert found.changes.single.changes[0].name == "stage2_top_k"


def test_a_chunk_below_a_limit_has_the_numbers_that_it_would_have_had(result):
    found = why(result, "weak")
    assert (found.fate.stage, found.fate.value, found.fate.limit) == ("relevance", 0.1, 0.15)
    standing = found.standing
    assert (standing.supposed, standing.place, standing.absolute) == (True, None, 0.1)
    assert standing.final == pytest.approx(0.6 * 0.1 + 0.4 * 0.3)
    assert [stage.name for stage in found.funnel][-2:] == ["scope", "relevance"]


def test_a_merged_chunk_names_what_it_was_merged_into_and_its_own_relevance(result):
    found = why(result, "copy", "t2")
    assert (found.fate.outcome, found.fate.into) == (Outcome.MERGED, ("t1", "record"))
    assert (found.standing.relevance, found.standing.final) == (0.8, None)


def test_what_was_dropped_before_it_was_measured_has_no_numbers(ask, chunk_of):
    found = why(ask([(2, [chunk_of("a", 0.9, superseded_by="2")])]), "a")
    assert found.standing is None
    assert [stage.name for stage in found.funnel] == ["recall", "filter", "as_of"]


def test_a_chunk_is_named_by_the_beginning_of_its_id(result):
    assert why(result, "rec").chunk_id == "record"
    assert why(result, "sop-1").chunk_id == "sop-1"
    with pytest.raises(InvalidRequest, match=r"t2/sop-1, t2/sop-2\. Give one of these ids in full"):
        why(result, "sop")
    with pytest.raises(InvalidRequest, match=r"write SOURCE/CHUNK .* Did you mean 'record'\?"):
        why(result, "recrod")


def test_a_chunk_is_named_with_its_source_as_records_show_it(result, ask, chunk_of):
    found = why(result, "t2/sop-1")
    assert (found.source_id, found.chunk_id, found.rank) == ("t2", "sop-1", 2)
    absent = why(result, "t5/nothing")
    assert (absent.source_id, absent.chunk_id, absent.absence.why) == ("t5", "nothing", "not_found")
    # An id that holds a slash itself is no source and chunk.
    assert why(ask([(2, [chunk_of("t2/a", 0.9), chunk_of("a", 0.8)])]), "t2/a").chunk_id == "t2/a"


def test_the_whole_id_goes_before_those_that_begin_with_it(ask, chunk_of):
    result = ask([(2, [chunk_of("a", 0.9), chunk_of("ab", 0.8)]), (1, [chunk_of("ab", 0.7, RULE)])])
    assert why(result, "a").source_id == "t2"
    with pytest.raises(InvalidRequest, match="several"):
        why(result, "ab")
    assert why(result, "ab", "t1").source_id == "t1"


def absent(result, chunk, source, access=None):
    found = why(result, chunk, source) if access is None else why(result, chunk, source, access)
    assert (found.fate, found.standing, found.changes, found.rank) == (None, None, None, None)
    return found.absence.why, found.absence.detail


def test_a_chunk_that_no_source_gave_is_told_from_one_that_failed_or_was_not_searched(result):
    assert absent(result, "other", "t2") == ("not_found", "")
    assert absent(result, "other", "t4")[0] == "source_failed"
    assert absent(result, "other", "t3") == ("source_not_searched", "")


def test_what_access_control_took_is_said_as_it_was_recorded(result):
    access = AccessTaken(denied=[("t3", "clearance")], withheld=[("t2", "secret-1", "restricted")])
    assert absent(result, "other", "t3", access) == ("source_denied", "clearance")
    assert absent(result, "secret-1", "t2", access) == ("withheld", "restricted")
    assert absent(result, "secr", None, access) == ("withheld", "restricted")


def test_what_access_control_took_is_read_out_of_the_record(result):
    hidden = (SourceAccess("t2", True, AccessReason.ADMITTED), SourceAccess("t3", False, AccessReason.CLEARANCE))
    access = AccessRecord(
        principal=NOBODY,
        decision=AccessDecision(principal=NOBODY, domain="NPA", sources=hidden),
        withheld=(WithheldChunk("t2", "secret-1", Classification.RESTRICTED),),
    )
    draft = search_draft(result, access, pseudonyms=Pseudonyms(bytes(32)), code_version="1")
    entry = read_entry(draft.compose({content.key: bytes(32) for content in draft.contents}).entry)
    taken = AccessTaken.of_entry(entry)
    assert taken == ([("t3", "clearance")], [("t2", "secret-1", "restricted")])
    assert absent(result, "secret-1", "t2", taken) == ("withheld", "restricted")


def test_an_answer_that_was_cut_or_full_may_have_held_it(ask, chunk_of):
    chunks = [chunk_of(str(number), 0.5) for number in range(3)]
    assert absent(ask([(2, chunks)], stage1_top_k=2), "x", "t2") == ("maybe_cut", "")
    assert absent(ask([(2, chunks)], stage1_top_k=3), "x", "t2") == ("maybe_beyond", "")
    refused = ask([(2, [*chunks, Chunk(content="  ")])], stage1_top_k=9)
    assert absent(refused, "x", "t2") == ("maybe_refused", "")


def test_a_record_that_computes_to_other_bytes_says_so(result):
    assert not why(replace(result, chunks=result.chunks[:1]), "web").same


def test_the_published_form_is_json(result):
    for chunk in ("record", "copy", "web", "weak"):
        published = why(result, chunk).to_dict()
        assert json.loads(json.dumps(published, allow_nan=False)) == json.loads(json.dumps(published))
        assert published["chunk_id"] == chunk
    assert why(result, "web").to_dict()["changes"]["smallest"] == {
        "changes": [{"kind": "setting", "name": "stage2_top_k", "was": 2, "now": 3, "steps": 1.0}],
        "rank": 3,
        "left": [],
        "came": [],
        "unscored": False,
        "asks_otherwise": False,
    }
    assert why(result, "other", "t2").to_dict()["absence"]["why"] == "not_found"
