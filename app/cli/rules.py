"""Rules: the flags for how a stream is set and for the policy of a group."""

import json
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, cast, get_args

import click

from headgate.app.cli.durations import Duration, Durations, TimeToCome
from headgate.app.cli.flags import Utf8
from headgate.client.shapes.settings import Policy, StreamConfig

_NO_RULE = "none"


class _OrNone(click.ParamType[Any]):
    """A value, or `none` for no such rule."""

    def __init__(self, kind: click.ParamType[Any]) -> None:
        self.name = kind.name
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == _NO_RULE else self._kind.convert(value, param, ctx)


class FilterJson(click.ParamType[Any]):
    """A filter, or a list of filters that all hold, as JSON."""

    name = "filter"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return it; the gateway looks whether it makes sense."""
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError as error:
            self.fail(f"it is not JSON: {error}", param, ctx)


class _Filters(FilterJson):
    """A filter, or a list of filters, as JSON."""

    name = "filters"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a list of them."""
        filters = super().convert(value, param, ctx)
        return filters if isinstance(filters, list) else [filters]


filter_option = click.option(
    "--filter",
    type=FilterJson(),
    metavar="JSON",
    help="""Only entries for which it holds, such as '{"exact":{"kind":"sale"}}'.""",
)
"""The flag of a command that reads a stream."""


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags of a stream's configuration."""
    return _with_flags(command, StreamConfig)


def policy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags of a group's policy."""
    return _with_flags(command, Policy)


def config_of(flags: Mapping[str, Any]) -> StreamConfig:
    """Return the configuration that flags say."""
    return cast(StreamConfig, _given(flags))


def policy_of(flags: Mapping[str, Any]) -> Policy:
    """Return the policy that flags say."""
    return cast(Policy, _given(flags))


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: None if value == _NO_RULE else value
        for name, value in flags.items()
        if value is not None
    }


def _with_flags(command: Callable[..., Any], settings: type[Any]) -> Callable[..., Any]:
    for name, hint in reversed(settings.__annotations__.items()):
        command = _flag(name, *get_args(hint))(command)
    return command


def _flag(name: str, hint: Any, description: str) -> Callable[..., Any]:
    """Return the flag of a setting: `--claim-idle` for `claim_idle_ms`."""
    [kind] = (each for each in get_args(hint) if each is not NoneType)
    value, metavar, example = _value(name, kind)
    return click.option(
        f"--{name.removesuffix('_ms').replace('_', '-')}",
        name,
        type=value,
        metavar=metavar,
        help=description.replace("`", "") + example,
    )


def _value(name: str, kind: Any) -> tuple[click.ParamType[Any], str | None, str]:
    """Return the type, the placeholder and an example of the value of a flag."""
    if kind == list[int]:
        return _OrNone(Durations()), None, " Such as 1s,10s,1m."
    if kind == list[dict[str, Any]]:
        return _OrNone(_Filters()), "JSON", """ Such as '{"exact":{"kind":"sale"}}'."""
    if kind is str:
        return _OrNone(Utf8()), name.rpartition("_")[2].upper(), ""
    if kind is bool:
        return _OrNone(click.BOOL), "true|false", ""
    if kind is not int:
        return click.Choice([*get_args(kind), _NO_RULE]), None, ""
    if name.endswith("_until_ms"):
        return _OrNone(TimeToCome()), None, " Such as 10m, or 2026-12-24T18:00+01:00."
    if name.endswith("_ms"):
        return _OrNone(Duration()), None, " Such as 30s."
    return _OrNone(click.IntRange(min=0)), "N", ""
