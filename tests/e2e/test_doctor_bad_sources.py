"""`context-engine doctor` over adapters that hang or raise: each has its row, and so have the others."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main
from context_engine.core.models import Chunk, Score, ScoreKind, SourceAnswer, SourceQuery, SourceSpec
from context_engine.errors import SourceUnavailable
from context_engine.wiring.adapters import SOURCES

SECRET = "hunter2-in-the-text"
SOURCE = "  - {{id: {0}, type: bank_sop, adapter: odd, timeout_s: {1}}}\n"


class Odd:
    """Misbehaves as its id says."""

    score_kinds = frozenset({ScoreKind.RELEVANCE})

    def __init__(self, spec: SourceSpec, released: threading.Event) -> None:
        self.source_id, self.released = spec.id, released
        self.misbehave("open")

    def misbehave(self, where: str) -> None:
        if self.source_id == f"hangs_in_{where}":
            self.released.wait()
        if self.source_id == f"raises_in_{where}":
            raise RuntimeError(SECRET)
        if self.source_id == f"exits_in_{where}":
            raise SystemExit(0)

    def search(self, query: SourceQuery) -> SourceAnswer:
        self.misbehave("search")
        if self.source_id == "is_down":
            raise SourceUnavailable("the register is down", source_id=self.source_id)
        if self.source_id == "gives_nonsense":
            return None  # type: ignore[return-value]
        scores = (Score(ScoreKind.RELEVANCE, 0.9),)
        return SourceAnswer(chunks=(Chunk(content=f"{query.text} {query.timeout_s:g}", scores=scores),))

    def close(self) -> None:
        self.misbehave("close")


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Lets the hanging ones go, at the end; the adapter `odd` is installed until then."""
    event = threading.Event()
    package = ModuleType("odd_package")
    package.__dict__["open_odd"] = lambda spec, _context: Odd(spec, event)
    monkeypatch.setitem(sys.modules, "odd_package", package)
    point = EntryPoint("odd", "odd_package:open_odd", SOURCES)
    monkeypatch.setattr(
        "context_engine.wiring.adapters.entry_points", lambda *, group: [point] if group == SOURCES else []
    )
    yield event
    event.set()


@pytest.fixture
def doctored(released: threading.Event, tmp_path: Path) -> Any:
    def run(
        *sources: tuple[str, float], more: tuple[str, ...] = (), settings: str = "{}"
    ) -> tuple[int, dict[str, Any]]:
        rows = "".join(SOURCE.format(name, limit) for name, limit in sources).replace(", timeout_s: 0}", "}")
        (tmp_path / "manifests").mkdir()
        text = f"version: 1\ndomain: NPA\nsources:\n{rows}settings: {settings}\n"
        (tmp_path / "manifests" / "npa.yaml").write_text(text, encoding="utf-8")
        place = ("--config-dir", str(tmp_path), "--data-dir", str(tmp_path / "data"))
        result = CliRunner().invoke(main, ["doctor", "--json", *place, *more])
        assert SECRET not in result.output
        return result.exit_code, {one["source"]: one for one in json.loads(result.stdout)["sources"]}

    return run


@pytest.mark.parametrize("where", ["open", "search", "close"])
def test_a_source_that_hangs_is_reported_after_its_time(doctored: Any, where: str) -> None:
    code, found = doctored(("first", 30), (f"hangs_in_{where}", 0.2), ("last", 30))
    assert code == 1
    assert {name: (one["ok"], one["records"], one["problem"]) for name, one in found.items()} == {
        "first": (True, 1, None),
        f"hangs_in_{where}": (False, None, "no answer within 0.2 s"),
        "last": (True, 1, None),
    }


def test_the_time_is_the_domains_where_the_source_has_none(doctored: Any) -> None:
    code, found = doctored(("hangs_in_search", 0), settings="{source_timeout_s: 0.3}")
    assert (code, found["hangs_in_search"]["problem"]) == (1, "no answer within 0.3 s")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("raises_in_open", "failed with RuntimeError"),
        ("raises_in_search", "failed with RuntimeError"),
        ("raises_in_close", "it could not be closed: "),
        ("exits_in_open", "failed with SystemExit"),
        ("exits_in_search", "failed with SystemExit"),
        ("exits_in_close", "failed with SystemExit"),
        ("is_down", "the register is down"),
        ("gives_nonsense", "failed with AttributeError"),
    ],
)
def test_a_source_that_raises_is_a_bad_row_among_good_ones(doctored: Any, name: str, problem: str) -> None:
    code, found = doctored(("first", 30), (name, 30), ("last", 30))
    assert (code, [one["ok"] for one in found.values()]) == (1, [True, False, True])
    assert problem in found[name]["problem"]
    assert found[name]["records"] == (1 if name.endswith("_in_close") else None)


def test_without_a_query_what_cannot_be_opened_is_still_reported(doctored: Any) -> None:
    code, found = doctored(("raises_in_open", 30), ("raises_in_search", 30), more=("--no-query",))
    assert (code, [one["ok"] for one in found.values()]) == (1, [False, True])
