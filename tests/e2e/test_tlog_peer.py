"""An implementation of the formats by others agrees with ours, both ways.

TLOG_PEER_PYTHON names a Python 3.12 that has `aics-tlog`; the project's own check makes one.
"""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from context_engine.audit import check_proof
from context_engine.audit.formats.checkpoint import Checkpoint, cosign, parse_checkpoint, parse_note, verify_note
from context_engine.audit.formats.keys import COSIGNATURE, SigningKey, VerifierKey
from context_engine.audit.formats.merkle import leaf_hash, root, verify_consistency, verify_inclusion
from context_engine.audit.formats.tiles import (
    TileTree,
    append_leaves,
    bundle_path,
    pack_entries,
    tile_path,
    tiles_of,
    unpack_entries,
)
from context_engine.audit.ledger.prove import InclusionProof

PEER = os.environ.get("TLOG_PEER_PYTHON", "")
SCRIPT = Path(__file__).with_name("tlog_peer.py")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PEER, reason="TLOG_PEER_PYTHON names no Python with aics-tlog"),
]

LOG = SigningKey.generate("audit.bank.example/log")
WITNESS = SigningKey.generate("witness.example/w1")
WITNESS_KEY = VerifierKey(WITNESS.name, WITNESS.verifier.public, COSIGNATURE)
SIZE = 66_000
PROOFS = 10_000


def peer(what: str, folder: Path) -> dict[str, object]:
    ran = subprocess.run([PEER, str(SCRIPT), what, str(folder)], capture_output=True, check=False, timeout=600)
    assert ran.returncode == 0, ran.stderr.decode()
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def test_others_accept_what_we_make_and_refuse_what_was_changed(tmp_path: Path) -> None:
    draw = random.Random(16)
    entries = [f'{{"v":1,"id":"s{number}","more":"{number % 977:0200d}"}}'.encode() for number in range(SIZE)]
    leaves = [leaf_hash(entry) for entry in entries]
    tiles = append_leaves(lambda *_: b"", 0, leaves)
    tree = TileTree(lambda level, index, width: tiles[level, index][: width * 32], SIZE)
    for level, index, width in tiles_of(SIZE):
        write(tmp_path / tile_path(level, index, width), tiles[level, index])
        if level == 0:
            write(tmp_path / bundle_path(index, width), pack_entries(entries[index * 256 : index * 256 + width]))
    signed = Checkpoint(LOG.name, SIZE, tree.root()).signed(LOG)
    note = str(cosign(parse_note(signed), WITNESS, 1_700_000_000))
    (tmp_path / "checkpoint").write_text(note, "utf-8")
    chosen = [0, SIZE - 1, *(draw.randrange(SIZE) for _ in range(PROOFS - 2))]
    texts = (InclusionProof(entries[index], index, tree.inclusion_proof(index), note).text for index in chosen)
    (tmp_path / "proofs").write_text("\n".join(base64.b64encode(text.encode()).decode() for text in texts))
    growth = [growth_of(leaves, draw.randrange(1, SIZE), tiles) for _ in range(20)]
    about = {"key": LOG.verifier.text, "witness": WITNESS_KEY.text, "growth": growth}
    (tmp_path / "about.json").write_text(json.dumps(about))
    assert peer("check", tmp_path) == {
        "good": PROOFS,
        "good_after_a_change": 0,
        "good_after_any_change": 0,
        "same_key_texts": True,
        "grown": len(growth),
        "tiles": 258 + 2 + 1,  # 66,000 = 257 * 256 + 208 leaves, 257 = 256 + 1 full tiles, 1 full tile of those
        "bundles": 258,
    }


def growth_of(leaves: list[bytes], old: int, tiles: dict[tuple[int, int], bytes]) -> tuple[object, ...]:
    tree = TileTree(lambda level, index, width: tiles[level, index][: width * 32], SIZE)
    path = [one.hex() for one in tree.consistency_proof(old)]
    return old, SIZE, root(leaves[:old]).hex(), tree.root().hex(), path


def write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def test_we_accept_what_others_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    size = peer("make", tmp_path)["size"]
    made = json.loads((tmp_path / "made.json").read_text())
    log, witness = VerifierKey.parse(made["key"]), VerifierKey.parse(made["witness"])
    assert (log.text, witness.text) == (made["key"], made["witness"])
    note = parse_note(made["note"])
    checkpoint = parse_checkpoint(note)
    assert str(note) == made["note"] and checkpoint.size == size
    assert [one.time for one in verify_note(note, [log, witness])] == [None, 1_700_000_000]

    tree = TileTree(
        lambda level, index, width: (tmp_path / tile_path(level, index, width)).read_bytes(), checkpoint.size
    )
    entries = [entry for place in (0, 1) for entry in unpack_entries((tmp_path / bundle_path(place)).read_bytes())]
    entries += unpack_entries((tmp_path / bundle_path(2, 700 - 512)).read_bytes())
    assert tree.root() == root([leaf_hash(entry) for entry in entries]) == checkpoint.root
    for index, hashes in made["inclusion"].items():
        path = tuple(map(bytes.fromhex, hashes))
        assert path == tree.inclusion_proof(int(index))
        assert verify_inclusion(tree.leaf(int(index)), int(index), checkpoint.size, path, checkpoint.root)
    for old, (before, hashes) in made["growth"].items():
        path = tuple(map(bytes.fromhex, hashes))
        assert path == tree.consistency_proof(int(old))
        assert verify_consistency(int(old), bytes.fromhex(before), checkpoint.size, checkpoint.root, path)

    proof = tmp_path / "peer.tlog-proof"
    proof.write_text(InclusionProof(entries[7], 7, tree.inclusion_proof(7), made["note"]).text, "utf-8")
    command = ["check_proof.py", str(proof), "--key", log.text, "--witness", witness.text]
    monkeypatch.setattr(sys, "argv", command)
    assert check_proof.main() == 0
    assert b"This record is at index 7 of the log peer.example/log" in capsysbinary.readouterr().out
