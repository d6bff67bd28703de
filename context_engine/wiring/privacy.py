"""The mask of a configuration: its maskers, its pseudonym key, and the places where it applies."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import EffectiveSettings, Notice, NoticeCode, PrivacySettings, Settings
from context_engine.core.protocols import Masker
from context_engine.errors import ConfigError, MissingExtra
from context_engine.secrecy import mask_logs
from context_engine.settings import SettingsResolver
from context_engine.settings.environment_secrets import PRIVACY_KEY, read_privacy_key
from context_engine.settings.registry import LoadedRegistry
from context_engine.wiring.adapters import MASKERS, find_adapter, load_adapter

if TYPE_CHECKING:
    from context_engine.core.policy.masking import PseudonymMask


_NO_KEY: Final = (
    f"personal data is masked without {PRIVACY_KEY}: pseudonyms come from a random key, so that the same "
    "person has a different one in every process; set it to keep them comparable"
)


class ConfiguredMask:
    """The configured mask, opened at first use; a `Mask`. Thread-safe.

    Args:
        settings: the settings without those of a domain or call, because personal data are the same for all.
        env, cwd: where to find its key.
    """

    def __init__(self, settings: Callable[[], EffectiveSettings], *, env: Mapping[str, str], cwd: Path) -> None:
        self._settings, self._env, self._cwd = settings, env, cwd
        self._lock = Lock()
        self._opened: PseudonymMask | None = None

    def __call__(self, text: str) -> str:
        """Return a text with personal data masked.

        Raises:
            ConfigError: the mask cannot be opened; then no text is released.
            MaskingError: a masker failed.
        """
        return self.opened()(text)

    def opened(self) -> PseudonymMask:
        """Return the mask.

        Raises:
            MissingExtra: the extra `privacy` is not installed.
            ConfigError: an unusable setting, key or masker.
        """
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _open(self) -> PseudonymMask:
        from context_engine.adapters.maskers import PersonalDataOptions, open_personal_data
        from context_engine.core.policy.masking import PseudonymMask

        effective = self._settings()
        values = effective.values
        options = PersonalDataOptions(
            kinds=values.mask_kinds,
            countries=values.mask_countries,
            phone_regions=values.mask_phone_regions,
            patterns=values.mask_patterns,
        )
        try:
            built_in: Masker = open_personal_data(options)
        except MissingExtra:
            raise
        except ConfigError as error:
            raise _placed(error, effective) from None
        further = [_open_masker(name, options, effective) for name, options in values.maskers.items()]
        key = read_privacy_key(self._env, self._cwd) or _process_key()
        return PseudonymMask([built_in, *further], key, values.mask_allow)


def check_patterns(effective: EffectiveSettings) -> None:
    """Check the bank's own patterns, whether or not anything is masked.

    Raises:
        ConfigError: an unusable pattern.
    """
    from context_engine.adapters.maskers.personal_data import read_patterns

    try:
        read_patterns(effective.values.mask_patterns)
    except ConfigError as error:
        raise _placed(ConfigError(error.problem, key=f"mask_patterns.{error.key}"), effective) from None


class Masking(NamedTuple):
    """The kinds of data that are masked, and the places.

    Attributes:
        contexts, stored_queries: the domains whose contexts, and whose stored questions, are masked.
        logs: whether log records are masked.
        kinds: the masked kinds, and the names of own patterns and further maskers.
        key: the variable with the pseudonym key; None: a random key per process.
    """

    contexts: tuple[str, ...] = ()
    stored_queries: tuple[str, ...] = ()
    logs: bool = False
    kinds: tuple[str, ...] = ()
    key: str | None = None

    @property
    def on(self) -> bool:
        """Whether anything is masked."""
        return bool(self.contexts or self.stored_queries or self.logs)


def masking(resolver: SettingsResolver, registry: LoadedRegistry, env: Mapping[str, str]) -> Masking:
    """Return the masking of each searchable domain."""
    try:
        base = resolver.base().values
    except ConfigError:  # contradictory settings: no search is possible, and `config check` says why
        return Masking()
    by_domain = dict(_by_domain(resolver, registry))
    return Masking(
        contexts=tuple(name for name, values in by_domain.items() if values.mask_contexts),
        stored_queries=tuple(name for name, values in by_domain.items() if values.mask_stored_queries),
        logs=base.mask_logs,
        kinds=(*base.mask_kinds, *base.mask_patterns, *base.maskers),
        key=PRIVACY_KEY if env.get(PRIVACY_KEY) else None,
    )


def _by_domain(resolver: SettingsResolver, registry: LoadedRegistry) -> Iterator[tuple[str, Settings]]:
    for name, spec in sorted(registry.domains.items()):
        try:
            yield name, resolver.base(spec).values
        except ConfigError:  # contradictory settings, which a search of the domain reports
            continue


class PrivacyReport(NamedTuple):
    """Where personal data is masked; `problem` says why masking fails, which blocks searches of these domains."""

    masking: Masking
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {**self.masking._asdict(), "problem": self.problem}


def privacy_report(masking: Masking, mask: Callable[[], ConfiguredMask]) -> PrivacyReport:
    """Return where personal data is masked, and test the mask if it is used anywhere."""
    try:
        if masking.on:
            mask().opened()
    except ConfigError as error:
        return PrivacyReport(masking, str(error))
    return PrivacyReport(masking)


def masking_notices(masked: Masking) -> tuple[Notice, ...]:
    """Return a notice if masked texts of two processes cannot be compared."""
    return (Notice(NoticeCode.PRIVACY_KEY_MISSING, PRIVACY_KEY, _NO_KEY),) if masked.on and masked.key is None else ()


def mask_log_records(mask: ConfiguredMask, settings: EffectiveSettings) -> None:
    """Mask the log records of this process from now on, if the settings say so.

    Raises:
        ConfigError: the mask cannot be opened.
    """
    if settings.values.mask_logs:
        opened = mask.opened()
        as_set = settings.values.group(PrivacySettings).model_dump_json()
        mask_logs(opened.pseudonym("SETTINGS", as_set), opened)


def _open_masker(name: str, options: Mapping[str, Any], effective: EffectiveSettings) -> Masker:
    key, file = f"maskers.{name}", effective.origins.get("maskers", "default")
    factory = load_adapter(find_adapter(MASKERS, name, file=file, key=key))
    try:
        if _takes_options(factory):
            masker = factory(options)
        elif options:
            raise ConfigError(f"{name!r} takes no options: remove {', '.join(sorted(options))}")
        else:
            masker = factory()
    except ConfigError as error:
        if error.file:
            raise
        where = ".".join(part for part in (key, error.key) if part)
        raise ConfigError(error.problem, file=file, key=where) from error
    if not isinstance(masker, Masker):
        raise ConfigError(f"made a {type(masker).__name__}, which has no find(text)", file=file, key=key)
    return masker


def _takes_options(factory: Callable[..., Any]) -> bool:
    try:
        inspect.signature(factory).bind({})
    except (TypeError, ValueError):
        return False
    return True


def _placed(error: ConfigError, effective: EffectiveSettings) -> ConfigError:
    """Return a problem together with the file that set its key."""
    setting = (error.key or "").partition(".")[0]
    return ConfigError(error.problem, file=effective.origins.get(setting), key=error.key)


@cache
def _process_key() -> bytes:
    return secrets.token_bytes(32)
