"""Outbox: one frame at a time, and how long a client may take nothing."""

import asyncio
from typing import Any, cast

import pytest

from headgate.app.live.outbox import Outbox
from tests.virtual_time import in_virtual_time, now_ms


class SlowSocket:
    """A client that takes each frame after so many seconds."""

    def __init__(self, *delays_s: float) -> None:
        self.taken: list[str] = []
        self._delays_s = list(delays_s)

    async def send_text(self, text: str) -> None:
        await asyncio.sleep(self._delays_s.pop(0))
        self.taken.append(text)


@pytest.mark.parametrize(
    ("delays_s", "closes", "stuck_at_ms"),
    [
        ([0.5, 0, 0.2], False, []),
        ([0.9] * 5, False, []),  # a slow client that takes every frame in time
        ([0.4, 5, 0], False, [1400]),
        ([0.4, 5, 0], True, []),  # nothing is noticed any more once it is closed
    ],
)
@in_virtual_time
async def test_frames_go_one_after_the_other_each_in_its_time(
    delays_s: list[float], closes: bool, stuck_at_ms: list[int]
) -> None:
    socket, stuck = SlowSocket(*delays_s), list[int]()
    outbox = Outbox(cast(Any, socket), patience_ms=1000, on_stuck=lambda: stuck.append(now_ms()))
    texts = list("abcde"[: len(delays_s)])
    sending = [asyncio.create_task(outbox.send(text)) for text in texts]
    await asyncio.sleep(0.5)
    if closes:
        outbox.close()
    await asyncio.gather(*sending)
    await asyncio.sleep(5)

    assert (socket.taken, stuck) == (texts, stuck_at_ms)
