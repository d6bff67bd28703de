"""What a store has learnt is one document, and the maps of an adapter are read when they are wanted."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from context_engine.adapters.http import HttpAnswer
from context_engine.adapters.sources.domain_adapter import DomainAdapter
from context_engine.adapters.sources.opensearch.state import IndexState, LearntDocument
from context_engine.adapters.sources.stores.calibrating import CalibratedExtent
from context_engine.core.models import ScopeCalibration
from context_engine.core.ranking.scope import SIGNAL_VERSION
from context_engine.errors import SourceNotFound, StoreLocked

STATE = IndexState(base_id="b", model_id="m", dimension=4)
ADAPTER = DomainAdapter("m", np.eye(4), 2.0 * np.eye(4))
PATH = "kb-state/_doc/"


class FakeCalls:
    """A server's documents by their paths, with a version each."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.versions: dict[str, int] = {}
        self.asked: list[str] = []

    def answer(self, method: str, path: str, body: Any = None) -> HttpAnswer:
        name, _, condition = path.partition("?")
        self.asked.append(f"{method} {name.removeprefix(PATH)}")
        if method == "DELETE":
            del self.documents[name]
        elif method == "PUT":
            number = self.versions.get(name)
            if condition and condition != f"if_seq_no={number}&if_primary_term=1" and (number is not None):
                return HttpAnswer(409, {}, b"{}")
            self.documents[name], self.versions[name] = json.loads(json.dumps(body)), (number or 0) + 1
        elif name not in self.documents:
            raise SourceNotFound("not there")
        return HttpAnswer(200, {}, json.dumps(self.document(name)).encode())

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return self.answer(method, path, body).json()

    def document(self, name: str = f"{PATH}learnt") -> dict[str, Any]:
        if name not in self.documents:
            return {"found": False}
        return {
            "found": True, "_seq_no": self.versions[name], "_primary_term": 1, "_source": self.documents[name]
        }  # fmt: skip

    def learnt(self) -> LearntDocument:
        self.asked = []
        return LearntDocument(self, "kb", self.document())  # type: ignore[arg-type]


def kept(calls: FakeCalls, domain: str = "NPA", classes: tuple[int, ...] = (1,)) -> None:
    document = calls.learnt()
    document.adapters(STATE).keep(domain, ADAPTER, classes, "{}", "2026-01-01")
    document.write()


def calibration(chunks: int) -> ScopeCalibration:
    return ScopeCalibration(threshold=0.2, strong=0.7, signal=SIGNAL_VERSION, chunks=chunks)


def test_maps_are_read_once_and_only_where_they_are_wanted() -> None:
    calls = FakeCalls()
    kept(calls)
    rows = calls.learnt().adapters(STATE)
    assert rows.named("NPA", ADAPTER.adapter_id, [1]) == ADAPTER.adapter_id and calls.asked == []
    assert rows.named("NPA", ADAPTER.adapter_id, [2]) is None, "who may not read the class does not see it"
    assert rows.maps("NPA", ADAPTER.adapter_id) == rows.maps("NPA", ADAPTER.adapter_id) == ADAPTER.as_bytes()
    assert calls.asked == [f"GET maps-{ADAPTER.adapter_id}"]


@pytest.mark.parametrize("maps", [None, {"maps": "AAAA"}, {"other": 1}])
def test_maps_that_are_gone_or_changed_are_damaged(maps: Any) -> None:
    calls = FakeCalls()
    kept(calls)
    name = f"{PATH}maps-{ADAPTER.adapter_id}"
    calls.documents.pop(name)
    if maps:
        calls.documents[name] = maps
        calls.versions[name] = 9
    (stored,) = calls.learnt().adapters(STATE).stored([1])
    assert stored.problem == "damaged"


def test_switches_survive_and_two_domains_share_the_maps() -> None:
    calls = FakeCalls()
    for domain in ("NPA", "ORM"):
        kept(calls, domain)
    document = calls.learnt()
    rows = document.adapters(STATE)
    rows.switch("NPA", rows.stored([1], "NPA"), on=True, at="2026-01-02")
    rows.forget("ORM", [ADAPTER.adapter_id])
    document.write()
    assert calls.learnt().adapters(STATE).in_force("NPA", [1]) == (ADAPTER.adapter_id, "")
    assert f"{PATH}maps-{ADAPTER.adapter_id}" in calls.documents


def test_what_was_learnt_from_moved_documents_is_forgotten() -> None:
    calls = FakeCalls()
    kept(calls, classes=(1, 2))
    document = calls.learnt()
    extent = CalibratedExtent(3, 3, 9)
    document.replace_calibrations("NPA", (), [("", key, calibration(key), extent) for key in (1, 2, 3)])
    document.forget_moved({2})
    document.write()
    after = calls.learnt()
    assert after.moves == 1 and after.adapters(STATE).stored([1, 2, 3]) == []
    assert after.calibrations("NPA").keys() == {("", 1), ("", 3)} and not after.calibrations("ORM")
    assert after.version([1]) != after.version([1, 3]) and after.version([2]) == after.version([])
    assert [name for name in calls.documents if "maps" in name] == []


def test_of_two_changes_of_one_document_the_second_is_refused() -> None:
    calls = FakeCalls()
    kept(calls)
    first, second = calls.learnt(), calls.learnt()
    first.write()
    with pytest.raises(StoreLocked):
        second.write()
