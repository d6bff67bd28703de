from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest

from context_engine import __version__, demo
from context_engine.adapters.sources.writer_lock import WriterLock
from context_engine.core.models import Registry
from context_engine.errors import ConfigError, StoreLocked

NO_DOMAIN = Registry()


def test_the_folder_names_the_version_and_the_content(tmp_path: Path) -> None:
    assert demo.data_dir(tmp_path) == tmp_path / f"demo-{__version__}-{demo.fingerprint()}"
    assert len(demo.fingerprint()) == 12


@pytest.mark.parametrize("change", ["document", "new file", "manifest", "analyser", "chunking", "ingest"])
def test_another_content_has_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    before = demo.fingerprint()
    shutil.copytree(demo.BANK, tmp_path / "bank")
    shutil.copytree(demo.MANIFESTS, tmp_path / "manifests")
    for name, place in (("BANK", "bank"), ("MANIFESTS", "manifests")):
        monkeypatch.setattr(demo, name, tmp_path / place)
    cutting = []
    for folder, pattern in demo._CUTTING:
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
        cutting.append((tmp_path / folder.name, pattern))
    monkeypatch.setattr(demo, "_CUTTING", tuple(cutting))
    assert demo.fingerprint.__wrapped__() == before
    if change == "document":
        file = next((tmp_path / "bank").rglob("*.md"))
        file.write_text(file.read_text("utf-8") + " ", "utf-8")
    elif change == "new file":
        (tmp_path / "bank/new.md").write_text("")
    elif change == "manifest":
        (tmp_path / "manifests/npa.yaml").write_text("version: 1\n")
    elif change in ("chunking", "ingest"):
        (tmp_path / change / "__init__.py").write_text("CUT = 'otherwise'\n")
    else:
        monkeypatch.setattr(demo, "ANALYSER_VERSION", "another")
    assert demo.fingerprint.__wrapped__() != before


def test_what_another_process_builds_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = demo.data_dir(tmp_path)
    place.mkdir()
    monkeypatch.setattr(demo, "_build", lambda *_: pytest.fail("it was built twice"))
    other = WriterLock(place)

    def finish() -> None:
        time.sleep(0.15)
        (place / "ready.json").write_text("{}")
        other.release()

    thread = threading.Thread(target=finish)
    thread.start()
    assert demo.ensure_base(tmp_path, NO_DOMAIN) == place
    thread.join()


def test_who_never_finishes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.data_dir(tmp_path).mkdir()
    monkeypatch.setattr(demo, "_PATIENCE_S", 0.0)
    with WriterLock(demo.data_dir(tmp_path)), pytest.raises(StoreLocked, match="being written to by process"):
        demo.ensure_base(tmp_path, NO_DOMAIN)


def test_a_build_that_breaks_off_leaves_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("context_engine.ingest.run.ingest", broken)
    with pytest.raises(KeyboardInterrupt):
        demo.ensure_base(tmp_path, NO_DOMAIN)
    assert not (demo.data_dir(tmp_path) / "ready.json").exists()
    monkeypatch.undo()
    assert (demo.ensure_base(tmp_path, NO_DOMAIN) / "ready.json").is_file()


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--data-dir or CONTEXT_ENGINE_DATA_DIR"):
        demo.ensure_base(tmp_path / "file", NO_DOMAIN)
