"""The approximate token count over the true one.

    TIKTOKEN_CACHE_DIR=DIR python tests/benchmarks/bench_tokens.py [--piece 2000] [--counter NAME ...] FILE ...

Every file is cut into pieces of as many characters; printed are the ratio of the sums, and the 5th and the 95th
percentile of the ratios of the single pieces. Counters are those of `context_engine.adapters.token_counters`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from context_engine.adapters.token_counters import open_counter
from context_engine.core.context.tokens import ApproxTokenCounter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--piece", type=int, default=2000)
    parser.add_argument("--counter", action="append", metavar="NAME")
    options = parser.parse_args()
    approx = ApproxTokenCounter().count
    for name in options.counter or ["tiktoken:cl100k_base", "tiktoken:o200k_base"]:
        true = open_counter(name).count
        print(f"\n{name}\n{'file':40} {'pieces':>6} {'sum':>6} {'p5':>6} {'p95':>6}")
        for file in options.files:
            text = file.read_text("utf-8")
            pieces = [text[start : start + options.piece] for start in range(0, len(text), options.piece)]
            counts = [(approx(piece), true(piece)) for piece in pieces if piece.strip()]
            ratios = sorted(ours / theirs for ours, theirs in counts)
            whole = sum(ours for ours, _ in counts) / sum(theirs for _, theirs in counts)
            low, high = ratios[len(ratios) // 20], ratios[-1 - len(ratios) // 20]
            print(f"{file.name:40} {len(counts):6} {whole:6.3f} {low:6.3f} {high:6.3f}")


if __name__ == "__main__":
    main()
