"""A process that writes to a ledger, integrates it, or does both, and says on standard output what it was told is kept.

Usage: python ledger_process.py LEDGER NAME FIRST COUNT BATCH INTEGRATE_EVERY
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.values import Addendum, Composed, Content, Draft
from context_engine.core.engine.search_plan import SystemClock

ORIGIN = "audit.bank.example/retrieval"
KEYRING = Keyring(SigningKey(ORIGIN, bytes(32)))
TEXTS = [Content("text", f"Section {number}: a limit of {number} %. ".encode() * 20) for number in range(200)]


def draft_of(name: str, number: int) -> Draft:
    """A record of some 3 kB with an addendum of its own and eight texts that others share."""
    contents = tuple(TEXTS[(number * 7 + place) % len(TEXTS)] for place in range(8))
    question = Addendum.of("question", f"question {name}-{number}".encode())

    def compose(digests: Mapping[bytes, bytes]) -> Composed:
        chunks = [
            {"source": "rules", "chunk": f"c{place}", "document": "D", "version": "1", "text": digests[one.key].hex()}
            for place, one in enumerate(contents)
        ]
        entry = {
            "v": 1, "kind": "search", "id": f"{name}-{number}", "time": "2026-03-02T10:00:00.000000Z", "domain": "NPA",
            "chunks": chunks, "addenda": {"question": question.digest.hex()}, "notices": ["x" * 1500],
        }  # fmt: skip
        return Composed(json.dumps(entry).encode(), (question,))

    return Draft(record_id=f"{name}-{number}", contents=contents, compose=compose)


def open_ledger(place: str) -> Ledger:
    """The ledger that all of these processes share."""
    return Ledger.open(place, origin=ORIGIN, keyring=KEYRING, clock=SystemClock())


def main() -> None:
    """Append COUNT records in batches, integrating after every so many batches (0: never); COUNT 0: integrate alone."""
    place, name, first, count, batch, every = sys.argv[1:3] + [int(text) for text in sys.argv[3:]]  # type: ignore[misc]
    with open_ledger(str(place)) as ledger:
        print("ready", flush=True)
        while not count:
            ledger.integrate(37)
        for done, start in enumerate(range(first, first + count, batch), 1):
            drafts = [draft_of(str(name), number) for number in range(start, min(start + batch, first + count))]
            ledger.append(drafts)
            print(*(draft.record_id for draft in drafts), flush=True)
            if every and done % every == 0:
                ledger.integrate()


if __name__ == "__main__":
    main()
