"""Several collections by name: the file that names them, and what their results say together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from context_engine.errors import ConfigError, InvalidRequest
from context_engine.evaluation.blocks import to_markdown
from context_engine.evaluation.collections import (
    Collected,
    Collection,
    collected_summary,
    collection_at,
    existing_run,
    naming,
    open_collections,
    read_collections,
    verdict_of,
)
from context_engine.evaluation.evaluate import Compared
from context_engine.evaluation.metrics import Paired
from context_engine.evaluation.report import collected_report
from context_engine.evaluation.session import Session

Write = Callable[[str, str], Path]


def test_paths_of_a_file_start_at_its_folder(written: Write, tmp_path: Path) -> None:
    path = written(
        "c.yaml",
        "collections:\n"
        "  npa: {queries: npa/q.jsonl, qrels: npa/r.tsv, domain: NPA, as_of: 2026-03-02}\n"
        "  tickets: {qrels: /x/t.jsonl}\n",
    )

    found = read_collections(path)

    assert list(found) == ["npa", "tickets"]
    assert found["npa"] == Collection(
        queries=tmp_path / "npa/q.jsonl", qrels=tmp_path / "npa/r.tsv", domain="NPA", as_of=date(2026, 3, 2)
    )
    assert found["tickets"].qrels == Path("/x/t.jsonl")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("collections: {}\n", "c.yaml: collections"),
        ("collections: {npa: {domain: NPA}}\n", "names neither queries nor qrels"),
        ("collections: {npa: {qrel: r.tsv}}\n", "Did you mean 'qrels'"),
        ("collections: {'a/b': {qrels: r.tsv}}\n", "a/b"),
        ("queries: q.tsv\n", "queries"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(written: Write, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as found:
        read_collections(written("c.yaml", text))

    assert said in " ".join(str(one) for one in found.value.each)


def test_a_folder_is_known_by_the_names_of_its_files(tmp_path: Path) -> None:
    for name in ("queries.jsonl", "qrels.tsv", "corpus.jsonl"):
        (tmp_path / name).write_text("", "utf-8")

    assert collection_at(f"dev={tmp_path}") == (
        "dev",
        Collection(queries=tmp_path / "queries.jsonl", qrels=tmp_path / "qrels.tsv"),
    )
    assert collection_at("mine=mine.jsonl") == ("mine", Collection(qrels=Path("mine.jsonl")))


def test_what_names_no_collection_is_refused(tmp_path: Path) -> None:
    for text in ("dev", "=x", "dev=", "a/b=x"):
        with pytest.raises(InvalidRequest, match="NAME=FOLDER"):
            collection_at(text)
    with pytest.raises(InvalidRequest, match=r"collection 'dev': .* holds neither queries.jsonl nor qrels.tsv"):
        collection_at(f"dev={tmp_path}")


def test_what_is_wrong_with_a_collection_names_it() -> None:
    with pytest.raises(InvalidRequest, match="collection 'faq': no such domain"), naming("faq"):
        raise InvalidRequest("no such domain")
    with pytest.raises(ConfigError, match=r"q.tsv: line 3: is broken \(collection 'faq'\)"), naming("faq"):
        raise ConfigError("is broken", file="q.tsv", key="line 3")


def test_a_collection_goes_before_what_is_said_of_all(demo_session: Session, written: Write) -> None:
    both = Collection(queries=written("q.tsv", "a\tloss\n"), qrels=written("r.tsv", "a\tORM-SOP-001\t1\n"))
    other = both.model_copy(update={"domain": "ORM", "as_of": date(2024, 6, 30)})
    given = {"one": both, "other": other}

    found = open_collections(demo_session.setup, demo_session.data_dir, given, domain="ORM", as_of=date(2026, 3, 2))

    assert [one.as_of for one in found.values()] == [date(2026, 3, 2), date(2024, 6, 30)]
    with pytest.raises(InvalidRequest, match=r"collection 'one': .*question 'a' names no domain"):
        open_collections(demo_session.setup, demo_session.data_dir, given)


def test_a_folder_of_runs_must_hold_each(tmp_path: Path) -> None:
    (tmp_path / "faq.run").write_text("q Q0 a 1 1.0 x\n", "utf-8")

    assert existing_run(tmp_path, "faq") == tmp_path / "faq.run"
    with pytest.raises(ConfigError, match=r"dev.run: does not exist: a folder of runs holds NAME.run"):
        existing_run(tmp_path, "dev")


@pytest.mark.parametrize(
    ("pair", "verdict"),
    [
        (Paired(0.02, 0.01, 0.03, 0.01, 9, 2, 5), "better"),
        (Paired(-0.02, -0.03, -0.01, 0.01, 2, 9, 5), "worse"),
        (Paired(0.02, -0.01, 0.03, 0.2, 9, 2, 5), "no difference"),
        (Paired(-0.5, -0.6, -0.4, 0.01, 0, 5, 0), "no difference"),
    ],
)
def test_a_verdict_is_given_beyond_noise_alone(pair: Paired, verdict: str) -> None:
    assert verdict_of(pair) == verdict


@pytest.fixture
def two(compared: Callable[..., Compared]) -> Collected:
    """Eight questions that lost, and two that won: each collection counts as much."""
    small = compared({f"q{n}": (1.0, 0.5) for n in range(2)})
    large = compared({f"q{n}": (0.25, 0.75) for n in range(8)})
    return Collected(compared={"small": small, "large": large}, measures=("nDCG@10",), primary="nDCG@10")


def test_the_mean_is_over_collections_not_questions(two: Collected) -> None:
    assert two.mean("nDCG@10") == pytest.approx((1.0 + 0.25) / 2)
    assert two.mean("nDCG@10", baseline=True) == pytest.approx((0.5 + 0.75) / 2)
    assert two.questions == 10


def test_the_summary_has_a_verdict_for_each(two: Collected) -> None:
    out = collected_summary(two)

    assert out["verdicts"] == {"small": {"nDCG@10": "no difference"}, "large": {"nDCG@10": "worse"}}
    assert out["mean_of_collections"]["nDCG@10"] == pytest.approx({"mean": 0.625, "baseline": 0.625, "difference": 0})
    assert out["collections"]["large"]["difference"]["nDCG@10"]["losses"] == 8


def test_the_report_has_a_row_for_each_and_their_mean(two: Collected) -> None:
    shown = to_markdown(collected_report(two, title="Two"))

    assert "ours against before: 2 collections, 10 judged questions." in shown
    assert "| large | nDCG@10 | 0.250 | 0.750 | −0.500 | −0.500 to −0.500 | 0.000 | worse |" in shown
    assert "| small | nDCG@10 | 1.000 | 0.500 | +0.500 | +0.500 to +0.500 | 0.000 | no difference |" in shown
    assert "| mean | 10 | 0.625 |" in shown
    assert "## large: Lost most" in shown
