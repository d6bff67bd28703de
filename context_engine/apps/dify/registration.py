"""A simulation of Dify's calls to an External Knowledge API: two registration probes and one retrieval.

Dify appends `/retrieval` to the unchanged address, waits five seconds, follows redirects, and repeats a request three
times after a 429 or a 5xx; here each request is sent once. Dify uses httpx with its defaults, and so does this module.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import httpx

TIMEOUT_S: Final = 5.0
_REFUSED: Final = {
    403: "the access token was refused",
    404: "there is no endpoint at this address",
    502: "a gateway in between cannot reach it",
}
_ASKED_AGAIN: Final = (429, 500, 502, 503, 504)
_MOST_SHOWN: Final = 300


class SimulatedCall(NamedTuple):
    """A simulated call, and Dify's reaction to the answer.

    Attributes:
        step: registration, newer registration, retrieval.
        status: HTTP; None without an answer.
        verdict: Dify's reaction, in a sentence.
        records: number of records of a retrieval.
    """

    step: str
    ok: bool
    status: int | None
    elapsed_s: float
    verdict: str
    records: int | None = None


def simulate_calls(address: str, token: str, *, domain: str | None, query: str) -> list[SimulatedCall]:
    """Simulate the registration probes, and a retrieval if a domain is given.

    Args:
        address: as registered in Dify, without `/retrieval`.
        token: the API key of the registration.
        domain: the External Knowledge ID; None for the probes only.
    """
    url, headers = f"{address}/retrieval", {"Authorization": f"Bearer {token}"}
    newer = {"knowledge_id": "", "query": "", "retrieval_setting": {"top_k": 1, "score_threshold": 0.0}}
    with httpx.Client() as client:
        played = [
            _registered("registration", _sent(client, url, headers, None)),
            _registered("newer registration", _sent(client, url, headers, newer)),
        ]
        if domain is not None:
            setting = {"top_k": 4, "score_threshold": 0.0}
            body = {"retrieval_setting": setting, "query": query, "knowledge_id": domain, "metadata_condition": None}
            played.append(_retrieved(_sent(client, url, headers, body, follow=True)))
    return played


class _RegistrationCall(NamedTuple):
    """An answer, or the reason why there is none."""

    answer: httpx.Response | None
    elapsed_s: float
    problem: str = ""

    @property
    def status(self) -> int | None:
        return None if self.answer is None else self.answer.status_code


def _sent(
    client: httpx.Client, url: str, headers: Mapping[str, str], body: Mapping[str, Any] | None, *, follow: bool = False
) -> _RegistrationCall:
    """Send a request as Dify does: the older probe has no body and no Content-Type."""
    started = time.monotonic()
    try:
        answer = client.post(url, headers=headers, json=body, timeout=TIMEOUT_S, follow_redirects=follow)
    except httpx.TimeoutException:
        return _RegistrationCall(None, time.monotonic() - started, f"no answer within {TIMEOUT_S:g} s")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return _RegistrationCall(None, time.monotonic() - started, f"it cannot be reached ({type(error).__name__})")
    return _RegistrationCall(answer, time.monotonic() - started)


def _registered(step: str, sent: _RegistrationCall) -> SimulatedCall:
    status = sent.status
    if status is None:
        ok, verdict = False, f"Dify refuses the registration: {sent.problem}"
    elif status in _REFUSED:
        ok, verdict = False, f"Dify refuses the registration: {_REFUSED[status]}"
    elif status in _ASKED_AGAIN:
        ok, verdict = False, "Dify retries three times, then refuses the registration"
    elif status == 401:
        ok, verdict = False, "Dify registers it, though the token was refused: every search would find nothing"
    else:
        ok, verdict = True, "Dify registers it"
    return SimulatedCall(step, ok, status, round(sent.elapsed_s, 3), verdict)


def _retrieved(sent: _RegistrationCall) -> SimulatedCall:
    ok, verdict, count = _judged(sent)
    return SimulatedCall("retrieval", ok, sent.status, round(sent.elapsed_s, 3), verdict, count)


def _judged(sent: _RegistrationCall) -> tuple[bool, str, int | None]:
    nothing = "Dify's node says 'succeeded, nothing found', or fails (since 1.16)"
    answer = sent.answer
    if answer is None:
        return False, f"{nothing}: {sent.problem}, four times over", None
    if answer.status_code != 200:
        again = ", after asking three times more" if answer.status_code in _ASKED_AGAIN else ""
        return False, f"{nothing}{again}: {_short(answer.text)}", None
    try:
        records = answer.json().get("records")
    except (ValueError, AttributeError, RecursionError):
        return False, f"{nothing}: the answer is not a JSON object: {_short(answer.text)}", None
    if not isinstance(records, list) or not all(isinstance(record, Mapping) for record in records):
        return False, f"{nothing}: the answer has no list of 'records'", None
    return _of_records(records)


def _of_records(records: list[Mapping[str, Any]]) -> tuple[bool, str, int | None]:
    kept = [record for record in records if isinstance(record.get("metadata"), Mapping)]
    notices = [str(record.get("content")) for record in kept if record["metadata"].get("notice") is True]
    if notices:
        return False, f"the node gets a notice: {_short(notices[0])}", len(records)
    if len(kept) < len(records):
        problem = (
            f"the node drops {len(records) - len(kept)} of {len(records)} records: their 'metadata' is not an object"
        )
        return False, problem, len(records)
    if any(not isinstance(record.get("content"), str) or record.get("score") is None for record in kept):
        return False, "a record lacks 'content' or 'score': the node cannot use or sort it", len(records)
    return True, f"the node gets {len(records)} record{'s' * (len(records) != 1)}", len(records)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…"
