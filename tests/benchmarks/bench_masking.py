"""What the masker finds and what it takes for personal data: 2,000 made lines with look-alikes, and texts at hand.

    python tests/benchmarks/bench_masking.py [--lines 2000] [--seed 20261123] [--texts FOLDER]

Prints precision and recall by kind beside regular expressions alone (the same forms without what decides: checksums,
issuers, numbering plans), and megabytes a second of prose, of numbers in tables and of texts of the worst kind. With
FOLDER, every place that is found in its .md, .txt, .csv and .jsonl files, to be read by a person.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent))

from masking_lines import COUNTRIES, KINDS, PHONE_REGIONS, lines, tallies

from context_engine.adapters.maskers import PersonalDataOptions, open_personal_data
from context_engine.core.policy.masking import PseudonymMask
from context_engine.core.protocols import Masker

FORMS = {
    "CARD": re.compile(r"\b\d(?:[ -]?\d){12,18}\b"),
    "IBAN": re.compile(r"\b[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}\b", re.IGNORECASE),
    "ID": re.compile(r"\b(?:[STFGM]\d{7}[A-Z]|[A-Z]{1,2}\d{6}\([0-9A]\)|\d{17}[\dX])"),
    "PHONE": re.compile(r"\+?\(?\b\d[\d ()-]{6,18}\d\b"),
    "EMAIL": re.compile(r"[\w.+'-]+@[\w-]+(?:\.[\w-]+)+"),
}


def forms_alone(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield what has the form of a kind; of places that overlap the first kind's."""
    taken: list[tuple[int, int]] = []
    for kind, form in FORMS.items():
        for found in form.finditer(text):
            if all(found.end() <= start or end <= found.start() for start, end in taken):
                taken.append(found.span())
                yield kind, *found.span()


def places(masker: Masker) -> Callable[[str], Iterator[tuple[str, int, int]]]:
    """Return what a masker finds as places."""
    return lambda text: ((one.kind, one.start, one.end) for one in masker.find(text))


def quality(masker: Masker, count: int, seed: int) -> None:
    """Print precision and recall by kind."""
    made = lines(count, seed=seed)
    ours, forms = tallies(made, places(masker)), tallies(made, forms_alone)
    print(f"{count} lines, {sum(len(line.truth) for line in made)} true values")
    print(f"{'':8}{'precision':>10}{'recall':>8}{'false':>7}{'missed':>8}   | forms alone: precision, recall, false")
    for kind in (*KINDS, ""):
        one, other = ours[kind], forms[kind]
        row = f"{one.precision:10.3f}{one.recall:8.3f}{one.false:7d}{one.missed:8d}"
        print(f"{kind or 'all':8}{row}   | {other.precision:.3f} {other.recall:.3f} {other.false:4d}")


def speed(masker: Masker, made: str) -> None:
    """Print megabytes a second."""
    draw = Random(1)
    prose = "The committee approves the limit in clause 4.2 within 30 days and informs the desk in writing. " * 5000
    rows = "\n".join(" ".join(str(draw.randint(0, 99999)) for _ in range(12)) for _ in range(3000))
    samples = {
        "prose": prose,
        "made lines": made,
        "tables": rows,
        "4111 4111 ...": "4111 " * 40_000,
        "@@@": "@" * 200_000,
    }
    for name, text in samples.items():
        for what, run in (
            ("found", lambda text: list(masker.find(text))),
            ("masked", PseudonymMask([masker], b"k" * 32)),
        ):
            began = time.process_time()
            run(text)
            print(f"{name:14} {what:7} {len(text.encode()) / 1e6 / (time.process_time() - began):8.2f} MB/s")


def texts(masker: Masker, folder: Path) -> None:
    """Print what is found in files that nobody made for it."""
    size, seconds = 0, 0.0
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".md", ".txt", ".csv", ".jsonl"):
            continue
        text = path.read_text("utf-8", "replace")
        began = time.process_time()
        found = list(masker.find(text))
        seconds, size = seconds + time.process_time() - began, size + len(text.encode())
        for one in found:
            around = " ".join(text[max(0, one.start - 30) : one.end + 15].split())
            print(f"{path.relative_to(folder)}: {one.kind} {text[one.start : one.end]!r} in {around!r}")
    print(f"{size / 1e6:.1f} MB, {size / 1e6 / max(seconds, 1e-9):.1f} MB/s")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--texts", type=Path)
    options = parser.parse_args()
    masker = open_personal_data(PersonalDataOptions(countries=COUNTRIES, phone_regions=PHONE_REGIONS))
    quality(masker, options.lines, options.seed)
    speed(masker, "\n".join(line.text for line in lines(options.lines, seed=options.seed)))
    if options.texts:
        texts(masker, options.texts)


if __name__ == "__main__":
    main()
