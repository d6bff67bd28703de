"""The plugin's endpoint: one call of the External Knowledge API, from its token to its answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from context_engine.apps.dify.backend import Backend
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.external import ExternalAnswer, authorised
from context_engine.apps.dify.failure import ToolFailure, guarded
from context_engine.apps.dify.fields import flag_field, text_field
from context_engine.apps.dify.retrieval import DEADLINE_S, Retrieval, read_retrieval, unanswered, unauthorised
from context_engine.errors import InvalidRequest

_NO_TOKEN: Final = "the access token is missing or wrong; in the endpoint's settings it has at least 32 characters"

Use = Callable[[Credentials], AbstractContextManager[Backend]]


def answer_retrieval(settings: Mapping[str, Any], header: str | None, body: bytes, use: Use) -> ExternalAnswer:
    """Answer a request as the principal of its access token.

    403 is a wrong token, 400 a request that cannot be used. An unknown domain, as is one that the principal may not
    know, and a search that failed are a 200 with one record that says so; without notice records they are a 400 and a
    424. Dify asks none of these again.

    Args:
        settings: of the endpoint: the plugin's fields, `access_token`, `notice_records`, `persona`.
        header: Authorization.
        body: of the request.
        use: opens what answers with these settings.
    """
    due = time.monotonic() + DEADLINE_S
    if not authorised(settings.get("access_token"), header):
        return unauthorised(_NO_TOKEN)
    request = read_retrieval(body)
    if isinstance(request, ExternalAnswer):
        return request
    try:
        notices = flag_field(settings, "notice_records", True)
        persona = text_field(settings, "persona")
    except InvalidRequest as error:
        return unanswered(error, notice_records=True)
    asked = request

    def search(credentials: Credentials) -> ExternalAnswer:
        retrieval = Retrieval(
            request=asked,
            due=due,
            notice_records=notices,
            persona=persona,
            hide=credentials.redactor.hide,
        )
        with use(credentials) as backend:
            return backend.retrieve(retrieval, credentials.access_token or "")

    try:
        return guarded(settings, search)
    except ToolFailure as error:
        return unanswered(error, notice_records=notices)
