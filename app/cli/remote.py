"""A running gateway, for the commands that use one."""

import os
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import click
import httpx
from click.shell_completion import CompletionItem

from headgate.app.cli.words import one_line
from headgate.app.wire.name_rule import fault_of

_URL = "http://127.0.0.1:8080"
_CONNECT_S = 5.0
_ANSWER_S = 60.0
_COMPLETION_S = 0.5
"""How long a key pressed for completion may take."""
_COMPLETIONS_MAX = 100


class Unreachable(click.ClickException):
    """There is no gateway at the URL, or no longer."""


class Refused(click.ClickException):
    """The gateway refused a request."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        """Keep the problem."""
        super().__init__(one_line(f"{problem['detail']} ({status} {problem['code']})"))
        self.is_retryable = bool(problem.get("retryable"))


class Remote:
    """A running gateway."""

    def __init__(self, url: str, *, answer_s: float = _ANSWER_S) -> None:
        """Get ready to call it; nothing is sent yet.

        Args:
            url: where it is.
            answer_s: how long it may be silent before an answer, and within one, in seconds.
        """
        self.url = url
        timeout = httpx.Timeout(answer_s, connect=min(_CONNECT_S, answer_s))
        self.http = httpx.Client(base_url=url, timeout=timeout)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close its connections."""
        self.http.close()

    def get(self, *path: str, **params: str | int) -> Any:
        """Return the JSON value of an answer.

        Args:
            path: segments of the path, as they are: names may hold any character.
            params: the query.

        Raises:
            Unreachable: there is no gateway.
            Refused: it answered with a problem.
        """
        return self._ask("GET", path, params=params)

    def post(self, *path: str, body: bytes, media_type: str) -> Any:
        """Send a body, and return the JSON value of the answer; raises as `get`."""
        return self._ask("POST", path, content=body, headers={"content-type": media_type})

    def check(self, answer: httpx.Response) -> None:
        """Refuse an answer that is no success; its body must be here.

        Raises:
            Refused: it is a problem.
            Unreachable: it is not what a gateway says.
        """
        if answer.is_success:
            return
        try:
            problem = answer.json()
            raise Refused(answer.status_code, problem)
        except (ValueError, TypeError, KeyError):
            raise self.stranger(answer) from None

    def unreachable(self, error: httpx.TransportError) -> Unreachable:
        """Return the error for a URL where nobody answers."""
        return Unreachable(
            f"no gateway at {self.url}: {one_line(str(error)) or type(error).__name__}. Start one "
            "with `headgate serve`, or say where it is with --url or HEADGATE_URL."
        )

    def stranger(self, answer: httpx.Response) -> Unreachable:
        """Return the error for a URL where something else answers."""
        return Unreachable(f"{self.url} answers {answer.status_code}, but is no gateway.")

    def _ask(self, method: str, path: tuple[str, ...], **request: Any) -> Any:
        try:
            answer = self.http.request(method, path_of(*path), **request)
        except httpx.TransportError as error:
            raise self.unreachable(error) from None
        self.check(answer)
        try:
            return _Answer(answer.json(), self.stranger(answer))
        except (ValueError, TypeError):
            raise self.stranger(answer) from None


class _Answer(dict[str, Any]):
    """An answer; a missing key means that a stranger answered, and not a gateway."""

    def __init__(self, answer: dict[str, Any], stranger: Unreachable) -> None:
        super().__init__(answer)
        self._stranger = stranger

    def __missing__(self, key: str) -> Any:
        raise self._stranger


def path_of(*segments: str) -> str:
    """Return a path of names, whatever characters they have."""
    # Dots alone would be taken for a way up.
    packed = (quote(segment, safe="").replace(".", "%2E") for segment in segments)
    return "/" + "/".join(packed)


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
            httpx.URL(url)
            _ = parts.port
        except (ValueError, httpx.InvalidURL):
            is_good = False
        if not is_good:
            self.fail(f"{value!r} is no URL such as http://127.0.0.1:8080", param, ctx)
        return url.rstrip("/")


def _stream_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the streams whose names begin so, if the gateway says so at once."""
    del param
    url = ctx.params.get("url") or os.environ.get("HEADGATE_URL") or _URL
    try:
        with Remote(_Url().convert(url, None, ctx), answer_s=_COMPLETION_S) as gateway:
            page = gateway.get("v1", "streams", prefix=incomplete, limit=_COMPLETIONS_MAX)
        return [CompletionItem(stream["name"]) for stream in page["streams"]]
    except click.ClickException:
        return []


url_option = click.option(
    "--url",
    type=_Url(),
    envvar="HEADGATE_URL",
    show_envvar=True,
    default=_URL,
    show_default=True,
    help="Where the gateway is.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON value per line.")
stream_argument = click.argument("stream", type=_Stream(), shell_complete=_stream_names)
