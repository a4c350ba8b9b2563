"""Commands for the search for a fault: slow commands, delays, memory, users."""

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

_slow_log = partial(Description, group="server", flags="admin loading stale")

_FROM_NODES: Final = "request_policy:all_nodes"

_LATENCY: Catalog = {
    "latency": container("for delays", "2.8.13", "server"),
    "latency|latest": Description(
        "Return nothing: no event is sampled.",
        "2.8.13",
        "server",
        flags="admin noscript loading stale",
        tips=f"nondeterministic_output {_FROM_NODES} response_policy:special",
    ),
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
        tips=f"{_FROM_NODES} response_policy:all_succeeded",
        complexity="O(N) for N commands in it.",
    ),
    "slowlog|help": help_of("SLOWLOG", "6.2.0", "server"),
}

_MEMORY: Catalog = {
    "memory": container("about memory", "4.0.0", "server"),
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
    "acl|whoami": Description(
        "Return who the client is.", "6.0.0", "server", flags="noscript loading stale"
    ),
    "acl|help": help_of("ACL", "6.0.0", "server"),
}

CATALOG: Catalog = {**_LATENCY, **_SLOW_LOG, **_MEMORY, **_OTHERS}
