"""What people read of `audit why`."""

import io
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import date, timedelta

import pytest

from context_engine.apps.cli.audit.why import print_why
from context_engine.audit.review.why import AccessTaken, why
from context_engine.core.models import Condition, FilterOp

RULE = "A proposal above the materiality limit goes to the product committee for approval."


def told(result, *args):
    with redirect_stdout(io.StringIO()) as shown:
        print_why(why(result, *args), result)
    return shown.getvalue()


@pytest.fixture(scope="module")
def result(ask, chunk_of):
    return ask(
        [
            (1, [chunk_of("record", 0.7, RULE)]),
            (2, [chunk_of("copy", 0.8, RULE), chunk_of("sop-1", 0.6), chunk_of("sop-2", 0.5), chunk_of("weak", 0.1)]),
            (5, [chunk_of("web", 0.72)]),
        ],
        stage2_top_k=2,
    )


def test_a_shown_chunk(result):
    text = told(result, "sop-1")
    assert "sop-1 (t2) was shown at rank 2.\n" in text
    assert "  0.6 × 0.6000 + 0.4 × 0.30 = 0.4800\n" in text
    assert "  by its tier it passed web (t5)\n" in text
    assert "  merged into it: copy (t2)\n" in told(result, "record")


def test_a_chunk_beyond_the_cut(result):
    text = told(result, "web")
    assert "web (t5) was dropped at select: beyond the number asked for, place 3 (limit 2).\n" in text
    assert "  place 3 of 4, 0.0480 below the last that was shown\n" in text
    assert "With stage2_top_k 3 instead of 2 it would have been shown at rank 3.\n" in text
    assert "  by their tiers" not in text  # it is not shown: nothing brought it to a rank


def test_a_merged_chunk_and_what_would_leave(result):
    text = told(result, "copy")
    assert "copy (t2) was merged into record (t1): equal text, 1 (limit 0.85).\n" in text
    assert "With the tier of source t2 1 instead of 2 it would have been shown at rank 1.\n" in text
    assert "  no longer shown then: record (t1)\n" in text


def test_a_merged_chunk_whose_tier_alone_does_not_count(ask, chunk_of):
    text = told(ask([(1, [chunk_of("record", 0.9, RULE)]), (2, [chunk_of("copy", 0.8, RULE)])]), "copy")
    assert "Without the text record (t1) it would have been shown at rank 1.\n" in text


def test_where_two_changes_are_needed_all_that_was_tried_is_said(result):
    text = told(result, "weak")
    assert "weak (t2) was dropped at relevance: below the relevance limit, 0.1 (limit 0.15).\n" in text
    assert ", had no limit stood in its way\n" in text
    assert "No single change would have shown it.\nTwo together would: With min_relevance_score 0.1 instead of " in text
    assert "0.15 and with stage2_top_k 5 instead of 2 it would have been shown at rank 5.\n" in text
    assert "  tried in vain: " in text
    assert ", min_chunks (6), " in text


def test_a_day_and_a_filter(ask, chunk_of):
    text = told(ask([(2, [chunk_of("a", 0.9, effective_from=date(2026, 3, 9))])]), "a")
    assert "Asked about 2026-03-09 instead of 2026-03-02 it would have been shown at rank 1.\n" in text
    assert "might return other candidates" in text
    text = told(ask([(2, [chunk_of("a", 0.9)])], filters=Condition("title", FilterOp.EQ, "x")), "a")
    assert "Without the filter it would have been shown at rank 1.\n" in text


def test_a_switch(ask, chunk_of, now):
    text = told(ask([(2, [chunk_of("a", 0.9, fetched_at=now - timedelta(days=2))])], expired="refuse"), "a")
    assert "With expired demote instead of refuse it would" in text


def test_a_record_that_computes_to_something_else_says_so_first(result):
    text = told(replace(result, chunks=()), "web")
    assert text.startswith("Stage 2 computed again does not give the recorded answer")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("x", "t2"), "the source was asked for 40 and gave 4, and this was not among them"),
        (("x", "t3"), "this search asked no source of that name."),
        (("x", "t3", AccessTaken([("t3", "clearance")])), "its source was not searched for the caller (clearance)."),
        (("wh", None, AccessTaken((), [("t2", "wh", "secret")])), "and the caller was not cleared for it (secret)."),
    ],
)
def test_a_chunk_that_was_no_candidate(result, args, words):
    text = told(result, *args)
    assert "was no candidate: " in text
    assert words in text
