"""Run under Python 3.12 with `aics-tlog`: an implementation of the formats by others checks ours, and makes its own.

python tlog_peer.py check FOLDER    reads what we made and says in JSON what it found
python tlog_peer.py make FOLDER     writes a log of its own, to be checked by us
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import aics_tlog as tlog
from aics_tlog.note import b64_decode
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ENTRIES = [f'{{"peer":{number}}}'.encode() for number in range(700)]


def passes(text: bytes, key: tlog.VKey, witness: tlog.VKey) -> bool:
    """Whether a file proves its record: the splitting into lines is ours, all else the library's."""
    try:
        head, note_bytes = text.split(b"\n\n", 1)
        form, extra, at, *path = head.decode().split("\n")
        if form != "c2sp.org/tlog-proof@v1" or not extra.startswith("extra ") or not at.startswith("index "):
            return False
        index = int(at[6:])
        note = tlog.parse_note(note_bytes)
        checkpoint = tlog.parse_checkpoint(note.text)
        verified = tlog.verify_checkpoint(note, key, [witness], 1)
        entry, hashes = b64_decode(extra[6:]), [b64_decode(line) for line in path]
    except ValueError:
        return False
    spelt = str(index) == at[6:]
    return verified.ok and spelt and tlog.verify_leaf_inclusion(entry, index, checkpoint.size, hashes, checkpoint.root)


def changed(text: bytes, place: int) -> bytes:
    """Return a text with one bit of one byte turned over."""
    place %= len(text)
    return text[:place] + bytes([text[place] ^ 1 << place % 8]) + text[place + 1 :]


def check(folder: Path) -> dict[str, object]:
    about = json.loads((folder / "about.json").read_text())
    key, witness = tlog.parse_vkey(about["key"]), tlog.parse_vkey(about["witness"])
    proofs = [base64.b64decode(line) for line in (folder / "proofs").read_text().splitlines()]
    checkpoint = tlog.parse_checkpoint(tlog.parse_note((folder / "checkpoint").read_bytes()).text)
    audited = tlog.audit_tiles(tlog.FileSystemTileReader(folder), checkpoint.size, checkpoint.root)
    grown = [
        tlog.verify_consistency(old, size, *map(bytes.fromhex, (before, after)), list(map(bytes.fromhex, path)))
        for old, size, before, after, path in about["growth"]
    ]
    return {
        "good": sum(passes(proof, key, witness) for proof in proofs),
        "good_after_a_change": sum(
            passes(changed(proof, number * 37), key, witness) for number, proof in enumerate(proofs)
        ),
        "good_after_any_change": sum(
            passes(changed(proofs[0], place), key, witness) for place in range(len(proofs[0]))
        ),
        "same_key_texts": [tlog.format_vkey(key), tlog.format_vkey(witness)] == [about["key"], about["witness"]],
        "grown": sum(grown),
        "tiles": audited.tiles,
        "bundles": audited.bundles,
    }


def make(folder: Path) -> dict[str, object]:
    log, witness = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    tree = tlog.MerkleTree(ENTRIES)
    checkpoint = tlog.Checkpoint(origin="peer.example/log", size=len(ENTRIES), root=tree.root())
    signed = tlog.sign_checkpoint(checkpoint, log, checkpoint.origin)
    _, line = tlog.sign_cosignature(
        witness, "peer.example/w", 1_700_000_000, checkpoint.origin, checkpoint.size, checkpoint.root
    )
    note = tlog.Note(text=signed.text, signatures=(*signed.signatures, line))
    writer = tlog.IncrementalTileWriter(tlog.DirectoryTileStore(folder, fsync=False))
    writer.append(ENTRIES)
    made = {
        "key": tlog.format_vkey(tlog.vkey_from_ed25519(checkpoint.origin, log.public_key())),
        "witness": tlog.format_vkey(tlog.cosignature_vkey("peer.example/w", witness.public_key())),
        "note": note.serialise(),
        "inclusion": {index: [one.hex() for one in tree.inclusion_proof(index)] for index in range(0, 700, 7)},
        "growth": {
            old: [tree.root(old).hex(), [one.hex() for one in tree.consistency_proof(old)]] for old in range(0, 701, 10)
        },
    }
    (folder / "made.json").write_text(json.dumps(made))
    return {"size": tree.size}


if __name__ == "__main__":
    print(json.dumps({"check": check, "make": make}[sys.argv[1]](Path(sys.argv[2]))))
