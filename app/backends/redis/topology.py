"""The current primaries, and the slots of each in a cluster."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from redis.exceptions import NoPermissionError, RedisError

from headgate.app.backends.redis.address import Address, Arrangement, ServerLogin, Servers
from headgate.app.backends.redis.faults import NotSent
from headgate.app.backends.redis.node import connection_to

SLOT_COUNT = 16_384
"""Slots of a cluster."""


class _Forbidden(NotSent):
    pass


class Topology(NamedTuple):
    """The primaries; sorted ranges of slots, in parallel lists with their addresses."""

    first_slots: Sequence[int]
    last_slots: Sequence[int]
    addresses: Sequence[Address]

    def of_slot(self, slot: int) -> Address | None:
        at = bisect_right(self.first_slots, slot) - 1
        return self.addresses[at] if at >= 0 and slot <= self.last_slots[at] else None

    @property
    def primaries(self) -> list[Address]:
        return list(dict.fromkeys(self.addresses))


def of_one(address: Address) -> Topology:
    return Topology([0], [SLOT_COUNT - 1], [address])


async def discover(servers: Servers, known: Sequence[Address], timeout_s: float) -> Topology:
    """Ask the servers who the primaries are, beginning with the `known` ones.

    `timeout_s` bounds each server. Raises NotSent, with what the last server did, if none answers.
    """
    if servers.arrangement is Arrangement.SINGLE:
        [address] = servers.addresses
        with suppress(_Forbidden):  # but it is there
            await _ask(servers, address, timeout_s, b"PING")
        return of_one(address)
    failures: list[str] = []
    asked = known if servers.arrangement is Arrangement.CLUSTER else ()
    for address in dict.fromkeys([*asked, *servers.addresses]):
        try:
            if servers.arrangement is Arrangement.CLUSTER:
                ranges = await _ask(servers, address, timeout_s, b"CLUSTER", b"SLOTS")
                topology = _read_slots(ranges, address)
                if topology.addresses:
                    return topology
                failures.append(f"{address} has no slots")
            else:
                return of_one(await _ask_sentinel(servers, address, timeout_s))
        except NotSent as error:
            failures.append(str(error))
    raise NotSent("; ".join(failures))


async def _ask_sentinel(servers: Servers, address: Address, timeout_s: float) -> Address:
    plain = servers._replace(database=0, login=ServerLogin())  # those of the servers differ
    words = b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", servers.service.encode()
    reply = await _ask(plain, address, timeout_s, *words)
    if reply is None:
        raise NotSent(f"the sentinel at {address} does not know the service {servers.service!r}")
    primary = Address(reply[0].decode(), int(reply[1]))
    role = await _ask(servers, primary, timeout_s, b"ROLE")
    if role[0] != b"master":
        raise NotSent(f"{primary} is not a primary yet")
    return primary


async def _ask(servers: Servers, address: Address, timeout_s: float, *words: bytes) -> Any:
    """Send a command over its own connection; raises NotSent for an error or no answer."""
    connection = connection_to(servers, address, timeout_s=timeout_s)
    try:
        async with asyncio.timeout(timeout_s):
            await connection.connect()  # type: ignore[no-untyped-call]
            await connection.send_command(*words, check_health=False)
            return await connection.read_response()
    except NoPermissionError as error:
        raise _Forbidden(f"{address}: {error}") from None
    except (OSError, RedisError, TimeoutError) as error:
        raise NotSent(f"{address}: {str(error) or type(error).__name__}") from None
    finally:
        with suppress(OSError, RedisError):
            await connection.disconnect(nowait=True)


def _read_slots(ranges: Sequence[Any], asked: Address) -> Topology:
    parts = sorted((first, last, primary) for first, last, primary, *_ in ranges)
    return Topology(
        [first for first, _, _ in parts],
        [last for _, last, _ in parts],
        # A server that does not know its own name leaves it out.
        [
            Address((primary[0] or b"").decode() or asked.host, primary[1])
            for _, _, primary in parts
        ],
    )
