"""The flags that jobs share."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.client import Cursor, Plan, TokenFile
from headgate.client.address import URL, URL_VARIABLE, urls_of
from headgate.client.blocking import Client
from headgate.client.credential import TOKEN_VARIABLE
from headgate.client.problems import StreamNotFound
from headgate.pipeline.connection import ANSWER_S, STREAMS_MAX, Connection
from headgate.pipeline.offsets import BEGINNING, literal_prefix
from headgate.pipeline.terminal.report import without_noise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_FORM = re.compile(rf"([0-9]+(?:\.[0-9]+)?)({'|'.join(_UNITS_MS)})")


class Duration(click.ParamType[int]):
    """A flag whose value is a duration of at least `ms_min`; becomes integer milliseconds."""

    name = "duration"

    def __init__(self, *, ms_min: int = 1) -> None:
        self._ms_min = ms_min

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            ms = milliseconds(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if ms < self._ms_min:
            self.fail(f"{value} is too short: {text_of(self._ms_min)} at least", param, ctx)
        return ms


def milliseconds(text: str) -> int:
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time such as 500ms, 90s, 15m, 6h or 7d")
    return round(float(match[1]) * _UNITS_MS[match[2]])


def text_of(ms: int) -> str:
    unit = next(unit for unit, length in reversed(_UNITS_MS.items()) if ms % length == 0)
    return f"{ms // _UNITS_MS[unit]}{unit}"


def _read(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    try:
        return ",".join(urls_of(value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


url_option = click.option(
    "--url",
    default=URL,
    envvar=URL_VARIABLE,
    show_default=True,
    show_envvar=True,
    callback=_read,
    help="URL of the gateway; with commas between those of several on one bucket.",
)
token_file_option = click.option(
    "--token-file",
    envvar="HEADGATE_TOKEN_FILE",
    show_envvar=True,
    help="Send the key or token of this file; without it that of HEADGATE_TOKEN. There is no flag "
    "for the token itself, as every user of the machine can read flags.",
)
ca_option = click.option(
    "--ca",
    help="Trust the certificates of this file, as those of a private CA; without it those of "
    "SSL_CERT_FILE.",
)
insecure_option = click.option(
    "--insecure",
    is_flag=True,
    envvar="HEADGATE_INSECURE",
    show_envvar=True,
    help="Send the token over plain http to another machine, too.",
)


# Arrow is quicker at twice as many, too, but small entries take a gigabyte of memory then.
IN_MEMORY_ENTRIES_MAX = 1_000_000

_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_LOGGING = (Path(__file__).parent / "log4j2.properties").as_uri()
_RETRY_S = 5.0  # a person waits
_OUTAGE_MS = 60_000
_OUTAGE_OF_SERVICE_MS = 900_000


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of the command line; `options` explains each one."""

    url: str = URL
    token_file: str | None = None
    ca: str | None = None
    insecure: bool = False
    master: str | None = None
    on_spark: bool = False
    verbose: bool = False
    as_json: bool = False
    streams: str | None = None
    pattern: str | None = None
    lake: str = ""
    view: str | None = None
    checkpoint: str | None = None
    trigger: str = "once"
    max_offsets: int | None = None
    outage: int | None = None
    dry_run: bool = False

    @property
    def outage_ms(self) -> int:
        if self.outage is not None:
            return self.outage
        return _OUTAGE_MS if self.trigger == "once" else _OUTAGE_OF_SERVICE_MS

    def client(self, retry_s: float = _RETRY_S, answer_s: float = ANSWER_S) -> Client:
        """Return a client of the gateway; `retry_s` is how long it waits for one that is away."""
        return Connection(
            self.url,
            None if self.token_file is None else TokenFile(self.token_file),
            ca=self.ca,
            insecure=self.insecure,
            retry_s=retry_s,
            answer_s=answer_s,
        ).client

    def chosen(self, client: Client) -> list[str]:
        """Return the names of the chosen streams, which exist; otherwise raise a click error."""
        if (self.streams is None) == (self.pattern is None):
            raise click.UsageError("which streams? Give either --streams or --pattern")
        if self.pattern is not None:
            pattern = _compiled(self.pattern)
            candidates = client.streams(prefix=literal_prefix(self.pattern), limit=STREAMS_MAX)
            names = [stream["name"] for stream in candidates if pattern.fullmatch(stream["name"])]
            if not names:
                raise click.ClickException(f"no stream matches {self.pattern!r}")
            return names
        names = self.names()
        for name in names:
            try:
                client.stream(name).info()
            except StreamNotFound:
                there = [stream["name"] for stream in client.streams(limit=STREAMS_MAX)]
                close = get_close_matches(name, there, n=1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise click.ClickException(f"there is no stream {name!r}{hint}") from None
        return names

    def names(self) -> list[str]:
        """Return the names of --streams, whether the streams exist or not."""
        names = [name.strip() for name in (self.streams or "").split(",")]
        if not all(names):
            raise click.UsageError("--streams: names, separated by commas")
        return list(dict.fromkeys(names))

    def plans(self, client: Client, streams: list[str]) -> dict[str, Plan]:
        return {plan.stream: plan for plan in client.plan([Cursor(s, BEGINNING) for s in streams])}

    def fits_into_memory(self, job: str, entries: int) -> bool:
        """Tell whether a job runs without Spark, and say so on standard error."""
        if self.on_spark or self.master is not None or self.trigger != "once":
            return False
        fits = entries <= IN_MEMORY_ENTRIES_MAX
        way = "in memory, without Spark" if fits else "on Spark, as there are many"
        click.echo(f"{job}: {entries:,} entries {way}", err=True)
        return fits

    def spark(self, job: str) -> SparkSession:
        """Return the session of the job; --master sc://… is a Connect server."""
        from pyspark.logger import PySparkLogger  # noqa: PLC0415 - Spark takes a second to import

        from headgate.pipeline.session import session  # noqa: PLC0415

        start = partial(
            session,
            app=f"headgate {job}",
            master=None if self._is_remote else self.master,
            remote=self.master if self._is_remote else None,
        )
        if self.verbose:
            return start(conf={"spark.ui.showConsoleProgress": "true"})
        for name in _LOGGERS:
            PySparkLogger.getLogger(name).disabled = True
        with without_noise():
            return start(
                conf={
                    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING}",
                    "spark.log.level": "OFF",  # what goes wrong is told in one line
                }
            )

    def source(self, reader: DataStreamReader) -> DataStreamReader:
        """Return a reader of the chosen streams: whole entries, nothing lost."""
        return reader.format("headgate").options(**self.source_options())

    def source_options(self, stream: str | None = None) -> dict[str, str]:
        options = self.connection() | {"valueFormat": "binary", "fieldsFormat": "array"}
        if stream is None and self.pattern is not None:
            return options | {"subscribePattern": self.pattern}
        return options | {"assign": json.dumps(self.names() if stream is None else [stream])}

    def connection(self) -> dict[str, str]:
        """Return the reader or writer options for the gateway's URL and the token.

        Only a Connect server, which lacks our environment, gets the token as an option; the session
        makes the server redact it.
        """
        options = {
            "url": self.url,
            "insecure": str(self.insecure).lower(),
            "retryTimeoutMs": str(self.outage_ms),
        }
        if self.token_file is not None:
            options["tokenFile"] = str(Path(self.token_file).absolute())
        elif self._is_remote and (token := os.environ.get(TOKEN_VARIABLE)):
            options["token"] = token
        if self.ca is not None:
            options["ca"] = str(Path(self.ca).absolute())
        return options

    @property
    def _is_remote(self) -> bool:
        return (self.master or "").startswith("sc://")

    def triggered(self, writer: DataStreamWriter) -> DataStreamWriter:
        if self.trigger == "once":
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=f"{milliseconds(self.trigger)} milliseconds")


def options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that passes these flags to a command as one `Flags`, first argument."""
    wanted = ["url", "token_file", "ca", "insecure", *names, "as_json"]

    def decorate(main: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(main)
        def command(**given: Any) -> None:
            ours = {name: given.pop(name) for name in (name.rstrip("?") for name in wanted)}
            main(Flags(**ours), **given)

        decorated: Callable[..., None] = command
        for name in reversed(wanted):
            decorated = _OPTIONS[name](decorated)
        return decorated

    return decorate


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise click.BadParameter(f"{pattern!r} is no pattern: {error}") from None


def _trigger(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value != "once":
        Duration().convert(value, parameter, context)
    return value


_OPTIONS: dict[str, Callable[[Callable[..., None]], Callable[..., None]]] = {
    "url": url_option,
    "token_file": token_file_option,
    "ca": ca_option,
    "insecure": insecure_option,
    "streams": click.option("--streams", help="Names of streams, separated by commas."),
    "pattern": click.option("--pattern", help="Regular expression that names match in full."),
    "master": click.option(
        "--master", help="Spark's master: local[2], spark://…, sc://… (Connect).  [local[*]]"
    ),
    "on_spark": click.option(
        "--spark", "on_spark", is_flag=True, help="On Spark, also what would fit into memory."
    ),
    "verbose": click.option("--verbose", is_flag=True, help="Show what Spark itself has to say."),
    "lake": click.option("--lake", required=True, help="Path of the lake, a Delta table."),
    "lake?": click.option("--lake", default="", help="Path of the lake, a Delta table."),
    "view": click.option(
        "--view", help="Path of a view, or of the folder that has it, instead of a stream."
    ),
    "checkpoint": click.option(
        "--checkpoint", help="Folder of the query's checkpoint.  [beside the lake]"
    ),
    "trigger": click.option(
        "--trigger",
        default="once",
        show_default=True,
        callback=_trigger,
        help="once: all there is now, and end; or go on, at this interval: 5s.",
    ),
    "outage": click.option(
        "--outage",
        type=Duration(),
        help="Time that a gateway may be away in the middle.  [1m; with --trigger 15m]",
    ),
    "max_offsets": click.option(
        "--max-offsets", type=click.IntRange(1), help="Entries of a micro-batch at most."
    ),
    "dry_run": click.option("--dry-run", is_flag=True, help="Only say what would be done."),
    "as_json": click.option("--json", "as_json", is_flag=True, help="Answer in JSON."),
}
