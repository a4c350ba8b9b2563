"""Doctor: what is wrong with this installation, and the commands that fix it.

Imports nothing that may be missing: missing packages are what it reports.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any, NamedTuple

import click

from headgate.pipeline.java import INSTALL_JAVA, JavaMissing, find_java
from headgate.pipeline.terminal.flags import (
    ca_option,
    insecure_option,
    token_file_option,
    url_option,
)

_TIMEOUT_S = 5.0
_INSTALL = "pip install -e '.[spark]'"
_VERSIONS = {
    "pyspark": ((4, 3), (5,)),
    "pandas": ((2, 2), (3,)),
    "pyarrow": ((18,), None),
    "deltalake": ((1,), None),
    "duckdb": ((1, 4), None),
}


class Finding(NamedTuple):
    """One thing that was checked: what it is, its state, and the command that fixes it, if any."""

    what: str
    is_well: bool
    found: str
    mend: str = ""


@click.command(
    help="""Look at Java, Python, libraries, the gateway and the lake.

    Says what is wrong and the command that mends it; ends with 1 if anything is.

    \b
    Before the first job:   headgate-pipeline doctor
    With a lake:            headgate-pipeline doctor --url http://gateway:8080 --lake lake
    """
)
@url_option
@token_file_option
@ca_option
@insecure_option
@click.option("--lake", help="Path of the lake, a Delta table.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def main(*, lake: str | None, as_json: bool, **way: Any) -> None:
    """Report the faults."""
    looks: list[Callable[[], Finding]] = [
        java,
        python,
        workers,
        *(lambda name=name: version(name) for name in _VERSIONS),
        lambda: gateway(**way),
    ]
    if lake is not None:
        looks.append(lambda: the_lake(lake))
    findings = [look() for look in looks]
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in findings]))
    else:
        for finding in findings:
            verdict = "ok   " if finding.is_well else "WRONG"
            click.echo(f"{verdict}  {finding.what}: {finding.found}")
            if finding.mend:
                click.echo(f"       try: {finding.mend}")
    wrong = [finding.what for finding in findings if not finding.is_well]
    if wrong:
        raise click.ClickException(f"something is wrong with {', '.join(wrong)}")


def java() -> Finding:
    try:
        home = find_java()
    except JavaMissing as error:
        return Finding("Java", False, str(error).partition(" Try:")[0], INSTALL_JAVA)
    return Finding("Java", True, f"{home.major} of {home.origin}, in {home.home}")


def python() -> Finding:
    is_well = sys.version_info >= (3, 11)
    text = f"{sys.version.split()[0]}, {sys.executable}"
    return Finding("Python", is_well, text, "" if is_well else "python3.11 -m venv .venv")


def workers() -> Finding:
    """Check the Python that Spark's tasks would run in."""
    given = os.environ.get("PYSPARK_PYTHON")
    if given is None:
        return Finding("Python of tasks", True, "the same")
    unset = "unset PYSPARK_PYTHON"
    program = shutil.which(given)
    if program is None:
        return Finding("Python of tasks", False, f"PYSPARK_PYTHON={given} is not there", unset)
    ask = "import sys; print(*sys.version_info[:2], sep='.')"
    try:
        done = subprocess.run(  # noqa: S603 - a program that was found
            [program, "-c", ask], capture_output=True, text=True, timeout=30, check=False
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("Python of tasks", False, str(error), unset)
    here = ".".join(map(str, sys.version_info[:2]))
    is_well = done == here
    text = f"{done or 'none'} by PYSPARK_PYTHON={given}, and {here} here"
    return Finding("Python of tasks", is_well, text, "" if is_well else unset)


def version(name: str) -> Finding:
    lowest, below = _VERSIONS[name]
    wanted = f">={_dotted(lowest)}" + (f",<{_dotted(below)}" if below else "")
    mend = f"pip install '{name}{wanted}'"
    try:
        installed = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, False, "it is missing", _INSTALL)
    number = tuple(int(part) for part in re.findall(r"[0-9]+", installed)[:3])
    is_well = number >= lowest and (below is None or number < below)
    if is_well:
        return Finding(name, True, installed)
    return Finding(name, False, f"{installed}, not {wanted}", mend)


def gateway(
    url: str, token_file: str | None = None, ca: str | None = None, insecure: bool = False
) -> Finding:
    """Check whether the gateway is ready, and whether it serves this user."""
    from headgate.client import CredentialError, HeadgateError, TokenFile  # noqa: PLC0415
    from headgate.client.problems import Problem, Unauthenticated, UnexpectedAnswer  # noqa: PLC0415
    from headgate.pipeline.connection import Connection  # noqa: PLC0415

    serve = "headgate serve"
    try:
        token = None if token_file is None else TokenFile(token_file)
        way = Connection(url, token, ca=ca, insecure=insecure, retry_s=0, answer_s=_TIMEOUT_S)
        with way as client:
            client.ready()
            next(client.streams(limit=1), None)
    except CredentialError as error:
        return Finding("gateway", False, str(error), "")
    except Unauthenticated as error:
        hint = " ".join(error.__notes__)
        text = f"{url} asks for a key or a token. {hint}"
        return Finding("gateway", False, text, "export HEADGATE_TOKEN=$(cat FILE)")
    except UnexpectedAnswer as error:
        return Finding("gateway", False, f"{url} is no gateway: it answers {error.status}", serve)
    except Problem as error:
        return Finding("gateway", False, f"{url} is not ready: {error}", serve)
    except HeadgateError as error:
        return Finding("gateway", False, f"{url} does not answer: {error}", serve)
    return Finding("gateway", True, f"{url} is ready")


def the_lake(path: str) -> Finding:
    try:
        from headgate.pipeline.lake import Lake, NotALake  # noqa: PLC0415
        from headgate.pipeline.location import LocationError, is_bucket  # noqa: PLC0415
        from headgate.pipeline.terminal.report import message_of  # noqa: PLC0415
    except ImportError as error:
        return Finding("lake", False, f"cannot be looked at without {error.name}", _INSTALL)
    begin = f"headgate-pipeline archive --streams … --lake {path}"
    try:
        lake = Lake(path)
    except NotALake as error:
        return Finding("lake", False, str(error), begin)
    except LocationError as error:
        return Finding("lake", False, str(error))
    except Exception as error:  # noqa: BLE001  of a bucket, in the words of its library
        return Finding("lake", False, f"{path} cannot be read: {message_of(error)}")
    if not is_bucket(lake.path) and not os.access(lake.path, os.W_OK):
        return Finding("lake", False, f"{path} cannot be written", f"chmod u+w {path}")
    files = lake.files()
    entries = sum(file.row_count for file in files)
    return Finding("lake", True, f"{entries:,} entries in {len(files):,} files, {lake.path}")


def _dotted(number: tuple[int, ...]) -> str:
    return ".".join(map(str, number))
