"""Configuration: reads the settings, or says what is wrong with them."""

import difflib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from click.decorators import FC
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headgate.app.settings import PREFIX, Settings, read_settings

_FILE_VARIABLE = f"{PREFIX}CONFIG"

_OF_CLIENTS = ("URL", "TOKEN", "TOKEN_FILE", "INSECURE")
_OF_COPIES = tuple(
    f"{name}_{end}" for name in ("MOVE", "IMPORT", "EXPORT") for end in ("FROM", "TO")
)
_NOT_OF_THE_GATEWAY = frozenset(
    {_FILE_VARIABLE, *(f"{PREFIX}{name}" for name in (*_OF_CLIENTS, *_OF_COPIES))}
)
"""Variables that are no settings: the name of the settings file, and variables of clients."""

config_option = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar=_FILE_VARIABLE,
    help="A TOML file with settings; variables and flags win over it.",
)


def setting_option(name: str, flag: str | None = None, **attributes: Any) -> Callable[[FC], FC]:
    """Return the flag of a setting: its help is the text of the setting, with its default.

    Args:
        name: of the setting.
        flag: how it is written, unless as the name is.
        attributes: what else click is to know of it.
    """
    field = Settings.model_fields[name]
    help_text = (field.description or "").replace("`", "")
    if attributes.get("multiple"):
        help_text += " May be repeated."
    elif attributes.get("is_flag"):
        attributes["default"] = None  # not given, so that a variable counts
    elif field.default not in (None, ""):
        help_text += f"  [default: {field.default}]"
    flag = flag or f"--{name.replace('_', '-')}"
    return click.option(flag, name, help=help_text, **attributes)


_SECRETS = frozenset(
    name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)
)
"""Settings whose values are never shown, even if they are wrong."""


def _warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)


def settings_from(
    config: Path | None, flags: Mapping[str, Any], warn: Callable[[str], None] = _warn
) -> Settings:
    """Return the settings, and warn of variables that are no settings.

    Args:
        config: a TOML file, or None.
        flags: the flags of the command line, by name of setting; None and () are not given.
        warn: takes each warning; it is printed on standard error unless given.

    Raises:
        click.ClickException: a value is wrong, a name in the file unknown, or the file no TOML.
    """
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    try:
        settings = read_settings(config, given)
    except ValidationError as error:
        lines = (_line_of(each, config, given) for each in error.errors())
        raise click.ClickException("\n       ".join(lines)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
        raise click.ClickException(f"{config}: {error}") from None
    for variable in unknown_variables(os.environ):
        hint = _hint(variable.upper().removeprefix(PREFIX).lower(), as_variable=True)
        warn(f"{variable} is no setting of the gateway{hint}")
    return settings


def unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables that begin with the prefix of settings and are no settings.

    This is no error, because others write into the environment, too: Kubernetes adds
    `HEADGATE_SERVICE_HOST` for a service named `headgate`. And an older version does not know the
    settings of a newer one.
    """
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | _NOT_OF_THE_GATEWAY
    for variable in sorted(environment):
        if variable.upper().startswith(PREFIX) and variable.upper() not in known:
            yield variable


def _line_of(error: ErrorDetails, config: Path | None, flags: Mapping[str, Any]) -> str:
    """Return the fault of a setting, and the flag, the variable or the file that sets it."""
    text = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if not error["loc"]:  # two settings that do not fit
        return text
    name = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return f"{config}: {name} is no setting{_hint(name)}"
    is_shown = error["input"] is not None and name not in _SECRETS
    given = f" = {error['input']!r}" if is_shown else ""
    return f"{_place(name, config, flags)}{given}: {text}"


def _place(name: str, config: Path | None, flags: Mapping[str, Any]) -> str:
    if name in flags:
        options = click.get_current_context().command.params
        return next(option.opts[0] for option in options if option.name == name)
    variable = f"{PREFIX}{name.upper()}"
    given_as = next((each for each in os.environ if each.upper() == variable), None)
    return given_as or f"{config}: {name}"


def _hint(name: str, *, as_variable: bool = False) -> str:
    close = difflib.get_close_matches(name, Settings.model_fields, n=1, cutoff=0.75)
    if not close:
        return ""
    meant = f"{PREFIX}{close[0].upper()}" if as_variable else close[0]
    return f"; did you mean {meant}?"
