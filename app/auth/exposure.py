"""Exposure: without credentials a gateway serves this machine only.

Otherwise a gateway that somebody starts with `--host 0.0.0.0` to try it out would let the whole
network read and delete everything.
"""

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from shlex import quote

_GRANT = '\'{"streams":["*"],"do":["read","append","consume","manage"]}\''


class Exposed(Exception):
    """Whoever reaches the gateway could do everything; the text names the ways on."""


def check_exposure(
    host: str, addresses: Iterable[str], *, has_credentials: bool, allow_anonymous: bool, keys: str
) -> None:
    """Refuse to serve other machines without credentials.

    Args:
        host: as it was given.
        addresses: of the sockets that listen, or those that `host` stands for.
        has_credentials: whether there are keys, or settings for tokens.
        allow_anonymous: whether the operator wants others to come in without any.
        keys: the flags of `headgate keys add` that name the file of this gateway.

    Raises:
        Exposed: there is an address that other machines reach, and no reason to serve it.
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
    """Return the flags that name the keys file; a gateway that keeps nothing needs one as well."""
    if keys_file is not None:
        return f"--keys-file {quote(str(keys_file))}"
    if data_dir is None:
        return "--keys-file keys.json  (and serve with the same --keys-file)"
    return f"--data-dir {quote(str(data_dir))}"


def is_loopback(address: str) -> bool:
    """Tell whether an address is reached from this machine only.

    A text that is no address does not lead to it for sure.
    """
    try:
        parsed = ip_address(address.partition("%")[0])  # without its zone
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped.is_loopback
    return parsed.is_loopback
