"""The language of the sentences for the reader: which one is chosen, and where it shows."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import pytest

from context_engine.apps.dify.answer import search_answer
from context_engine.apps.dify.external import ExternalRequest, records_answer
from context_engine.apps.dify.form import read_search_form
from context_engine.apps.dify.reader_texts import _TEXTS, LANGUAGE_CHOICES, reader_text, tongue_of
from context_engine.apps.dify.retrieval import unanswered
from context_engine.core.models import Caller, Principal, Registry, SearchResult
from context_engine.errors import InvalidRequest, SourceTimeout

QUESTIONS = [
    ("Who approves a new product?", "en"),
    ("NPA", "en"),
    ("How long does 审批 take?", "en"),
    ("Copying raw text (no formatting) from gmail.", "en"),
    ("谁来审批新产品？", "zh"),
    ("NPA 的审批标准", "zh"),
    ("新商品を承認するのは誰ですか", "ja"),
    ("NPA の基準は？", "ja"),
    ("Qual é o prazo para aprovar um produto?", "pt"),
    ("Quem aprova?", "pt"),
    ("E quanto a isso?", "pt"),
    ("Qual time de futebol ganhou a copa ontem?", "pt"),
    ("limites de exposição", "pt"),
    ("¿Quién aprueba para una cuenta?", "en"),
    ("Wer genehmigt das Produkt?", "en"),
    ("Quelle est la procédure pour un produit ?", "en"),
    ("", "en"),
]


def down(_query: str, _domain: str, _top_k: int) -> Any:
    raise SourceTimeout("no answer within 4 s")


@pytest.mark.parametrize(("question", "tongue"), QUESTIONS)
def test_the_language_is_the_questions_or_english(question: str, tongue: str) -> None:
    assert tongue_of(question) == tongue


@pytest.mark.parametrize(("choice", "tongue"), [(c, t) for c, t in LANGUAGE_CHOICES.items() if t is not None])
def test_a_chosen_language_is_taken_whatever_is_asked(choice: str, tongue: str) -> None:
    assert {tongue_of(question, choice) for question, _ in QUESTIONS} == {tongue}


def test_every_sentence_is_in_four_different_languages_with_the_same_values() -> None:
    for name, texts in _TEXTS.items():
        fields = [{field for _, field, _, _ in string.Formatter().parse(text) if field} for text in texts]
        assert all(one == fields[0] for one in fields), name
        assert name == "between_names" or len(set(texts)) == 4, name


@pytest.fixture
def degraded(ask: Callable[..., SearchResult], chunk_of: Any, spec_of: Any) -> SearchResult:
    return ask([(spec_of(1, title="Register"), down), (2, [chunk_of("a", 0.9)])])


@pytest.mark.parametrize(
    ("tongue", "title", "sentence"),
    [
        ("en", "Knowledge incomplete: Register unavailable", "Register (tier 1) did not answer: source"),
        ("zh", "知识不完整：Register不可用", "Register（第 1 级）未响应：source"),
        ("ja", "ナレッジが不完全です: Registerを利用できません", "Register（レベル 1）が応答しませんでした: source"),
        ("pt", "Conhecimento incompleto: Register indisponível", "Sem resposta de Register (nível 1): source"),
    ],
)
def test_a_missing_source_is_told_in_the_language(
    degraded: SearchResult, tongue: Any, title: str, sentence: str
) -> None:
    answer = search_answer(degraded, tongue=tongue).variables
    assert answer["result"][0]["title"] == title and answer["result"][0]["content"].startswith(title)
    assert answer["warnings"][0].startswith(sentence) and answer["warnings"][0].endswith("no answer within 4 s")
    english = search_answer(degraded).variables
    for name in ("status", "decision", "sources", "search_id", "trace"):
        assert answer[name] == english[name], name
    assert answer["result"][0]["metadata"]["doc_metadata"] == english["result"][0]["metadata"]["doc_metadata"]


def test_nothing_found_and_the_demo_bank_are_told_in_the_language_of_the_question(
    ask: Callable[..., SearchResult],
) -> None:
    answer = search_answer(ask([(1, [])], "谁来审批新产品？"), demo=True)
    assert answer.text == "DEMO：虚构的银行，内容均不真实。\n\n未找到相关信息"
    assert answer.variables["decision"] == "no_match"


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("谁来审批？", "知识不完整：t1不可用"),
        ("誰が承認しますか", "ナレッジが不完全です: t1を利用できません"),
        ("Quem aprova?", "Conhecimento incompleto: t1 indisponível"),
        ("Who approves?", "Knowledge incomplete: t1 unavailable"),
    ],
)
def test_the_external_record_is_in_the_language_of_the_question(
    ask: Callable[..., SearchResult], chunk_of: Any, query: str, title: str
) -> None:
    request = ExternalRequest(knowledge_id="NPA", query=query, top_k=3, score_threshold=0.0, filters=None)
    answer = records_answer(ask([(1, down), (2, [chunk_of("a", 0.9)])]), request, notice_records=True)
    assert answer.body["records"][0]["title"] == title
    assert answer.body["records"][0]["metadata"]["notice"] is True


def test_a_failed_search_is_told_in_the_language_and_its_error_stays_english() -> None:
    def record(question: str) -> Any:
        return unanswered(InvalidRequest("too busy"), notice_records=True, question=question).body["records"][0]

    assert record("谁来审批？")["content"] == "知识不完整：检索失败。too busy. " + reader_text("mend_search", "zh")
    assert record("")["title"] == "Knowledge incomplete: the search failed"
    refusal = unanswered(InvalidRequest("too busy"), notice_records=False, question="谁来审批？")
    assert (refusal.status, refusal.body["error_msg"]) == (424, "too busy")


def test_the_form_has_the_language() -> None:
    def tongue(**fields: Any) -> str:
        given = {"query": "Who approves?", "domain": "NPA", **fields}
        return read_search_form(given, Registry(domains={}), Caller(), Principal(id="p")).tongue

    assert [tongue(), tongue(language=""), tongue(language="ja_JP")] == ["en", "en", "ja"]
    with pytest.raises(InvalidRequest, match=r"language has no choice 'jp_JP'.*ja_JP"):
        tongue(language="jp_JP")
