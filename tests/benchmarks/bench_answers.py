"""How often the sentence that answers a question is shown first, and how often none is shown where there is none.

    python tests/benchmarks/bench_answers.py --corpus FOLDER [--show]

FOLDER holds the texts that `policy_questions.jsonl` asks about; files of any suffix are read as Markdown. The folder is
ingested into a base of its own, each question is searched, and `extract` answers from the passages that were found.
Its questions are those that the kinds of questions were made with ("development"), others of the same hand ("held"),
short factual ones by somebody else ("factual"), and ones in everyday words, some with a story before them ("everyday").
Others ask what a term means ("definitions", and "wordings" as different as people's are) and who does something
("roles" and, by another hand, "roles, others").
The demo bank has its own questions, with the keys of `demo_answers.jsonl` (none for bare codes), and some more that
analysts and new employees could ask (`demo_chat_questions.jsonl`).

first     the first sentence holds a key: a few words of the right sentence ("a … b": both). The texts are not ours, so
          their keys are digests: the number of words and the SHA-256 of the words
shown     one of the sentences does
right     as `first`, of the questions whose passage was found
alone     as `right`, with the passages that hold a key alone as evidence
refused-  no sentence, though a passage answers the question
refused+  no sentence, where no passage answers the question
wrong     no sentence holds the key, and the first one has other numbers than the right sentence or, to a yes-or-no
          question, the opposite answer

The baseline shows the sentence of the first passage that shares most words with the question, and never refuses.
The thresholds were chosen on all of these questions, and 110 about financial regulation.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from context_engine import demo
from context_engine.answer.extract import extract
from context_engine.answer.sentences import statements
from context_engine.answer.values import Evidence, evidence_of
from context_engine.answer.wants import Expression, has, places_of
from context_engine.core.context import ApproxTokenCounter, from_result
from context_engine.core.models import SearchRequest, SearchResult
from context_engine.core.text import terms
from context_engine.ingest.run import ingest
from context_engine.learning.calibration import calibrate
from context_engine.wiring.build import build_engine
from context_engine.wiring.embedded_base import base_path, create_base
from context_engine.wiring.setup import Setup, access_policy, load_setup

QUESTIONS = Path(__file__).parent / "policy_questions.jsonl"
DEMO_KEYS = Path(__file__).parent / "demo_answers.jsonl"
DEMO_CHATS = Path(__file__).parent / "demo_chat_questions.jsonl"
DOMAIN = "POLICIES"
MANIFEST = """version: 1
domain: POLICIES
sources:
  - id: policies
    type: bank_sop
    adapter: local
    documents:
      - include: "**/*.md"
"""
READ_AS_MARKDOWN = (".md", ".erb", ".tmpl")
DIGEST = re.compile(r"(\d+):([0-9a-f]{16})")
OPPOSITE = re.compile(
    r"\b(?:not|no|never|cannot|prohibit\w*|forbidden|disallow\w*|n/r|against|restricted|denied|without)\b",
    re.IGNORECASE,
)


class Case(NamedTuple):
    """A question with its evidence.

    Attributes:
        answered: whether the collection answers it.
        found: whether a passage of the evidence does.
        keys: words of the right sentences; empty if there is none.
        right: the right sentence, "" if it is not known.
    """

    question: str
    wants: str | None
    evidence: tuple[Evidence, ...]
    answered: bool
    found: bool
    keys: tuple[str, ...]
    right: str


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", type=Path, required=True, metavar="FOLDER")
    options.add_argument("--show", action="store_true", help="print what is not right")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        policies = of_policies(given.corpus, Path(folder))
        banks = {"demo bank": list(of_demo(Path(folder))), "demo, chats": list(of_chats(Path(folder)))}
    print(f"{'':22}questions  found   first   shown   right   alone   refused- refused+ wrong")
    for name, cases in (policies | banks).items():
        print(row(f"{name}, extract", cases, extracted, show=given.show))
        print(row(f"{name}, overlap", cases, best_overlap, show=False), flush=True)
    asked = [case for cases in policies.values() for case in cases if case.wants]
    kinds = sum(case.wants == extract(case.question, case.evidence).wants for case in asked)
    print(f"kind of question recognised: {kinds} of {len(asked)}")


def of_policies(corpus: Path, work: Path) -> dict[str, list[Case]]:
    """Return the questions of each split with what the search of the corpus finds."""
    setup, data = ingested(corpus, work)
    splits: dict[str, list[Case]] = {}
    with build_engine(setup, data_dir=data, recorded=False) as engine:
        for given in map(json.loads, QUESTIONS.read_text("utf-8").splitlines()):
            result = engine.search(SearchRequest(query=given["question"], domain=DOMAIN))
            splits.setdefault(given["split"], []).append(policy_case(given, result, corpus))
    return splits


def ingested(corpus: Path, work: Path) -> tuple[Setup, Path]:
    """Ingest copies of the corpus, each named as Markdown, into a new base."""
    files, config, data = work / "files", work / "config", work / "data"
    for file in sorted(corpus.rglob("*")):
        if file.is_file() and file.suffix in READ_AS_MARKDOWN:
            copy = files / f"{file.relative_to(corpus).as_posix().removesuffix('.md')}.md"
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    (config / "manifests").mkdir(parents=True)
    (config / "manifests" / "policies.yaml").write_text(MANIFEST, "utf-8")
    setup = load_setup(config_dir=config, env={}, cwd=work)
    specs = setup.registry.domain(DOMAIN).sources
    rules_of = access_policy({DOMAIN: setup.registry.domain(DOMAIN)}).rules_of
    with create_base(base_path(data), specs, rules_of) as base:
        with base.writer() as writer:
            ingest(files, specs, writer, source_id="policies")
        calibrate(base, setup.registry.domain(DOMAIN))
    return setup, data


def policy_case(given: dict[str, Any], result: SearchResult, corpus: Path) -> Case:
    keys = given.get("keys", [])
    text = (corpus / given["file"]).read_text("utf-8") if keys else ""
    right = right_sentence(text, keys[0]) if keys else ""
    return case_of(given["question"], given.get("wants"), keys, result, right)


def case_of(question: str, wants: str | None, keys: Sequence[str], result: SearchResult, right: str) -> Case:
    evidence = evidence_of(result, from_result(result, counter=ApproxTokenCounter()))
    is_found = any(holds(passage.text, keys) for passage in evidence)
    return Case(question, wants, evidence, bool(keys), is_found, tuple(keys), right)


def holds(text: str, keys: Sequence[str]) -> bool:
    """Whether a text has all parts of one of the keys."""
    return any(all(has_part(text, part) for part in key.split("…")) for key in keys)


def has_part(text: str, part: str) -> bool:
    """Whether a text has some words, given as they are or as "NUMBER:DIGEST"."""
    words = plain(text).split()
    digest = DIGEST.fullmatch(part)
    if digest is None:
        return f" {plain(part)} " in f" {' '.join(words)} "
    length = int(digest[1])
    runs = (" ".join(words[start : start + length]) for start in range(len(words) - length + 1))
    return any(hashlib.sha256(run.encode()).hexdigest().startswith(digest[2]) for run in runs)


def right_sentence(text: str, key: str) -> str:
    """Return the statement of a document with a key; the shortest of several."""
    texts = [each.text() for each in statements(Evidence("[1]", "", "", text, (), 1, None, None, None))]
    return min((shown for shown in texts if holds(shown, [key])), key=len, default="")


def of_demo(work: Path) -> Iterator[Case]:
    """Yield the demo bank's questions with what its search finds."""
    setup = load_setup(manifest_dir=demo.MANIFESTS, env={}, cwd=work)
    data = demo.ensure_base(work / "demo", setup.registry)
    keys = {row["id"]: row["keys"] for row in map(json.loads, DEMO_KEYS.read_text("utf-8").splitlines())}
    with build_engine(setup, data_dir=data, recorded=False) as engine:
        for given in map(json.loads, demo.QUESTIONS.read_text("utf-8").splitlines()):
            if given["answers"] and given["id"] not in keys:
                continue
            as_of = date.fromisoformat(given["as_of"]) if given.get("as_of") else None
            result = engine.search(SearchRequest(query=given["query"], domain=given["domain"], as_of=as_of))
            yield case_of(given["query"], None, keys.get(given["id"], ()), result, "")


def of_chats(work: Path) -> Iterator[Case]:
    """Yield the questions of new employees with what the search of the demo bank finds."""
    setup = load_setup(manifest_dir=demo.MANIFESTS, env={}, cwd=work)
    data = demo.ensure_base(work / "demo", setup.registry)
    with build_engine(setup, data_dir=data, recorded=False) as engine:
        for given in map(json.loads, DEMO_CHATS.read_text("utf-8").splitlines()):
            result = engine.search(SearchRequest(query=given["question"], domain=given["domain"]))
            yield case_of(given["question"], None, given["keys"], result, "")


def extracted(case: Case) -> list[str]:
    return [sentence.text for sentence in extract(case.question, case.evidence).sentences]


def best_overlap(case: Case) -> list[str]:
    """The baseline: the sentence of the first passage that shares most terms with the question."""
    asked = set(terms(case.question))
    sentences = statements(case.evidence[0]) if case.evidence else []
    best = max(sentences, key=lambda each: len(asked.intersection(terms(each.text()))), default=None)
    return [] if best is None else [best.text()]


def row(name: str, cases: Sequence[Case], answer: Callable[[Case], list[str]], *, show: bool) -> str:
    answers = [answer(case) for case in cases]
    hits = [[holds(text, case.keys) for text in given] for case, given in zip(cases, answers)]
    answered = [place for place, case in enumerate(cases) if case.answered]
    reachable = [place for place in answered if cases[place].found]
    others = [place for place, case in enumerate(cases) if not case.answered]
    bad = [place for place in answered if not any(hits[place]) and is_wrong(cases[place], answers[place])]
    if show:
        print_faults(cases, answers, hits, bad)
    cells = (
        share(len(reachable), len(answered)),
        share(sum(hits[place][:1] == [True] for place in answered), len(answered)),
        share(sum(any(hits[place]) for place in answered), len(answered)),
        share(sum(hits[place][:1] == [True] for place in reachable), len(reachable)),
        share(sum(is_first(answer, alone(cases[place])) for place in reachable), len(reachable)),
        share(sum(not hits[place] for place in answered), len(answered)),
        share(sum(not hits[place] for place in others), len(others)),
        share(len(bad), len(answered)),
    )
    return f"{name:22}{len(answered):4} +{len(others):3}  {'  '.join(cells)}"


def alone(case: Case) -> Case:
    """The question with the right passages alone."""
    return case._replace(evidence=tuple(passage for passage in case.evidence if holds(passage.text, case.keys)))


def is_first(answer: Callable[[Case], list[str]], case: Case) -> bool:
    return any(holds(text, case.keys) for text in answer(case)[:1])


def is_wrong(case: Case, given: Sequence[str]) -> bool:
    """Whether the first sentence states other numbers than the right one, or answers a yes-or-no question otherwise."""
    if not given or not case.right:
        return False
    if case.wants == "rule":
        return (OPPOSITE.search(given[0]) is None) != (OPPOSITE.search(case.right) is None)
    numbers, right = numbers_of(given[0]), numbers_of(case.right)
    return bool(numbers) and bool(right) and not numbers.intersection(right)


def numbers_of(text: str) -> set[str]:
    kinds = (Expression.NUMBER, Expression.FREQUENCY, Expression.DATE)
    return {text[slice(*place)].casefold() for kind in kinds if has(kind, text) for place in places_of(kind, text)}


def print_faults(
    cases: Sequence[Case], answers: Sequence[list[str]], hits: Sequence[list[bool]], bad: list[int]
) -> None:
    for place, (case, given) in enumerate(zip(cases, answers)):
        if hits[place][:1] == [True] or (not case.answered and not given):
            continue
        kind = "wrong" if place in bad else "later" if any(hits[place]) else "other" if given else "refused"
        print(f"{kind if case.answered else 'not refused'}: {case.question} | found {case.found} | {case.right[:120]}")
        for text in given[:2]:
            print(f"    {' '.join(text.split())[:200]}")


def plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def share(count: int, of: int) -> str:
    return f"{count / of:6.1%}" if of else "     –"


if __name__ == "__main__":
    sys.exit(main())
