"""Server: the diagnosis of one primary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from redis.exceptions import ResponseError

from headgate.app.backends.redis.address import Address, Arrangement, Servers
from headgate.app.backends.redis.diagnosis.asking import asking
from headgate.app.backends.redis.diagnosis.rights import Rights, rights_of
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
from headgate.app.diagnosis.findings import Finding, Severity

CLOCK_MS_MAX = 1_000
"""A greater difference of clocks is told. Ids and delays are made of the clocks of the servers."""

Clock = Callable[[], int]
"""Returns unix time in milliseconds."""


class Examined(NamedTuple):
    """A server's address and clock, with the findings there."""

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
    """Ask a primary what it is and has.

    Args:
        servers: how connections are made.
        address: of the primary.
        names: the keys of the gateway.
        chosen: the durability that the gateway is to promise.
        clock: of this machine.
        timeout_s: how long each answer may take, in seconds.

    Raises:
        NotSent: it does not answer.
    """
    async with asking(servers, address, timeout_s) as ask:
        try:
            facts = await facts_of(ask)
            features = await features_of(ask)
        except ResponseError as error:
            text, follows = f"it refuses a question: {error}", "nothing else can be said of it"
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
        yield Finding("server", Severity.FAULT, text, f"it is too old: {needed} is needed")
    else:
        yield Finding("server", Severity.OK, text)
    mode, is_cluster = facts.mode, facts.mode == "cluster"
    if is_cluster != (kind is Arrangement.CLUSTER):
        follows = "the URL has to begin with redis" + ("+cluster" if is_cluster else "")
        yield Finding("mode", Severity.FAULT, mode, follows)
    elif facts.role != "master":
        yield Finding("mode", Severity.FAULT, f"{mode}, a replica", "it takes no changes")
    elif facts.is_loading:
        yield Finding(
            "mode", Severity.WARNING, f"{mode}, loading", "requests wait until it is done"
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
        follows = "with a bound the server would delete streams: set maxmemory-policy noeviction"
        yield Finding("memory", Severity.WARNING, text, follows)
    elif facts.memory_bytes_max:
        yield Finding("memory", Severity.OK, text, "when it is full, appends are refused")
    else:
        follows = "set maxmemory below the memory of the machine, or the system may end the server"
        yield Finding("memory", Severity.WARNING, text, follows)


def _about_safety(
    facts: Facts, chosen: DurabilityLevel, features: frozenset[Feature]
) -> Iterator[Finding]:
    fsync = "may not be asked" if facts.fsync is None else facts.fsync
    text = f"appendonly {'yes' if facts.appends else 'no'}, appendfsync {fsync}"
    if facts.appends:
        yield Finding("disk", Severity.OK, text)
    else:
        follows = "a restart of the server loses what came since its last snapshot"
        yield Finding("disk", Severity.WARNING, text, follows)
    if facts.replica_count:
        yield Finding("replicas", Severity.OK, "; ".join(facts.replicas))
    else:
        text = "; ".join(facts.replicas) or "none"
        follows = "nothing takes over when the server fails"
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
        text = "this user may not ask which commands it may use"
        yield Finding("rights", Severity.UNKNOWN, text, "needs ACL WHOAMI and ACL DRYRUN")
    elif rights.lacking:
        text = f"user {rights.user} lacks {', '.join(rights.lacking)}"
        yield Finding("rights", Severity.FAULT, text, "what needs these commands or keys fails")
    else:
        yield Finding("rights", Severity.OK, f"user {rights.user} has all that are needed")


def _about_clock(ahead_ms: int) -> Finding:
    if abs(ahead_ms) <= CLOCK_MS_MAX:
        return Finding("clock", Severity.OK, f"within {CLOCK_MS_MAX:,} ms of this machine")
    text = f"{abs(ahead_ms):,} ms {'ahead of' if ahead_ms > 0 else 'behind'} this machine"
    return Finding("clock", Severity.WARNING, text, "ids have the time of the server: use NTP")


async def _clock_ahead_ms(ask: Ask, clock: Clock) -> int:
    """Return the lead of a clock over that of this machine."""
    before_ms = clock()
    seconds, microseconds = await ask(b"TIME")
    return int(seconds) * 1000 + int(microseconds) // 1000 - (before_ms + clock()) // 2


async def _tracking_refusal(
    servers: Servers, address: Address, names: KeyNames, timeout_s: float
) -> str | None:
    """Return why changes of keys cannot be followed, or None if they can."""
    prefixes = [word for prefix in names.tracked() for word in (b"PREFIX", prefix)]
    try:
        async with asking(servers, address, timeout_s, protocol=3) as ask:
            await ask(b"CLIENT", b"TRACKING", b"ON", b"BCAST", *prefixes, b"NOLOOP")
    except (NotSent, ResponseError) as error:
        return f"refused: {error}"
    return None
