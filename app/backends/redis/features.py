"""Abilities and promises of servers, and the effects of missing ones.

The backend looks at its start, and `headgate doctor` shows it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from redis.exceptions import ResponseError

from headgate.app.backends.redis.durability import DurabilityLevel

_OLDEST = {"Redis": (7, 0), "Valkey": (7, 2)}

NO_EVICTION = "noeviction"


class Ask(Protocol):
    def __call__(self, *words: bytes | str | int) -> Awaitable[Any]: ...


class Feature(StrEnum):
    FUNCTIONS = "functions"
    SCRIPTS = "scripts"
    TRACKING = "client tracking"
    RESP3 = "RESP3"
    WAITAOF = "WAITAOF"
    XNACK = "XNACK"
    XDELEX = "XDELEX"
    XACKDEL = "XACKDEL"
    XREADGROUP_CLAIM = "XREADGROUP CLAIM"
    XADD_IDMP = "XADD IDMP"


class _Need(NamedTuple):
    command: bytes
    token: bytes | None  # an option of the command
    without: str  # what follows without it


FEATURES: dict[Feature, _Need] = {
    Feature.FUNCTIONS: _Need(b"fcall", None, "the gateway sends operations as scripts (EVALSHA)"),
    Feature.SCRIPTS: _Need(b"evalsha", None, "the gateway sends operations as functions only"),
    Feature.TRACKING: _Need(b"client|tracking", None, "blocked reads poll for new entries"),
    Feature.RESP3: _Need(b"hello", None, "blocked reads poll for new entries"),
    Feature.WAITAOF: _Need(
        b"waitaof",
        None,
        "`fsync` requires `appendfsync always`; `replica` waits only for the memory of the replica",
    ),
    Feature.XNACK: _Need(
        b"xnack", None, "the gateway has an operation of its own to give entries back"
    ),
    Feature.XDELEX: _Need(
        b"xdelex", None, "the gateway has an operation of its own to delete with references"
    ),
    Feature.XACKDEL: _Need(
        b"xackdel", None, "the gateway has operations of its own to acknowledge and delete"
    ),
    Feature.XREADGROUP_CLAIM: _Need(
        b"xreadgroup", b"CLAIM", "the gateway has an operation of its own to claim before reading"
    ),
    Feature.XADD_IDMP: _Need(
        b"xadd", b"IDMP", "the gateway has an operation of its own to remember the keys"
    ),
}
"""All features, in the order in which they are shown."""


class Facts(NamedTuple):
    product: str  # "Redis" or "Valkey"
    version: str
    mode: str  # "standalone", "sentinel" or "cluster"
    role: str  # "master" or "slave"
    memory_bytes_max: int  # 0: no bound
    eviction: str
    is_loading: bool
    appends: bool  # it has an append-only file
    fsync: str | None  # `appendfsync`; None: this user may not ask
    replica_count: int  # those that are connected and up to date
    replicas: tuple[str, ...]  # all of them, with their state

    @property
    def is_too_old(self) -> bool:
        """Tell whether this server lacks what the gateway cannot do without."""
        numbers = tuple(int(part) for part in self.version.split(".")[:2])
        return numbers < _OLDEST[self.product]

    @property
    def evicts(self) -> bool:
        return self.eviction != NO_EVICTION


async def facts_of(ask: Ask) -> Facts:
    """Ask a server what it is; raises ResponseError if this user may not ask."""
    info = dict(read_info(await ask(b"INFO")))
    is_valkey = "valkey_version" in info
    replicas = [
        dict(part.partition("=")[::2] for part in text.split(","))
        for name, text in info.items()
        if name.startswith("slave") and name[5:].isdigit()
    ]
    return Facts(
        product="Valkey" if is_valkey else "Redis",
        version=info["valkey_version" if is_valkey else "redis_version"],
        mode=info.get("server_mode", info.get("redis_mode", "standalone")),
        role=info["role"],
        memory_bytes_max=int(info.get("maxmemory", 0)),
        eviction=info.get("maxmemory_policy", NO_EVICTION),
        is_loading=info.get("loading") == "1",
        appends=info.get("aof_enabled") == "1",
        fsync=await _setting(ask, b"appendfsync"),
        replica_count=sum(replica.get("state") == "online" for replica in replicas),
        replicas=tuple(
            f"{replica.get('ip')}:{replica.get('port')} {replica.get('state')}, "
            f"{replica.get('lag')} s behind"
            for replica in replicas
        ),
    )


def read_info(text: bytes) -> Iterator[tuple[str, str]]:
    for line in text.decode(errors="replace").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield name, value


async def _setting(ask: Ask, name: bytes) -> str | None:
    try:
        reply = await ask(b"CONFIG", b"GET", name)
    except ResponseError:
        return None
    values = [*reply.values()] if isinstance(reply, dict) else reply[1::2]
    return values[0].decode() if values else None


async def features_of(ask: Ask) -> frozenset[Feature]:
    """Return a server's features, even those this user may not use; raises ResponseError."""
    commands = sorted({need.command for need in FEATURES.values()})
    known = await ask(b"COMMAND", b"INFO", *commands)
    entries = [*known.values()] if isinstance(known, dict) else known
    present = {command for command, entry in zip(commands, entries, strict=True) if entry}
    return frozenset(
        [
            feature
            for feature, need in FEATURES.items()
            if need.command in present
            and (need.token is None or await _has_option(ask, need.command, need.token))
        ]
    )


async def _has_option(ask: Ask, command: bytes, token: bytes) -> bool:
    try:
        return token in _words(await ask(b"COMMAND", b"DOCS", command))
    except ResponseError:
        return False


def _words(reply: Any) -> Iterator[bytes]:
    if isinstance(reply, bytes):
        yield reply
    elif isinstance(reply, dict):
        for pair in reply.items():
            yield from _words(pair)
    elif isinstance(reply, list | tuple):
        for item in reply:
            yield from _words(item)


class Promise(NamedTuple):
    is_kept: bool  # false: the level is refused
    text: str


def promise_of(level: DurabilityLevel, facts: Facts, features: frozenset[Feature]) -> Promise:
    """Return what an answered change can rely on at this server."""
    waits = Feature.WAITAOF in features
    match level:
        case DurabilityLevel.NONE:
            kept = "its append-only file" if facts.appends else "its last snapshot"
            return Promise(
                True, f"a restart keeps what is in {kept}; a failover may lose answered changes"
            )
        case DurabilityLevel.FSYNC:
            if not facts.appends:
                return Promise(False, "refused: the server has `appendonly no`")
            if not waits and facts.fsync != "always":
                return Promise(
                    False, "refused: the server has neither WAITAOF nor `appendfsync always`"
                )
            return Promise(True, "answered changes are on the disk of the primary")
        case DurabilityLevel.REPLICA:
            if waits and not facts.appends:
                return Promise(False, "refused: the server has `appendonly no`")
            if not facts.replica_count:
                return Promise(False, "refused: no replica is connected")
            if not waits:
                return Promise(True, "answered changes are also in the memory of a replica")
            return Promise(True, "answered changes are on the disks of the primary and a replica")


def obstacle_of(facts: Facts, features: frozenset[Feature], chosen: DurabilityLevel) -> str | None:
    if facts.is_too_old:
        return f"{facts.product} {facts.version} is too old: Redis 7.0 or Valkey 7.2 is needed"
    promise = promise_of(chosen, facts, features)
    return None if promise.is_kept else f"--redis-durability {chosen} is {promise.text}"
