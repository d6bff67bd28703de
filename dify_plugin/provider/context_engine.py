"""The provider: its credentials are tried for real before they are saved."""

from __future__ import annotations

from typing import Any

import plugin_runtime
from dify_plugin import ToolProvider
from dify_plugin.errors.tool import ToolProviderCredentialValidationError

from context_engine.apps.dify.failure import ToolFailure, guarded


class CredentialsValidateFailedError(ToolProviderCredentialValidationError):
    """A refused form.

    Dify shows the message alone for an error of this name. For any other it shows the SDK's whole traceback.
    """


class ContextEngineProvider(ToolProvider):
    """Checks the form."""

    def _validate_credentials(self, credentials: dict[str, Any]) -> None:
        def checked(read: Any) -> None:
            with plugin_runtime.ENGINES.use(read) as backend:
                backend.check()

        try:
            guarded(credentials, checked)
            return
        except ToolFailure as error:
            problem = str(error)
        raise CredentialsValidateFailedError(problem)
