"""So many at work, so many waiting; callers are served in turn, and nobody waits longer than is useful."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from context_engine.apps.server.slots import Bounds, Slots
from context_engine.errors import Overloaded


def told(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@told
async def test_first_come_first_served() -> None:
    slots, served = Slots(lambda: Bounds(1, 2)), []

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
    slots = Slots(lambda: Bounds(1, 5))
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
    slots = Slots(lambda: Bounds(1, 5))
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
    slots = Slots(lambda: Bounds(bounds[0], bounds[1]))
    await slots.take()
    waiting = [asyncio.create_task(slots.take()) for _ in range(3)]
    await asyncio.sleep(0)
    bounds[0] = 3
    slots.release()
    await asyncio.sleep(0)
    assert (slots.at_work, [one.done() for one in waiting]) == (3, [True, True, True])


@told
async def test_no_queue_at_all() -> None:
    slots = Slots(lambda: Bounds(1, 0))
    await slots.take()
    with pytest.raises(Overloaded):
        await slots.take()


async def _waiting(slots: Slots, caller: str, served: list[str], domain: str | None = None) -> None:
    await slots.take(caller, domain=domain)
    served.append(caller)


@told
async def test_callers_are_served_in_turn() -> None:
    slots, served = Slots(lambda: Bounds(1, 10)), []  # type: ignore[var-annotated]
    await slots.take("flood")
    tasks = [asyncio.create_task(_waiting(slots, name, served)) for name in ("flood", "flood", "flood", "quiet")]
    await asyncio.sleep(0)
    for _ in tasks:
        slots.release()
        await asyncio.sleep(0)
    assert served == ["flood", "quiet", "flood", "flood"], "the quiet caller waits for one request, not for three"


@told
async def test_a_full_queue_costs_the_caller_who_filled_it() -> None:
    slots, served = Slots(lambda: Bounds(1, 3)), []  # type: ignore[var-annotated]
    await slots.take("flood")
    flood = [asyncio.create_task(_waiting(slots, "flood", served)) for _ in range(3)]
    await asyncio.sleep(0)
    quiet = asyncio.create_task(_waiting(slots, "quiet", served))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await flood[2]
    with pytest.raises(Overloaded):
        await slots.take("flood")
    for _ in range(3):
        slots.release()
        await asyncio.sleep(0)
    await asyncio.gather(flood[0], flood[1], quiet)
    assert served == ["flood", "quiet", "flood"]


@told
async def test_a_wait_that_would_be_too_long_is_refused_at_once() -> None:
    slots = Slots(lambda: Bounds(2, 100))
    for _ in range(2):
        await slots.take()
    slots.release(held_s=1.0)  # the mean is 1.0 s
    await slots.take()
    waiting = [asyncio.create_task(slots.take("a", patience_s=2.5)) for _ in range(4)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting), "the fourth waits ceil(4 / 2) * 1.0 = 2.0 s"
    with pytest.raises(Overloaded) as raised:
        await slots.take("a", patience_s=2.5)  # ceil(5 / 2) * 1.0 = 3.0 s
    assert "about 3.0 s" in str(raised.value)
    assert raised.value.retry_after_s == 1.0
    other = asyncio.create_task(slots.take("b", patience_s=1.5))  # behind one request of "a": ceil(2 / 2) * 1.0
    await asyncio.sleep(0)
    assert not other.done()
    for task in (*waiting, other):
        task.cancel()
    await asyncio.gather(*waiting, other, return_exceptions=True)


@told
async def test_one_domain_never_takes_all_slots_if_there_are_others() -> None:
    slots, served = Slots(lambda: Bounds(4, 10, shared=True)), []  # type: ignore[var-annotated]
    for _ in range(3):  # int(.75 * 4)
        assert await slots.take(domain="NPA") is False
    fourth = asyncio.create_task(_waiting(slots, "fourth", served, "NPA"))
    await asyncio.sleep(0)
    assert not served
    assert await slots.take(domain="ORM") is False
    assert slots.at_work == 4
    slots.release("ORM")
    await asyncio.sleep(0)
    assert not served, "a slot is free, and not for this domain"
    slots.release("NPA")
    await asyncio.sleep(0)
    assert served == ["fourth"]
    await fourth


@told
async def test_a_domain_alone_takes_all() -> None:
    slots = Slots(lambda: Bounds(2, 0))
    assert [await slots.take(domain="NPA") for _ in range(2)] == [False, False]
