"""Section borders of a rulebook, found in plain text, against the true ones.

`python tests/benchmarks/bench_sections.py CORPUS.jsonl [--layout labelled|printed] [--show DOC]`

The corpus holds one passage a line with `doc`, `passage_id` (its label), `section` (the headings above it),
`is_heading` and `text`. Each document is put together again from its passages in order, and `outline` reads it as
plain text.

A true border is the first character of a passage: there the label changes, or the headings above it do. Two layouts:

- labelled: every passage opens with its whole label, as in an extract for reference ("1.3.3.(1) The firm must ...").
- printed: as in the printed book, where a label says only what is new ("Part 2", below it "Chapter 1", below it "3.",
  below it "(1)"); guidance stands below a line "Guidance". A passage that prints nothing but an item's mark - "(2)",
  "a)", "i.", or the next number below "Guidance" - may be found as a border, but need not be: it is an item of the
  section above it.

Precision is the share of the borders found that are the first character of a passage; recall the share of the borders
that have to be found that are found.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from context_engine.core.chunking.outline import outline

_PART = re.compile(
    r"(?:part|chapter|schedule|section|annex|appendix|app)\s+(?:[IVXLC]+|[A-Z]|\d+[A-Z]?)(?=[.:\s]|$)"
    r"|[A-Z]?\d+[A-Z]?(?:\.\d+[A-Z]?)*|\(\w+\)|[A-Z](?=\.|$)|[a-z](?=[).])|[^\W\d][\w ,()&/’'-]*",
    re.IGNORECASE,
)
_WORDED = re.compile(r"(?:part|chapter|schedule|section)\b", re.IGNORECASE)
_ITEM = re.compile(r"\(\w+\)|[a-z]|\d+")


class Border(NamedTuple):
    offset: int
    required: bool
    label: str


def documents(path: Path) -> dict[str, list[dict]]:
    out: dict[str, list[dict]] = defaultdict(list)
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        out[row["doc"]].append(row)
    return out


def labelled(rows: list[dict]) -> tuple[str, list[Border]]:
    """Every passage with its whole label in front."""
    return _joined((f"{row['passage_id']} {row['text']}", True, row["passage_id"]) for row in rows)


def printed(rows: list[dict]) -> tuple[str, list[Border]]:
    """Every passage with what is new in its label."""
    parts: list[tuple[str, bool, str]] = []
    shown: tuple[str, ...] = ()
    for row in rows:
        label = tuple(match[0].strip() for match in _PART.finditer(row["passage_id"].replace("_", " ")))
        same = 0
        while same < min(len(label) - 1, len(shown)) and label[same] == shown[same]:
            same += 1
        new = label[same:]
        item = bool(same) and len(new) == 1 and _ITEM.fullmatch(new[0]) is not None
        item = item and not (new[0].isdigit() and _WORDED.match(label[same - 1]))
        parts.append((_print(new, row), not item, row["passage_id"]))
        shown = label
    return _joined(parts)


def _print(new: tuple[str, ...], row: dict) -> str:
    """Return "Part 2 Rules" or "3.(1) The Regulator may"; guidance gets a line of its own."""
    out = ""
    for part in new:
        if re.match(r"[^\W\d]{4}", part) and not _WORDED.match(part):
            out += f"{part}\n"
        elif part[:1] == "(":
            out += part
        else:
            out += ("" if not out or out.endswith("\n") else " ") + part
    end = row["passage_id"].strip()[-1:]
    mark = end if end in ".):" and not out.endswith((")", "\n")) else ""
    return f"{out}{mark}{'' if out.endswith(chr(10)) else ' '}{row['text']}"


def _joined(parts) -> tuple[str, list[Border]]:
    texts: list[str] = []
    borders: list[Border] = []
    at = 0
    for text, required, label in parts:
        text = text.strip()
        borders.append(Border(at, required, label))
        texts.append(text)
        at += len(text) + 2
    return "\n\n".join(texts), borders


def found(text: str) -> set[int]:
    """Return where our sections begin, white space skipped."""
    return {
        one.start + len(piece) - len(piece.lstrip()) for one in outline(text) for piece in [text[one.start : one.end]]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--layout", choices=("labelled", "printed"), action="append")
    parser.add_argument("--show", metavar="DOC", help="print the misses and false borders of one document")
    options = parser.parse_args()
    rows = documents(options.corpus)
    for layout in options.layout or ("labelled", "printed"):
        report(layout, rows, options.show)


def report(layout: str, books: dict[str, list[dict]], shown: str | None) -> None:
    print(f"\n{layout}\n{'doc':5} {'borders':>7} {'required':>8} {'found':>6} {'precision':>9} {'recall':>7}")
    totals = [0, 0, 0, 0]
    for name, rows in sorted(books.items()):
        text, borders = (labelled if layout == "labelled" else printed)(rows)
        ours = found(text)
        true = {border.offset for border in borders}
        required = {border.offset for border in borders if border.required}
        counts = [len(ours), len(ours & true), len(required), len(ours & required)]
        totals = [total + count for total, count in zip(totals, counts)]
        print(
            f"{name:5} {len(true):7} {len(required):8} {counts[0]:6} "
            f"{_share(counts[1], counts[0])} {_share(counts[3], counts[2])}"
        )
        if name == shown:
            _differences(text, ours, true, required)
    print(f"all   {totals[2]:16} {totals[0]:6} {_share(totals[1], totals[0])} {_share(totals[3], totals[2])}")


def _share(part: int, whole: int) -> str:
    return f"{part / whole if whole else 1:9.3f}"


def _differences(text: str, ours: set[int], true: set[int], required: set[int]) -> None:
    for offset in sorted((required - ours) | (ours - true)):
        print("  missed" if offset in required else "  false ", repr(text[offset : offset + 100]))


if __name__ == "__main__":
    main()
