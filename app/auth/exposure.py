"""Without credentials a gateway serves only this machine.

Otherwise a gateway that somebody starts with `--host 0.0.0.0` to try it out would let the whole
network read and delete everything.
"""

from collections.abc import Iterable
from pathlib import Path
from shlex import quote

from headgate.app.addresses import is_loopback

_GRANT = '\'{"streams":["*"],"do":["read","append","consume","manage"]}\''


class Exposed(Exception):
    """Anybody who reaches the gateway could do everything; the text names the ways out."""


def check_exposure(
    host: str, addresses: Iterable[str], *, has_credentials: bool, allow_anonymous: bool, keys: str
) -> None:
    """Refuse to serve other machines without credentials; raises Exposed.

    `host` is as it was given; `addresses` are what listens, or what `host` resolves to. `keys` are
    the flags of `headgate keys add` that name this gateway's file.
    """
    if has_credentials or allow_anonymous or all(map(is_loopback, addresses)):
        return
    raise Exposed(
        f"Other machines reach {host}, and this gateway has no credentials: all of them could read "
        "and delete everything. Without --host it serves this machine only. To serve others,\n"
        f"  make a key:     headgate keys add me --grant {_GRANT} {keys}\n"
        "  or take tokens: HEADGATE_JWT_JWKS, HEADGATE_JWT_PUBLIC_KEY_FILE or HEADGATE_JWT_SECRET\n"
        "  or let everybody in, without any: --allow-anonymous"
    )


def keys_flags(data_dir: Path | None, keys_file: Path | None) -> str:
    """Return the flags that name the keys file; a gateway that stores nothing needs one too."""
    if keys_file is not None:
        return f"--keys-file {quote(str(keys_file))}"
    if data_dir is None:
        return "--keys-file keys.json  (and serve with the same --keys-file)"
    return f"--data-dir {quote(str(data_dir))}"
