"""The archive of a backup: complete, unchanged, or refused with what and where."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.adapters.sources.writer_lock import WriterLock
from context_engine.errors import BackupError, StoreLocked
from context_engine.service.backup.archive import (
    FORMAT,
    MANIFEST,
    ArchiveContents,
    ArchiveMember,
    LeftOutPart,
    opened_archive,
    staging,
    write_archive,
)

FILES = {"base/base.sqlite3": bytes(range(256)) * 3, "config/rag-pipeline.json": b"{}", "manifests/empty.yaml": b""}
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
Progress = list[tuple[int, int, str]]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return written(tmp_path)


def written(folder: Path, progress: Callable[[int, int, str], None] = lambda *_: None) -> Path:
    """Write an archive of `FILES`."""
    files = []
    for name, content in FILES.items():
        file = folder / "files" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        files.append((name, file))
    path = folder / "archive.zip"
    contents = ArchiveContents(files, None, None, [LeftOutPart(name="keys", reason="secret")])
    write_archive(path, contents, program="0.1.0", made_at=NOON, progress=progress)
    return path


def read(path: Path, target: Path) -> dict[str, bytes]:
    """Extract all files and return their contents."""
    with opened_archive(path) as opened:
        opened.check(lambda *_: None)
        opened.extract(opened.manifest.members, target, lambda *_: None, private=True)
    return {str(file.relative_to(target)): file.read_bytes() for file in target.rglob("*") if file.is_file()}


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """Write the same archive with other members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_what_was_written_is_read(archive: Path, tmp_path: Path) -> None:
    assert read(archive, tmp_path / "to") == FILES
    assert archive.stat().st_mode & 0o777 == (tmp_path / "to/base/base.sqlite3").stat().st_mode & 0o777 == 0o600
    with opened_archive(archive) as opened:
        manifest = opened.manifest
    assert (manifest.format, manifest.program, manifest.made_at) == (1, "0.1.0", NOON)
    assert manifest.members[0] == ArchiveMember(
        name="base/base.sqlite3", size=768, sha256=hashlib.sha256(bytes(range(256)) * 3).hexdigest()
    )
    assert [member.name for member in manifest.below("config")] == ["config/rag-pipeline.json"]
    assert manifest.left_out == (LeftOutPart(name="keys", reason="secret"),)


def test_progress_counts_megabytes_of_all_files(tmp_path: Path) -> None:
    steps: Progress = []
    written(tmp_path, lambda *step: steps.append(step))
    assert steps == [(0, 0, "base/base.sqlite3"), (0, 0, "config/rag-pipeline.json")]


def test_an_archive_is_never_overwritten(archive: Path) -> None:
    with pytest.raises(FileExistsError):
        written(archive.parent)


def test_a_changed_file_is_named_with_both_digests(archive: Path, tmp_path: Path) -> None:
    rewritten(archive, lambda members: members.update({"config/rag-pipeline.json": b"[]"}))
    with pytest.raises(
        BackupError, match=rf"config/rag-pipeline.json has 2 bytes.*{hashlib.sha256(b'[]').hexdigest()}"
    ):
        read(archive, tmp_path / "to")


def test_a_longer_file_is_not_read_to_its_end(archive: Path, tmp_path: Path) -> None:
    rewritten(archive, lambda members: members.update({"config/rag-pipeline.json": b" " * 5_000_000}))
    with pytest.raises(BackupError, match=r"config/rag-pipeline\.json has 1048576 bytes or more"):
        read(archive, tmp_path / "to")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda members: members.pop("manifests/empty.yaml"), "manifests/empty.yaml"),
        (lambda members: members.update({"base/extra": b""}), "base/extra"),
        (lambda members: members.pop(MANIFEST), "is no backup"),
        (lambda members: members.update({MANIFEST: b"{}"}), "cannot be read"),
    ],
)
def test_a_missing_or_additional_file_is_named(
    archive: Path, change: Callable[[dict[str, bytes]], None], named: str
) -> None:
    rewritten(archive, change)
    with pytest.raises(BackupError, match=named), opened_archive(archive):
        pass


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "C:evil", "a\\evil", ""])
def test_no_name_leads_out_of_the_target(archive: Path, name: str) -> None:
    def change(members: dict[str, bytes]) -> None:
        manifest = json.loads(members[MANIFEST])
        manifest["members"][1]["name"] = name
        members[MANIFEST] = json.dumps(manifest).encode()

    rewritten(archive, change)
    with pytest.raises(BackupError, match=MANIFEST), opened_archive(archive):
        pass


def test_a_newer_format_is_refused_by_name(archive: Path) -> None:
    def change(members: dict[str, bytes]) -> None:
        members[MANIFEST] = json.dumps({**json.loads(members[MANIFEST]), "format": FORMAT + 1}).encode()

    rewritten(archive, change)
    with pytest.raises(BackupError, match=r"has format 2, this program reads 1"), opened_archive(archive):
        pass


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(cut=st.floats(0, 1, exclude_max=True))
def test_a_torn_archive_is_refused(archive: Path, cut: float) -> None:
    whole = archive.read_bytes()
    torn = archive.with_name("torn.zip")
    torn.write_bytes(whole[: int(len(whole) * cut)])
    with pytest.raises(BackupError, match=r"torn\.zip"), opened_archive(torn):
        pass


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_an_altered_bit_is_refused_or_changes_no_file(
    archive: Path, tmp_path_factory: pytest.TempPathFactory, place: float, bit: int
) -> None:
    data = bytearray(archive.read_bytes())
    data[int(len(data) * place)] ^= 1 << bit
    altered = archive.with_name("altered.zip")
    altered.write_bytes(data)
    try:
        files = read(altered, tmp_path_factory.mktemp("to"))
    except BackupError as error:
        assert "altered.zip" in str(error)
    else:
        assert files == FILES


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_altered_compression_is_refused(archive: Path, tmp_path: Path, method: int) -> None:
    data = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as zipped:
        directory = zipped.start_dir
    data[directory + 10] = method  # of the first file, in the list of files
    archive.write_bytes(data)
    with pytest.raises(BackupError, match="cannot be read"):
        read(archive, tmp_path / "to")


@pytest.mark.slow
def test_every_altered_byte_is_refused_or_changes_no_file(archive: Path, tmp_path: Path) -> None:
    whole = archive.read_bytes()
    for place in range(len(whole)):
        for mask in (0x01, 0x80, 0xFF):
            altered = archive.with_name("altered.zip")
            altered.write_bytes(whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
            try:
                files = read(altered, tmp_path / f"to-{place}-{mask}")
            except BackupError:
                continue
            assert files == FILES


def test_a_staging_folder_is_for_one_process_and_starts_empty(tmp_path: Path) -> None:
    folder = tmp_path / "staging"
    (folder / "left/behind").mkdir(parents=True)
    (folder / "by-a-killed-process").write_text("half")
    with staging(folder) as empty:
        assert [path.name for path in empty.iterdir()] == ["writer.lock"]
        with pytest.raises(StoreLocked), staging(folder):
            pass
        (empty / "file").write_text("text")
    assert not folder.exists()
    folder.mkdir()
    with WriterLock(folder), pytest.raises(StoreLocked), staging(folder):
        pass
