"""Several indexes opened as one: whatever links a system allows, and gone without a trace."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import pytest
import tantivy
from tantivy import Query

from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.local import index as indexing
from context_engine.adapters.sources.local.index import union
from context_engine.adapters.sources.local.index_sync import PartitionIndex
from context_engine.errors import StoreCorrupt, StoreError


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Two indexes of three rows, one of them deleted, and of one row; links lie in a folder of their own."""
    (tmp_path / "links").mkdir()
    monkeypatch.setattr(indexing, "_IN_MEMORY", str(tmp_path / "links"))
    out = []
    for key, rids in ((1, (1, 2, 3)), (2, (4,))):
        out.append(tmp_path / str(key))
        index = PartitionIndex.create(out[-1], "base", 0)
        index.stage((), map(document, rids))
        index.commit(1)
        index.stage((20,) if key == 1 else (), ())
        index.commit(2)
        index.close()
    yield out
    assert list((tmp_path / "links").iterdir()) == []


def document(rid: int) -> tantivy.Document:
    out = tantivy.Document()
    out.add_unsigned("rid", rid)
    out.add_unsigned("doc", 10 * rid)
    out.add_text("body", "limit hotel" if rid % 2 else "limit")
    return out


def read(paths: list[Path]) -> tuple[int, list[int]]:
    searcher = union(paths, [indexing.read_meta(path) for path in paths])
    hits = searcher.search(Query.term_query(indexing.SCHEMA, "body", "limit", "freq"), limit=9).hits
    rids = searcher.fast_field_values("rid", [address for _, address in hits])
    return searcher.num_docs, sorted(int(rid or 0) for rid in rids)


def refused(*_: Any, **__: Any) -> None:
    raise OSError("not permitted")


def test_rows_of_all_but_the_deleted(paths: list[Path]) -> None:
    assert read(paths) == (3, [1, 3, 4])
    assert read(paths[1:]) == (1, [4])


@pytest.mark.parametrize("missing", [("symlink",), ("symlink", "link")])
def test_where_links_are_refused(paths: list[Path], missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in missing:
        monkeypatch.setattr(os, name, refused)
    assert read(paths) == (3, [1, 3, 4])


def test_a_file_that_has_gone_meanwhile(paths: list[Path]) -> None:
    metas = [indexing.read_meta(path) for path in paths]
    for file in paths[1].glob("*.idx"):
        file.unlink()
    with pytest.raises((OSError, ValueError)):
        union(paths, metas)


def test_no_place_for_links(base: LocalBase, fill: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    fill({"a": "limit"})
    monkeypatch.setattr(indexing, "mkdtemp", refused)
    with pytest.raises(StoreError, match=r"not permitted.*set TMPDIR"):
        base.search("limit", source_id="sop", top_k=1)


def test_no_room_for_links(base: LocalBase, fill: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no damage of the base."""
    fill({"a": "limit"})

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(StoreError, match=r"no space .*set TMPDIR") as raised:
        base.search("limit", source_id="sop", top_k=1)
    assert not isinstance(raised.value, StoreCorrupt)


def test_memory_without_room_is_not_taken(paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    made: list[str] = []
    monkeypatch.setattr(indexing, "gettempdir", lambda: str(tmp_path / "disk"))
    monkeypatch.setattr(indexing, "mkdtemp", lambda prefix, dir: made.append(dir) or mkdtemp(prefix=prefix, dir=dir))
    monkeypatch.setattr(indexing, "_ROOM_BYTES", float("inf"))
    assert read(paths)[0] == 3
    assert made == [str(tmp_path / "disk")]


def test_what_a_killed_process_left_is_removed(paths: list[Path], tmp_path: Path) -> None:
    left = [tmp_path / "links" / f"context-engine-links-{name}" for name in ("old", "fresh")]
    for folder in left:
        folder.mkdir()
        (folder / "meta.json").write_text("{}")
    os.utime(left[0], (0.0, 0.0))
    indexing._sweep.cache_clear()
    assert read(paths)[0] == 3
    assert [folder.exists() for folder in left] == [False, True]
    shutil.rmtree(left[1])


def test_a_lock_that_is_made_while_the_folder_goes(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine looks at what it has opened once more, at a moment of its own."""
    remove, late = shutil.rmtree, [True]

    def racing(folder: Path, **how: Any) -> None:
        if late and late.pop():
            (folder / "late.lock").write_text("")
            return
        remove(folder, **how)

    monkeypatch.setattr(shutil, "rmtree", racing)
    assert read(paths)[0] == 3


class TestMark:
    """What an index holds is said beside it, and becomes true with its commit."""

    def held(self, path: Path) -> indexing.Mark:
        return indexing.read_mark(path, indexing.read_meta(path))

    def test_it_counts_from_the_commit_on(self, paths: list[Path]) -> None:
        assert self.held(paths[0]) == ("base", 2)
        indexing.write_mark(paths[0], "base", 2, 7)
        assert self.held(paths[0]) == ("base", 2)
        index = PartitionIndex.open(paths[0], "base", 9)
        assert index is not None and index.held == 2
        index.stage((), [document(5)])
        index.commit(8)
        index.close()
        assert self.held(paths[0]) == ("base", 8)

    def test_a_generation_without_a_change_of_the_index(self, paths: list[Path]) -> None:
        """The engine gives a commit of nothing no number of its own."""
        index = PartitionIndex.open(paths[0], "base", 9)
        assert index is not None
        index.commit(9)
        assert self.held(paths[0]) == ("base", 9)

    @pytest.mark.parametrize("content", ["{", "[]", "{}", '{"base_id": "base", "opstamp": 0}'])
    def test_one_that_cannot_be_read(self, paths: list[Path], content: str) -> None:
        (paths[0] / "mark.json").write_text(content)
        with pytest.raises(ValueError, match=r"line 1|does not say"):
            self.held(paths[0])
        assert PartitionIndex.open(paths[0], "base", 9) is None

    def test_of_another_base_or_of_the_future(self, paths: list[Path]) -> None:
        assert PartitionIndex.open(paths[0], "other", 9) is None
        assert PartitionIndex.open(paths[0], "base", 1) is None


@pytest.mark.parametrize(("free", "has_room"), [(4_000_000, True), (3_999_999, False)])
def test_memory_is_taken_from_four_million_bytes_on(
    free: int, has_room: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    assert indexing._has_room(str(tmp_path)) is has_room
    monkeypatch.setattr("os.access", lambda *_: False)
    assert indexing._has_room(str(tmp_path)) is False


@pytest.mark.parametrize(("age", "kept"), [(60, True), (61, False)])
def test_folders_of_links_are_left_behind_after_a_minute(
    age: int, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = tmp_path / f"{indexing._PREFIX}x", tmp_path / "other"
    for made in (folder, other):
        made.mkdir()
        os.utime(made, (1000, 1000))
    monkeypatch.setattr("time.time", lambda: 1000.0 + age)
    indexing._sweep.__wrapped__(str(tmp_path))
    assert (folder.exists(), other.exists()) == (kept, True)


def test_a_folder_that_stays_is_removed_ten_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[bool] = []
    monkeypatch.setattr("shutil.rmtree", lambda _, ignore_errors: tries.append(ignore_errors))
    indexing._remove(tmp_path)
    assert tries == [True] * 10
    indexing._remove(tmp_path / "gone")
    assert len(tries) == 11


def test_a_union_is_as_new_as_the_newest_of_its_indexes(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[dict[str, Any]] = []
    real = indexing.opened

    def opened(folder: Path) -> Any:
        written.append(json.loads((folder / indexing.META).read_text("utf-8")))
        return real(folder)

    monkeypatch.setattr(indexing, "opened", opened)
    metas = [{**indexing.read_meta(path), "opstamp": stamp} for path, stamp in zip(paths, (7, 5))]
    union(paths[:2], metas)
    assert written[0]["opstamp"] == 7
    assert written[0]["segments"] == [segment for meta in metas for segment in meta["segments"]]


@pytest.mark.parametrize(
    ("content", "usable"),
    [
        ('{"segments": [], "opstamp": 0}', True),
        ('{"segments": [], "opstamp": 0, "payload": ""}', True),
        ('{"segments": []}', False),
        ('{"opstamp": 0}', False),
        ("[]", False),
    ],
)
def test_a_list_of_segments_has_two_keys_at_least(content: str, usable: bool, tmp_path: Path) -> None:
    (tmp_path / indexing.META).write_text(content)
    if usable:
        assert indexing.read_meta(tmp_path)["opstamp"] == 0
    else:
        with pytest.raises(ValueError, match="lists no segments"):
            indexing.read_meta(tmp_path)


@pytest.mark.parametrize(("opstamp", "generation"), [(4, 2), (5, 2), (6, 3)])
def test_a_mark_speaks_of_the_commit_to_come_once_the_index_is_newer(
    opstamp: int, generation: int, tmp_path: Path
) -> None:
    mark = {"base_id": "base", "opstamp": 5, "held": 2, "coming": 3}
    (tmp_path / indexing.MARK).write_text(json.dumps(mark))
    assert indexing.read_mark(tmp_path, {"opstamp": opstamp}) == ("base", generation)
