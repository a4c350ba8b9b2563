"""The flags and arguments of commands that use a running gateway."""

import asyncio
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click
import httpx
from click.shell_completion import CompletionItem

from headgate.app.cli.gateway_place import GatewayPlace, chosen_credential
from headgate.app.wire.name_rule import fault_of
from headgate.client.address import is_loopback, urls_of
from headgate.client.blocking import Client
from headgate.client.problems import HeadgateError

_URL = "http://127.0.0.1:8080"
_RETRY_S = 30.0
_COMPLETION_S = 0.5
"""Time of a completion, at most."""
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


class _Name(Utf8):
    """A name that a stream, a group or a consumer can have."""

    def __init__(self, kind: str) -> None:
        self.name = kind

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = super().convert(value, param, ctx)
        fault = fault_of(name)
        if fault is not None:
            self.fail(f"{name!r} cannot be the name of a {self.name}: {fault}.", param, ctx)
        return name


class _Url(click.ParamType[str]):
    """URLs of gateways, with commas between them; `localhost:8080` is enough."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            urls = urls_of(value)
            for url in urls:
                httpx.URL(url)
        except (ValueError, httpx.InvalidURL) as error:
            self.fail(str(error), param, ctx)
        return ",".join(urls)


def _names(ctx: click.Context, names: Callable[[Client], Iterator[str]]) -> list[CompletionItem]:
    """Return names that complete a word, if the gateway says them at once."""
    given = ctx.params
    try:
        url, insecure = given.get("url") or _URL, bool(given.get("insecure"))
        place = GatewayPlace(
            url,
            chosen_credential(url, given.get("token_file"), insecure=insecure),
            ca=given.get("ca"),
            answer_s=_COMPLETION_S,
        )
        with place.client() as gateway:
            return [CompletionItem(name) for name in islice(names(gateway), _COMPLETIONS_MAX)]
    except (click.ClickException, HeadgateError):
        return []


def _stream_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the streams whose names begin so."""
    del param
    return _names(
        ctx, lambda gateway: (stream["name"] for stream in gateway.streams(prefix=incomplete))
    )


def _schedule_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the schedules whose names begin so."""
    del param

    def names(gateway: Client) -> Iterator[str]:
        all_names = (schedule["name"] for schedule in gateway.schedules())
        return (name for name in all_names if name.startswith(incomplete))

    return _names(ctx, names)


def _group_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the groups of the stream whose names begin so."""
    del param
    stream = ctx.params.get("stream")
    if stream is None:
        return []

    def names(gateway: Client) -> Iterator[str]:
        all_names = (group["name"] for group in gateway.stream(stream).groups())
        return (name for name in all_names if name.startswith(incomplete))

    return _names(ctx, names)


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
            help="URL of the gateway; with commas between those of several on one bucket.",
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
    """Return the URL of a gateway with the variables of this process, as in a container."""
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


def gateway_options(command: Callable[..., Any]) -> Callable[..., None]:
    """Give a command the flags for the gateway's URL and the caller's credential.

    It gets a client as `gateway`: `Client`, or `AsyncClient` if it is a coroutine function.
    """
    return _gateway_options(command, retry_s=0.0)


def patient_gateway_options(command: Callable[..., Any]) -> Callable[..., None]:
    """Likewise, for what goes on for long: it waits for a gateway that is away for a moment."""
    return _gateway_options(command, retry_s=_RETRY_S)


def _gateway_options(command: Callable[..., Any], *, retry_s: float) -> Callable[..., None]:
    @functools.wraps(command)
    def with_gateway(
        *, url: str, ca: Path | None, token_file: Path | None, insecure: bool, **words: Any
    ) -> None:
        credential = chosen_credential(url, token_file, insecure=insecure)
        _run(GatewayPlace(url, credential, ca=ca, retry_s=retry_s), command, words)

    return _with(with_gateway, [*_where(_URL), *_WHO])


def open_gateway_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that needs no token the flags that say where the gateway is.

    On this machine any certificate will do, as hardly any is made out to 127.0.0.1.
    """

    @functools.wraps(command)
    def with_gateway(*, url: str, ca: Path | None, **words: Any) -> None:
        is_own = all(map(is_loopback, urls_of(url)))
        _run(GatewayPlace(url, ca=None if is_own else ca, verifies=not is_own), command, words)

    return _with(with_gateway, _where(_own_url))


def _run(place: GatewayPlace, command: Callable[..., Any], words: dict[str, Any]) -> None:
    """Run a command with a client."""
    with place.explained():
        if inspect.iscoroutinefunction(command):
            asyncio.run(_run_async(place, command, words))
        else:
            with place.client() as gateway:
                command(gateway=gateway, **words)


async def _run_async(
    place: GatewayPlace, command: Callable[..., Any], words: dict[str, Any]
) -> None:
    async with place.async_client() as gateway:
        await command(gateway=gateway, **words)


def _with(
    command: Callable[..., None], options: Sequence[Callable[..., Callable[..., None]]]
) -> Callable[..., None]:
    for option in reversed(options):
        command = option(command)
    return command


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON value per line.")
schedule_argument = click.argument(
    "schedule", type=_Name("schedule"), shell_complete=_schedule_names
)
stream_argument = click.argument("stream", type=_Name("stream"), shell_complete=_stream_names)
group_argument = click.argument("group", type=_Name("group"), shell_complete=_group_names)
ids_argument = click.argument("ids", nargs=-1, required=True, type=Utf8(), metavar="ID…")


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirm(question: str, *, yes: bool) -> None:
    """Ask a person on a terminal; end if the answer is no."""
    if not yes and sys.stdin.isatty():
        click.confirm(question, abort=True, err=True)
