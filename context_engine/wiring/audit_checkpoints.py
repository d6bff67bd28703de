"""Where a configuration's checkpoints go: beside the ledger into a file, to a program, to witnesses."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from context_engine.core.engine import SystemClock
from context_engine.errors import ConfigError

if TYPE_CHECKING:
    from context_engine.adapters.witnesses import TlogWitness
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.audit.ledger.publish import Rhythm
    from context_engine.wiring.build import Setup


_LAST_S: Final = 5.0
"""That the end of a process waits for a program or a witness."""


def check_checkpoints(setup: Setup) -> None:
    """Refuse what checkpoints cannot be made or handed out with, before there is any.

    Raises:
        ConfigError: a file or a witness that cannot be used.
    """
    _file(setup)
    _witnesses(setup)


def checkpoint_rhythm(setup: Setup) -> Rhythm:
    """Return when checkpoints are made and where they go.

    Raises:
        ConfigError: a file or a witness that cannot be used.
    """
    from context_engine.audit.ledger.outlets import outlets_of
    from context_engine.audit.ledger.publish import Rhythm

    values = setup.resolver.base().values
    return Rhythm(
        records=values.audit_checkpoint_records,
        seconds=values.audit_checkpoint_s,
        outlets=outlets_of(_file(setup), values.audit_checkpoint_command),
        witnesses=_witnesses(setup),
    )


def _file(setup: Setup) -> Path | None:
    effective = setup.resolver.base()
    file = effective.values.audit_checkpoint_file
    if file is None or Path(file).is_absolute():
        return None if file is None else Path(file)
    raise ConfigError(
        f"{file!r} is relative: it would be another file in each folder; write the whole path",
        file=effective.origins.get("audit_checkpoint_file"),
        key="audit_checkpoint_file",
    )


def _witnesses(setup: Setup) -> tuple[TlogWitness, ...]:
    named = setup.resolver.base().values.audit_witnesses
    if not named:
        return ()
    from context_engine.adapters.witnesses import open_witnesses

    return open_witnesses(named, setup.config.connections.get, SystemClock())


class LedgerCheckpoints:
    """Makes the checkpoints of a ledger while a process records in it; a `Publisher`.

    Where no thread can be started any more, because the process ends, there is a last checkpoint all the same.

    Args:
        ledger: open for writing.
        rhythm: when and where.
    """

    def __init__(self, ledger: Ledger, rhythm: Rhythm) -> None:
        from context_engine.audit.ledger.publisher import Publisher

        self._ledger, self._rhythm, self._clock = ledger, rhythm, SystemClock()
        self._publisher = Publisher(ledger, rhythm, self._clock)
        self._alone = False

    def added(self, count: int = 1) -> None:
        """Say that records were appended."""
        try:
            self._publisher.added(count)
        except RuntimeError:
            self._alone = True

    def close(self) -> None:
        """Make the last checkpoint.

        Raises:
            AuditError: the ledger cannot be used.
        """
        from context_engine.audit.ledger.publish import publish

        if self._alone:
            with closing(self._rhythm):
                publish(self._ledger, self._rhythm, self._clock, at_once=True)
        else:
            self._publisher.close(_LAST_S)
