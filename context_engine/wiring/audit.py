"""The audit of a configuration: mode, ledger, keys and destinations of checkpoints."""

from __future__ import annotations

import hashlib
import json
import logging
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from context_engine.core.engine import SystemClock, TimeSortedIds
from context_engine.core.models import AuditSettings
from context_engine.errors import AuditError, ConfigError, MissingExtra
from context_engine.secrecy import has_unencoded_password
from context_engine.settings.environment_secrets import AUDIT_KEY, AUDIT_LEDGER, read_audit_keys, read_audit_ledger
from context_engine.wiring.audit_writers import shared_writer

if TYPE_CHECKING:
    from context_engine.adapters.witnesses import TlogWitness
    from context_engine.audit.formats.keys import Keyring
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.audit.ledger.publish import Rhythm
    from context_engine.audit.recorder import LedgerInUse, LedgerRecorder
    from context_engine.audit.recorder.jobs import RecordKind
    from context_engine.core.models.deployment_settings import QueryForm
    from context_engine.core.protocols import Clock
    from context_engine.wiring.setup import Setup


logger = logging.getLogger(__name__)
AuditMode = Literal["off", "best_effort", "required"]
_SCHEMES: Final = ("postgresql", "postgres")
_FILE: Final = ("audit", "ledger.db")
_NEEDS: Final = "the audit ledger"
_EXTRA: Final = "audit"
_STRICTEST: Final[tuple[QueryForm, ...]] = ("none", "digest", "text")


class LedgerPlace(NamedTuple):
    """The address of a ledger.

    Attributes:
        url: a file path, or postgresql://USER:PASSWORD@HOST/DATABASE.
        shown: the same without user and password.
        file: the path if it is a file.
        named: whether it was configured; else it is the default place.
    """

    url: str
    shown: str
    file: Path | None
    named: bool

    def __repr__(self) -> str:
        return f"LedgerPlace({self.shown!r})"


def audit_mode(setup: Setup) -> AuditMode:
    """Return the mode in force: as set, else best_effort if a ledger is configured, else off.

    Raises:
        ConfigError: contradictory settings.
    """
    mode = setup.resolver.base().values.audit_mode
    return mode or ("best_effort" if setup.env.get(AUDIT_LEDGER, "").strip() else "off")


def ledger_place(setup: Setup, data_dir: str | Path | None = None) -> LedgerPlace:
    """Return the address of a configuration's ledger.

    Args:
        data_dir: the data folder (see `find_data_dir`), which holds the ledger by default.

    Raises:
        ConfigError: an unusable address.
    """
    url = read_audit_ledger(setup.env, setup.cwd)
    if url is None:
        file = setup.data_dir(data_dir).joinpath(*_FILE).absolute()
        return LedgerPlace(str(file), str(file), file, named=False)
    if "://" in url:
        return LedgerPlace(url, _shown(url), None, named=True)
    if "password=" in url.replace(" ", ""):
        raise ConfigError(
            "is a connection string of libpq: write postgresql://USER:PASSWORD@HOST/DATABASE", key=AUDIT_LEDGER
        )
    home = setup.env.get("HOME") or setup.env.get("USERPROFILE")
    file = Path(home, url[2:]) if url.startswith("~/") and home else Path(url)
    if not file.is_absolute():
        raise ConfigError(
            f"{url!r} is relative: it would be a different ledger in each folder; write an absolute path, or a "
            "postgresql:// address",
            key=AUDIT_LEDGER,
        )
    if _is_folder(file):
        raise ConfigError(f"{url!r} is a folder: name a file in it, such as {file / _FILE[-1]}", key=AUDIT_LEDGER)
    return LedgerPlace(str(file), str(file), file, named=True)


def _is_folder(file: Path) -> bool:
    try:
        return file.is_dir()
    except OSError:  # no permission to look: opening it reports that
        return False


def _shown(url: str) -> str:
    if has_unencoded_password(url):
        raise ConfigError(
            "has more than one '@', or a '?' before it: percent-encode the password, '@' as %40, '?' as %3F",
            key=AUDIT_LEDGER,
        )
    try:
        parts, scheme = urlsplit(url), urlsplit(url).scheme
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        problem = "is not a valid address: write postgresql://USER:PASSWORD@HOST/DATABASE"
        raise ConfigError(problem, key=AUDIT_LEDGER) from None
    if scheme not in _SCHEMES:
        raise ConfigError(
            f"a ledger is a file, or in PostgreSQL (postgresql://USER:PASSWORD@HOST/DATABASE), not in {scheme}://",
            key=AUDIT_LEDGER,
        )
    return f"postgresql://{parts.hostname or 'local socket'}{port}{parts.path}"


def ledger_keyring(setup: Setup) -> Keyring | None:
    """Return the signing keys of the ledger; None if there are none, so that nothing is signed.

    Raises:
        ConfigError: an unusable key, or a key of another log than `audit_origin`.
        MissingExtra: the extra `audit` is not installed.
    """
    texts = read_audit_keys(setup.env, setup.cwd)
    if not texts:
        return None
    check_installed()
    from context_engine.audit.formats.keys import Keyring
    from context_engine.audit.formats.strict import FormatError

    try:
        keyring = Keyring.parse(texts)
    except FormatError as error:
        raise ConfigError(f"{error}: 'context-engine audit keygen NAME' makes one", key=AUDIT_KEY) from None
    effective = setup.resolver.base()
    origin, origin_from = effective.values.audit_origin, effective.origins.get("audit_origin", "default")
    if keyring is not None and origin_from != "default" and keyring.current.name != origin:
        raise ConfigError(
            f"the key in {AUDIT_KEY} is of the log {keyring.current.name!r}, and audit_origin is {origin!r}: they must "
            "be one",
            file=origin_from,
            key="audit_origin",
        )
    return keyring


def open_ledger(setup: Setup, data_dir: str | Path | None = None, *, create: bool = True) -> Ledger:
    """Open the ledger of a configuration; the caller closes it.

    Args:
        data_dir: see `ledger_place`.
        create: create it if missing.

    Raises:
        ConfigError: an unusable address or key.
        AuditError: it cannot be opened.
        MissingExtra: the extra `audit` is not installed.
    """
    place, keyring = ledger_place(setup, data_dir), ledger_keyring(setup)
    check_installed()
    from context_engine.audit.ledger.ledger import Ledger

    origin = setup.resolver.base().values.audit_origin if keyring is None else keyring.current.name
    return Ledger.open(place.url, origin=origin, keyring=keyring, clock=SystemClock(), create=create)


def caller_pseudonym(setup: Setup, data_dir: str | Path | None, name: str) -> str:
    """Return the pseudonym of a caller in the ledger; "" without a name or a ledger that can be read."""
    if not name or audit_mode(setup) == "off":
        return ""
    from context_engine.audit.review.stored import ledger_pseudonyms

    try:
        with open_ledger(setup, data_dir, create=False) as ledger:
            return ledger_pseudonyms(ledger)[0].of_caller(name)
    except AuditError as error:
        logger.info("the pseudonym of the caller is not known: %s", error)
        return ""


def open_recorder(
    setup: Setup,
    data_dir: str | Path | None = None,
    *,
    clock: Clock | None = None,
    kind: RecordKind = "search",
) -> LedgerRecorder | None:
    """Return the recorder of an engine's searches; None if auditing is off. The ledger is opened on first use.

    Args:
        data_dir: see `ledger_place`.
        kind: `rank` if the engine ranks passages that were retrieved elsewhere.

    Raises:
        ConfigError: an unusable address or key.
        MissingExtra: the extra `audit` is not installed.
    """
    mode = audit_mode(setup)
    if mode == "off":
        return None
    check_audit(setup, data_dir)
    place, values = ledger_place(setup, data_dir), setup.resolver.base().values
    from context_engine.audit.recorder import LedgerRecorder

    return LedgerRecorder(
        shared_writer(_shared_key(setup, place), lambda: _in_use(setup, data_dir), place.shown),
        clock=clock or SystemClock(),
        mode=mode,
        buffer=values.audit_buffer,
        timeout_s=values.audit_timeout_s,
        kept=lambda domain: _kept_of(setup, domain),
        kind=kind,
    )


def check_audit(setup: Setup, data_dir: str | Path | None = None) -> None:
    """Refuse a configuration that cannot record searches; opens nothing.

    Raises:
        ConfigError: an unusable address, key, checkpoint file or witness.
        MissingExtra: the extra `audit` is not installed.
    """
    check_installed(in_server=ledger_place(setup, data_dir).file is None)
    ledger_keyring(setup)
    check_checkpoints(setup)


def _in_use(setup: Setup, data_dir: str | Path | None) -> LedgerInUse:
    from context_engine import __version__
    from context_engine.audit.ledger.key_change import enter_key
    from context_engine.audit.record.question import Pseudonyms
    from context_engine.audit.recorder import LedgerInUse
    from context_engine.audit.recorder.jobs import Drafts

    ledger, clock = open_ledger(setup, data_dir), SystemClock()
    enter_key(ledger, ledger.keyring, clock)
    secret = ledger.keyring.pseudonym_key if ledger.keyring is not None else ledger.pseudonym_salt
    drafts = Drafts(pseudonyms=Pseudonyms(secret), code_version=__version__, clock=clock, ids=TimeSortedIds())
    return LedgerInUse(ledger, drafts, LedgerCheckpoints(ledger, checkpoint_rhythm(setup)))


def check_installed(*, in_server: bool = False) -> None:
    """Report a missing extra now, without importing it; the import happens at the first record.

    Raises:
        MissingExtra: the extra `audit` is not installed.
    """
    for name in ("sqlalchemy", "cryptography", *(["psycopg"] if in_server else [])):
        if find_spec(name) is None:
            raise MissingExtra(_NEEDS, _EXTRA)


def _shared_key(setup: Setup, place: LedgerPlace) -> str:
    """Return the key under which engines share a writer: ledger, keys and checkpoint destinations."""
    values = setup.resolver.base().values.group(AuditSettings)
    parts = json.dumps([place.url, read_audit_keys(setup.env, setup.cwd), values.model_dump(mode="json")])
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


def _kept_of(setup: Setup, domain: str) -> QueryForm:
    """Return how to record the question of a refused request: as its domain says, else in the most private form."""
    domains = setup.registry.domains
    asked = [domains[domain]] if domain in domains else [None, *domains.values()]
    forms: set[QueryForm] = set()
    for spec in asked:
        try:
            forms.add(setup.resolver.base(spec).values.audit_query)
        except ConfigError:  # its wish is unknown
            forms.add("none")
    return next(form for form in _STRICTEST if form in forms)


_LAST_S: Final = 5.0  # most seconds that the end of a process waits for a program or a witness


def check_checkpoints(setup: Setup) -> None:
    """Refuse a configuration that cannot make or publish checkpoints.

    Raises:
        ConfigError: an unusable file or witness.
    """
    _file(setup)
    _witnesses(setup)


def checkpoint_rhythm(setup: Setup) -> Rhythm:
    """Return the schedule and the destinations of checkpoints.

    Raises:
        ConfigError: an unusable file or witness.
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
        f"{file!r} is relative: it would be a different file in each folder; write an absolute path",
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

    A last checkpoint is made even if the process is ending and can start no thread.

    Args:
        ledger: open for writing.
        rhythm: the schedule and the destinations.
    """

    def __init__(self, ledger: Ledger, rhythm: Rhythm) -> None:
        from context_engine.audit.ledger.publisher import Publisher

        self._ledger, self._rhythm, self._clock = ledger, rhythm, SystemClock()
        self._publisher = Publisher(ledger, rhythm, self._clock)
        self._alone = False

    def added(self, count: int = 1) -> None:
        """Count appended records."""
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
