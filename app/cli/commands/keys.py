import difflib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from pydantic import BaseModel, ValidationError
from rich.table import Table
from rich.text import Text

from headgate.app.auth.grants import Grant, UsageLimits, Verb
from headgate.app.auth.key_file import (
    ApiKey,
    KeyFileFault,
    Keys,
    KeyText,
    change_keys,
    make_key,
    parse_key,
    read_keys,
    read_use,
)
from headgate.app.cli.configuration import CONFIG, setting_flags, settings_from
from headgate.app.cli.declaration import JSON, argument, command, epilog, option
from headgate.app.cli.durations import SOME_DURATION
from headgate.app.cli.listing import NAME, NARROW, screen, show_item
from headgate.app.cli.words import one_line, word
from headgate.app.data_files import keys_path
from headgate.app.settings import MEMORY
from headgate.engine.journal.disk import LOCK

_COLUMNS = ("id", "name", "state", "created_at", "expires_at", "last_used_at", "grants")
_NONE = "-"
_STYLES = {"active": "green", "expired": "dim", "revoked": "red"}


def facts_of(key: ApiKey, used_at_ms: int | None, now_ms: int) -> dict[str, Any]:
    shown: dict[str, Any] = key.model_dump(
        mode="json",
        exclude={"sha256": True, "previous": {"sha256"}, "limits": True, "grants": True},
        exclude_none=True,
    )
    shown["grants"] = [grant.model_dump(mode="json", exclude_defaults=True) for grant in key.grants]
    shown["limits"] = key.limits.model_dump(exclude_none=True)
    shown["state"] = key.state(now_ms)
    if used_at_ms is not None:
        shown["last_used_at_ms"] = used_at_ms
    return shown


def columns_of(
    keys: Collection[ApiKey], used_at_ms: Mapping[str, int], now_ms: int
) -> Iterator[tuple[str, ...]]:
    yield _COLUMNS
    for key in keys:
        yield (
            key.id,
            word(key.name),
            key.state(now_ms),
            *_times(key, used_at_ms, timespec="seconds"),
            word("; ".join(map(_words, key.grants))),
        )


def table_of(
    keys: Collection[ApiKey], used_at_ms: Mapping[str, int], now_ms: int, width: int
) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("id", style="cyan", no_wrap=True)
    table.add_column("name", style="bold", **NAME)
    table.add_column("state", no_wrap=True)
    if width >= NARROW:
        for name in "expires", "last used":
            table.add_column(name, no_wrap=True)
        table.add_column("grants", overflow="fold")
    for key in keys:
        state = key.state(now_ms)
        _, *times = _times(key, used_at_ms, timespec="minutes")
        grants = one_line("; ".join(map(_words, key.grants)))
        start = Text(key.id), Text(one_line(key.name)), Text(state, _STYLES[state])
        cells = [*start, *map(Text, times), Text(grants)]
        table.add_row(*cells[: len(table.columns)])
    return table


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
    text = f"{' '.join(grant.do)} {', '.join(grant.streams)}"
    if grant.groups is not None:
        text += f" (groups {', '.join(grant.groups)})"
    if grant.consumer is not None:
        text += f" (as {grant.consumer})"
    if grant.keys is not None:
        text += f" (keys {', '.join(grant.keys)})"
    return text + " (creates)" * grant.create


GRANT_EXAMPLE = """'{"streams": ["news*"], "do": ["read"]}'"""

M = TypeVar("M", bound=BaseModel)


def grant_of(text: str) -> Grant:
    try:
        return Grant.model_validate_json(text, strict=True)
    except ValidationError as error:
        _refuse("--grant", error, f". Got {text!r}; a valid grant is {GRANT_EXAMPLE}")


def limits_of(texts: Sequence[str]) -> UsageLimits:
    numbers: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in UsageLimits.model_fields:
            close = difflib.get_close_matches(name, UsageLimits.model_fields, n=1, cutoff=0)
            hint = f"did you mean {close[0]}?"
            raise click.ClickException(f"--limit {text!r}: {name!r} is not a limit; {hint}")
        if not number.isdecimal() or len(number) > 20:
            raise click.ClickException(f"--limit {text!r}: the form is NAME=NUMBER: {name}=100")
        numbers[name] = int(number)
    return _valid(UsageLimits, "--limit", numbers)


def _valid(model: type[M], what: str, values: Mapping[str, Any]) -> M:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        _refuse(what, error)


def _refuse(what: str, error: ValidationError, hint: str = "") -> NoReturn:
    fault = error.errors()[0]
    place = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"]
    ).removeprefix(".")
    text = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    raise click.ClickException(f"{what}: {place}{': ' if place else ''}{text}{hint}") from None


class KeyPlace:
    """The file of API keys that `serve` reads with the same settings."""

    def __init__(self, config: Path | None, flags: dict[str, Any]) -> None:
        settings = settings_from(config, flags)
        self.data_dir = settings.data_dir
        if settings.keys_file is None and settings.data_dir == MEMORY:
            raise click.ClickException(":memory: stores no keys. Set a file with --keys-file.")
        self.path = keys_path(settings.data_dir, settings.keys_file)

    @property
    def is_unused(self) -> bool:
        """Tell whether no gateway has run with this data directory, which has the keys."""
        return self.path.parent == self.data_dir and not (self.data_dir / LOCK).exists()

    def read(self) -> Keys:
        try:
            return read_keys(self.path) if self.path.exists() else {}
        except (KeyFileFault, OSError) as error:
            raise click.ClickException(str(error)) from None

    def change(self, change: Callable[[dict[str, ApiKey]], None]) -> None:
        """Change the keys. Creates the data directory if needed, as `serve` does."""
        try:
            if self.path.parent == self.data_dir:
                self.data_dir.mkdir(0o700, parents=True, exist_ok=True)
            change_keys(self.path, change)
        except (KeyFileFault, OSError) as error:
            raise click.ClickException(str(error)) from None


_KEY_ID = argument(click.STRING, metavar="ID")
_REFUSED = "refused; no key was changed"
_FIRST = (
    "This is the first key: from now on, every request needs one. To add keys over HTTP or in the "
    "console, add one with `admin`."
)


@click.group("keys", epilog=epilog("headgate keys list", failed=_REFUSED))
def keys_command() -> None:
    """Add, list, revoke and rotate API keys.

    The keys are in the file that `headgate serve` reads with the same settings: keys.json in the
    data directory, unless --keys-file or HEADGATE_KEYS_FILE names another file. A running gateway
    applies each change within a second.
    """


_command = partial(
    command, group=keys_command, failed=_REFUSED, more=setting_flags("data_dir", "keys_file")
)


@_command(
    "add", f"headgate keys add bob --grant {GRANT_EXAMPLE}", short_help="Create and print a key."
)
def add(
    name: str = argument(click.STRING),
    grants: tuple[str, ...] = option(
        f"Rights of the key, such as {GRANT_EXAMPLE}. May be repeated.",
        click.STRING,
        "--grant",
        required=True,
        metavar="JSON",
    ),
    limits: tuple[str, ...] = option(
        "Usage limit of the key, such as requests_per_s_max=100. May be repeated.",
        click.STRING,
        "--limit",
        metavar="NAME=NUMBER",
    ),
    expires_ms: int | None = option("Lifetime of the key, such as 90d or 12h.", SOME_DURATION),
    as_json: bool = JSON,
    config: Path | None = CONFIG,
    **flags: Any,
) -> None:
    """Create and print a key. The key is shown only once.

    The verbs of a grant are read, append, consume, manage, push, publish, subscribe and admin. A
    pattern is a name, or a prefix of names followed by *. It names streams, or channels with
    publish and subscribe. In a pattern, {sub} stands for the name of the key.
    """
    text, now_ms = make_key(), _now_ms()
    key = _valid(
        ApiKey,
        "The key",
        {
            "id": text.id,
            "name": name,
            "sha256": text.sha256,
            "grants": [grant_of(grant) for grant in grants],
            "limits": limits_of(limits),
            "created_at_ms": now_ms,
            "expires_at_ms": None if expires_ms is None else now_ms + expires_ms,
        },
    )
    place = KeyPlace(config, flags)

    def put(keys: dict[str, ApiKey]) -> None:
        if text.id in keys:
            raise click.ClickException("The random id of the new key is in use: try again.")
        keys[text.id] = key

    is_first, is_unused = not place.read(), place.is_unused
    place.change(put)
    explanation = f"Created the key {text.id} of {one_line(name)} in {place.path}."
    if is_unused:
        explanation += f" No gateway has used {place.data_dir.absolute()} yet."
    if is_first and not any(Verb.ADMIN in grant.do for grant in key.grants):
        explanation += f"\n{_FIRST}"
    _show(text, explanation, facts_of(key, None, now_ms) if as_json else None)


@_command(
    "list", "headgate keys list --json", short_help="List the keys with their grants and expiry."
)
def list_keys(as_json: bool = JSON, config: Path | None = CONFIG, **flags: Any) -> None:
    """List the keys with their grants, expiry and last use.

    A gateway records the last use of each key once a minute, in its data directory.

    In a pipe: a header, then columns separated by tabs.
    """
    place, now_ms = KeyPlace(config, flags), _now_ms()
    keys = place.read().values()
    used_at_ms = read_use(place.data_dir)
    console = screen()
    if as_json:
        for key in keys:
            show_item(facts_of(key, used_at_ms.get(key.id), now_ms), as_json=True)
    elif console is None:
        for cells in columns_of(keys, used_at_ms, now_ms):
            click.echo("\t".join(cells))
    elif keys:
        console.print(table_of(keys, used_at_ms, now_ms, console.width))
    else:
        text = f"No keys. Create one: headgate keys add NAME --grant {GRANT_EXAMPLE}"
        console.print(Text(text))


@_command("revoke", "headgate keys revoke 6jze42yvcm", short_help="Revoke a key permanently.")
def revoke(
    key_id: str = _KEY_ID, as_json: bool = JSON, config: Path | None = CONFIG, **flags: Any
) -> None:
    """Revoke a key permanently. The gateway closes the connections that were opened with it."""
    place, now_ms = KeyPlace(config, flags), _now_ms()

    def change(keys: dict[str, ApiKey]) -> None:
        keys[key_id] = _key_in(keys, key_id, place.path).revoked(now_ms)

    place.change(change)
    click.echo(f"Revoked the key {key_id}.", err=True)
    if as_json:
        show_item(facts_of(place.read()[key_id], None, now_ms), as_json=True)


@_command(
    "rotate",
    "headgate keys rotate 6jze42yvcm",
    short_help="Create a new secret for a key, and print the key.",
)
def rotate(
    key_id: str = _KEY_ID,
    overlap_ms: int | None = option("How long the previous key stays valid, such as 1h."),
    as_json: bool = JSON,
    config: Path | None = CONFIG,
    **flags: Any,
) -> None:
    """Create a new secret for a key, and print the key. The key is shown only once.

    Without --overlap, the previous key is invalid immediately, and the gateway closes the
    connections that were opened with it.
    """
    place, now_ms = KeyPlace(config, flags), _now_ms()

    def change(keys: dict[str, ApiKey]) -> None:
        key = _key_in(keys, key_id, place.path)
        if key.state(now_ms) != "active":
            ended = f"The key {key_id} is revoked or expired."
            raise click.ClickException(f"{ended} Create a new one with `headgate keys add`.")
        keys[key_id] = key.rotated(text, overlap_ms, now_ms)

    text = make_key(key_id)
    place.change(change)
    end = "is no longer valid" if overlap_ms is None else "stays valid until the overlap ends"
    explanation = f"Rotated the key {key_id} in {place.path}. The previous key {end}."
    _show(text, explanation, facts_of(place.read()[key_id], None, now_ms) if as_json else None)


def _show(text: KeyText, explanation: str, facts: dict[str, Any] | None) -> None:
    click.echo(
        f"{explanation}\n"
        "Store it now: it is not shown again. Clients send it as `Authorization: Bearer KEY`. "
        "Headgate commands read it from HEADGATE_TOKEN.",
        err=True,
    )
    if facts is None:
        click.echo(str(text))
    else:
        show_item({"key": str(text), **facts}, as_json=True)


def _key_in(keys: Keys, key_id: str, path: Path) -> ApiKey:
    if key_id in keys:
        return keys[key_id]
    given = parse_key(key_id)
    if given is not None:  # the text would repeat a secret
        raise click.ClickException(f"Give only the id of the key: {given.id}")
    text = f"{path} has no key {one_line(key_id)!r}. List all keys with `headgate keys list`."
    raise click.ClickException(text)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
