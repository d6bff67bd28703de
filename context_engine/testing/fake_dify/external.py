"""How Dify registers an External Knowledge API: one probe, and which answers it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

__all__ = ["RegistrationRefused", "register_external"]

_PROBE: Final = {"knowledge_id": "", "query": "", "retrieval_setting": {"top_k": 1, "score_threshold": 0.0}}
_ASKED_AGAIN: Final = (429, 500, 502, 503, 504)
_PAUSES_S: Final = (0.5, 1.0, 2.0)
_TIMEOUT_S: Final = 5.0


class RegistrationRefused(Exception):
    """Dify does not take the endpoint; the text is what its console shows."""


def register_external(
    endpoint: str, api_key: str, *, modern: bool = False, pause: Callable[[float], object] = lambda _seconds: None
) -> int:
    """Probe an endpoint as Dify does when it is registered, and return the status of the answer that was taken.

    Only 403, 404, 502, an answer that is asked for again in vain and no answer at all are refused: a 400, a 401 or a
    500 of another kind registers.

    Args:
        endpoint: "/retrieval" is put behind it as it is.
        api_key: sent as a bearer token.
        modern: the probe has a JSON body, as in newer versions; an empty one otherwise.
        pause: waits between tries, given seconds.

    Raises:
        RegistrationRefused: Dify refuses it.
    """
    if not endpoint or not api_key:
        raise RegistrationRefused(f"{'api_key' if endpoint else 'endpoint'} is required")
    url = f"{endpoint}/retrieval"
    parts = urlsplit(url)
    if not (parts.scheme and parts.netloc):
        raise RegistrationRefused(f"invalid endpoint: {url}")
    body: dict[str, Any] = {"json": _PROBE} if modern else {}
    status = _asked(url, {"Authorization": f"Bearer {api_key}"}, body, pause)
    problem = {
        403: f"Forbidden: Authorization failed with api_key: {api_key}",
        404: f"Not Found: failed to connect to the endpoint: {url}",
        502: f"Bad Gateway: failed to connect to the endpoint: {url}",
    }
    if status in problem:
        raise RegistrationRefused(problem[status])
    return status


def _asked(url: str, headers: dict[str, str], body: dict[str, Any], pause: Callable[[float], object]) -> int:
    """Return the status of the first answer that is not asked for again; one try and three more."""
    for seconds in (*_PAUSES_S, None):
        try:
            answer = httpx.post(
                url, headers=headers, timeout=_TIMEOUT_S, follow_redirects=True, trust_env=False, **body
            )
            status: int | None = answer.status_code
        except httpx.HTTPError:
            status = None
        if status is not None and status not in _ASKED_AGAIN:
            return status
        if seconds is not None:
            pause(seconds)
    raise RegistrationRefused(f"failed to connect to the endpoint: {url}")
