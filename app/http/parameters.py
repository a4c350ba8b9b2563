"""Parameters: reads the parameters of an operation and of its dependencies from a request.

FastAPI reads the signatures once. This file turns them into a list of steps: one for each
dependency, in the order in which they are needed, and then the operation itself. FastAPI's own way
takes several times as long as an append. Nothing is awaited if no dependency is `async def`.

A dependency means the same as in FastAPI: it is called once in a request unless it has
`use_cache=False`, one without a name is called for its effect, and `Security` passes its scopes. A
`def` is called on the event loop, not in a thread, so it must not block. A feature that is not
supported is refused when the route is made (`Unsupported`), and never ignored.
"""

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Protocol, get_args

from fastapi import Response
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_dependant
from fastapi.params import Param
from fastapi.security import SecurityScopes
from fastapi.security.base import SecurityBase
from pydantic import BaseModel
from typing_extensions import TypeAliasType

Errors = list[Any]
Overrides = Mapping[Callable[..., Any], Callable[..., Any]]
"""FastAPI's `dependency_overrides`: by the dependency that is declared, what to call instead."""

_FAILED = object()
_NOTHING: Overrides = {}


class Unsupported(Exception):
    """An operation, or the app, uses something of FastAPI that is not run here."""


class Sources(Protocol):
    """The parts of a request that parameters are taken from."""

    @property
    def path_params(self) -> Mapping[str, str]:
        """Return the names in the path."""
        ...

    query: dict[str, str]
    sent: dict[bytes, bytes]  # headers, by name in small letters


def is_async(call: Callable[..., Any]) -> bool:
    """Tell whether the result of a call is awaited, as FastAPI decides it."""
    return any(inspect.iscoroutinefunction(function) for function in _functions(call))


def is_generator(call: Callable[..., Any]) -> bool:
    """Tell whether a call yields, as FastAPI decides it."""
    return any(
        inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        for function in _functions(call)
    )


def missing(*location: str) -> dict[str, Any]:
    """Return the error of a parameter that is required and missing."""
    return {"type": "missing", "loc": location, "msg": "Field required", "input": None}


class Parameters:
    """The parameters of an operation: the steps of its dependencies, and then its own."""

    def __init__(self, dependant: Dependant, overrides: Overrides = _NOTHING) -> None:
        """Make steps of what FastAPI has read.

        Args:
            dependant: of the operation.
            overrides: what to call instead of dependencies.

        Raises:
            Unsupported: something of it is not run here.
        """
        self._overrides = overrides
        self._places: dict[Any, int] = {}  # of results that are used again
        self._steps: list[_Step] = []
        self._own = _Step(dependant, self._add_all(dependant.dependencies))
        self.has_async = any(step.is_async for step in self._steps)
        self.query_names = frozenset(
            parameter.alias
            for step in (*self._steps, self._own)
            for parameter in step.parameters
            if parameter.kind == "query"
        )

    def values(self, request: Sources, response: Response, errors: Errors) -> dict[str, Any]:
        """Return the arguments of the operation; faults are added to `errors`."""
        solving = _Solving(request, response, errors)
        for step in self._steps:
            solving.results.append(step.run(solving))
        return self._own.values(solving) or {}

    async def values_awaited(
        self, request: Sources, response: Response, errors: Errors
    ) -> dict[str, Any]:
        """Return the same as `values`, where there are steps to wait for."""
        solving = _Solving(request, response, errors)
        for step in self._steps:
            result = step.run(solving)
            if step.is_async and result is not _FAILED:
                result = await result
            solving.results.append(result)
        return self._own.values(solving) or {}

    def _add_all(self, dependants: Iterable[Dependant]) -> list[tuple[str | None, int]]:
        """Add the steps of dependencies; returns the name and the place of each result."""
        return [(dependant.name, self._add(dependant)) for dependant in dependants]

    def _add(self, dependant: Dependant) -> int:
        """Add a dependency behind those that it needs; returns the place of its result."""
        declared, key = dependant.call, _cache_key(dependant)
        assert declared is not None
        if declared in self._overrides:
            dependant = get_dependant(
                path=dependant.path or "",
                call=self._overrides[declared],
                name=dependant.name,
                parent_oauth_scopes=_scopes(dependant),
                use_cache=dependant.use_cache,
                scope=dependant.scope,
            )
        if dependant.use_cache and key in self._places:
            return self._places[key]
        given = self._add_all(dependant.dependencies)
        self._steps.append(_Dependency(dependant, given))
        place = len(self._steps) - 1
        self._places.setdefault(key, place)
        return place


class _Solving:
    """One request's way through the steps."""

    __slots__ = ("errors", "request", "response", "results", "sources")

    def __init__(self, request: Sources, response: Response, errors: Errors) -> None:
        self.request = request
        self.response = response
        self.errors = errors
        self.sources: tuple[Mapping[Any, Any], ...] = (
            request.path_params,
            request.query,
            request.sent,
        )
        self.results: list[Any] = []


class _Parameter:
    """A parameter of a path, a query or a header."""

    __slots__ = (
        "_field",
        "_is_text",
        "_location",
        "alias",
        "is_required",
        "key",
        "kind",
        "name",
        "source",
    )

    def __init__(self, source: int, field: Any) -> None:
        info: Param = field.field_info
        self.source = source
        self.name: str = field.name
        self.alias: str = field.alias
        self.kind: str = info.in_.value
        self.is_required = info.is_required()
        self._field = field
        self.key: Any = field.alias.lower().encode() if self.kind == "header" else field.alias
        self._location = (self.kind, field.alias)
        self._is_text = info.annotation is str and not info.metadata
        self._check(info)

    def take(self, value: Any, values: dict[str, Any], errors: Errors) -> None:
        """Put a value among the values, or what is wrong with it among the errors."""
        if self.kind == "header":
            value = value.decode("latin-1")
        if not self._is_text:
            value, wrong = self._field.validate(value, {}, loc=self._location)
            if wrong:
                errors.extend(wrong)
                return
        values[self.name] = value

    def missing(self) -> dict[str, Any]:
        """Return the error of a required parameter that is missing."""
        return missing(*self._location)

    def _check(self, info: Param) -> None:
        where = f"the {self.kind} parameter {self.alias!r}"
        if any(_is_many(kind) for kind in _kinds(info.annotation)):
            raise Unsupported(f"{where} has more than one value")
        if info.validation_alias not in (None, self.alias):
            raise Unsupported(f"{where} has an alias of its own for validation")
        if info.default_factory is not None or info.validate_default:
            raise Unsupported(f"{where} has a default that is made for each request")


class _Step:
    """A dependency or the operation itself, with its parameters and the earlier steps it uses."""

    def __init__(self, dependant: Dependant, given: list[tuple[str | None, int]]) -> None:
        assert dependant.call is not None
        self.call = dependant.call
        self.is_async = is_async(self.call)
        self._given = given
        groups = (dependant.path_params, dependant.query_params, dependant.header_params)
        self.parameters = [
            _Parameter(source, field) for source, group in enumerate(groups) for field in group
        ]
        self._constants: dict[str, Any] = {
            field.name: field.default
            for group in groups
            for field in group
            if not field.field_info.is_required()
        }
        if dependant.security_scopes_param_name:
            scopes = SecurityScopes(_scopes(dependant))
            self._constants[dependant.security_scopes_param_name] = scopes
        self._request_names = [
            name
            for name in (dependant.request_param_name, dependant.http_connection_param_name)
            if name
        ]
        self._response_name = dependant.response_param_name
        self._check(dependant)

    def run(self, solving: _Solving) -> Any:
        """Call it, or return `_FAILED` if something that it needs is not there."""
        values = self.values(solving)
        return _FAILED if values is None else self.call(**values)

    def values(self, solving: _Solving) -> dict[str, Any] | None:
        """Return the arguments of the call; None if one is wrong, with the faults in the errors."""
        values, errors, sources = self._constants.copy(), solving.errors, solving.sources
        known = len(errors)
        for parameter in self.parameters:
            value = sources[parameter.source].get(parameter.key)
            if value is not None:
                parameter.take(value, values, errors)
            elif parameter.is_required:
                errors.append(parameter.missing())
        is_possible = len(errors) == known
        for name, place in self._given:
            result = solving.results[place]
            if result is _FAILED:
                is_possible = False
            elif name is not None:
                values[name] = result
        for name in self._request_names:
            values[name] = solving.request
        if self._response_name is not None:
            values[self._response_name] = solving.response
        return values if is_possible else None

    def _check(self, dependant: Dependant) -> None:
        if dependant.cookie_params:
            raise Unsupported(f"cookies ({dependant.cookie_params[0].name!r})")
        if dependant.background_tasks_param_name:
            raise Unsupported("background tasks")
        if dependant.websocket_param_name:
            raise Unsupported("a WebSocket")


class _Dependency(_Step):
    """A step before the operation's own."""

    def _check(self, dependant: Dependant) -> None:
        super()._check(dependant)
        name = getattr(self.call, "__qualname__", type(self.call).__qualname__)
        if is_generator(self.call):
            raise Unsupported(f"the dependency {name} yields")
        if dependant.body_params:
            raise Unsupported(f"the dependency {name} takes the body")
        if dependant.concurrency is not None:
            raise Unsupported(f"the dependency {name} bounds how many run at once")


def _cache_key(dependant: Dependant) -> object:
    """Return the key that two dependencies share if FastAPI calls them once in a request."""
    scopes = frozenset(_scopes(dependant)) if _uses_scopes(dependant) else frozenset()
    return dependant.call, scopes, dependant.scope


def _scopes(dependant: Dependant) -> list[str]:
    """Return the scopes of a dependency: its own, and those around it."""
    return list(
        dict.fromkeys([*(dependant.parent_oauth_scopes or ()), *(dependant.own_oauth_scopes or ())])
    )


def _uses_scopes(dependant: Dependant) -> bool:
    if dependant.own_oauth_scopes or dependant.security_scopes_param_name:
        return True
    if isinstance(dependant.call, SecurityBase):
        return True
    return any(_uses_scopes(below) for below in dependant.dependencies)


def _functions(call: Callable[..., Any]) -> Iterator[Any]:
    """Yield possible functions behind a callable: itself, the wrapped one, its `__call__`."""
    function: Any = call
    while isinstance(function, partial):
        function = function.func
    wrapped = inspect.unwrap(function)
    yield function
    yield wrapped
    if not inspect.isclass(wrapped):  # to call a class makes an instance
        yield inspect.unwrap(function.__call__)
        yield inspect.unwrap(wrapped.__call__)


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield a type, and those it is made of."""
    yield annotation
    for part in (*get_args(annotation), *_alias_of(annotation)):
        yield from _kinds(part)


def _alias_of(annotation: Any) -> tuple[Any, ...]:
    return (annotation.__value__,) if isinstance(annotation, TypeAliasType) else ()


def _is_many(kind: Any) -> bool:
    """Tell whether a type takes several values of a query or a header."""
    plain = getattr(kind, "__origin__", kind)
    if not isinstance(plain, type) or issubclass(plain, str | bytes):
        return False
    return issubclass(plain, Sequence | AbstractSet | Mapping | deque | BaseModel)
