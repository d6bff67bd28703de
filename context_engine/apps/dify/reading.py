"""How the plugin reads and cuts files: as the form says, and the bank's own configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from context_engine.apps.dify.certificate import read_certificates
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.plugin_settings import load_ingest
from context_engine.ingest import IngestOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How files are fetched and cut.

    Attributes:
        options: the chunking table, the limit of a chunk, and what a file may cost.
        authorities: PEM of certificates to trust when a file is fetched, beside the usual ones.
    """

    options: IngestOptions = field(default_factory=IngestOptions)
    authorities: str | None = None


def reading_of(credentials: Credentials, *, root: Path, env: Mapping[str, str] | None = None) -> Reading:
    """Return how a plugin reads files.

    Args:
        credentials: the form.
        root: the plugin's folder.
        env: the process's own if None; the form's variables win.

    Raises:
        ConfigError: the certificate or the configuration cannot be used.
    """
    typed = credentials.ca_certificate
    return Reading(
        options=load_ingest(credentials, root=root, env=env),
        authorities=None if typed is None else read_certificates(typed),
    )
