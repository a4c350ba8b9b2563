"""The flags and arguments of commands that use a running gateway."""

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import httpx
from click.shell_completion import CompletionItem

from headgate.app.cli.credential import TOKEN_VARIABLE, Credential, check_way, is_loopback
from headgate.app.cli.remote import Remote
from headgate.app.wire.name_rule import fault_of

_URL = "http://127.0.0.1:8080"
_ANSWER_S = 60.0
_COMPLETION_S = 0.5
"""How long a key pressed for completion may take."""
_COMPLETIONS_MAX = 100


class Utf8(click.ParamType[str]):
    """An argument that is UTF-8."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return it."""
        try:
            value.encode()
        except UnicodeEncodeError:
            self.fail("it is not UTF-8", param, ctx)
        return value


class _Stream(Utf8):
    """A name that a stream can have."""

    name = "stream"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        stream = super().convert(value, param, ctx)
        fault = fault_of(stream)
        if fault is not None:
            self.fail(f"{stream!r} cannot be the name of a stream: {fault}.", param, ctx)
        return stream


class _Url(click.ParamType[str]):
    """The URL of a gateway; `localhost:8080` is enough."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        url = value if "://" in value else f"http://{value}"
        try:
            parts = urlsplit(url)
            is_good = parts.scheme in ("http", "https") and bool(parts.hostname)
            if "@" in parts.netloc:
                self.fail(f"a URL has no name and password; {TOKEN_VARIABLE} has the token")
            httpx.URL(url)
            _ = parts.port
        except (ValueError, httpx.InvalidURL):
            is_good = False
        if not is_good:
            self.fail(f"{value!r} is no URL such as http://127.0.0.1:8080", param, ctx)
        return url.rstrip("/")


def _remote(
    url: str,
    *,
    token_file: Path | None,
    ca: Path | None,
    insecure: bool,
    answer_s: float = _ANSWER_S,
) -> Remote:
    """Return the gateway that flags and variables name.

    Raises:
        click.ClickException: the token cannot be had, or must not be sent there.
    """
    credential = None
    if token_file is not None:
        credential = Credential.of_file(token_file)
    elif token := os.environ.get(TOKEN_VARIABLE):
        credential = Credential(token)
    if credential is not None and not insecure:
        check_way(url)
    return Remote(url, credential, ca=ca, answer_s=answer_s)


def _stream_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the streams whose names begin so, if the gateway says so at once."""
    del param
    given = ctx.params
    try:
        with _remote(
            given.get("url") or _URL,
            token_file=given.get("token_file"),
            ca=given.get("ca"),
            insecure=bool(given.get("insecure")),
            answer_s=_COMPLETION_S,
        ) as gateway:
            page = gateway.get("v1", "streams", prefix=incomplete, limit=_COMPLETIONS_MAX)
        return [CompletionItem(stream["name"]) for stream in page["streams"]]
    except click.ClickException:
        return []


_FILE = click.Path(dir_okay=False, path_type=Path)


def _where(default: str | Callable[[], str]) -> list[Callable[..., Callable[..., None]]]:
    """Return the flags that say where the gateway is; `default` is its URL unless given."""
    return [
        click.option(
            "--url",
            type=_Url(),
            envvar="HEADGATE_URL",
            show_envvar=True,
            default=default,
            show_default=_URL,
            help="Where the gateway is.",
        ),
        click.option(
            "--ca",
            type=_FILE,
            envvar="SSL_CERT_FILE",
            show_envvar=True,
            help="Trust the certificates of this file, as those of a private CA.",
        ),
    ]


def _own_url() -> str:
    """Return where a gateway with the variables of this process is, as in a container."""
    port = os.environ.get("HEADGATE_PORT", "")
    scheme = "https" if os.environ.get("HEADGATE_TLS_CERT") else "http"
    return f"{scheme}://127.0.0.1:{port if port.isdecimal() else 8080}"


_WHO = [
    click.option(
        "--token-file",
        type=_FILE,
        envvar="HEADGATE_TOKEN_FILE",
        show_envvar=True,
        help="Send the key or token of this file; without it that of HEADGATE_TOKEN. There is no "
        "flag for the token itself, as every user of the machine can read flags.",
    ),
    click.option(
        "--insecure",
        is_flag=True,
        envvar="HEADGATE_INSECURE",
        show_envvar=True,
        help="Send the token over plain http to another machine, too.",
    ),
]


def gateway_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags that say where the gateway is and who calls; it gets a `Remote`."""

    @functools.wraps(command)
    def with_gateway(
        *, url: str, ca: Path | None, token_file: Path | None, insecure: bool, **words: Any
    ) -> None:
        with _remote(url, token_file=token_file, ca=ca, insecure=insecure) as gateway:
            command(gateway=gateway, **words)

    return _with(with_gateway, [*_where(_URL), *_WHO])


def open_gateway_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that needs no token the flags that say where the gateway is.

    On this machine any certificate will do, as hardly any is made out to 127.0.0.1.
    """

    @functools.wraps(command)
    def with_gateway(*, url: str, ca: Path | None, **words: Any) -> None:
        is_own = is_loopback(urlsplit(url).hostname or "")
        with Remote(url, ca=None if is_own else ca, verifies=not is_own) as gateway:
            command(gateway=gateway, **words)

    return _with(with_gateway, _where(_own_url))


def _with(
    command: Callable[..., None], options: Sequence[Callable[..., Callable[..., None]]]
) -> Callable[..., None]:
    for option in reversed(options):
        command = option(command)
    return command


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON value per line.")
stream_argument = click.argument("stream", type=_Stream(), shell_complete=_stream_names)
