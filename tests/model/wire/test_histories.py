"""The same bytes to a redis-server and to a gateway: the same bytes come back.

Random histories of commands go over two connections of each server, by RESP2 or RESP3, in pipelines
that are cut anywhere, with transactions that watch streams, and with commands about the connection.
HEADGATE_TEST_WIRE=long runs 400 histories of 200 commands, and compares with Valkey 9 as well.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.model.histories import KEYS, History
from tests.model.redis_server import Words, lines, words
from tests.model.wire.compared import Parted, check_equal, comparable
from tests.model.wire.replies import Wire, tree_of, written
from tests.model.wire.servers import gateway_port, server_port
from tests.servers.programs import redis_server, valkey_server

IS_LONG = os.environ.get("HEADGATE_TEST_WIRE") == "long"
HISTORIES = 400 if IS_LONG else 200
Program = Callable[[], Path]
PROGRAMS: list[Program] = [redis_server, valkey_server] if IS_LONG else [redis_server]
COMMANDS = 200
CONNECTIONS = 2

PACKED = (b"$", b"radix-tree-keys")
"""A field: in how many nodes the entries of a stream are."""

ABOUT_CONNECTIONS = lines(
    "PING / PING a / ECHO a / SELECT 0 / SELECT x / CLIENT SETNAME a / CLIENT GETNAME / "
    "CLIENT FOO / CLIENT / CLIENT NO-EVICT ON / CLIENT TRACKINGINFO / UNWATCH / RESET / MULTI / "
    "EXEC / DISCARD / WATCH s / WATCH s t / FOO a b / XADD / XLEN / HELLO 9 / "
    "CONFIG GET stream-node-max-entries / COMMAND COUNT x / COMMAND GETKEYS XADD s * a b / "
    "WAIT 0 0 / UNLINK t / PTTL s / PERSIST s / EXPIRE nothing 5 / EXISTS s t s / "
    "SCAN 0 MATCH nothing / XREAD BLOCK 1 STREAMS s t 0-0 $ / XREAD STREAMS s t 0-0 0-0 / "
    "XREAD STREAMS nothing 0"
)

UNLIKE_VALKEY = {"MULTI", "WATCH s", "WATCH s t"}
"""In a transaction Valkey 9 refuses them in other words, and then refuses the transaction."""


class Talk:
    """The commands that are sent over the connections, with the states of these."""

    def __init__(self, seed: int, about_connections: Sequence[str]) -> None:
        self.seed = seed
        self.pick = random.Random(seed)
        self._about_connections = about_connections
        self._history = History(seed)

    def pipeline(self) -> list[Words]:
        """Return commands that are sent together."""
        pick = self.pick
        commands = [each for _ in range(pick.choice([1, 1, 2, 5, 12])) for each in self._next()]
        if pick.random() < 0.3:
            watch = [words("WATCH", *KEYS)] if pick.random() < 0.3 else []
            end = pick.choice(["EXEC", "EXEC", "EXEC", "DISCARD"])
            return [*watch, words("MULTI"), *commands, words(end)]
        return commands

    def _next(self) -> list[Words]:
        if self.pick.random() < 0.15:
            return [words(*self.pick.choice(self._about_connections).split())]
        command = self._history.next()
        if command[0] not in (b"XREADGROUP", b"XCLAIM", b"XAUTOCLAIM"):
            return [command]
        group, consumer = command[2:4]  # 8 makes a consumer where 7.0 does not
        return [*(words("XGROUP", "CREATECONSUMER", key, group, consumer) for key in KEYS), command]

    def pieces(self, commands: list[Words]) -> list[bytes]:
        """Return the bytes of commands, some of them as lines, cut anywhere."""
        data = b"".join(map(self._bytes, commands))
        cuts = sorted(self.pick.randrange(len(data)) for _ in range(self.pick.choice([0, 0, 1, 3])))
        return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def _bytes(self, command: Words) -> bytes:
        if self.pick.random() < 0.1 and all(word.isalnum() for word in command):
            return b" ".join(command) + b"\r\n"
        return written(command)


class Pair:
    """A connection to each server; the same goes over both."""

    def __init__(self, theirs: int, ours: int) -> None:
        self.theirs, self.ours = Wire(theirs), Wire(ours)
        self.queued: list[Words] | None = None  # of a transaction

    def begin(self, protocol: int) -> None:
        """Begin anew."""
        self.queued = None
        for wire in (self.theirs, self.ours):
            assert wire.run(b"RESET\r\n") == [b"+RESET\r\n"]
            wire.run(b"HELLO %d\r\n" % protocol)

    def run(self, commands: list[Words], pieces: list[bytes]) -> int:
        """Send commands, and compare the replies; returns how many were compared."""
        self.theirs.send(*pieces)
        self.ours.send(*pieces)
        replies = [(self.theirs.reply(), self.ours.reply()) for _ in commands]
        for command, (theirs, ours) in zip(commands, replies, strict=True):
            check_equal(command, theirs, ours, self._run_by(command, theirs))
        return len(commands)

    def _run_by(self, command: Words, reply: bytes) -> list[Words]:
        """Follow a transaction; returns the commands that a command runs."""
        name = command[0].upper()
        if reply == b"+QUEUED\r\n":
            assert self.queued is not None
            self.queued.append(command)
        elif name == b"MULTI" and reply == b"+OK\r\n":
            self.queued = []
        elif name in (b"EXEC", b"DISCARD", b"RESET"):
            queued, self.queued = self.queued, None
            return queued or []
        return []

    def exchange(self, key: bytes) -> int:
        """Restore with each server the other's dump; returns the number of comparisons.

        A payload of 7.0 is not ours byte by byte, and what is restored here is packed anew.
        """
        if self.queued is not None:
            return 0
        both = self.theirs, self.ours
        theirs, ours = (wire.run(written(words("DUMP", key)))[0] for wire in both)
        if not tree_of(theirs)[1]:
            assert ours == theirs
            return 1
        full = words("XINFO", "STREAM", "restored", "FULL", "COUNT", 0)
        restored = []
        for wire, (_, payload) in zip(both, map(tree_of, (ours, theirs)), strict=True):
            restore = words("RESTORE", "restored", 0, payload, "REPLACE")
            assert wire.run(written(restore)) == [b"+OK\r\n"]
            kind, fields = comparable(full, tree_of(wire.run(written(full))[0]))
            restored.append((kind, [field for field in fields if field[0] != PACKED]))
        assert restored[0] == restored[1]
        return 2 + self.run([words("DEL", "restored")], [b"DEL restored\r\n"])

    def close(self) -> None:
        self.theirs.close()
        self.ours.close()


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> Program:
    """Return the server that the gateway is compared with."""
    program: Program = request.param
    return program


@pytest.fixture(scope="module")
def pairs(program: Program) -> Iterator[list[Pair]]:
    with (
        server_port("--stream-node-max-entries", "3", program=program()) as theirs,
        gateway_port() as ours,
    ):
        made = [Pair(theirs, ours) for _ in range(CONNECTIONS)]
        made[0].ours.run(b"CONFIG SET stream-node-max-entries 3\r\n")
        yield made
        for pair in made:
            pair.close()


def run_history(pairs: list[Pair], talk: Talk) -> int:
    """Run a history; returns how many commands were compared."""
    count = 0
    for pair in pairs:
        pair.begin(talk.pick.choice([2, 3]))
    pairs[0].run([words("FLUSHALL")], [b"FLUSHALL\r\n"])
    with suppress(Parted):
        while count < COMMANDS:
            commands = talk.pipeline()
            pieces = talk.pieces(commands)
            try:
                count += talk.pick.choice(pairs).run(commands, pieces)
                if talk.pick.random() < 0.05:
                    count += pairs[0].exchange(talk.pick.choice(KEYS))
            except AssertionError as error:
                error.add_note(f"seed {talk.seed}, after {count} commands: {pieces!r}"[:3000])
                raise
    return count


def test_random_histories_have_the_same_bytes(pairs: list[Pair], program: Program) -> None:
    about = ABOUT_CONNECTIONS
    if program is valkey_server:
        about = [each for each in ABOUT_CONNECTIONS if each not in UNLIKE_VALKEY]
    compared = [run_history(pairs, Talk(seed, about)) for seed in range(HISTORIES)]
    assert sum(compared) > HISTORIES * COMMANDS // 2
