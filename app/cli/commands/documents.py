import json
import sys

import click

from headgate.app.cli.declaration import command
from headgate.app.live import asyncapi
from headgate.app.main import create_app
from headgate.app.settings import MEMORY, Settings


@command("openapi", "headgate openapi > openapi.json", failed="")
def openapi_command() -> None:
    """Print the OpenAPI document."""
    document = create_app(Settings(data_dir=MEMORY)).openapi()
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
    click.echo()


@command("asyncapi", "headgate asyncapi > asyncapi.json", failed="")
def asyncapi_command() -> None:
    """Print the AsyncAPI document of the WebSocket."""
    json.dump(asyncapi.document(), sys.stdout, indent=2, ensure_ascii=False)
    click.echo()
