"""The access matrix in a terminal of any width."""

from __future__ import annotations

import pytest

from context_engine.apps.cli.access.check import print_matrix
from context_engine.core.models import Classification, DomainSpec, Principal
from context_engine.core.policy.access import ManifestPolicy
from context_engine.core.policy.access_review import access_matrix

INTERNAL = Classification.INTERNAL

PEOPLE = [Principal(id=f"desk-{number}", roles=frozenset({"staff"}), clearance=INTERNAL) for number in range(10, 50)]

DOMAIN = DomainSpec.model_validate(
    {
        "version": 1,
        "domain": "NPA",
        "sources": [
            {"id": "sops", "type": "bank_sop", "access": {"roles": ["staff"]}},
            {"id": "board", "type": "bank_sop", "access": {"roles": ["board"]}},
        ],
    }
)


@pytest.mark.parametrize(("width", "tables"), [(40, 41), (62, 10 + 1), (400, 1)])
def test_every_column_stands_in_full(
    width: int, tables: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Domain, source and classification take 8 + 8 + 10 cells, 'anyone' 8, each of 40 principals 9."""
    monkeypatch.setenv("COLUMNS", str(width))
    policy = ManifestPolicy({"NPA": DOMAIN})
    print_matrix(access_matrix([DOMAIN], policy, holders=(), principals=PEOPLE))
    said = capsys.readouterr().out
    assert {person.id for person in PEOPLE} <= set(said.split())
    assert said.count("domain") == said.count("sops") == said.count("board") == tables
    assert (said.count("✓"), said.count("✗")) == (40, 40)
