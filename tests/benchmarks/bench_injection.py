"""How often harmless text is taken for an injection, how many injections are found, and what reading costs.

    python tests/benchmarks/bench_injection.py PATH... [--show]

PATH is a JSONL file with a field `text` in each line, or a folder of text files, which are cut into pieces of about
1,500 characters at empty lines. The time is CPU time beside that of the engine's own tokeniser over the same texts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from context_engine.core.policy.injection import injection_findings, injection_kinds, split_kinds
from context_engine.core.text import tokens

PIECE = 1_500
SUFFIXES = (".md", ".markdown", ".txt", ".rst", ".html", ".csv", ".erb", ".tmpl")
CORPUS = Path(__file__).parents[1] / "data/injection"


def harmless(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, text)."""
    if path.is_dir():
        for file in sorted(one for one in path.rglob("*") if one.suffix.lower() in SUFFIXES and one.is_file()):
            for number, piece in enumerate(pieces(file.read_text("utf-8", "replace"))):
                yield f"{file.relative_to(path)}#{number}", piece
        return
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        row = json.loads(line)
        yield str(row.get("id", number)), row["text"]


def pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces."""
    piece = ""
    for paragraph in text.split("\n\n"):
        piece += paragraph + "\n\n"
        if len(piece) >= PIECE:
            yield piece
            piece = ""
    if piece.strip():
        yield piece


def seconds(read: Callable[[str], object], texts: list[str]) -> float:
    """Return the CPU time of reading all texts."""
    started = time.process_time()
    for text in texts:
        read(text)
    return time.process_time() - started


def false_alarms(path: Path, *, show: bool) -> None:
    """Print the share of harmless texts that are flagged, and of pairs that stand beside each other."""
    named = list(harmless(path))
    texts = [text for _, text in named]
    flagged = [(name, text, found) for name, text in named if (found := injection_findings(text))]
    split = sum(bool(split_kinds(one, other)) for one, other in pairwise(texts))
    print(
        f"{path}: {len(flagged)} of {len(texts)} texts flagged ({1000 * len(flagged) / max(len(texts), 1):.2f} in a "
        f"thousand), {split} where two texts meet"
    )
    for name, text, found in flagged if show else ():
        said = "; ".join(f"{one.kind}: {text[one.start : one.end]!r}" for one in found[:3])
        print(f"  {name}: {said}")
    sizes = max(sum(map(len, texts)), 1)
    own, baseline = seconds(injection_findings, texts), seconds(tokens, texts)
    print(f"  {own / sizes * 1e9:.0f} ns a character, {own / max(baseline, 1e-9):.2f} times the tokeniser's")


def found_share(file: Path) -> None:
    """Print the share of a file of the corpus that is flagged."""
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    by_kind: dict[str, list[bool]] = {}
    for row in rows:
        kinds = split_kinds(*row["parts"]) if "parts" in row else injection_kinds(row["text"])
        disguised = "in plain words" if row["encoding"] == "plain" else "disguised or split"
        group = disguised if row["kind"] == "instructions" else "faked marks"
        by_kind.setdefault(f"{'instructions ' if group != 'faked marks' else ''}{group}", []).append(bool(kinds))
    parts = ", ".join(f"{name} {sum(hits)} of {len(hits)}" for name, hits in sorted(by_kind.items()))
    total = sum(sum(hits) for hits in by_kind.values())
    print(f"{file.name}: {total} of {len(rows)} found ({parts})")


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--show", action="store_true", help="print what was flagged, and where")
    given = parser.parse_args()
    for file in sorted(CORPUS.glob("*.jsonl")):
        found_share(file)
    for path in given.paths:
        false_alarms(path, show=given.show)


if __name__ == "__main__":
    main()
