"""The log's record of its signing keys: the first, and each change, endorsed by the former key."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import NamedTuple

from context_engine.audit.formats.keys import Keyring
from context_engine.audit.ledger.append import append, statement, statement_id
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.read import StoredCheckpoint
from context_engine.audit.ledger.signing import KEY_KIND, check_name, last_key, may_sign
from context_engine.audit.values import Draft
from context_engine.core.protocols import Clock
from context_engine.errors import AuditError


class KeyChange(NamedTuple):
    """A key change that was recorded.

    Attributes:
        was: former verifier key; None: the log had no key.
        now: the new verifier key.
        endorsed: whether the former key signed the change; if not, verifiers must be told of it.
    """

    was: str | None
    now: str
    endorsed: bool


def enter_key(ledger: Ledger, keyring: Keyring | None, clock: Clock) -> KeyChange | None:
    """Record the current key if it is not the log's last; return the change, else None.

    Called when a ledger is opened for writing. An unsigned log may continue without a key. A signed log may not: its
    records could not be told from records by somebody who lacks the key.

    Raises:
        AuditError: the log is signed and there is no key, or the key is of another log.
        LedgerCorrupt: the last key change cannot be read.
    """
    ledger.integrate()
    with ledger.database.begin(alone=True) as connection:
        last, count = last_key(connection, ledger.seals if keyring is not None else None)
        if keyring is None:
            if last is not None:
                raise AuditError(
                    f"this ledger is signed (with {last.partition('+')[0]}, key {last.split('+')[1]}) and cannot be "
                    "continued without its key: set CONTEXT_ENGINE_AUDIT_KEY, or name another ledger"
                )
            return None
        check_name(ledger.origin, keyring)
        if keyring.current.verifier.text == last:
            return None
        # Two processes that open the log with the same new key at once thereby use the same record id.
        change = _draft(keyring, last, f"{KEY_KIND}-{count + 1}-{keyring.current.key_id}", clock.now())
        append(connection, [change[1]], ledger.seals, clock.now().timestamp())
    ledger.integrate()
    return change[0]


def present_checkpoint(ledger: Ledger) -> StoredCheckpoint:
    """Return a checkpoint of the current log, or the newest stored checkpoint if none can be made here.

    Raises:
        AuditError: none is stored, and none can be made.
    """
    if ledger.database.writable and may_sign(ledger.database, ledger.keyring):
        return ledger.checkpoint()
    stored = ledger.checkpoints(newest=1)
    if not stored:
        raise AuditError(
            "the ledger has no checkpoint yet, and none can be made here: run 'context-engine audit head' as a user "
            "who may write to the ledger and has its key"
        )
    return stored[0]


def endorsement(was: str, now: str) -> bytes:
    """Return the text that the former key signs for a change: both verifier keys, a line each."""
    return f"{was}\n{now}\n".encode()


def restated_key(keyring: Keyring, moment: datetime) -> Draft:
    """Return an entry that states the current key again, endorsed by itself; the first such entry was pruned."""
    now = keyring.current.verifier.text
    return _draft(Keyring(keyring.current, (keyring.current,)), now, statement_id(KEY_KIND, moment), moment)[1]


def _draft(keyring: Keyring, was: str | None, record_id: str, moment: datetime) -> tuple[KeyChange, Draft]:
    now = keyring.current.verifier.text
    former = next((key for key in keyring.former if key.verifier.text == was), None)
    signature = None if was is None or former is None else former.sign(endorsement(was, now))
    endorsed = None if signature is None else base64.b64encode(signature).decode()
    body = {"was": was, "now": now, "endorsed": endorsed}
    return KeyChange(was, now, signature is not None), statement(KEY_KIND, record_id, moment, body)
