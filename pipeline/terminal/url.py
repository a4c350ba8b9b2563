"""The flags for the gateway's URL and the token. Imports nothing that may be missing."""

from __future__ import annotations

import click

from headgate.client.address import URL, URL_VARIABLE, urls_of


def _read(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    try:
        return ",".join(urls_of(value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


url_option = click.option(
    "--url",
    default=URL,
    envvar=URL_VARIABLE,
    show_default=True,
    show_envvar=True,
    callback=_read,
    help="URL of the gateway; with commas between those of several on one bucket.",
)
token_file_option = click.option(
    "--token-file",
    envvar="HEADGATE_TOKEN_FILE",
    show_envvar=True,
    help="Send the key or token of this file; without it that of HEADGATE_TOKEN. There is no flag "
    "for the token itself, as every user of the machine can read flags.",
)
ca_option = click.option(
    "--ca",
    help="Trust the certificates of this file, as those of a private CA; without it those of "
    "SSL_CERT_FILE.",
)
insecure_option = click.option(
    "--insecure",
    is_flag=True,
    envvar="HEADGATE_INSECURE",
    show_envvar=True,
    help="Send the token over plain http to another machine, too.",
)
