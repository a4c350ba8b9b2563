"""Reads the settings, or reports what is wrong with them."""

import difflib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

import click
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from headgate.app.cli.declaration import option
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

CONFIG = option(
    "TOML file with settings. Environment variables and flags override it.",
    click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar=_FILE_VARIABLE,
)

_FLAGS = {"allowed_hosts": "--allow-host", "allowed_origins": "--allow-origin"}
_METAVARS = {
    **dict.fromkeys(("backend", "bucket", "address"), "URL"),
    **dict.fromkeys(("trusted_proxies", "push_allow", "push_deny"), "NETWORK"),
    "allowed_hosts": "NAME",
    "allowed_origins": "ORIGIN",
    "redis_username": "NAME",
    "redis_prefix": "TEXT",
    "push_key_file": "FILE",
    "root_path": "PATH",
    "workers": "N|auto",
}


def setting_flags(*names: str) -> list[click.Parameter]:
    """Return the flags of settings: the help is the text of the setting, with its default."""
    return [_setting_flag(name, Settings.model_fields[name]) for name in names]


def _setting_flag(name: str, field: FieldInfo) -> click.Parameter:
    text = (field.description or "").replace("`", "")
    kind: Any = field.annotation
    if NoneType in get_args(kind):
        [kind] = set(get_args(kind)) - {NoneType}
    attributes: dict[str, Any] = {"metavar": _METAVARS.get(name)}
    if get_origin(kind) is list:
        text += " May be repeated."
        attributes["multiple"] = True
    elif kind is bool:
        attributes |= {"is_flag": True, "default": None}  # not given, so that a variable counts
    elif field.default not in (None, ""):
        text += f"  [default: {field.default}]"
    if kind is Path and name not in _METAVARS:
        is_dir = name.endswith("_dir")
        attributes["type"] = click.Path(file_okay=not is_dir, dir_okay=is_dir, path_type=Path)
    elif isinstance(kind, type) and issubclass(kind, StrEnum):
        attributes["type"] = click.Choice([each.value for each in kind])
    elif kind is int and name not in _METAVARS:
        attributes["type"] = int
    flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
    return click.Option([flag, name], help=text, **attributes)


_SECRETS = frozenset(
    name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)
)
"""Settings whose values are never shown, even if they are wrong."""


def _warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)


def settings_from(
    config: Path | None, flags: Mapping[str, Any], warn: Callable[[str], None] = _warn
) -> Settings:
    """Return the settings, and warn of unknown variables; None and () are flags not given."""
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
        warn(f"{variable} is not a setting of the gateway{hint}")
    return settings


def unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables that have the prefix of settings but are not settings.

    They are no error: Kubernetes adds `HEADGATE_SERVICE_HOST` for a service named `headgate`, and
    an older version does not know the settings of a newer one.
    """
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | _NOT_OF_THE_GATEWAY
    for variable in sorted(environment):
        if variable.upper().startswith(PREFIX) and variable.upper() not in known:
            yield variable


def _line_of(error: ErrorDetails, config: Path | None, flags: Mapping[str, Any]) -> str:
    text = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if not error["loc"]:  # two settings that do not fit
        return text
    name = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return f"{config}: {name} is not a setting{_hint(name)}"
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
