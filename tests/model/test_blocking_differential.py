"""Reads that wait, on a real redis-server and on ours: the same wake-ups with the same replies.

Several clients block on both servers, the same writes follow in the same order, and after each of
them the same clients must have been woken, in the same order, with the same replies.

The order is seen by what stands behind a read in its client's pipeline: Redis runs that when the
client is awake again. It is compared within each queue. Redis has one queue per stream; here the
plain readers and each group have their own, because none of them takes anything from the others.

The server is Debian's 7.0. `KNOWN_DIFFERENCES` has what newer servers, and we, do otherwise. One
more cannot show here: since 7.2 a read that is run again and finds nothing loses its place with
its other streams. 7.0 keeps it, and so do we.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import pytest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from tests.model.own_replies import own_reply, plain
from tests.model.redis_server import Redis, RedisError, Words, words
from tests.virtual_time import ManualClock, VirtualLoop, settle

HISTORIES = int(os.environ.get("HEADGATE_TEST_HISTORIES", "120"))
STEPS = 40
CLIENTS = "abcde"
KEYS = [b"s", b"t"]
GROUPS = [b"g", b"h"]
SHORT_MS = 3
SHORT_MAX_MS = 1_000
LONG_MS = 60_000

Woken = dict[str, Any]
"""Replies by client, in the order of the wake-ups."""


class Difference(NamedTuple):
    """A difference of another version."""

    reason: str
    holds: Callable[[Any, Any, bool], bool]  # of their reply, ours, and `has_several_to_read`
    is_final: bool  # from then on the states differ too


ASLEEP = "asleep"


def _is_gone(theirs: Any, ours: Any, has_several_to_read: bool) -> bool:
    texts = "UNBLOCKED the stream key", "NOGROUP the consumer group"
    return is_error(theirs, *texts) and is_error(ours, "NOGROUP No such key")


def _read_all(theirs: Any, ours: Any, has_several_to_read: bool) -> bool:
    are_lists = isinstance(theirs, list) and isinstance(ours, list)
    return has_several_to_read or (are_lists and len(ours) > 1 and theirs[0] in ours)


def _is_empty(theirs: Any, ours: Any, has_several_to_read: bool) -> bool:
    return isinstance(theirs, list) and theirs[0][1] == []


def is_error(reply: Any, *texts: str) -> bool:
    return isinstance(reply, RedisError) and reply.startswith(texts)


KNOWN_DIFFERENCES = [
    Difference("7.0 has other words for a stream or a group that went", _is_gone, False),
    Difference(
        "of several streams that changed at one moment 7.0 reads the one that serves the reader "
        "first; since 7.2 the first that changed wakes the reader, and it reads all of them",
        _read_all,
        True,
    ),
    Difference("7.0 wakes for an entry that a transaction deleted at once", _is_empty, True),
]


class Theirs:
    """Clients of a redis-server."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._clients = {name: Redis(redis.port) for name in CLIENTS}
        self._ids = {
            name: client.run(words("CLIENT", "ID")) for name, client in self._clients.items()
        }

    @property
    def blocked_count(self) -> int:
        info: bytes = self._redis.run(words("INFO", "clients"))
        lines = dict(line.split(b":") for line in info.split() if b":" in line)
        return int(lines[b"blocked_clients"])

    def read(self, client: str, command: Words) -> None:
        """Let a client read; returns when it waits, or has its reply."""
        before = self.blocked_count
        self._clients[client].send(command, words("RPUSH", "woken", client))
        while self.blocked_count == before and not self._redis.run(words("LLEN", "woken")):
            pass

    def write(self, commands: Sequence[Words]) -> list[Any]:
        if len(commands) == 1:
            return [self._redis.run(commands[0])]
        self._redis.send(words("MULTI"), *commands, words("EXEC"))
        replies = [self._redis.reply() for _ in range(len(commands) + 2)]
        return list(replies[-1])

    def woken(self) -> Woken:
        """Return the clients that have woken since the last time."""
        names = [name.decode() for name in self._redis.run(words("LRANGE", "woken", 0, -1))]
        self._redis.run(words("DEL", "woken"))
        woken_now = {}
        for name in names:
            woken_now[name] = self._clients[name].reply()
            self._clients[name].reply()
        return woken_now

    def wait_woken(self, count: int) -> None:
        """Wait until so many have woken."""
        while self._redis.run(words("LLEN", "woken")) < count:
            pass

    def end(self, waiting: Sequence[str]) -> None:
        for name in waiting:
            self._redis.run(words("CLIENT", "UNBLOCK", self._ids[name]))
        self.woken()
        self._redis.run(words("FLUSHALL"))

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


class Ours:
    """Readers of our commands, in virtual time."""

    def __init__(self) -> None:
        self._loop = VirtualLoop()
        self._engine = Engine(MemoryStorage(0), clock=ManualClock())
        self._runner = CommandRunner(EmbeddedBackend(self._engine))
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._woken: Woken = {}

    @property
    def blocked_count(self) -> int:
        return self._engine.waiter_count

    def read(self, client: str, command: Words) -> None:
        self._tasks[client] = self._loop.create_task(self._read(client, command))
        self._loop.run_until_complete(settle())

    async def _read(self, client: str, command: Words) -> None:
        self._woken[client] = await own_reply(self._runner, command)

    def write(self, commands: Sequence[Words]) -> list[Any]:
        if len(commands) == 1:
            replies = [self._loop.run_until_complete(own_reply(self._runner, commands[0]))]
        else:
            replies = plain(self._loop.run_until_complete(self._runner.run_all(commands)))
        self._loop.run_until_complete(settle())
        return replies

    def woken(self) -> Woken:
        woken_now, self._woken = self._woken, {}
        return woken_now

    def pass_deadlines(self) -> None:
        """Let the longest of the short deadlines pass."""
        self._loop.run_until_complete(asyncio.sleep(SHORT_MAX_MS / 1000))

    def end(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._loop.run_until_complete(asyncio.wait(self._tasks.values())) if self._tasks else None
        assert self._engine.waiter_count == 0
        self._loop.close()


class Pair:
    """Both servers, with the waiting clients and their queues."""

    def __init__(self, theirs: Theirs) -> None:
        self.theirs, self.ours = theirs, Ours()
        self.queues: dict[str, set[tuple[bytes, bytes]]] = {}  # of the clients that wait
        self.have_parted = False  # a difference of versions has made the states differ

    def read(self, client: str, command: Words, *, to_its_end: bool = False) -> list[str]:
        """Let a client read on both, to its deadline if need be; returns who has its reply."""
        at = command.index(b"STREAMS") + 1
        keys = command[at : (at + len(command)) // 2]
        group = command[2] if command[1] == b"GROUP" else b""
        self.queues[client] = {(key, group) for key in keys}
        self.theirs.read(client, command)
        self.ours.read(client, command)
        if to_its_end:
            self.theirs.wait_woken(1)
            self.ours.pass_deadlines()
        return self.compare_woken()

    def write(self, *commands: Words) -> list[str]:
        """Run commands on both, many at one moment; returns whom that woke."""
        theirs, ours = self.theirs.write(commands), self.ours.write(commands)
        assert ours == theirs
        return self.compare_woken(frozenset(KEYS).intersection(chain(*commands)))

    def pass_deadlines(self) -> list[str]:
        """Wait until all that wait have reached their deadlines."""
        self.theirs.wait_woken(len(self.queues))
        self.ours.pass_deadlines()
        return self.compare_woken()

    def compare_woken(self, touched: frozenset[bytes] = frozenset()) -> list[str]:
        theirs, ours = self.theirs.woken(), self.ours.woken()
        several = {name for name in self.queues if len(self._keys(name) & touched) > 1}
        self._compare_replies(theirs, ours, several)
        if not self.have_parted:
            self._compare_order(theirs, ours, several)
            assert self.ours.blocked_count == self.theirs.blocked_count
        for client in theirs:
            del self.queues[client]
        return list(theirs)

    def _keys(self, client: str) -> set[bytes]:
        return {key for key, _ in self.queues[client]}

    def _compare_replies(self, theirs: Woken, ours: Woken, several: set[str]) -> None:
        unknown = []
        for client in sorted(theirs.keys() | ours.keys()):
            replies = theirs.get(client, ASLEEP), ours.get(client, ASLEEP)
            if replies[0] == replies[1]:
                continue
            known = [item for item in KNOWN_DIFFERENCES if item.holds(*replies, client in several)]
            self.have_parted |= any(entry.is_final for entry in known)
            if not known:
                unknown.append((client, *replies))
        assert not unknown or self.have_parted, f"client, theirs, ours: {unknown}"

    def _compare_order(self, theirs: Woken, ours: Woken, several: set[str]) -> None:
        for queue in {queue for client in theirs for queue in self.queues[client]}:
            here = {name for name in theirs if queue in self.queues[name]} - several
            order = [client for client in ours if client in here]
            assert order == [client for client in theirs if client in here]

    def compare_groups(self) -> None:
        """Assert that the same entries are pending with the same consumers."""
        for key in KEYS:
            for group in GROUPS:
                pending = words("XPENDING", key, group, "-", "+", 100)
                [theirs], [ours] = self.theirs.write([pending]), self.ours.write([pending])
                assert without_times(ours) == without_times(theirs)

    def end(self) -> None:
        self.theirs.end(list(self.queues))
        self.ours.end()


def without_times(pending: Any) -> Any:
    if isinstance(pending, RedisError):
        return pending
    return [[entry_id, consumer, count] for entry_id, consumer, _, count in pending]


@pytest.fixture
def theirs(redis: Redis) -> Iterator[Theirs]:
    clients = Theirs(redis)
    yield clients
    clients.close()


class History:
    """Random reads and writes on few streams, so that they meet."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ms = 0

    def run(self, pair: Pair) -> int:
        """Run the history; returns how many steps the states stayed equal."""
        make_groups(pair)
        for step in range(STEPS):
            self._step(pair)
            if pair.have_parted:
                return step
        pair.compare_groups()
        return STEPS

    def _step(self, pair: Pair) -> None:
        idle = [client for client in CLIENTS if client not in pair.queues]
        if idle and self._random.random() < 0.45:
            block_ms = self._random.choice([0, 0, LONG_MS, LONG_MS, SHORT_MS])
            client = self._random.choice(idle)
            pair.read(client, self._read(client, block_ms), to_its_end=block_ms == SHORT_MS)
        else:
            pair.write(*[self._write() for _ in range(self._random.choice([1, 1, 1, 2, 3]))])

    def _read(self, client: str, block_ms: int) -> Words:
        pick = self._random
        keys = pick.choice([[b"s"], [b"s"], [b"t"], KEYS, KEYS[::-1]])
        options = [*pick.choice([[], [], words("COUNT", 1), words("COUNT", 2)])]
        options += words("BLOCK", block_ms, "STREAMS", *keys)
        if pick.random() < 0.3:
            return words("XREAD", *options, *[pick.choice(["$", "$", self._old()]) for _ in keys])
        ids = [pick.choice([*[">"] * 9, "0"]) for _ in keys]
        no_ack = pick.choice([[], [], [], [b"NOACK"]])
        group = pick.choice([b"g", b"g", b"h"])
        return words("XREADGROUP", "GROUP", group, client, *no_ack, *options, *ids)

    def _old(self) -> str:
        return f"{self._random.randint(max(self._ms - 3, 0), self._ms + 1)}-0"

    def _write(self) -> Words:
        pick, key, group = self._random, self._random.choice(KEYS), self._random.choice(GROUPS)
        makers: list[Callable[[], Words]] = [
            *[lambda: self._xadd(key)] * 10,
            lambda: words("XADD", key, self._old(), "f", "v"),
            lambda: words("XDEL", key, self._old()),
            lambda: words("XTRIM", key, "MAXLEN", pick.randint(0, 3)),
            lambda: words("XGROUP", "SETID", key, group, pick.choice(["0", "$", self._old()])),
            lambda: words("XGROUP", "DESTROY", key, group),
            lambda: words("XGROUP", "CREATE", key, group, pick.choice(["0", "$"]), "MKSTREAM"),
            lambda: words("XGROUP", "CREATE", key, group, pick.choice(["0", "$"]), "MKSTREAM"),
            lambda: words("XGROUP", "DELCONSUMER", key, group, pick.choice(CLIENTS)),
            lambda: words("XREADGROUP", "GROUP", group, "z", "COUNT", 1, "STREAMS", key, ">"),
            lambda: words("XACK", key, group, self._old()),
            lambda: words("DEL", key),
            lambda: words("RENAME", key, pick.choice(KEYS)),
        ]
        return pick.choice(makers)()

    def _xadd(self, key: bytes) -> Words:
        self._ms += 1
        return words("XADD", key, f"{self._ms}-0", "n", self._ms)


def test_random_histories_wake_the_same_readers_in_the_same_order(theirs: Theirs) -> None:
    steps = 0
    for seed in range(HISTORIES):
        pair = Pair(theirs)
        try:
            steps += History(seed).run(pair)
        except AssertionError as difference:
            raise AssertionError(f"seed {seed}: {difference}") from difference
        finally:
            pair.end()
    assert steps > HISTORIES * STEPS // 2


class Scenario(NamedTuple):
    """A story: clients that read (`a: XREAD …`), and commands that write (`;` between them)."""

    name: str
    steps: list[str]
    woken: list[str]  # by each step


SCENARIOS = [
    Scenario(
        "a plain reader outlives its stream and waits for an id above the one it began with",
        ["XADD s 5 f v", "a: XREAD BLOCK 0 STREAMS s $", "DEL s", "XADD s 4 f v", "XADD s 6 f v"],
        ["", "", "", "", "a"],
    ),
    Scenario(
        "a stream that is renamed onto the name wakes whom its entries concern",
        [
            "a: XREAD BLOCK 0 STREAMS s $",
            "b: XREADGROUP GROUP g b BLOCK 0 STREAMS s >",
            "c: XREADGROUP GROUP g c BLOCK 0 STREAMS t >",
            "XADD u 1 f v; XGROUP CREATE u g 0",
            "RENAME u s",
        ],
        ["", "", "", "", "ab"],
    ),
    Scenario(
        "a reader that was deleted while it waited is made again when it is served",
        ["a: XREADGROUP GROUP g a BLOCK 0 STREAMS s >", "XGROUP DELCONSUMER s g a", "XADD s 1 f v"],
        ["", "", "a"],
    ),
    Scenario(
        "a reader that goes away empty keeps its place and its deadline",
        [
            "a: XREADGROUP GROUP g a COUNT 1 BLOCK 0 STREAMS s >",
            "b: XREADGROUP GROUP g b COUNT 1 BLOCK 400 STREAMS s >",
            "c: XREADGROUP GROUP g c COUNT 1 BLOCK 500 STREAMS s >",
            "d: XREADGROUP GROUP g d COUNT 1 BLOCK 300 STREAMS s >",
            "XADD s 1 f v",
            "XADD s 2 f v",
            "wait",
        ],
        ["", "", "", "", "a", "b", "dc"],
    ),
    Scenario(
        "nothing waits inside a transaction",
        ["XREAD BLOCK 0 STREAMS s $; XREADGROUP GROUP g a BLOCK 0 STREAMS s >; XADD s 1 f v"],
        [""],
    ),
]
"""What random histories seldom come to."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[named.name for named in SCENARIOS])
def test_a_story_goes_the_same_way(theirs: Theirs, scenario: Scenario) -> None:
    pair = Pair(theirs)
    try:
        make_groups(pair)
        woken = ["".join(run_step(pair, step)) for step in scenario.steps]
        assert woken == scenario.woken
        pair.compare_groups()
    finally:
        pair.end()


def run_step(pair: Pair, step: str) -> list[str]:
    client, colon, read = step.partition(": ")
    if step == "wait":
        return pair.pass_deadlines()
    if colon:
        return pair.read(client, words(*read.split()))
    return pair.write(*[words(*command.split()) for command in step.split(";")])


def make_groups(pair: Pair) -> None:
    for key in KEYS:
        for group in GROUPS:
            pair.write(words("XGROUP", "CREATE", key, group, "$", "MKSTREAM"))
