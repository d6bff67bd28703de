"""What a user gets wrong at the command line over the demo bank, beyond `test_cli_search`: one line, no traceback."""

import json

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main

ODD_BUT_FINE = [
    "MAS Notice 637(4)(b)?: [",
    '"unclosed AND (body:x^2 OR *) ~',
    "tier:[1 TO 5] NOT npa",
    "limit " * 1500,
    "limit\u200b\u202eexcess",
    "ＮＰＡ－００１",
    "👩‍💻 limit",
]
NOTHING_TO_SEARCH_FOR = ["???", "the of and", "()[]{}", "🦆"]


@pytest.fixture(autouse=True)
def on_the_demo(monkeypatch, tmp_path, demo_bank):
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(demo_bank.place.parent))
    monkeypatch.chdir(tmp_path)


def search(*args, stdin=None):
    return CliRunner().invoke(main, ["search", *args], input=stdin)


def refused(result, said):
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert said in result.stderr


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "query is empty"),
        (b" \n\t\n", "query is empty"),
        (b"limit\x00excess", "binary data"),
        (b"x" * 100_000, "at most 10000 are allowed"),
        (b"x" * 3_000_000, "at most 10000 are allowed"),
        ("limit".encode("utf-16"), "not UTF-8"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not UTF-8"),
    ],
)
def test_a_query_on_stdin_that_cannot_be_used(data, said):
    refused(search("-", "-d", "NPA", stdin=data), said)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-k", "1000000000"], "1<=x<=1000"),
        (["-k", "5.0"], "5.0"),
        (["-k", "True"], "True"),
        (["--require-tier", "0"], "1<=x<=5"),
        (["--set", "stage1_top_k=0"], "stage1_top_k"),
        (["--set", "stage1_top_k=true"], "stage1_top_k"),
        (["--set", "authority_weight=nan"], "authority_weight"),
        (["--set", "relevance_weight=abc"], "must be a number from 0 to 1, got 'abc'"),
        (["--set", "relevance_weight=0.9"], "set authority_weight to 0.1 or less too"),
        (["--set", "relevance_weight=inf"], "relevance_weight"),
        (["--set", "expired=ignore"], "expired"),
        (["--set", "authority_boosts={"], "authority_boosts"),
        (["--set", 'authority_boosts={"tier_5": 0.9}'], "authority_boosts"),
        (["--set", "similarity_threshold=0.7"], "similarity_threshold"),
        (["--as-of", "2025-02-30"], "2025-02-30"),
        (["--as-of", "2025-06-30T10:00"], "2025-06-30T10:00"),
        (["--filter", "("], "cannot read"),
        (["--filter", '{"and": [{"or": 5}]}'], "'or' takes a list of filters"),
        (["--filter", "x" * 100_000], "cannot read"),
    ],
)
def test_an_option_that_cannot_be_used(args, said):
    refused(search("limit", "-d", "NPA", *args), said)


@pytest.mark.parametrize("query", ODD_BUT_FINE)
def test_no_query_is_syntax(query):
    result = search(query, "-d", "NPA", "--json")
    assert result.exit_code in (0, 4), result.output
    found = json.loads(result.stdout)
    assert found["status"] == "complete"
    assert found["query"] == query.strip() or found["query"] == query


@pytest.mark.parametrize("query", NOTHING_TO_SEARCH_FOR)
def test_a_query_without_a_word_to_search_for_finds_nothing_and_says_why(query):
    result = search(query, "-d", "NPA", "--json")
    assert result.exit_code == 4
    found = json.loads(result.stdout)
    assert (found["decision"], found["chunks"]) == ("no_match", [])
    assert all("contains no word" in note for source in found["sources"] for note in source["notes"])
    assert all(source["notes"] for source in found["sources"])


@pytest.mark.parametrize("domain", ["npa", "NPX", "NPA ", "*", "../NPA"])
def test_a_domain_that_does_not_exist_names_the_known_ones(domain):
    refused(search("limit", "-d", domain), "Registered: DCE, DESK, NPA, ORM")
