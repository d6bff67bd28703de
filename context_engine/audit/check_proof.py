"""Check a proof about an audit log, trusting only the keys that you name.

    python check_proof.py RECORD.tlog-proof --key VKEY [--witness VKEY ...]         a record is in the log
    python check_proof.py LOG.tlog-consistency --since OLD-CHECKPOINT --key VKEY    the log only grew since then
    python check_proof.py BINDER/MANIFEST --key VKEY                                a binder of cases is as it was made

Needs Python 3.9 and the package `cryptography`, nothing else. Exit code 0: proved, and what; 1: not, and why (without
--key nothing is); 2: usage.
Formats: c2sp.org/tlog-proof, tlog-witness, tlog-checkpoint, tlog-cosignature, signed-note; RFC 6962, section 2.1.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import sys
import time
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

BINDER = "context-engine audit sample"


def expect(good: bool, otherwise: str) -> None:
    if not good:
        raise ValueError(otherwise)


def number(text: str) -> int:
    expect(text.isascii() and text.isdigit() and str(int(text)) == text, f"{text[:60]!r} is not a number")
    return int(text)


def binary(text: str) -> bytes:
    data = base64.b64decode(text, validate=True)
    expect(base64.b64encode(data).decode() == text, f"{text[:60]!r} is not base64")
    return data


def hash_of(text: str) -> bytes:
    expect(len(binary(text)) == 32, f"{text[:60]!r} is not a hash")
    return binary(text)


def parse_key(text: str) -> tuple[str, str, int, bytes]:
    try:
        name, key_id, material = text.split("+", 2)
        data = binary(material)
        made = hashlib.sha256(name.encode() + b"\n" + data).digest()[:4].hex()
        expect(len(data) == 33 and data[0] in (1, 4) and made == key_id, "not an Ed25519 key")
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:120]!r} is not a verifier key, or was truncated") from None
    return name, key_id, data[0], data[1:]


def parse_checkpoint(note: str) -> tuple[str, int, bytes]:
    lines = note.partition("\n\n")[0].split("\n")
    expect(note.endswith("\n") and len(lines) > 2 and "" not in lines[:3], "the checkpoint is incomplete")
    return lines[0], number(lines[1]), hash_of(lines[2])


def signer(note: str, key: tuple[str, str, int, bytes], what: str) -> str:
    """Return a sentence on the signature of a note by a key; `what` names the note."""
    (name, key_id, kind, public), (text, _, lines) = key, note.partition("\n\n")
    parts = [line.split(" ") for line in lines.split("\n")[:-1]]
    expect(all(len(part) == 3 and part[0] == "—" for part in parts), "a signature line is malformed")
    made = [binary(part[2]) for part in parts if part[1] == name]
    own = [data[4:] for data in made if data[:4].hex() == key_id]
    expect(len(own) == 1, f"the {what} has {len(own)} signatures by {name}+{key_id} instead of 1")
    signature, message, seconds = own[0], f"{text}\n", int.from_bytes(own[0][:8], "big")
    if kind == 4:  # a witness signs the time as well
        signature, message = signature[8:], f"cosignature/v1\ntime {seconds}\n{message}"
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message.encode())
    except InvalidSignature:
        raise ValueError(f"the signature by {name} does not fit the {what}") from None
    when = time.strftime(" at %Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if kind == 4 else ""
    return f"The {what} was signed by {name}+{key_id}{when}."


def walk(last: int, size: int, above: int) -> tuple[int, list[bool]]:
    """Return the start of the largest subtree of at most `above` leaves that ends with leaf `last`, and for each
    sibling from there up to the root whether it is on the left.
    """
    start, end, left = 0, size, list[bool]()
    while end - start > 1 and (end - start > above or end != last + 1):
        middle = start + (1 << (end - start - 1).bit_length() - 1)
        left.insert(0, last >= middle)
        start, end = (middle, end) if last >= middle else (start, middle)
    return start, left


def climb(digest: bytes, left: list[bool], path: list[bytes], beginning: bool = False) -> bytes:
    """Return the root that a path leads to; `beginning`: of the old tree, which has no siblings on the right."""
    expect(len(left) == len(path), "the proof is too short or too long")
    for is_left, sibling in zip(left, path):
        if is_left or not beginning:
            digest = hashlib.sha256(b"\x01" + (sibling + digest if is_left else digest + sibling)).digest()
    return digest


def check_entry(head: list[str], note: str) -> str:
    origin, size, root = parse_checkpoint(note)
    form = len(head) > 2 and head[0] == "c2sp.org/tlog-proof@v1" and head[1][:6] == "extra " and head[2][:6] == "index "
    expect(form, "this is not a proof of a record")
    entry, index = binary(head[1][6:]), number(head[2][6:])
    expect(index < size, "the log has no such index")
    path = [hash_of(line) for line in head[3:]]
    made = climb(hashlib.sha256(b"\x00" + entry).digest(), walk(index, size, 1)[1], path)
    expect(made == root, f"the record is not at index {index} of {origin}")
    return f"{entry.decode()}\nThis record is at index {index} of the log {origin}, which had {size} entries."


def check_growth(head: list[str], note: str, older: str) -> str:
    (origin, size, root), (name, old, was) = parse_checkpoint(note), parse_checkpoint(older)
    expect(origin == name and head[0] == f"old {old}" and old <= size, "the proof is not about these two checkpoints")
    path = [hash_of(line) for line in head[1:]]
    if old == 0:
        good = not path and was == hashlib.sha256(b"").digest()
    else:
        start, left = walk(old - 1, size, old)
        first = path.pop(0) if start and path else was  # from the left border the old root itself
        good = climb(first, left, path, beginning=True) == was and climb(first, left, path) == root
    expect(good, f"the log does not begin with the {old} entries that it had")
    return f"The log {origin} has {size} entries and begins with the {old} that it had at the older checkpoint."


def check_files(listed: list[str], folder: Path) -> str:
    there = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
    there.pop("MANIFEST", None)
    for line in listed:
        digest, _, name = line.partition("  ")
        expect(name in there, f"{name} is missing")
        expect(hashlib.sha256(there.pop(name).read_bytes()).hexdigest() == digest, f"{name} has changed")
    expect(not there, f"{', '.join(sorted(there))} does not belong to the binder")
    return f"The {len(listed)} files are those that the manifest lists, and no other is here."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("proof", type=Path)
    parser.add_argument("--key", type=parse_key, metavar="VKEY", help="verifier key of the log, from one you trust")
    parser.add_argument(
        "--witness", type=parse_key, action="append", default=[], metavar="VKEY", help="must have cosigned"
    )
    parser.add_argument("--since", type=Path, metavar="FILE", help="older checkpoint, as you kept it")
    options = parser.parse_args()
    try:
        text, older = (path.read_bytes().decode() if path else "" for path in (options.proof, options.since))
        head, _, note = text.partition("\n\n")
        lines = head.split("\n")
        if lines[0] == BINDER:
            listed = head.rstrip("\n").split("\n")[1:]
            lines_out, note, what = [check_files(listed, options.proof.parent)], text, "manifest"
        else:
            expect(
                bool(older) or lines[0][:4] != "old ", "this is a proof of growth: give the older checkpoint (--since)"
            )
            lines_out, what = [check_growth(lines, note, older) if older else check_entry(lines, note)], "checkpoint"
        lines_out += [signer(note, key, what) for key in (options.key, *options.witness) if key]
    except OSError as error:
        parser.error(str(error))
    except ValueError as error:
        lines_out, good = [f"NOT PROVED: {error}."], False
    else:
        good = options.key is not None
        if not good:
            lines_out.append("NOT PROVED: who says so. Without --key anybody can have made this file.")
    shown = "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in "\n".join(lines_out))
    sys.stdout.buffer.write(f"{shown}\n".encode())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
