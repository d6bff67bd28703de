"""A witness is asked as C2SP tlog-witness says, and what it refuses is told with its reason."""

from __future__ import annotations

import base64

import httpx
import pytest
import respx

from context_engine.adapters.witnesses import TlogWitness, open_witnesses
from context_engine.audit.formats.keys import COSIGNATURE, ED25519, VerifierKey
from context_engine.core.engine.search_plan import SystemClock
from context_engine.errors import AuditError, ConfigError
from context_engine.settings.connections import Connection

BASE = "https://witness.example/submit"

VKEY = VerifierKey("witness.example", bytes(32), COSIGNATURE).text

NOTE = "log.example/a\n3\nAAAA\n\n— log.example/a c2ln\n"


def _witness(**fields: object) -> TlogWitness:
    connection = Connection.model_validate({"base_url": BASE, **fields})
    return TlogWitness("outside", VKEY, lambda: connection, SystemClock())


def test_the_old_size_the_proof_and_the_checkpoint_are_sent_as_lines(respx_mock: respx.MockRouter) -> None:
    signature = "— witness.example AQIDBA==\n"
    route = respx_mock.post(f"{BASE}/add-checkpoint").mock(return_value=httpx.Response(200, text=signature))
    assert _witness().add_checkpoint(NOTE, 2, [b"\x01" * 32, b"\x02" * 32]) == signature
    first, second = (base64.b64encode(bytes([one]) * 32).decode() for one in (1, 2))
    assert route.calls.last.request.content.decode() == f"old 2\n{first}\n{second}\n\n{NOTE}"
    assert route.calls.last.request.headers["content-type"].startswith("text/plain")


def test_from_nothing_the_proof_is_empty(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(f"{BASE}/add-checkpoint").mock(return_value=httpx.Response(200, text=""))
    _witness().add_checkpoint(NOTE, 0, [])
    assert route.calls.last.request.content.decode() == f"old 0\n\n{NOTE}"


def test_a_witness_that_saw_another_size_last_says_which(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(f"{BASE}/add-checkpoint").mock(return_value=httpx.Response(409, text="20852014\n"))
    assert _witness().add_checkpoint(NOTE, 0, []) == 20852014


@pytest.mark.parametrize("body", ["", "many\n", "-1\n", "1" * 21, "12\n\n"])
def test_a_conflict_without_a_size_is_no_answer(respx_mock: respx.MockRouter, body: str) -> None:
    respx_mock.post(f"{BASE}/add-checkpoint").mock(return_value=httpx.Response(409, text=body))
    with pytest.raises(AuditError, match="409 does not state the size"):
        _witness().add_checkpoint(NOTE, 0, [])


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (403, "does not trust the key"),
        (404, "knows no log of this origin"),
        (422, "does not grow into this one"),
        (503, "failed inside"),
    ],
)
def test_a_refusal_says_why(respx_mock: respx.MockRouter, status: int, said: str) -> None:
    respx_mock.post(f"{BASE}/add-checkpoint").mock(return_value=httpx.Response(status, text="no"))
    with pytest.raises(AuditError, match=said) as caught:
        _witness().add_checkpoint(NOTE, 0, [])
    assert "witness 'outside'" in str(caught.value)


def test_a_witness_that_is_away_is_an_error_of_the_ledger(respx_mock: respx.MockRouter) -> None:
    respx_mock.post(f"{BASE}/add-checkpoint").mock(side_effect=httpx.ConnectError("refused"))
    with pytest.raises(AuditError, match="could not be reached"):
        _witness().add_checkpoint(NOTE, 0, [])


def test_a_setting_names_the_connection_and_whose_cosignature_counts() -> None:
    connection = Connection.model_validate({"base_url": BASE})
    (witness,) = open_witnesses([f"outside={VKEY}"], lambda _name: connection, SystemClock())
    assert (witness.name, witness.vkey) == ("outside", VKEY)


LOG_KEY = VerifierKey("witness.example", bytes(32), ED25519).text


@pytest.mark.parametrize("named", ["outside", "outside=", "outside=witness.example", VKEY, f"outside={LOG_KEY}"])
def test_a_witness_without_a_verifier_key_is_refused(named: str) -> None:
    connection = Connection.model_validate({"base_url": BASE})
    with pytest.raises(ConfigError, match=r"CONNECTION=NAME\+HASH\+KEY"):
        open_witnesses([named], lambda _name: connection, SystemClock())
