"""The configuration of a plugin, read from its credentials: settings, ingest options and audit ledger.

The domains come from the form field `domains` if it is filled, otherwise from the folders `config/` and `manifests/`
packed into the plugin. With `demo_bank` ticked they are the demo bank's, and any other domain is refused: the two are
never mixed. The form's base URL, key, certificate, proxy and number of parallel calls override the connection `dify`.

Replicas of a plugin share no files, and its folder is replaced on upgrade, so the audit ledger is on a server."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_engine import demo
from context_engine.apps.dify.credentials import Credentials, read_certificates
from context_engine.apps.dify.settings_line import SettingsLine, read_line
from context_engine.core.protocols import Recorder
from context_engine.errors import ConfigError, MissingExtra
from context_engine.ingest.reading import IngestOptions
from context_engine.settings import Config, ConfigPaths, find_data_dir, load_config
from context_engine.settings.connections import read_fields
from context_engine.settings.environment_secrets import AUDIT_LEDGER, read_audit_ledger
from context_engine.settings.files import Interpolator
from context_engine.settings.load import STAGE_VARIABLE
from context_engine.wiring.audit import AuditMode, audit_mode, ledger_place, open_recorder
from context_engine.wiring.setup import Setup, usable_setup

CONNECTION: Final = "dify"
_PACKED: Final = "package"
_MOST_SILENT_S: Final = 30.0

NO_DOMAINS: Final = (
    "no domain is configured: fill in 'Server URL' and 'Server token', paste the line of "
    "'context-engine plugin settings' into 'Domains', install a package with manifests in it "
    "('context-engine plugin pack --manifests DIR'), or set 'Demo bank' to True"
)

TWO_BANKS: Final = (
    "'Demo bank' is True and domains are configured: set it to False to search your own, or remove the domains"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSetup:
    """A configuration with the folder of its files.

    Attributes:
        demo: whether the domains are the fictitious bank's.
        data_dir: the folder of the embedded base; None for the usual one.
        folder: has the form's values that are needed as files; removed with this object.
    """

    setup: Setup
    demo: bool
    data_dir: Path | None
    folder: tempfile.TemporaryDirectory[str]


def load_plugin(credentials: Credentials, *, root: Path, env: Mapping[str, str] | None = None) -> PluginSetup:
    """Return the configuration of a plugin.

    Args:
        env: the environment, None for that of the process; the form's variables override it.

    Raises:
        ConfigError: an invalid value; the message says which and how to fix it.
    """
    folder = tempfile.TemporaryDirectory(prefix="context-engine-plugin-")
    place = Path(folder.name)
    line = _line(credentials)
    paths = _own_paths(line, root, place)
    variables = _variables(credentials, paths, env)
    if credentials.demo_bank and paths is not None:
        raise ConfigError(TWO_BANKS, key="demo_bank")
    if credentials.demo_bank:
        paths = ConfigPaths(origin="demo bank", config_dir=None, manifest_dir=demo.MANIFESTS, cwd=demo.MANIFESTS)
    if paths is None:
        raise ConfigError(NO_DOMAINS, key="domains")
    setup = _loaded(paths, line, credentials, place, variables)
    data_dir = _demo_base(setup) if credentials.demo_bank else None
    return PluginSetup(setup=setup, demo=credentials.demo_bank, data_dir=data_dir, folder=folder)


def load_ingest(credentials: Credentials, *, root: Path, env: Mapping[str, str] | None = None) -> IngestOptions:
    """Return the ingest options of the configuration: chunking table, chunk limit and `ingest.json`.

    `file_timeout_s` is limited to 30 seconds, because Dify's runtime ends the call. Arguments: see `load_plugin`.

    Raises:
        ConfigError: an invalid configuration.
    """
    with tempfile.TemporaryDirectory(prefix="context-engine-plugin-") as folder:
        paths = _own_paths(_line(credentials), root, Path(folder))
        if paths is None:
            return IngestOptions()
        config = load_config(paths, env=_variables(credentials, paths, env))
    silent = min(config.ingest.file_timeout_s, _MOST_SILENT_S)
    return IngestOptions(
        strategies=config.chunking,
        max_chunk_tokens=config.resolver().base().chunk_limit,
        settings=config.ingest.model_copy(update={"file_timeout_s": silent}),
    )


def _variables(credentials: Credentials, paths: ConfigPaths | None, env: Mapping[str, str] | None) -> dict[str, str]:
    variables = {**(os.environ if env is None else env), **credentials.variables}
    if paths is None or paths.origin != _PACKED:
        variables.pop(STAGE_VARIABLE, None)  # a settings line is for one stage only
    return variables


def _own_paths(line: SettingsLine | None, root: Path, place: Path) -> ConfigPaths | None:
    """Return the line's files, written to a folder, or those packed into the plugin, or None."""
    if line is None:
        return _packed(root)
    line.write_files(place)
    return ConfigPaths(origin="domains", config_dir=place / "config", manifest_dir=place / "manifests", cwd=place)


def _line(credentials: Credentials) -> SettingsLine | None:
    return None if credentials.domains is None else read_line(credentials.domains)


def _packed(root: Path) -> ConfigPaths | None:
    """Return the folders packed into the plugin, or None if they hold no manifest."""
    config, manifests = root / "config", root / "manifests"
    paths = ConfigPaths(
        origin=_PACKED, config_dir=config if config.is_dir() else None, manifest_dir=manifests, cwd=root
    )
    return paths if paths.manifests() else None


def _loaded(
    paths: ConfigPaths, line: SettingsLine | None, credentials: Credentials, place: Path, env: dict[str, str]
) -> Setup:
    config = _connected(load_config(paths, env=env), line, credentials, place, env)
    return usable_setup(config, env, paths.cwd)


def _connected(
    config: Config, line: SettingsLine | None, credentials: Credentials, place: Path, env: dict[str, str]
) -> Config:
    """Return the configuration with the line's connections; the form overrides the connection `dify`."""
    connections = config.connections
    if line is not None and line.connections:
        connections = connections.over(
            read_fields(line.connections, Interpolator(env, place, "domains: connections", files=True))
        )
    form = _form_connection(credentials, place, env)
    if form:
        connections = connections.over(read_fields({CONNECTION: form}, Interpolator(env, place, "credentials")))
    return replace(config, connections=connections)


def _form_connection(credentials: Credentials, place: Path, env: dict[str, str]) -> dict[str, Any]:
    """Return the form's connection; its values are passed as variables, so that none is shown."""
    connection: dict[str, Any] = {}
    fields = {"base_url": credentials.base_url, "api_key": credentials.api_key, "proxy": credentials.proxy}
    for key, value in fields.items():
        if value is not None:
            name = f"DIFY_{key.upper()}"
            env[name] = value
            connection[key] = f"${{{name}}}"
    if credentials.max_connections is not None:
        connection["max_connections"] = credentials.max_connections
    if credentials.ca_certificate is not None:
        (place / "ca.pem").write_text(read_certificates(credentials.ca_certificate), "ascii")
        connection["ca_bundle"] = "ca.pem"
    return connection


def _demo_base(setup: Setup) -> Path:
    """Return the demo's data folder, built on first use; it is in the temporary folder if no other is writable."""
    try:
        return demo.ensure_base(find_data_dir(env=setup.env, cwd=setup.cwd), setup.registry)
    except ConfigError:
        user = os.getuid() if hasattr(os, "getuid") else "all"
        return demo.ensure_base(Path(tempfile.gettempdir()) / f"context-engine-{user}", setup.registry)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """How files are downloaded and cut.

    Attributes:
        options: the chunking table, the limit of a chunk, and the limits of a file.
        authorities: PEM of certificates to trust for downloads, beside the usual ones.
    """

    options: IngestOptions = field(default_factory=IngestOptions)
    authorities: str | None = None


def reading_of(credentials: Credentials, *, root: Path, env: Mapping[str, str] | None = None) -> FileReading:
    """Return how a plugin reads files; arguments are those of `load_plugin`.

    Raises:
        ConfigError: an invalid certificate or configuration.
    """
    typed = credentials.ca_certificate
    return FileReading(
        options=load_ingest(credentials, root=root, env=env),
        authorities=None if typed is None else read_certificates(typed),
    )


_IN_SERVER: Final = (
    f"set {AUDIT_LEDGER} among the variables to a PostgreSQL database, postgresql://USER:PASSWORD@HOST/DATABASE"
)

_NO_FILE: Final = "the plugin's folder is replaced on upgrade and each replica has its own, so records need a server"
_NOT_PACKED: Final = "this package cannot write to a ledger: pack it with 'plugin pack --audit'"


class PluginAudit(NamedTuple):
    """The audit mode of the plugin.

    Attributes:
        mode: in force.
        problem: the reason if the configured mode is not in force.
    """

    mode: AuditMode
    problem: str | None = None

    def __str__(self) -> str:
        return f"audit: {self.mode}" + (f" ({self.problem})" if self.problem else "")


def plugin_audit(setup: Setup) -> PluginAudit:
    """Return whether searches are recorded.

    Raises:
        ConfigError: records are required without a server for them, or the ledger is a file.
    """
    mode = audit_mode(setup)
    if mode == "off":
        return PluginAudit("off")
    if read_audit_ledger(setup.env, setup.cwd) is None:
        if mode == "required":
            raise ConfigError(f"is 'required', and there is no ledger: {_NO_FILE}; {_IN_SERVER}", key="audit_mode")
        return PluginAudit("off", problem=f"audit_mode is {mode!r}, and there is no ledger: {_IN_SERVER}")
    if ledger_place(setup).file is not None:
        raise ConfigError(f"names a file: {_NO_FILE}; {_IN_SERVER}", key=AUDIT_LEDGER)
    return PluginAudit(mode)


def plugin_recorder(setup: Setup, *, rankings: bool = False) -> Recorder | None:
    """Return the recorder of the plugin's searches, or None.

    Args:
        rankings: whether to record rankings of other nodes' passages instead.

    Raises:
        ConfigError: see `plugin_audit`; also an invalid key, or a plugin packed without support for a ledger.
    """
    if plugin_audit(setup).mode == "off":
        return None
    try:
        return open_recorder(setup, kind="rank" if rankings else "search")
    except MissingExtra:
        raise ConfigError(_NOT_PACKED, key=AUDIT_LEDGER) from None
