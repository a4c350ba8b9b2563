"""Headgate: Redis Streams over HTTP, Server-Sent Events and WebSocket."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.client import (
        AsyncClient,
        CredentialError,
        Draft,
        HeadgateError,
        Job,
        Message,
        Problem,
        TokenFile,
    )
    from headgate.client.blocking import BlockingJob, Client
    from headgate.client.lake import read_lake
    from headgate.client.shapes.settings import Policy, StreamConfig

_MODULES = {
    "AsyncClient": "client",
    "BlockingJob": "client.blocking",
    "Client": "client.blocking",
    "CredentialError": "client",
    "Draft": "client",
    "HeadgateError": "client",
    "Job": "client",
    "Message": "client",
    "Policy": "client.shapes.settings",
    "Problem": "client",
    "StreamConfig": "client.shapes.settings",
    "TokenFile": "client",
    "read_lake": "client.lake",
}

__all__ = [
    "AsyncClient",
    "BlockingJob",
    "Client",
    "CredentialError",
    "Draft",
    "HeadgateError",
    "Job",
    "Message",
    "Policy",
    "Problem",
    "StreamConfig",
    "TokenFile",
    "read_lake",
]


def __getattr__(name: str) -> Any:
    """Import the client on first use: the gateway starts without it."""
    if name not in _MODULES:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    return getattr(import_module(f"headgate.{_MODULES[name]}"), name)
