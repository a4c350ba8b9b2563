"""Paths: the URL of a stream and its name, one from the other.

| in the path | in the name |
|---|---|
| `/` | `:` |
| `:` | `%3A` |
| `%` | `%25` |

Everything else is the same in both. The first segment `__ds` is reserved by the protocol, and no
path begins with `__`, as the names that begin so are the gateway's own.
"""

import re
from urllib.parse import quote

from headgate.app.wire.name_rule import fault_of
from headgate.app.wire.problems import GatewayError
from headgate.engine.requests.names import RESERVED

ROOT = "/v1/stream/"
CONTROL = "__ds"
"""First segment of the paths that are no streams."""

_TO_NAME = {"/": ":", ":": "%3A", "%": "%25"}
_TO_PATH = {text: character for character, text in _TO_NAME.items()}
_IN_PATH = re.compile("[/:%]")
_IN_NAME = re.compile("%3A|%25|:")


def name_of(path: str) -> bytes:
    """Return the name of the stream at a path, which is decoded and relative to the root.

    Raises:
        GatewayError: no stream can have it.
    """
    if path.startswith(RESERVED.decode()):
        raise GatewayError("not_found", "paths that begin with `__` are no streams")
    name = _IN_PATH.sub(lambda match: _TO_NAME[match[0]], path)
    fault = fault_of(name)
    if fault is not None:
        raise GatewayError("malformed", fault, pointer="/path/path")
    return name.encode()


def path_of(name: bytes) -> str | None:
    """Return the path of a stream, relative to the root; None if there is none."""
    text = name.decode(errors="replace")
    path = _IN_NAME.sub(lambda match: _TO_PATH[match[0]], text)
    try:
        return path if name_of(path) == name else None
    except GatewayError:
        return None


def quoted(path: str) -> str:
    """Return a path as it stands in a URL."""
    return quote(path, safe="/:@!$&'()*+,;=~")
