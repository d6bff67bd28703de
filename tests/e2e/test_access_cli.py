"""The command line as different users: what one may not know looks as if it did not exist."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.apps.cli.context import ConfigLocation, open_context
from context_engine.core.models import Chunk, Classification
from context_engine.core.text import content_sha256
from context_engine.wiring.adapters import ACCESS_POLICIES

HANDBOOK = """
version: 1
domain: HANDBOOK
title: Staff handbook
sources:
  - {id: policies, type: bank_sop}
  - id: board
    type: bank_sop
    classification: restricted
    access: {roles: [secretary]}
"""
DEALS = """
version: 1
domain: DEALS
title: Deals
access: {groups: [deal-team], clearance: CONFIDENTIAL}
sources:
  - {id: deals, type: bank_sop, classification: confidential}
"""
ACCESS = """
version: 1
principals:
  desk: {roles: [analyst], os_users: [a.tan], may_act_as: [deal-desk]}
  deal-desk: {groups: [deal-team], clearance: CONFIDENTIAL}
  secretary: {roles: [secretary], clearance: RESTRICTED, os_users: [c.lim]}
  platform: {os_users: [kb-admin], operator: true}
"""


def document(source: str, name: str, text: str, classification: Classification | None = None) -> Chunk:
    return Chunk(
        content=text,
        chunk_id=f"{name}-1",
        document_id=name,
        source_id=source,
        title=name,
        classification=classification,
    )


DOCUMENTS = [
    document("policies", "hotels", "A hotel may cost at most 180 EUR a night in every city of the region."),
    document("policies", "memo", "The hotel limit will rise in spring.", Classification.CONFIDENTIAL),
    document("board", "falcon", "The board has agreed to buy the hotel group called Falcon."),
    document("deals", "merlin", "Merlin buys a hotel group in two steps before the summer."),
]
ANYBODY, DESK, SECRETARY, OPERATOR = "guest", "a.tan", "c.lim", "kb-admin"


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A configuration with a filled base."""
    place = tmp_path_factory.mktemp("bank")
    files = {"manifests/handbook.yaml": HANDBOOK, "manifests/deals.yaml": DEALS, "config/access.yaml": ACCESS}
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        _as(patch, place, ANYBODY)  # who writes is no principal
        context = open_context(ConfigLocation(None, None, None), operator=True)
        with context.open_base() as base, base.writer() as writer:
            for chunk in DOCUMENTS:
                document = str(chunk.document_id)
                writer.put(str(chunk.source_id), document, "", content_sha256(chunk.content), [chunk])
            writer.commit()
    yield place


@pytest.fixture
def run(bank: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    def run(user: str, *args: str, stdin: str | None = None) -> Result:
        _as(monkeypatch, bank, user)
        return CliRunner().invoke(main, list(args), input=stdin)

    return run


def _as(patch: pytest.MonkeyPatch, place: Path, user: str) -> None:
    patch.chdir(place)
    patch.setenv("CONTEXT_ENGINE_DATA_DIR", str(place / "data"))
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "XDG_CONFIG_HOME", "COLUMNS"):
        patch.delenv(name, raising=False)
    patch.setenv("USER", OPERATOR)  # which a user may set to anything
    patch.setenv("LOGNAME", OPERATOR)
    patch.setattr("context_engine.apps.cli.context.os_user", lambda: user)


def told(result: Result) -> tuple[int, str]:
    """Return the exit code, and all that the user was shown but for what differs between any two searches."""
    return result.exit_code, re.sub(r"search [0-9a-f]{24}", "search ID", result.output)


@pytest.mark.parametrize(
    ("user", "more", "held"),
    [
        (ANYBODY, [], {"HANDBOOK": {"policies": 1}}),
        (DESK, [], {"HANDBOOK": {"policies": 1}}),
        (DESK, ["--as", "deal-desk"], {"DEALS": {"deals": 1}, "HANDBOOK": {"policies": 2}}),
        (SECRETARY, [], {"HANDBOOK": {"policies": 2, "board": 1}}),
        (OPERATOR, [], {"HANDBOOK": {"policies": 1}}),
        (OPERATOR, ["--as", "secretary"], {"HANDBOOK": {"policies": 2, "board": 1}}),
    ],
)
def test_domains_lists_what_one_may_search_and_counts_what_one_may_read(
    run: Callable[..., Result], user: str, more: list[str], held: dict[str, Any]
) -> None:
    found = json.loads(run(user, "domains", "--json", *more).stdout)["domains"]
    assert {one["domain"]: {row["id"]: row["documents"] for row in one["sources"]} for one in found} == held


@pytest.mark.parametrize(
    ("user", "more", "documents"),
    [
        (ANYBODY, [], {"hotels"}),
        (SECRETARY, [], {"hotels", "memo", "falcon"}),
        (DESK, ["--as", "deal-desk", "-d", "HANDBOOK"], {"hotels", "memo"}),
        (DESK, ["--as", "deal-desk", "-d", "DEALS"], {"merlin"}),
    ],
)
def test_a_search_finds_what_one_may_read_and_the_only_domain_one_knows_need_not_be_named(
    run: Callable[..., Result], user: str, more: list[str], documents: set[str]
) -> None:
    result = run(user, "search", "hotel", "--set", "scope_threshold=0", "--min-relevance", "0", "--json", *more)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {chunk["_provenance"]["extra"]["document_id"] for chunk in found["chunks"]} == documents
    hidden = {"falcon", "merlin", "spring"} - documents - ({"spring"} if "memo" in documents else set())
    assert not [word for word in hidden if word in result.output.casefold()]


@pytest.mark.parametrize(
    ("hidden", "made_up", "command"),
    [
        pytest.param("DEALS", "ZEALS", ["search", "hotel", "-d", "DEALS"], marks=pytest.mark.slow),
        ("DEALS", "ZEALS", ["search", "hotel", "-d", "DEALS", "--json"]),
        ("board", "zoard", ["search", "hotel", "--require-source", "board", "--strict"]),
        pytest.param("board", "zoard", ["search", "hotel", "--set", "sources=board"], marks=pytest.mark.slow),
        ("falcon", "zalcon", ["search", "falcon", "--explain"]),
        pytest.param("falcon", "zalcon", ["search", "hotel falcon", "--context"], marks=pytest.mark.slow),
        pytest.param("spring", "zpring", ["search", "spring"], marks=pytest.mark.slow),
        ("platform", "zlatform", ["search", "hotel", "--as", "platform"]),
        ("DEALS", "ZEALS", ["eval", "judge", "hotel", "-d", "DEALS", "--qrels", "q.jsonl"]),
        pytest.param(
            "DEALS", "ZEALS", ["eval", "run", "--qrels", "judged.jsonl", "-d", "DEALS"], marks=pytest.mark.slow
        ),
        pytest.param(
            "DEALS", "ZEALS", ["eval", "scope", "--in", "judged.jsonl", "-d", "DEALS"], marks=pytest.mark.slow
        ),
        pytest.param(
            "board",
            "zoard",
            ["eval", "run", "--qrels", "judged.jsonl", "--set", "board.top_k=3"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "falcon",
            "zalcon",
            ["eval", "run", "--queries", "judged.jsonl", "--qrels", "falcon.tsv"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "memo", "zemo", ["eval", "run", "--queries", "judged.jsonl", "--qrels", "memo.tsv"], marks=pytest.mark.slow
        ),
    ],
)
def test_what_one_may_not_know_is_answered_as_what_there_is_not(
    run: Callable[..., Result], bank: Path, hidden: str, made_up: str, command: list[str]
) -> None:
    question = {"id": "q1", "query": "What may a hotel cost?", "gold": {"hotels": 2}}
    (bank / "judged.jsonl").write_text(json.dumps(question) + "\n", "utf-8")
    for name in (hidden, made_up):
        (bank / f"{name}.tsv").write_text(f"q1\t0\t{name}\t2\n", "utf-8")
    real = told(run(DESK, *command))
    other = told(run(DESK, *(one.replace(hidden, made_up) for one in command)))
    assert (real[0], _without_times(real[1].replace(hidden, made_up))) == (other[0], _without_times(other[1]))


def _without_times(text: str) -> str:
    text = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:\d|Z)", "TIME", text)
    return re.sub(r"[ ]*\d+(?:\.\d+)? ms|\"(?:elapsed_)?ms\": [\d.]+", " MS", text)


def test_who_may_act_as_another_is_said_by_the_file_alone(run: Callable[..., Result]) -> None:
    assert run(DESK, "domains", "--as", "deal-desk").exit_code == 0
    refused = run(ANYBODY, "domains", "--as", "deal-desk")
    assert (refused.exit_code, "you may not act as 'deal-desk'" in refused.output) == (2, True)


def test_a_principal_that_is_only_said_grants_nothing(run: Callable[..., Result]) -> None:
    found = json.loads(run(DESK, "search", "hotel group", "--principal", "secretary", "--json").stdout)
    assert {chunk["source_id"] for chunk in found["chunks"]} == {"policies"}


@pytest.mark.parametrize("command", [["access", "check"], ["access", "matrix"], ["policy", "export", "--cedar"]])
def test_the_rules_are_shown_to_an_operator_alone(run: Callable[..., Result], command: list[str]) -> None:
    assert run(OPERATOR, *command).exit_code == 0
    refused = run(SECRETARY, *command)
    assert refused.exit_code == 2
    assert refused.stdout == ""
    assert "this is for an operator" in refused.stderr


class TestCheck:
    def test_says_what_may_be_searched_and_why(self, run: Callable[..., Result]) -> None:
        found = json.loads(run(OPERATOR, "access", "check", "--as", "deal-desk", "--json").stdout)
        decided = {(d["domain"], s["source_id"]): s["reason"] for d in found["domains"] for s in d["sources"]}
        assert decided == {
            ("DEALS", "deals"): "admitted",
            ("HANDBOOK", "policies"): "no_rule",
            ("HANDBOOK", "board"): "source_rule",
        }
        assert len(found["policy_hash"]) == 64

    def test_of_somebody_who_is_only_described(self, run: Callable[..., Result]) -> None:
        some = ["--group", "deal-team", "--role", "secretary", "--clearance", "Confidential"]
        shown = run(OPERATOR, "access", "check", *some).stdout
        assert "✓  deals" in shown
        assert "✗  board" in shown
        assert "the source is restricted: that clearance is needed" in shown

    def test_of_a_role(self, run: Callable[..., Result]) -> None:
        done = run(OPERATOR, "access", "check", "--as", "secretary", "-d", "DEALS")
        assert done.exit_code == 4, "nothing of it may be searched"
        assert "the domain requires group deal-team; cleared for confidential" in done.stdout

    def test_a_role_that_no_rule_names_is_noted(self, run: Callable[..., Result]) -> None:
        done = run(OPERATOR, "access", "check", "--role", "secretery", "--group", "deal-team")
        assert "'secretery'" in done.stderr and "Did you mean 'secretary'?" in done.stderr
        assert "deal-team" not in done.stderr

    def test_of_a_name_that_there_is_not(self, run: Callable[..., Result]) -> None:
        done = run(OPERATOR, "access", "check", "--as", "secretery")
        assert (done.exit_code, "Did you mean 'secretary'?" in done.stderr) == (2, True)


class TestMatrix:
    def test_as_json(self, run: Callable[..., Result]) -> None:
        rows = {row["source"]: row for row in json.loads(run(OPERATOR, "access", "matrix", "--json").stdout)["sources"]}
        needed = {(one["kind"], one["name"]): one["least"] for one in rows["board"]["clearance_needed"]}
        assert needed == {(None, None): None, ("role", "secretary"): "restricted", ("group", "deal-team"): None}
        may = {name: one["allowed"] for name, one in rows["board"]["principals"].items()}
        assert may == {"desk": False, "deal-desk": False, "secretary": True, "platform": False}

    def test_as_a_page(self, run: Callable[..., Result], tmp_path: Path) -> None:
        assert run(OPERATOR, "access", "matrix", "--html", str(tmp_path / "access.html")).exit_code == 0
        page = (tmp_path / "access.html").read_text("utf-8")
        assert "<th scope=col>deal-desk</th>" in page
        assert "<dt>HANDBOOK · board</dt><dd>role secretary</dd>" in page
        assert "<script" not in page


class TestToken:
    def test_a_new_one_with_its_hash(self, run: Callable[..., Result]) -> None:
        from context_engine.settings.principals import token_hash

        found = json.loads(run(ANYBODY, "access", "token", "--json").stdout)
        assert re.fullmatch(r"ce_[0-9a-f]{10}_[A-Za-z0-9_-]{43}", found["token"])
        assert found["sha256"] == token_hash(found["token"])

    def test_the_hash_of_one_there_is(self, run: Callable[..., Result]) -> None:
        found = json.loads(run(ANYBODY, "access", "token", "-", "--json", stdin="abc\n").stdout)
        assert found == {"sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}

    def test_none_is_taken_from_the_command_line(self, run: Callable[..., Result]) -> None:
        assert run(ANYBODY, "access", "token", "ce_secret").exit_code == 2


def test_the_rules_in_cedar(run: Callable[..., Result]) -> None:
    assert 'when { principal in [Group::"deal-team"] }' in run(OPERATOR, "policy", "export", "--cedar").stdout
    entities = json.loads(run(OPERATOR, "policy", "export", "--cedar", "--entities").stdout)
    assert {"type": "Principal", "id": "deal-desk"} in [one["uid"] for one in entities]


def test_rules_that_do_not_decide_are_not_exported(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = EntryPoint("own", "context_engine.core.policy.access:ManifestPolicy", ACCESS_POLICIES)
    monkeypatch.setattr(
        "context_engine.wiring.adapters.entry_points",
        lambda *, group: [own] if group == ACCESS_POLICIES else entry_points(group=group),
    )
    (tmp_path / "config").mkdir()
    (tmp_path / "manifests").mkdir()
    (tmp_path / "config/access.yaml").write_text(ACCESS + "policy: own\n", "utf-8")
    (tmp_path / "manifests/deals.yaml").write_text(DEALS, "utf-8")
    assert run(OPERATOR, "access", "check", "--config-dir", str(tmp_path)).exit_code == 4
    refused = run(OPERATOR, "policy", "export", "--cedar", "--config-dir", str(tmp_path))
    assert (refused.exit_code, refused.stdout, "the policy 'own' decides" in refused.stderr) == (2, "", True)


def test_prove_is_for_an_operator(run: Callable[..., Result]) -> None:
    refused = run(DESK, "access", "prove", "--changes", "1", "--questions", "1")
    assert refused.exit_code == 2 and "for an operator" in refused.stderr


@pytest.mark.slow
def test_prove_shows_that_nothing_shows(run: Callable[..., Result]) -> None:
    shown = run(OPERATOR, "access", "prove", "--as", "desk", "--changes", "6", "--questions", "4", "--json")
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert found["holds"] and found["first"] is None and found["principal"] == "desk"
    assert sum(found["changes"].values()) == 6 and found["questions"] == 4 and found["left_out"] == []
    assert (found["seed"], found["asked"]) == (0, {"changes": 6, "questions": 4})
    assert found["version"] and "internal" in found["rights"]


@pytest.mark.slow
def test_prove_says_where_something_shows(run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_engine.adapters.sources.local.writer.partition_key", lambda *_: 1)
    shown = run(OPERATOR, "access", "prove", "--as", "desk", "--changes", "20", "--questions", "8")
    assert shown.exit_code == 1
    assert "answers are not what they were before" in shown.stdout
    assert "before  " in shown.stdout and "after  " in shown.stdout
