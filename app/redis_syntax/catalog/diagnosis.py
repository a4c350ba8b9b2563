"""Commands for the search for a fault: slow commands, delays, memory, users, modules."""

from __future__ import annotations

from functools import partial
from typing import Final

from headgate.app.redis_syntax.catalog.description import (
    Catalog,
    Description,
    KeyPlaces,
    container,
    help_of,
)

_latency = partial(Description, group="server", flags="admin noscript loading stale")
_slow_log = partial(Description, group="server", flags="admin loading stale")
_user = partial(Description, group="server", flags="noscript loading stale")

_FROM_NODES: Final = "request_policy:all_nodes"
_CHANGING: Final = f"nondeterministic_output {_FROM_NODES} response_policy:special"
_FROM_SHARDS: Final = "nondeterministic_output request_policy:all_shards response_policy:special"
_DONE: Final = f"{_FROM_NODES} response_policy:all_succeeded"

_LATENCY: Catalog = {
    "latency": container("for delays", "2.8.13", "server"),
    "latency|doctor": _latency("Say where delays are measured.", "2.8.13", tips=_CHANGING),
    "latency|graph": _latency(
        "Fails: no event is sampled.", "2.8.13", usage="event", tips=_CHANGING
    ),
    "latency|histogram": _latency(
        "Return how long commands took.",
        "7.0.0",
        usage="[command...]",
        tips=_CHANGING,
        complexity="O(N) for N commands.",
    ),
    "latency|history": _latency(
        "Return the delays of an event.", "2.8.13", usage="event", tips=_CHANGING
    ),
    "latency|latest": _latency("Return the latest delay of each event.", "2.8.13", tips=_CHANGING),
    "latency|reset": _latency("Forget delays.", "2.8.13", usage="[event...]", tips=_DONE),
    "latency|help": help_of("LATENCY", "2.8.13", "server"),
}

_SLOW_LOG: Catalog = {
    "slowlog": container("for commands that took long", "2.2.12", "server"),
    "slowlog|get": _slow_log(
        "Return the latest commands that took long.",
        "2.2.12",
        usage="[count:integer]",
        tips=f"{_FROM_NODES} nondeterministic_output",
        complexity="O(N) for N commands that are returned.",
    ),
    "slowlog|len": _slow_log(
        "Return how many commands are in the log.",
        "2.2.12",
        tips=f"{_FROM_NODES} response_policy:agg_sum nondeterministic_output",
    ),
    "slowlog|reset": _slow_log(
        "Empty the log.",
        "2.2.12",
        tips=_DONE,
        complexity="O(N) for N commands in it.",
    ),
    "slowlog|help": help_of("SLOWLOG", "6.2.0", "server"),
}

_MEMORY: Catalog = {
    "memory": container("about memory", "4.0.0", "server"),
    "memory|doctor": Description(
        "Say what is wrong with the memory.", "4.0.0", "server", tips=_FROM_SHARDS
    ),
    "memory|malloc-stats": Description(
        "Say that the allocator keeps no figures.", "4.0.0", "server", tips=_FROM_SHARDS
    ),
    "memory|purge": Description(
        "Free what can be freed.",
        "4.0.0",
        "server",
        tips="request_policy:all_shards response_policy:all_succeeded",
    ),
    "memory|stats": Description(
        "Return what takes memory, by kind.", "4.0.0", "server", tips=_FROM_SHARDS
    ),
    "memory|usage": Description(
        "Return how much memory a key takes.",
        "4.0.0",
        "server",
        "key [SAMPLES/count:integer]",
        "readonly",
        (KeyPlaces("RO", 2),),
    ),
    "memory|help": help_of("MEMORY", "4.0.0", "server"),
}

_OTHERS: Catalog = {
    "acl": container("about users and rights", "6.0.0", "server"),
    "acl|cat": _user(
        "Return the categories of commands, or the commands of one.",
        "6.0.0",
        usage="[categoryname]",
    ),
    "acl|log": _user(
        "Return nothing: denials stand in the audit log.",
        "6.0.0",
        usage="[operation(count:integer | RESET)]",
        flags="admin noscript loading stale",
    ),
    "acl|whoami": _user("Return who the client is.", "6.0.0"),
    "acl|help": help_of("ACL", "6.0.0", "server"),
    "module": container("about modules", "4.0.0", "server"),
    "module|list": Description(
        "Return which modules are loaded: none.",
        "4.0.0",
        "server",
        flags="admin noscript",
        tips="nondeterministic_output_order",
    ),
    "module|help": help_of("MODULE", "5.0.0", "server"),
    "cluster": container("about clusters, which this server is not part of", "3.0.0", "cluster"),
}

CATALOG: Catalog = {**_LATENCY, **_SLOW_LOG, **_MEMORY, **_OTHERS}
