"""What is refused before a PDF is opened."""

import random
import zlib

import pytest

from context_engine.ingest.loaders import pdf_file as pdf_guard
from context_engine.ingest.loaders.pdf_file import is_bomb

HEAD = b"<< /Filter /FlateDecode >>\nstream\n"


def packed(size):
    """`size` zero bytes, packed."""
    pack = zlib.compressobj(9)
    return b"".join(pack.compress(bytes(1 << 20)) for _ in range(size >> 20)) + pack.flush()


def test_a_stream_above_the_limit_is_a_bomb(monkeypatch):
    monkeypatch.setattr(pdf_guard, "_MOST", 8 << 20)
    assert not is_bomb(HEAD + packed(8 << 20) + b"\nendstream")
    assert is_bomb(HEAD + packed(9 << 20) + b"\nendstream")
    assert is_bomb(HEAD + packed(9 << 20))  # its end is missing
    assert is_bomb(b"stream\n" + HEAD + packed(9 << 20))  # what seems to begin before it does not hide it


def test_pictures_that_are_large_are_none():
    noise = zlib.compress(random.Random(7).randbytes(1 << 20))
    assert not is_bomb((HEAD + noise + b"\nendstream\n") * 8)


def test_streams_that_begin_in_one_another_over_and_over_are():
    nothing_yet = b"\x78\x01" + b"\x00\xff\xff\x00\x00" + random.Random(7).randbytes(65_535)  # a block as it is
    assert is_bomb((HEAD + nothing_yet) * 40)
    assert is_bomb(HEAD * 200_000)


@pytest.mark.slow
def test_the_word_stream_alone_is_no_bomb():
    assert not is_bomb(b"stream\n" * 200_000)
