"""What the library is asked to load, with a library in its place: weights as safetensors, no code, no network."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from context_engine.adapters.model_access.local_models import load_torch_model
from context_engine.adapters.rerankers.cross_encoder import CrossEncoderOptions
from context_engine.errors import EmbedderError, MissingExtra


class Bars:
    """The switch of the library's progress bars, and whether they were shown at each load."""

    def __init__(self) -> None:
        self.shown = True
        self.at_loads: list[bool] = []

    def is_progress_bar_enabled(self) -> bool:
        return self.shown

    def disable_progress_bar(self) -> None:
        self.shown = False

    def enable_progress_bar(self) -> None:
        self.shown = True


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> Bars:
    found, utils = Bars(), ModuleType("transformers.utils")
    vars(utils)["logging"] = found
    monkeypatch.setitem(sys.modules, "transformers", ModuleType("transformers"))
    monkeypatch.setitem(sys.modules, "transformers.utils", utils)
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, bars: Bars) -> list[Any]:
    """A library that keeps what it is asked for and has only the model "owner/known"."""
    calls: list[Any] = []

    def make(name: str, **options: Any) -> str:
        calls.append((name, options))
        bars.at_loads.append(bars.shown)
        if name == "owner/unknown":
            raise OSError("not here")
        return "model"

    library, torch = ModuleType("sentence_transformers"), ModuleType("torch")
    vars(library)["CrossEncoder"] = make
    vars(torch)["set_num_threads"] = lambda count: calls.append(count)
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return calls


def load(chosen: CrossEncoderOptions) -> Any:
    return load_torch_model("CrossEncoder", chosen, purpose="a test", error=EmbedderError, max_length=9)


def test_a_name_of_the_hub_is_not_fetched_unless_that_is_asked_for(asked: list[Any]) -> None:
    assert load(CrossEncoderOptions(model="owner/known", revision="r1", device="cpu", threads=2)) == "model"
    load(CrossEncoderOptions(model="owner/known", download=True))
    threads, (name, options), (_, fetched) = asked
    assert (threads, name) == (2, "owner/known")
    assert options == {
        "device": "cpu",
        "revision": "r1",
        "local_files_only": True,
        "trust_remote_code": False,
        "model_kwargs": {"use_safetensors": True},
        "max_length": 9,
    }
    assert fetched["local_files_only"] is False


def test_a_folder_is_never_fetched(asked: list[Any], tmp_path: Path) -> None:
    load(CrossEncoderOptions(model=str(tmp_path), download=True))
    [(name, options)] = asked
    assert (name, options["local_files_only"]) == (str(tmp_path), True)


def test_a_model_that_is_not_here_is_told_with_how_to_get_it(asked: list[Any]) -> None:
    with pytest.raises(EmbedderError, match="hf download owner/unknown --local-dir"):
        load(CrossEncoderOptions(model="owner/unknown"))


def test_no_bar_is_shown_for_what_is_on_the_disk_and_bars_are_as_they_were(asked: list[Any], bars: Bars) -> None:
    load(CrossEncoderOptions(model="owner/known"))
    assert (bars.at_loads, bars.shown) == ([False], True)
    with pytest.raises(EmbedderError):
        load(CrossEncoderOptions(model="owner/unknown"))
    assert bars.shown
    bars.shown = False
    load(CrossEncoderOptions(model="owner/known"))
    assert not bars.shown


def test_a_download_shows_its_bars(asked: list[Any], bars: Bars) -> None:
    load(CrossEncoderOptions(model="owner/known", download=True))
    assert bars.at_loads == [True]


def test_without_the_library_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dify-context-engine\[embed\]'"):
        load(CrossEncoderOptions())
