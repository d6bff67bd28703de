"""The folder of tiles holds what a monitor needs: a checkpoint, the tree, the entries; it grows with the log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from context_engine.audit.formats.checkpoint import parse_checkpoint, parse_note, verify_note
from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.formats.tiles import TileTree, bundle_path, tile_path, tile_width, unpack_entries
from context_engine.audit.ledger.erase import Wanted, erase
from context_engine.audit.ledger.export import export_tiles
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.prune import Retention, prune
from context_engine.audit.values import Addendum
from context_engine.errors import AuditError
from context_engine.testing.fakes import FixedClock

Draws = Callable[..., Any]


def filled(ledger: Ledger, draft: Draws, count: int, first: int = 0) -> Ledger:
    drafts = [
        draft(f"s-{index}", time="2020-01-01T00:00:00Z", addenda=(Addendum.of("question", b"Q %d" % index),))
        for index in range(first, first + count)
    ]
    ledger.append(drafts)
    return ledger


def read_log(folder: Path, first: int = 0) -> list[bytes]:
    """Read the log as a monitor does, from the files alone; check it, and return the entries from a bundle on."""
    new = parse_checkpoint((folder / "checkpoint").read_text("utf-8"))

    def tile(level: int, index: int, width: int) -> bytes:
        return (folder / tile_path(level, index, tile_width(level, index, new.size))).read_bytes()[: 32 * width]

    tree = TileTree(tile, new.size)
    assert tree.root() == new.root
    bundles = range(first // 256, -(-new.size // 256))
    entries = [
        entry
        for index in bundles
        for entry in unpack_entries((folder / bundle_path(index, tile_width(0, index, new.size))).read_bytes())
    ]
    assert [leaf_hash(entry) for entry in entries] == [tree.leaf(index) for index in range(first, new.size)]
    return entries


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("size", [1, 255, 256, 257])
def test_a_monitor_reads_the_log_from_the_files_alone(ledger: Ledger, draft: Draws, tmp_path: Path, size: int) -> None:
    told = export_tiles(filled(ledger, draft, size), tmp_path / "log")
    assert told.size == size and len(read_log(tmp_path / "log")) == size
    note = parse_note((tmp_path / "log/checkpoint").read_text("utf-8"))
    assert ledger.keyring is not None and verify_note(note, ledger.keyring.verifiers)


def test_an_export_goes_on_where_the_last_one_ended(ledger: Ledger, draft: Draws, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    export_tiles(filled(ledger, draft, 300), folder)
    assert "tile/0/001.p/44" in files(folder)
    again = export_tiles(ledger, folder)
    assert (again.written, again.kept) == (1, 5)  # the checkpoint; tiles 0/0, 0/1, 1/0 and two bundles
    grown = export_tiles(filled(ledger, draft, 212, 300), folder)
    assert (grown.written, grown.kept) == (4, 2)  # tiles 0/1 and 1/0, bundle 1, checkpoint; tile 0/0, bundle 0
    assert len(read_log(folder)) == 512
    assert not any(name.startswith(("tile/0/001.p", "tile/entries/001.p")) for name in files(folder))


def test_the_folder_of_another_log_is_left_alone(
    ledger: Ledger, open_at: Callable[..., Ledger], draft: Draws, tmp_path: Path
) -> None:
    export_tiles(filled(ledger, draft, 3), tmp_path / "log")
    before = (tmp_path / "log/checkpoint").read_bytes()
    other = open_at(tmp_path / "other.db")
    with pytest.raises(AuditError, match="not the beginning of this ledger"):
        export_tiles(filled(other, draft, 9, 100), tmp_path / "log")
    assert (tmp_path / "log/checkpoint").read_bytes() == before
    (tmp_path / "log/checkpoint").write_text("no checkpoint")
    with pytest.raises(AuditError, match="is not a checkpoint"):
        export_tiles(ledger, tmp_path / "log")


def test_addenda_are_there_when_asked_for_and_go_when_they_are_erased(
    ledger: Ledger, draft: Draws, tmp_path: Path
) -> None:
    folder = tmp_path / "log"
    export_tiles(filled(ledger, draft, 3), folder)
    assert not any(name.startswith("addenda/") for name in files(folder))
    export_tiles(ledger, folder, with_texts=True)
    held = [name for name in files(folder) if name.startswith("addenda/")]
    assert len(held) == 3
    for name in held:
        assert (folder / name).stat().st_mode & 0o077 == 0
        data = (folder / name).read_bytes()
        assert hashlib.sha256(data).hexdigest() == Path(name).name and Path(name).name.startswith(Path(name).parts[1])
    erase(ledger, Wanted(record_ids=("s-1",)), reason="asked for", by="me", clock=FixedClock())
    told = export_tiles(ledger, folder)  # also without asking for texts again
    assert told.removed == 1 and b"Q 1" not in b"".join((folder / name).read_bytes() for name in files(folder))


@pytest.mark.slow
def test_entries_that_were_pruned_go_from_the_folder(
    open_ledger: Callable[..., Ledger], draft: Draws, tmp_path: Path
) -> None:
    folder, ledger = tmp_path / "log", open_ledger(None)
    export_tiles(filled(ledger, draft, 300), folder, with_texts=True)
    prune(ledger, Retention(365, {}), clock=FixedClock())
    told = export_tiles(ledger, folder)
    assert told.removed == 1 + 256 and "tile/entries/000" not in files(folder)
    assert len(read_log(folder, 256)) == ledger.size - 256
    fresh = tmp_path / "fresh"
    export_tiles(ledger, fresh)
    assert len(read_log(fresh, 256)) == ledger.size - 256


def test_whoever_only_reads_exports_up_to_the_checkpoint_that_is_stored(
    open_ledger: Callable[..., Ledger], draft: Draws, tmp_path: Path
) -> None:
    keyring = Keyring(SigningKey("audit.bank.example/retrieval", bytes(32)))
    ledger = open_ledger(keyring)
    key = keyring.current.verifier.text
    ledger.append([draft("key-1", kind="key", was=None, now=key, endorsed=None)])
    filled(ledger, draft, 5).checkpoint()
    filled(ledger, draft, 5, 10)
    told = export_tiles(open_ledger(None), tmp_path / "log")
    assert told.size == 6 and len(read_log(tmp_path / "log")) == 6


def test_a_folder_that_cannot_be_written_is_named(ledger: Ledger, draft: Draws, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(AuditError, match="cannot be written"):
        export_tiles(filled(ledger, draft, 1), tmp_path / "file" / "log")
