"""Parameters: what an operation takes from a request's path, query and headers.

FastAPI reads the signatures once, for the document; what it found is put to use here with nothing
in between, as solving them its way costs several times what an append does. Dependencies are plain
functions of their parameters.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from fastapi import Response
from fastapi.dependencies.models import Dependant
from fastapi.params import Param

Errors = list[Any]

_FAILED = object()


class Sources(Protocol):
    """The parts of a request that parameters are taken from."""

    @property
    def path_params(self) -> Mapping[str, str]:
        """Return the names in the path."""
        ...

    query: dict[str, str]
    sent: dict[bytes, bytes]  # headers, by name in small letters


def missing(*location: str) -> dict[str, Any]:
    """Return what is wrong where something is required and not there."""
    return {"type": "missing", "loc": location, "msg": "Field required", "input": None}


class _Parameter:
    """One of them."""

    __slots__ = ("_field", "_is_text", "_location", "alias", "is_required", "key", "kind", "name")

    def __init__(self, field: Any) -> None:
        info: Param = field.field_info
        self.name: str = field.name
        self.alias: str = field.alias
        self.kind: str = info.in_.value
        self.is_required = info.is_required()
        self._field = field
        self.key: Any = field.alias.lower().encode() if self.kind == "header" else field.alias
        self._location = (self.kind, field.alias)
        self._is_text = info.annotation is str and not info.metadata

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
        """Return what is wrong if it is required and not there."""
        return missing(*self._location)


class _Call:
    """A dependency, or at last the route: what it takes, and from which calls before it."""

    __slots__ = (
        "call",
        "defaults",
        "given",
        "needs_nothing",
        "parameters",
        "takes_request",
        "takes_response",
        "unasked",
    )

    def __init__(self, dependant: Dependant, given: list[tuple[str, int]]) -> None:
        assert not dependant.cookie_params
        assert dependant.call is not None
        self.call = dependant.call
        self.given = given
        fields = (dependant.path_params, dependant.query_params, dependant.header_params)
        found = [
            (source, _Parameter(field)) for source, group in enumerate(fields) for field in group
        ]
        self.parameters = [(source, one.key, one) for source, one in found]
        self.defaults = {
            field.name: field.default
            for group in fields
            for field in group
            if not field.field_info.is_required()
        }
        self.takes_request = dependant.request_param_name or dependant.http_connection_param_name
        self.takes_response = dependant.response_param_name
        self.needs_nothing = not (
            given
            or self.takes_request
            or self.takes_response
            or any(one.is_required for _, one in found)
        )
        self.unasked: Any = None  # of a dependency: what it is for who says nothing

    def asked(self, sources: tuple[Mapping[Any, Any], ...], errors: Errors) -> dict[str, Any]:
        """Return what the request says of the parameters; what is wrong is added to `errors`."""
        values: dict[str, Any] = {}
        for source, key, parameter in self.parameters:
            value = sources[source].get(key)
            if value is not None:
                parameter.take(value, values, errors)
            elif parameter.is_required:
                errors.append(parameter.missing())
        return values

    def arguments(
        self, asked: dict[str, Any], found: Sequence[Any], request: Sources, response: Response
    ) -> dict[str, Any]:
        """Return what to call it with, given what the calls before it have found."""
        values = self.defaults | asked
        for name, index in self.given:
            values[name] = found[index]
        if self.takes_request:
            values[self.takes_request] = request
        if self.takes_response:
            values[self.takes_response] = response
        return values


class Parameters:
    """What a route takes, and all that its dependencies take: a list of calls, the route's last."""

    def __init__(self, dependant: Dependant) -> None:
        """Take over what FastAPI found in signatures."""
        self._dependencies: list[_Call] = []
        self._add(dependant)
        self._route = self._dependencies.pop()
        for one in self._dependencies:
            if one.needs_nothing:
                one.unasked = one.call(**one.defaults)

    @property
    def query_names(self) -> Iterator[str]:
        """Yield the names of query parameters, those of dependencies too."""
        for call in (*self._dependencies, self._route):
            for _, _, parameter in call.parameters:
                if parameter.kind == "query":
                    yield parameter.alias

    def values(self, request: Sources, response: Response, errors: Errors) -> dict[str, Any]:
        """Return what to call the route with; what is wrong is added to `errors`."""
        sources = request.path_params, request.query, request.sent
        found: list[Any] = []
        for one in self._dependencies:
            known = len(errors)
            asked = one.asked(sources, errors)
            if one.needs_nothing and not asked and len(errors) == known:
                found.append(one.unasked)
                continue
            values = one.arguments(asked, found, request, response)
            # What lacks a value is not called, nor is what needs it: there are errors then.
            is_possible = len(errors) == known and _FAILED not in values.values()
            found.append(one.call(**values) if is_possible else _FAILED)
        return self._route.arguments(self._route.asked(sources, errors), found, request, response)

    def _add(self, dependant: Dependant) -> int:
        """Add a call behind those it needs; returns its place."""
        given = [(below.name or "", self._add(below)) for below in dependant.dependencies]
        self._dependencies.append(_Call(dependant, given))
        return len(self._dependencies) - 1
