"""The token of the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.errors import ConfigError
from context_engine.secrecy import hide
from context_engine.settings.environment_secrets import read_api_token

GOOD = "Harbour-token, in any form: ß 1!"


def read(value: str, folder: Path = Path()) -> str | None:
    return read_api_token({"CONTEXT_ENGINE_API_TOKEN": value}, folder)


def test_white_space_around_it_is_cut() -> None:
    assert len(GOOD) == 32
    assert read(f" \n{GOOD}\t ") == GOOD


def test_it_shows_in_no_output() -> None:
    read(GOOD)
    assert GOOD not in hide(f"got {GOOD}")


def test_it_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{GOOD}\n", "utf-8")
    assert read("${file:token}", tmp_path) == GOOD


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_one_is_none(value: str) -> None:
    assert read(value) is None
    assert read_api_token({}, Path()) is None


@pytest.mark.parametrize("value", ["x", "y" * 31, f"  {'z' * 31}  "])
def test_one_of_fewer_than_32_characters_is_refused_and_not_shown(value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(value)
    assert refused.value.key == "CONTEXT_ENGINE_API_TOKEN"
    assert str(len(value.strip())) in str(refused.value) and "yyyy" not in str(refused.value)
