"""Server-sent events, however the network cuts them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.adapters.http import ServerEvent, server_events

STREAM = (
    b"\xef\xbb\xbf: a comment\r\n\r\n"
    b'event: note\r\ndata: {"limit": "5\xc2\xa0%"}\r\n\r\n'
    b"data:first\ndata: second\nid: 7\nretry: 10\n\n"
    b"event: empty\n\n"
    b"data\r\rdata:  two blanks\r\r"
    b"data: cut off"
)
EVENTS = [
    ServerEvent("note", '{"limit": "5\u00a0%"}'),
    ServerEvent("", "first\nsecond"),
    ServerEvent("", ""),
    ServerEvent("", " two blanks"),
]


def test_events_are_read_as_the_standard_says() -> None:
    assert list(server_events([STREAM])) == EVENTS


@given(st.lists(st.integers(0, len(STREAM))))
def test_the_places_where_the_network_cuts_do_not_matter(places: list[int]) -> None:
    cuts = [0, *sorted(places), len(STREAM)]
    parts = [STREAM[start:end] for start, end in pairwise(cuts)]
    assert list(server_events(parts)) == EVENTS


@pytest.mark.parametrize("parts", [[], [b""], [b"data: x"], [b"data: x\n"], [b"event: a\n\n"], [b":\n\n"]])
def test_what_is_no_whole_event_is_none(parts: list[bytes]) -> None:
    assert list(server_events(parts)) == []


def test_bytes_that_are_no_text_do_not_stop_the_stream() -> None:
    assert [event.data for event in server_events([b"data: a\xffb\n\ndata: c\n\n"])] == ["a\ufffdb", "c"]
