"""Paths: what a request asks for, whatever the root path is."""

from urllib.parse import quote

from starlette.types import Scope


def plain_path_of(scope: Scope) -> str:
    """Return the path of a request behind the root path."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path


def path_of(scope: Scope) -> str:
    """Return the path of a request behind the root path, as it is in the URL."""
    return quote(plain_path_of(scope), safe="/:@!$&'()*+,;=~")
