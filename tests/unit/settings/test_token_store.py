"""The tokens that a deployment gave out."""

from __future__ import annotations

import errno
import hmac
import os
import re
import sqlite3
import stat
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from context_engine.errors import ConfigError, InvalidRequest
from context_engine.settings.principals import id_in, new_token, token_hash
from context_engine.settings.token_store import StoredToken, TokenStore

NOW = datetime(2026, 11, 23, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "data")


def found(store: TokenStore, token: str) -> StoredToken | None:
    token_id = id_in(token.encode())
    return None if token_id is None else store.matching(token_id, token_hash(token))


def opens(store: TokenStore, token: str, now: datetime) -> bool:
    held = found(store, token)
    return held is not None and held.opens(now)


class TestANewToken:
    def test_its_form_tells_its_id_and_no_two_are_alike(self) -> None:
        made = [new_token() for _ in range(200)]
        assert all(re.fullmatch(rf"ce_{one.id}_[A-Za-z0-9_-]{{43}}", one.text) for one in made)  # 43 x 6 >= 256 bits
        assert len({one.id for one in made}) == len({one.text[14:] for one in made}) == 200
        assert [id_in(one.text.encode()) for one in made] == [one.id for one in made]

    @pytest.mark.parametrize("token", [b"", b"ce_", b"ce_0123456789_short", b"CE_0123456789_" + b"a" * 43])
    def test_another_form_has_no_id(self, token: bytes) -> None:
        assert id_in(token) is None


class TestTheStore:
    def test_without_a_file_nothing_is_known_and_none_is_made(self, store: TokenStore) -> None:
        assert store.all() == [] and store.matching("0123456789", "0" * 64) is None
        assert not store.path.exists()

    def test_a_token_that_is_revoked_stays_so_when_the_clock_goes_back(self, store: TokenStore) -> None:
        made = store.add("search", "api", now=NOW - 2 * HOUR)
        store.rotate(made.id, now=NOW - HOUR, expires=None, until=NOW + HOUR)
        assert opens(store, made.text, NOW)
        revoked = store.revoke(made.id, now=NOW)
        assert (revoked.revoked, opens(store, made.text, NOW - HOUR)) == (NOW, False)
        assert store.revoke(made.id, now=NOW + HOUR).revoked == NOW, "it is revoked already"

    def test_a_token_is_found_by_itself_alone(self, store: TokenStore) -> None:
        made, other = store.add("search", "api", now=NOW), store.add("dify", "gate", now=NOW, expires=NOW + HOUR)
        assert [(one.name, one.principal, one.expires) for one in store.all()] in (
            [("search", "api", None), ("dify", "gate", NOW + HOUR)],
            [("dify", "gate", NOW + HOUR), ("search", "api", None)],
        )
        assert found(store, made.text) is not None
        assert found(store, f"ce_{made.id}_{other.text[14:]}") is None
        assert store.matching(made.id, token_hash(other.text)) is None

    def test_the_file_holds_no_token(self, store: TokenStore) -> None:
        made = store.add("search", "api", now=NOW)
        store.close()
        everything = b"".join(path.read_bytes() for path in store.path.parent.iterdir())
        assert made.text[14:].encode() not in everything and token_hash(made.text).encode() in everything

    def test_it_opens_until_the_moment_it_expires(self, store: TokenStore) -> None:
        made = store.add("search", "api", now=NOW, expires=NOW + HOUR)
        assert opens(store, made.text, NOW + HOUR - timedelta(seconds=1))
        assert not opens(store, made.text, NOW + HOUR)
        with pytest.raises(InvalidRequest):
            store.add("late", "api", now=NOW, expires=NOW)

    def test_revoked_it_opens_nothing_in_any_process_and_keeps_its_name(self, store: TokenStore) -> None:
        made = store.add("search", "api", now=NOW)
        other = TokenStore(store.path.parent)  # as another process has it, and has read from it already
        assert opens(other, made.text, NOW)
        assert store.revoke(made.id, now=NOW).name == "search"
        assert store.revoke(made.id, now=NOW + HOUR).revoked == NOW
        assert not opens(other, made.text, NOW)
        with pytest.raises(InvalidRequest):
            store.revoke("0123456789", now=NOW)

    def test_rotated_the_old_one_opens_as_long_as_it_is_kept(self, store: TokenStore) -> None:
        old = store.add("search", "gate", now=NOW)
        new = store.rotate(old.id, now=NOW, expires=None, until=NOW + HOUR)
        held = found(store, new.text)
        assert held is not None and (held.name, held.principal) == ("search", "gate")
        assert [opens(store, old.text, NOW + passed) for passed in (timedelta(), HOUR)] == [True, False]
        store.revoke(old.id, now=NOW)
        assert not opens(store, old.text, NOW)
        with pytest.raises(InvalidRequest):
            store.rotate(old.id, now=NOW, expires=None, until=NOW)

    def test_a_use_is_noted_once_a_minute(self, store: TokenStore) -> None:
        made = store.add("search", "api", now=NOW)
        for passed in (0, 59, 60, 61):
            store.note_used(made.id, NOW + timedelta(seconds=passed))
        assert store.all()[0].used == NOW + timedelta(seconds=60)

    def test_hashes_are_compared_in_constant_time(self, store: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
        made, compared = store.add("search", "api", now=NOW), list[tuple[str, str]]()

        def compare(one: str, other: str) -> bool:
            compared.append((one, other))
            return one == other

        monkeypatch.setattr(hmac, "compare_digest", compare)
        found(store, made.text)
        store.matching("0123456789", "f" * 64)  # an id that is not there takes a comparison too
        assert compared == [(token_hash(made.text),) * 2, ("0" * 64, "f" * 64)]


@pytest.mark.skipif(os.name != "posix", reason="permissions")
class TestTheFile:
    def test_it_is_its_owners_alone_whatever_the_umask(self, store: TokenStore) -> None:
        before = os.umask(0)
        try:
            store.add("search", "api", now=NOW)
            store.all()
        finally:
            os.umask(before)
        files = [stat.S_IMODE(path.stat().st_mode) for path in store.path.parent.iterdir()]
        assert set(files) == {0o600} and stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
    def test_one_that_others_may_use_is_refused(self, store: TokenStore, mode: int) -> None:
        store.add("search", "api", now=NOW)
        store.path.chmod(mode)
        for work in (TokenStore(store.path.parent).all, lambda: store.add("other", "api", now=NOW)):
            with pytest.raises(ConfigError) as refused:
                work()
            assert refused.value.file == str(store.path)

    def test_a_file_that_came_in_its_place_counts(self, store: TokenStore, tmp_path: Path) -> None:
        made = store.add("search", "api", now=NOW)
        other = TokenStore(tmp_path / "other")
        new = other.add("search", "api", now=NOW)
        other.close()
        assert opens(store, made.text, NOW)
        other.path.replace(store.path)
        assert (opens(store, made.text, NOW), opens(store, new.text, NOW)) == (False, True)
        store.path.unlink()
        assert not opens(store, new.text, NOW)

    def test_what_is_no_store_is_named(self, store: TokenStore) -> None:
        store.path.parent.mkdir()
        store.path.touch(0o600)
        assert store.all() == []  # just being made
        store.path.write_bytes(b"no database" * 1000)
        for work in (store.all, lambda: store.add("search", "api", now=NOW)):
            with pytest.raises(ConfigError) as refused:
                work()
            assert refused.value.file == str(store.path)

    def test_a_newer_version_is_not_touched(self, store: TokenStore) -> None:
        store.add("search", "api", now=NOW)
        with closing(sqlite3.connect(store.path)) as connection:
            connection.execute("PRAGMA user_version = 2")
        with pytest.raises(ConfigError):
            TokenStore(store.path.parent).all()


def test_threads_share_one_store(store: TokenStore) -> None:
    made: list[str] = []

    def work(number: int) -> None:
        for _ in range(5):
            token = store.add(f"t{number}", "api", now=NOW)
            assert opens(store, token.text, NOW)
            made.append(token.text)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(store.all()) == len(made) == 20 and all(opens(store, one, NOW) for one in made)


@pytest.mark.wording
def test_a_full_disk_is_told_apart_from_a_missing_right(store: TokenStore) -> None:
    mends = {errno.ENOSPC: "make room on the disk", errno.EROFS: "let the user who runs this write"}
    for number, mend in mends.items():
        with pytest.raises(ConfigError, match=mend), store._file.problems_named():
            raise OSError(number, "refused")
