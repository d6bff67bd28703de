"""A process that works on a ledger until it is killed: `append`, or `keep`, which erases, prunes and hands out."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from datetime import timedelta
from itertools import count

from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.ledger.erase import Wanted, erase
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.look_up import Criteria
from context_engine.audit.ledger.prune import Retention, prune
from context_engine.audit.ledger.publish import Rhythm, publish
from context_engine.audit.record.candidates import candidates_addendum
from context_engine.audit.record.exact import json_bytes
from context_engine.audit.values import Addendum, Composed, Content, Draft
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import utc_text
from context_engine.core.text import content_sha256
from context_engine.errors import RecordNotFound

KEY = SigningKey("audit.bank.example/retrieval", bytes(range(32)))
CLOCK = SystemClock()
SHARED = [f"Rule {number} on approvals of harbour loans." for number in range(12)]


def draft(record_id: str, rng: random.Random) -> Draft:
    """A record of one candidate whose text many others have; most are old enough to be pruned."""
    text = rng.choice(SHARED)
    contents = (Content("text", text.encode()), Content("card", json_bytes({"document_id": text.split()[1]})))
    time = utc_text(CLOCK.now() - timedelta(days=400 if rng.random() < 0.999 else 1))

    def compose(digests: Mapping[bytes, bytes]) -> Composed:
        fates = {
            "source_id": ["sops"],
            "chunk_id": [text[:7]],
            "document_id": [text.split()[1]],
            "document_version": [None],
            "content_sha256": [content_sha256(text)],
            "outcome": ["returned"],
        }
        answers = [{"chunks": {"text": [0], "card": [1], "scores": [[]]}}]
        own = (
            Addendum.of("question", f"What of {record_id}?".encode()),
            candidates_addendum({"v": 1, "fates": fates, "answers": answers}, [digests[one.key] for one in contents]),
        )
        named = {one.kind: one.digest.hex() for one in own}
        chunks = [{"source": "sops", "chunk": text[:7], "document": text.split()[1], "sha256": content_sha256(text)}]
        entry = {"v": 1, "kind": "search", "id": record_id, "time": time, "chunks": chunks, "addenda": named}
        return Composed(json_bytes(entry), own)

    return Draft(record_id=record_id, contents=contents, compose=compose)


def append(ledger: Ledger, name: str, rng: random.Random) -> None:
    """Append for ever; say each id once it is durable."""
    for number in count():
        record_id = f"{name}-{number}"
        ledger.append([draft(record_id, rng)])
        print(record_id, flush=True)
        if rng.random() < 0.05:
            ledger.integrate()


def keep(ledger: Ledger, rng: random.Random) -> None:
    """Erase, prune and hand out checkpoints for ever."""
    for _ in count():
        rows = ledger.rows(Criteria(kind="search", limit=50))
        chosen = tuple(row.record_id for row in rng.sample(rows, min(2, len(rows))))
        text = (content_sha256(rng.choice(SHARED)),) if rng.random() < 0.5 else ()
        try:
            told = erase(ledger, Wanted(record_ids=chosen, texts=text), reason="trial", by="test", clock=CLOCK)
        except RecordNotFound:
            continue  # pruned meanwhile by another
        print("erased", len(told.record_ids), flush=True)
        if rng.random() < 0.3:
            done = prune(ledger, Retention(365, {}), clock=CLOCK)
            print("pruned", done.plan.border, flush=True)
        publish(ledger, Rhythm(records=50, seconds=1.0), CLOCK)


if __name__ == "__main__":
    what, place, name = sys.argv[1:]
    drawn = random.Random(name)
    with Ledger.open(place, origin=KEY.name, keyring=Keyring(KEY), clock=CLOCK) as opened:
        if what == "append":
            append(opened, name, drawn)
        else:
            keep(opened, drawn)
