"""Flags: those of commands that use a running gateway, and what goes wrong there, in one line."""

import asyncio
import inspect
import json
import os
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import click
import httpx
from click.shell_completion import CompletionItem

from headgate.app.cli.declaration import UTF8, Declared, argument, command, option, utf8
from headgate.app.cli.durations import DURATION, DURATIONS, TIME_TO_COME, Parsed
from headgate.app.cli.words import one_line
from headgate.app.wire.name_rule import fault_of
from headgate.client.address import is_loopback, urls_of
from headgate.client.blocking import Client
from headgate.client.client import AsyncClient
from headgate.client.credential import TOKEN_VARIABLE, Credential, CredentialError, TokenFile
from headgate.client.live import Refused
from headgate.client.problems import HeadgateError, Problem, UnexpectedAnswer, Unreachable
from headgate.client.tables import PackageMissing

_ANSWER_S = 60.0
_UNAUTHENTICATED = 4401


def chosen_credential(url: str, token_file: Path | None, *, insecure: bool) -> Credential:
    """Return the token of a file, or without one that of the variable, which may be empty.

    Args:
        url: where it is sent; with commas between several.
        token_file: it is read again when the gateway refuses the token.
        insecure: send the token over plain http to another machine, too.

    Raises:
        click.ClickException: the file cannot be read, no header can hold the token, or others on
            the network could read it.
    """
    try:
        token = None if token_file is None else TokenFile(token_file)
        return Credential(urls_of(url), token, insecure=insecure)
    except CredentialError as error:
        raise click.ClickException(str(error)) from None


class GatewayPlace:
    """The URL of the gateway, and the caller's credential. Clients connect when they are used."""

    def __init__(
        self,
        url: str,
        credential: Credential | None = None,
        *,
        ca: Path | None = None,
        verifies: bool = True,
        answer_s: float = _ANSWER_S,
        retry_s: float = 0.0,
    ) -> None:
        """Get ready to call it.

        Args:
            url: where it is; with commas between those of several gateways on one bucket.
            credential: who calls; None: nobody in particular.
            ca: file of certificates to trust instead of the usual ones.
            verifies: whether its certificate must be good, if it has one.
            answer_s: how long an answer may take, in seconds.
            retry_s: how long requests are tried again, if the gateway is not there.

        Raises:
            click.ClickException: `ca` has no certificates.
        """
        self.url = url
        self._credential = credential
        self._how: dict[str, Any] = {
            "token": "" if credential is None else credential.source,
            "insecure": True,  # it was checked
            "retry_s": retry_s,
            "answer_s": answer_s,
            "tls": _tls(ca, verifies=verifies) if "https:" in url else None,
        }

    def client(self) -> Client:
        """Return a client whose methods wait."""
        return Client(self.url, **self._how)

    def async_client(self) -> AsyncClient:
        """Return a client for a command that does several things at once."""
        producer = "headgate" if self._how["retry_s"] else None
        return AsyncClient(self.url, producer=producer, **self._how)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say in one line what went wrong with the gateway.

        Raises:
            click.ClickException: something did.
        """
        try:
            yield
        except HeadgateError as error:
            raise click.ClickException(self.text_of(error)) from None

    def text_of(self, error: HeadgateError) -> str:
        """Return in one line what went wrong, and what to do."""
        if isinstance(error, Problem):
            status = f"{error.status} " if error.status else ""
            return one_line(f"{error.detail} ({status}{error.code}){self._hint(error)}")
        if isinstance(error, PackageMissing):
            return str(error)
        if isinstance(error, UnexpectedAnswer):
            return f"{self.url} answered {error.status}, but is not a Headgate gateway."
        text = one_line(str(error))
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return (
                f"the certificate of {self.url} is not trusted: {text}. "
                "Set --ca or SSL_CERT_FILE to a file of trusted certificates."
            )
        if isinstance(error, Unreachable):
            return (
                f"{text}. Start a gateway with `headgate serve`, or set its URL with --url or "
                "HEADGATE_URL."
            )
        return f"{self.url}: {text}{self._hint(error)}"

    def _hint(self, error: HeadgateError) -> str:
        """Return a hint about the refused credential, if an error is about that."""
        code = getattr(error, "code", "")
        is_closed = isinstance(error, Refused) and error.close_code == _UNAUTHENTICATED
        if code not in ("unauthenticated", "forbidden") and not is_closed:
            return ""
        if self._credential is None or self._credential.origin is None:
            return f". No token was sent: set {TOKEN_VARIABLE} or --token-file."
        if self._credential.origin == TOKEN_VARIABLE:
            return f". The token came from {TOKEN_VARIABLE}."
        origin = self._credential.origin
        return f". The token came from {origin}, which overrides {TOKEN_VARIABLE}."


def _tls(ca: Path | None, *, verifies: bool) -> ssl.SSLContext | None:
    """Return the trust in certificates; None: the usual one."""
    if not verifies:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if ca is None:
        return None
    try:
        return ssl.create_default_context(cafile=ca)
    except (ssl.SSLError, OSError) as error:
        raise click.ClickException(f"{ca} contains no certificates: {error.strerror}") from None


_URL = "http://127.0.0.1:8080"
PATIENT_S = 30.0
"""How long what goes on for long waits for a gateway that is away for a moment."""

_COMPLETION_S = 0.5
"""Time of a completion, at most."""
_COMPLETIONS_MAX = 100


class _Name(Parsed):
    def __init__(self, kind: str) -> None:
        super().__init__(kind, self._checked)

    def _checked(self, text: str) -> str:
        fault = fault_of(utf8(text))
        if fault is not None:
            raise ValueError(f"{text!r} cannot be the name of a {self.name}: {fault}.")
        return text

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return names that complete a word, if the gateway says them at once."""
        del param
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
                names = self._known(gateway, given.get("stream"), incomplete)
                fitting = (name for name in names if name.startswith(incomplete))
                return [CompletionItem(name) for name in islice(fitting, _COMPLETIONS_MAX)]
        except (click.ClickException, HeadgateError):
            return []

    def _known(self, gateway: Client, stream: str | None, incomplete: str) -> Iterator[str]:
        if self.name == "stream":
            return (each["name"] for each in gateway.streams(prefix=incomplete))
        if self.name == "schedule":
            return (each["name"] for each in gateway.schedules())
        return (
            iter(())
            if stream is None
            else (each["name"] for each in gateway.stream(stream).groups())
        )


def _urls(text: str) -> str:
    """Return URLs of gateways, with commas between them; `localhost:8080` is enough."""
    urls = urls_of(text)
    try:
        for url in urls:
            httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(str(error)) from None
    return ",".join(urls)


def _filter(text: str) -> Any:
    """Return a filter, or a list of filters that all hold; the gateway looks at their sense."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"not valid JSON: {error}") from None


def _filters(text: str) -> list[Any]:
    filters = _filter(text)
    return filters if isinstance(filters, list) else [filters]


def _weights(text: str) -> dict[str, int]:
    pairs = [part.rpartition("=") for part in text.split(",")]
    try:
        return {name: int(weight) for name, _, weight in pairs}
    except ValueError:
        raise ValueError(f"{text!r} should have the form VALUE=N,VALUE=N") from None


_FILE = click.Path(dir_okay=False, path_type=Path)

_KNOWN: Mapping[str, Declared] = {
    **{name: argument(_Name(name)) for name in ("schedule", "stream", "group")},
    "ids": argument(required=True, metavar="ID…"),
}

LIMIT = option("Maximum number of results.", click.IntRange(min=1), default=100)


FILTER = option(
    """Show only entries that match, such as '{"exact":{"kind":"sale"}}'.""",
    Parsed("filter", _filter),
    metavar="JSON",
)


def _own_url() -> str:
    """Return the URL of a gateway that is configured by this environment, as in a container."""
    port = os.environ.get("HEADGATE_PORT", "")
    scheme = "https" if os.environ.get("HEADGATE_TLS_CERT") else "http"
    return f"{scheme}://127.0.0.1:{port if port.isdecimal() else 8080}"


def _flag(flag: str, variable: str, text: str, **attributes: Any) -> click.Option:
    """Return a flag that a variable of the environment can give, too."""
    return click.Option([flag], envvar=variable, show_envvar=True, help=text, **attributes)


def gateway_flags() -> list[click.Parameter]:
    """Return the flags that say where a gateway is, and who calls."""
    return [*_where(_URL), *_who()]


def _where(default: str | Callable[[], str]) -> list[click.Parameter]:
    return [
        _flag(
            "--url",
            "HEADGATE_URL",
            "URL of the gateway. Separate several gateways on one bucket by commas.",
            type=Parsed("url", _urls),
            default=default,
            show_default=_URL if callable(default) else True,
        ),
        _flag(
            "--ca",
            "SSL_CERT_FILE",
            "File of certificates to trust, such as those of a private CA.",
            type=_FILE,
        ),
    ]


def _who() -> list[click.Parameter]:
    """Return the flags that say who calls."""
    return [
        _flag(
            "--token-file",
            "HEADGATE_TOKEN_FILE",
            "File with the key or token to send. Default: the token in HEADGATE_TOKEN. There is "
            "no flag for the token itself, because every user of the machine can read flags.",
            type=_FILE,
        ),
        _flag(
            "--insecure",
            "HEADGATE_INSECURE",
            "Send the token over plain HTTP even to another machine.",
            is_flag=True,
        ),
    ]


# Rules: the flags for the configuration of a stream, and for the policy of a group.

_NO_RULE = "none"


def _or_none(kind: click.ParamType[Any]) -> Parsed:
    """Return the type of a value, or `none` for no such rule."""
    convert = partial(kind.convert, param=None, ctx=None)
    return Parsed(kind.name, lambda text: text if text == _NO_RULE else convert(text))


def given_rules(flags: Mapping[str, Any]) -> Any:
    """Return the configuration, or the policy, that flags say."""
    return {
        name: None if value == _NO_RULE else value
        for name, value in flags.items()
        if value is not None
    }


_COLLECTIONS: Sequence[tuple[Any, click.ParamType[Any], str | None, str]] = (
    (list[int], DURATIONS, None, " Example: 1s,10s,1m."),
    (
        list[dict[str, Any]],
        Parsed("filters", _filters),
        "JSON",
        """ Example: '{"exact":{"kind":"sale"}}'.""",
    ),
    (dict[str, int], Parsed("weights", _weights), "VALUE=N,…", " Example: gold=3,silver=2."),
)


def _rules(function: Callable[..., Any]) -> list[click.Parameter]:
    """Return the flags of the configuration, or the policy, that a function takes as `**rules`."""
    hint = get_type_hints(function).get("rules")
    return [_rule(*each) for part in get_args(hint) for each in part.__annotations__.items()]


def _rule(name: str, hint: Any) -> click.Parameter:
    """Return the flag of a setting: `--claim-idle` for `claim_idle_ms`."""
    hint, description = get_args(hint)
    [kind] = (each for each in get_args(hint) if each is not NoneType)
    value, metavar, example = _value(name, kind)
    text = description.replace("`", "") + example
    declared: click.Parameter = option(text, value, metavar=metavar)(name, hint)
    return declared


def _value(name: str, kind: Any) -> tuple[click.ParamType[Any], str | None, str]:
    """Return the type, the placeholder and an example of the value of a flag."""
    for of_kind, parsed, metavar, example in _COLLECTIONS:
        if kind == of_kind:
            return _or_none(parsed), metavar, example
    if kind is str:
        return _or_none(UTF8), name.rpartition("_")[2].upper(), ""
    if kind is bool:
        return _or_none(click.BOOL), "true|false", ""
    if kind is not int:
        return click.Choice([*get_args(kind), _NO_RULE]), None, ""
    if name.endswith("_until_ms"):
        return _or_none(TIME_TO_COME), None, " Examples: 10m, 2026-12-24T18:00+01:00."
    if name.endswith("_ms"):
        return _or_none(DURATION), None, " Example: 30s."
    return _or_none(click.IntRange(min=0)), "N", ""


def gateway_command(
    name: str, example: str = "", *, retry_s: float = 0.0, is_open: bool = False, **attributes: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return the decorator of a command that uses a running gateway; see `command`.

    It gets a client as `gateway`: `Client`, or `AsyncClient` for a coroutine function.

    Args:
        name: of the command.
        example: a call.
        retry_s: how long it waits for a gateway that is away for a moment.
        is_open: it needs no token. On this machine any certificate will do, as hardly any is made
            out to 127.0.0.1.
        attributes: what else there is to say of the command.
    """

    def declare(function: Callable[..., Any]) -> click.Command:
        made = command(name, example, known=_KNOWN, more=_rules(function), **attributes)(function)
        made.params += _where(_own_url) if is_open else gateway_flags()

        def call(
            url: str,
            ca: Path | None,
            token_file: Path | None = None,
            insecure: bool = False,
            **words: Any,
        ) -> None:
            if is_open:
                is_own = all(map(is_loopback, urls_of(url)))
                place = GatewayPlace(url, ca=None if is_own else ca, verifies=not is_own)
            else:
                credential = chosen_credential(url, token_file, insecure=insecure)
                place = GatewayPlace(url, credential, ca=ca, retry_s=retry_s)
            _run(place, function, words)

        made.callback = call
        return made

    return declare


def _run(place: GatewayPlace, function: Callable[..., Any], words: dict[str, Any]) -> None:
    with place.explained():
        if inspect.iscoroutinefunction(function):
            asyncio.run(_run_async(place, function, words))
        else:
            with place.client() as gateway:
                function(gateway=gateway, **words)


async def _run_async(
    place: GatewayPlace, function: Callable[..., Any], words: dict[str, Any]
) -> None:
    async with place.async_client() as gateway:
        await function(gateway=gateway, **words)


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation on a terminal; exit if the answer is no."""
    if not yes and sys.stdin.isatty():
        click.confirm(question, abort=True, err=True)
