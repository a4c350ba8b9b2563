"""Bounds of commands: the limit of one reply, and ways to the remainder."""

from __future__ import annotations

import pytest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.redis_syntax.command import error_text
from headgate.app.redis_syntax.replies import Reply
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.redis_syntax.words import Bounds
from headgate.engine import limits
from headgate.engine.entry import Draft
from headgate.engine.errors import StreamError
from headgate.engine.limits import GROUP_READ_MAX, PENDING_SCAN_MAX
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateConsumer
from tests.unit.driver import Driver, S, entry_id

SMALL = Bounds(entries_max=10, size_bytes_max=1000)


class Spoken:
    """An engine that is spoken to in words."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self.engine = Driver()
        self._runner = CommandRunner(EmbeddedBackend(self.engine), bounds)

    async def say(self, *words: object) -> Reply:
        encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return await self._runner.run(encoded)

    async def lists(self, line: str) -> list[Reply]:
        reply = await self.say(*line.split())
        assert isinstance(reply, list)
        return reply

    async def entries(self, line: str) -> list[Reply]:
        """Return the entries of the first stream of a read."""
        [[_, entries], *_] = await self.lists(line)  # type: ignore[misc]
        assert isinstance(entries, list)
        return entries

    async def refusal(self, *words: object) -> str:
        with pytest.raises(StreamError) as refused:
            await self.say(*words)
        return error_text(refused.value)

    async def start(self, count: int, *, size_bytes: int = 1) -> None:
        value = b"v" * size_bytes
        drafts = [Draft(entry_id(n), (b"", value)) for n in range(1, count + 1)]
        await self.engine.perform(Add(S, drafts))
        await self.say("XGROUP", "CREATE", "s", "g", "0")


@pytest.mark.parametrize("line", ["XRANGE s - +", "XREVRANGE s + -"])
async def test_a_range_is_whole_or_refused(line: str) -> None:
    spoken = Spoken(SMALL)
    await spoken.start(10)
    assert len(await spoken.lists(line)) == 10
    assert len(await spoken.lists(f"{line} COUNT 99")) == 10
    await spoken.engine.put(11)
    bounds = f"10 entries, {limits.READ_PARTS_MAX} names and values, or 1000 bytes"
    text = f"ERR the reply has more than {bounds}: give COUNT, or a range"
    assert await spoken.refusal(*line.split()) == text
    assert await spoken.refusal(*line.split(), "COUNT", 11) == text
    assert len(await spoken.lists(f"{line} COUNT 10")) == 10


async def test_a_read_hands_out_what_one_reply_may_hold() -> None:
    spoken = Spoken(SMALL)
    await spoken.start(15)
    assert len(await spoken.entries("XREAD STREAMS s 0")) == 10
    assert len(await spoken.entries("XREAD COUNT 99 STREAMS s 0")) == 10
    assert len(await spoken.entries("XREAD STREAMS s 10")) == 5
    assert len(await spoken.lists("XREAD STREAMS s s s 0 0 0")) == 1
    assert len(await spoken.lists("XREAD COUNT 4 STREAMS s s s 0 0 0")) == 3

    large = Spoken(SMALL)
    await large.start(5, size_bytes=600)
    assert len(await large.entries("XREAD STREAMS s 0")) == 1

    unbounded = Spoken()
    await unbounded.start(limits.XREAD_MAX + 5)
    assert len(await unbounded.entries("XREAD STREAMS s 0")) == limits.XREAD_MAX
    assert len(await unbounded.entries(f"XREAD STREAMS s {limits.XREAD_MAX}")) == 5


async def test_a_description_in_full_is_bounded() -> None:
    spoken = Spoken()
    await spoken.start(limits.DESCRIBED_MAX - 1)
    assert await spoken.lists("XINFO STREAM s FULL COUNT 0")
    await spoken.engine.put(limits.DESCRIBED_MAX)
    text = f"would list more than {limits.DESCRIBED_MAX} items: use a smaller COUNT"
    for count in ("0", "9999999"):
        assert text in await spoken.refusal(*["XINFO", "STREAM", "s", "FULL", "COUNT", count])
    assert await spoken.lists("XINFO STREAM s FULL")


async def test_descriptions_of_consumers_and_groups_are_bounded() -> None:
    spoken = Spoken()
    await spoken.start(1)
    for number in range(limits.DESCRIBED_MAX):
        await spoken.engine.perform(CreateConsumer(S, b"g", b"%d" % number))
    assert len(await spoken.lists("XINFO CONSUMERS s g")) == limits.DESCRIBED_MAX
    await spoken.engine.perform(CreateConsumer(S, b"g", b"c"))
    for line in ("XINFO CONSUMERS s g", "XINFO STREAM s FULL"):
        assert f"more than {limits.DESCRIBED_MAX} items" in await spoken.refusal(*line.split())


@pytest.mark.parametrize(
    "line",
    [
        *("XADD LONG * a 1", "RENAME s LONG", "XGROUP CREATE LONG h 0 MKSTREAM"),
        *(
            "XGROUP CREATE s LONG 0",
            "XGROUP CREATECONSUMER s g LONG",
            "XREAD BLOCK 0 STREAMS LONG 0",
        ),
        *(
            "XREADGROUP GROUP g LONG STREAMS s >",
            "XCLAIM s g LONG 0 1-0",
            "XAUTOCLAIM s g LONG 0 0",
        ),
    ],
)
async def test_what_is_held_on_to_has_a_short_name(line: str) -> None:
    spoken = Spoken()
    await spoken.start(1)
    longest = "x" * limits.COMMAND_NAME_BYTES_MAX
    text = f"ERR a name or key has at most {limits.COMMAND_NAME_BYTES_MAX} bytes"
    assert await spoken.refusal(*line.replace("LONG", longest + "x").split()) == text
    if not line.startswith("XREAD "):
        await spoken.say(*line.replace("LONG", longest).split())


@pytest.mark.parametrize("line", ["XREAD BLOCK 0", "XREADGROUP GROUP g c BLOCK 0", "XREAD"])
async def test_one_read_takes_so_many_streams(line: str) -> None:
    spoken = Spoken()
    names = [f"k{number}" for number in range(limits.QUEUES_MAX + 1)]
    text = f"ERR one read takes at most {limits.QUEUES_MAX} streams, not {limits.QUEUES_MAX + 1}"
    assert await spoken.refusal(*line.split(), "STREAMS", *names, *["0"] * len(names)) == text
    assert spoken.engine.waiter_count == 0


async def test_a_command_has_so_many_words() -> None:
    spoken = Spoken()
    assert await spoken.say("DEL", *range(limits.COMMAND_WORDS_MAX - 1)) == 0
    text = f"ERR a command has at most {limits.COMMAND_WORDS_MAX} words"
    assert await spoken.refusal("DEL", *range(limits.COMMAND_WORDS_MAX)) == text


async def test_many_names_are_told_within_a_bound() -> None:
    spoken = Spoken(Bounds(size_bytes_max=100))
    for number in range(10):
        await spoken.engine.put(1, stream=b"%010d" % number)
    assert len(await spoken.lists("KEYS *")) == 10
    await spoken.engine.put(1, stream=b"s")
    assert await spoken.refusal("KEYS", "*") == "ERR the names have more than 100 bytes: use SCAN"
    assert await spoken.lists("KEYS s") == [b"s"]


async def test_a_group_read_delivers_what_it_hands_out() -> None:
    read = "XREADGROUP GROUP g c STREAMS s"
    large = Spoken(SMALL)
    await large.start(5, size_bytes=600)
    assert len(await large.entries(f"{read} >")) == 1
    assert (await large.lists("XPENDING s g"))[0] == 1
    assert len(await large.entries(f"{read} >")) == 1


async def test_a_list_of_pending_entries_is_bounded_and_looks_at_all() -> None:
    spoken = Spoken(Bounds(entries_max=100))
    await spoken.start(PENDING_SCAN_MAX + 10)
    clock = spoken.engine.clock
    clock.now_ms += 10_000
    for _ in range(PENDING_SCAN_MAX // GROUP_READ_MAX):
        await spoken.engine.take(limit=GROUP_READ_MAX)
    await spoken.engine.take(limit=PENDING_SCAN_MAX % GROUP_READ_MAX + 7)
    assert len(await spoken.lists("XPENDING s g - + 1000000")) == 100
    clock.now_ms -= 10_000
    await spoken.engine.take()
    clock.now_ms += 10_000

    for line in ("XPENDING s g IDLE 10000 - + 99", "XPENDING s g IDLE 10000 - + 99 a"):
        ids = [entry[0] for entry in await spoken.lists(line)]  # type: ignore[index]
        assert ids == [b"%d-0" % (PENDING_SCAN_MAX + number) for number in (8, 9, 10)]
