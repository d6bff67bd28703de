"""Write a message as Outlook saves it (`.msg`): a compound file of properties."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

SECTOR, SMALL, CUTOFF = 512, 64, 4096
FREE, END, FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
TEXT, BYTES = 0x001F, 0x0102
Tree = Mapping[str, "bytes | Tree"]


def outlook_message(
    texts: Mapping[int, str] | None = None,
    *,
    data: Mapping[int, bytes] | None = None,
    numbers: Mapping[int, int] | None = None,
    times: Mapping[int, int] | None = None,
    recipients: Sequence[Tree] = (),
    attachments: Sequence[Tree] = (),
    head: int = 32,
    narrow: str | None = None,
) -> Tree:
    """Return the parts of a message by their property tags; `compound_file` makes them a file.

    Args:
        times: in units of 100 ns since 1601.
        head: bytes before the properties: 32, 24 for a message inside another, 8 for a recipient or an attachment.
        narrow: the encoding of the texts; None: UTF-16.
    """
    tree: dict[str, Any] = {}
    rows = []
    for tag, text in (texts or {}).items():
        kind = TEXT if narrow is None else 0x001E
        tree[f"__substg1.0_{tag:04X}{kind:04X}"] = text.encode(narrow or "utf-16-le")
        rows.append(struct.pack("<HHIQ", kind, tag, 6, 0))
    for tag, value in (data or {}).items():
        tree[f"__substg1.0_{tag:04X}{BYTES:04X}"] = value
        rows.append(struct.pack("<HHIQ", BYTES, tag, 6, len(value)))
    rows += [struct.pack("<HHIi4x", 3, tag, 6, number) for tag, number in (numbers or {}).items()]
    rows += [struct.pack("<HHIQ", 0x40, tag, 6, time) for tag, time in (times or {}).items()]
    tree["__properties_version1.0"] = bytes(head) + b"".join(rows)
    tree |= {f"__recip_version1.0_#{number:08X}": part for number, part in enumerate(recipients)}
    tree |= {f"__attach_version1.0_#{number:08X}": part for number, part in enumerate(attachments)}
    return tree


def compound_file(tree: Tree) -> bytes:
    """Return a compound file (MS-CFB, version 3) with these storages and streams."""
    entries: list[dict[str, Any]] = []
    _add("Root Entry", tree, entries)
    small, small_chain = bytearray(), list[int]()
    large: list[tuple[dict[str, Any], bytes]] = []
    for entry in entries:
        content = entry.get("content")
        if content is None or len(content) >= CUTOFF:
            large += [(entry, content)] if content is not None else []
            continue
        entry["start"] = len(small) // SMALL if content else END
        small += content + bytes(-len(content) % SMALL)
        small_chain += _chain(entry["start"], len(content), SMALL) if content else []
    entries[0]["content"] = bytes(small)
    listed = b"".join(struct.pack("<I", number) for number in small_chain)
    sectors = [(None, listed), (entries[0], bytes(small)), *large]
    counts = [-(-len(content) // SECTOR) for _, content in sectors]
    folder = -(-len(entries) // 4)
    tables = next(size for size in range(1, 100) if size * 128 >= size + folder + sum(counts))
    chain = [FAT] * tables + _chain(tables, folder * SECTOR, SECTOR)
    starts = []
    for (entry, content), count in zip(sectors, counts, strict=True):
        starts.append(len(chain) if count else END)
        if entry is not None:
            entry["start"] = starts[-1]
        chain += _chain(len(chain), len(content), SECTOR)
    chain += [FREE] * (tables * 128 - len(chain))
    head = struct.pack("<8s16xHHHHH6xIIIIIIIII", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0x3E, 3, 0xFFFE, 9, 6, 0, tables,
                       tables, 0, CUTOFF, starts[0], counts[0], END, 0)  # fmt: skip
    head += b"".join(struct.pack("<I", number) for number in range(tables)).ljust(436, b"\xff")
    body = b"".join(struct.pack("<I", number) for number in chain)
    body += b"".join(map(_entry, entries)).ljust(folder * SECTOR, b"\x00")
    return head + body + b"".join(content + bytes(-len(content) % SECTOR) for _, content in sectors)


def _add(name: str, tree: bytes | Tree, entries: list[dict[str, Any]]) -> int:
    number = len(entries)
    entry: dict[str, Any] = {"name": name, "kind": 5 if number == 0 else 1, "child": FREE, "next": FREE, "start": 0}
    entries.append(entry)
    if isinstance(tree, bytes):
        entry |= {"kind": 2, "content": tree}
        return number
    before = None
    for inner, part in tree.items():
        place = _add(inner, part, entries)
        (entry if before is None else entries[before])["child" if before is None else "next"] = place
        before = place
    return number


def _chain(start: int, size: int, unit: int) -> list[int]:
    count = -(-size // unit)
    return [*range(start + 1, start + count), END] if count else []


def _entry(entry: Mapping[str, Any]) -> bytes:
    name = entry["name"].encode("utf-16-le")
    size = len(entry.get("content") or b"")
    links = (FREE, entry["next"], entry["child"])
    return struct.pack("<64sHBBIII36xII4x", name, len(name) + 2, entry["kind"], 1, *links, entry["start"], size)
