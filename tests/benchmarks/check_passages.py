"""Passages and their sentences for `bench_check.py`: the demo bank by sections, and a folder's `corpus.jsonl`."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import context_engine.demo
from context_engine.core.chunking.fields import record_text
from context_engine.core.chunking.spans import atoms, sentences
from context_engine.core.text import tokens

BANK = Path(context_engine.demo.__file__).parent / "bank"
WORDS = range(7, 61)

_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_LABEL = re.compile(r"^\s*(?:[-*•]|\(\w{1,4}\)|\d{1,3}[.)]|[a-z][.)])\s+")


class Passage(NamedTuple):
    """A passage with its place: the file and the heading above it, or the collection and the passage's id."""

    document: str
    place: str
    headings: tuple[str, ...]
    text: str


class Drawn(NamedTuple):
    """A sentence and the number of its passage."""

    passage: int
    text: str


def demo_passages() -> list[Passage]:
    """Return the sections of the demo bank's documents, and its records as the loader writes them."""
    out: list[Passage] = []
    for path in sorted(BANK.rglob("*.md")):
        document = str(path.relative_to(BANK))
        out += _sections(document, _FRONT_MATTER.sub("", path.read_text(encoding="utf-8")))
    for path in sorted(BANK.rglob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            title = str(record.pop("title"))
            text = record_text(title, {key: value for key, value in record.items() if key != "fetched_at"})
            out.append(Passage(str(path.relative_to(BANK)), record["entity_id"], (title,), text))
    return out


def _sections(document: str, text: str) -> Iterator[Passage]:
    title, above = "", ""
    heads = list(_HEADING.finditer(text))
    for head, following in zip(heads, [*heads[1:], None]):
        body = text[head.start() : following.start() if following else len(text)].strip()
        if head[0].startswith("# "):
            title = head[1]
        elif head[0].startswith("## "):
            above = head[1]
        headings = tuple(dict.fromkeys(filter(None, (title, above, head[1]))))
        yield Passage(document, head[1], headings, body)


def collection_passages(corpus: Path) -> list[Passage]:
    """Return the passages of a `corpus.jsonl` that are not headings."""
    rows = map(json.loads, corpus.read_text(encoding="utf-8").splitlines())
    return [
        Passage(row["doc"], row["passage_id"], (row["title"], *filter(None, row["section"].split(" > "))), row["text"])
        for row in rows
        if not row["is_heading"]
    ]


def drawn(passages: Sequence[Passage], rng: random.Random) -> list[Drawn]:
    """Return the sentences of the passages with 7 to 60 words and a full stop, in random order."""
    out = [
        Drawn(number, sentence)
        for number, passage in enumerate(passages)
        for sentence in prose(passage.text)
        if len(sentence.split()) in WORDS and sentence.endswith(".") and ":" not in sentence
    ]
    rng.shuffle(out)
    return out


def prose(text: str) -> Iterator[str]:
    """Yield the sentences of a passage's paragraphs and list items, without headings, rows and labels."""
    for atom in atoms(text, 0, len(text)):
        lines = text[atom.start : atom.end].splitlines()
        body = " ".join(line.strip() for line in lines if not line.startswith(("#", "|")))
        body = _LABEL.sub("", body).strip()
        yield from (body[start:end] for start, end in sentences(body, 0, len(body)))


def plain_words(text: str) -> list[str]:
    """Return the words of a text that a word-overlap baseline compares."""
    return tokens(text)
