"""The TLS of a connection: whom it trusts, and by what it shows who it is."""

from __future__ import annotations

import ssl

import httpx

from context_engine.errors import ConfigError
from context_engine.settings.connections import Connection


def tls_context(connection: Connection) -> ssl.SSLContext:
    """Return the TLS context of a connection's CA bundle and client certificate.

    Raises:
        ConfigError: one of the files cannot be used.
    """
    try:
        if connection.ca_bundle is None:
            context = httpx.create_ssl_context()
        else:
            context = ssl.create_default_context(cafile=str(connection.ca_bundle))
        if connection.client_certificate is not None:
            context.load_cert_chain(connection.client_certificate, connection.client_key)
        return context
    except (OSError, ssl.SSLError) as error:
        reason = type(error).__name__
    raise ConfigError(f"a certificate file of the connection to {connection.shown_url} cannot be used ({reason})")
