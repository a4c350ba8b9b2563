"""Key list: keys as lines, columns or a table, never with their hashes."""

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from headgate.app.auth.grants import Grant
from headgate.app.auth.keys.key import ApiKey
from headgate.app.cli.output.screen import NAME, NARROW
from headgate.app.cli.words import one_line, word

_COLUMNS = ("id", "name", "state", "created_at", "expires_at", "last_used_at", "grants")
_NONE = "-"
_STYLES = {"active": "green", "expired": "dim", "revoked": "red"}


def facts_of(key: ApiKey, used_at_ms: int | None, now_ms: int) -> dict[str, Any]:
    """Return the facts of a key for JSON."""
    shown: dict[str, Any] = key.model_dump(
        mode="json",
        exclude={"sha256": True, "previous": {"sha256"}, "limits": True, "grants": True},
        exclude_none=True,
    )
    shown["grants"] = [grant.model_dump(mode="json", exclude_defaults=True) for grant in key.grants]
    shown["limits"] = key.limits.model_dump(exclude_none=True)
    shown["state"] = _state(key, now_ms)
    if used_at_ms is not None:
        shown["last_used_at_ms"] = used_at_ms
    return shown


def columns_of(
    keys: Collection[ApiKey], used_at_ms: Mapping[str, int], now_ms: int
) -> Iterator[tuple[str, ...]]:
    """Yield the names of the columns, and the cells of each key as words."""
    yield _COLUMNS
    for key in keys:
        yield (
            key.id,
            word(key.name),
            _state(key, now_ms),
            *_times(key, used_at_ms, timespec="seconds"),
            word("; ".join(map(_words, key.grants))),
        )


def table_of(
    keys: Collection[ApiKey], used_at_ms: Mapping[str, int], now_ms: int, width: int
) -> Table:
    """Return the keys as a table that has room on a screen."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("id", style="cyan", no_wrap=True)
    table.add_column("name", style="bold", **NAME)
    table.add_column("state", no_wrap=True)
    if width >= NARROW:
        for name in "expires", "last used":
            table.add_column(name, no_wrap=True)
        table.add_column("may", overflow="fold")
    for key in keys:
        state = _state(key, now_ms)
        _, *times = _times(key, used_at_ms, timespec="minutes")
        grants = one_line("; ".join(map(_words, key.grants)))
        start = Text(key.id), Text(one_line(key.name)), Text(state, _STYLES[state])
        cells = [*start, *map(Text, times), Text(grants)]
        table.add_row(*cells[: len(table.columns)])
    return table


def _state(key: ApiKey, now_ms: int) -> str:
    if key.revoked_at_ms is not None:
        return "revoked"
    is_expired = key.expires_at_ms is not None and key.expires_at_ms <= now_ms
    return "expired" if is_expired else "active"


def _times(key: ApiKey, used_at_ms: Mapping[str, int], *, timespec: str) -> Iterator[str]:
    for at_ms in key.created_at_ms, key.expires_at_ms, used_at_ms.get(key.id):
        yield _NONE if at_ms is None else _instant(at_ms, timespec)


def _instant(at_ms: int, timespec: str) -> str:
    try:
        instant = datetime.fromtimestamp(at_ms / 1000, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):  # after the year 9999
        return "never"
    return f"{instant.isoformat(timespec=timespec)}Z"


def _words(grant: Grant) -> str:
    """Return a grant in words."""
    text = f"{' '.join(grant.do)} {', '.join(grant.streams)}"
    if grant.groups is not None:
        text += f" (groups {', '.join(grant.groups)})"
    if grant.consumer is not None:
        text += f" (as {grant.consumer})"
    return text + " (creates)" * grant.create
