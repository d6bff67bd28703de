"""A server nobody has thought of: described in a few lines, it is held to all that the others are."""

from __future__ import annotations

import httpx
import pytest
import respx

from context_engine.adapters.http import Api, ApiClient, HttpCall, KeyHeader, Meaning, below_host
from context_engine.core.engine.clock import SystemClock
from context_engine.errors import SourceNotFound, SourceProtocolError, SourceRateLimited
from context_engine.settings.connections import Connection

ATLAS = Api(
    name="Atlas",
    root=below_host("search/v3"),
    key_header=KeyHeader("Atlas-Key"),
    max_bytes=1024 * 1024,
    statuses={
        404: Meaning(SourceNotFound, "{name} has no such index", "create it, or correct the manifest"),
        420: Meaning(SourceRateLimited, "{name} is calm for a while", "lower the load", retryable=True, pause_s=30.0),
    },
)
"""All there is to say of it."""

URL = "https://atlas.meridian-harbour.example/search/v3/hits"


def test_a_server_is_a_description() -> None:
    keys = iter(["first-key-0001", "second-key-0002", "second-key-0002"])
    base_url = "https://atlas.meridian-harbour.example"
    client = ApiClient(
        ATLAS, lambda: Connection.model_validate({"base_url": base_url, "api_key": next(keys)}), SystemClock()
    )
    access = client.access()

    def ask() -> object:
        return client.call(HttpCall("POST", "hits", {"q": "limit"}), access, lambda: 30.0).json()

    with respx.mock() as web:
        route = web.post(URL)
        route.mock(side_effect=[httpx.Response(401), httpx.Response(200, json={"hits": []})])
        assert ask() == {"hits": []}
        assert [one.request.headers["atlas-key"] for one in route.calls] == ["first-key-0001", "second-key-0002"]
        route.mock(side_effect=None, return_value=httpx.Response(404))
        with pytest.raises(SourceNotFound, match="Atlas has no such index: create it, or correct the manifest"):
            ask()
        route.mock(return_value=httpx.Response(420, headers={"retry-after": "5"}))
        with pytest.raises(SourceRateLimited, match="Atlas is calm") as raised:
            ask()
        assert raised.value.retry_after_s == 5.0
        route.mock(return_value=httpx.Response(200, content=b" " * (1024 * 1024 + 1)))
        with pytest.raises(SourceProtocolError, match="longer than 1 MiB"):
            ask()
    client.close()
