"""A process that uses the tokens of a deployment: it adds, shows, notes and revokes, and says what it did.

Called with the folder, its name and how often.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from context_engine.settings.principals import id_in, token_hash
from context_engine.settings.token_store import TokenStore


def main(folder: str, name: str, times: str) -> None:
    """Do it."""
    store, now = TokenStore(Path(folder)), datetime.now(UTC)
    kept, revoked = [], []
    for number in range(int(times)):
        made = store.add(f"{name}-{number}", "api", now=now)
        token_id = id_in(made.text.encode())
        assert token_id == made.id
        held = store.matching(made.id, token_hash(made.text))
        assert held is not None and held.opens(now)
        store.note_used(made.id, now + timedelta(minutes=number))
        if number % 2:
            store.revoke(made.id, now=now)
            held = store.matching(made.id, token_hash(made.text))
            assert held is not None and not held.opens(now)
            revoked.append(made.text)
        else:
            kept.append(made.text)
    store.close()
    print(json.dumps({"kept": kept, "revoked": revoked}))


if __name__ == "__main__":
    main(*sys.argv[1:])
