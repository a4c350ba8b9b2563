"""Configuration: what an operator chose, or what is wrong with it."""

from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from headgate.app.settings import Settings, read_settings

config_option = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="HEADGATE_CONFIG",
    help="A TOML file with settings; variables and flags win over it.",
)


def settings_from(config: Path | None, flags: dict[str, Any]) -> Settings:
    """Return the settings.

    Args:
        config: a TOML file, or None.
        flags: what was said on the command line, by setting name; None and () is nothing.

    Raises:
        click.ClickException: a value is wrong, or a name unknown.
    """
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    try:
        return read_settings(config, given)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise click.ClickException("\n       ".join(lines)) from None
