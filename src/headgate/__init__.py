"""Headgate: Redis Streams over HTTP, Server-Sent Events and WebSocket."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.client import AsyncClient, HeadgateError, Job, Problem
    from headgate.client.blocking import BlockingJob, Client

__all__ = ["AsyncClient", "BlockingJob", "Client", "HeadgateError", "Job", "Problem"]

_MODULES = {"BlockingJob": "headgate.client.blocking", "Client": "headgate.client.blocking"}


def __getattr__(name: str) -> Any:
    """Import the client when it is asked for: the gateway starts without it."""
    if name not in __all__:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, "headgate.client")), name)
