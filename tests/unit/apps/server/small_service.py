"""A service without an engine: settings, tokens and the gate, with routes of a test's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from fastapi.testclient import TestClient
from pydantic import BaseModel, ConfigDict

from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.core.models import Authenticated, Principal, Settings
from context_engine.errors import NotAuthenticated

TOKEN = {"Authorization": "Bearer clerk"}


class Asked(BaseModel):
    """A body with a field of each kind."""

    model_config = ConfigDict(extra="forbid")

    query: str
    top_k: int = 8
    filters: dict[str, Any] = {}


class Live:
    """Has settings and nothing to search."""

    def __init__(self, **settings: Any) -> None:
        setup, engine = SimpleNamespace(registry=SimpleNamespace(names=("ORM",))), SimpleNamespace(tracer=None)
        self.current: Any = SimpleNamespace(settings=Settings(**settings), setup=setup, engine=engine)

    @contextmanager
    def use(self) -> Iterator[Any]:
        yield self.current

    def close(self) -> None:
        pass


class Clerks:
    """The token of each principal is its id; nobody is called "nobody"."""

    def authenticate(self, authorization: str | None) -> Authenticated:
        name = (authorization or "").removeprefix("Bearer ")
        if name in ("", "nobody"):
            raise NotAuthenticated("no token, or one that opens nothing")
        return Authenticated(principal=Principal(id=name), gateway=name == "gateway")

    def problems(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        pass


def small_service(**settings: Any) -> Service:
    """A service with some settings."""
    live: Any = Live(**settings)
    return Service(live, Clerks())


def small_client(service: Service) -> TestClient:
    """A client of the service, with `/api/asked`, `/api/fails` and `/api/says` beside its routes."""
    app = create_app(service)

    @app.post("/api/asked")
    async def asked(body: Asked) -> Any:
        return body.model_dump()

    @app.get("/api/fails")
    async def fails() -> None:
        raise RuntimeError("the secret of the inside")

    return TestClient(app, raise_server_exceptions=False)
