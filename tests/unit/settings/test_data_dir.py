"""A configuration finds its data again when its folder is moved, and never takes those of another."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import ConfigError
from context_engine.settings import ConfigPaths, find_config, find_data_dir
from context_engine.settings.data_dir import adopt_data_dir, claim_data_dir, orphaned_data_dirs

DOMAINS = ("NPA", "ORM")


class Place:
    """A place for configurations, and a home for their data."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = {"XDG_DATA_HOME": str(root / "data")}

    def make(self, name: str) -> None:
        (self.root / name / "manifests").mkdir(parents=True)
        (self.root / name / "manifests/npa.yaml").write_text("domain: NPA\n")

    def paths(self, name: str) -> ConfigPaths:
        return find_config(self.root / name, env={}, cwd=self.root)

    def find(self, name: str) -> Path:
        return find_data_dir(env=self.env, cwd=self.root, paths=self.paths(name))

    def ingest(self, name: str) -> Path:
        """Write data as an ingest does: claim the folder, and fill it."""
        folder = self.find(name)
        claim_data_dir(folder, self.paths(name), DOMAINS, env=self.env)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "base").write_text(f"data of {name}")
        return folder

    def orphaned(self, name: str, domains: tuple[str, ...] = DOMAINS) -> list[Path]:
        found = orphaned_data_dirs(self.find(name), self.paths(name), domains, env=self.env)
        return [one.path for one in found]

    def move(self, old: str, new: str) -> None:
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).rename(self.root / new)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.make("bank")
    return made


@pytest.mark.parametrize("new", ["bank2", "deep/below/bank", "bank.old"])
def test_a_moved_configuration_finds_its_data_again(place: Place, new: str) -> None:
    folder = place.ingest("bank")
    place.move("bank", new)
    assert place.find(new) == folder
    assert place.ingest(new) == folder, "the next ingest goes on where the last one ended"
    assert json.loads((folder / "configuration.json").read_text())["manifest_dir"] == str(
        place.root / new / "manifests"
    )


def test_it_is_found_however_often_it_is_moved_and_when_it_comes_back(place: Place) -> None:
    folder = place.ingest("bank")
    for old, new in (("bank", "b"), ("b", "c"), ("c", "bank")):
        place.move(old, new)
        assert place.find(new) == folder


def test_a_folder_above_may_be_renamed_too(place: Place) -> None:
    place.make("group/desk")
    folder = place.ingest("group/desk")
    place.move("group", "division")
    assert place.find("division/desk") == folder


def test_a_copy_never_shares_the_data_of_its_original(place: Place) -> None:
    folder = place.ingest("bank")
    shutil.copytree(place.root / "bank", place.root / "copy")
    assert place.find("copy") != folder
    assert place.ingest("copy") != folder
    assert place.find("bank") == folder
    place.move("copy", "copy2")
    assert place.find("copy2") != folder, "each of the two goes on with its own"


def test_a_copy_whose_original_is_deleted_was_moved(place: Place) -> None:
    """So a move between two disks ends."""
    folder = place.ingest("bank")
    shutil.copytree(place.root / "bank", place.root / "copy")
    shutil.rmtree(place.root / "bank")
    assert place.find("copy") == folder


def test_a_copy_of_what_was_moved_does_not_share_its_data_either(place: Place) -> None:
    folder = place.ingest("bank")
    place.move("bank", "moved")
    assert place.find("moved") == folder
    shutil.copytree(place.root / "moved", place.root / "copy")
    assert place.find("copy") != folder
    assert place.find("moved") == folder


def test_a_new_configuration_in_the_old_place_has_data_of_its_own(place: Place) -> None:
    folder = place.ingest("bank")
    place.move("bank", "moved")
    assert place.find("moved") == folder
    place.make("bank")
    fresh = place.ingest("bank")
    assert fresh != folder
    assert (place.find("bank"), place.find("moved")) == (fresh, folder)


def test_a_configuration_that_is_deleted_and_made_anew_elsewhere_is_another_one(place: Place) -> None:
    folder = place.ingest("bank")
    shutil.rmtree(place.root / "bank")
    place.make("other")
    assert place.find("other") != folder


def test_a_checkout_that_is_made_anew_in_its_place_keeps_its_data(place: Place) -> None:
    folder = place.ingest("bank")
    before = (place.root / "bank/manifests/.context-engine-id").read_text()
    shutil.rmtree(place.root / "bank")
    place.make("bank")
    assert place.ingest("bank") == folder
    assert (place.root / "bank/manifests/.context-engine-id").read_text() == before


def test_data_of_an_earlier_release_are_found_by_the_place_and_then_by_the_id(place: Place) -> None:
    folder = place.find("bank")
    folder.mkdir(parents=True)
    assert place.find("bank") == folder
    assert place.ingest("bank") == folder
    place.move("bank", "moved")
    assert place.find("moved") == folder


def test_a_folder_that_somebody_named_is_neither_marked_nor_looked_for(place: Place) -> None:
    for env in ({"CONTEXT_ENGINE_DATA_DIR": str(place.root / "kb")}, place.env):
        claim_data_dir(place.root / "kb", place.paths("bank"), DOMAINS, env=env)
    assert not (place.root / "kb").exists()
    assert not (place.root / "bank/manifests/.context-engine-id").exists()


@pytest.fixture
def read_only(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place where nothing can be written into the manifests, as in a container."""
    write = Path.write_text

    def refuse(self: Path, *args: object) -> int:
        if self.name == ".context-engine-id":
            raise PermissionError(13, "Permission denied", str(self))
        return write(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "write_text", refuse)
    return place


def test_where_no_id_can_be_written_the_data_left_behind_are_named_and_can_be_adopted(read_only: Place) -> None:
    folder = read_only.ingest("bank")
    read_only.move("bank", "moved")
    assert read_only.find("moved") != folder
    assert read_only.orphaned("moved") == [folder]
    assert read_only.orphaned("moved", ("DCE",)) == [], "they are of other domains"
    assert adopt_data_dir(folder.name, read_only.paths("moved"), DOMAINS, env=read_only.env) == folder
    assert read_only.find("moved") == folder
    assert read_only.orphaned("moved") == []


def test_data_whose_configuration_is_there_are_never_offered(read_only: Place) -> None:
    folder = read_only.ingest("bank")
    read_only.make("other")
    assert read_only.orphaned("other") == []
    with pytest.raises(ConfigError, match="belongs to the configuration in"):
        adopt_data_dir(folder.name, read_only.paths("other"), DOMAINS, env=read_only.env)


def test_who_has_data_is_offered_none_and_adopts_none(read_only: Place) -> None:
    folder = read_only.ingest("bank")
    read_only.move("bank", "moved")
    read_only.ingest("moved")
    assert read_only.orphaned("moved") == []
    with pytest.raises(ConfigError, match="has data of its own"):
        adopt_data_dir(folder.name, read_only.paths("moved"), DOMAINS, env=read_only.env)


@pytest.mark.parametrize("name", ["nowhere", "..", "../bank", "/etc", ""])
def test_only_a_folder_below_the_user_s_data_can_be_adopted(place: Place, name: str) -> None:
    place.ingest("bank")
    with pytest.raises(ConfigError, match="is no folder in"):
        adopt_data_dir(name, place.paths("bank"), DOMAINS, env=place.env)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": 1}', '{"id": null, "manifest_dir": 5, "domains": []}'])
def test_a_note_that_cannot_be_read_is_none(place: Place, text: str) -> None:
    folder = place.ingest("bank")
    (folder / "configuration.json").write_text(text)
    assert place.find("bank") == folder, "it goes by its name again"


@pytest.mark.parametrize("named", [True, False])
def test_a_data_folder_that_may_not_be_entered_is_named_and_no_empty_one(
    place: Place, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat, closed = Path.stat, place.root / "data"

    def refused(self: Path, **options: Any) -> os.stat_result:
        if closed in self.parents:
            raise PermissionError(13, "Permission denied")
        return stat(self, **options)

    monkeypatch.setattr(Path, "stat", refused)  # root may enter every folder
    with pytest.raises(
        ConfigError, match=r"data folder .*data.* cannot be reached \(Permission denied\): let the user"
    ):
        find_data_dir(closed if named else None, env=place.env, cwd=place.root)
