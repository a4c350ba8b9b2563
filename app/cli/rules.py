"""Rules: the flags for how a stream is set and for the policy of a group."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import click

from headgate.app.cli.durations import Duration, Durations
from headgate.app.cli.flags import Utf8
from headgate.client.shapes import Policy, StreamConfig

_NO_RULE = "none"


class _OrNone(click.ParamType[Any]):
    """A value, or `none` for no such rule."""

    def __init__(self, kind: click.ParamType[Any]) -> None:
        self.name = kind.name
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == _NO_RULE else self._kind.convert(value, param, ctx)


_COUNT = _OrNone(click.IntRange(min=0))
_DURATION = _OrNone(Duration())

_OF_STREAMS = [
    click.option("--max-length", type=_COUNT, metavar="N", help="Keep so many entries at most."),
    click.option("--max-age", "max_age_ms", type=_DURATION, help="Keep entries so long, as 7d."),
    click.option(
        "--idempotency-window",
        "idempotency_window_ms",
        type=_DURATION,
        help="How long an append that is repeated with its key is known, as 10m.",
    ),
    click.option(
        "--idempotency-max", type=_COUNT, metavar="N", help="How many such keys are known at most."
    ),
]
_OF_GROUPS = [
    click.option(
        "--claim-idle",
        "claim_idle_ms",
        type=_DURATION,
        help="Others take over what a consumer has had for so long, as 1m.",
    ),
    click.option(
        "--max-deliveries",
        type=_COUNT,
        metavar="N",
        help="An entry that has failed so often becomes a dead letter.",
    ),
    click.option(
        "--dead-letter-stream",
        type=_OrNone(Utf8()),
        metavar="STREAM",
        help="Where dead letters go.",
    ),
    click.option(
        "--backoff",
        "backoff_ms",
        type=_OrNone(Durations()),
        help="How long a failed entry waits: after the first time, the second, … as 1s,10s,1m.",
    ),
    click.option(
        "--max-pending",
        type=_COUNT,
        metavar="N",
        help="Deliver no more while so many entries are pending.",
    ),
    click.option(
        "--on-disconnect",
        type=click.Choice(["release", "keep"]),
        help="What becomes of the entries of a consumer whose connection ends.",
    ),
    click.option(
        "--consumer-ttl",
        "consumer_ttl_ms",
        type=_DURATION,
        help="Remove consumers that are idle for so long and have no entries, as 1d.",
    ),
]


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags of a stream's configuration."""
    return _with(command, _OF_STREAMS)


def policy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags of a group's policy."""
    return _with(command, _OF_GROUPS)


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


def _with(command: Callable[..., Any], flags: list[Callable[..., Any]]) -> Callable[..., Any]:
    for flag in reversed(flags):
        command = flag(command)
    return command
