"""A file as Dify hands it over, and how it is fetched."""

from __future__ import annotations

import logging
import socket
import traceback
from ipaddress import ip_address
from typing import Any

import pytest

from context_engine.apps.dify.file_documents import DifyFile, FileNotFetched
from context_engine.errors import InvalidRequest
from context_engine.ingest.loaders import MOST_BYTES

SIGNATURE = "kQ7-signature-zR2"


def given(**fields: Any) -> DifyFile:
    made = DifyFile.read({"file": {"url": f"http://api:5001/files/1?sign={SIGNATURE}", **fields}})
    assert made is not None
    return made


class TestReading:
    @pytest.mark.parametrize(
        ("fields", "name"),
        [
            ({"filename": "Limits 2026.DOCX"}, "Limits 2026.docx"),
            ({"filename": "limits", "extension": ".md"}, "limits.md"),
            ({"filename": "limits", "extension": "md"}, "limits.md"),
            ({"filename": "limits.v2", "mime_type": "application/pdf"}, "limits.v2.pdf"),
            ({"filename": None, "extension": ".csv"}, "file.csv"),
            ({"filename": "../../etc/limits.txt"}, "limits.txt"),
            ({"filename": "..\\limits.txt"}, "limits.txt"),
            ({"filename": "a\x1b[31m\u202e.md"}, "a\\x1b[31m\\xe2\\x80\\xae.md"),
            ({"filename": "photo.heic"}, "photo.heic"),
        ],
    )
    def test_its_name_says_what_it_is(self, fields: dict[str, Any], name: str) -> None:
        assert given(**fields).name == name

    @pytest.mark.parametrize("value", [None, "", []])
    def test_an_empty_field_is_no_file(self, value: Any) -> None:
        assert DifyFile.read({"file": value}) is None

    @pytest.mark.parametrize("value", ["limits.md", 5, {"name": "x"}, [{"url": "http://a"}, {"url": "http://b"}]])
    def test_anything_else_is_refused(self, value: Any) -> None:
        with pytest.raises(InvalidRequest, match=r"^file "):
            DifyFile.read({"file": value})

    def test_its_address_shows_nowhere(self) -> None:
        assert SIGNATURE not in repr(given())


class TestFetching:
    def test_the_bytes_are_fetched_and_removed(self, file_server: Any) -> None:
        made = given(**file_server.put("limits.md", b"# Limits\n" * 20_000))
        with made.fetched() as path:
            assert path.read_bytes() == b"# Limits\n" * 20_000
            assert (path.suffix, path.stat().st_mode & 0o077, path.parent.stat().st_mode & 0o077) == (".md", 0o44, 0)
        assert not path.exists() and not path.parent.exists()
        assert file_server.requests == [made.address.removeprefix(file_server.origin)]

    @pytest.mark.parametrize(
        ("status", "headers", "told"),
        [
            (403, {}, "access was refused .403.. The address is valid for FILES_ACCESS_TIMEOUT seconds"),
            (404, {}, "there is no such file .404.*INTERNAL_FILES_URL"),
            (302, {"Location": "http://169.254.169.254/"}, "a redirect .302., which is not followed.*FILES_URL"),
            (500, {}, "it answers with status 500"),
            (200, {"Content_Encoding": "gzip"}, "came compressed"),
            (200, {"Content_Length": "99"}, "the connection broke"),
        ],
    )
    def test_what_does_not_come_is_said_with_what_to_set(
        self, file_server: Any, status: int, headers: dict[str, str], told: str
    ) -> None:
        made = given(**file_server.put("limits.md", b"x", status=status, **headers))
        with pytest.raises(
            FileNotFetched, match=f"^limits.md could not be fetched from {file_server.origin}: .*{told}"
        ):
            made.fetched().__enter__()
        assert len(file_server.requests) == 1

    @pytest.mark.parametrize(
        "url", ["/files/1?sign=x", "", "ftp://api/x", "file:///etc/passwd", "http://", "http://[/"]
    )
    def test_an_address_that_is_not_whole_names_the_setting(self, url: str) -> None:
        with pytest.raises(
            FileNotFetched, match=r"incomplete address for limits.md.*INTERNAL_FILES_URL .or FILES_URL."
        ):
            given(filename="limits.md", url=url).fetched().__enter__()

    def test_a_server_that_is_not_there_names_the_setting(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with pytest.raises(FileNotFetched, match=r"could not be reached.*INTERNAL_FILES_URL"):
            given(filename="a.md", url=f"http://127.0.0.1:{port}/files/1?sign={SIGNATURE}").fetched().__enter__()

    def test_too_large_a_file_is_not_fetched(self, file_server: Any) -> None:
        with pytest.raises(FileNotFetched, match="at most 52,428,800 are read: split it"):
            given(filename="a.md", size=MOST_BYTES + 1).fetched().__enter__()
        said = file_server.put("a.md", b"x", Content_Length=str(MOST_BYTES + 1))
        with pytest.raises(FileNotFetched, match=r"a.md has 52,428,801 bytes, at most"):
            given(**{**said, "size": -1}).fetched().__enter__()

    def test_bytes_are_counted_while_they_come(self, file_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("context_engine.apps.dify.file_documents.MOST_BYTES", 100_000)
        said = file_server.put("a.md", b"x" * 200_000, Content_Length=None)
        with pytest.raises(FileNotFetched, match=r"a.md has more than 100,000 bytes, at most"):
            given(**{**said, "size": None}).fetched().__enter__()

    def test_the_whole_fetch_has_a_time(self, file_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("context_engine.apps.dify.file_documents._FETCH_S", 0.3)
        with pytest.raises(FileNotFetched, match="not all there in time"):
            given(**file_server.put("a.md", b"x" * 2_000_000, pause_s=0.05)).fetched().__enter__()

    def test_the_signature_shows_in_no_log_and_no_error(self, file_server: Any, caplog: Any) -> None:
        caplog.set_level(logging.DEBUG)
        with given(**file_server.put("a.md", b"x")).fetched():
            pass
        with pytest.raises(FileNotFetched) as raised:
            given(**file_server.put("a.md", b"x", status=403)).fetched().__enter__()
        assert len(file_server.requests) == 2 and all(SIGNATURE in one for one in file_server.requests)
        assert SIGNATURE not in caplog.text and "HTTP Request: GET" in caplog.text
        assert SIGNATURE not in "".join(traceback.format_exception(raised.value))
        assert raised.value.__context__ is None


class TestLinks:
    """An address that is none of Dify's is one that some user gave."""

    @pytest.fixture
    def own_address(self) -> str:
        """The machine's own address in its network."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))  # nothing is sent
                found = str(probe.getsockname()[0])
            except OSError:
                pytest.skip("this machine has no network")
        if found.startswith("127.") or ip_address(found).is_global:
            pytest.skip("this machine has no address inside of a network")
        return found

    def test_one_that_leads_inside_of_the_network_is_not_fetched(self, own_address: str) -> None:
        with socket.create_server((own_address, 0)) as server:
            server.settimeout(5)
            link = f"http://{own_address}:{server.getsockname()[1]}/secrets.txt?sign=x"
            with pytest.raises(FileNotFetched, match=r"inside of the network. .*upload the file to Dify instead"):
                given(filename="secrets.txt", url=link).fetched().__enter__()
            client, _ = server.accept()
            with client:
                assert client.recv(100) == b""  # not a byte was sent

    def test_dify_itself_may_stand_inside(self, own_address: str, file_server_at: Any) -> None:
        server = file_server_at(own_address)
        with given(**server.put("limits.md", b"# Limits")).fetched() as path:
            assert path.read_bytes() == b"# Limits"

    @pytest.mark.parametrize(
        ("path", "difys"),
        [
            ("/files/6ba7b810-9dad-41d1-80b4-00c04fd430c8/file-preview?timestamp=1&nonce=2&sign=3", True),
            ("/dify/files/tools/6ba7b810-9dad-41d1-80b4-00c04fd430c8.pdf?timestamp=1&nonce=2&sign=3", True),
            ("/files/6ba7b810-9dad-41d1-80b4-00c04fd430c8/file-preview", False),
            ("/latest/meta-data/role.txt?sign=3", False),
            ("/files/../latest?sign=3", False),
            ("/x?y=/files/6ba7b810-9dad-41d1-80b4-00c04fd430c8/file-preview&sign=3", False),
            ("/files/6ba7b810-9dad-41d1-80b4-00c04fd430c8/file-preview/more?sign=3", False),
        ],
    )
    def test_difys_own_are_known_by_path_and_signature(self, path: str, difys: bool) -> None:
        assert given(url=f"http://api:5001{path}").is_difys is difys
