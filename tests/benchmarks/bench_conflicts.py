"""Does the conflict radar find planted contradictions, and does it leave harmless copies alone?

    python tests/benchmarks/bench_conflicts.py [--corpus corpus.jsonl] [--count 500] [--harmless 200] [--show 0]

Sentences of the demo bank and of a folder's passages are planted in documents of their own: with one thing changed
(`check_corruptions.py`), half of them also said otherwise (`check_paraphrases.py`), and harmless ones said otherwise or
copied only. Recall counts the planted contradictions that the radar reports; precision is their share of all findings
that concern a planted document. The baseline reports every pair of sentences that share .8 of their words and are not
equal.

Then a value is set in other words: a sentence is cut down to some of its phrases and put in a frame; every second value
is changed. Then the time of a run after one document changed, beside that of a full run. At the end, with --many, the
time for many passages: the given ones and copies of them whose words are renamed.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from check_corruptions import CORRUPTIONS, still_supported
from check_paraphrases import paraphrase
from check_passages import Passage, collection_passages, demo_passages, drawn, plain_words

from context_engine.answer.reading import normalised, read
from context_engine.core.models import Chunk
from context_engine.insight.alike import alike_pairs
from context_engine.insight.domain_conflicts import memory_file, read_memory, write_memory
from context_engine.insight.radar import RadarPassage, radar

KINDS = ("number", "date", "currency", "modal", "negation", "bound")
_REFERENCE = re.compile(r"(?:section|rule|part|article|paragraph|chapter|table|principle)s? [\d.()a-z]+", re.IGNORECASE)
"""The radar compares no numbers of sections: a sentence that differs in nothing else is not planted."""
TODAY = date(2026, 3, 2)
_UNITS = r"(?:%|per cent|(?:[Bb]usiness |[Cc]alendar )?(?:[Dd]ays?|weeks?|months?|years?|hours?|minutes?))"
_VALUE = re.compile(rf"\b(?:\d[\d,.]*|two|three|four|five|six|seven|eight|ten|twelve|thirty) ?{_UNITS}")
_PHRASE = re.compile(r",? (?=(?:in|on|at|for|to|from|with|of|by|under|within|after|before|and|or|that|which)\b)")
_FRAMES = ("In short: ", "Staff are reminded of this: ", "The training slides put it so: ", "For new joiners: ")


class Planted(NamedTuple):
    """A sentence in a document of its own; kind "" is harmless."""

    kind: str
    said_otherwise: bool
    sentence: str
    original: str
    document: str


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", type=Path, help="corpus.jsonl of a collection of passages")
    options.add_argument("--count", type=int, default=500)
    options.add_argument("--harmless", type=int, default=200)
    options.add_argument("--reworded", type=int, default=200, help="values set in other words, half of them changed")
    options.add_argument("--show", type=int, default=0, help="missed and wrong ones to print, of each kind")
    options.add_argument("--many", type=int, default=0, help="passages for the time")
    given = options.parse_args()
    pools = [demo_passages(), *([collection_passages(given.corpus)] if given.corpus else [])]
    rng = random.Random(42)
    planted = [*_contradictions(pools, given.count, rng), *_harmless(pools, given.harmless, rng)]
    originals = [passage for pool in pools for passage in pool]
    passages = [_given(passage) for passage in originals] + [_document(item) for item in planted]
    begun = time.process_time()
    report = radar(passages, TODAY)
    seconds = time.process_time() - begun
    pairs = [(side.chunk.document_id or "", other.chunk.document_id or "") for side, other in _sides(report)]
    print(f"{report.passages} passages, {report.statements} statements, {len(pairs)} findings in {seconds:.1f} s CPU")
    _print("radar", planted, pairs, given.show)
    _print("words >= .8", planted, _by_words(passages), 0)
    _print_reworded(originals, given.reworded, random.Random(43), given.show)
    _print_incremental([_given(passage) for passage in originals])
    if given.many:
        _time(originals, given.many)


def _sides(report) -> Iterator:
    return ((finding.first, finding.second) for finding in report.findings)


def _contradictions(pools: Sequence[Sequence[Passage]], count: int, rng: random.Random) -> Iterator[Planted]:
    """Yield false sentences, the kinds and the pools in turn."""
    lanes = [(kind, pool, iter(drawn(pool, rng))) for kind in KINDS for pool in pools]
    made = 0
    while lanes and made < count:
        for lane in list(lanes):
            kind, pool, sentences = lane
            changed = next(
                filter(None, (_changed(kind, pool[true.passage], true.text, rng) for true in sentences)), None
            )
            if changed is None:
                lanes.remove(lane)
            elif made < count:
                made += 1
                true, false, headings = changed
                otherwise = paraphrase(false, headings, rng) if made % 2 else None
                yield Planted(kind, bool(otherwise), otherwise[1] if otherwise else false, true, f"planted-{made}")


def _changed(kind: str, passage: Passage, true: str, rng: random.Random) -> tuple[str, str, Sequence[str]] | None:
    false = CORRUPTIONS[kind](true, rng)
    if false is None or false == true or still_supported(false, [passage.text]):
        return None
    return (true, false, passage.headings) if _REFERENCE.sub("", false) != _REFERENCE.sub("", true) else None


def _harmless(pools: Sequence[Sequence[Passage]], count: int, rng: random.Random) -> Iterator[Planted]:
    lanes = [(pool, iter(drawn(pool, rng))) for pool in pools]
    made = 0
    for number in range(count * 20):
        pool, sentences = lanes[number % len(lanes)]
        true = next(sentences, None)
        if made == count:
            return
        said = paraphrase(true.text, pool[true.passage].headings, rng) if true and number % 4 else None
        if true is not None and (said or number % 4 == 0):
            made += 1
            yield Planted("", bool(said), said[1] if said else true.text, true.text, f"harmless-{made}")


def _given(passage: Passage) -> RadarPassage:
    chunk = Chunk(passage.text, passage.place, document_id=passage.document, title=passage.headings[0])
    return RadarPassage("given", 2, chunk._replace(heading_path=tuple(passage.headings[1:])))


def _document(item: Planted) -> RadarPassage:
    return RadarPassage(
        "planted", 3, Chunk(item.sentence, item.document, document_id=item.document, title="Local note")
    )


def _by_words(passages: Sequence[RadarPassage]) -> list[tuple[str, str]]:
    sentences = [
        (passage.chunk.document_id or "", sentence, frozenset(plain_words(sentence)))
        for passage in passages
        for sentence in passage.chunk.content.replace("\n", " ").split(". ")
    ]
    pairs = alike_pairs([words for _, _, words in sentences], 0.8, least=3)
    return [
        (sentences[first][0], sentences[second][0])
        for first, second in pairs
        if sentences[first][0] != sentences[second][0] and sentences[first][1] != sentences[second][1]
    ]


def _print(name: str, planted: Sequence[Planted], pairs: Sequence[tuple[str, str]], show: int) -> None:
    planted_ids = {item.document for item in planted if item.kind}
    hits = Counter(document for pair in pairs for document in pair if not planted_ids.issuperset(pair))
    alone = Counter(document for pair in pairs for document in pair if planted_ids.isdisjoint(pair))
    print(f"\n{name}")
    for kind in KINDS:
        items = [item for item in planted if item.kind == kind]
        caught = sum(hits[item.document] > 0 for item in items)
        plain = [item for item in items if not item.said_otherwise]
        print(f"  {kind:9} {caught}/{len(items)} (as written {sum(hits[i.document] > 0 for i in plain)}/{len(plain)})")
    false = [item for item in planted if item.kind]
    caught = sum(hits[item.document] > 0 for item in false)
    wrong = [item for item in planted if not item.kind and alone[item.document]]  # beside a planted one it is right
    concerned = sum(any(document.startswith(("planted-", "harmless-")) for document in pair) for pair in pairs)
    right = sum(any(document.startswith("planted-") for document in pair) for pair in pairs)
    harmless = len(planted) - len(false)
    print(
        f"  recall {caught / len(false):.3f}, precision {right / max(concerned, 1):.3f}, "
        f"harmless {len(wrong)}/{harmless}"
    )
    print(f"  findings between given documents: {len(pairs) - concerned}")
    for item in [item for item in false if not hits[item.document]][:show] + wrong[:show]:
        print(f"  {item.kind or 'harmless'}\n    {item.original}\n    {item.sentence}")


def _reworded(sentence: str, rng: random.Random) -> str | None:
    """Return less than .7 of a sentence's words, with its only value, in a frame; None where there is too little."""
    if len(_VALUE.findall(sentence)) != 1 or len(re.findall(r"\d", sentence)) > 6:
        return None
    phrases = _PHRASE.split(sentence.removesuffix("."))
    value = next((number for number, phrase in enumerate(phrases) if _VALUE.search(phrase)), None)
    if value is None or len(phrases) < 4:
        return None
    kept, words = {value}, set(plain_words(sentence))
    for number in rng.sample(range(len(phrases)), len(phrases)):
        longer = {*kept, number}
        if len(set(plain_words(" ".join(phrases[place] for place in longer)))) <= 0.68 * len(words):
            kept = longer
    rest = " ".join(phrases[number].strip() for number in sorted(kept))
    return f"{rng.choice(_FRAMES)}{rest[0].lower()}{rest[1:]}." if len(kept) > 1 else None


def _print_reworded(originals: Sequence[Passage], count: int, rng: random.Random, show: int) -> None:
    """Plant values in other words, every second one changed, and print recall and precision."""
    planted = list[Planted]()
    for item in drawn(originals, rng):
        said = _reworded(item.text, rng) if len(planted) < count else None
        kind = "number" if len(planted) % 2 else ""
        changed = CORRUPTIONS["number"](said, rng) if said and kind else said
        if changed and _VALUE.search(changed):
            planted.append(Planted(kind, True, changed, item.text, f"reworded-{len(planted)}"))
    report = radar([*map(_given, originals), *map(_document, planted)], TODAY)
    right, wrong = Counter[str](), Counter[str]()
    by_document = {item.document: item for item in planted}
    for finding in report.findings:
        sides = [finding.first, finding.second]
        for side, other in (sides, sides[::-1]):
            item = by_document.get(side.chunk.document_id or "")
            if item is not None and (other.chunk.document_id or "") not in by_document:
                is_right = bool(item.kind) and normalised(other.text) in normalised(item.original)
                (right if is_right else wrong)[item.document] += 1
    changed = [item for item in planted if item.kind]
    caught = sum(right[item.document] > 0 for item in changed)
    counted = right.total() + wrong.total()
    precision = right.total() / max(counted, 1)
    print(f"\nvalues in other words: recall {caught}/{len(changed)}, precision {precision:.3f} of {counted}")
    for document in [*wrong][:show]:
        print(f"  wrong\n    {by_document[document].original}\n    {by_document[document].sentence}")
    for item in [item for item in changed if not right[item.document]][:show]:
        print(f"  missed\n    {item.original}\n    {item.sentence}")


def _print_incremental(passages: Sequence[RadarPassage]) -> None:
    """Print the time of a run after one document changed, as a share of a full run; reading the file counts."""
    document = passages[len(passages) // 2].chunk.document_id
    changed = [
        each._replace(chunk=each.chunk._replace(content=each.chunk.content.replace("must", "may")))
        if each.chunk.document_id == document
        else each
        for each in passages
    ]
    with TemporaryDirectory() as folder:
        file = memory_file(Path(folder), "all")
        write_memory(file, radar(passages, TODAY).memory)
        read.cache_clear()
        times = [time.process_time()]
        report = radar(changed, TODAY, read_memory(file).memory)
        times.append(time.process_time())
        read.cache_clear()
        full = radar(changed, TODAY)
        times.append(time.process_time())
        of_document = sum(each.chunk.document_id == document for each in passages)
        print(
            f"\nafter a change of {of_document} of {len(passages)} passages: {times[1] - times[0]:.1f} s of "
            f"{times[2] - times[1]:.1f} s CPU, file {file.stat().st_size / 1e6:.1f} MB, "
            f"{'the same findings' if report == full else 'OTHER FINDINGS'}"
        )


def _time(originals: Sequence[Passage], count: int) -> None:
    """Print the time for `count` passages; the long words of a copy end in its number: it is about other things."""
    passages = list[RadarPassage]()
    for number in range(count):
        copy, passage = number // len(originals), originals[number % len(originals)]
        words = (
            f"{word}q{copy}" if copy and word.isalpha() and len(word) > 4 else word for word in passage.text.split(" ")
        )
        changed = passage._replace(document=f"{passage.document}-{copy}", text=" ".join(words))
        passages.append(_given(changed))
    begun, cpu = time.perf_counter(), time.process_time()
    report = radar(passages, TODAY)
    print(
        f"\n{count} passages, {report.statements} statements: {time.perf_counter() - begun:.0f} s, "
        f"{time.process_time() - cpu:.0f} s CPU, {len(report.findings)} findings"
    )


if __name__ == "__main__":
    main()
