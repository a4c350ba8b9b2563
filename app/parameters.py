"""Parameters: what an operation takes from a request's path, query and headers.

FastAPI reads the signatures once, for the document; what it found is put to use here with nothing
in between, as solving them its way costs several times what an append does. Dependencies are
coroutines that never wait.
"""

from collections.abc import Iterator, Mapping
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

    __slots__ = ("_field", "_is_required", "_is_text", "_location", "alias", "key", "kind", "name")

    def __init__(self, field: Any) -> None:
        info: Param = field.field_info
        self.name: str = field.name
        self.alias: str = field.alias
        self.kind: str = info.in_.value
        self._is_required = info.is_required()
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

    def miss(self, errors: Errors) -> None:
        """Note that it is not there, if it should be."""
        if self._is_required:
            errors.append(missing(*self._location))


class _Call:
    """A dependency, or at last the route: what it takes, and from which calls before it."""

    __slots__ = ("call", "defaults", "given", "parameters", "takes_request", "takes_response")

    def __init__(self, dependant: Dependant, given: list[tuple[str, int]]) -> None:
        assert not dependant.cookie_params
        assert dependant.call is not None
        self.call = dependant.call
        self.given = given
        fields = (dependant.path_params, dependant.query_params, dependant.header_params)
        self.parameters = [
            (source, _Parameter(field)) for source, group in enumerate(fields) for field in group
        ]
        self.defaults = {
            field.name: field.default
            for group in fields
            for field in group
            if not field.field_info.is_required()
        }
        self.takes_request = dependant.request_param_name or dependant.http_connection_param_name
        self.takes_response = dependant.response_param_name


class Parameters:
    """What a route takes, and all that its dependencies take: a list of calls, the route's last."""

    def __init__(self, dependant: Dependant) -> None:
        """Take over what FastAPI found in signatures."""
        self._calls: list[_Call] = []
        self._add(dependant)

    @property
    def query_names(self) -> Iterator[str]:
        """Yield the names of query parameters, those of dependencies too."""
        for call in self._calls:
            for _, parameter in call.parameters:
                if parameter.kind == "query":
                    yield parameter.alias

    async def values(self, request: Sources, response: Response, errors: Errors) -> dict[str, Any]:
        """Return what to call the route with; what is wrong is added to `errors`."""
        sources = request.path_params, request.query, request.sent
        found: list[Any] = []
        values: dict[str, Any] = {}
        for one in self._calls:
            known = len(errors)
            values = one.defaults.copy()
            for source, parameter in one.parameters:
                value = sources[source].get(parameter.key)
                if value is None:
                    parameter.miss(errors)
                else:
                    parameter.take(value, values, errors)
            for name, index in one.given:
                values[name] = found[index]
            if one.takes_request:
                values[one.takes_request] = request
            if one.takes_response:
                values[one.takes_response] = response
            if one is not self._calls[-1]:
                # What lacks a value is not called, nor is what needs it: there are errors then.
                is_possible = len(errors) == known and _FAILED not in values.values()
                found.append(await one.call(**values) if is_possible else _FAILED)
        return values

    def _add(self, dependant: Dependant) -> int:
        """Add a call behind those it needs; returns its place."""
        given = [(below.name or "", self._add(below)) for below in dependant.dependencies]
        self._calls.append(_Call(dependant, given))
        return len(self._calls) - 1
