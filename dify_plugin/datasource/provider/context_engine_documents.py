"""The provider: its credentials are tried for real before they are saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dify_plugin.errors.tool import ToolProviderCredentialValidationError
from dify_plugin.interfaces.datasource import DatasourceProvider
from plugin_runtime import called

from context_engine.apps.dify.failure import ToolFailure


class CredentialsValidateFailedError(ToolProviderCredentialValidationError):
    """A refused form.

    Dify shows the message alone for an error of this name. For any other it shows the SDK's whole traceback.
    """


class ContextEngineDocumentsProvider(DatasourceProvider):
    """Checks the form: lists the domains."""

    def _validate_credentials(self, credentials: Mapping[str, Any]) -> None:
        try:
            called(credentials, "browse", {})
            return
        except ToolFailure as error:
            problem = str(error)
        raise CredentialsValidateFailedError(problem)
