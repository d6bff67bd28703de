"""Requests are signed as AWS documents it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import respx
from pydantic import SecretStr, ValidationError

from context_engine.adapters.http import Api, ApiClient, HttpCall, signing
from context_engine.adapters.http.signing import SignedAccess
from context_engine.core.engine import SystemClock
from context_engine.errors import ConfigError
from context_engine.settings.connections import Connection

KEY, SECRET = "AKIDEXAMPLE", SecretStr("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
BASE = "https://search.bank.example"


@pytest.fixture(autouse=True)
def at_the_time_of_the_published_example(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: moment)


def signed(access: SignedAccess, request: httpx.Request) -> httpx.Headers:
    return next(access.sync_auth_flow(request)).headers


@pytest.mark.parametrize(
    ("method", "url", "signature"),
    [  # get-vanilla, get-vanilla-query-order-key-case and post-vanilla of AWS's test suite
        ("GET", "https://example.amazonaws.com/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (
            "GET",
            "https://example.amazonaws.com/?Param2=value2&Param1=value1",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        ("POST", "https://example.amazonaws.com/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    ],
)
def test_the_signature_is_the_published_one(method: str, url: str, signature: str) -> None:
    headers = signed(SignedAccess("us-east-1", KEY, SECRET, "service"), httpx.Request(method, url))
    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders=host;x-amz-date, Signature={signature}"
    )
    assert headers["x-amz-date"] == "20150830T123600Z"


@respx.mock
def test_a_connection_with_a_region_signs_its_calls() -> None:
    route = respx.post(f"{BASE}/_bulk?require_alias=true").respond(json={})
    given = Connection.model_validate({"base_url": BASE, "aws_region": "eu-central-1", "user": KEY, "api_key": SECRET})
    client = ApiClient(Api(name="Search", statuses={}), lambda: given, SystemClock())
    for body in ("{}\n", "{} \n"):
        client.call(HttpCall("POST", "_bulk?require_alias=true", body), client.access(), lambda: 5.0)
    first, second = (call.request.headers["authorization"] for call in route.calls)
    assert "/eu-central-1/es/aws4_request" in first and first != second, "the signature covers the body"
    assert SECRET.get_secret_value() not in repr(client.access()) + json.dumps(dict(route.calls[0].request.headers))


def test_the_machines_credentials_are_used_without_an_access_key(monkeypatch: pytest.MonkeyPatch) -> None:
    signing._of_machine.cache_clear()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET.get_secret_value())
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-token-of-nobody")
    headers = signed(SignedAccess("eu-central-1", None, None), httpx.Request("GET", BASE))
    assert headers["x-amz-security-token"] == "session-token-of-nobody"
    assert "SignedHeaders=host;x-amz-date;x-amz-security-token" in headers["authorization"]
    signing._of_machine.cache_clear()


def test_a_machine_without_credentials_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    signing._of_machine.cache_clear()
    monkeypatch.setattr(signing, "Session", lambda: type("Nothing", (), {"get_credentials": lambda _self: None})())
    with pytest.raises(ConfigError):
        SignedAccess("eu-central-1", None, None)


@pytest.mark.parametrize(
    "wrong", [{"user": KEY}, {"api_key": "x"}, {"user": KEY, "api_key": "x", "api_key_header": "X"}]
)
def test_half_an_access_key_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Connection.model_validate({"base_url": BASE, "aws_region": "eu-central-1", **wrong})
