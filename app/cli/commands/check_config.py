"""`headgate check-config`."""

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, get_origin

import annotated_types
import click
from pydantic.fields import FieldInfo

from headgate.app.cli.commands import serve
from headgate.app.cli.configuration import config_option, settings_from
from headgate.app.cli.flags import json_option
from headgate.app.cli.manual import epilog
from headgate.app.settings import Settings

_PAGE = """\
# Settings

Made by `headgate check-config --markdown`. A flag wins over a variable, a variable over a TOML
file, the file over the default. `--config` or `HEADGATE_CONFIG` names the file. The file names a
setting as its variable does, in small letters and without `HEADGATE_`: `port = 9000`. A list is a
list there: `allowed_hosts = ["gw.example"]`.

A value that makes no sense stops the start, and so does an unknown name in the file. A variable
that begins with `HEADGATE_` and is no setting is named in a warning. Kubernetes adds such variables
for a service named `headgate`, and sets `HEADGATE_PORT` to a URL: `enableServiceLinks: false` in
the pod leaves them out.

| variable | flag | default | allowed | meaning |
|---|---|---|---|---|
"""


@click.command(
    "check-config",
    epilog=epilog("headgate check-config --config headgate.toml", failed="a setting is wrong"),
)
@config_option
@click.option("--markdown", is_flag=True, help="Print a table of all there are instead.")
@json_option
def command(config: Path | None, markdown: bool, as_json: bool) -> None:
    """Show the settings that `serve` would use, or say what is wrong with them."""
    if markdown:
        click.echo(_PAGE + "\n".join(_rows()))
        return
    settings = settings_from(config, {}).model_dump(mode="json")
    if as_json:
        click.echo(json.dumps(settings, ensure_ascii=False))
        return
    lines = {
        f"{name} = {json.dumps(value)}": Settings.model_fields[name].description
        for name, value in settings.items()
    }
    for line, description in lines.items():
        click.echo(f"{line:<{max(map(len, lines))}}  # {description}")


def _rows() -> Iterator[str]:
    flags = {parameter.name: parameter.opts[0] for parameter in serve.command.params}
    defaults = Settings.model_construct().model_dump(mode="json")
    for name, field in Settings.model_fields.items():
        default = defaults[name]
        cells = [
            f"`HEADGATE_{name.upper()}`",
            f"`{flags[name]}`" if name in flags else "",
            "" if default in (None, []) else f"`{default}`",
            _allowed(field),
            str(field.description),
        ]
        yield f"| {' | '.join(cells)} |"


def _allowed(field: FieldInfo) -> str:
    kind: Any = field.annotation
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return ", ".join(f"`{member.value}`" for member in kind)
    if get_origin(kind) is list:
        return "a list, separated by commas; the flag may be repeated"
    minimum = next(
        (bound.ge for bound in field.metadata if isinstance(bound, annotated_types.Ge)), None
    )
    maximum = next(
        (bound.le for bound in field.metadata if isinstance(bound, annotated_types.Le)), None
    )
    if minimum is None:
        return ""
    return f"{minimum} and more" if maximum is None else f"{minimum} to {maximum}"
