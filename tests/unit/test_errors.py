"""The tree of errors is the one that is drawn, and every error says what, where and how to fix it."""

import inspect
import pickle
import re

import pytest

from context_engine import errors
from context_engine.errors import (
    AllSourcesFailed,
    ConfigError,
    ContextEngineError,
    EvidenceIncomplete,
    MissingExtra,
    MissingVariable,
    SourceError,
    SourceRateLimited,
    UnknownDomain,
    nearest,
)

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, Warning | Exception)
}


def drawn():
    """Return {name: parent} as the docstring's tree shows it."""
    parents, path = {}, []
    for line in errors.__doc__.splitlines():
        found = re.match(r"^((?:[│ ]   )*)(?:[├└]── )?([A-Z]\w+)(?: {2,}|$)", line)
        if found is None:
            continue
        depth = len(found[1]) // 4 + (1 if "── " in line else 0)
        path = [*path[:depth], found[2]]
        parents[found[2]] = path[-2] if depth else None
    return parents


def test_the_tree_in_the_docstring_is_the_tree_of_classes():
    actual = {
        name: value.__bases__[0].__name__ if value is not ContextEngineError else None
        for name, value in CLASSES.items()
        if issubclass(value, ContextEngineError)
    }
    assert drawn() == actual
    assert len(actual) == 49
    assert "DegradedRetrieval (a warning)" in errors.__doc__
    assert issubclass(errors.DegradedRetrieval, UserWarning)


def test_all_names_are_public_and_codes_are_unique():
    assert {*CLASSES, "closest", "did_you_mean", "nearest", "source_error_from"} == set(errors.__all__)
    codes = [value.code for value in CLASSES.values() if issubclass(value, ContextEngineError)]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch("[a-z_]+", code) for code in codes)


PLAIN = [
    value
    for value in CLASSES.values()
    if issubclass(value, ContextEngineError) and value not in (UnknownDomain, MissingExtra)
]


@pytest.mark.parametrize("kind", PLAIN)
def test_every_error_is_json_with_a_code_and_its_message(kind):
    told = kind("what went wrong").to_dict()
    assert (told["code"], told["message"]) == (kind.code, "what went wrong")


@pytest.mark.parametrize("kind", PLAIN)
def test_an_error_can_be_sent_to_another_process(kind):
    again = pickle.loads(pickle.dumps(kind("what went wrong")))
    assert (type(again), str(again)) == (kind, "what went wrong")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UnknownDomain("NPS", ["NPA", "ORM"]), "unknown domain 'NPS'. Registered: NPA, ORM. Did you mean 'NPA'?"),
        (UnknownDomain("zzz", ["NPA", "ORM"]), "unknown domain 'zzz'. Registered: NPA, ORM."),
        (
            UnknownDomain("NPA", []),
            "unknown domain 'NPA'. No domain is registered. Write one with 'context-engine init DIR'.",
        ),
        (ConfigError("is not a number"), "is not a number"),
        (ConfigError("is not a number", file="a.json"), "a.json: is not a number"),
        (ConfigError("is not a number", file="a.json", key="x.y"), "a.json: x.y: is not a number"),
        (ConfigError("is not a number", key="x.y"), "x.y: is not a number"),
        (MissingVariable("set KEY", file="c.yaml", key="dify.api_key"), "c.yaml: dify.api_key: set KEY"),
        (
            MissingExtra("exact vector search", "vectors"),
            (
                "exact vector search needs an optional dependency. "
                "Install it with: pip install 'dify-context-engine[vectors]'"
            ),
        ),
        (SourceError("HTTP 503"), "HTTP 503"),
        (SourceError("HTTP 503", source_id="sops"), "source 'sops': HTTP 503"),
    ],
)
def test_messages(error, message):
    assert str(error) == message
    assert error.to_dict()["message"] == message


def test_a_source_error_carries_what_a_caller_needs_to_retry():
    error = SourceRateLimited("the quota is used up", source_id="dify", retryable=True, retry_after_s=60.0)
    assert error.to_dict() == {
        "code": "rate_limited",
        "message": "source 'dify': the quota is used up",
        "source_id": "dify",
        "retryable": True,
        "retry_after_s": 60.0,
    }


def test_a_source_learnt_late_is_named_too():
    error = SourceError("HTTP 503")
    error.source_id = "sops"
    assert str(error) == "source 'sops': HTTP 503"


def test_a_config_error_carries_file_and_key():
    assert ConfigError("bad", file="a.json", key="x").to_dict() == {
        "code": "config_error",
        "message": "a.json: x: bad",
        "file": "a.json",
        "key": "x",
    }


def test_a_failed_retrieval_carries_result_and_statuses():
    for kind in (AllSourcesFailed, EvidenceIncomplete):
        error = kind("nothing", result="the result", statuses=["one", "two"])
        assert (error.result, error.statuses) == ("the result", ("one", "two"))


@pytest.mark.parametrize(
    ("word", "valid", "expected"),
    [
        ("stage1_topk", ["stage1_top_k", "stage2_top_k"], " Did you mean 'stage1_top_k'?"),
        ("COSINE", ["cosine", "bm25"], " Did you mean 'cosine'?"),
        ("zzz", ["b", "a"], " Valid: a, b."),
        ("zzz", [], ""),
    ],
)
def test_nearest(word, valid, expected):
    assert nearest(word, valid) == expected


def test_an_error_survives_pickling() -> None:
    for error in (
        UnknownDomain("NPX", ["NPA"]),
        MissingExtra("vectors", "vectors"),
        SourceError("down", source_id="s"),
    ):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), copy.to_dict()) == (type(error), str(error), error.to_dict())


def test_a_source_whose_extra_is_not_installed_says_what_to_install():
    found = errors.source_error_from(MissingExtra("aws_region of a connection", "aws"), "notes")
    assert str(found).endswith("Install it with: pip install 'dify-context-engine[aws]'")
    assert found.source_id == "notes" and "debug log" not in str(found)


def test_a_problem_that_two_readers_find_counts_once() -> None:
    twice = [errors.ConfigError("unknown setting", file="a.json", key="k") for _ in range(2)]
    other = errors.ConfigError("unknown setting", file="b.json", key="k")
    assert [problem.file for problem in errors.ConfigError.together([*twice, other]).each] == ["a.json", "b.json"]
