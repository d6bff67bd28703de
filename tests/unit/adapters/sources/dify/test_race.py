"""Two runs of one folder at the same time, call by call in every order: afterwards Dify holds what the folder holds."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.adapters.http import Access, ApiKey, HttpAnswer, HttpCall, refusal
from context_engine.adapters.sources.dify.api import DIFY
from context_engine.adapters.sources.dify.sink import DifySink
from context_engine.core.engine import SystemClock
from context_engine.core.models import Chunk, SourceSpec
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify
from context_engine.testing.fake_dify.app import AppRequest as FakeCall

KEY = "dataset-racingsecret01"
OLD = {"A": ["Old A."], "B": ["Old B 1.", "Old B 2."]}
FOLDER = {"A": ["New A 1.", "New A 2."], "B": ["Old B 1.", "Old B 2."], "C": [f"C {n}." for n in range(25)]}


class Killed(BaseException):
    """The process ends here."""


class Turns:
    """Lets one of several threads go on at a time: which one, the order says, call by call.

    Args:
        order: for each call, which of the threads that wait goes on; afterwards the first.
        kills: {thread: the call before which it is killed}.
    """

    def __init__(self, order: Sequence[int], kills: dict[int, int]) -> None:
        self._order, self._kills = list(order), dict(kills)
        self._alive, self._waiting, self._chosen = 0, dict[int, int](), -1
        self._calls: dict[int, int] = {}
        self._changed = threading.Condition()

    def join(self) -> None:
        self._alive += 1

    def take(self, me: int) -> None:
        """Wait for my turn."""
        with self._changed:
            self._waiting[me] = me
            self._choose()
            assert self._changed.wait_for(lambda: self._chosen == me, timeout=20), "the runs wait for each other"
            self._chosen = -1
            del self._waiting[me]
            self._calls[me] = self._calls.get(me, 0) + 1
            if self._calls[me] == self._kills.get(me):
                raise Killed

    def leave(self) -> None:
        with self._changed:
            self._alive -= 1
            self._choose()

    def _choose(self) -> None:
        if self._waiting and len(self._waiting) == self._alive and self._chosen < 0:
            ready = sorted(self._waiting)
            self._chosen = ready[(self._order.pop(0) if self._order else 0) % len(ready)]
            self._changed.notify_all()


class Reach:
    """A workspace that asks a FakeDify in this process, each call when its turn comes."""

    def __init__(self, dify: FakeDify, turn: Callable[[], None]) -> None:
        self._dify, self._turn = dify, turn
        connection = Connection(base_url="http://dify.example", api_key=KEY)
        self._access = Access(connection, ApiKey(connection.api_key), 0.0)

    def access(self) -> Access:
        return self._access

    def ask(self, call: HttpCall, _access: Access, _ticket: Any, *, most_s: float) -> HttpAnswer:
        self._turn()
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        body = b"" if call.body is None else json.dumps(call.body).encode()
        answer = self._dify._app.answer(FakeCall(call.method, f"/v1/{call.path}", headers, body))
        response = HttpAnswer(answer.status, {}, answer.body)
        if answer.status in (200, 201, 204):
            return response
        raise refusal(response, DIFY.statuses, name="Dify", now=SystemClock().now())


class Race:
    """One Dify and runs over it."""

    def __init__(self) -> None:
        ticks = count()
        self.dify = FakeDify([FakeDataset("SOPs", "economy")], api_key=KEY, indexing_s=3, clock=lambda: next(ticks))
        self.spec = SourceSpec(
            id="sops", type="bank_sop", adapter="dify", connection="dify", dataset_ids=[self.dify.dataset_id("SOPs")]
        )

    def run(self, folder: dict[str, list[str]], turn: Callable[[], None] = lambda: None, *, batch: int = 2) -> DifySink:
        """Bring a folder into Dify, and what it does not hold out of it, as `ingest --prune` does."""
        reach: Any = Reach(self.dify, turn)
        sink = DifySink([self.spec], lambda _name: reach, SystemClock(), sleep=lambda _seconds: None)
        before = sink.documents("sops")
        changed = [name for name in folder if before.get((name, "1")) != hashed(folder[name])]
        for number, name in enumerate(changed, start=1):
            sink.put("sops", name, "1", hashed(folder[name]), chunks(name, folder[name]))
            if number % batch == 0:
                sink.commit()
        sink.commit()
        for name, version in set(sink.documents("sops")) - {(name, "1") for name in folder}:
            sink.delete("sops", name, version)
        sink.settle()
        return sink

    def both(self, order: Sequence[int], kills: dict[int, int], folders: Sequence[dict[str, list[str]]]) -> list[Any]:
        """Run over the folders at the same time and return the sinks of those that came to their end."""
        turns, done = Turns(order, kills), list[Any]()
        for _ in folders:
            turns.join()

        def one(me: int) -> None:
            try:
                done.append(self.run(folders[me], lambda: turns.take(me)))
            except Killed:
                pass
            except BaseException as error:
                done.append(error)
            finally:
                turns.leave()

        threads = [threading.Thread(target=one, args=(me,)) for me in range(len(folders))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return done

    def held(self) -> dict[str, list[list[str]]]:
        """{document id: the chunks of each document that is whole or not}; without those that say nothing."""
        out: dict[str, list[list[str]]] = {}
        for document in self.dify.documents("SOPs"):
            contents = [one if isinstance(one, str) else one.content for one in document.segments]
            if document.metadata is not None or contents:
                out.setdefault((document.metadata or {}).get("ce_document_id", "?"), []).append(contents)
        return out


def hashed(contents: list[str]) -> str:
    return f"hash of {' '.join(contents)}"


def chunks(name: str, contents: list[str]) -> list[Chunk]:
    return [Chunk(content=text, document_id=name, document_version="1", title=f"Title {name}") for text in contents]


def whole(folder: dict[str, list[str]]) -> dict[str, list[list[str]]]:
    return {name: [contents] for name, contents in folder.items()}


def reported(sinks: Sequence[DifySink]) -> set[str]:
    """The documents that a report says do not stand in Dify as they should."""
    refused = {one.document_id for sink in sinks for one in sink.refusals}
    return refused | {one["document_id"] for sink in sinks for one in sink.summary()["damaged"]}


def check_race(order: Sequence[int], kills: dict[int, int]) -> None:
    race = Race()
    race.run(OLD)
    sinks = race.both(order, kills, [FOLDER, FOLDER])
    assert not [one for one in sinks if isinstance(one, BaseException)]
    if not kills:
        said, held = reported(sinks), race.held()
        assert {name: held.get(name) for name in FOLDER if name not in said} == {
            name: [contents] for name, contents in FOLDER.items() if name not in said
        }
        assert set(held) <= set(FOLDER)
    last = race.run(FOLDER)
    assert race.held() == whole(FOLDER)
    assert reported([last]) == set()


def shuffled(seed: int, share: float) -> list[int]:
    """An order of many calls in which the second run has this share of them."""
    rng = random.Random(seed)
    return [int(rng.random() < share) for _ in range(400)]


ORDERS = st.builds(shuffled, st.integers(0, 2**32), st.sampled_from([0.5, 0.5, 0.4, 0.6, 0.2, 0.8]))


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(order=ORDERS)
def test_two_runs_leave_each_document_once_whatever_the_order_of_their_calls(order: list[int]) -> None:
    check_race(order, {})


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(order=ORDERS)
def test_two_runs_leave_each_document_once_in_hundreds_of_orders(order: list[int]) -> None:
    check_race(order, {})


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(order=ORDERS, kills=st.dictionaries(st.integers(0, 1), st.integers(1, 60), min_size=1))
def test_what_two_runs_leave_that_are_killed_anywhere_the_next_one_mends(
    order: list[int], kills: dict[int, int]
) -> None:
    check_race(order, kills)
