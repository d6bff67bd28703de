"""Requests signed for IAM of AWS (Signature Version 4), by the signer of AWS's own library."""

from __future__ import annotations

import logging
from collections.abc import Generator
from functools import cache
from typing import Any, Final

import httpx
from pydantic import SecretStr

from context_engine.adapters.http.keys import ApiKey
from context_engine.errors import ConfigError, MissingExtra, SourceAuthError
from context_engine.secrecy import keep_secret

try:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session
except ImportError as error:
    raise MissingExtra("aws_region of a connection", "aws") from error

logging.getLogger("botocore.auth").setLevel(logging.INFO)  # below, it logs session tokens
_SERVICE: Final = "es"
"""The name of Amazon OpenSearch Service in signatures."""


class SignedAccess(ApiKey):
    """Signs requests; safe for several threads.

    Args:
        region: of the server.
        key_id, secret: an access key; None: the credentials that this machine has, which are renewed as they expire.
        service: the server's name in signatures.

    Raises:
        ConfigError: the machine has no credentials.
    """

    __slots__ = ("_credentials", "_region", "_service")
    requires_request_body = True

    def __init__(self, region: str, key_id: str | None, secret: SecretStr | None, service: str = _SERVICE) -> None:
        own = key_id is not None and secret is not None
        self._region, self._service = region, service
        self._credentials = Credentials(key_id, secret.get_secret_value()) if own and secret else _of_machine()
        self._secret = SecretStr(f"{key_id}/{secret.get_secret_value()}" if secret else f"the machine's/{region}")

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Sign a request.

        Raises:
            SourceAuthError: the machine's credentials have expired and could not be renewed.
        """
        request.headers.update(self._signature(request))
        yield request

    def _signature(self, request: httpx.Request) -> dict[str, str]:
        """Return the headers that sign a request; they cover its method, address, body and time."""
        try:
            credentials = self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            problem = f"the machine's credentials for AWS could not be renewed ({type(error).__name__})"
        else:
            for secret in (credentials.secret_key, credentials.token):
                keep_secret(secret or "")
            signed = AWSRequest(request.method, str(request.url), data=request.content)
            SigV4Auth(credentials, self._service, self._region).add_auth(signed)
            return {name: str(value) for name, value in signed.headers.items()}
        raise SourceAuthError(problem)


@cache
def _of_machine() -> Any:
    """Return the credentials of environment, configuration files, container or instance, looked for once."""
    try:
        credentials = Session().get_credentials()
    except BotoCoreError as error:
        raise ConfigError(f"the machine's credentials for AWS cannot be used: {type(error).__name__}") from None
    if credentials is None:
        raise ConfigError("this machine has no credentials for AWS: give it a role, or the connection user and api_key")
    return credentials
