"""Settings: configurations and policies as the texts in which the servers keep them.

A setting that is not set has an empty text. The name of a stream has a `.` before it, because it
may be any text. functions/settings.lua is the other side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from headgate.engine.config import Form, GroupPolicy, Patch, Setting, StreamConfig, settings_of

S = TypeVar("S", bound=msgspec.Struct)

KEY_DEFAULTS = (100_000, 100)
"""Defaults of streams: the time that keys are valid (ms), and the number by producer.

They are Redis's stream-idmp-duration and stream-idmp-maxsize.
"""

_TABLES = {"CONFIG": StreamConfig, "POLICY": GroupPolicy}


def setting_texts(patch: Patch[S]) -> dict[str, bytes]:
    """Return the texts of the settings that a patch changes, by name."""
    return {name: _text(getattr(patch.values, name)) for name in sorted(patch.names)}


def read_settings(kind: type[S], texts: Sequence[bytes | None]) -> S:
    """Return the configuration or the policy of these texts, which are in the order of settings."""
    pairs = zip(settings_of(kind).values(), texts, strict=True)
    return kind(**{setting.name: _read(setting, text) for setting, text in pairs if text})


def lua_tables() -> str:
    """Return the tables that settings.lua goes by, and the defaults of streams."""
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
