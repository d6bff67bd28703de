"""The demo's questions: their answers are there, are found, and are found across disjoint sources too."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import date
from statistics import mean

import pytest

from context_engine import Engine, Registry, SearchRequest
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.models import DomainSpec, SourceSpec, SourceType
from context_engine.core.query import glossary_of

SHARES = (0.50, 0.25, 0.15, 0.07, 0.03)


def asked_on(question):
    return question.get("as_of", "2026-03-02")


def quality(ranks):
    """(share of the gold answers among the eight, reciprocal rank of the first), means over the questions."""
    recall = mean(sum(rank is not None for rank in found) / len(found) for found in ranks)
    return recall, mean(max((1 / rank for rank in found if rank is not None), default=0.0) for found in ranks)


@pytest.fixture(scope="module")
def answerable(questions):
    return [question for question in questions if question["answers"]]


def test_there_are_forty_questions_with_an_answer_and_four_without(questions, answerable):
    assert (len(answerable), len(questions) - len(answerable)) == (40, 4)
    assert len({question["id"] for question in questions}) == len(questions)
    assert {question["domain"] for question in questions} == {"NPA", "ORM", "DCE", "DESK"}


def test_every_gold_answer_is_a_chunk_of_the_base_in_the_domain_asked(answerable, documents, is_answer):
    for question in answerable:
        for answer in question["answers"]:
            hits = [
                source
                for (source, document, version), chunks in documents.items()
                for chunk in chunks
                if is_answer(answer, document, version, chunk.section, chunk.content)
            ]
            assert hits, (question["id"], answer)
            assert {source.split("_")[0].upper() for source in hits} == {question["domain"]}, question["id"]


def test_the_glossaries_of_the_demo_are_what_its_documents_define(demo_bank, documents):
    defined = glossary_of(chunk.content for chunks in documents.values() for chunk in chunks)
    glossaries = {name: demo_bank.setup.registry.domain(name).glossary for name in ("NPA", "ORM", "DCE", "DESK")}
    assert all(glossaries.values())
    for glossary in glossaries.values():
        for term, names in glossary.items():
            assert {name.casefold() for name in names} <= {name.casefold() for name in defined[term]}, term


def test_recall_and_reciprocal_rank_over_the_forty(answers, answerable, first_ranks):
    assert {result.status for result in answers.values()} == {"complete"}
    ranks = {one["id"]: first_ranks(answers[one["id"]], one["answers"]) for one in answerable}
    recall, reciprocal = quality(ranks.values())
    print(f"\nR@8 {recall:.4f}   MRR {reciprocal:.4f}   missed: {[one for one in ranks if None in ranks[one]]}")
    assert recall >= 0.84
    assert reciprocal >= 0.79


def test_questions_without_an_answer_are_not_answered_with_a_scope_threshold(demo_bank, questions):
    outside = {one["id"]: one for one in questions if not one["answers"]}
    decisions = {
        name: demo_bank.ask(one["query"], one["domain"], scope_threshold=0.25).decision for name, one in outside.items()
    }
    assert decisions == {"q41": "out_of_scope", "q42": "out_of_scope", "q43": "no_match", "q44": "out_of_scope"}


@pytest.mark.slow
def test_the_scope_threshold_turns_away_few_questions_with_an_answer(demo_bank, answerable):
    turned_away = [
        one["id"]
        for one in answerable
        if demo_bank.ask(one["query"], one["domain"], as_of=asked_on(one), scope_threshold=0.25).decision != "answered"
    ]
    assert len(turned_away) <= 2, turned_away


# -- disjoint sources -------------------------------------------------------------------------------------------------


def cut_in_five(documents):
    """Whole documents in shares of about 50, 25, 15, 7 and 3 % of the chunks, the smallest documents together."""
    waiting = sorted(documents, key=lambda one: (len(documents[one]), one))
    total = sum(map(len, documents.values()))
    parts = []
    for share in sorted(SHARES)[:-1]:
        part = []
        while sum(len(documents[one]) for one in part) < share * total:
            part.append(waiting.pop(0))
        parts.append(part)
    return [waiting, *reversed(parts)]


@pytest.fixture(scope="module")
def ranks_over(documents, answerable, first_ranks, tmp_path_factory):
    """Ask the questions of documents that stand in one index each part, without authority."""

    def ranks(parts):
        folder = tmp_path_factory.mktemp("parts")
        with ExitStack() as stack:
            bases = {}
            for number, part in enumerate(parts):
                bases[f"s{number}"] = base = stack.enter_context(LocalBase.open(folder / str(number), create=True))
                with base.writer() as writer:
                    for name in part:
                        writer.put(f"s{number}", name[1], name[2], "", documents[name])
            specs = tuple(SourceSpec(id=name, type=SourceType.BANK_SOP) for name in bases)
            registry = Registry(domains={"BANK": DomainSpec(version=1, domain="BANK", sources=specs)})
            engine = stack.enter_context(Engine(registry, lambda _domain, spec: LocalSource(bases[spec.id], spec.id)))
            found = {}
            for question in answerable:
                result = engine.search(
                    SearchRequest(
                        query=question["query"],
                        domain="BANK",
                        as_of=date.fromisoformat(asked_on(question)),
                        overrides={"authority_weight": 0.0},
                    )
                )
                found[question["id"]] = first_ranks(result, question["answers"])
            return found

    return ranks


@pytest.mark.slow
def test_five_disjoint_sources_find_what_one_index_finds(documents, ranks_over):
    """Their scores cannot be compared: the engine's own lexical score measures the union."""
    parts = cut_in_five(documents)
    sizes = [sum(len(documents[name]) for name in part) for part in parts]
    assert len(parts) == 5
    assert sizes[0] > 10 * sizes[-1]
    one, five = quality(ranks_over([list(documents)]).values()), quality(ranks_over(parts).values())
    print(f"\none index R@8 {one[0]:.4f} MRR {one[1]:.4f}   five {sizes} R@8 {five[0]:.4f} MRR {five[1]:.4f}")
    assert five[0] >= one[0] - 0.03
