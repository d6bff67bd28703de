from __future__ import annotations

import pytest

from context_engine.core.models import Classification, Principal, principal_from_dict
from context_engine.errors import InvalidRequest


def test_a_principal_of_a_program():
    given = {"id": "dora", "roles": ["desk", "desk"], "groups": "singapore", "clearance": "CONFIDENTIAL"}
    assert principal_from_dict(given) == Principal(
        id="dora",
        roles=frozenset({"desk"}),
        groups=frozenset({"singapore"}),
        clearance=Classification.CONFIDENTIAL,
    )


def test_a_principal_takes_lists_and_names_and_is_known_again():
    made = Principal(roles=["desk", "desk"], groups={"a"}, clearance="CONFIDENTIAL")
    assert made == Principal(roles=frozenset({"desk"}), groups=("a",), clearance=Classification.CONFIDENTIAL)
    assert len({made, Principal(roles=("desk",), groups=["a"], clearance="confidential")}) == 1
    for wrong in ({"roles": "desk"}, {"groups": [1]}, {"clearance": "top"}, {"id": None}):
        with pytest.raises(InvalidRequest):
            Principal(**wrong)


def test_who_is_named_without_a_clearance_is_cleared_for_what_is_internal():
    assert principal_from_dict({"roles": ("desk",)}).clearance is Classification.INTERNAL
    assert principal_from_dict({}) == Principal(clearance=Classification.INTERNAL)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"role": ["desk"]}, r"no 'role'\. Did you mean 'roles'\?"),
        ({"id": 7}, "id of a principal must be text, got int"),
        ({"roles": 7}, "roles of a principal must be a list of names, got 7"),
        ({"roles": {"desk": True}}, "roles of a principal must be a list of names"),
        ({"groups": ["a", None]}, "groups of a principal must be a list of names"),
        ({"groups": [""]}, "groups of a principal must be a list of names"),
        ({"clearance": "SECRET"}, "one of public, internal, confidential, restricted, got 'SECRET'"),
        ({"clearance": None}, "clearance must be one of"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(given, problem):
    with pytest.raises(InvalidRequest, match=problem):
        principal_from_dict(given)


def test_a_name_alone_is_no_principal() -> None:
    with pytest.raises(InvalidRequest, match=r"a Principal or a dict such as \{'id': 'jo'\}, got str"):
        principal_from_dict("dora")  # type: ignore[arg-type]
