"""What the radar remembers: a run with a memory gives what a run without one gives, after any changes."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.core.models import Chunk
from context_engine.insight import remembered as memories
from context_engine.insight.domain_conflicts import memory_file, read_memory, write_memory
from context_engine.insight.radar import RadarPassage, radar
from context_engine.insight.remembered import NOTHING, remembered

TODAY = date(2026, 3, 2)
SENTENCES = (
    "The desk shall report an excess of the limit to the Board within {} Business Days.",
    "The desk may report an excess of the limit to the Board within {} Business Days.",
    "Records of each trade must be kept for {} years.",
    "Each record of a trade, however it came about, is to be kept for {} years by all desks.",
    "The minimum holding period is {} calendar days.",
    "| Limit | Bonds |\n|---|---|\n| Monthly stop-loss | USD {} million |",
)
TEXTS = st.lists(st.tuples(st.sampled_from(SENTENCES), st.integers(2, 4)), min_size=1, max_size=3).map(
    lambda drawn: "\n\n".join(sentence.format(number) for sentence, number in drawn)
)
BASES = st.dictionaries(st.sampled_from("abcdef"), TEXTS, max_size=6)


def passages(base: dict[str, str]) -> list[RadarPassage]:
    return [
        RadarPassage("sops", 2 + ord(name) % 3, Chunk(text, f"{name}#1", document_id=name, title=name))
        for name, text in sorted(base.items())
    ]


@settings(max_examples=12)
@given(st.lists(BASES, min_size=2, max_size=4))
def test_a_run_with_a_memory_gives_what_a_run_without_one_gives(bases: list[dict[str, str]]) -> None:
    memory = NOTHING
    for base in bases:  # documents come, change and go
        report = radar(passages(base), TODAY, memory)
        assert report == radar(passages(base), TODAY)
        memory = report.memory


def test_only_what_is_new_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    base = {name: SENTENCES[0].format(number) for number, name in enumerate("abcd", 2)}
    memory = remembered([passage.chunk for passage in passages(base)])
    read: list[str] = []
    plain = memories.compared_statements
    monkeypatch.setattr(memories, "compared_statements", lambda passage: read.append(passage.text) or plain(passage))
    remembered([passage.chunk for passage in passages({**base, "c": "It is new.", "e": base["a"]})], memory)
    assert read == ["It is new.", base["a"]]  # the same words under another title


@settings(max_examples=10)
@given(BASES)
def test_a_file_gives_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, base: dict[str, str]) -> None:
    file = memory_file(tmp_path_factory.getbasetemp(), "NPA")
    memory = remembered([passage.chunk for passage in passages(base)])
    write_memory(file, memory)
    assert read_memory(file) == (memory, "")
    assert file.stat().st_mode & 0o077 == 0


def test_a_missing_file_and_one_of_another_reader_hold_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = memory_file(tmp_path, "N/PA")
    assert read_memory(file) == (NOTHING, "")
    write_memory(file, remembered([passage.chunk for passage in passages({"a": SENTENCES[0].format(3)})]))
    monkeypatch.setattr("context_engine.insight.domain_conflicts._reader", lambda: "another")
    assert read_memory(file) == (NOTHING, "")


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"{}", lambda data: data[:-1] + b"x"]
)
def test_a_damaged_file_is_told(tmp_path: Path, damage: object) -> None:
    file = memory_file(tmp_path, "NPA")
    write_memory(file, remembered([passage.chunk for passage in passages({"a": SENTENCES[0].format(3)})]))
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    memory, problem = read_memory(file)
    assert memory == NOTHING and str(file) in problem
