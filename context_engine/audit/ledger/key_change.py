"""The key that a log is signed with, as the log itself says: its first, and each change, endorsed by the one before."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import Connection, func, select

from context_engine.audit.formats.keys import Keyring, VerifierKey
from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.ledger.append import append, statement, statement_id
from context_engine.audit.ledger.read import StoredCheckpoint
from context_engine.audit.ledger.schema import IS_KEY, log, pending, record
from context_engine.audit.ledger.seals import Seal, Seals
from context_engine.audit.values import Draft
from context_engine.core.protocols import Clock
from context_engine.errors import AuditError, LedgerCorrupt

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


KIND: Final = "key"
_WAITING: Final = (
    select(pending.c.entry, pending.c.leaf, pending.c.mac, pending.c.key_id)
    .where(pending.c.record_id.like(f"{KIND}-%"))
    .order_by(pending.c.seq)
)


class KeyChange(NamedTuple):
    """A change of key that was recorded.

    Attributes:
        was: verifier key of before; None: the log had no key.
        now: verifier key from here on.
        endorsed: whether the former key signed the change; without that, whoever verifies must be told of it.
    """

    was: str | None
    now: str
    endorsed: bool


def enter_key(ledger: Ledger, keyring: Keyring | None, clock: Clock) -> KeyChange | None:
    """Record the key in force where it is not the log's last, before anything else is; return the change, else None.

    Called at opening for writing. A log that was never signed may go on without a key; one that was is never continued
    without: what somebody appends who lacks the key could not be told from what the log's owner appends.

    Args:
        ledger: open for writing.
        keyring: the key in force and former ones.
        clock: the time.

    Raises:
        AuditError: the log is signed, and there is no key; or the key is of another log.
        LedgerCorrupt: the last change of key cannot be read.
    """
    ledger.integrate()
    with ledger.database.begin(alone=True) as connection:
        last, count = _last(connection, ledger.seals if keyring is not None else None)
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
        # Two processes that open the log with one new key at the same moment name the same record.
        found = _draft(keyring, last, f"{KIND}-{count + 1}-{keyring.current.key_id}", clock.now())
        append(connection, [found[1]], ledger.seals, clock.now().timestamp())
    ledger.integrate()
    return found[0]


def check_name(origin: str, keyring: Keyring) -> None:
    """Refuse a key of another log: whoever can rename a ledger could have it sign in that log's name.

    Raises:
        AuditError: the key in force is not of the log of that origin.
    """
    if keyring.current.name != origin:
        raise AuditError(
            f"the key is of {keyring.current.name!r} and this log is {origin!r}: make a key for it with "
            f"'context-engine audit keygen {origin}'; if it had another name before, run 'context-engine audit verify'"
        )


def may_sign(ledger: Ledger) -> bool:
    """Return whether checkpoints of a ledger can be made with what is known here: it has the key, or never had one.

    Raises:
        LedgerCorrupt: the last change of key cannot be read.
    """
    if ledger.keyring is not None:
        return True
    with ledger.database.connect() as connection:
        return _last(connection, None)[0] is None


def present_checkpoint(ledger: Ledger) -> StoredCheckpoint:
    """Return a checkpoint of the log as it is; the newest that is stored, where a new one cannot be made here.

    Raises:
        AuditError: none is stored, and none can be made.
    """
    if ledger.database.writable and may_sign(ledger):
        return ledger.checkpoint()
    stored = ledger.checkpoints(newest=1)
    if not stored:
        raise AuditError(
            "the ledger has no checkpoint yet, and none can be made here: let somebody run 'context-engine audit head' "
            "who may write to it and has its key"
        )
    return stored[0]


def endorsement(was: str, now: str) -> bytes:
    """Return what the former key signs of a change: the verifier keys of before and from here on, a line each."""
    return f"{was}\n{now}\n".encode()


def restated_key(keyring: Keyring, moment: datetime) -> Draft:
    """Return an entry that says again which key is in force, signed with it: the one that said so first was pruned.

    Args:
        keyring: the key in force.
        moment: when it is made.
    """
    now = keyring.current.verifier.text
    return _draft(Keyring(keyring.current, (keyring.current,)), now, statement_id(KIND, moment), moment)[1]


def _draft(keyring: Keyring, was: str | None, record_id: str, moment: datetime) -> tuple[KeyChange, Draft]:
    now = keyring.current.verifier.text
    former = next((key for key in keyring.former if key.verifier.text == was), None)
    signature = None if was is None or former is None else former.sign(endorsement(was, now))
    endorsed = None if signature is None else base64.b64encode(signature).decode()
    said = {"was": was, "now": now, "endorsed": endorsed}
    return KeyChange(was, now, signature is not None), statement(KIND, record_id, moment, said)


def _last(connection: Connection, seals: Seals | None) -> tuple[str | None, int]:
    """Return the verifier key that the log names last, and how many times it named one.

    Args:
        seals: tell what a holder of the key has left waiting from what somebody put there; None: there is no key, and
            whatever waits counts.
    """
    count = int(connection.scalar(select(func.count(record.c.idx)).where(IS_KEY)) or 0)
    waiting = connection.execute(_WAITING)
    entries = [
        bytes(entry)
        for entry, leaf, *seal in waiting
        if seals is None or (leaf_hash(entry) == leaf and seals.vouches(leaf, Seal(*seal)))
    ]
    if not entries:
        newest = select(func.max(record.c.idx)).where(IS_KEY).scalar_subquery()
        entries = [bytes(one) for one in connection.execute(select(log.c.entry).where(log.c.idx == newest)).scalars()]
    if not entries:
        return None, count
    try:
        return VerifierKey.parse(str(json.loads(entries[-1])["now"])).text, count
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerCorrupt(
            f"the last change of key cannot be read ({type(error).__name__}): run 'context-engine audit verify'"
        ) from None
