"""Open the ledger of an audit command, and state what a checkpoint does not prove."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.console import note, read_file
from context_engine.apps.cli.context import CliContext, ConfigLocation, operator_context, with_location
from context_engine.apps.cli.options import F, gathered
from context_engine.errors import InvalidRequest, nearest
from context_engine.settings.environment_secrets import AUDIT_KEY, AUDIT_LEDGER

if TYPE_CHECKING:
    from context_engine.audit.formats.keys import VerifierKey
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.audit.ledger.read import StoredCheckpoint
    from context_engine.core.models import SearchResult


NO_KEY: Final = (
    f"No key is set ({AUDIT_KEY}): nothing is signed, so anybody who can write to the ledger can forge its content."
)

_UNVERIFIED: Final = f"No key is set ({AUDIT_KEY}): the signatures of the checkpoint were not verified here."
_NO_WITNESS: Final = "No witness cosigned: the ledger may show a different log to others."
_BY_OTHER: Final = "The checkpoint was made before the current key: it has the signature of another key, or none."


@dataclass(frozen=True, slots=True)
class LedgerLocation:
    """The options that locate configuration and ledger.

    Attributes:
        configuration: folders and stage.
        ledger: a file or a DSN; None: the configured ledger.
    """

    configuration: ConfigLocation
    ledger: str | None


@dataclass(frozen=True, slots=True)
class OpenLedger:
    """An open ledger with its configuration."""

    context: CliContext
    ledger: Ledger


def with_ledger(command: F, *, always: bool = True) -> F:
    """Give a command the options that locate ledger and configuration, as one argument `at`.

    Args:
        always: the command reads a ledger in every case, so the extra `audit` must be installed.
    """

    def gather(*, location: ConfigLocation, ledger: str | None, **options: Any) -> Any:
        from context_engine.wiring.audit import check_installed

        if always:
            check_installed()
        return command(at=LedgerLocation(location, ledger), **options)

    option = click.option(
        "--ledger",
        metavar="FILE|DSN",
        help="A ledger other than the configured one. Put a DSN with a password into "
        f"{AUDIT_LEDGER} instead: every user of this machine can see a command line.",
    )
    return with_location(gathered(command, gather, option))  # type: ignore[no-any-return]


@contextmanager
def opened_ledger(at: LedgerLocation) -> Iterator[OpenLedger]:
    """Yield the existing ledger of a command, and close it afterwards.

    Raises:
        InvalidRequest: the user is no operator.
        ConfigError: the configuration, the place of the ledger or a key cannot be used.
        AuditError: there is no ledger, or it cannot be opened.
        MissingExtra: the extra `audit` is not installed.
    """
    from context_engine.wiring.audit import open_ledger

    context = operator_context(at.configuration, data_elsewhere=at.ledger is not None)
    setup = context.setup
    if at.ledger is not None:
        place = at.ledger if "://" in at.ledger else str(Path(at.ledger).expanduser().absolute())
        setup = replace(setup, env={**setup.env, AUDIT_LEDGER: place})
    ledger = open_ledger(setup, context.data_dir, create=False)
    try:
        yield OpenLedger(context, ledger)
    finally:
        ledger.close()


def unproved(
    opened: OpenLedger,
    checkpoint: StoredCheckpoint,
    keys: Sequence[VerifierKey] = (),
    witnesses: Sequence[VerifierKey] = (),
) -> tuple[str, ...]:
    """Return what a checkpoint does not prove, one sentence each.

    Args:
        keys: those given for the check, if any; else the configured ones count.
        witnesses: those given for the check; the configured ones count too.
    """
    from context_engine.audit.formats.checkpoint import parse_note, verify_note
    from context_engine.audit.formats.strict import FormatError

    note, keyring = parse_note(checkpoint.note), opened.ledger.keyring
    if keyring is None and not keys:
        return (_UNVERIFIED if note.signatures else NO_KEY,)
    own = bool(keys) or (keyring is not None and any(sign.by(keyring.current.verifier) for sign in note.signatures))
    try:
        cosigned = bool(verify_note(note, (*witnesses, *_configured_witnesses(opened))))
    except FormatError:
        cosigned = False
    return (*(() if own else (_BY_OTHER,)), *(() if cosigned else (_NO_WITNESS,)))


def _configured_witnesses(opened: OpenLedger) -> list[VerifierKey]:
    from context_engine.audit.formats.keys import VerifierKey
    from context_engine.wiring.audit import checkpoint_rhythm

    with closing(checkpoint_rhythm(opened.context.setup)) as rhythm:
        return [VerifierKey.parse(witness.vkey) for witness in rhythm.witnesses]


def verifier_key(text: str, option: str) -> VerifierKey:
    """Return the verifier key that an option gives.

    Raises:
        InvalidRequest: the text is none.
    """
    from context_engine.audit.formats.keys import VerifierKey
    from context_engine.audit.formats.strict import FormatError

    try:
        return VerifierKey.parse(text)
    except FormatError as error:
        raise InvalidRequest(f"{option}: {error}") from None


KEYS: Final = click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="VKEY",
    help="A verifier key of the log, obtained from elsewhere; only the keys given are trusted, and those that they "
    "endorsed.",
)
WITNESSES: Final = click.option(
    "--witness", "witnesses", multiple=True, metavar="VKEY", help="A witness whose cosignature is checked."
)


def say_unknown_domain(opened: OpenLedger, domain: str | None) -> None:
    """Note if a domain without matches is known neither to the configuration nor to any record."""
    from context_engine.audit.ledger.look_up import ledger_statistics

    known = {*opened.context.setup.registry.names, *ledger_statistics(opened.ledger.database).domains}
    if domain is not None and domain not in known:
        note(f"{domain!r} is neither a configured domain nor in any record.{nearest(domain, known)}", style="yellow")


def say_unsigned(ledger: Ledger) -> None:
    """Note if the ledger has no key, and what that means."""
    say_unproved(() if ledger.keyring is not None else (NO_KEY,))


def say_unproved(sentences: Iterable[str]) -> None:
    """Write to stderr what is not proved."""
    for sentence in sentences:
        note(sentence, style="yellow")


def read_saved(file: Path) -> tuple[SearchResult, dict[str, Any]]:
    """Read a file written by `search --json --full`; return the result, and the whole as JSON values.

    Raises:
        ConfigError: the file cannot be read.
        InvalidRequest: it holds no saved result, or that of another version of this package.
    """
    import json

    from context_engine.audit.record.parts import load_result

    try:
        saved = json.loads(read_file(file))
        return load_result(saved), saved
    except (ValueError, RecursionError):
        raise InvalidRequest(f"{file} holds no JSON") from None
    except InvalidRequest as error:
        raise InvalidRequest(f"{file}: {error}") from None
