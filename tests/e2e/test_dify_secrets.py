"""The API key is searched for in everything that leaves the adapter: logs at DEBUG, errors, reprs, pickles, records."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from context_engine.adapters.http import ApiClient, ApiKey
from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.api import DIFY
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.engine import Engine
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import DomainSpec, Registry, SearchRequest, SourceQuery, SourceSpec
from context_engine.errors import AllSourcesFailed, ConfigError, SourceError, SourceUnavailable
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify, FakeDocument
from context_engine.testing.fake_dify import FAULTS, Fault
from context_engine.testing.fake_dify.app import AppResponse

KEY = "dataset-Zq9wLk3vT0pSecret77"
NAME = "rules"
DATASET = FakeDataset(NAME, documents=[FakeDocument("R1", ["Records are kept for seven years."])])
ECHO = json.dumps(
    {"code": "invalid_param", "message": f"bad token {KEY} at https://u:{KEY}@db.internal", "status": 400}
)


def echo() -> Fault:
    """Dify answers with the key in its message."""
    return Fault(answer=AppResponse(400, ECHO.encode()))


def everything(error: BaseException | None) -> Iterator[str]:
    """Yield all that can be read off an error: texts, fields, frames with their variables, what it came from."""
    while error is not None:
        yield "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
        yield repr(error) + str(error) + repr(vars(error))
        yield repr(pickle.dumps(error)) if isinstance(error, SourceError) else ""
        assert error.__cause__ is None or isinstance(error.__cause__, Exception)
        error = error.__cause__ or error.__context__


def source_of(dify: FakeDify, **fields: Any) -> DifySource:
    connection = Connection(base_url=dify.base_url, api_key=KEY, **fields)
    spec = SourceSpec(
        id="sops", type="bank_sop", adapter="dify", connection="dify", dataset_ids=(dify.dataset_id(NAME),),
        settings={"attempts": 1, "cache_ttl_s": 0},
    )  # fmt: skip
    return DifySource(spec, Workspace(lambda: connection, SystemClock()), SystemClock())


QUERY = SourceQuery(text="how long are records kept", domain="NPA", top_k=5, timeout_s=30.0)
HASTY = replace(QUERY, timeout_s=1.0)
FEW = {"status_500", "unauthorized", "html", "dropped"}
"""One of each kind; CI tries them all."""
OTHERS = sorted(set(FAULTS) - FEW - {"huge", "huge_chunked", "rate_limited"})
SLOW = {"delay", "slow_head", "slow_body"}
"""These last as long as they are waited for. The others get time enough that a busy machine still makes the call."""


@pytest.mark.parametrize(
    "fault", [*sorted(FEW), "echo", None, *(pytest.param(fault, marks=pytest.mark.slow) for fault in OTHERS)]
)
def test_the_key_is_nowhere(fault: str | None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with FakeDify([DATASET], api_key=KEY, cookies=True) as dify:
        source = source_of(dify)
        source.search(QUERY)
        if fault is not None:
            dify.inject(echo() if fault == "echo" else fault, endpoint="retrieve")
        seen = [repr(source), repr(vars(source))]
        try:
            answer_given = source.search(HASTY if fault in SLOW else QUERY)
            seen += [repr(answer_given), repr(pickle.dumps(answer_given))]
        except SourceError as error:
            seen += everything(error)
        workspace, client = source.workspace, source.workspace._client
        seen += [repr(vars(workspace)), repr(vars(client)), repr(workspace.access()), repr(list(client._clients))]
        seen += [repr(vars(one)) + repr(one.headers) for one in client._clients.values()]
        assert all(not one.cookies for one in client._clients.values())
        assert all("cookie" not in request.headers for request in dify.requests)
        source.close()
        asked = sum("retrieve" in request.path for request in dify.requests)
        assert asked >= 2 or fault in SLOW, "the call that goes wrong was made"
    assert "httpcore" in caplog.text, "the transport's own log is in it"
    for text in [*seen, caplog.text, *(repr(vars(record)) for record in caplog.records)]:
        assert KEY not in text
        assert KEY.removeprefix("dataset-") not in text


def test_the_key_is_in_no_result_and_no_record(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    recorded: list[Any] = []

    class Recorder:
        def record(self, result: Any, access: Any) -> None:
            recorded.append(result)

        def refuse(self, request: Any, access: Any) -> None:
            raise AssertionError("nothing is refused here")

    with FakeDify([DATASET], api_key=KEY, cookies=True) as dify:
        source = source_of(dify)
        domain = DomainSpec(version=1, domain="NPA", sources=(source.spec,))
        registry = Registry(domains={"NPA": domain})
        with Engine(registry, lambda _domain, _spec: source, recorder=Recorder()) as engine:
            request = SearchRequest(query=QUERY.text, domain="NPA")
            engine.search(request)
            dify.inject("unauthorized", endpoint="retrieve")
            with pytest.raises(AllSourcesFailed) as raised:
                engine.search(request)
    assert len(recorded) == 2
    texts = [json.dumps(one.to_dict(), default=str) + repr(one) + repr(pickle.dumps(one)) for one in recorded]
    for text in (*texts, *everything(raised.value), caplog.text):
        assert KEY not in text


def test_a_proxys_password_is_not_shown_either(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with FakeDify([DATASET], api_key=KEY) as dify:
        source = source_of(dify, proxy="http://user:pr0xyPassw0rd@127.0.0.1:9")
        with pytest.raises(SourceUnavailable) as raised:
            source.search(QUERY)
        source.close()
    for text in (*everything(raised.value), caplog.text, repr(vars(source.workspace))):
        assert "pr0xyPassw0rd" not in text


def test_a_key_is_masked_and_not_pickled() -> None:
    key = ApiKey(Connection(base_url="http://h", api_key=KEY).api_key)
    assert KEY not in repr(key) + str(key) + f"{key!r:>60}"
    assert KEY not in key.fingerprint
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(key)


@pytest.mark.parametrize("key", [None, "dataset-x y", "dataset-secret\n", "dataset-schlüssel"])
def test_a_key_that_cannot_be_sent_is_refused_before_the_transport_would_log_it(key: str | None) -> None:
    with pytest.raises(ConfigError, match="api_key") as raised:
        ApiClient(DIFY, lambda: Connection(base_url="http://h", api_key=key), SystemClock()).access()
    assert "dataset-s" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"token {KEY} is bad", "token ******** is bad"),
        ("other dataset-abcdefgh12345678 key", "other ******** key"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ********"),
        ("postgresql://dify:pw@db.internal/x", "postgresql://********@db.internal/x"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, shown: str) -> None:
    assert ApiKey(Connection(base_url="http://h", api_key=KEY).api_key).hide(text) == shown
