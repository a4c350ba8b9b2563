"""Channels in Python: publish, subscribe, who is there."""

import headgate
from tests.api.conftest import Live
from tests.conditions import until


async def test_a_program_hears_what_another_publishes(hg: headgate.AsyncClient, live: Live) -> None:
    room = hg.channel("room-1")
    assert await room.publish({"text": "nobody is there"}) == 0
    async with room.subscribe(presence={"name": "anna"}, key="tab") as messages:
        assert await room.publish({"text": "hello"}) == 1
        assert await anext(messages) == headgate.Message("room-1", {"text": "hello"}, 0)
        told = await room.members()
        [member] = told["members"]
        assert [(each["key"], each["data"]) for each in member["connections"]] == [
            ("tab", {"name": "anna"})
        ]
    await until(lambda: b"room-1" not in live.gateway.channels.names_here)
    assert (await room.members())["member_count"] == 0


async def test_a_program_that_is_too_slow_is_told_what_it_has_missed(
    hg: headgate.AsyncClient, live: Live
) -> None:
    room = hg.channel("room-1")
    async with room.subscribe() as messages:
        await room.publish(0)
        assert (await anext(messages)).data == 0
        for number in range(1_003):
            await live.gateway.channels.publish(b"room-1", b"%d" % number)
        subscription = messages._subscription
        assert subscription is not None
        await until(lambda: subscription.items and subscription.items[-1]["data"] == 1_002)
        heard = [await anext(messages) for _ in range(len(subscription.items))]
        assert len(heard) + heard[0].dropped == 1_003
        assert heard[0].dropped >= 3
