"""Histories: random commands, for a redis-server and for us.

Replies and errors are compared, word for word. Where the server's version (Debian's 7.0) differs
from the one we follow (8.10), `wire/compared.py` leaves the difference out:

- a consumer whose read or claim gets nothing is made in 8, not in 7.0: both make it first;
- XINFO CONSUMERS has `inactive` since 7.2, and `idle` means another thing; XINFO STREAM has six
  more fields since 8.6; times differ by nature;
- lag has two more rules since 8.0, and entries-read is estimated anew when trimming has overtaken
  the group; ENTRIESREAD is cut to the entries added since 8.2. The examples have these;
- XREAD and XREADGROUP know the id `+` since 7.4, and say "Unbalanced" in other words;
- XSETID looks at the greatest deleted id before the last entry since 8;
- a trim by MINID there leaves a node without entries, which is not among ours (`engine/README.md`).
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from headgate.app.redis_syntax.runs import CommandRunner
from tests.model.own_replies import own_reply
from tests.model.redis_server import Redis, Words, words
from tests.model.wire.compared import Parted, check_trees, tree_from

STEPS = 200
KEYS = [b"s", b"t"]
GROUPS = [b"g", b"h"]
CONSUMERS = [b"a", b"b", b"c"]


class History:
    """Random commands on few keys, so that they meet."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ms = dict.fromkeys(KEYS, 1)

    def next(self) -> Words:
        """Return a command."""
        makers = [
            *[self._xadd] * 8,
            *[self._xreadgroup] * 6,
            *[self._xgroup] * 4,
            *[self._xinfo] * 3,
            *[self._xack, self._xdel, self._xpending, self._xclaim, self._xautoclaim] * 2,
            *[self._range, self._xread, self._xtrim, self._xsetid, self._key, self._whole],
        ]
        pick = self._random
        return pick.choice(makers)(pick.choice(KEYS), pick.choice(GROUPS), pick.choice(CONSUMERS))

    def _id(self) -> str:
        pick = self._random
        return pick.choice(
            [str(pick.randint(0, 12)), f"{pick.randint(0, 12)}-{pick.randint(0, 3)}"]
        )

    def _any_id(self) -> str:
        odd = ["-", "+", "$", ">", "0-0", "x", "1-", "(2", "5-*", "", " 3", "-1"]
        odd += [f"{2**64 - 1}-{2**64 - 1}", str(2**64)]
        return self._random.choice([*[self._id()] * 70, *odd])

    def _trim(self) -> Words:
        pick = self._random
        few = pick.randint(0, 8)
        return pick.choice(
            [
                [],
                [],
                words("MAXLEN", few - 1),
                words("MAXLEN", "~", few),
                words("MAXLEN", "=", few),
                words("MINID", self._any_id()),
                words("MINID", "~", self._id()),
                words("MAXLEN", "~", few, "LIMIT", pick.randint(-1, 6)),
                words("MAXLEN", 3, "LIMIT", 2),
                words("LIMIT", 2),
                words("MAXLEN", "x"),
                words("MAXLEN", 3, "MINID", 4),
            ]
        )

    def _xadd(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        del group, consumer
        pick = self._random
        self._ms[key] += pick.randint(0, 1)
        ms = self._ms[key]
        ids = [*[f"{ms}-*"] * 6, f"{ms}-{pick.randint(0, 3)}", self._any_id()]
        fields = [*[words("f", pick.randint(0, 9))] * 6, words("a", 1, "a", 2), words("a"), []]
        option = pick.choice([[], [], words("NOMKSTREAM")])
        new_id = words(pick.choice(ids))
        return words("XADD", key) + option + self._trim() + new_id + pick.choice(fields)

    def _xreadgroup(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        pick = self._random
        keys = pick.choice([[key], [key], [key], [key, key], KEYS])
        count = pick.choice(
            [[], [], words("COUNT", pick.randint(-1, 3)), words("NOACK"), words("COUNT", "x")]
        )
        ids = [pick.choice([*[">"] * 5, "0", self._id(), self._any_id()]) for _ in keys]
        head = words("XREADGROUP", "GROUP", group, consumer)
        return head + count + words("STREAMS", *keys, *ids)

    def _xgroup(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        pick = self._random
        start = pick.choice(["$", "0", self._id(), self._any_id()])
        option = pick.choice([[], words("MKSTREAM"), words("ENTRIESREAD", pick.randint(-2, 0))])
        return pick.choice(
            [
                words("XGROUP", "CREATE", key, group, start) + option,
                words("XGROUP", "CREATE", key, group, "0", "MKSTREAM"),
                words("XGROUP", "SETID", key, group, start)
                + pick.choice([[], words("ENTRIESREAD", pick.randint(-2, 0))]),
                words("XGROUP", "DESTROY", key, group),
                words("XGROUP", "CREATECONSUMER", key, group, consumer),
                words("XGROUP", "DELCONSUMER", key, group, consumer),
                words("XGROUP", "FOO", key, group),
                words("XGROUP", "CREATE", key),
            ]
        )

    def _xack(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        del consumer
        ids = [self._any_id() for _ in range(self._random.randint(1, 4))]
        return words("XACK", key, group, *ids)

    def _xdel(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        del group, consumer
        return words("XDEL", key, *[self._any_id() for _ in range(self._random.randint(1, 3))])

    def _xtrim(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        del group, consumer
        return words("XTRIM", key) + self._trim()

    def _range(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        del group, consumer
        pick = self._random
        count = [[], words("COUNT", pick.randint(-1, 3)), words("COUNT", "x"), words("FOO")]
        head = words(pick.choice(["XRANGE", "XREVRANGE"]), key, self._any_id(), self._any_id())
        return head + pick.choice(count)

    def _xread(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        del group, consumer
        pick = self._random
        others = [
            words("STREAMS", key, self._any_id()),
            words("STREAMS", *KEYS, self._id(), self._id()),
            words("STREAMS", key),
            words("FOO", "a", "b"),
            words("GROUP", "g", "c"),
        ]
        count = pick.choice([[], words("COUNT", pick.randint(-1, 3))])
        return words("XREAD") + count + pick.choice(others)

    def _xpending(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        pick = self._random
        head = words("XPENDING", key, group)
        return head + pick.choice(
            [
                [],
                words("-", "+", pick.randint(-1, 5)),
                words(self._any_id(), self._any_id(), 3),
                words("-", "+", 5, consumer),
                words("IDLE", pick.choice([0, 1_000_000]), "-", "+", 5),
                words("-"),
                words("IDLE", 1, "-", "+"),
            ]
        )

    def _xclaim(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        pick = self._random
        idle = pick.choice([0, 0, 0, 1_000_000, "x", -1])
        ids = [self._id() for _ in range(pick.randint(1, 4))]
        options = ["", "JUSTID", "FORCE", "FORCE JUSTID", "IDLE 0", "TIME 5", "FOO", "IDLE"]
        options += [f"RETRYCOUNT {pick.randint(-1, 9)}", f"LASTID {self._id()}", "TIME x"]
        head = words("XCLAIM", key, group, consumer, idle, *ids)
        return head + words(*pick.choice(options).split())

    def _xautoclaim(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        pick = self._random
        idle = pick.choice([0, 0, 1_000_000, "x"])
        options = ["", f"COUNT {pick.randint(0, 3)}", "JUSTID", "COUNT 2 JUSTID", "FOO"]
        head = words("XAUTOCLAIM", key, group, consumer, idle, self._any_id())
        return head + words(*pick.choice(options).split())

    def _xinfo(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        del consumer
        pick = self._random
        return pick.choice(
            [
                words("XINFO", "STREAM", key),
                words("XINFO", "GROUPS", key),
                words("XINFO", "CONSUMERS", key, group),
                words("XINFO", "STREAM", key, "FULL"),
                words("XINFO", "STREAM", key, "FULL", "COUNT", pick.randint(-1, 3)),
                words("XINFO", "STREAM", key, "FOO"),
                words("XINFO", "BAR", key),
                words("XINFO", "GROUPS"),
            ]
        )

    def _xsetid(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        del group, consumer
        pick = self._random
        added = words("ENTRIESADDED", pick.randint(-1, 20))
        deleted = words("MAXDELETEDID", self._id())
        options = [[], added, deleted, added + deleted, words("FOO", 1)]
        return words("XSETID", key, self._any_id()) + pick.choice(options)

    def _key(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        del group, consumer
        pick = self._random
        command = pick.choice(["DEL", "EXISTS", "TYPE", "TTL", "XLEN", "KEYS", "FOO"])
        if command == "DEL":
            self._ms[key] = 1
        more = [b"bar"] if command == "FOO" else []
        return words(command, b"*" if command == "KEYS" else key, *more)

    def _whole(self, key: bytes, group: bytes, consumer: bytes) -> Words:
        """Return a command about a stream as a whole."""
        del group, consumer
        pick = self._random
        other = pick.choice(KEYS)
        self._ms[other] = max(self._ms[key], self._ms[other])
        return pick.choice(
            [
                words("RENAME", key, other),
                words("RENAMENX", key, other),
                words("COPY", key, other),
                words("COPY", key, other, "REPLACE"),
                words("COPY", key, other, "FOO"),
                words("OBJECT", pick.choice(["ENCODING", "REFCOUNT", "FREQ", "FOO"]), key),
                words("MEMORY", "USAGE", key),
                words("MEMORY", "USAGE", key, "SAMPLES", pick.choice([0, -1, "x"])),
            ]
        )


def run_ours(loop: asyncio.AbstractEventLoop, runner: CommandRunner, command: Words) -> Any:
    return loop.run_until_complete(own_reply(runner, command))


def run_history(
    loop: asyncio.AbstractEventLoop,
    redis: Redis,
    runner: CommandRunner,
    seed: int,
    between: Callable[[int], None] = lambda _: None,
) -> int:
    """Run one history on both; returns how many commands were compared.

    Args:
        loop: where ours run.
        redis: the server.
        runner: our commands.
        seed: of the history.
        between: called with the number of each step before it.
    """
    history = History(seed)
    redis.run(words("FLUSHALL"))
    for step in range(STEPS):
        between(step)
        command = history.next()
        for key in KEYS if command[0] in (b"XREADGROUP", b"XCLAIM", b"XAUTOCLAIM") else ():
            group, consumer = command[2:4]
            made = words("XGROUP", "CREATECONSUMER", key, group, consumer)
            redis.run(made)
            run_ours(loop, runner, made)
        theirs, ours = redis.run(command), run_ours(loop, runner, command)
        try:
            check_trees(command, tree_from(theirs), tree_from(ours))
        except Parted:
            return step
        except AssertionError as error:
            error.add_note(f"seed {seed}, step {step}")
            raise
    return STEPS
