"""Whatever the keepers of a ledger do to it by its own means, the check of the whole ledger finds nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from context_engine.audit.checks.verify import Outside, verify
from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.ledger.erase import Wanted, erase
from context_engine.audit.ledger.key_change import enter_key
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.outlets import checkpoints_in, outlets_of
from context_engine.audit.ledger.prune import Retention, prune
from context_engine.audit.ledger.publish import Rhythm, publish
from context_engine.audit.values import Addendum
from context_engine.core.models import utc_text
from context_engine.core.text import content_sha256
from context_engine.testing.fakes import FixedClock

ORIGIN = "audit.bank.example/retrieval"
OLD, NEW = (SigningKey(ORIGIN, bytes([seed]) * 32) for seed in (1, 2))
CLOCK = FixedClock()


def findings(ledger: Ledger, keyring: Keyring | None, file: Path | None = None) -> list[Any]:
    notes = () if file is None else checkpoints_in(file.read_text("utf-8"))
    keys = () if keyring is None else keyring.verifiers
    found = verify(ledger, trusted=keys, outside=[Outside("file", note) for note in notes])
    return list(found.findings)


@pytest.mark.slow
def test_a_ledger_with_a_long_life_is_sound(
    open_ledger: Callable[..., Ledger],
    searched: Callable[..., Any],
    draft: Callable[..., Any],
    chunk_of: Callable[..., Any],
    tmp_path: Path,
) -> None:
    file = tmp_path / "checkpoints.txt"
    rhythm = Rhythm(records=1, seconds=60.0, outlets=outlets_of(file, None))
    first, both = Keyring(OLD), Keyring(NEW, (OLD,))
    ledger = open_ledger(first)
    enter_key(ledger, first, CLOCK)
    old = utc_text(CLOCK.now() - timedelta(days=400))
    ledger.append([draft(f"old-{number}", time=old, addenda=(Addendum.of("question", b"?"),)) for number in range(300)])
    chunks = [chunk_of("r-1", 0.9, "The harbour loan.", document_id="sop-7"), chunk_of("r-2", 0.8, "A desk limit.")]
    (result, *_) = searched(ledger, "harbour loan", "desk limit", chunks=chunks)
    publish(ledger, rhythm, CLOCK)
    assert findings(ledger, first, file) == []

    ledger = open_ledger(both)
    enter_key(ledger, both, CLOCK)
    publish(ledger, rhythm, CLOCK, at_once=True)
    assert findings(ledger, both, file) == []

    erase(ledger, Wanted(record_ids=(result.search_id,)), reason="asked for", by="me", clock=CLOCK)
    erase(ledger, Wanted(texts=(content_sha256("A desk limit."),)), reason="asked for", by="me", clock=CLOCK)
    assert findings(ledger, both, file) == []

    done = prune(ledger, Retention(365, {}), clock=CLOCK)
    assert done.plan.border == 0  # the entry of the first key is as young as this test
    publish(ledger, rhythm, CLOCK, at_once=True)
    assert findings(ledger, both, file) == []
    searched(ledger, "harbour loan again", chunks=chunks)
    assert findings(ledger, both, file) == []


@pytest.mark.slow
def test_a_log_whose_first_key_was_pruned_is_sound_and_is_continued_under_the_next(
    open_ledger: Callable[..., Ledger], draft: Callable[..., Any]
) -> None:
    first, both = Keyring(OLD), Keyring(NEW, (OLD,))
    old = utc_text(CLOCK.now() - timedelta(days=400))
    ledger = open_ledger(first)
    ledger.append([draft("key-1", kind="key", was=None, now=OLD.verifier.text, endorsed=None, time=old)])
    ledger.append([draft(f"s-{number}", time=old) for number in range(300)])
    ledger.checkpoint()
    assert prune(ledger, Retention(365, {}), clock=CLOCK).plan.border == 256
    ledger.checkpoint()
    assert findings(ledger, first) == []
    ledger = open_ledger(both)
    assert enter_key(ledger, both, CLOCK) is not None
    said = json.loads(ledger.entry_at(ledger.size - 1).entry)  # type: ignore[union-attr, arg-type]
    assert said["was"] == OLD.verifier.text and said["endorsed"]
    ledger.checkpoint()
    assert findings(ledger, both) == []


def test_a_log_without_a_key_is_sound_after_the_same(
    open_ledger: Callable[..., Ledger], searched: Callable[..., Any], draft: Callable[..., Any]
) -> None:
    ledger = open_ledger(None)
    old = utc_text(CLOCK.now() - timedelta(days=400))
    ledger.append([draft(f"s-{number}", time=old) for number in range(300)])
    (result,) = searched(ledger, "harbour loan")
    ledger.checkpoint()
    erase(ledger, Wanted(record_ids=(result.search_id,)), reason="asked for", by="me", clock=CLOCK)
    prune(ledger, Retention(365, {}), clock=CLOCK)
    ledger.checkpoint()
    assert ledger.minimum_index == 256 and findings(ledger, None) == []
