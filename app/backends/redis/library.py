"""The functions that run in the server, written in Lua.

A function is atomic: the server runs nothing else meanwhile. All operations are in one library of
functions (FUNCTION LOAD), or in scripts (EVALSHA) where functions are not allowed. The library's
name ends with a hash of its text, so that gateways of two versions can use one server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import asdict

from headgate.engine.config import Form, GroupPolicy, Patch, Setting, StreamConfig, settings_of
from headgate.engine.entry import EntryId
from headgate.engine.limits import ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX
from headgate.engine.requests.keyspace import NameFilter
from headgate.engine.requests.streams import AttributeChange

# Settings: configurations and policies as the texts in which the servers keep them.
#
# A setting that is not set has an empty text. The name of a stream has a `.` before it, because it
# may be any text. functions/settings.lua is the other side.

S = TypeVar("S", bound=msgspec.Struct)

KEY_DEFAULTS = (100_000, 100)
"""Defaults of streams: the time that keys are valid (ms), and the number by producer.

They are Redis's stream-idmp-duration and stream-idmp-maxsize.
"""

_TABLES = {"CONFIG": StreamConfig, "POLICY": GroupPolicy}


def setting_texts(patch: Patch[S]) -> dict[str, bytes]:
    return {name: _text(getattr(patch.values, name)) for name in sorted(patch.names)}


def read_settings(kind: type[S], texts: Sequence[bytes | None]) -> S:
    """Return the configuration or policy from texts in the order of its settings."""
    pairs = zip(settings_of(kind).values(), texts, strict=True)
    return kind(**{setting.name: _read(setting, text) for setting, text in pairs if text})


def lua_tables() -> str:
    """Return the tables that settings.lua uses, and the defaults of streams."""
    window_ms, keys_max = KEY_DEFAULTS
    lines = [f"local IDEMPOTENCY_WINDOW_MS, IDEMPOTENCY_MAX = {window_ms}, {keys_max}"]
    forms: list[str] = []
    for table, kind in _TABLES.items():
        settings = settings_of(kind).values()
        lines.append(f"local {table} = {{ {', '.join(repr(each.name) for each in settings)} }}")
        forms += [f"{each.name} = {each.form.value!r}" for each in settings]
    return "\n".join([*lines, f"local FORMS = {{ {', '.join(forms)} }}"])


def _text(value: Any) -> bytes:
    match value:
        case None | False:
            return b""
        case True:
            return b"1"
        case bytes():
            return b"." + value
        case str():
            return value.encode()
        case tuple():
            return b",".join(map(_text, value))
    return str(value).encode()


def _read(setting: Setting, text: bytes) -> Any:
    match setting.form:
        case Form.NUMBER:
            return int(text)
        case Form.NUMBERS:
            return tuple(map(int, text.split(b",")))
        case Form.STREAM | Form.FIELD:
            return text[1:]
        case Form.FILTERS:
            return text.decode()
    return True


_PARTS = (
    *("prelude", "settings", "filters", "keys", "streams", "attributes", "timing", "turns"),
    *(
        "keyspace",
        "ranges",
        "trims",
        "entries",
        "writes",
        "bulk",
        "claims",
        "pending",
        "groups",
        "policies",
    ),
    *("deliveries", "group_reads", "dumps", "schedules"),
)
"""The files of operations, in the order in which they are joined."""


class Effect(StrEnum):
    """The effect of an operation on the state; it decides when the server refuses it."""

    WRITE = "write"  # adds to the state: refused if the server is out of memory
    FREE = "free"  # makes the state smaller, or hardly greater
    READ = "read"  # changes nothing


_FLAGS = {Effect.WRITE: "", Effect.FREE: "allow-oom", Effect.READ: "no-writes"}


class Script(NamedTuple):
    text: bytes
    sha: bytes


class Library:
    """The text of all operations, and the names by which a server calls them."""

    def __init__(self) -> None:
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


_TEXTS = {
    *("at_ms", "batch", "closed_at_ms", "entries_added", "entries_read", "epoch"),
    *("expires_at_ms", "idle_ms", "retry_count", "samples", "time_ms", "ttl_ms"),
}
"""Numbers that may be any. They are texts, as a number of Lua is exact up to 2^53 only."""

_encode = msgspec.msgpack.Encoder().encode


def arguments(facts: Mapping[str, object]) -> bytes:
    """Encode named facts as one argument of a function; None is left out, and ids are text."""
    return _encode(_named(facts))


def _named(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: str(value) if name in _TEXTS else _plain(value)
        for name, value in facts.items()
        if value is not None
    }


def _plain(value: Any) -> Any:
    form = _FORMS.get(type(value))
    if form is not None:
        return form(value)
    return _named(value._asdict()) if hasattr(value, "_asdict") else value


def _change(change: AttributeChange) -> dict[str, object]:
    """Return a change of attributes as our functions take it: alternating names and values."""
    values, expected = change
    facts = {
        "values": [part for pair in values.items() if pair[1] is not None for part in pair],
        "gone": [name for name, value in values.items() if value is None],
        "expected": [part for pair in expected.items() if pair[1] is not None for part in pair],
        "absent": [name for name, value in expected.items() if value is None],
        "count_max": ATTRIBUTES_MAX,
        "bytes_max": ATTRIBUTES_BYTES_MAX,
    }
    return _named(facts)


def _raw(data: bytes) -> msgspec.Raw:
    """Encode bytes as text, because the servers' MessagePack has no other type for bytes."""
    size = len(data)
    if size < 1 << 5:
        head = bytes((0xA0 | size,))
    elif size < 1 << 16:
        head = b"\xda" + size.to_bytes(2)
    else:
        head = b"\xdb" + size.to_bytes(4)
    return msgspec.Raw(head + data)


def _listed(values: Iterable[Any]) -> list[Any]:
    return list(map(_plain, values))


_FORMS: dict[type, Callable[[Any], Any]] = {
    bytes: _raw,
    EntryId: str,
    **dict.fromkeys((list, tuple, frozenset), _listed),
    dict: _named,
    Patch: lambda patch: _named(setting_texts(patch)),
    **dict.fromkeys(
        (StreamConfig, GroupPolicy), lambda value: _named(setting_texts(Patch.to(value)))
    ),
    NameFilter: lambda names: _named(asdict(names)),
    AttributeChange: _change,
}
"""The plain form of a value, by its type. A tuple with names is a map; all else is as it is."""
