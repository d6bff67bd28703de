"""Runs on the demo bank: measures, where gold is lost, what it costs."""

from dataclasses import replace

import pytest

from context_engine.core.models import Fate, Notice, NoticeCode, Outcome
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.evaluation import session as evaluation_session
from context_engine.evaluation.account import latency, stages, tier_shares, token_efficiency, troubles_of
from context_engine.evaluation.evaluate import Compared, compare_files, evaluate, grouped, summary, tier_of_gold
from context_engine.evaluation.gold import Corpus, Identity
from context_engine.evaluation.qrels import read_run, write_run
from context_engine.evaluation.questions import EvalQuestion
from context_engine.evaluation.report import evaluation_report
from context_engine.evaluation.run import Depth, QuestionOutcome, Run, answer_of, ask, troubles_in
from context_engine.evaluation.score import gold_fates, rankings_of, score_rankings, score_run
from context_engine.evaluation.session import open_session
from context_engine.evaluation.variant import Variant, read_variant
from context_engine.wiring.build import build_engine

MEASURES = ("R@8", "AP@10", "nDCG@10")


@pytest.mark.slow
def test_the_demo_is_answered_well(demo_compared):
    assert set(demo_compared.ours.scores) == set(demo_compared.session.qrels)
    assert demo_compared.ours.mean("R@8") > 0.84
    assert demo_compared.primary == "nDCG@10"


@pytest.mark.slow
def test_every_gold_answer_ends_once_and_the_returned_make_the_recall(demo_compared):
    session, run = demo_compared.session, demo_compared.ours.run
    fates = gold_fates(run, session.qrels)
    assert sorted((fate.question, fate.gold) for fate in fates) == sorted(
        (question, gold) for question, held in session.qrels.items() for gold in held
    )
    returned = {fate[:2] for fate in fates if fate.stage == "returned"}
    recall = [
        sum((question, gold) in returned for gold in held) / len(held) for question, held in session.qrels.items()
    ]
    assert sum(recall) / len(recall) == pytest.approx(demo_compared.ours.mean("R@8"), abs=0.02)


@pytest.mark.slow
def test_without_the_boost_is_the_set_up_without_authority(demo_compared):
    for measure in MEASURES:
        assert demo_compared.without_authority.mean(measure) == pytest.approx(demo_compared.baseline.mean(measure))


@pytest.mark.slow
def test_the_boost_raises_the_share_of_the_first_tiers(demo_compared):
    run = demo_compared.ours.run
    with_ = tier_shares([answer.hits for answer in run.answers], 8)
    without = tier_shares([answer.without_authority for answer in run.answers], 8)
    assert sum(with_.values()) == pytest.approx(1.0)
    assert with_[1] + with_[2] > without[1] + without[2]


@pytest.mark.slow
def test_a_context_is_a_small_part_of_the_corpus(demo_compared):
    used = token_efficiency(demo_compared.ours.run, demo_compared.session.corpus)
    assert 0 < used.context < used.corpus
    assert used.share == pytest.approx(used.context / used.corpus, rel=0.2)


@pytest.mark.slow
def test_stages_and_times_are_accounted_for(demo_compared):
    names = [stage.name for stage in stages(demo_compared.ours.run)]
    assert names[0] == "recall"
    assert names[-1] == "select"
    time = latency(demo_compared.ours.run)
    assert 0 < time.p50 <= time.p95 <= time.most


@pytest.mark.slow
def test_a_saved_run_measures_the_same(demo_compared, tmp_path):
    path = tmp_path / "a.run"
    write_run(path, demo_compared.ours.places, "a")
    again = compare_files(demo_compared.session, path, path, measures=MEASURES)
    assert again.ours.scores == demo_compared.ours.scores
    assert again.ours.against(again.baseline, "R@8").ties == len(demo_compared.session.qrels)
    hits = rankings_of(read_run(path), demo_compared.session.corpus.by_chunk_id())
    assert score_rankings("a", hits, demo_compared.session.qrels, MEASURES).scores == demo_compared.ours.scores


def test_a_search_is_asked_for_what_a_reader_is_given_and_no_more(demo_session):
    """Asked for 40 chunks a search may look deeper than it does for the 8 that are read."""
    question, domain = demo_session.questions[0]
    with build_engine(demo_session.setup, data_dir=demo_session.data_dir) as engine:
        result, _ = ask(engine, question, domain, depth=Depth(top_k=8, ranked=40), as_of=demo_session.as_of)
    assert result.settings.values.stage2_top_k == len(result.chunks) == 8
    hits = answer_of(result, question, depth=Depth(top_k=8, ranked=40)).hits
    assert [one.identity.chunk_id for one in hits[:8]] == [chunk.chunk_id for chunk in result.chunks]
    assert len(hits) > 8
    assert [one.score for one in hits] == sorted((one.score for one in hits), reverse=True)


@pytest.mark.slow
def test_measures_look_deeper_than_what_is_read(few_questions):
    shallow, deep = (evaluate(few_questions, Variant(), measures=("R@8", "R@60"), top_k=top_k) for top_k in (2, 8))
    assert shallow.ours.run.depth == Depth(top_k=2, ranked=60)
    assert shallow.ours.scores == deep.ours.scores
    assert shallow.ours.mean("R@60") > shallow.ours.mean("R@8")
    assert max(len(answer.hits) for answer in shallow.ours.run.answers) > 8
    used = [token_efficiency(one.ours.run, few_questions.corpus).context for one in (shallow, deep)]
    assert used[0] < used[1]


@pytest.mark.slow
def test_what_is_read_leads_the_ranking_also_where_likeness_decides(few_questions):
    """The first 3 that mmr_lambda chooses are not the first 3 of the 100 it would choose."""
    variant, top_k = read_variant(["mmr_lambda=0.4"], few_questions.setup), 3
    run = few_questions.run(variant, Depth(top_k=top_k, ranked=100))
    alone = few_questions.run(variant, Depth(top_k=top_k, ranked=top_k))
    plain = few_questions.run(Variant(), Depth(top_k=top_k, ranked=100))
    assert [one.hits[:top_k] for one in run.answers] == [one.hits for one in alone.answers]
    assert [set(one.hits) for one in run.answers] == [set(one.hits) for one in plain.answers]
    assert [one.hits for one in run.answers] != [one.hits for one in plain.answers]


@pytest.mark.slow
def test_what_is_read_is_what_each_domain_says(few_questions):
    domains = {
        name: domain.model_copy(update={"settings": {**domain.settings, "stage2_top_k": 3 if name == "NPA" else 5}})
        for name, domain in few_questions.setup.registry.domains.items()
    }
    registry = few_questions.setup.registry.model_copy(update={"domains": domains})
    session = replace(few_questions, setup=replace(few_questions.setup, registry=registry))
    depth = session.depth(Variant(), ("R@8",))
    assert (depth.top_k, depth.read("NPA"), depth.read("ORM"), str(depth)) == (5, 3, 5, "3 to 5")
    assert session.depth(Variant(), ("R@60",), 8) == Depth(top_k=8, ranked=60)
    run = session.run(Variant(), depth, authority=True)
    alike = {name: session.run(Variant(), Depth(top_k=top_k, ranked=40)) for name, top_k in (("NPA", 3), ("ORM", 5))}
    for name, other in alike.items():
        pairs = [pair for pair in zip(run.answers, other.answers) if pair[0].domain == name]
        ours, theirs = ([pair[side].context_tokens for pair in pairs] for side in (0, 1))
        assert ours == pytest.approx(theirs, rel=0.02)
        asked = {one.question.id for one, _ in pairs}
        ours, theirs = (
            [fate for fate in gold_fates(which, session.qrels) if fate.question in asked] for which in (run, other)
        )
        assert ours == theirs
    assert max(map(len, run.read(authority=False))) == 5


@pytest.mark.slow
def test_groups_are_by_tier_and_domain(demo_compared):
    groups = grouped(demo_compared.session)
    assert {name: len(held) for name, held in groups["domain"].items()} == {"DCE": 10, "DESK": 10, "NPA": 10, "ORM": 10}
    assert sum(map(len, groups["tier"].values())) == 40
    with pytest.raises(InvalidRequest, match="no question has a field 'colour'"):
        grouped(demo_compared.session, ["colour"])
    assert grouped(demo_compared.session, ["domain"]) == {name: groups[name] for name in ("tier", "domain")}


def test_a_grouping_that_is_asked_for_is_there_though_it_has_one_group(demo_session):
    (question, domain), *_ = demo_session.questions
    alone = replace(
        demo_session,
        questions=((replace(question, labels={"team": "rates"}), domain),),
        qrels={question.id: demo_session.qrels[question.id]},
    )
    assert grouped(alone) == {}
    assert grouped(alone, ["team"]) == {"team": {"rates": [question.id]}}


def test_the_tier_of_a_question_is_the_best_of_its_gold():
    identities = [
        Identity("s", "a", frozenset({"a", "D"}), "f" * 64, 3),
        Identity("s", "b", frozenset({"b", "D"}), "e" * 64, 2),
    ]
    qrels = {"q1": {"D": 1}, "q2": {"a": 1}, "q3": {"f" * 12: 1}, "q4": {"z": 1}, "q5": {"a": 1, "sha256:eeeeeeee": 1}}
    assert tier_of_gold(qrels, identities) == {"q1": 2, "q2": 3, "q3": 3, "q5": 2}


def test_a_lost_answer_is_lost_where_its_best_candidate_was(hit):
    def candidate(name, outcome, stage, into=None):
        return Fate("s", name, outcome, stage, "", into=into)

    pool = {
        ("s", one): Identity("s", one, frozenset({one, *more}))
        for one, more in {"a": ["D"], "b": ["D"], "m": [], "n": []}.items()
    }
    fates = (
        candidate("a", Outcome.DROPPED, "as_of"),
        candidate("b", Outcome.DROPPED, "relevance"),
        candidate("m", Outcome.MERGED, "dedup", ("s", "b")),
        candidate("n", Outcome.RETURNED, "select"),
    )
    answer = QuestionOutcome(
        question=EvalQuestion(id="q", text="?"), domain="NPA", hits=(hit("x"), hit("n")), pool=pool, fates=fates
    )
    run = Run(name="r", depth=Depth(top_k=1, ranked=2), answers=(answer,))
    gold = {"D": 1, "m": 1, "n": 1, "z": 1, "x": 1}
    assert {fate.gold: fate.stage for fate in gold_fates(run, {"q": gold})} == {
        "D": "relevance", "m": "relevance", "n": "select", "z": "recall", "x": "returned",
    }  # fmt: skip


def test_a_search_that_failed_counts_nothing():
    run = Run(
        name="r",
        depth=Depth(top_k=8, ranked=10),
        answers=(QuestionOutcome(question=EvalQuestion(id="q", text="?"), domain="D", failed=True),),
    )
    assert score_run(run, {"q": {"a": 1}}, MEASURES).scores == {"q": dict.fromkeys(MEASURES, 0.0)}


# -- what an evaluation is given --------------------------------------------------------------------------------------


def opened(session, **given):
    return open_session(session.setup, session.data_dir, **{"queries": None, "qrels": None, **given})


def test_gold_ids_that_name_nothing_are_named(demo_session, written):
    queries = written("q.tsv", "a\tmaterial change\nb\tlimits\n")
    qrels = written("r.tsv", "a\tNPA-SOP-001\t1\na\tNPA-SOP-999\t1\nb\tnowhere\t1\n")
    with pytest.raises(ConfigError, match=r"r\.tsv: 2 gold id\(s\) name no chunk of the base: NPA-SOP-999, nowhere\."):
        opened(demo_session, queries=queries, qrels=qrels, domain="NPA")


def test_a_judgement_of_a_chunk_is_of_that_chunk_alone(demo_session, written):
    line = '{"query_id": "a", "query": "material change", "domain": "NPA", '
    line += '"chunk_id": "NPA-SOP-001@3.2#%s", "grade": %d}\n'
    session = opened(demo_session, qrels=written("m.jsonl", line % ("4.2", 2) + line % ("4.2.1", 0) + line % ("99", 0)))
    assert session.qrels == {"a": {"=NPA-SOP-001@3.2#4.2": 2}}
    assert session.rejected == {"a": {"=NPA-SOP-001@3.2#4.2.1", "NPA-SOP-001@3.2#99"}}
    assert grouped(session, ["tier"]) == {"tier": {"2": ["a"]}}
    gone = written("gone.jsonl", line % ("4.2", 2) + line % ("99", 1))
    with pytest.raises(ConfigError, match=r"1 gold id\(s\) name no chunk of the base: NPA-SOP-001@3\.2#99\."):
        opened(demo_session, qrels=gone)


def test_questions_need_a_domain_that_is_registered(demo_session, written):
    queries, qrels = written("q.tsv", "a\tmaterial change\n"), written("r.tsv", "a\tNPA-SOP-001\t1\n")
    with pytest.raises(InvalidRequest, match="question 'a' names no domain"):
        opened(demo_session, queries=queries, qrels=qrels)
    with pytest.raises(InvalidRequest, match="unknown domain 'NPX'"):
        opened(demo_session, queries=queries, qrels=qrels, domain="NPX")


def test_questions_and_judgements_must_meet(demo_session, written):
    queries, qrels = written("q.tsv", "a\tmaterial change\n"), written("r.tsv", "z\tNPA-SOP-001\t1\n")
    with pytest.raises(ConfigError, match="judges none of the questions"):
        opened(demo_session, queries=queries, qrels=qrels, domain="NPA")
    with pytest.raises(ConfigError, match="holds no judgement above 0"):
        opened(demo_session, queries=queries, domain="NPA")
    with pytest.raises(InvalidRequest, match="nothing to evaluate"):
        opened(demo_session)


def test_what_is_left_out_is_said(demo_session, written):
    queries = written("q.tsv", "a\tmaterial change\nb\tlimits\n")
    qrels = written("r.tsv", "a\tNPA-SOP-001\t1\nz\tNPA-SOP-001\t1\n")
    session = opened(demo_session, queries=queries, qrels=qrels, domain="NPA")
    assert session.qrels == {"a": {"NPA-SOP-001": 1}}
    assert [(notice.code, notice.detail) for notice in session.notices] == [
        (NoticeCode.QUESTIONS_NOT_ASKED, {"count": 1}),
        (NoticeCode.QUESTIONS_NOT_JUDGED, {"count": 1}),
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["authority_wight=0"], "unknown setting 'authority_wight'. Did you mean 'authority_weight'?"),
        (["authority_weight=much"], "authority_weight: must be"),
        (["authority_weight"], "a setting is written KEY=VALUE"),
        (["top_k=3", "stage2_top_k=4"], "setting stage2_top_k is given twice"),
        (["lokal.weight=1"], "no source or adapter is called 'lokal'. Did you mean 'local'?"),
    ],
)
def test_settings_that_cannot_be_used(demo_session, given, said):
    with pytest.raises((InvalidRequest, ConfigError)) as error:
        read_variant(given, demo_session.setup)
    assert said in str(error.value)


def test_a_variant_names_its_changes_and_can_be_laid_over_another(demo_session):
    below = read_variant(["min_relevance=0.2", "local.a=1"], demo_session.setup)
    above = read_variant(["min_relevance_score=0.3", "local.b=[1,2]"], demo_session.setup)
    assert above.over(below).name == "min_relevance_score=0.3 local.a=1 local.b=[1,2]"
    assert Variant().name == "as configured"


def test_gold_of_sources_that_cannot_be_listed_is_only_mentioned(demo_session, written, monkeypatch):
    queries, qrels = written("q.tsv", "a\tmaterial change\n"), written("r.tsv", "a\tKB-1\t1\n")
    monkeypatch.setattr(evaluation_session, "read_corpus", lambda *_: Corpus(unlisted=("kb",)))
    session = opened(demo_session, queries=queries, qrels=qrels, domain="NPA")
    (notice,) = session.notices
    assert (notice.code, notice.detail) == (NoticeCode.GOLD_NOT_CHECKED, {"ids": ["KB-1"], "sources": ["kb"]})
    run = Run(name="r", depth=Depth(top_k=8, ranked=10), answers=())
    assert token_efficiency(run, session.corpus)[2:] == (None, None)


# -- what is in the way -------------------------------------------------------------------------------------------


def result_of(session, **changes):
    question, domain = session.questions[0]
    with build_engine(session.setup, data_dir=session.data_dir) as engine:
        result, failed = ask(engine, question, domain, depth=Depth(top_k=8, ranked=8), as_of=session.as_of)
    assert not failed
    return question, replace(result, **changes)


def test_a_source_that_was_down_is_named_beside_the_numbers(demo_session):
    question, result = result_of(demo_session)
    assert list(troubles_in(result)) == []
    first, *others = result.sources
    error = {"code": "unavailable", "message": f"source {first.source_id!r}: nobody there"}
    down = replace(result, sources=(replace(first, state="failed", error=error, problem="nobody there"), *others))
    failure = Notice(NoticeCode.RERANK_FAILED, "rerank", "degraded: rerank: late", {"problem": "late"})
    late = replace(result, notices=(failure,))
    no_vectors = Notice(NoticeCode.NO_VECTORS, first.source_id, "no_vectors")
    blind = replace(result, sources=(replace(first, notices=(no_vectors,)), *others))
    depth = Depth(top_k=8, ranked=8)
    answers = [answer_of(one, question, depth=depth) for one in (down, down, late, blind, result)]
    found = troubles_of(answer.troubles for answer in answers)
    assert [(trouble.name, trouble.searches) for trouble in found] == [(first.source_id, 3), ("rerank", 1)]
    failed, _, unranked, blinded = (answer.troubles[0] for answer in answers[:4])
    assert (failed.code, failed.detail["problem"]) == (NoticeCode.SOURCE_FAILED, "nobody there")
    assert (unranked.code, unranked.detail["problem"]) == (NoticeCode.RERANK_FAILED, "late")
    assert blinded.code is NoticeCode.NO_VECTORS
    run = Run(name="mine", depth=depth, answers=tuple(answers))
    scored = score_run(run, demo_session.qrels, MEASURES)
    groups = {"domain": {"NPA": [question.id]}}
    compared = Compared(session=demo_session, ours=scored, baseline=None, groups=groups, primary="R@8")
    assert compared.troubles[0].startswith(f"mine: {first.source_id} failed in 3 search(es): ")
    assert summary(compared)["troubles"][0]["searches"] == 3
    assert compared.troubles[0] in evaluation_report(compared, title="T").notes


def test_a_run_file_of_other_questions_says_so(demo_session, tmp_path):
    first = next(iter(demo_session.qrels))
    for name, questions in (("all", demo_session.qrels), ("one", [first])):
        write_run(tmp_path / name, {question: [("x", 1.0)] for question in questions}, name)
    compared = compare_files(demo_session, tmp_path / "all", tmp_path / "one", measures=MEASURES)
    assert compared.troubles == ["one has no ranking for 39 of the 40 judged questions, which count 0"]
    write_run(tmp_path / "none", {"other": [("x", 1.0)]}, "none")
    with pytest.raises(ConfigError, match=r"none: ranks none of the judged questions \(other"):
        compare_files(demo_session, tmp_path / "all", tmp_path / "none", measures=MEASURES)


def test_what_was_rejected_counts_for_measures_that_ask(demo_session, written):
    queries = written("q.tsv", "a\tmaterial change\nb\tlimits\nc\tdesks\n")
    qrels = written("r.tsv", "a\tNPA-SOP-001\t1\na\tNPA-WEB-001\t0\nb\tNPA-SOP-001\t0\n")
    session = opened(demo_session, queries=queries, qrels=qrels, domain="NPA")
    assert session.rejected == {"a": {"NPA-WEB-001"}}
    assert session.unjudged == {"c"}
    assert [notice.code for notice in session.notices] == ["questions_without_answer", "questions_not_judged"]


def test_a_chunk_of_a_rejected_document_is_judged(hit):
    hits = {"q": [hit("S#1", "S"), hit("W#1", "W"), hit("W#2", "W"), hit("x")]}
    scores = score_rankings("r", hits, {"q": {"S": 1}}, ("Judged@4", "P@4"), rejected={"q": {"W"}}).scores
    assert scores["q"] == {"Judged@4": 3 / 4, "P@4": 1 / 4}
