from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest

from context_engine.errors import ConfigError
from context_engine.settings import find_config, find_data_dir
from context_engine.wiring.setup import load_setup

MANIFEST = "version: 1\ndomain: NPA\nsources: [{id: s, type: bank_sop}]\n"


def put(root: Path, *names: str, text: str = "{}") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_nothing_anywhere_is_built_in(tmp_path: Path) -> None:
    paths = find_config(env={}, cwd=tmp_path)
    assert (paths.origin, paths.config_dir, paths.manifest_dir) == ("built-in", None, None)
    assert paths.manifests() == () and paths.stages() == {} and paths.config_file("personas.json") is None


def test_each_place_wins_over_those_after_it(tmp_path: Path) -> None:
    for place in ("given", "variable", "cwd", "home/.config/context-engine"):
        put(tmp_path / place, "config/rag-pipeline.json")
    cwd, home = tmp_path / "cwd", {"HOME": str(tmp_path / "home")}
    named = {**home, "CONTEXT_ENGINE_CONFIG_DIR": str(tmp_path / "variable")}
    assert find_config(tmp_path / "given", env=named, cwd=cwd).config_dir == tmp_path / "given/config"
    assert find_config(env=named, cwd=cwd).config_dir == tmp_path / "variable/config"
    assert find_config(env=home, cwd=cwd).config_dir == tmp_path / "cwd/config"
    user = find_config(env=home, cwd=tmp_path / "given/config")
    assert (user.origin, user.config_dir) == ("user's folder", tmp_path / "home/.config/context-engine/config")


def test_places_are_not_mixed(tmp_path: Path) -> None:
    put(tmp_path / "cwd", "config/rag-pipeline.json")
    put(tmp_path / "home/.config/context-engine", "manifests/npa.yaml")
    paths = find_config(env={"HOME": str(tmp_path / "home")}, cwd=tmp_path / "cwd")
    assert paths.manifest_dir is None


@pytest.mark.parametrize(
    ("variable", "value"), [("XDG_CONFIG_HOME", "xdg"), ("APPDATA", "roaming"), ("USERPROFILE", None)]
)
def test_the_user_s_folder_on_each_system(tmp_path: Path, variable: str, value: str | None) -> None:
    base = tmp_path / (value or ".config")
    put(base / "context-engine", "rag-pipeline.json", "manifests/npa.yaml")
    paths = find_config(env={variable: str(base if value else tmp_path)}, cwd=tmp_path / "elsewhere")
    assert paths.config_dir == base / "context-engine"
    assert paths.manifest_dir == base / "context-engine/manifests"


def test_a_relative_xdg_folder_is_ignored(tmp_path: Path) -> None:
    put(tmp_path / "xdg/context-engine", "rag-pipeline.json")
    assert find_config(env={"XDG_CONFIG_HOME": "xdg"}, cwd=tmp_path).origin == "built-in"


def test_a_named_folder_may_be_a_root_or_hold_the_files_itself(tmp_path: Path) -> None:
    put(tmp_path, "root/config/personas.json", "root/manifests/a.yaml", "flat/personas.json", "flat/manifests/a.yaml")
    root = find_config("root", env={}, cwd=tmp_path)
    assert (root.config_dir, root.manifest_dir) == (tmp_path / "root/config", tmp_path / "root/manifests")
    flat = find_config("flat", env={}, cwd=tmp_path)
    assert (flat.config_dir, flat.manifest_dir) == (tmp_path / "flat", tmp_path / "flat/manifests")
    beside = find_config("root/config", env={}, cwd=tmp_path)
    assert (beside.config_dir, beside.manifest_dir) == (tmp_path / "root/config", tmp_path / "root/manifests")


@pytest.mark.parametrize("make", [False, True])
def test_a_named_folder_that_is_not_there_or_empty_is_refused(tmp_path: Path, make: bool) -> None:
    if make:
        (tmp_path / "conf").mkdir()
    with pytest.raises(ConfigError, match=r"context-engine init|is not a folder") as raised:
        find_config(env={"CONTEXT_ENGINE_CONFIG_DIR": "conf"}, cwd=tmp_path)
    assert raised.value.key == "CONTEXT_ENGINE_CONFIG_DIR" and "conf" in str(raised.value)


def test_folders_of_other_tools_in_the_current_directory_are_not_ours(tmp_path: Path) -> None:
    put(tmp_path, "config/webpack.json", "config/settings.yaml")
    put(tmp_path, "manifests/deployment.yaml", text="apiVersion: apps/v1\nspec:\n  domain: x\n")
    assert find_config(env={}, cwd=tmp_path).origin == "built-in"
    put(tmp_path, "manifests/npa.yml", text="domain: NPA\n  broken: [\n")
    assert find_config(env={}, cwd=tmp_path).manifest_dir == tmp_path / "manifests"


def test_a_manifest_with_a_misspelt_key_is_still_a_manifest(tmp_path: Path) -> None:
    """Else whoever has no other would be told that no domain is registered."""
    put(tmp_path, "manifests/npa.yml", text="domian: NPA\nsources: []\n")
    assert find_config(env={}, cwd=tmp_path).manifest_dir == tmp_path / "manifests"


def test_samples_are_never_loaded(tmp_path: Path) -> None:
    put(tmp_path, "manifests/npa.example.yaml", "manifests/stages/dev.example.yaml", text="domain: NPA\n")
    assert find_config(env={}, cwd=tmp_path).origin == "built-in"
    put(tmp_path, "manifests/b.yaml", "manifests/a.yaml", "manifests/stages/uat.yaml", text="domain: NPA\n")
    paths = find_config(env={}, cwd=tmp_path)
    assert [path.name for path in paths.manifests()] == ["a.yaml", "b.yaml"]
    assert list(paths.stages()) == ["uat"]


def test_a_file_is_called_by_its_place_below_the_current_directory(tmp_path: Path) -> None:
    put(tmp_path, "config/personas.json")
    paths = find_config(env={}, cwd=tmp_path)
    assert paths.label(tmp_path / "config/personas.json") == "config/personas.json"
    assert paths.label(Path("/etc/x/personas.json")) == str(Path("/etc/x/personas.json"))


def test_the_data_folder(tmp_path: Path) -> None:
    env = {"CONTEXT_ENGINE_DATA_DIR": "~/kb", "HOME": str(tmp_path)}
    assert find_data_dir("here", env=env, cwd=tmp_path) == tmp_path / "here"
    assert find_data_dir(env=env, cwd=tmp_path) == tmp_path / "kb"
    assert find_data_dir(env={"HOME": str(tmp_path)}, cwd=tmp_path) == tmp_path / ".local/share/context-engine"
    assert find_data_dir(env={"XDG_DATA_HOME": str(tmp_path)}, cwd=tmp_path) == tmp_path / "context-engine"
    with pytest.raises(ConfigError, match="CONTEXT_ENGINE_DATA_DIR"):
        find_data_dir(env={}, cwd=tmp_path)


def test_each_configuration_has_a_data_folder_of_its_own(tmp_path: Path) -> None:
    env = {"XDG_DATA_HOME": str(tmp_path)}
    found = []
    for name in ("a", "b"):
        put(tmp_path / name, "manifests/one.yaml")
        paths = find_config(name, env=env, cwd=tmp_path)
        found.append(find_data_dir(env=env, cwd=tmp_path, paths=paths))
        digest = hashlib.sha256(str((tmp_path / name / "manifests").resolve()).encode()).hexdigest()[:8]
        assert found[-1] == tmp_path / "context-engine" / f"{name}-{digest}"
        assert find_data_dir("here", env=env, cwd=tmp_path, paths=paths) == tmp_path / "here"
        named = {**env, "CONTEXT_ENGINE_DATA_DIR": "/kb"}
        assert find_data_dir(env=named, cwd=tmp_path, paths=paths) == Path("/kb")
    assert found[0] != found[1]


def test_the_same_manifests_have_the_same_data_folder_however_they_are_named(tmp_path: Path) -> None:
    env = {"XDG_DATA_HOME": str(tmp_path)}
    put(tmp_path / "a", "manifests/one.yaml")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = {
        find_data_dir(env=env, cwd=cwd, paths=find_config(name, env=env, cwd=cwd))
        for name, cwd in (("a", tmp_path), ("link", tmp_path), (".", tmp_path / "a"))
    }
    assert len(found) == 1


def problem_of(folder: Path, stage: str | None = None) -> str:
    """Return what is wrong with a configuration: with all of it, or with one manifest."""
    try:
        (problem,) = load_setup(env={}, cwd=folder, stage=stage).registry.problems
    except ConfigError as error:
        problem = error
    return str(problem)


@pytest.mark.parametrize("name", ["manifests/npa.yaml", "manifests/stages/uat.yaml", "config/connections.yaml"])
def test_a_folder_in_place_of_a_file_is_an_error_that_says_so(tmp_path: Path, name: str) -> None:
    put(tmp_path, "manifests/orm.yaml", text=MANIFEST)
    (tmp_path / name).mkdir(parents=True)
    assert problem_of(tmp_path, "uat" if "stages" in name else None) == (
        f"{name}: is a folder where a file is expected: rename it or move it away"
    )


def test_a_manifest_that_may_not_be_read_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "manifests/npa.yaml", text="domain: NPA\n")

    def refuse(self: Path, *_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_text", refuse)
    wanted = "manifests/npa.yaml: cannot be read (Permission denied): let the user who runs this read it"
    assert problem_of(tmp_path) == wanted


@pytest.mark.parametrize("method", ["lstat", "iterdir"])
def test_a_folder_that_may_not_be_looked_into_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    put(tmp_path, "config/rag-pipeline.json", "manifests/npa.yaml")

    def refuse(self: Path) -> object:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, method, refuse)
    with pytest.raises(ConfigError, match=r"cannot be read \(Permission denied\)"):
        find_config(env={}, cwd=tmp_path)


def test_hidden_files_are_never_loaded_and_a_link_to_nothing_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "manifests/npa.yaml", "manifests/.#npa.yaml", text=MANIFEST)
    assert [path.name for path in find_config(env={}, cwd=tmp_path).manifests()] == ["npa.yaml"]
    (tmp_path / "manifests/orm.yaml").symlink_to(tmp_path / "gone.yaml")
    assert "manifests/orm.yaml: cannot be read (No such file or directory)" in problem_of(tmp_path)
