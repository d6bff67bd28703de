"""Entry bundles."""

from __future__ import annotations

import pytest

from context_engine.audit.formats.bundle import pack_entries, unpack_entries


def test_each_entry_stands_behind_its_length() -> None:
    assert pack_entries([b"one", b"", b"three"]) == b"\x00\x03one\x00\x00\x00\x05three"
    assert unpack_entries(b"\x00\x03one\x00\x00\x00\x05three") == [b"one", b"", b"three"]
    assert unpack_entries(b"") == []


def test_an_entry_has_at_most_65535_bytes() -> None:
    assert unpack_entries(pack_entries([b"x" * 65_535])) == [b"x" * 65_535]
    with pytest.raises(OverflowError):
        pack_entries([b"x" * 65_536])


@pytest.mark.parametrize("bundle", [b"\x00", b"\x00\x01", b"\x00\x03on", b"\x00\x00\x00"])
def test_a_bundle_that_was_cut_is_refused(bundle: bytes) -> None:
    with pytest.raises(ValueError, match="in the middle"):
        unpack_entries(bundle)
