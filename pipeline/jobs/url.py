"""The flag that says where the gateway is. Imports nothing that may be missing."""

from __future__ import annotations

import click

from headgate.pipeline.address import URL, URL_VARIABLE, url_of


def _read(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    try:
        return url_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


url_option = click.option(
    "--url",
    default=URL,
    envvar=URL_VARIABLE,
    show_default=True,
    show_envvar=True,
    callback=_read,
    help="Where the gateway is. A token is taken from HEADGATE_TOKEN.",
)
