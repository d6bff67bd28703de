"""The material of an evaluation: questions with their domains, valid judgements, and the corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Final

from context_engine.core.context import ApproxTokenCounter
from context_engine.core.models import NOBODY, Notice, NoticeCode, Principal
from context_engine.core.protocols import TokenCounter
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.evaluation.gold import Corpus, GoldIndex, read_corpus, resolved
from context_engine.evaluation.metrics import cutoff
from context_engine.evaluation.qrels import EXACT, Qrels, Rejected, positive, read_qrels
from context_engine.evaluation.questions import EvalQuestion, read_questions
from context_engine.evaluation.run import Depth, Progress, Run, run_questions
from context_engine.evaluation.variant import Variant, open_with_models, with_variant
from context_engine.wiring.setup import Setup

_MOST_NAMED: Final = 5
_LEAST_DEPTH: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The material of an evaluation.

    Attributes:
        questions: (question, domain) pairs.
        qrels, rejected: gold ids of these questions judged relevant, and judged not relevant.
        unjudged: ids of questions without any judgement.
        corpus: everything that can be found.
        notices: limits of the results, for their reader.
    """

    setup: Setup
    data_dir: Path
    questions: tuple[tuple[EvalQuestion, str], ...]
    qrels: Qrels
    corpus: Corpus
    counter: TokenCounter
    as_of: date | None = None
    principal: Principal = NOBODY
    notices: tuple[Notice, ...] = ()
    rejected: Rejected = field(default_factory=dict)
    unjudged: Set[str] = frozenset()

    def only(self, names: Set[str]) -> Session:
        """Return the session with only the questions of some ids."""
        return replace(
            self,
            questions=tuple(pair for pair in self.questions if pair[0].id in names),
            qrels={name: grades for name, grades in self.qrels.items() if name in names},
        )

    def depth(self, variant: Variant, measures: Sequence[str], top_k: int | None = None) -> Depth:
        """Return the depth to which a set-up is evaluated for some measures.

        Args:
            top_k: number of chunks that a reader gets; None: each domain's stage2_top_k.

        Raises:
            ConfigError: the set-up has an invalid value.
        """
        by_domain: dict[str, int] = {}
        if top_k is None:
            changed = with_variant(self.setup, variant)
            for name in {domain for _, domain in self.questions}:
                by_domain[name] = changed.resolver.base(changed.registry.domain(name)).values.stage2_top_k
            top_k = max(by_domain.values())
        differ = len(set(by_domain.values())) > 1
        ranked = max(top_k, _LEAST_DEPTH, *map(cutoff, measures))
        return Depth(top_k=top_k, ranked=ranked, by_domain=by_domain if differ else {})

    def run(self, variant: Variant, depth: Depth, *, authority: bool = False, progress: Progress | None = None) -> Run:
        """Ask a set-up every question; see `run_questions`.

        Raises:
            ConfigError, InvalidRequest: the set-up is invalid.
        """
        engine, models = open_with_models(self.setup, variant, self.data_dir)
        with engine:
            run = run_questions(
                engine,
                self.questions,
                name=variant.name,
                depth=depth,
                counter=self.counter,
                as_of=self.as_of,
                principal=self.principal,
                authority=authority,
                progress=progress,
            )
        return replace(run, embedder=models.embedder_use())


def open_session(
    setup: Setup,
    data_dir: Path,
    *,
    queries: Path | None,
    qrels: Path | None,
    domain: str | None = None,
    as_of: date | None = None,
    principal: Principal = NOBODY,
) -> Session:
    """Read questions and judgements and check them against the corpus.

    Args:
        queries: file of questions; None: the questions in the file of judgements, as `eval judge` writes it.
        qrels: file of judgements; None: the answers in the file of questions.
        domain, as_of: defaults for questions that name none.
        principal: the caller; documents that it may not read are not part of the corpus.

    Raises:
        ConfigError: an invalid file or line, or a gold id that names nothing.
        InvalidRequest: a question without a domain, or with an unregistered one.
    """
    source = queries or qrels
    if source is None:
        raise InvalidRequest("nothing to evaluate: give --queries FILE and --qrels FILE")
    asked = with_domains(_questions(source, alone=queries is None), setup, domain, source)
    grades = read_qrels(qrels) if qrels is not None else {each.id: each.gold for each, _ in asked}
    judged = positive(grades)
    known = {question.id for question, _ in asked}
    kept = {question: gold for question, gold in judged.items() if question in known}
    if not kept:
        problem = "judges none of the questions: " if judged else "holds no judgement above 0: "
        problem += "questions and judgements must have the same ids" if judged else _no_grade(qrels)
        raise ConfigError(problem, file=str(qrels or source))
    counter = ApproxTokenCounter()
    corpus = read_corpus(setup, data_dir, sorted({name for _, name in asked}), counter, principal)
    chunk_ids = {chunk_id for _, chunk_id in corpus.identities}
    grades = {question: resolved(golds, chunk_ids) for question, golds in grades.items()}
    kept = {question: gold for question, gold in positive(grades).items() if question in known}
    unjudged = known - grades.keys()
    notices = [*_unasked(judged, kept), *_without_gold(len(known) - len(kept) - len(unjudged), len(unjudged))]
    notices += _check_gold(kept, corpus, qrels or source)
    return Session(
        setup=setup,
        data_dir=data_dir,
        questions=asked,
        qrels=kept,
        corpus=corpus,
        counter=counter,
        as_of=as_of,
        principal=principal,
        notices=tuple(notices),
        unjudged=unjudged,
        rejected={question: grades[question].keys() - gold.keys() for question, gold in kept.items()},
    )


def _questions(file: Path, *, alone: bool) -> tuple[EvalQuestion, ...]:
    """Return the questions of a file; `alone`: it is the file of judgements, which must then hold the questions too."""
    try:
        return read_questions(file)
    except ConfigError as error:
        if not alone:
            raise
        problem = f"{error.problem}; as no file of questions (--queries) is given, the judgements must hold them"
        raise ConfigError(problem, file=error.file, key=error.key) from None


def _no_grade(qrels: Path | None) -> str:
    return "give judgements, --qrels FILE" if qrels is None else "a grade of 1 or more marks an answer as relevant"


def with_domains(
    questions: Sequence[EvalQuestion], setup: Setup, domain: str | None, file: Path
) -> tuple[tuple[EvalQuestion, str], ...]:
    """Return each question with its domain: its own, else the given one, else the only registered one.

    Raises:
        InvalidRequest: a question without a domain, or with an unregistered one.
    """
    names = setup.registry.names
    otherwise = domain or (names[0] if len(names) == 1 else None)
    lost = [question.id for question in questions if not (question.domain or otherwise)]
    if lost:
        raise InvalidRequest(
            f"{file}: question {lost[0]!r} names no domain; registered are {', '.join(names)}: give --domain, "
            'or add "domain" to the question'
        )
    asked = tuple((question, question.domain or otherwise or "") for question in questions)
    for name in sorted({name for _, name in asked}):
        setup.registry.domain(name)
    return asked


def _unasked(judged: Qrels, kept: Qrels) -> list[Notice]:
    count = len(judged) - len(kept)
    message = f"{count} judged question(s) are not in the file of questions and were not asked"
    return [Notice(NoticeCode.QUESTIONS_NOT_ASKED, "", message, {"count": count})] if count else []


def _without_gold(count: int, unjudged: int) -> list[Notice]:
    kinds = (
        (NoticeCode.QUESTIONS_WITHOUT_ANSWER, count, "have no relevant answer"),
        (NoticeCode.QUESTIONS_NOT_JUDGED, unjudged, "were never judged"),
    )
    return [
        Notice(code, "", f"{number} question(s) {problem} and are left out of the measures", {"count": number})
        for code, number, problem in kinds
        if number
    ]


def _check_gold(qrels: Qrels, corpus: Corpus, file: Path) -> list[Notice]:
    """Refuse gold ids that name nothing; only report them if a source cannot be listed."""
    index = GoldIndex(corpus.identities.values())
    unknown = list(
        dict.fromkeys(gold.removeprefix(EXACT) for grades in qrels.values() for gold in grades if not index.knows(gold))
    )
    if not unknown:
        return []
    named = ", ".join(unknown[:_MOST_NAMED]) + (" ..." if len(unknown) > _MOST_NAMED else "")
    if corpus.unlisted:
        sources = ", ".join(corpus.unlisted)
        message = f"{len(unknown)} gold id(s) could not be checked, as {sources} cannot be listed: {named}"
        detail = {"ids": unknown, "sources": list(corpus.unlisted)}
        return [Notice(NoticeCode.GOLD_NOT_CHECKED, str(file), message, detail)]
    raise ConfigError(
        f"{len(unknown)} gold id(s) name no chunk of the base: {named}. A gold id is a chunk id, a document id "
        "(NPA-SOP-001), a version or section of it (NPA-SOP-001@3.2#4.2.1), or the first 12 or more hex digits of a "
        "text's SHA-256",
        file=str(file),
    )


def labelled(questions: Sequence[tuple[EvalQuestion, str]], label: str) -> Mapping[str, Sequence[str]]:
    """Return question ids by the value of a label; "domain" is a label too."""
    groups: dict[str, list[str]] = {}
    for question, domain in questions:
        value = domain if label == "domain" else question.labels.get(label, "")
        groups.setdefault(value, []).append(question.id)
    return groups
