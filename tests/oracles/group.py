"""A group, asked as one asks a queue."""

from __future__ import annotations

from collections import defaultdict
from itertools import count

from headgate.app.backends.port import Backend
from headgate.engine.config import GroupPolicy, Patch
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.replies import Outcome
from headgate.engine.requests.deliveries import Ack, Extend, GroupCursor, Nack, NackMode, ReadGroup
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.groups import CreateGroup, GroupStart, UpdateGroup
from headgate.engine.requests.streams import CreateStream
from tests.oracles.queue import VISIBLE_S, Received

S, G, DEAD = b"{orders}", b"billing", b"{orders}.dead"


class GroupQueue:
    """A group of which each receipt is by another consumer."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._consumers = (b"%d" % number for number in count())
        self._held: defaultdict[str, list[tuple[EntryId, bytes]]] = defaultdict(list)

    async def create(self, **rules: object) -> None:
        """Create the streams and the group, with rules of its policy."""
        await self._backend.perform(CreateStream(DEAD))
        policy = Patch.of(GroupPolicy, claim_idle_ms=VISIBLE_S * 1000, **rules).values
        start = GroupStart(MIN_ID)
        await self._backend.perform(CreateGroup(S, G, start, create_stream=True, policy=policy))

    async def pause(self, until_ms: int | None) -> None:
        """Let the group deliver nothing before a time; None: let it go on."""
        policy = Patch.of(GroupPolicy, paused_until_ms=until_ms)
        await self._backend.perform(UpdateGroup(S, G, policy=policy))

    async def send(self, key: str, text: str) -> None:
        draft = Draft(None, (b"key", key.encode(), b"text", text.encode()))
        await self._backend.perform(Add(S, [draft]))

    async def receive(self) -> Received | None:
        received = await self.receive_many(1)
        return received[0] if received else None

    async def receive_many(self, limit: int) -> list[Received]:
        """Return so many entries at most, as one consumer reads them at once."""
        return await self._read(limit, wait_ms=0)

    async def wait(self) -> Received:
        """Return the next entry, once there is one."""
        [received] = await self._read(1, wait_ms=None)
        return received

    async def _read(self, limit: int, wait_ms: int | None) -> list[Received]:
        consumer = next(self._consumers)
        cursors = [GroupCursor(S)]
        claim_idle_ms = VISIBLE_S * 1000
        read = ReadGroup(G, consumer, cursors, limit, claim_idle_ms, wait_ms=wait_ms)
        [reply] = await self._backend.perform(read)
        received = []
        for each in reply.deliveries:
            assert each.fields is not None
            _, key, _, text = (part.decode() for part in each.fields)
            self._held[text].append((each.id, consumer))
            received.append(Received(key, text, each.delivery_count))
        return received

    async def delete(self, text: str, *, delivery: int = -1) -> None:
        entry_id, consumer = self._held[text][delivery]
        # What was given back is nobody's; so the last of them is acknowledged as XACK does it.
        owner = None if delivery == -1 else consumer
        outcome = Outcome.ACKED if owner is None else Outcome.CLAIMED
        assert await self._backend.perform(Ack(S, G, [entry_id], owner)) == [outcome]

    async def hold_on(self, text: str) -> None:
        entry_id, consumer = self._held[text][-1]
        outcomes = await self._backend.perform(Extend(S, G, [entry_id], consumer))
        assert outcomes == [Outcome.EXTENDED]

    async def retry(self, text: str, delay_s: int) -> None:
        entry_id, _ = self._held[text][-1]
        nack = Nack(S, G, [entry_id], NackMode.FAIL, delay_ms=delay_s * 1000)
        await self._backend.perform(nack)

    async def dead_letters(self) -> list[tuple[str, str]]:
        entries = await self._backend.perform(Range(DEAD))
        fields = [[part.decode() for part in entry.fields[:4]] for entry in entries]
        return [(key, text) for _, key, _, text in fields]
