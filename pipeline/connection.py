"""Connection: the gateway's URL and the caller's token, as drivers send them to their tasks.

Spark logs much of what it is told: plans, offsets, events. The token is in none of that. It travels
to tasks inside the pickled reader or writer, which Spark keeps in memory; a token from a file does
not travel at all, as each machine reads the file itself.
"""

from __future__ import annotations

import ssl

from headgate.client.address import urls_of
from headgate.client.blocking import Client
from headgate.client.credential import Credential, CredentialError, TokenSource

RETRY_S = 60.0  # a restart of the gateway takes seconds
STREAMS_MAX = 1000  # whose names are asked for at once
_RATE_LIMIT_S = 600.0  # of jobs that ask for more than they may
ANSWER_S = 60.0


class Connection:
    """A connection to one gateway. Can be pickled: the client is not, and is created anew.

    None for `token` or `insecure` means what the environment says; `ca` is a file of certificates
    to trust instead of the usual ones. While the gateway cannot be reached, requests are retried
    for `retry_s`; rate limits are waited for, up to ten minutes. Raises CredentialError if there is
    no token, or it must not be sent there.
    """

    def __init__(
        self,
        url: str,
        token: TokenSource | None = None,
        *,
        ca: str | None = None,
        insecure: bool | None = None,
        retry_s: float = RETRY_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        self.url = url
        self.retry_s = retry_s
        self._answer_s = answer_s
        self._credential = Credential(urls_of(url), token, insecure=insecure)
        self._ca = ca
        self._client: Client | None = None

    def __repr__(self) -> str:
        return f"Connection({self.url!r})"

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_client": None}

    def __enter__(self) -> Client:
        return self.client

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def client(self) -> Client:
        """Return the client, the same one until `close`."""
        if self._client is None:
            self._client = Client(
                self.url,
                token=self._credential.source,
                insecure=True,  # it was checked
                retry_s=self.retry_s,
                rate_limit_s=max(self.retry_s, _RATE_LIMIT_S),
                answer_s=self._answer_s,
                tls=self._tls(),
            )
        return self._client

    def close(self) -> None:
        """Close all connections; the next request opens new ones."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _tls(self) -> ssl.SSLContext | None:
        if self._ca is None or "https:" not in self.url:
            return None
        try:
            return ssl.create_default_context(cafile=self._ca)
        except (ssl.SSLError, OSError) as error:
            raise CredentialError(f"{self._ca} has no certificates: {error.strerror}") from None
