"""What an operation declares to need; one that declares nothing cannot be compiled.

The verbs are checked before the body arrives, so that nobody without any right sends one. The exact
rights, on the streams of the request, are checked by `access`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from headgate.app.auth.grants import Verb

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "needs"


class Needs(NamedTuple):
    verbs: frozenset[Verb] = frozenset()  # one of them; none: any right
    is_open: bool = False  # nothing at all
    opened_by: str | None = None  # the setting that makes it open
    by_url: bool = False  # a ticket in the URL or a cookie is as good, as browsers send no header


OPEN = Needs(is_open=True)
"""Of pages and probes: everybody may ask."""


def needs(*verbs: Verb, opened_by: str | None = None, by_url: bool = False) -> Callable[[F], F]:
    """Declare that an operation needs one of the verbs; without verbs, any right."""
    return _declaring(Needs(frozenset(verbs), opened_by=opened_by, by_url=by_url))


def is_open(operation: F) -> F:
    return _declaring(OPEN)(operation)


def needs_of(operation: Callable[..., Any]) -> Needs | None:
    declared = operation.__dict__.get(_ATTRIBUTE)
    return declared if isinstance(declared, Needs) else None


def _declaring(declared: Needs) -> Callable[[F], F]:
    def declare(operation: F) -> F:
        operation.__dict__[_ATTRIBUTE] = declared
        return operation

    return declare
