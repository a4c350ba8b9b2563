"""Takeovers: what nobody takes from a feed does not pile up."""

from headgate.engine.entry import EntryId
from headgate.engine.limits import TAKEOVER_IDS_MAX
from headgate.engine.loop.takeovers import TakeoverFeed, Takeovers
from headgate.engine.replies import Takeover

HOLDER = b"orders", b"billing", b"ana"


def counts(*numbers: int) -> dict[EntryId, int]:
    return {EntryId(number, 0): 1 for number in numbers}


async def test_of_what_nobody_takes_the_oldest_is_forgotten() -> None:
    async with TakeoverFeed(Takeovers(), HOLDER) as feed:
        feed.put(Takeover(counts(1), b"ben"))
        feed.put(Takeover(counts(2, 3), b"cem"))
        feed.put(Takeover(counts(*range(4, TAKEOVER_IDS_MAX + 3)), b"dan"))

        first, second = await anext(feed), await anext(feed)

    assert first == Takeover(counts(3), b"cem")
    assert (len(second.counts), second.by) == (TAKEOVER_IDS_MAX - 1, b"dan")


async def test_an_entry_that_is_taken_over_again_counts_once() -> None:
    async with TakeoverFeed(Takeovers(), HOLDER) as feed:
        for count in range(1, TAKEOVER_IDS_MAX + 10):
            feed.put(Takeover({EntryId(1, 0): count}, b"ben"))
        feed.put(Takeover(counts(2), b"ben"))

        takeover = await anext(feed)

    assert takeover.counts == {EntryId(1, 0): TAKEOVER_IDS_MAX + 9, EntryId(2, 0): 1}


async def test_who_has_left_is_told_nothing_more() -> None:
    takeovers = Takeovers()
    async with TakeoverFeed(takeovers, HOLDER):
        was_asked = bool(takeovers)

    assert was_asked
    assert not takeovers
