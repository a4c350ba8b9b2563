"""A running gateway, for the commands that use one."""

import ssl
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import click
import httpx

from headgate.app.cli.credential import TOKEN_VARIABLE, Credential, is_loopback
from headgate.app.cli.words import one_line

_CONNECT_S = 5.0
_ANSWER_S = 60.0


class Unreachable(click.ClickException):
    """There is no gateway at the URL, or no longer."""


class Refused(click.ClickException):
    """The gateway refused a request."""

    def __init__(self, status: int, problem: dict[str, Any], hint: str = "") -> None:
        """Keep the problem, and what the user may do about it."""
        super().__init__(one_line(f"{problem['detail']} ({status} {problem['code']}){hint}"))
        self.is_retryable = bool(problem.get("retryable"))


class Remote:
    """A running gateway."""

    def __init__(
        self,
        url: str,
        credential: Credential | None = None,
        *,
        ca: Path | None = None,
        verifies: bool = True,
        answer_s: float = _ANSWER_S,
    ) -> None:
        """Get ready to call it; nothing is sent yet.

        Args:
            url: where it is.
            credential: who calls; None: nobody in particular.
            ca: file of certificates to trust instead of the usual ones.
            verifies: whether its certificate must be good, if it has one.
            answer_s: how long it may be silent before an answer, and within one, in seconds.

        Raises:
            click.ClickException: there are no certificates in `ca`.
        """
        self.url = url
        self._credential = credential
        # Plain HTTP needs no certificates, and reading those that are trusted takes 40 ms.
        verifies = verifies and not url.startswith("http:")
        self.http = httpx.Client(
            base_url=url,
            timeout=httpx.Timeout(answer_s, connect=min(_CONNECT_S, answer_s)),
            auth=credential,
            verify=_trusting(ca) if ca and url.startswith("https") else verifies,
            # A proxy of the network has no part in what goes to this machine.
            trust_env=not is_loopback(urlsplit(url).hostname or ""),
        )

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
            raise Refused(answer.status_code, problem, self._hint(problem["code"]))
        except (ValueError, TypeError, KeyError):
            raise self.stranger(answer) from None

    def unreachable(self, error: httpx.TransportError) -> Unreachable:
        """Return the error for a URL where nobody answers."""
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return Unreachable(
                f"the certificate of {self.url} is not trusted: {one_line(str(error))}. "
                "--ca or SSL_CERT_FILE names a file of certificates to trust."
            )
        return Unreachable(
            f"no gateway at {self.url}: {one_line(str(error)) or type(error).__name__}. Start one "
            "with `headgate serve`, or say where it is with --url or HEADGATE_URL."
        )

    def stranger(self, answer: httpx.Response) -> Unreachable:
        """Return the error for a URL where something else answers."""
        return Unreachable(f"{self.url} answers {answer.status_code}, but is no gateway.")

    def _hint(self, code: str) -> str:
        """Return which credential was refused, if a problem is about that."""
        if code not in ("unauthenticated", "forbidden"):
            return ""
        if self._credential is None:
            return f". No token was sent: {TOKEN_VARIABLE} or --token-file gives one."
        if self._credential.origin == TOKEN_VARIABLE:
            return f". The token was that of {TOKEN_VARIABLE}."
        return f". The token was that of {self._credential.origin}, before {TOKEN_VARIABLE}."

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


def _trusting(ca: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (ssl.SSLError, OSError) as error:
        raise click.ClickException(f"{ca} has no certificates: {error.strerror}") from None
