"""The addendum `candidates` of a record, and the chunks that a record mentions."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from context_engine.audit.record.exact import Unreadable, json_bytes, read_json
from context_engine.audit.record.packed import packed_candidates, unpacked_candidates
from context_engine.audit.record.parts import PARTS_VERSION
from context_engine.audit.values import Addendum

CANDIDATES: Final = "candidates"
_LENGTH: Final = struct.Struct(">I")
_LEVEL: Final = 4
"""zlib level. On the demo bank level 1 takes 4 % more bytes, level 6 takes 2 % fewer and 0.1 ms more per record."""

_MOST_BYTES: Final = 256 * 2**20  # decompressed, against decompression bombs
_HASH_BYTES: Final = 32
_UNKNOWN: Final = bytes(_HASH_BYTES)  # stands for a text without a hash
_SHA256: Final = "content_sha256"
_FATES: Final = '{"fates":'
_VERSION: Final = f',"v":{PARTS_VERSION},'  # follows the fates
_DECODER: Final = json.JSONDecoder()
_COUNT: Final = b'"contents":'
"""The last key of the JSON. Quotes within texts are escaped, so nothing else looks like it."""


def candidates_addendum(candidates: Mapping[str, Any], digests: Sequence[bytes]) -> Addendum:
    """Return the addendum.

    Args:
        candidates: refers to contents by number.
        digests: digests of the contents by number, 32 bytes each.
    """
    fates = candidates["fates"]
    rest = {name: column for name, column in fates.items() if name != _SHA256}
    packed = packed_candidates(candidates)
    others = {name: value for name, value in packed.items() if name not in ("fates", "v")}
    packed_json = json_bytes({"fates": rest, "v": candidates["v"], **others, "contents": len(digests)})
    data = zlib.compress(packed_json, _LEVEL)
    texts = (_UNKNOWN if sha256 is None else bytes.fromhex(sha256) for sha256 in fates.get(_SHA256, ()))
    return Addendum.of(CANDIDATES, b"".join((_LENGTH.pack(len(data)), data, *digests, *texts)))


def read_candidates(data: bytes) -> dict[str, Any]:
    """Return the candidates, with the digests of the `contents` in hex.

    Raises:
        Unreadable: this version does not write such data.
    """
    return unpacked_candidates(_read(data))


def _read(data: bytes) -> dict[str, Any]:
    reading = zlib.decompressobj()
    try:
        (length,) = _LENGTH.unpack_from(data)
        read = read_json(reading.decompress(data[_LENGTH.size : _LENGTH.size + length], _MOST_BYTES))
    except (struct.error, zlib.error) as error:
        raise Unreadable(f"it cannot be decompressed: {error}") from None
    if read.get("v") != PARTS_VERSION:
        raise Unreadable(f"its version is {read.get('v')!r}; this version of the package reads {PARTS_VERSION}")
    try:
        count, fates = read["contents"], read["fates"]
        hashes = list(_hashes(data, _LENGTH.size + length))
        if len(hashes) != count + len(fates.get("outcome", ())):
            raise Unreadable("its number of hashes is wrong")
    except (KeyError, TypeError, AttributeError):
        raise Unreadable("it lacks contents or fates") from None
    read["contents"] = [digest.hex() for digest in hashes[:count]]
    if fates:
        fates[_SHA256] = [None if digest == _UNKNOWN else digest.hex() for digest in hashes[count:]]
    return read


def read_fates(data: bytes) -> tuple[dict[str, list[Any]], list[bytes | None]]:
    """Return the fates of the candidates, as columns, and the SHA-256 of their texts, without reading the rest.

    Look-up rows are derived from this part of a record, so it is read most often.

    Raises:
        Unreadable: this version does not write such data.
    """
    try:
        (length,) = _LENGTH.unpack_from(data)
        text = zlib.decompressobj().decompress(data[_LENGTH.size : _LENGTH.size + length], _MOST_BYTES).decode()
        fates, end = _DECODER.raw_decode(text, len(_FATES))
        count = len(fates.get("outcome", ()))
    except (struct.error, zlib.error, ValueError, RecursionError, TypeError, AttributeError) as error:
        raise Unreadable(f"its fates cannot be read: {error}") from None
    if not (text.startswith(_FATES) and text.startswith(_VERSION, end)):
        raise Unreadable("it is of another version")
    hashes = list(_hashes(data, len(data) - count * _HASH_BYTES))
    if len(data) < _LENGTH.size + length + count * _HASH_BYTES:
        raise Unreadable("its number of hashes is wrong")
    return fates, [None if digest == _UNKNOWN else digest for digest in hashes]


def content_digests(data: bytes) -> list[bytes]:
    """Return the digests of the contents without parsing the JSON, because verification does so for every record.

    Raises:
        Unreadable: this version does not write such data.
    """
    try:
        (length,) = _LENGTH.unpack_from(data)
        text = zlib.decompressobj().decompress(data[_LENGTH.size : _LENGTH.size + length], _MOST_BYTES)
        count = int(text[text.rindex(_COUNT) + len(_COUNT) :].removesuffix(b"}"))
    except (struct.error, zlib.error, ValueError) as error:
        raise Unreadable(f"its number of contents cannot be read: {error}") from None
    digests = list(_hashes(data, _LENGTH.size + length))[:count]
    if not 0 <= count == len(digests) or any(len(digest) != _HASH_BYTES for digest in digests):
        raise Unreadable("its number of digests is wrong")
    return digests


def _hashes(data: bytes, start: int) -> Iterator[bytes]:
    return (data[place : place + _HASH_BYTES] for place in range(start, len(data), _HASH_BYTES))


_NAMING: Final = ("search", "rank", "fetch")
_COLUMNS: Final = ("source_id", "chunk_id", "document_id", "document_version", "outcome")
_RETURNED: Final = "returned"
Mention = tuple[Any, Any, Any, Any, bytes | None, Any]
"""A candidate: source, chunk, document, version, SHA-256 of its text (32 bytes), fate (returned, merged or dropped).

Texts or None; a damaged record may hold anything. A plain tuple, because a record has about a hundred.
"""


def mentions_of(entry: bytes | Mapping[str, Any], candidates: bytes | None) -> tuple[Mention, ...]:
    """Return the chunks that a record mentions, in candidate order; none unless it is a search, rank or fetch.

    If the candidates are missing or unreadable (say, of a newer version), the chunks listed in the entry are returned:
    one unreadable record must not keep the log from growing.

    Args:
        entry: stored bytes, or parsed.
        candidates: data of the addendum; None: only the returned chunks listed in the entry are known.
    """
    try:
        read = read_json(entry) if isinstance(entry, bytes) else entry
        if read.get("kind") not in _NAMING:
            return ()
    except Unreadable:
        return ()
    mentions = None if candidates is None else _candidates(candidates)
    return _listed(read) if mentions is None else mentions


def _candidates(data: bytes) -> tuple[Mention, ...] | None:
    try:
        fates, texts = read_fates(data)
        *columns, outcomes = [fates[name] for name in _COLUMNS] if fates else [[]] * len(_COLUMNS)
        return tuple(zip(*columns, texts, outcomes, strict=True))
    except (Unreadable, KeyError, TypeError, ValueError):
        return None


def _listed(entry: Mapping[str, Any]) -> tuple[Mention, ...]:
    chunks = entry.get("chunks")
    listed = [chunk for chunk in chunks if isinstance(chunk, Mapping)] if isinstance(chunks, list) else []
    named = (
        (
            chunk.get("source"),
            chunk.get("chunk"),
            chunk.get("document"),
            chunk.get("version"),
            _sha256(chunk.get("sha256")),
        )
        for chunk in listed
    )
    return tuple((*identity, _RETURNED) for identity in named if identity[0] and identity[1])


def _sha256(value: object) -> bytes | None:
    try:
        return bytes.fromhex(value) if isinstance(value, str) else None
    except ValueError:
        return None
