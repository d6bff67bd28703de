"""How many searches a minute this machine serves, measured inside one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import httpx

from context_engine.adapters.identity.authenticator import NoAuthentication
from context_engine.service.deployment import LiveDeployment, open_deployment
from context_engine.wiring.embedded_base import in_embedded_base
from context_engine.wiring.setup import Setup

_MEASURED_S: Final = 0.5


def searches_per_minute(setup: Setup, data_dir: Path, query: str) -> int | None:
    """Return the searches of one caller that the service answers in a minute, measured without its network.

    A domain whose sources are all embedded is searched. None if there is no such domain, if a model is configured,
    which may cost money at every call, or if the extra `server` is not installed.
    """
    values, domains = setup.resolver.base().values, setup.registry.domains.values()
    has_model = values.embedder is not None or values.reranker != "noop" or values.query_refiner is not None
    domain = next((spec for spec in domains if all(map(in_embedded_base, spec.sources))), None)
    if domain is None or has_model or not all(map(find_spec, ("fastapi", "prometheus_client"))):
        return None
    from context_engine.apps.server.app import create_app
    from context_engine.apps.server.service import Service

    unlimited = setup.with_pipeline({"server_rate_per_minute": 0, "audit_mode": "off"})
    live = LiveDeployment(lambda: open_deployment(unlimited, data_dir=data_dir))
    service = Service(live, NoAuthentication())
    try:
        return asyncio.run(_asked_per_minute(create_app(service), {"query": query, "domain": domain.domain}))
    finally:
        service.close()


async def _asked_per_minute(app: Any, question: Mapping[str, str]) -> int | None:
    """Ask an app one question after the other, each a little different; None if it does not answer."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        count, begun = -1, time.monotonic()
        while (elapsed_s := time.monotonic() - begun) < _MEASURED_S:
            asked = {**question, "query": f"{question['query']} {count}"}
            if (await client.post("/api/v1/rag/query", json=asked)).status_code != 200:
                return None
            if count < 0:  # the first opened the base
                begun = time.monotonic()
            count += 1
    return int(60 * count / elapsed_s)
