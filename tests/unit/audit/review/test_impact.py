"""The answers that used a document, against a look at every answer there was."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.look_up import MentionCriteria
from context_engine.audit.record.drafts import fetch_draft, search_draft
from context_engine.audit.record.question import Pseudonyms
from context_engine.audit.review.impact import FATES, impact
from context_engine.core.models import AccessRecord, Principal, SearchResult
from context_engine.core.text import content_sha256
from context_engine.testing.fakes import FixedClock

WORDS = ["approval", "limit", "desk", "committee", "product", "risk", "officer", "record", "review", "gift", "outage"]
PSEUDONYMS = Pseudonyms(b"0" * 32)
Found = dict[str, tuple[str, int | None, set[tuple[Any, ...]]]]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(str(tmp_path / "ledger.db"), origin="log.example", keyring=None, clock=FixedClock()) as opened:
        yield opened


def keep(ledger: Ledger, result: SearchResult, caller: str = "") -> None:
    access = AccessRecord(principal=Principal(id=caller))
    draft = search_draft(result, access, kept="text", pseudonyms=PSEUDONYMS, code_version="1")
    ledger.append([draft])


def asked(ledger: Ledger, **wanted: Any) -> Found:
    """{search: (fate, rank, chunks)}, as impact tells them."""
    ledger.integrate()
    return {
        one.record.record_id: (one.fate, one.rank, {(*chunk[1:],) for chunk in one.chunks})
        for one in impact(ledger, MentionCriteria(**wanted))
    }


def looked_up(results: Mapping[str, SearchResult], **wanted: Any) -> Found:
    """The same by looking at every candidate of every result."""
    found: Found = {}
    for search_id, result in results.items():
        chunks = {(answer.source_id, one.chunk_id): one for answer in result.raw for one in answer.chunks}
        ranks = {(one.source_id, one.chunk_id): one.rank for one in result.chunks}
        rows = set()
        for fate in result.fates:
            chunk = chunks[fate.source_id, fate.chunk_id]
            row = {
                "fate": str(fate.outcome), "source_id": fate.source_id, "chunk_id": fate.chunk_id,
                "document_id": chunk.document_id, "document_version": chunk.document_version,
                "content_sha256": content_sha256(chunk.content),
            }  # fmt: skip
            fates = wanted.get("fates") or FATES
            if row["fate"] in fates and all(row[name] == value for name, value in wanted.items() if name != "fates"):
                rows.add(tuple(row.values()))
        if rows:
            best = min((ranks[row[1], row[2]] for row in rows if row[0] == "returned"), default=None)
            found[search_id] = (min((str(row[0]) for row in rows), key=FATES.index), best, rows)
    return found


def test_a_fetch_counts_as_shown_and_has_no_rank(ledger: Ledger, chunk_of: Any) -> None:
    chunks = [chunk_of(f"A@1#{n}", None, f"text {n}", document_id="A", document_version="1") for n in (1, 2)]
    draft = fetch_draft(
        Principal(id="clerk"), "ORM", "sops", chunks,
        record_id="f-1", now=datetime(2026, 3, 1, tzinfo=UTC), pseudonyms=PSEUDONYMS, code_version="1",
    )  # fmt: skip
    ledger.append([draft])
    rows = {("returned", "sops", f"A@1#{n}", "A", "1", content_sha256(f"text {n}")) for n in (1, 2)}
    assert asked(ledger, document_id="A", fates=("returned",)) == {"f-1": ("returned", None, rows)}
    assert asked(ledger, document_id="A", document_version="2") == {}
    (told,) = impact(ledger, MentionCriteria(chunk_id="A@1#2"))
    assert told.to_dict()["kind"] == "fetch" and len(told.chunks) == 1


def random_answers(ask: Any, chunk_of: Any, draw: random.Random, count: int) -> dict[str, SearchResult]:
    """Answers over some documents of two versions, some with the texts of others, of which each search finds a few."""
    texts = [" ".join(draw.choices(WORDS, k=12)) for _ in range(12)]
    documents = [
        chunk_of(f"{name}@{version}", None, draw.choice(texts), document_id=name, document_version=version, scores=())
        for name in ("A", "B", "C", "D")
        for version in ("1", "2", None)
        if draw.random() < 0.8
    ]
    found = {}
    for number in range(count):
        pools = [draw.sample(documents, draw.randint(0, len(documents))) for _ in range(2)]
        sources = [(tier, pool) for tier, pool in zip((1, 3), pools, strict=True) if pool]
        if sources:
            result = ask(sources, " ".join(draw.choices(WORDS, k=3)), stage2_top_k=draw.randint(1, 6))
            found[f"s{number:04}"] = replace(result, search_id=f"s{number:04}")
    return found


def subjects(results: Mapping[str, SearchResult], draw: random.Random, count: int) -> Iterator[dict[str, Any]]:
    every = [(answer.source_id, one) for result in results.values() for answer in result.raw for one in answer.chunks]
    for source_id, chunk in draw.sample(every, min(count, len(every))):
        named = draw.choice(
            [
                {"document_id": chunk.document_id},
                {"document_id": chunk.document_id, "document_version": chunk.document_version},
                {"content_sha256": content_sha256(chunk.content)},
                {"source_id": source_id, "chunk_id": chunk.chunk_id},
                {"document_id": chunk.document_id, "source_id": source_id},
            ]
        )
        fates = draw.choice([(), ("returned",), ("merged", "dropped")])
        yield {**{name: value for name, value in named.items() if value is not None}, "fates": fates}


def compared(ledger: Ledger, ask: Any, chunk_of: Any, seed: int, answers: int, questions: int) -> int:
    draw = random.Random(seed)
    results = random_answers(ask, chunk_of, draw, answers)
    for result in results.values():
        keep(ledger, result)
    met = 0
    for wanted in subjects(results, draw, questions):
        expected = looked_up(results, **wanted)
        assert asked(ledger, **wanted) == expected, wanted
        met += len(expected)
    return met


@pytest.mark.slow
def test_impact_is_what_a_look_at_every_answer_finds(ledger: Ledger, ask: Any, chunk_of: Any) -> None:
    assert compared(ledger, ask, chunk_of, seed=7, answers=15, questions=20) > 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_impact_is_what_a_look_at_every_answer_of_a_long_log_finds(
    seed: int, ledger: Ledger, ask: Any, chunk_of: Any
) -> None:
    assert compared(ledger, ask, chunk_of, seed=100 + seed, answers=250, questions=80) > 500


def test_an_answer_says_when_and_for_whom(ledger: Ledger, ask: Any, chunk_of: Any) -> None:
    result = ask([(1, [chunk_of("a", 0.9, document_id="A")])], "approval")
    keep(ledger, result, caller="dora")
    ledger.integrate()
    (found,) = impact(ledger, MentionCriteria(document_id="A"))
    told = found.to_dict()
    assert told["search_id"] == result.search_id and told["domain"] == "NPA" and told["kind"] == "search"
    assert told["caller"] == PSEUDONYMS.of_caller("dora") and told["decision"] == "answered"
    assert (told["fate"], told["rank"], told["index"]) == ("returned", 1, 0) and told["time"].endswith("Z")


def test_what_nobody_used_is_in_no_answer(ledger: Ledger, ask: Any, chunk_of: Any) -> None:
    keep(ledger, ask([(1, [chunk_of("a", 0.9, document_id="A")])], "approval"))
    assert asked(ledger, document_id="Z") == {}
