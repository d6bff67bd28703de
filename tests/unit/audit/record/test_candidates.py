"""The digests of a record's contents, and what became of its candidates, are read without the rest."""

from __future__ import annotations

import zlib

import pytest

from context_engine.audit.record.candidates import candidates_addendum, content_digests, read_candidates, read_fates
from context_engine.audit.record.exact import Unreadable

DIGESTS = [bytes([number]) * 32 for number in range(3)]
FATES = {"outcome": ["returned"], "content_sha256": ["ab" * 32], "chunk_id": ['"contents":7}']}


def test_they_are_those_that_reading_all_gives() -> None:
    data = candidates_addendum({"v": 1, "fates": FATES, "note": '"contents":9'}, DIGESTS).data
    assert content_digests(data) == DIGESTS
    assert read_candidates(data)["contents"] == [one.hex() for one in DIGESTS]
    assert content_digests(candidates_addendum({"v": 1, "fates": {}}, []).data) == []


def test_so_is_what_became_of_the_candidates() -> None:
    fates = {**FATES, "outcome": ["returned", "dropped"], "content_sha256": ["ab" * 32, None]}
    data = candidates_addendum({"v": 1, "note": '{"fates":{}', "fates": fates}, DIGESTS).data
    columns, texts = read_fates(data)
    assert columns == {"outcome": ["returned", "dropped"], "chunk_id": FATES["chunk_id"]}
    assert texts == [b"\xab" * 32, None]
    assert read_fates(candidates_addendum({"v": 1, "fates": {}}, DIGESTS).data) == ({}, [])


@pytest.mark.parametrize(
    "said", [b'{"v":1,"fates":{}}', b'{"fates":{},"v":2,"x":1}', b'{"fates":[],"v":1,', b"{}", b"\xff"]
)
def test_fates_in_another_form_are_told(said: bytes) -> None:
    packed = zlib.compress(said)
    with pytest.raises(Unreadable):
        read_fates(len(packed).to_bytes(4, "big") + packed)


@pytest.mark.parametrize("cut", [3, 20, -200])
def test_fates_that_were_cut_off_are_told(cut: int) -> None:
    data = candidates_addendum({"v": 1, "fates": FATES}, DIGESTS).data
    with pytest.raises(Unreadable):
        read_fates(data[:cut])


@pytest.mark.parametrize("cut", [0, 3, 20, -1, -40])
def test_what_was_cut_off_is_told(cut: int) -> None:
    data = candidates_addendum({"v": 1, "fates": {}}, DIGESTS).data
    with pytest.raises(Unreadable):
        content_digests(data[:cut])
