"""A rehearsal tells to the byte what the change does: asked before in a copy, and again after the change is made."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from context_engine import Engine, SearchRequest, SearchResult, build_engine, demo
from context_engine.adapters.sources.local.base import LocalBase
from context_engine.ingest.run import ingest
from context_engine.insight.rehearsal import AnswerChange, rehearsed
from context_engine.wiring.draft import copied_data
from context_engine.wiring.embedded_base import base_path
from context_engine.wiring.setup import Setup, load_setup

pytestmark = pytest.mark.slow
DOMAIN = "NPA"
_HEADING = re.compile(r"^#+ (?:[\d.]+ )?(.+)$", re.MULTILINE)
_SHAPES = ("{}", "what about {}", "who decides on {}?", "{} limit", "when is {} required", "explain {} and {}")


class Prediction(NamedTuple):
    """How many answers change in each way, and how many are after the change what was predicted, to the byte."""

    changes: dict[str, int]
    equal: int
    asked: int


def predicted_and_asked_again(folder: Path, count: int, seed: int = 7) -> Prediction:
    """Rehearse a change over questions of the demo bank, make it, and ask again."""
    setup = load_setup(manifest_dir=demo.MANIFESTS, env={"HOME": str(folder)}, cwd=folder)
    data, draft = folder / "data", _draft(folder / "draft", random.Random(seed))
    _ingested(setup, data, demo.BANK)
    questions = _questions(count, random.Random(seed))
    before = _asked(setup, data, questions)
    with copied_data(setup, setup.registry.domain(DOMAIN), data) as copy:
        _ingested(setup, copy, draft)
        planned = _asked(setup, copy, questions)
    assert list(map(_published, _asked(setup, data, questions[:20]))) == list(map(_published, before[:20]))  # untouched
    _ingested(setup, data, draft)
    after = _asked(setup, data, questions)
    changes = [rehearsed(old, new).change for old, new in zip(before, planned, strict=True)]
    equal = sum(_published(new) == _published(made) for new, made in zip(planned, after, strict=True))
    return Prediction({str(change): changes.count(change) for change in AnswerChange}, equal, len(questions))


def _draft(folder: Path, rng: random.Random) -> Path:
    """Write some documents of the domain with other numbers and duties, and a new one."""
    files = sorted((demo.BANK / "npa/sops").glob("*.md"))
    for file in rng.sample(files, max(len(files) // 2, 1)):
        text = file.read_text("utf-8")
        front, body = text[: text.index("\n---\n", 4)], text[text.index("\n---\n", 4) :]
        body = re.sub(r"\b(\d+) (Business Days|months|%)", lambda match: f"{int(match[1]) + 3} {match[2]}", body)
        (folder / "npa/sops").mkdir(parents=True, exist_ok=True)
        (folder / "npa/sops" / file.name).write_text(front + body.replace(" shall ", " must "), "utf-8")
    shutil.copy(files[0], folder / "npa/sops/NPA-SOP-099.md")
    return folder


def _ingested(setup: Setup, data: Path, folder: Path) -> None:
    specs = setup.registry.domain(DOMAIN).sources
    with LocalBase.open(base_path(data), create=True) as base, base.writer() as writer:
        ingest(folder, specs, writer)


def _questions(count: int, rng: random.Random) -> list[str]:
    asked = [json.loads(line) for line in demo.QUESTIONS.read_text("utf-8").splitlines()]
    texts = [file.read_text("utf-8") for file in sorted((demo.BANK / "npa").rglob("*.md"))]
    heads = sorted({heading for text in texts for heading in _HEADING.findall(text)})
    own = [row["query"] for row in asked if row["domain"] == DOMAIN][: count // 4]
    made = (rng.choice(_SHAPES).format(*rng.sample(heads, 2)) for _ in range(count - len(own)))
    return [*own, *made]


def _asked(setup: Setup, data: Path, questions: Sequence[str]) -> list[SearchResult]:
    engine: Engine = build_engine(setup, data_dir=data, recorded=False)
    with engine:
        return [engine.search(SearchRequest(query=question, domain=DOMAIN)) for question in questions]


def _published(result: SearchResult) -> bytes:
    """Return what a reader sees: decision, texts, order, scores, tiers, notes."""
    return json.dumps([str(result.decision), str(result.status), list(_rows(result))], sort_keys=True).encode()


def _rows(result: SearchResult) -> Iterator[list[Any]]:
    for chunk in result.chunks:
        scores = (chunk.final, chunk.relevance, chunk.absolute, str(chunk.confidence))
        yield [chunk.source_id, chunk.chunk_id, chunk.content, *scores, chunk.authority_tier, sorted(chunk.flags)]


def test_a_rehearsal_predicts_to_the_byte(tmp_path: Path) -> None:
    prediction = predicted_and_asked_again(tmp_path, 60)
    assert prediction.equal == prediction.asked == 60
    assert prediction.changes["lost"] + prediction.changes["order"] + prediction.changes["scores"] > 0
