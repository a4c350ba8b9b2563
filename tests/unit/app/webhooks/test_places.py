"""Places go to those with few of them, and to those without any before all others."""

from __future__ import annotations

import asyncio

from headgate.app.webhooks.places import Places


def test_one_that_takes_all_it_gets_leaves_half() -> None:
    places = Places(10)
    assert [places.take("slow") for _ in range(10)].count(True) == 5
    assert [places.take("other") for _ in range(10)].count(True) == 3
    assert places.take("third")


async def test_who_has_none_gets_the_next() -> None:
    places = Places(2)
    assert places.take("slow")
    assert not places.take("slow")
    assert places.take("other")
    more = asyncio.create_task(places.wait("slow"))
    first = asyncio.create_task(places.wait("new"))
    await asyncio.sleep(0)
    places.give("other")
    await first
    assert not more.done()
    places.give("new")
    places.give("slow")
    await more


async def test_a_place_is_not_lost_with_the_one_that_waited_for_it() -> None:
    places = Places(1)
    await places.wait("a")
    waits = [asyncio.create_task(places.wait(name)) for name in ("b", "c", "d")]
    await asyncio.sleep(0)
    waits[1].cancel()
    await asyncio.sleep(0)
    places.give("a")
    waits[0].cancel()  # it was woken, and has not run yet
    await asyncio.wait_for(waits[2], 5)
    assert waits[1].cancelled()
    assert waits[0].cancelled()
    assert not places.take("e")
    places.give("d")
    assert places.take("e")


async def test_several_are_taken_together_or_none() -> None:
    places = Places(10)
    assert places.take("a", 4)
    assert not places.take("b", 7)
    coming = asyncio.create_task(places.wait("b", 7))
    await asyncio.sleep(0)
    assert not coming.done()
    places.give("a", 4)
    await coming
    assert not places.take("c", 4)
    places.give("b", 7)
    assert places.take("c", 99)  # more than there are: all
    places.give("c", 99)
    assert places.take("d", 10)
