"""Scopes: what others have to know of a request or a handshake, read of its ASGI scope."""

from collections.abc import Mapping
from urllib.parse import quote

from starlette.types import Scope

from headgate.app.transport.proxies import client_address


class ServedScope:
    """A request or a handshake, as the audit log has it. Nothing of it is read before that."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        """Read a scope when it is asked for."""
        self._scope = scope

    @property
    def address(self) -> str:
        """Return the address of the client."""
        return client_address(self._scope)

    @property
    def names(self) -> Mapping[str, str]:
        """Return the names in its path."""
        return self._scope.get("path_params") or {}

    @property
    def operation(self) -> str | None:
        """Return the id of the operation."""
        operation: str | None = getattr(self._scope.get("route"), "operation_id", None)
        return "websocket" if not operation and self._scope["type"] == "websocket" else operation


def plain_path_of(scope: Scope) -> str:
    """Return the path of a request behind the root path."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path


def path_of(scope: Scope) -> str:
    """Return the path of a request behind the root path, as it is in the URL."""
    return quote(plain_path_of(scope), safe="/:@!$&'()*+,;=~")
