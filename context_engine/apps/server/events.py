"""Server-sent events of work that runs in a thread: sent as they come, with signs of life, stopped with the caller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import closing
from typing import Final

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from context_engine.apps.server.problems import Problem, problem_of
from context_engine.apps.server.service import Service, request_id_of
from context_engine.apps.server.slots import Turn
from context_engine.service.callers import Authenticated
from context_engine.service.deployment import Deployment

Stopped = Callable[[], bool]
Events = Callable[[Deployment, Authenticated, Stopped], Generator[str, None, None]]
"""Makes the events of a request, each a whole block of lines; stops as soon as the callable returns True."""

_ALIVE: Final = ": keep-alive\n\n"
_ALIVE_EVERY_S: Final = 15.0
_HEADERS: Final = {"X-Accel-Buffering": "no"}


def sse(name: str, number: int, data: str) -> str:
    """Return a server-sent event; `data` is JSON without line breaks."""
    return f"id: {number}\nevent: {name}\ndata: {data}\n\n"


async def streamed(
    service: Service, request: Request, events: Events, turn: Turn, failed: Callable[[Problem], str]
) -> Response:
    """Return the events of a request as a stream; an error before the first event is raised.

    Args:
        failed: makes the last event from the problem of an error that came later.

    Raises:
        ContextEngineError: as `Service.call`, and as the events raise it before the first.
    """
    loop, queue, gone = asyncio.get_running_loop(), asyncio.Queue[str | None](), threading.Event()

    def work(deployment: Deployment, caller: Authenticated) -> None:
        with closing(events(deployment, caller, gone.is_set)) as made:
            for event in made:
                if gone.is_set():
                    return
                loop.call_soon_threadsafe(queue.put_nowait, event)

    task = asyncio.ensure_future(service.call(request, work, turn))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        first = await queue.get()
    except asyncio.CancelledError:
        gone.set()
        raise
    if first is None:
        await task
        return Response(status_code=204)
    return StreamingResponse(
        _body(first, queue, task, gone, lambda error: failed(problem_of(error, request_id_of(request))[0])),
        media_type="text/event-stream",
        headers=_HEADERS,
    )


async def _body(
    first: str,
    queue: asyncio.Queue[str | None],
    task: asyncio.Future[None],
    gone: threading.Event,
    failed: Callable[[BaseException], str],
) -> AsyncIterator[str]:
    event: str | None = first
    try:
        while event is not None:
            yield event
            event = await _next(queue)
            while event == "":
                yield _ALIVE
                event = await _next(queue)
        error = task.exception()
        if error is not None:
            yield failed(error)
    finally:
        gone.set()


async def _next(queue: asyncio.Queue[str | None]) -> str | None:
    """Return the next event; "" after a while without one, None at the end."""
    try:
        return await asyncio.wait_for(queue.get(), _ALIVE_EVERY_S)
    except TimeoutError:
        return ""
