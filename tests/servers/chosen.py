"""The servers that suites use in place of the embedded engine: those of HEADGATE_TEST_BACKEND."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from uuid import uuid4

from pydantic import SecretStr

from headgate.app.settings import MEMORY, Settings

_CHOSEN = os.environ.get("HEADGATE_TEST_BACKEND")

URL = None if _CHOSEN == "remote" else _CHOSEN
"""The URL for `--backend`; None: the embedded engine runs."""

_RUN = uuid4().hex
_places = count()


def is_behind_socket() -> bool:
    """Tell whether the engine is to be used over a Unix socket (HEADGATE_TEST_BACKEND=remote)."""
    return _CHOSEN == "remote"


def over_servers(settings: Settings) -> Settings:
    """Return the settings of a gateway that keeps its streams in the servers, if there are any.

    Settings that name servers themselves stay as they are.
    """
    if URL is None or settings.backend is not None:
        return settings
    return settings.model_copy(update={**servers_for(settings.data_dir), "backend": SecretStr(URL)})


def servers_for(data_dir: Path) -> dict[str, str]:
    """Return the settings that name the servers and a prefix of keys, if there are any servers.

    Gateways with the same data directory have the same streams. Others see nothing of them.
    """
    if URL is None:
        return {}
    place = next(_places) if data_dir == MEMORY else data_dir
    return {"backend": URL, "redis_prefix": f"{_RUN}-{place}:"}
