"""So many at work, so many waiting, and first come, first served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from context_engine.apps.server.limits import Slots
from context_engine.errors import Overloaded


def told(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@told
async def test_first_come_first_served() -> None:
    slots, served = Slots(lambda: (1, 2)), []

    async def work(name: str) -> None:
        await slots.take()
        served.append(name)

    assert await slots.take() is False
    waiting = [asyncio.create_task(work(name)) for name in ("first", "second")]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded) as raised:
        await slots.take()
    assert raised.value.retry_after_s == 1.0
    for number in (1, 2):
        slots.release()
        await asyncio.sleep(0)
        assert served == ["first", "second"][:number]
    await asyncio.gather(*waiting)
    slots.release()
    assert slots.at_work == 0


@told
async def test_who_leaves_the_queue_takes_no_slot() -> None:
    slots = Slots(lambda: (1, 5))
    await slots.take()
    left, stays = (asyncio.create_task(slots.take()) for _ in range(2))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.sleep(0)
    slots.release()
    assert await stays is True
    slots.release()
    assert slots.at_work == 0


@told
async def test_a_slot_that_came_as_its_waiter_left_goes_to_the_next() -> None:
    slots = Slots(lambda: (1, 5))
    await slots.take()
    left, stays = (asyncio.create_task(slots.take()) for _ in range(2))
    await asyncio.sleep(0)
    slots.release()
    left.cancel()
    assert await stays is True
    assert left.cancelled()
    slots.release()
    assert slots.at_work == 0


@told
async def test_the_bounds_may_change_meanwhile() -> None:
    bounds = [1, 5]
    slots = Slots(lambda: (bounds[0], bounds[1]))
    await slots.take()
    waiting = [asyncio.create_task(slots.take()) for _ in range(3)]
    await asyncio.sleep(0)
    bounds[0] = 3
    slots.release()
    await asyncio.sleep(0)
    assert (slots.at_work, [one.done() for one in waiting]) == (3, [True, True, True])


@told
async def test_no_queue_at_all() -> None:
    slots = Slots(lambda: (1, 0))
    await slots.take()
    with pytest.raises(Overloaded):
        await slots.take()
