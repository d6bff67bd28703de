"""Does the check of an answer's sentences let a false sentence pass, and does it let a faithful paraphrase pass?

    python tests/benchmarks/bench_check.py [--corpus corpus.jsonl] [--count 2000] [--seed 20] [--show 0]

True sentences of the demo bank and of a folder's passages are corrupted in one thing each (`check_corruptions.py`), or
said otherwise by rules that keep their meaning (`check_paraphrases.py`); `paraphrases.jsonl` has paraphrases written by
hand over the demo bank. Sentences about rows of tables (`check_tables.py`) say the row, exchange two of its columns, or
take a value from the row before. A false sentence should not pass as supported, a paraphrase should. Half of the cases,
by a draw, are for development (`--half` names the half that `--show` prints); the other half is held. The baseline
passes a sentence if its passages hold .8 of its words. A quarter of the false sentences come with the true sentence as
a quote.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from check_corruptions import (
    CORRUPTIONS,
    name,
    reads_alike,
    says_the_same_of_it,
    still_supported,
    wrong_clause,
)
from check_paraphrases import paraphrase
from check_passages import Drawn, Passage, collection_passages, demo_passages, drawn, plain_words
from check_tables import table_sentences

from context_engine.answer.values import Evidence

KINDS = [*CORRUPTIONS, "name", "wrong_clause", "blend", "swapped_citation"]
HALVES = ("development", "held")


class Case(NamedTuple):
    """A sentence with the passages it cites, and what the check should say.

    Attributes:
        quotes: verbatim quotes given with the sentence.
        original: the sentence it was made of.
        joined: of a blend, the sentence that its predicate is of.
    """

    kind: str
    half: str
    faithful: bool
    sentence: str
    cited: tuple[Passage, ...]
    quotes: tuple[str, ...]
    original: str
    joined: str = ""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", type=Path, help="corpus.jsonl of a collection of passages")
    options.add_argument("--count", type=int, default=2000)
    options.add_argument("--seed", type=int, default=20, help="of the corruptions; the paraphrases stay the same")
    options.add_argument("--show", type=int, default=0, help="wrong verdicts to print, of each kind")
    options.add_argument("--half", choices=HALVES, default=HALVES[0], help="half whose wrong verdicts are printed")
    given = options.parse_args()
    bank = demo_passages()
    pools = [bank, *([collection_passages(given.corpus)] if given.corpus else [])]
    false, excluded = corrupted(pools, given.count, given.seed)
    true = [*paraphrased(pools, given.count), *written(bank)]
    print(f"{len(false)} false sentences, {sum(excluded.values())} excluded as still supported: {dict(excluded)}")
    worded = corrupted_paraphrases(true, given.seed + 3)
    print(f"{len(true)} faithful paraphrases, {len(worded)} false ones")
    tables = of_tables(pools)
    for title, passes in (("baseline: .8 of the words", by_words), ("check", by_check())):
        report(title, [*false, *true], passes, given)
        report(f"{title}, false paraphrases", worded, passes, given)
        report(f"{title}, rows of tables", tables, passes, given)


def corrupted(pools: Sequence[Sequence[Passage]], count: int, seed: int) -> tuple[list[Case], Counter[str]]:
    """Return false sentences, the kinds and the pools in turn, and the number excluded of each kind."""
    rng = random.Random(seed)
    cases: list[Case] = []
    excluded: Counter[str] = Counter()
    lanes = [(pool, drawn(pool, rng)) for pool in pools]
    texts = [[sentence.text for sentence in sentences] for _, sentences in lanes]
    places: dict[tuple[int, str], int] = defaultdict(int)
    barren: set[tuple[int, str]] = set()
    while len(cases) < count and len(barren) < len(lanes) * len(KINDS):
        for lane, (pool, sentences) in enumerate(lanes):
            for kind in KINDS:
                case = None
                while case is None and places[lane, kind] < len(sentences):
                    place = places[lane, kind]
                    places[lane, kind] += 1
                    case = _corruption(kind, pool, sentences, place, texts[lane], rng)
                    if case and is_excluded(case):
                        excluded[kind] += 1
                        case = None
                if case is None:
                    barren.add((lane, kind))
                elif len(cases) < count:
                    cases.append(case)
    return cases, excluded


def _corruption(
    kind: str, pool: Sequence[Passage], sentences: Sequence[Drawn], place: int, texts: Sequence[str], rng: random.Random
) -> Case | None:
    true = sentences[place]
    passage, other = pool[true.passage], pool[sentences[place - 1].passage]
    cited: tuple[Passage, ...] = (passage,)
    source = ""
    if kind == "swapped_citation":
        changed: str | None = true.text
        cited = (other,)
    elif kind == "name":
        changed = name(true.text, texts, rng)
    elif kind in ("wrong_clause", "blend"):
        changed, source = wrong_clause(true.text, texts, rng) or (None, "")
        if changed and kind == "blend":
            cited = (passage, pool[sentences[texts.index(source)].passage])
    else:
        changed = CORRUPTIONS[kind](true.text, rng)
    if changed is None or (changed == true.text and kind != "swapped_citation"):
        return None
    quotes = (true.text,) if kind in CORRUPTIONS and rng.random() < 0.25 else ()
    return Case(kind, rng.choice(HALVES), False, changed, cited, quotes, true.text, source if kind == "blend" else "")


def is_excluded(case: Case) -> bool:
    """Return whether the passages still support a corrupted sentence by the rules of `check_corruptions.py`."""
    passages = [passage.text for passage in case.cited]
    if still_supported(case.sentence, passages):
        return True
    if case.joined:
        return says_the_same_of_it(case.sentence, case.original, case.joined, passages)
    is_same_passage = case.kind not in ("swapped_citation", "wrong_clause")
    return is_same_passage and reads_alike(case.sentence, case.original, in_any_number=case.kind == "name")


def paraphrased(pools: Sequence[Sequence[Passage]], count: int) -> list[Case]:
    """Return paraphrases made by rules, the pools in turn, at most a sixth of one kind."""
    rng = random.Random(21)
    lanes = [(pool, iter(drawn(pool, rng))) for pool in pools]
    cases: list[Case] = []
    kinds: Counter[str] = Counter()
    while len(cases) < count and lanes:
        for pool, sentences in list(lanes):
            true = next(sentences, None)
            if true is None:
                lanes.remove((pool, sentences))
                continue
            passage = pool[true.passage]
            made = paraphrase(true.text, passage.headings, rng)
            if made and kinds[made[0]] < count // 6:
                kinds[made[0]] += 1
                cases.append(Case(made[0], rng.choice(HALVES), True, made[1], (passage,), (), true.text))
    return cases[:count]


def written(bank: Iterable[Passage]) -> list[Case]:
    """Return the paraphrases written by hand."""
    rng = random.Random(22)
    by_place = {(passage.document, passage.place): passage for passage in bank}
    rows = map(json.loads, (Path(__file__).parent / "paraphrases.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        Case("hand", rng.choice(HALVES), True, row["sentence"], (by_place[row["file"], row["heading"]],), (), "")
        for row in rows
    ]


def corrupted_paraphrases(true: Iterable[Case], seed: int) -> list[Case]:
    """Return the paraphrases, each corrupted in one thing of six kinds drawn; those to which none applies left out."""
    rng = random.Random(seed)
    cases: list[Case] = []
    for case in true:
        for kind in rng.sample(list(CORRUPTIONS), 6):
            changed = CORRUPTIONS[kind](case.sentence, rng)
            if not changed or changed == case.sentence:
                continue
            false = Case(kind, case.half, False, changed, case.cited, (), case.sentence)
            if not is_excluded(false):
                cases.append(false)
                break
    return cases


def of_tables(pools: Sequence[Sequence[Passage]]) -> list[Case]:
    """Return the sentences about rows of tables; the halves take turns."""
    return [
        Case(item.kind, HALVES[place % 2], item.kind == "row", item.sentence, (item.passage,), (), item.original)
        for pool in pools
        for place, item in enumerate(table_sentences(pool))
    ]


def evidence_of(case: Case) -> dict[str, Evidence]:
    """Return the cited passages as evidence, labelled [1], [2]."""
    return {
        f"[{rank}]": Evidence(
            f"[{rank}]", "bench", passage.place, passage.text, passage.headings, rank, None, None, None
        )
        for rank, passage in enumerate(case.cited, 1)
    }


def by_words(case: Case, evidence: Mapping[str, Evidence]) -> bool:
    """Return whether the cited passages hold .8 of the sentence's words."""
    text = {word for item in evidence.values() for word in plain_words(" ".join((*item.headings, item.text)))}
    words = set(plain_words(case.sentence))
    return len(words & text) >= 0.8 * len(words)


def by_check() -> Callable[[Case, Mapping[str, Evidence]], bool]:
    """Return the check of the package, as a function like `by_words`."""
    from context_engine.answer.check import check
    from context_engine.answer.values import Verdict

    def passes(case: Case, evidence: Mapping[str, Evidence]) -> bool:
        return check(case.sentence, list(evidence), evidence, case.quotes).verdict is Verdict.SUPPORTED

    return passes


def report(
    title: str, cases: Sequence[Case], passes: Callable[[Case, Mapping[str, Evidence]], bool], given: argparse.Namespace
) -> None:
    """Print how many cases of each kind and half pass as supported, and the time of a sentence."""
    prepared = [(case, evidence_of(case)) for case in cases]
    verdicts: list[bool] = []
    spent = [0.0, 0.0]
    for case, evidence in prepared:
        for place in range(len(spent)):
            start = time.process_time()
            verdict = passes(case, evidence)
            spent[place] += time.process_time() - start
        verdicts.append(verdict)
    first, again = (1e6 * seconds / len(cases) for seconds in spent)
    print(f"\n{title}: {first:.0f} µs a sentence with its passages, {again:.0f} µs for passages read before")
    for faithful, heading in ((False, "false sentences that pass"), (True, "faithful paraphrases that pass")):
        rows: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
        for case, verdict in zip(cases, verdicts):
            if case.faithful is faithful:
                for row in (case.kind, "all"):
                    rows[row][case.half].append(verdict)
        if not rows:
            continue
        print(f"  {heading:34} {HALVES[0]:>14} {HALVES[1]:>14}")
        for kind in sorted(rows, key=lambda kind: (kind == "all", kind)):
            print(f"    {kind:32} " + " ".join(f"{_share(rows[kind][half]):>14}" for half in HALVES))
    if given.show and title.startswith("check"):
        show([case for case, verdict in zip(cases, verdicts) if verdict is not case.faithful], given)


def _share(verdicts: Sequence[bool]) -> str:
    return f"{sum(verdicts)}/{len(verdicts)} {sum(verdicts) / len(verdicts):.3f}" if verdicts else "-"


def show(wrong: Iterable[Case], given: argparse.Namespace) -> None:
    """Print wrong verdicts of the chosen half."""
    from context_engine.answer.check import check

    shown: Counter[tuple[bool, str]] = Counter()
    for case in wrong:
        shown[case.faithful, case.kind] += 1
        if case.half == given.half and shown[case.faithful, case.kind] <= given.show:
            evidence = evidence_of(case)
            checked = check(case.sentence, list(evidence), evidence, case.quotes)
            print(f"\n{'refused' if case.faithful else 'PASSED'} {case.kind}: {case.sentence}")
            print(f"  of: {case.original or case.cited[0].text}")
            print(f"  {checked.verdict} {checked.coverage:.2f} {list(checked.findings)}")
            print(f"  {[quote.text for quote in checked.quotes]}")


if __name__ == "__main__":
    main()
