from typing import Any

import click

from headgate.app.cli.declaration import argument, epilog, option
from headgate.app.cli.flags import FILTER, gateway_command
from headgate.app.cli.words import fields_of, json_line, word
from headgate.client.blocking import Client
from headgate.client.client import AsyncClient
from headgate.client.entries import encoded
from headgate.client.table import Row, RowChange


@click.group("table", epilog=epilog("headgate table list stock"))
def table_command() -> None:
    """Read and change the rows of a table: the latest entry of each key of a stream.

    The stream has a `key_field`, whose value is the key of an entry.
    """


_KEY = argument(click.STRING, metavar="KEY")


@gateway_command("get", "headgate table get stock 42", group=table_command)
def get(gateway: Client, stream: str, as_json: bool, key: str = _KEY) -> None:
    """Show the row of a key. If there is no row, the exit code is 1."""
    row = gateway.stream(stream).table().get(key)
    if row is None:
        raise click.ClickException(f"The table {stream!r} has no row with the key {key!r}.")
    _show(row, as_json=as_json)


@gateway_command("set", "headgate table set stock 42 count=3", group=table_command)
def set_(
    gateway: Client,
    stream: str,
    as_json: bool,
    key: str = _KEY,
    fields: tuple[str, ...] = argument(click.STRING, metavar="NAME=VALUE…"),
    if_match: str | None = option("Only if the row has this id.", click.STRING, metavar="ID"),
    if_absent: bool = option("Only if there is no row."),
) -> None:
    """Set the row of a key: append an entry with this key.

    The command prints the id of the entry.
    """
    if if_match is not None and if_absent:
        raise click.UsageError("--if-match and --if-absent cannot be used together.")
    table = gateway.stream(stream).table()
    entry_id = table.put(key, fields_of(fields), if_match=if_match, if_absent=if_absent)
    click.echo(json_line({"key": key, "id": entry_id}) if as_json else entry_id)


@gateway_command("delete", "headgate table delete stock 42", group=table_command)
def delete(
    gateway: Client,
    stream: str,
    as_json: bool,
    key: str = _KEY,
    if_match: str | None = option("Only if the row has this id.", click.STRING, metavar="ID"),
) -> None:
    """Delete the row of a key: append an entry that removes it.

    If there is no row, the exit code is 1.
    """
    if not gateway.stream(stream).table().delete(key, if_match=if_match):
        raise click.ClickException(f"The table {stream!r} has no row with the key {key!r}.")
    if as_json:
        click.echo(json_line({"key": key, "deleted": True}))


@gateway_command("list", "headgate table list stock --prefix eu-", group=table_command)
def list_rows(
    gateway: Client,
    stream: str,
    as_json: bool,
    prefix: str = option("Only keys with this prefix.", default=""),
    filter: Any = FILTER,  # noqa: A002
) -> None:
    """List all rows at one moment, in the order of their keys."""
    for row in gateway.stream(stream).table().rows(prefix=prefix, filter=filter):
        _show(row, as_json=as_json)


@gateway_command("watch", "headgate table watch stock", group=table_command)
async def watch(gateway: AsyncClient, stream: str, as_json: bool) -> None:
    """Show all rows, then each change as it happens, until Ctrl-C."""
    async for change in gateway.stream(stream).table().changes():
        _show(change, as_json=as_json)


def _show(row: Row | RowChange, *, as_json: bool) -> None:
    """Show a row as a line; one that was removed has no fields."""
    key, entry_id, fields = row
    if as_json:
        shown = {"fields": None} if fields is None else encoded(fields)
        click.echo(json_line({"key": key, "id": entry_id, **shown}))
    else:
        values = ["(removed)"] if fields is None else [f"{n}={v!s}" for n, v in fields.items()]
        click.echo(" ".join([word(key), entry_id, *values]))
