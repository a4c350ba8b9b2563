"""Library: the functions that run in the server, written in Lua.

A function is atomic: the server runs nothing else meanwhile. All operations are in one library of
functions (FUNCTION LOAD), or in scripts (EVALSHA) where functions are not allowed. The name of the
library ends with a hash of its text. So gateways of two versions can use one server.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from importlib.resources import files
from typing import NamedTuple

from headgate.app.backends.redis.settings import lua_tables

_PARTS = (
    *(
        "prelude",
        "settings",
        "filters",
        "keys",
        "streams",
        "attributes",
        "timing",
        "turns",
        "keyspace",
        "ranges",
    ),
    *("trims", "entries", "writes", "bulk", "claims", "pending", "groups", "policies"),
    *("deliveries", "group_reads", "dumps", "schedules"),
)
"""The files of operations, in the order in which they are joined."""


class Effect(StrEnum):
    """The effect of an operation on the state. It decides when the server refuses to run it."""

    WRITE = "write"  # adds to the state: refused if the server is out of memory
    FREE = "free"  # makes the state smaller, or hardly greater
    READ = "read"  # changes nothing


_FLAGS = {Effect.WRITE: "", Effect.FREE: "allow-oom", Effect.READ: "no-writes"}


class Script(NamedTuple):
    """A function as a script: its text, and its SHA-1 hash in hexadecimal digits."""

    text: bytes
    sha: bytes


class Library:
    """The text of all operations, and the names by which a server calls them."""

    def __init__(self) -> None:
        """Read the files of operations."""
        folder = files("headgate.app.backends.redis") / "functions"
        texts = ((folder / f"{part}.lua").read_text("utf-8") for part in (*_PARTS, "call"))
        body = "\n".join((lua_tables(), *texts))
        self.version = hashlib.sha256(body.encode()).hexdigest()[:12]
        self.name = f"headgate_{self.version}"
        self.names = {effect: f"{self.name}_{effect}".encode() for effect in Effect}
        self.text = _as_library(self.name, body)
        self.scripts = {effect: _as_script(body, effect) for effect in Effect}


def _as_library(name: str, body: str) -> bytes:
    registered = "\n".join(
        f"redis.register_function{{ function_name = '{name}_{effect}', callback = run, "
        f"flags = {{ {_quoted(_FLAGS[effect])} }} }}"
        for effect in Effect
    )
    return f"#!lua name={name}\n{body}\n{registered}\n".encode()


def _as_script(body: str, effect: Effect) -> Script:
    flags = _FLAGS[effect]
    first = f"#!lua flags={flags}\n" if flags else "#!lua\n"
    text = f"{first}{body}\nreturn run(KEYS, ARGV)\n".encode()
    return Script(text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())


def _quoted(flags: str) -> str:
    return f"'{flags}'" if flags else ""
