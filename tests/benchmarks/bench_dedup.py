"""CPU time of near-duplicate detection against MinHash LSH and plain set comparison, on the same texts in one run.

    python tests/benchmarks/bench_dedup.py [--sizes 40 200 1000] [--runs 7]

Texts: 400 words from a Zipf vocabulary of 60,000 (function words first), 15 % of them tokens that carry the meaning of
a rule (numbers, units, codes, modals, negations); 35 % under one page head of about 330 characters. Then 30 % are
replaced by edited copies of others. Edits that leave every such token in place must be merged: "recall" counts all
of them, "at .85" those with a word-set Jaccard of at least .85, headers aside. Edits that change such a token must not
be merged (kinds with "!", "contraries"), nor unrelated texts ("false").
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import statistics
import time
from bisect import bisect
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import accumulate
from typing import NamedTuple

from context_engine.core.engine.candidate_table import StageTwoInput
from context_engine.core.engine.search_plan import ClockReading, SearchPlan
from context_engine.core.engine.stage2 import rank
from context_engine.core.models import (
    Chunk,
    EffectiveSettings,
    RawAnswer,
    SearchRequest,
    Settings,
    SourceSpec,
    SourceType,
)
from context_engine.core.ranking.candidates import AnalysedText
from context_engine.core.ranking.dedup import deduplicate

VOCABULARY = 60_000
WORDS = 400
_FUNCTION = (
    "the of to and in a is for that on be by with as this it are at an which was has have been its their such each "
    "these when who where also into than there other they so what about between through during if then"
)
FUNCTION_WORDS = _FUNCTION.split()
_CARRYING = (
    "must may shall should not no or any all within before after above below minimum maximum USD EUR KYC VaR approved "
    "rejected days months percent 5 7 10 30 2025 4.2.1(b) NPA-001 2025-03-31 internal only without unless"
)
MEANINGFUL = _CARRYING.split()
_PAIRS = (("must", "may"), ("before", "after"), ("above", "below"), ("USD", "EUR"), ("5", "7"), ("10", "30"))
CONTRARY = dict(_PAIRS) | {second: first for first, second in _PAIRS}
HEAD = (
    "Meridian Harbour Bank Standard Operating Procedure\n\nDocument No.: MHB-SOP-{number:03}\nVersion: {version}.1\n"
    "Effective date: 2025-03-{day:02}\nOwner: Head of Market Risk Control\nClassification: Internal\n\n"
)
PREAMBLE = (
    "It binds all staff, branches and subsidiaries that carry on the activity it describes, and printed copies are "
    "uncontrolled.\n\n"
)

Merger = Callable[[list[str]], list[int]]


class Pool(NamedTuple):
    """Texts with what is true of them: the family of each, and the kind of edit it is."""

    texts: list[str]
    family: list[int]
    edit: list[str]


class Words:
    """Draws words by Zipf's law."""

    def __init__(self, rng: random.Random) -> None:
        syllables = [a + b for a in "bcdfgklmnprstv" for b in ("a", "e", "i", "o", "u", "an", "er", "il")]
        words = dict.fromkeys(FUNCTION_WORDS)
        while len(words) < VOCABULARY:
            lengths = (2, 2, 2, 3) if len(words) < 2_000 else (2, 3, 3, 4)
            words["".join(rng.choices(syllables, k=rng.choice(lengths)))] = None
        self.words = list(words)
        self.weights = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
        self.rng = rng

    def draw(self) -> str:
        """Return one word, the first of the vocabulary most often."""
        return self.words[bisect(self.weights, self.rng.random() * self.weights[-1])]

    def content(self) -> str:
        """Return one word that is no function word."""
        return next(word for word in iter(self.draw, None) if word not in FUNCTION_WORDS)


def sentences(words: Words, rng: random.Random) -> list[list[str]]:
    """Return about 400 words as sentences of 8 to 24."""
    out: list[list[str]] = []
    left = WORDS
    while left > 0:
        length = min(left, rng.randint(8, 24)) if left > 9 else left + 2
        middle = (rng.choice(MEANINGFUL) if rng.random() < 0.15 else words.draw() for _ in range(length - 2))
        out.append([words.content(), *middle, words.content()])
        left -= length
    return out


def written(body: list[list[str]]) -> str:
    """Return sentences as text."""
    return " ".join(" ".join([sentence[0].capitalize(), *sentence[1:]]) + "." for sentence in body)


def reworded(body: list[list[str]], share: float, words: Words, rng: random.Random) -> list[list[str]]:
    """Replace a share of the ordinary words by others."""
    carried = set(MEANINGFUL)
    places = [(i, j) for i, row in enumerate(body) for j, word in enumerate(row) if word not in carried]
    out = [row[:] for row in body]
    for i, j in rng.sample(places, round(share * WORDS)):
        out[i][j] = words.draw()
    return out


def contradicted(body: list[list[str]], rng: random.Random) -> list[list[str]]:
    """Replace one token by its contrary."""
    places = [(i, j) for i, row in enumerate(body) for j, word in enumerate(row) if word in CONTRARY]
    i, j = rng.choice(places)
    out = [row[:] for row in body]
    out[i][j] = CONTRARY[out[i][j]]
    return out


def shortened(body: list[list[str]]) -> tuple[list[list[str]], set[str]]:
    """Return all but the last tenth of the words, and the words cut off."""
    left, gone = WORDS - WORDS // 10, set()
    out: list[list[str]] = []
    for row in body:
        out += [row[:left]] if left > 0 else []
        gone.update(row[max(left, 0) :])
        left -= len(row)
    return out, gone


def edited(
    kind: str, head: str, preamble: str, body: list[list[str]], words: Words, rng: random.Random
) -> tuple[str, str]:
    """Return (kind, text) of an edited copy; the kind gains "!" where a meaningful token has changed."""
    if kind == "header":
        head = "" if head else HEAD.format(number=rng.randint(1, 999), version=rng.randint(1, 9), day=1)
    elif kind == "version":
        head = HEAD.format(number=7, version=rng.randint(10, 99), day=rng.randint(1, 28))
    elif kind in ("edit5", "edit10"):
        body = reworded(body, 0.05 if kind == "edit5" else 0.10, words, rng)
    elif kind == "reordered":
        body = rng.sample(body, len(body))
    elif kind == "cut10":
        body, gone = shortened(body)
        kind += "!" * bool(gone & set(MEANINGFUL))
    elif kind == "contrary!":
        body = contradicted(body, rng)
    text = head + preamble + written(body)
    return kind, text.upper().replace(". ", ".\n  ").replace(" AND ", ", AND ") if kind == "spelling" else text


KINDS = ("edit5", "edit10", "reordered", "header", "cut10", "version", "spelling", "contrary!")


def pool(size: int, seed: int, words: Words) -> Pool:
    """Return texts of which 30 % are edited copies of others, in random order."""
    rng = random.Random(seed)
    originals = size - round(0.3 * size)
    rows: list[tuple[str, int, str]] = []
    bodies: list[tuple[str, str, list[list[str]]]] = []
    for family in range(originals):
        shared = rng.random() < 0.35
        head, preamble = (HEAD.format(number=7, version=3, day=1), PREAMBLE) if shared else ("", "")
        bodies.append((head, preamble, sentences(words, rng)))
        rows.append((head + preamble + written(bodies[-1][2]), family, "original"))
    for turn, family in enumerate(rng.sample(range(originals), size - originals)):
        kind, text = edited(KINDS[turn % len(KINDS)], *bodies[family], words, rng)
        rows.append((text, family, kind))
    rng.shuffle(rows)
    return Pool(*map(list, zip(*rows)))


def ours(texts: list[str]) -> list[int]:
    """Return the index of the text each one joins, its own where it is kept."""
    return [
        index if match is None else match.into
        for index, match in enumerate(deduplicate([AnalysedText(text) for text in texts]))
    ]


def whole_stage(texts: list[str]) -> list[int]:
    """Run all of stage 2 over the texts of one source: lexical relevance, dedup, filter, authority, tags."""
    now = datetime(2026, 3, 2, tzinfo=UTC)
    spec = SourceSpec(id="s", type=SourceType.BANK_SOP)
    chunks = tuple(Chunk(content=text, chunk_id=f"{index:06}") for index, text in enumerate(texts))
    plan = SearchPlan(
        request=SearchRequest(query="approval limit of the committee before launch", domain="D"),
        specs=(spec,),
        effective=EffectiveSettings(values=Settings(min_relevance_score=0.0), origins={}),
        prepared=None,
        clock=ClockReading.at(now, UTC, None),
        search_id="0",
    )
    inputs = StageTwoInput(plan, (RawAnswer(source_id="s", chunks=chunks, retrieved_at=now),))
    into = {fate.chunk_id: fate.into[1] for fate in rank(inputs).fates if fate.into is not None}
    return [int(into.get(chunk.chunk_id, chunk.chunk_id)) for chunk in chunks]


def frozensets(texts: list[str]) -> list[int]:
    """Compare each set of words with every kept one."""
    kept: list[tuple[int, frozenset[str]]] = []
    out = []
    for index, text in enumerate(texts):
        words = frozenset(text.lower().split())
        into = index
        for other, theirs in kept:
            if len(words & theirs) >= 0.85 * len(words | theirs):
                into = other
                break
        else:
            kept.append((index, words))
        out.append(into)
    return out


def minhash(shingle: int, bulk: bool) -> Merger:
    """Return datasketch's MinHashLSH over shingles of so many words, 128 permutations."""
    from datasketch import MinHash, MinHashLSH

    def shingles(text: str) -> list[bytes]:
        words = text.lower().split()
        if shingle == 1:
            return [word.encode() for word in set(words)]
        return [part.encode() for part in {" ".join(words[i : i + shingle]) for i in range(len(words) - shingle + 1)}]

    def sketches(texts: list[str]) -> Iterator[MinHash]:
        if bulk:
            yield from MinHash.bulk([shingles(text) for text in texts], num_perm=128)
            return
        for text in texts:
            sketch = MinHash(num_perm=128)
            sketch.update_batch(shingles(text))
            yield sketch

    def merge(texts: list[str]) -> list[int]:
        index = MinHashLSH(threshold=0.85, num_perm=128)
        out = []
        for place, sketch in enumerate(sketches(texts)):
            found = index.query(sketch)
            out.append(min(found) if found else place)
            if not found:
                index.insert(place, sketch)
        return out

    return merge


def near_enough(first: str, second: str) -> bool:
    """Return whether the words of two texts, their headers left out, have a Jaccard similarity of at least .85."""
    words, words_too = (
        {word.strip(".,") for word in text.lower().split("internal\n\n")[-1].split()} for text in (first, second)
    )
    return len(words & words_too) >= 0.85 * len(words | words_too)


def quality(data: Pool, joined: list[int]) -> tuple[float, float, dict[str, str], int, int]:
    """Return recall over harmless edits, over those at .85, hits by kind, merges of unrelated texts, of contraries."""
    by_family: dict[int, list[int]] = {}
    for index, family in enumerate(data.family):
        by_family.setdefault(family, []).append(index)
    found: dict[str, list[bool]] = {}
    close: list[bool] = []
    for pair in by_family.values():
        if len(pair) == 2:
            kind = next(data.edit[index] for index in pair if data.edit[index] != "original")
            found.setdefault(kind, []).append(joined[pair[0]] == joined[pair[1]])
            if not kind.endswith("!") and near_enough(data.texts[pair[0]], data.texts[pair[1]]):
                close.append(joined[pair[0]] == joined[pair[1]])
    must = [hit for kind, hits in found.items() if not kind.endswith("!") for hit in hits]
    contraries = sum(sum(hits) for kind, hits in found.items() if kind.endswith("!"))
    unrelated = sum(data.family[into] != data.family[index] for index, into in enumerate(joined))
    kinds = {kind: f"{sum(hits)}/{len(hits)}" for kind, hits in sorted(found.items())}
    return sum(must) / len(must), sum(close) / len(close), kinds, unrelated, contraries


def timed(mergers: dict[str, Merger], texts: list[str], runs: int) -> dict[str, float]:
    """Return the median CPU time of each in ms, the runs taken in turn."""
    spent: dict[str, list[float]] = {name: [] for name in mergers}
    for _ in range(runs):
        for name, merge in mergers.items():
            fresh = ["".join(list(text)) for text in texts]
            start = time.process_time()
            merge(fresh)
            spent[name].append(1000 * (time.process_time() - start))
    return {name: statistics.median(times) for name, times in spent.items()}


def main() -> None:
    """Print one table for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[40, 200, 1000])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    mergers: dict[str, Merger] = {
        "context_engine near": ours,
        "context_engine, all of stage 2": whole_stage,
        "frozensets, all pairs": frozensets,
    }
    if importlib.util.find_spec("datasketch"):
        for shingle in (1, 3):
            mergers[f"datasketch {shingle}-word update_batch"] = minhash(shingle, bulk=False)
            mergers[f"datasketch {shingle}-word bulk"] = minhash(shingle, bulk=True)
    else:
        print("datasketch is not installed: pip install datasketch")
    words = Words(random.Random(options.seed))
    for size in options.sizes:
        data = pool(size, options.seed + size, words)
        times = timed(mergers, data.texts, options.runs if size <= 200 else max(3, options.runs // 2))
        print(f"\nn = {size:<6}{'method':<32}CPU ms   ratio  recall  at .85  false  contraries  by kind")
        for name, merge in mergers.items():
            recall, close, kinds, unrelated, contraries = quality(data, merge(data.texts))
            ratio = times[name] / times["context_engine near"]
            row = f"{times[name]:10.1f}{ratio:8.1f}{recall:8.2f}{close:8.2f}{unrelated:7}{contraries:12}"
            print(f"  {name:34}{row}  {kinds}")


if __name__ == "__main__":
    main()
