"""Documents that raise their classification above what the caller may read, in datasets that know nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from context_engine.core.models import AccessScope, Classification, NoticeCode, SourceAnswer
from context_engine.core.policy.filters import parse_filter
from context_engine.testing import FakeDataset, FakeDify, FakeDocument

CLERK = AccessScope(clearance=Classification.INTERNAL)
HEAD = AccessScope(clearance=Classification.RESTRICTED)
OPEN = [FakeDocument(f"Open {n}", [f"The approval limit of level {n}."]) for n in range(1, 4)]
RAISED = [
    FakeDocument("Board", ["The approval limit of the approval limit board."], {"secrecy": "confidential"}),
    FakeDocument("Owner", ["The approval limit approval limit of the owner."], {"secrecy": "restricted"}),
]
NAMED: dict[str, Any] = {"metadata": {"classification": "secrecy"}}


@pytest.fixture
def dify() -> Iterator[FakeDify]:
    datasets = [
        FakeDataset("both", documents=[*RAISED, *OPEN]),
        FakeDataset("open", documents=OPEN),
        FakeDataset("pictures", documents=[FakeDocument("P", ["  "], {"secrecy": "restricted"})]),
    ]
    with FakeDify(datasets) as server:
        yield server


@pytest.fixture
def search(dify: FakeDify, make_source: Any, ask: Any) -> Callable[..., SourceAnswer]:
    def run(*names: str, access: AccessScope | None, spec: Any = None, **fields: Any) -> SourceAnswer:
        ids = [dify.dataset_id(name) for name in names]
        source = make_source(dify.base_url, *ids, connection={"api_key": dify.api_key}, spec=spec, **NAMED)
        answer: SourceAnswer = ask(source, access=access, **fields)
        return answer

    return run


def titles(answer: SourceAnswer) -> list[str | None]:
    return [chunk.title for chunk in answer.chunks]


def test_without_a_policy_nothing_is_withheld(search: Callable[..., SourceAnswer]) -> None:
    assert {"Board", "Owner"} <= set(titles(search("both", access=None)))


def test_what_is_withheld_stands_behind_what_may_be_read(search: Callable[..., SourceAnswer]) -> None:
    found = titles(search("both", access=CLERK))
    assert len(found) == 5 and set(found[-2:]) == {"Board", "Owner"}
    assert titles(search("both", access=HEAD)) == titles(search("both", access=None))


def test_a_source_of_a_class_is_raised_by_what_is_above_it(search: Callable[..., SourceAnswer]) -> None:
    """INTERNAL clearance beside a CONFIDENTIAL source: its rule let the caller in, and only RESTRICTED is above it."""
    found = titles(search("both", access=CLERK, spec={"classification": "confidential"}))
    assert found[-1] == "Owner" and "Board" in found[:-1]


def test_raised_documents_displace_nothing_up_to_a_hundred(search: Callable[..., SourceAnswer], dify: FakeDify) -> None:
    answer = search("both", access=CLERK, top_k=2)
    assert {str(title)[:4] for title in titles(answer)[:2]} == {"Open"} and answer.cut == 1
    assert dify.requests[-1].body["retrieval_model"]["top_k"] == 100
    search("both", access=HEAD, top_k=2)
    assert dify.requests[-1].body["retrieval_model"]["top_k"] == 2


def test_the_order_of_what_may_be_read_is_that_of_a_dataset_without_the_rest(
    search: Callable[..., SourceAnswer],
) -> None:
    assert titles(search("both", "open", access=CLERK))[:3] == titles(search("open", "open", access=CLERK))[:3]


def test_nothing_is_said_of_what_is_withheld(search: Callable[..., SourceAnswer]) -> None:
    assert [notice.code for notice in search("pictures", access=None).notices] == [NoticeCode.CHUNK_WITHOUT_TEXT]
    answer = search("pictures", access=CLERK)
    assert (answer.chunks, answer.notices, answer.cut) == ([], (), 0)


def test_a_filter_is_kept_among_what_may_be_read(search: Callable[..., SourceAnswer]) -> None:
    answer = search("both", access=CLERK, filters=parse_filter({"secrecy": "restricted"}))
    assert titles(answer) == ["Owner"] and answer.cut == 0


def test_fields_are_told_where_nothing_may_be_withheld(search: Callable[..., SourceAnswer]) -> None:
    by_secrecy = parse_filter({"secrecy": "public"})
    for access in (None, HEAD):
        assert search("both", access=access, filters=by_secrecy).filter_fields is not None
    assert search("both", access=CLERK, filters=by_secrecy).filter_fields is None
    assert search("open", access=CLERK, filters=by_secrecy).filter_fields is None
