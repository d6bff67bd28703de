"""The decision table, written out, and the status table beside it."""

from dataclasses import replace
from itertools import product

import pytest

from context_engine.core.engine.assemble import MissingEvidence, decide, missing_evidence, overall_status
from context_engine.core.models import Decision, Notice, NoticeCode, SourceAnswer, SourceQuery, SourceStatus, Status
from context_engine.testing import ScriptedSource

# required missing · a source failed · candidates were weighed · the best was in scope · something is returned
TABLE = """
    no  no  no  no  no   no_match
    no  no  no  no  yes  answered
    no  no  no  yes no   no_match
    no  no  no  yes yes  answered
    no  no  yes no  no   out_of_scope
    no  no  yes no  yes  out_of_scope
    no  no  yes yes no   no_match
    no  no  yes yes yes  answered
    no  yes no  no  no   incomplete
    no  yes no  no  yes  incomplete
    no  yes no  yes no   incomplete
    no  yes no  yes yes  answered
    no  yes yes no  no   incomplete
    no  yes yes no  yes  incomplete
    no  yes yes yes no   incomplete
    no  yes yes yes yes  answered
    yes no  no  no  no   incomplete
    yes no  no  no  yes  incomplete
    yes no  no  yes no   incomplete
    yes no  no  yes yes  incomplete
    yes no  yes no  no   incomplete
    yes no  yes no  yes  incomplete
    yes no  yes yes no   incomplete
    yes no  yes yes yes  incomplete
    yes yes no  no  no   incomplete
    yes yes no  no  yes  incomplete
    yes yes no  yes no   incomplete
    yes yes no  yes yes  incomplete
    yes yes yes no  no   incomplete
    yes yes yes no  yes  incomplete
    yes yes yes yes no   incomplete
    yes yes yes yes yes  incomplete
"""
ROWS = [
    (*(cell == "yes" for cell in line.split()[:-1]), Decision(line.split()[-1])) for line in TABLE.strip().splitlines()
]


def test_the_table_holds_every_combination_once():
    assert sorted(row[:5] for row in ROWS) == sorted(product([False, True], repeat=5))


@pytest.mark.parametrize(("required_missing", "failed", "weighed", "in_scope", "returned", "expected"), ROWS)
def test_decision_table(required_missing, failed, weighed, in_scope, returned, expected):
    for found, chunks in product([1, 40] if weighed else [0], [1, 8] if returned else [0]):
        decision = decide(
            required_missing=required_missing, in_scope=in_scope, returned=chunks, any_lacking=failed, tested=found
        )
        assert decision is expected


def test_where_keywords_alone_were_compared_nothing_is_out_of_scope():
    for required, failed, weighed, in_scope, returned, expected in ROWS:
        decision = decide(
            required_missing=required, in_scope=in_scope, returned=returned, any_lacking=failed, tested=weighed,
            by_keywords=True,
        )  # fmt: skip
        assert decision is (Decision.NO_MATCH if expected is Decision.OUT_OF_SCOPE else expected)


def test_with_a_source_missing_nothing_is_out_of_scope():
    assert all(row[-1] is not Decision.OUT_OF_SCOPE for row in ROWS if row[1])


@pytest.mark.parametrize(
    ("states", "rerank_failed", "expected"),
    [
        (("ok",), False, Status.COMPLETE),
        (("empty",), False, Status.COMPLETE),
        (("ok", "empty"), False, Status.COMPLETE),
        (("ok", "empty"), True, Status.DEGRADED),
        (("ok", "failed"), False, Status.DEGRADED),
        (("empty", "failed"), False, Status.DEGRADED),
        (("ok", "failed"), True, Status.DEGRADED),
        (("partial",), False, Status.DEGRADED),
        (("ok", "partial"), False, Status.DEGRADED),
        (("failed", "partial"), False, Status.DEGRADED),
        (("failed",), False, Status.FAILED),
        (("failed", "failed"), False, Status.FAILED),
        (("failed", "failed"), True, Status.FAILED),
    ],
)
def test_status_table(states, rerank_failed, expected):
    sources = [
        SourceStatus(source_id=f"s{number}", title="", source_type="bank_sop", authority_tier=2, state=state)
        for number, state in enumerate(states)
    ]
    assert overall_status(sources, rerank_failed=rerank_failed) is expected


def test_evidence_counts_where_it_was_merged_into_a_returned_chunk(ask, chunk_of):
    text = "A proposal above the materiality limit goes to the committee for approval."
    result = ask([(1, [chunk_of("a", 0.9, text)]), (2, [chunk_of("b", 0.8, text)])])
    assert [chunk.chunk_id for chunk in result.chunks] == ["a"]
    assert missing_evidence(result.chunks, (1, 2), ("t1", "t2")) == MissingEvidence((), ())
    assert missing_evidence(result.chunks, (2, 5, 3), ("t9", "t2")) == MissingEvidence((3, 5), ("t9",))
    assert missing_evidence((), (2, 2), ("x",)) == MissingEvidence((2,), ("x",))


class Behind(ScriptedSource):
    """A source whose index is behind."""

    def search(self, query: SourceQuery) -> SourceAnswer:
        behind = Notice(NoticeCode.INDEX_LAG, "", NoticeCode.INDEX_LAG.sentence)
        return replace(super().search(query), notes=(behind,))


@pytest.mark.wording
def test_an_index_that_is_behind_concludes_nothing_where_nothing_relevant_was_found(ask, chunk_of):
    result = ask([(2, Behind("t2"))])
    assert (result.status, result.decision) == (Status.COMPLETE, Decision.INCOMPLETE)
    assert any("kb rebuild" in sentence for sentence in result.beside_the_answer)
    assert ask([(2, Behind("t2", [chunk_of("a", 0.9)]))]).decision is Decision.ANSWERED
