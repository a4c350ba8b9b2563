"""Outbox: one frame at a time, and how long a client may take nothing."""

import asyncio
from typing import Any, cast

from headgate.app.live.outbox import Outbox
from tests.virtual_time import in_virtual_time


class SlowSocket:
    """A client that takes each frame after so many seconds."""

    def __init__(self, *delays_s: float) -> None:
        self.taken: list[str] = []
        self._delays_s = list(delays_s)

    async def send_text(self, text: str) -> None:
        await asyncio.sleep(self._delays_s.pop(0))
        self.taken.append(text)


def outbox_to(socket: SlowSocket) -> tuple[Outbox, list[float]]:
    """Return an outbox with a patience of a second, and the moments at which it lost that."""
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    stuck_at_s: list[float] = []

    def on_stuck() -> None:
        stuck_at_s.append(round(loop.time() - started_s, 3))

    return Outbox(cast(Any, socket), patience_ms=1000, on_stuck=on_stuck), stuck_at_s


@in_virtual_time
async def test_frames_go_one_after_the_other() -> None:
    socket = SlowSocket(0.5, 0, 0.2)
    outbox, stuck_at_s = outbox_to(socket)

    await asyncio.gather(*map(outbox.send, "abc"))

    assert (socket.taken, stuck_at_s) == (["a", "b", "c"], [])


@in_virtual_time
async def test_a_frame_that_is_not_taken_in_time_is_noticed_then() -> None:
    socket = SlowSocket(0, 5)
    outbox, stuck_at_s = outbox_to(socket)
    await outbox.send("a")
    await asyncio.sleep(0.4)

    await outbox.send("b")

    assert stuck_at_s == [1.4]


@in_virtual_time
async def test_a_slow_client_that_takes_every_frame_in_time_is_left_alone() -> None:
    socket = SlowSocket(*[0.9] * 5)
    outbox, stuck_at_s = outbox_to(socket)

    await asyncio.gather(*map(outbox.send, "abcde"))
    await asyncio.sleep(5)

    assert (socket.taken, stuck_at_s) == (list("abcde"), [])


@in_virtual_time
async def test_nothing_is_noticed_any_more_once_it_is_closed() -> None:
    outbox, stuck_at_s = outbox_to(SlowSocket(5))
    sending = asyncio.create_task(outbox.send("a"))
    await asyncio.sleep(0.5)

    outbox.close()
    await sending

    assert stuck_at_s == []
