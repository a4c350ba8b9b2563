"""Data directory: the flag for where the journal of a gateway is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def data_dir_option(text: str, *, exists: bool) -> Callable[..., Callable[..., None]]:
    """Return the flag.

    Args:
        text: its help.
        exists: it has to be there.
    """
    kind: click.Path[Any] = click.Path(file_okay=False, exists=exists, path_type=Path)
    return click.option(
        "--data-dir",
        type=kind,
        default=Path("data"),
        envvar="HEADGATE_DATA_DIR",
        show_envvar=True,
        show_default=True,
        help=text,
    )
