"""How does the check of an answer's sentences judge what real models wrote, beside people's labels?

    python tests/benchmarks/bench_model_answers.py FOLDER [--task NAME] [--half development] [--show 0]

FOLDER holds a public set in which people marked what a model wrote without support in its passages. Three layouts are
read: `response.jsonl` with `source_info.jsonl` (RAGTruth), `batch_*.json` (FaithBench), and `mturk_*.jsonl` (QAGS). The
sets are not part of this repository; look at their licences.

Each sentence is checked against all passages of its answer. It is wrong if it overlaps a span that people marked, of
QAGS if most of them said so; a sentence with questionable marks alone is left out. Printed are precision and recall of
"not supported", the share of faithful sentences that are not supported, and the share of each label. Half of the
sources, by hash, are for development; the other half is held. Two baselines: all sentences are supported, and those
are whose passages hold .8 of the words.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from check_passages import plain_words

from context_engine.answer.check import check
from context_engine.answer.cited import CitedSentence, SentenceReader
from context_engine.answer.values import Evidence, Verdict

HALVES = ("development", "held")
FAITHFUL = "faithful"
QUESTIONABLE = "Questionable"
LEAST_WORDS = 4

_PASSAGE = re.compile(r"passage \d+:")
_TOKENS = re.compile(r" [.!?]\s+(?=[\w`'\"(])")
_BEFORE_MARK = re.compile(r" (?=[.,;:!?)%]|'s\b|n't\b)|(?<=[(£$€]) ")
_UNABLE = re.compile(r"unable to answer based on (?:the )?given passages", re.IGNORECASE)


class Mark(NamedTuple):
    """What people marked in an answer: characters, end exclusive."""

    start: int
    end: int
    label: str


class ModelAnswer(NamedTuple):
    """An answer of a model with its passages and what people marked in it.

    Attributes:
        source: equal for answers from the same passages.
    """

    task: str
    source: str
    passages: tuple[str, ...]
    text: str
    marks: tuple[Mark, ...]


class Case(NamedTuple):
    """A sentence of an answer with its passages and the labels that it overlaps."""

    task: str
    half: str
    sentence: CitedSentence
    evidence: Mapping[str, Evidence]
    labels: frozenset[str]

    @property
    def is_wrong(self) -> bool:
        """Whether people say that the passages do not support it."""
        return bool(self.labels)


Judge = Callable[[Case], bool]
"""Whether a sentence is supported."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--task", help="only this one: QA, Summary, Data2txt, ...")
    options.add_argument("--half", choices=HALVES, default=HALVES[0])
    options.add_argument("--show", type=int, default=0, help="sentences to print: faithful withheld, wrong passed")
    given = options.parse_args()
    answers = [answer for answer in read(given.folder) if given.task in (None, answer.task)]
    found = [case for answer in answers for case in cases(answer)]
    chosen = [case for case in found if case.half == given.half and case.labels != {QUESTIONABLE}]
    if not chosen:
        raise SystemExit(f"{given.folder} has no answers of a known layout; see --help")
    print(f"{given.half}: {len(chosen)} sentences, {sum(case.is_wrong for case in chosen)} marked as wrong")
    judges: dict[str, Judge] = {"all supported": lambda case: True, ".8 of the words": by_words, "check": by_check}
    for task in sorted({case.task for case in chosen}):
        of_task = [case for case in chosen if case.task == task]
        for title, judge in judges.items():
            report(f"{task}, {title}", of_task, [judge(case) for case in of_task])
    show(chosen, given.show)


def read(folder: Path) -> Iterator[ModelAnswer]:
    """Yield the answers of a folder in the layouts that are known."""
    for path in sorted(folder.rglob("response.jsonl")):
        yield from ragtruth(path, path.with_name("source_info.jsonl"))
    for path in sorted(folder.rglob("batch_*.json")):
        yield from faithbench(json.loads(path.read_text(encoding="utf-8")))
    for path in sorted(folder.rglob("mturk_*.jsonl")):
        yield from qags(path)


def ragtruth(responses: Path, sources: Path) -> Iterator[ModelAnswer]:
    """Yield the answers of RAGTruth that people found good; refusals are left out."""
    known = {str(row["source_id"]): row for row in _rows(sources)}
    for row in _rows(responses):
        source = known[str(row["source_id"])]
        if row["quality"] == "good" and not _UNABLE.search(row["response"]):
            marks = tuple(Mark(mark["start"], mark["end"], mark["label_type"]) for mark in row["labels"])
            passages = _passages(source["source_info"])
            yield ModelAnswer(source["task_type"], str(row["source_id"]), passages, row["response"], marks)


def _passages(info: Any) -> tuple[str, ...]:
    """Return the passages of a question, an article, or the record of a business as lines of fields."""
    if isinstance(info, str):
        return (info,)
    if "passages" in info:
        return tuple(part.strip() for part in _PASSAGE.split(info["passages"]) if part.strip())
    reviews = [str(review.get("review_text", review)) for review in info.get("review_info", ())]
    fields = {key: value for key, value in info.items() if key != "review_info"}
    return ("\n".join(_lines(fields)), *reviews)


def _lines(fields: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key, value in fields.items():
        if isinstance(value, Mapping):
            yield from _lines(value, f"{above}{key} ")
        elif value is not None:
            yield f"{above}{key}: {value}"


def faithbench(batch: Mapping[str, Any]) -> Iterator[ModelAnswer]:
    """Yield the summaries of a batch of FaithBench with the outer label of each mark."""
    for row in batch["samples"]:
        marks = tuple(
            Mark(mark["summary_start"], mark["summary_end"], mark["label"][0].partition(".")[0])
            for mark in row["annotations"]
            if mark["summary_start"] is not None and mark["label"]
        )
        yield ModelAnswer("Summary", row["source"], _paragraphs(row["source"]), row["summary"], marks)


def _paragraphs(article: str) -> tuple[str, ...]:
    """Return the paragraphs of an article; of one in tokens ("in march . the bank 's") each sentence is one."""
    if _TOKENS.search(article):
        article = _BEFORE_MARK.sub("", _TOKENS.sub(".\n\n", article))
    return tuple(part for part in re.split(r"\n\s*\n", article) if part.strip())


def qags(path: Path) -> Iterator[ModelAnswer]:
    """Yield each sentence of a summary as an answer; it is marked if most people said "no"."""
    for row in _rows(path):
        for item in row["summary_sentences"]:
            against = Counter(reply["response"] for reply in item["responses"])
            text = item["sentence"]
            marks = (Mark(0, len(text), "not supported"),) if against["no"] > against["yes"] else ()
            yield ModelAnswer(path.stem, row["article"], _paragraphs(row["article"]), text, marks)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def cases(answer: ModelAnswer) -> Iterator[Case]:
    """Yield the sentences of an answer as the product cuts them; those with fewer than four words are left out."""
    half = HALVES[hashlib.sha256(answer.source.encode()).digest()[0] % 2]
    evidence = {
        f"[{rank}]": Evidence(f"[{rank}]", "bench", str(rank), text, (), rank, None, None, None)
        for rank, text in enumerate(answer.passages, 1)
    }
    reader = SentenceReader()
    place = 0
    for sentence in [*reader.feed(answer.text), *reader.close()]:
        words = re.findall(r"\w+", sentence.text)
        where = re.compile(r"\W+".join(words)).search(answer.text, place) if words else None
        if where is None:
            continue
        place = where.end()
        labels = {mark.label for mark in answer.marks if mark.start < where.end() and where.start() < mark.end}
        if len(words) >= LEAST_WORDS and not sentence.text.endswith(":"):
            yield Case(answer.task, half, sentence, evidence, frozenset(labels))


def by_words(case: Case) -> bool:
    """Return whether the passages hold .8 of the sentence's words."""
    text = {word for item in case.evidence.values() for word in plain_words(item.text)}
    words = set(plain_words(case.sentence.claim))
    return len(words & text) >= 0.8 * len(words)


def by_check(case: Case) -> bool:
    """Return whether the check of the package finds the sentence supported."""
    return check(case.sentence.claim, list(case.evidence), case.evidence).verdict is Verdict.SUPPORTED


def report(title: str, chosen: Sequence[Case], supported: Sequence[bool]) -> None:
    """Print what a judge found of the sentences of a task."""
    pairs = Counter((case.is_wrong, not passes) for case, passes in zip(chosen, supported))
    flagged = pairs[True, True] + pairs[False, True]
    wrong = pairs[True, True] + pairs[True, False]
    print(f"\n{title}")
    print(f"  precision of not supported {_share(pairs[True, True], flagged)}")
    print(f"  recall of not supported    {_share(pairs[True, True], wrong)}")
    of_label: dict[str, list[bool]] = defaultdict(list)
    for case, passes in zip(chosen, supported):
        for label in case.labels or {FAITHFUL}:
            of_label[label].append(not passes)
    for label, verdicts in sorted(of_label.items()):
        print(f"  {label + ', not supported':40} {_share(sum(verdicts), len(verdicts))}")


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} {part / whole:.3f}" if whole else "-"


def show(chosen: Iterable[Case], most: int) -> None:
    """Print faithful sentences that are not supported, and wrong ones that are, at most so many of each."""
    shown: Counter[bool] = Counter()
    for case in sorted(chosen, key=lambda case: hashlib.sha256(case.sentence.text.encode()).digest()):
        checked = check(case.sentence.claim, list(case.evidence), case.evidence)
        if (checked.verdict is Verdict.SUPPORTED) is case.is_wrong and shown[case.is_wrong] < most:
            shown[case.is_wrong] += 1
            print(f"\n{'PASSED ' + ', '.join(sorted(case.labels)) if case.is_wrong else 'withheld'}")
            print(f"  {case.sentence.claim}")
            print(f"  {checked.verdict} {checked.coverage:.2f} {[f'{code}: {why}' for code, why in checked.findings]}")
            print(f"  {[quote.text for quote in checked.quotes]}")


if __name__ == "__main__":
    main()
