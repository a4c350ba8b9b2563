"""Key input: what an operator writes of a key on the command line, or a line that says why not."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import click
from pydantic import BaseModel, ValidationError

from headgate.app.auth.grants import Grant, UsageLimits
from headgate.app.auth.keys.key import ApiKey

GRANT_EXAMPLE = """'{"streams": ["news*"], "do": ["read"]}'"""

M = TypeVar("M", bound=BaseModel)


def grant_of(text: str) -> Grant:
    """Return the grant of a `--grant`.

    Raises:
        click.ClickException: it is none.
    """
    try:
        return Grant.model_validate_json(text, strict=True)
    except ValidationError as error:
        _refuse("--grant", error, f". It was {text!r}, and should be such as {GRANT_EXAMPLE}")


def limits_of(texts: Sequence[str]) -> UsageLimits:
    """Return the limits of some `--limit`.

    Raises:
        click.ClickException: one has no number, or there is no such limit.
    """
    numbers: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in UsageLimits.model_fields:
            close = difflib.get_close_matches(name, UsageLimits.model_fields, n=1, cutoff=0)
            raise click.ClickException(f"--limit {text!r}: {name!r} is no limit; {close[0]} is one")
        if not number.isdecimal() or len(number) > 20:
            raise click.ClickException(f"--limit {text!r}: should be such as {name}=100")
        numbers[name] = int(number)
    return _valid(UsageLimits, "--limit", numbers)


def key_of(values: Mapping[str, Any]) -> ApiKey:
    """Return a key of its parts.

    Raises:
        click.ClickException: the name cannot be one, or a grant has a claim that a key has not.
    """
    return _valid(ApiKey, "The key", values)


def _valid(model: type[M], what: str, values: Mapping[str, Any]) -> M:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        _refuse(what, error)


def _refuse(what: str, error: ValidationError, hint: str = "") -> NoReturn:
    fault = error.errors()[0]
    place = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"]
    ).removeprefix(".")
    text = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    raise click.ClickException(f"{what}: {place}{': ' if place else ''}{text}{hint}") from None
