"""Speed of chunking against LangChain's and Chonkie's splitters on the same texts in one run.

    python tests/benchmarks/bench_chunking.py [--size 512] [--overlap 64] [--megabytes 2] [--runs 5] [FILE ...]

Without files the texts are made here: rulebooks of numbered sections with paragraphs, lists and tables, and Chinese
notices. Like is set against like: both sides count the same way (characters, our approximate tokens, or tiktoken where
its file is in TIKTOKEN_CACHE_DIR), have the same size and overlap and begin from the same string. Ours also finds the
sections, keeps offsets and cuts at sentences. Printed are MB of UTF-8 a second, the best of the runs interleaved, and
the ratio ours/theirs; over 1 is faster. A splitter that is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import importlib
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from context_engine.adapters.token_counters import open_counter
from context_engine.core.chunking.cut import cut
from context_engine.core.chunking.strategy import ChunkingStrategy
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.errors import ConfigError

_WORDS = (
    "the of to and in a is for that on be by with as firm must may bank limit market risk trade desk office client "
    "report record rule notice approval product control capital exposure currency daily written senior manager audit"
)
WORDS = _WORDS.split()
CHINESE = "交易员发现超限时须在三十分钟内通知分行市场风险控制部名单每年复核客户资金限额报告银行产品审批合规管理"

Split = Callable[[str], Any]


class Case(NamedTuple):
    name: str
    ours: Split
    theirs: dict[str, Split]


def rulebook(rng: random.Random, sections: int) -> str:
    def sentence() -> str:
        words = rng.choices(WORDS, k=rng.randint(8, 30))
        return f"{' '.join(words).capitalize()}{rng.choice(['.', '.', ';', '.'])}"

    parts = ["# Rulebook of the vault"]
    for number in range(1, sections + 1):
        parts.append(f"## {number} {' '.join(rng.choices(WORDS, k=4)).title()}")
        for below in range(1, rng.randint(2, 6)):
            parts.append(f"### {number}.{below} {' '.join(rng.choices(WORDS, k=3)).title()}")
            parts += [" ".join(sentence() for _ in range(rng.randint(1, 9))) for _ in range(rng.randint(1, 4))]
            if rng.random() < 0.3:
                parts.append("\n".join(f"({letter}) {sentence()}" for letter in "abcdef"))
            if rng.random() < 0.15:
                rows = "\n".join(
                    f"| {rng.choice(WORDS)} | {rng.random():.3f} | {rng.choice(WORDS)} |" for _ in range(12)
                )
                parts.append(f"| name | value | owner |\n|---|---|---|\n{rows}")
    return "\n\n".join(parts)


def chinese(rng: random.Random, articles: int) -> str:
    def sentence() -> str:
        return "".join(rng.choices(CHINESE, k=rng.randint(12, 40))) + "。"

    return "\n\n".join(
        f"第{number}条 限额\n\n" + "".join(sentence() for _ in range(rng.randint(3, 20)))
        for number in range(1, articles)
    )


def made(megabytes: float) -> list[str]:
    rng = random.Random(7)
    out: list[str] = []
    while sum(len(text.encode()) for text in out) < megabytes * 1e6:
        out.append(chinese(rng, 60) if len(out) % 5 == 4 else rulebook(rng, 12))
    return out


def ours(method: str, size: int, overlap: int, count: Callable[[str], int]) -> Split:
    strategy = ChunkingStrategy(method, size, overlap)  # type: ignore[arg-type]
    return lambda text: cut(text, strategy, count)


def missing(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed: left out")
        return None


def langchain(size: int, overlap: int, count: Callable[[str], int]) -> dict[str, Split]:
    module = missing("langchain_text_splitters")
    if module is None:
        return {}
    splitter = module.RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap, length_function=count)
    return {"langchain RecursiveCharacter": splitter.split_text}


def chonkie(size: int, overlap: int, tokenizer: Any) -> dict[str, Split]:
    module = missing("chonkie")
    if module is None:
        return {}
    return {
        "chonkie TokenChunker": module.TokenChunker(tokenizer, chunk_size=size, chunk_overlap=overlap).chunk,
        "chonkie SentenceChunker": module.SentenceChunker(tokenizer, chunk_size=size, chunk_overlap=overlap).chunk,
        "chonkie RecursiveChunker": module.RecursiveChunker(tokenizer, chunk_size=size).chunk,
    }


def cases(size: int, overlap: int) -> Iterator[Case]:
    approx = ApproxTokenCounter().count
    few = {method: ours(method, 4 * size, 4 * overlap, len) for method in ("fixed_size", "section_aware")}
    for method, split in few.items():
        peers = {**langchain(4 * size, 4 * overlap, len), **chonkie(4 * size, 4 * overlap, "character")}
        yield Case(f"{method}, characters", split, peers)
    for method in ("fixed_size", "section_aware"):
        peers = {**langchain(size, overlap, approx), **chonkie(size, overlap, approx)}
        peers.pop("chonkie TokenChunker", None)  # needs tokens, not their number
        yield Case(f"{method}, approximate tokens", ours(method, size, overlap, approx), peers)
    try:
        exact = open_counter("tiktoken:cl100k_base").count
    except ConfigError as error:
        print(f"tiktoken left out: {error}")
        return
    for method in ("fixed_size", "section_aware"):
        peers = {**langchain(size, overlap, exact), **chonkie(size, overlap, _cl100k())}
        yield Case(f"{method}, tiktoken", ours(method, size, overlap, exact), peers)


def _cl100k() -> Any:
    return importlib.import_module("tiktoken").get_encoding("cl100k_base")


def timed(split: Split, texts: list[str]) -> float:
    started = time.process_time()
    for text in texts:
        split(text)
    return time.process_time() - started


def run(case: Case, texts: list[str], runs: int) -> None:
    megabytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) / 1e6
    best: dict[str, float] = {}
    for _ in range(runs):
        for name, split in {"ours": case.ours, **case.theirs}.items():
            best[name] = min(best.get(name, float("inf")), timed(split, texts))
    print(f"\n{case.name}: ours {megabytes / best['ours']:.2f} MB/s")
    for name in case.theirs:
        print(f"  {name:30} {megabytes / best[name]:8.2f} MB/s   ours/theirs {best[name] / best['ours']:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--overlap", type=int, default=64)
    parser.add_argument("--megabytes", type=float, default=2)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    texts = [path.read_text("utf-8") for path in options.files] or made(options.megabytes)
    for case in cases(options.size, options.overlap):
        run(case, texts, options.runs)


if __name__ == "__main__":
    main()
