"""The provider: its credentials are tried for real before they are saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dify_plugin.errors.model import CredentialsValidateFailedError
from dify_plugin.interfaces.datasource import DatasourceProvider
from plugin_runtime import called


class ContextEngineDocumentsProvider(DatasourceProvider):
    """Checks the form: lists the domains."""

    def _validate_credentials(self, credentials: Mapping[str, Any]) -> None:
        called(credentials, "browse", {}, refused=CredentialsValidateFailedError)
