"""Read the parameters of an operation and of its dependencies from a request.

FastAPI reads the signatures once. This file turns them into a list of steps: one for each
dependency, in the order in which they are needed, and then the operation itself. FastAPI's own way
takes several times as long as an append.

A dependency is a plain function: it takes parameters, the request and other dependencies, and it is
called once in a request, on the event loop. What else a signature may have in FastAPI is refused
when the operation is compiled (`Unsupported`).

A dependency that does not take the request, nor anything made of it, depends on the head alone. Its
result may serve all requests with the same head, so nobody may change it.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Protocol, Union, get_args, get_origin

from fastapi.dependencies.models import Dependant
from fastapi.params import Param

from headgate.app.transport.heads import Sent

Errors = list[Any]

_FAILED = object()

_READ = {
    *("call", "dependencies", "header_params", "http_connection_param_name", "name", "path"),
    *("path_params", "query_params", "request_param_name"),
}
"""What is read of a dependency."""

_SINGLE = (str, int, float, Enum, NoneType)
"""Types of which a query or a header has one value."""


class Unsupported(Exception):
    """An operation or the app uses something of FastAPI that is not supported here."""


class Sources(Protocol):
    @property
    def path_params(self) -> Mapping[str, str]: ...

    query: dict[str, str]
    sent: Sent  # headers, by name in small letters


def missing(*location: str) -> dict[str, Any]:
    return {"type": "missing", "loc": location, "msg": "Field required", "input": None}


class HeadValues(NamedTuple):
    """What the head of a request says, read."""

    results: list[Any]  # of the steps; of one that takes the request, its parameters
    own: dict[str, Any]  # parameters of the operation itself


class Parameters:
    def __init__(self, dependant: Dependant, also_read: AbstractSet[str]) -> None:
        """Turn what FastAPI has read into steps; raises Unsupported."""
        self._places: dict[Callable[..., Any], int] = {}  # of results
        self._steps: list[_Step] = []
        _check(dependant, _READ | also_read)
        self._own = _Step(dependant, self._add_all(dependant), self._steps)
        steps = enumerate(self._steps)
        self._with_request = [(place, step) for place, step in steps if step.takes_request]
        self._of_request: list[tuple[str, Callable[[Any], Any]]] = []
        names = {place: name for name, place in self._own.earlier if name is not None}
        if all(step.takes_request_alone and place in names for place, step in self._with_request):
            self._of_request = [(names[place], step.call) for place, step in self._with_request]
            self._with_request = []  # and so it is with most operations
        self.query_names = frozenset(
            parameter.alias
            for step in (*self._steps, self._own)
            for parameter in step.parameters
            if parameter.kind == "query"
        )

    def known(self, request: Sources, errors: Errors) -> HeadValues:
        """Return what the head says; adds to `errors`. With any of them, `values` is not called."""
        sources = (request.path_params, request.query, request.sent)
        results: list[Any] = []
        for step in self._steps:
            if step.takes_request_alone:
                results.append({})
                continue
            values = step.read(sources, errors)
            if values is None or (step.earlier and not step.add_earlier(values, results)):
                results.append(_FAILED)
            else:
                results.append(values if step.takes_request else step.call(**values))
        own = self._own.read(sources, errors) or {}
        self._own.add_earlier(own, results)
        return HeadValues(results, own)

    def values(self, request: Sources, known: HeadValues) -> dict[str, Any]:
        """Return the arguments of the operation, from what is known of the head."""
        values = known.own.copy()
        for name in self._own.request_names:
            values[name] = request
        for name, call in self._of_request:
            values[name] = call(request)
        if self._with_request:
            results = known.results.copy()
            for place, step in self._with_request:
                arguments = results[place].copy()
                step.add_earlier(arguments, results)
                for name in step.request_names:
                    arguments[name] = request
                results[place] = step.call(**arguments)
            self._own.add_earlier(values, results)
        return values

    def _add_all(self, dependant: Dependant) -> list[tuple[str | None, int]]:
        """Add the steps of dependencies; return the name and the place of each result."""
        return [(each.name, self._add(each)) for each in dependant.dependencies]

    def _add(self, dependant: Dependant) -> int:
        """Add a dependency behind those that it needs; return the place of its result."""
        call: Any = dependant.call
        if call not in self._places:
            if not inspect.isfunction(call) or _is_special(call):
                raise Unsupported(f"the dependency {call} is not a plain function")
            _check(dependant, _READ)
            given = self._add_all(dependant)
            self._steps.append(_Step(dependant, given, self._steps))
            self._places[call] = len(self._steps) - 1
        return self._places[call]


def _check(dependant: Dependant, read: AbstractSet[str]) -> None:
    """Refuse a signature of which a part would be ignored."""
    for field in fields(dependant):
        if field.name not in read and getattr(dependant, field.name) not in ([], None, True):
            raise Unsupported(f"{field.name} of {getattr(dependant.call, '__qualname__', '')}")


def _is_special(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.isgeneratorfunction(call)


class _Parameter:
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
        made = info.default_factory is not None or info.validate_default
        if (
            made
            or not _is_single(info.annotation)
            or info.validation_alias not in (None, self.alias)
        ):
            raise Unsupported(f"the {self.kind} parameter {self.alias!r}")

    def take(self, value: Any, values: dict[str, Any], errors: Errors) -> None:
        if self.kind == "header":
            value = value.decode("latin-1")
        if not self._is_text:
            value, wrong = self._field.validate(value, {}, loc=self._location)
            if wrong:
                errors.extend(wrong)
                return
        values[self.name] = value

    def missing(self) -> dict[str, Any]:
        return missing(*self._location)


def _is_single(kind: Any) -> bool:
    """Tell whether a query or a header of a type has one value."""
    kind = getattr(kind, "__value__", kind)  # of an alias
    if get_origin(kind) is Annotated:
        return _is_single(kind.__origin__)
    if get_origin(kind) in (Union, UnionType):
        return all(map(_is_single, get_args(kind)))
    return get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, _SINGLE))


class _Step:
    """A dependency or the operation itself, with its parameters and the earlier steps it uses."""

    def __init__(
        self, dependant: Dependant, given: list[tuple[str | None, int]], earlier: Sequence["_Step"]
    ) -> None:
        assert dependant.call is not None
        self.call = dependant.call
        self.earlier = given
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
        names = (dependant.request_param_name, dependant.http_connection_param_name)
        self.request_names = [name for name in names if name]
        self.takes_request: bool = bool(self.request_names) or any(
            earlier[place].takes_request for _, place in given
        )
        self.takes_request_alone = (
            len(self.request_names) == 1 and not self.parameters and not self.earlier
        )

    def read(self, sources: Sequence[Mapping[Any, Any]], errors: Errors) -> dict[str, Any] | None:
        """Return the parameters; None if one is wrong."""
        values = self._constants.copy()
        known = len(errors)
        for parameter in self.parameters:
            value = sources[parameter.source].get(parameter.key)
            if value is not None:
                parameter.take(value, values, errors)
            elif parameter.is_required:
                errors.append(parameter.missing())
        return values if len(errors) == known else None

    def add_earlier(self, values: dict[str, Any], results: list[Any]) -> bool:
        """Add what earlier steps have made; false if one has failed."""
        for name, place in self.earlier:
            result = results[place]
            if result is _FAILED:
                return False
            if name is not None:
                values[name] = result
        return True
