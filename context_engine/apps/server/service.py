"""What the routes share: the deployment in force, who calls, and threads to work in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel

from context_engine.apps.server.readiness import Readiness
from context_engine.apps.server.slots import Slots
from context_engine.core.concurrency.executor import EXECUTOR, Busy
from context_engine.core.models import Settings
from context_engine.errors import Overloaded
from context_engine.service.callers import Authenticated, Authenticator
from context_engine.service.deployment import Deployment, LiveDeployment

T = TypeVar("T")
Work = Callable[[Deployment, Authenticated], T]
_THREAD: Final = "context-engine-request"


class Service:
    """One service: made once, put into the app as `app.state.service`.

    Args:
        live: the deployment in force.
        authenticator: says who calls.
        threads: how many requests are worked on at once; None: `server_max_concurrent`, as the settings have it.
        own_names_only: refuse requests that were sent to a name of another machine; where no token keeps pages out.
        renew: puts a configuration that is loaded anew in force for who calls; what it raises refuses it.
    """

    def __init__(
        self,
        live: LiveDeployment,
        authenticator: Authenticator,
        *,
        threads: int | None = None,
        own_names_only: bool = False,
        renew: Callable[[Deployment], None] | None = None,
    ) -> None:
        self.live, self.authenticator, self.own_names_only = live, authenticator, own_names_only
        self.readiness = Readiness(live, lambda: authenticator.problems())
        self._renew, self._threads = renew, threads
        self.slots = Slots(self._bounds)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.live.current.settings

    async def call(self, request: Request, work: Work[T]) -> T:
        """Return what `work` returns, called in a thread of its own with the deployment and the caller.

        Raises:
            NotAuthenticated: the request carries no token that opens anything.
            Overloaded: too many requests wait already.
        """
        caller = caller_of(request)
        if await self.slots.take() and await self._left(request):
            self.slots.release()
            raise Overloaded("the caller has gone while the request waited")
        return await self._worked(lambda deployment: work(deployment, caller))

    async def run(self, work: Callable[[Deployment], T]) -> T:
        """Return what `work` returns, called in a thread of its own with the deployment; for what has no request.

        Raises:
            Overloaded: too many requests wait already.
        """
        await self.slots.take()
        return await self._worked(work)

    async def json(self, request: Request, work: Work[BaseModel]) -> Response:
        """Return the answer of `work` as JSON; it is encoded in the thread, once."""
        body = await self.call(request, lambda deployment, caller: work(deployment, caller).model_dump_json())
        return Response(body, media_type="application/json")

    def reload(self) -> None:
        """Put the configuration as it is now in force; requests at work end with the one they began with.

        Raises:
            ContextEngineError: it cannot be used, and the one in force stays.
        """
        try:
            self.live.reload(self._renew)
        except BaseException as error:
            self.readiness.reload_failed(error)
            raise
        self.readiness.reloaded()

    def close(self) -> None:
        """Stop what runs beside the requests; may be called twice."""
        self.authenticator.close()
        self.live.close()

    async def _left(self, request: Request) -> bool:
        """Return whether the caller of a request that has a slot has gone; the slot is free where this is cut short."""
        try:
            return await request.is_disconnected()
        except BaseException:
            self.slots.release()
            raise

    async def _worked(self, work: Callable[[Deployment], T]) -> T:
        """Work in a slot that is taken; it is free when the thread is done, whoever waits for that."""

        def run() -> T:
            with self.live.use() as deployment:
                return work(deployment)

        try:
            future = asyncio.wrap_future(EXECUTOR.submit(run, _THREAD))
        except BaseException as error:
            self.slots.release()
            if isinstance(error, Busy):
                raise Overloaded(str(error)) from None
            raise
        future.add_done_callback(lambda _: self.slots.release())
        return await asyncio.shield(future)

    def _bounds(self) -> tuple[int, int]:
        settings = self.settings
        return self._threads or settings.server_max_concurrent, settings.server_max_waiting


def service_of(request: Request) -> Service:
    """Return the service of the app that a request is for."""
    found: Service = request.app.state.service
    return found


def caller_of(request: Request) -> Authenticated:
    """Return who calls.

    Raises:
        NotAuthenticated: the request carries no token that opens anything.
        TokensUnchecked: its token cannot be checked now.
    """
    known: Authenticated | None = request.scope.get("state", {}).get("caller")
    return known or service_of(request).authenticator.authenticate(request.headers.get("authorization"))


def request_id_of(request: Request) -> str:
    """Return the id of a request, which its answer carries as X-Request-Id."""
    found: str = request.scope.get("state", {}).get("request_id", "")
    return found
