"""Clients of C2SP tlog-witness servers, which cosign a checkpoint after checking that the log only grew."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from context_engine.adapters.http import Api, ApiClient, HttpAnswer, HttpCall, Meaning
from context_engine.adapters.http.client import PHASES
from context_engine.audit.formats.keys import COSIGNATURE, VerifierKey
from context_engine.audit.formats.strict import FormatError
from context_engine.core.protocols import Clock
from context_engine.errors import (
    AuditError,
    ConfigError,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
)
from context_engine.settings.connections import Connection

_MOST_BYTES: Final = 256 * 1024
_MOST_DIGITS: Final = 20
_CONFLICT: Final = 409
_STATUSES: Final[Mapping[int, Meaning]] = {
    400: Meaning(SourceProtocolError, "{name} cannot read the checkpoint (400)", "see whether it speaks tlog-witness"),
    403: Meaning(
        SourceForbidden,
        "{name} does not trust the key that the checkpoint is signed with (403)",
        "give its operator the verifier key of this ledger",
    ),
    404: Meaning(
        SourceNotFound,
        "{name} knows no log of this origin (404)",
        "have its operator add audit_origin, or correct base_url",
    ),
    422: Meaning(
        SourceProtocolError,
        "{name} refuses the checkpoint: the log it saw before does not grow into this one (422)",
        "the ledger was changed, rolled back or forked; run 'context-engine audit verify'",
    ),
}
_API: Final = Api(statuses=_STATUSES, good=frozenset({200, _CONFLICT}), max_bytes=_MOST_BYTES)


class TlogWitness:
    """A client of one witness. Thread-safe.

    Args:
        vkey: its verifier key, NAME+HASH+KEY; only cosignatures of this key count.
        connect: returns its connection; the submission prefix is the base URL.
    """

    def __init__(self, name: str, vkey: str, connect: Callable[[], Connection], clock: Clock) -> None:
        self.name, self.vkey = name, vkey
        self._client, self._clock = ApiClient(_API, connect, clock), clock

    def add_checkpoint(self, note: str, old_size: int, proof: Sequence[bytes]) -> str | int:
        """Return the signature lines of its cosignatures; or the size it last cosigned, if `old_size` differs.

        Args:
            old_size: records of the checkpoint that it cosigned last; 0 if none.
            proof: consistency proof from `old_size` to the checkpoint, 32 bytes each; empty from 0.

        Raises:
            AuditError: the witness refuses, cannot be reached, or violates the protocol.
        """
        hashes = "".join(f"{base64.b64encode(node).decode()}\n" for node in proof)
        problem = ""
        try:
            answer = self._post(f"old {old_size}\n{hashes}\n{note}")
        except (SourceError, ConfigError) as error:
            problem = f"witness {self.name!r}: {error}"
        if problem:
            raise AuditError(problem)  # outside the except, so that it carries no context
        text = answer.body.decode("utf-8", "replace")
        return text if answer.status != _CONFLICT else self._size(text)

    def close(self) -> None:
        self._client.close()

    def _post(self, body: str) -> HttpAnswer:
        access = self._client.access()
        due = self._clock.monotonic() + PHASES * access.connection.timeout_s
        call = HttpCall("POST", "add-checkpoint", body)
        return self._client.call(call, access, lambda: due - self._clock.monotonic())

    def _size(self, text: str) -> int:
        digits = text.removesuffix("\n")
        if not digits.isascii() or not digits.isdecimal() or len(digits) > _MOST_DIGITS:
            raise AuditError(f"witness {self.name!r}: its answer 409 does not state the size that it last cosigned")
        return int(digits)


def open_witnesses(
    named: Sequence[str], connection: Callable[[str], Connection], clock: Clock
) -> tuple[TlogWitness, ...]:
    """Return the witnesses of a setting; nothing is sent yet.

    Args:
        named: CONNECTION=NAME+HASH+KEY each: the connection and the witness's verifier key.
        connection: returns a connection by its name, read anew.

    Raises:
        ConfigError: an entry has another form, or its connection cannot be used.
    """
    return tuple(_opened(witness, connection, clock) for witness in named)


def _opened(named: str, connection: Callable[[str], Connection], clock: Clock) -> TlogWitness:
    name, _, vkey = named.partition("=")
    try:
        if VerifierKey.parse(vkey).kind != COSIGNATURE:
            raise FormatError("it is the key of a log, not of a witness")
    except FormatError as error:
        raise ConfigError(
            f"{named!r} does not name the key whose cosignature counts ({error}): write CONNECTION=NAME+HASH+KEY, "
            "with the verifier key that the witness's operator publishes",
            key="audit_witnesses",
        ) from None
    connection(name)
    return TlogWitness(name, vkey, lambda: connection(name), clock)
