"""Diagnosis of servers: their versions, rights, durability and topology."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from redis.exceptions import NoPermissionError, RedisError, ResponseError

from headgate.app.backends.redis.address import Address, Arrangement, Servers
from headgate.app.backends.redis.durability import DurabilityLevel
from headgate.app.backends.redis.faults import NotSent
from headgate.app.backends.redis.features import (
    FEATURES,
    Ask,
    Facts,
    Feature,
    facts_of,
    features_of,
    promise_of,
)
from headgate.app.backends.redis.keys import KeyNames
from headgate.app.backends.redis.node import connection_to
from headgate.app.backends.redis.topology import SLOT_COUNT, Topology, discover
from headgate.app.diagnosis import Finding, Severity, merged


@asynccontextmanager
async def asking(
    servers: Servers, address: Address, timeout_s: float, protocol: int = 2
) -> AsyncIterator[Ask]:
    """Connect, and yield what sends commands; `timeout_s` bounds each answer. Raises NotSent."""
    connection = connection_to(servers, address, protocol=protocol, timeout_s=timeout_s)

    async def ask(*words: bytes | str | int) -> Any:
        async with asyncio.timeout(timeout_s):
            await connection.send_command(*words, check_health=False)
            return await connection.read_response()

    try:
        async with asyncio.timeout(timeout_s):
            await connection.connect()  # type: ignore[no-untyped-call]
        yield ask
    except ResponseError as error:
        raise NotSent(f"{address}: {error}") from None
    except (OSError, RedisError, TimeoutError) as error:
        raise NotSent(f"{address}: {str(error) or type(error).__name__}") from None
    finally:
        with suppress(OSError, RedisError):
            await connection.disconnect(nowait=True)


# Rights: which commands the user of a server lacks.
#
# The server itself says so (ACL DRYRUN), for a sample of each command on a key of ours. No sample
# is carried out.

_SAMPLES = """\
: EXEC, INFO, MULTI, PING, TIME
ON BCAST: CLIENT TRACKING
get: COMMAND INFO
text: SCRIPT LOAD
REPLACE text: FUNCTION LOAD
hash 1 {key}: EVALSHA
name 1 {key}: FCALL
0: SCAN
{key}: DEL, DUMP, EXISTS, MEMORY USAGE, PERSIST, PEXPIRETIME, PTTL, TYPE, UNLINK, WATCH
{key}: XINFO GROUPS, XINFO STREAM, XLEN
{key} {key}: COPY, RENAME
{key} 1000: PEXPIRE, PEXPIREAT
{key} 0 payload: RESTORE
{key} * name value: XADD
{key} 1-1: XDEL, XSETID
{key} - +: XRANGE
{key} + -: XREVRANGE
{key} MAXLEN 1: XTRIM
{key} group: XGROUP DESTROY, XINFO CONSUMERS, XPENDING
{key} group $: XGROUP CREATE, XGROUP SETID
{key} group 1-1: XACK
{key} group consumer: XGROUP CREATECONSUMER, XGROUP DELCONSUMER
{key} group consumer 0 0-0: XAUTOCLAIM
{key} group consumer 0 1-1: XCLAIM
STREAMS {key} 0: XREAD
GROUP group consumer STREAMS {key} >: XREADGROUP
{side}: GET, HGETALL, HKEYS, HLEN, HRANDFIELD, SCARD, SMEMBERS, ZCARD, ZPOPMIN
{side} value: SET
{side} field: HDEL, HGET, HMGET
{side} field 1: HINCRBY
{side} field value: HSET, HSETNX
{side} member: SADD, SREM, ZREM, ZSCORE
{side} 1: ZRANDMEMBER
{side} 1 member: ZADD
{side} 0 1: ZCOUNT, ZRANGEBYSCORE, ZREMRANGEBYSCORE
{side} 0 -1: ZRANGE
{side} - +: ZLEXCOUNT, ZRANGEBYLEX
"""
"""The commands that the gateway and its functions use, behind the words that each is asked with."""

SAMPLES = sorted(
    f"{command} {words}".strip()
    for words, _, commands in (line.partition(": ") for line in _SAMPLES.splitlines())
    for command in commands.split(", ")
)
"""A sample of each command."""

_OF_CLUSTERS = ["CLUSTER SLOTS", "ASKING"]


class Rights(NamedTuple):
    user: str | None  # None: it may not even ask
    lacking: tuple[str, ...]  # commands


async def rights_of(ask: Ask, names: KeyNames, *, is_cluster: bool) -> Rights:
    """Return which of the needed commands this user lacks."""
    stream = names.of(b"headgate-doctor")
    values = {"key": stream.key.decode(), "side": stream.side(b"meta").decode()}
    lacking = []
    try:
        user = (await ask(b"ACL", b"WHOAMI")).decode()
        for sample in SAMPLES + _OF_CLUSTERS * is_cluster:
            words = [word.format(**values) for word in sample.split(" ")]
            if not await _may(ask, user, words):
                lacking.append(_name(words))
    except NoPermissionError:
        return Rights(None, ())
    return Rights(user, tuple(lacking))


async def _may(ask: Ask, user: str, words: list[str]) -> bool:
    try:
        reply = await ask(b"ACL", b"DRYRUN", user, *words)
    except NoPermissionError:
        raise
    except ResponseError:  # the server has no such command, which `features` tells
        return True
    return bool(reply == b"OK")


def _name(words: list[str]) -> str:
    return " ".join(words[: 2 if words[0] in _WITH_SUBCOMMANDS else 1])


_WITH_SUBCOMMANDS = frozenset(
    ("CLIENT", "CLUSTER", "COMMAND", "FUNCTION", "MEMORY", "SCRIPT", "XGROUP", "XINFO")
)


CLOCK_MS_MAX = 1_000
"""A greater difference of clocks is told. Ids and delays are made of the clocks of the servers."""

Clock = Callable[[], int]
"""Returns unix time in milliseconds."""


class Examined(NamedTuple):
    address: Address
    clock_ahead_ms: int  # of the clock of this machine
    findings: list[Finding]


async def examine_server(
    servers: Servers,
    address: Address,
    names: KeyNames,
    chosen: DurabilityLevel,
    clock: Clock,
    timeout_s: float,
) -> Examined:
    """Examine a primary; raises NotSent if it does not answer."""
    async with asking(servers, address, timeout_s) as ask:
        try:
            facts = await facts_of(ask)
            features = await features_of(ask)
        except ResponseError as error:
            text, follows = f"it refused a command: {error}", "nothing else could be checked"
            finding = Finding("answers", Severity.FAULT, text, follows)
            return Examined(address, 0, [finding._replace(servers=(str(address),))])
        rights = await rights_of(ask, names, is_cluster=servers.arrangement is Arrangement.CLUSTER)
        ahead_ms = await _clock_ahead_ms(ask, clock)
    refusal = await _tracking_refusal(servers, address, names, timeout_s)
    findings = [
        *_about_server(facts, servers.arrangement),
        *_about_memory(facts),
        *_about_safety(facts, chosen, features),
        *_about_features(features, refusal),
        *_about_rights(rights),
        _about_clock(ahead_ms),
    ]
    return Examined(
        address, ahead_ms, [each._replace(servers=(str(address),)) for each in findings]
    )


def _about_server(facts: Facts, kind: Arrangement) -> Iterator[Finding]:
    text = f"{facts.product} {facts.version}"
    if facts.is_too_old:
        needed = "Redis 7.0 or Valkey 7.2"
        yield Finding("server", Severity.FAULT, text, f"it is too old: {needed} or newer is needed")
    else:
        yield Finding("server", Severity.OK, text)
    mode, is_cluster = facts.mode, facts.mode == "cluster"
    if is_cluster != (kind is Arrangement.CLUSTER):
        follows = "the URL must begin with redis" + ("+cluster" if is_cluster else "")
        yield Finding("mode", Severity.FAULT, mode, follows)
    elif facts.role != "master":
        yield Finding("mode", Severity.FAULT, f"{mode}, a replica", "it accepts no changes")
    elif facts.is_loading:
        yield Finding(
            "mode", Severity.WARNING, f"{mode}, loading", "requests wait until loading is done"
        )
    else:
        yield Finding("mode", Severity.OK, mode)


def _about_memory(facts: Facts) -> Iterator[Finding]:
    bound = f"{facts.memory_bytes_max:,} bytes" if facts.memory_bytes_max else "no bound"
    text = f"{bound}, maxmemory-policy {facts.eviction}"
    if facts.evicts and facts.memory_bytes_max:
        yield Finding(
            "memory",
            Severity.FAULT,
            text,
            "the server deletes streams when it is full: set maxmemory-policy noeviction",
        )
    elif facts.evicts:
        follows = "with a limit, the server would delete streams: set maxmemory-policy noeviction"
        yield Finding("memory", Severity.WARNING, text, follows)
    elif facts.memory_bytes_max:
        yield Finding("memory", Severity.OK, text, "when it is full, appends are refused")
    else:
        follows = "set maxmemory below the memory of the machine, or the system may kill the server"
        yield Finding("memory", Severity.WARNING, text, follows)


def _about_safety(
    facts: Facts, chosen: DurabilityLevel, features: frozenset[Feature]
) -> Iterator[Finding]:
    fsync = "may not be asked" if facts.fsync is None else facts.fsync
    text = f"appendonly {'yes' if facts.appends else 'no'}, appendfsync {fsync}"
    if facts.appends:
        yield Finding("disk", Severity.OK, text)
    else:
        follows = "a restart of the server loses all changes since its last snapshot"
        yield Finding("disk", Severity.WARNING, text, follows)
    if facts.replica_count:
        yield Finding("replicas", Severity.OK, "; ".join(facts.replicas))
    else:
        text = "; ".join(facts.replicas) or "none"
        follows = "no replica can take over if the server fails"
        yield Finding("replicas", Severity.WARNING, text, follows)
    for level in DurabilityLevel:
        promise = promise_of(level, facts, features)
        severity = Severity.OK
        if not promise.is_kept:
            severity = Severity.FAULT if level is chosen else Severity.WARNING
        yield Finding(f"--redis-durability {level}", severity, promise.text)


def _about_features(features: frozenset[Feature], refusal: str | None) -> Iterator[Finding]:
    for feature, need in FEATURES.items():
        if feature not in features:
            yield Finding(feature, Severity.OK, "the server lacks it", need.without)
        elif feature is Feature.TRACKING and refusal is not None:
            yield Finding(feature, Severity.WARNING, refusal, need.without)
        else:
            yield Finding(feature, Severity.OK, "there")


def _about_rights(rights: Rights) -> Iterator[Finding]:
    if rights.user is None:
        text = "this user may not check its own permissions"
        yield Finding("rights", Severity.UNKNOWN, text, "needs ACL WHOAMI and ACL DRYRUN")
    elif rights.lacking:
        text = f"user {rights.user} lacks {', '.join(rights.lacking)}"
        yield Finding(
            "rights", Severity.FAULT, text, "operations that need these commands or keys fail"
        )
    else:
        yield Finding(
            "rights", Severity.OK, f"user {rights.user} has all permissions that are needed"
        )


def _about_clock(ahead_ms: int) -> Finding:
    if abs(ahead_ms) <= CLOCK_MS_MAX:
        return Finding("clock", Severity.OK, f"within {CLOCK_MS_MAX:,} ms of this machine")
    text = f"{abs(ahead_ms):,} ms {'ahead of' if ahead_ms > 0 else 'behind'} this machine"
    return Finding("clock", Severity.WARNING, text, "ids use the time of the server: use NTP")


async def _clock_ahead_ms(ask: Ask, clock: Clock) -> int:
    """Return how far a server's clock is ahead of this machine's."""
    before_ms = clock()
    seconds, microseconds = await ask(b"TIME")
    return int(seconds) * 1000 + int(microseconds) // 1000 - (before_ms + clock()) // 2


async def _tracking_refusal(
    servers: Servers, address: Address, names: KeyNames, timeout_s: float
) -> str | None:
    prefixes = [word for prefix in names.tracked() for word in (b"PREFIX", prefix)]
    try:
        async with asking(servers, address, timeout_s, protocol=3) as ask:
            await ask(b"CLIENT", b"TRACKING", b"ON", b"BCAST", *prefixes, b"NOLOOP")
    except (NotSent, ResponseError) as error:
        return f"refused: {error}"
    return None


async def examine(
    servers: Servers, names: KeyNames, chosen: DurabilityLevel, clock: Clock, timeout_s: float
) -> list[Finding]:
    """Examine the servers of a backend without changing anything there."""
    try:
        topology = await discover(servers, (), timeout_s)
    except NotSent as error:
        return [Finding("servers", Severity.FAULT, str(error), "the gateway cannot start")]
    outcomes = await asyncio.gather(
        *(
            examine_server(servers, address, names, chosen, clock, timeout_s)
            for address in topology.primaries
        ),
        return_exceptions=True,
    )
    findings: list[Finding] = []
    examined: list[Examined] = []
    for address, outcome in zip(topology.primaries, outcomes, strict=True):
        if isinstance(outcome, Examined):
            examined.append(outcome)
            findings += outcome.findings
        elif isinstance(outcome, NotSent):
            text, follows = f"no answer: {outcome}", "its streams cannot be used"
            findings.append(Finding("server", Severity.FAULT, text, follows, (str(address),)))
        else:
            raise outcome
    primaries = [str(address) for address in topology.primaries]
    return [
        Finding("servers", Severity.OK, f"{servers.arrangement}: {', '.join(primaries)}"),
        *_about_slots(servers, topology),
        *_about_clocks(examined),
        *merged(findings, primaries),
    ]


def _about_slots(servers: Servers, topology: Topology) -> Iterator[Finding]:
    if servers.arrangement is not Arrangement.CLUSTER:
        return
    count = sum(
        last - first + 1
        for first, last in zip(topology.first_slots, topology.last_slots, strict=True)
    )
    text = f"{count:,} of {SLOT_COUNT:,} are served"
    if count == SLOT_COUNT:
        yield Finding("slots", Severity.OK, text)
    else:
        follows = "streams in the other slots cannot be used"
        yield Finding("slots", Severity.FAULT, text, follows)


def _about_clocks(examined: Sequence[Examined]) -> Iterator[Finding]:
    ordered = sorted(each.clock_ahead_ms for each in examined)
    apart_ms = ordered[-1] - ordered[0] if ordered else 0
    if apart_ms > CLOCK_MS_MAX:
        text = f"the clocks of the servers are {apart_ms:,} ms apart"
        yield Finding("clocks", Severity.WARNING, text, "use NTP")
