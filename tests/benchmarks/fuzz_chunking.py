"""Random texts through every chunker, against the laws; by hand.

    python tests/benchmarks/fuzz_chunking.py [--minutes 10] [--seed 1] [--most 4000] [FILE ...]

Texts are made of lines that the chunkers look at (labels, headings, tables, fences, stops, scripts without blanks),
of any characters, and of pieces of the files given; then characters are taken out, doubled, moved and replaced. Every
text is cut by both methods of text and as a record, with several sizes, overlaps and counters. Broken laws are printed
with the text made small and the seed of the round; so is a text that takes more than a millisecond a character.
Exit code 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from context_engine.core.chunking.cut import cut
from context_engine.core.chunking.fields import field_pieces, record_text
from context_engine.core.chunking.outline import outline, section_title
from context_engine.core.chunking.strategy import ChunkingStrategy
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.ingest.chunk_metadata import defined_terms
from context_engine.ingest.header import header_fields

COUNTERS: dict[str, Callable[[str], int]] = {
    "approx": ApproxTokenCounter().count,
    "words": lambda text: len(text.split()),
    "characters": len,
    "bytes": lambda text: len(text.encode("utf-8", "surrogatepass")) // 3 + bool(text),
}
_SEEDS = (
    "# Rules¦## 4 Access¦### 4.1¦#### ¦Title¦=====¦-----¦```¦~~~¦| a | b |¦|---|---|¦- item¦1. item¦2) item¦(a) item",
    "4.1 Keys are held.¦4.1.2(b) The firm¦1.2.Guidance.3 Firms¦1.2.Guidance on late fees.1. Firms¦12) Text of it.",
    "A. Limits¦IV. Limits¦Article 5¦ARTICLE 5: Scope¦Scope¦Section 4 of the Act¦Part 2.Chapter 3.4.(1) The¦Annex II",
    "APP1.A1.2 x¦Guidance¦Guidance on fees¦第三条 上限¦二、范围¦제3조 목적¦มาตรา 5 ขอบเขต¦Version: 3.2¦Notice No. 637",
    '12 March 2025¦"Key" means a key.¦**Bold** - text of it here¦Term: what the term says here¦(the “Bank”)¦e.g. No. 5',
    "所称限额，是指上限。¦One. Two! Three?¦...¦。。。！¦．¦ธนาคารต้องรายงานธุรกรรม¦Лимит. Он¦الحد؟ الحد",
    "e\u0301\u0301\u0301¦\u200d\u200d¦\U0001f469\u200d\U0001f4bb¦\u3000¦\u00a0¦\u2028¦\x0b¦\x0c¦\x1c¦\x85¦\r¦\t",
    "    indented¦\ud800",
    "x" * 40,
)
LINES = [line for seed in _SEEDS for line in seed.split("¦")]
CHARACTERS = "aA1 .\n\n|#-(:。)\t“*_`~=第条0,;"


def made(rng: random.Random, corpus: list[str], most: int) -> str:
    kind = rng.random()
    if corpus and kind < 0.3:
        text = rng.choice(corpus)
        start = rng.randrange(len(text))
        text = text[start : start + rng.randrange(1, most)]
    elif kind < 0.75:
        text = "".join(rng.choice(LINES) + rng.choice(("\n", "\n\n", " ", "")) for _ in range(rng.randrange(1, 60)))
    elif kind < 0.9:
        text = "".join(rng.choices(CHARACTERS, k=rng.randrange(1, 400)))
    else:
        text = "".join(chr(rng.randrange(1, 0x3200)) for _ in range(rng.randrange(1, 200)))
    for _ in range(rng.randrange(6)):
        text = mutated(rng, text)
    return text[:most]


def mutated(rng: random.Random, text: str) -> str:
    if not text:
        return text
    start = rng.randrange(len(text))
    end = min(len(text), start + rng.randrange(1, 60))
    part = text[start:end]
    other = rng.choice((*LINES, *CHARACTERS))
    choices = (
        text[:start] + text[end:],
        text[:start] + part * rng.randrange(2, 40) + text[end:],
        text[:start] + other + text[start:],
        text[:start] + other + text[end:],
        part + text[:start] + text[end:],
        text[:start] + part.upper() + text[end:],
    )
    return rng.choice(choices)


def written(text: str) -> str:
    return "".join(text.split())


def broken(text: str, method: str, size: int, overlap: int, counter: str) -> str | None:
    """Return the law that a text breaks, None for none."""
    count = COUNTERS[counter]
    try:  # that nothing raises is a law
        return _record(text, size, count) if method == "field_level" else _text(text, method, size, overlap, count)
    except Exception as error:
        return f"raises {type(error).__name__}: {error}"


def _text(text: str, method: str, size: int, overlap: int, count: Callable[[str], int]) -> str | None:
    pieces = cut(text, ChunkingStrategy(method, size, overlap), count)  # type: ignore[arg-type]
    if pieces != cut(text, ChunkingStrategy(method, size, overlap), count):  # type: ignore[arg-type]
        return "is cut otherwise the second time"
    end, kept = 0, []
    for position, piece in enumerate(pieces):
        start, stop = piece.span
        if piece.position != position or piece.content != text[start:stop] or not piece.content.strip():
            return f"piece {position} is empty, misplaced or not its span"
        if count(piece.content) > size:
            return f"piece {position} has {count(piece.content)} tokens"
        if stop <= end or (start < end and count(text[start:end]) > overlap):
            return f"piece {position} brings nothing new or repeats too much"
        kept.append(text[max(start, end) : stop])
        end = stop
        section_title(piece.heading_path)
        defined_terms(piece.content, glossary=bool(position % 2))
    if written("".join(kept)) != written(text):
        return "a character is lost"
    sections = outline(text)
    if "".join(text[one.start : one.end] for one in sections) != text:
        return "the sections do not cover the text"
    header_fields(text)
    return None


def _record(text: str, size: int, count: Callable[[str], int]) -> str | None:
    rows = text.split("\n")
    record = record_text(rows[0], {f"field {number}": row for number, row in enumerate(rows[1:])})
    pieces = field_pieces(record, size, count)
    if any(count(piece.content) > size for piece in pieces):
        return "a piece of the record is over the limit"
    if written("".join(record[slice(*piece.span)] for piece in pieces)) != written(record):
        return "a character of the record is lost"
    return None


def _breaks(method: str, size: int, overlap: int, counter: str, text: str) -> bool:
    return broken(text, method, size, overlap, counter) is not None


def smaller(text: str, fails: Callable[[str], bool]) -> str:
    """Return a part of the text that fails too, without any further part that can be left out."""
    step = len(text) // 2
    while step:
        at = 0
        while at < len(text):
            shorter = text[:at] + text[at + step :]
            if fails(shorter):
                text = shorter
            else:
                at += step
        step //= 2
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=4000, help="characters of a text")
    options = parser.parse_args()
    corpus = [path.read_text("utf-8") for path in options.files]
    end = time.monotonic() + options.minutes * 60
    findings: set[str] = set()
    texts = 0
    while time.monotonic() < end and len(findings) < 10:
        rng = random.Random(f"{options.seed}/{texts}")
        text = made(rng, corpus, options.most)
        method = rng.choice(("section_aware", "section_aware", "fixed_size", "field_level"))
        size, counter = rng.choice((16, 17, 32, 64, 200, 512)), rng.choice(list(COUNTERS))
        overlap = rng.choice((0, size // 8, size // 2, size - 1))
        started = time.process_time()
        law = broken(text, method, size, overlap, counter)
        slow = time.process_time() - started
        if slow > 0.2 + 0.001 * len(text):
            law = f"takes {slow:.1f} s for {len(text)} characters"
        texts += 1
        if law and law not in findings:
            findings.add(law)
            if not law.startswith("takes"):
                text = smaller(text, partial(_breaks, method, size, overlap, counter))
            print(f"round {texts - 1}: {method} {size}/{overlap} {counter}: {law}\n  {text[:600]!r}", flush=True)
    print(f"{texts} texts, {len(findings)} findings")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
