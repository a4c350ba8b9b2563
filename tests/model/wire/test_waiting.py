"""Reads that wait, by bytes: the same readers wake, in the same order, with the same bytes.

The histories are those of `tests.model.test_blocking_differential`; here both sides are servers.
What waits at the end of a history is ended by CLIENT UNBLOCK. HEADGATE_TEST_WIRE=long runs 200.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.model import test_blocking_differential as waiting
from tests.model.redis_server import RedisError, Words, server_path, words
from tests.model.test_blocking_differential import CLIENTS, Pair, Woken
from tests.model.wire.replies import Tree, Wire, tree_of, written
from tests.model.wire.servers import gateway_port, server_port

pytestmark = pytest.mark.skipif(
    server_path() is None and not os.environ.get("CI"), reason="there is no redis-server"
)

HISTORIES = 200 if os.environ.get("HEADGATE_TEST_WIRE") == "long" else 20
WITHIN_S = 0.5


class Side:
    """Clients of one server, as `Pair` uses them."""

    def __init__(self, port: int, protocol: int, other: Side | None = None) -> None:
        self._writer = Wire(port)
        self._clients = {name: Wire(port) for name in CLIENTS}
        for client in self._clients.values():
            client.run(b"HELLO %d\r\n" % protocol)
        self.ids = {name: self._id(name) for name in CLIENTS}
        self._other = other  # the server that shows how many have to wake
        self.raw: dict[str, bytes] = {}  # the last replies

    def _id(self, name: str) -> int:
        return int(self._clients[name].run(b"CLIENT ID\r\n")[0][1:])

    def run(self, *command: object) -> Any:
        return plain(tree_of(self._writer.run(written(words(*command)))[0]))

    @property
    def blocked_count(self) -> int:
        lines = self.run("INFO", "clients").split()
        return int(dict(line.split(b":") for line in lines if b":" in line)[b"blocked_clients"])

    @property
    def woken_count(self) -> int:
        return int(self.run("XLEN", "woken"))

    def read(self, client: str, command: Words) -> None:
        """Let a client read; returns when it waits, or has its reply."""
        before = self.blocked_count
        noted = written(words("XADD", "woken", "*", "client", client))
        self._clients[client].send(written(command) + noted)
        while self.blocked_count == before and not self.woken_count:
            pass

    def write(self, commands: Sequence[Words]) -> list[Any]:
        if len(commands) == 1:
            return [self.run(*commands[0])]
        data = b"".join(map(written, [words("MULTI"), *commands, words("EXEC")]))
        return list(plain(tree_of(self._writer.run(data, len(commands) + 2)[-1])))

    def woken(self) -> Woken:
        """Return the clients that have woken since the last time."""
        if self._other is not None:
            self.wait_woken(len(self._other.raw))
        names = [entry[1][1].decode() for entry in self.run("XRANGE", "woken", "-", "+")]
        self.run("DEL", "woken")
        self.raw = {}
        for name in names:
            self.raw[name] = self._clients[name].reply()
            self._clients[name].reply()
        return {name: plain(tree_of(reply)) for name, reply in self.raw.items()}

    def wait_woken(self, count: int) -> None:
        """Wait until so many have woken, for as long as that may take."""
        end_s = time.monotonic() + WITHIN_S
        while self.woken_count < count and time.monotonic() < end_s:
            pass

    def pass_deadlines(self) -> None:
        """Let those wake whose deadlines have passed with the other server."""
        assert self._other is not None
        self.wait_woken(self._other.woken_count)

    def end(self, waiting: Sequence[str] = ()) -> None:
        del waiting

    def unblock(self, client: str, how: str) -> bytes:
        """End a read; returns its reply."""
        assert self.run("CLIENT", "UNBLOCK", self.ids[client], how) == 1
        reply = self._clients[client].reply()
        self._clients[client].reply()
        return reply

    def begin(self) -> None:
        """Forget all streams."""
        self.run("FLUSHALL")
        self.raw = {}

    def close(self) -> None:
        for wire in (self._writer, *self._clients.values()):
            wire.close()


def plain(tree: Tree) -> Any:
    """Return a reply as `waiting` knows replies: maps are pairs."""
    kind, content = tree
    if kind == b"-":
        return RedisError(content.decode())
    if kind == b":":
        return int(content)
    if kind == b"+":
        return content.decode()
    if kind == b"*" and content is not None:
        return [plain(item) for item in content]
    if kind == b"%":
        flat = [plain(item) for item in content]
        return [list(pair) for pair in zip(flat[::2], flat[1::2], strict=True)]
    return None if kind == b"_" else content


class WirePair(Pair):
    """Both servers; equal replies have equal bytes."""

    def __init__(self, theirs: Side, ours: Side) -> None:
        self.theirs, self.ours = theirs, ours  # type: ignore[assignment]  # they do the same
        self._sides = theirs, ours
        self.queues = {}
        self.have_parted = False

    def compare_woken(self, touched: frozenset[bytes] = frozenset()) -> list[str]:
        names = super().compare_woken(touched)
        theirs, ours = (side.raw for side in self._sides)
        for name in theirs.keys() & ours.keys():
            if plain(tree_of(theirs[name])) == plain(tree_of(ours[name])):
                assert ours[name] == theirs[name]
        return names

    def end(self) -> None:
        """End all waiting reads."""
        if not self.have_parted:
            for at, name in enumerate(sorted(self.queues)):
                how = ("TIMEOUT", "ERROR")[at % 2]
                replies = [side.unblock(name, how) for side in self._sides]
                assert replies[0] == replies[1]


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    with server_port() as theirs, gateway_port() as ours:
        yield theirs, ours


def test_random_histories_wake_readers_with_the_same_bytes(ports: tuple[int, int]) -> None:
    steps = 0
    for seed in range(HISTORIES):
        theirs = Side(ports[0], 2 + seed % 2)
        ours = Side(ports[1], 2 + seed % 2, theirs)
        theirs.begin()
        ours.begin()
        pair = WirePair(theirs, ours)
        try:
            steps += waiting.History(seed).run(pair)
            pair.end()
        except AssertionError as difference:
            difference.add_note(f"seed {seed}")
            raise
        finally:
            theirs.close()
            ours.close()
    assert steps > HISTORIES * waiting.STEPS // 2
