"""Options of `.option(…)`: one table, read once, on the driver.

Option names are case-insensitive, as everywhere in Spark; here they are spelled as documented.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

from headgate.client.address import URL, URL_VARIABLE, urls_of
from headgate.client.bulk import Compression
from headgate.client.credential import (
    FILE_VARIABLE,
    INSECURE_VARIABLE,
    TOKEN_VARIABLE,
    CredentialError,
    TokenFile,
)
from headgate.pipeline.connection import RETRY_S, Connection
from headgate.pipeline.offsets import (
    EARLIEST,
    LATEST,
    before_ms,
    parse_bounds,
    parse_id,
    parse_time,
)

ENTRIES_PER_TASK_MAX = 100_000

_BOTH = {
    "url": f"where the gateway is; by default that of {URL_VARIABLE}, or {URL}",
    "token": f"key or token; by default that of the variable {TOKEN_VARIABLE}",
    "tokenFile": f"file of the key or token, on each machine; by default that of {FILE_VARIABLE}",
    "ca": "file of certificates to trust, as those of a private CA, on each machine",
    "insecure": "true: send the token over plain http to another machine, too; by default what "
    f"{INSECURE_VARIABLE} says",
    "retryTimeoutMs": "how long a gateway that cannot be reached is tried again; 60000",
}
READING = _BOTH | {
    "stream": "name of one stream",
    "subscribe": "names of streams, separated by commas",
    "subscribePattern": "regular expression; streams whose whole name matches, new ones too",
    "assign": 'names of streams as JSON, such as ["a,b", "c"]',
    "startingOffsets": "earliest, latest or JSON per stream of the id to read behind; a query "
    "begins at latest, a batch at earliest",
    "endingOffsets": "(batch) latest, or JSON per stream of the last id to read; latest",
    "startingTimestamp": "entries of this time or later; milliseconds or ISO 8601",
    "endingTimestamp": "(batch) entries before this time; milliseconds or ISO 8601",
    "maxOffsetsPerTrigger": "(query) entries of a micro-batch at most; no bound",
    "minPartitions": "tasks to cut the work into at least; 1",
    "maxRecordsPerPartition": f"entries a task reads at most; {ENTRIES_PER_TASK_MAX}",
    "failOnDataLoss": "true: fail when entries that were to be read are gone; false: go on",
    "coldTier": "path of a lake; entries the stream no longer has are read from there",
    "valueFormat": "string, or binary: values as bytes",
    "fieldsFormat": "map, or array: of name and value, in order and with repeats",
    "compression": "none or zstd on the way here; zstd from another machine, none from this one",
    "pushFilters": "(batch) true: ask only for what filters let through, of a DataFrame that is "
    "filtered once; false",
    "view": "(batch) entries, or table: the latest entry of each key",
    "asOf": "(of a table) the id that the rows are as of; by default the last one there is",
    "keyField": "(of a table) the field whose value is the key; by default that of the stream",
    "tombstoneField": "(of a table) an entry with this field removes the row; by default that of "
    "the stream",
}
WRITING = _BOTH | {
    "stream": "where to; by default the column `stream` says it, row by row",
    "deliveryGuarantee": "exactly-once, or at-least-once: without a staging area",
    "nestedFormat": "fail, or json: arrays, structs and maps are written as JSON",
    "emptyRows": "fail, or skip: rows whose values are all null are left out",
    "jobId": "(batch) name of this write: the same once more changes nothing",
    "jobBatch": "(batch) number of this write under its jobId, growing; 0",
}


class OptionError(ValueError):
    pass


class Form(NamedTuple):
    """What rows of whole entries are like."""

    is_binary: bool
    is_array: bool
    is_table: bool


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What table is read; None is what the stream says."""

    as_of: str | None
    key_field: str | None
    tombstone_field: str | None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a read; `READING` explains each one."""

    connection: Connection
    subscribe: tuple[str, ...] | None
    pattern: str | None
    start: str | Mapping[str, str] | None
    end: str | Mapping[str, str]
    start_after: str | None
    end_at: str | None
    trigger_entries_max: int | None
    partitions_min: int
    partition_entries_max: int
    fail_on_data_loss: bool
    cold_tier: str | None
    compression: Compression | None
    pushes_filters: bool
    table: TableOptions | None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write; `WRITING` explains each one."""

    connection: Connection
    stream: str | None
    is_exactly_once: bool
    nested_as_json: bool
    skip_empty: bool
    job_id: str | None
    job_batch: int


def read_options(options: Mapping[str, str], *, is_query: bool) -> ReadOptions:
    """Check and parse the options of a read, whose names Spark gives in lower case."""
    given = _Given(options, READING, "reading")
    if is_query:
        for name in ("endingOffsets", "endingTimestamp"):
            if given.text(name) is not None:
                raise OptionError(f"{name} is for batch reads: a query has no end")
    elif given.text("maxOffsetsPerTrigger") is not None:
        raise OptionError("maxOffsetsPerTrigger is for queries; a batch read takes endingOffsets")
    subscribe, pattern = _subscription(given)
    starting, start_time = given.either("startingOffsets", "startingTimestamp")
    ending, end_time = given.either("endingOffsets", "endingTimestamp")
    if not is_query and starting is not None and starting.strip().lower() == LATEST:
        raise OptionError("startingOffsets: a batch that begins at latest has nothing to read")
    if ending is not None and ending.strip().lower() == EARLIEST:
        raise OptionError("endingOffsets: a batch that ends at earliest has nothing to read")
    return ReadOptions(
        connection=given.connection(),
        subscribe=subscribe,
        pattern=pattern,
        start=None if starting is None else parse_bounds(starting, "startingOffsets"),
        end=parse_bounds(ending or LATEST, "endingOffsets"),
        start_after=_time(start_time, "startingTimestamp"),
        end_at=_time(end_time, "endingTimestamp"),
        trigger_entries_max=given.number("maxOffsetsPerTrigger", minimum=1),
        partitions_min=given.number("minPartitions", minimum=1) or 1,
        partition_entries_max=given.number("maxRecordsPerPartition", minimum=1)
        or ENTRIES_PER_TASK_MAX,
        fail_on_data_loss=given.choice("failOnDataLoss", "true", "false") == "true",
        cold_tier=given.text("coldTier"),
        compression=cast("Compression | None", given.choice("compression", None, "none", "zstd")),
        pushes_filters=given.choice("pushFilters", "false", "true") == "true",
        table=_table(given, is_query=is_query) if form_of(options).is_table else None,
    )


def form_of(options: Mapping[str, str]) -> Form:
    """Tell what rows of whole entries are like.

    Spark SQL passes the options for reading and writing together, so both are accepted.
    """
    given = _Given(options, READING | WRITING, "a table of")
    is_table = given.choice("view", "entries", "table") == "table"
    for name in () if is_table else _OF_TABLES:
        if given.text(name) is not None:
            raise OptionError(f"{name} is for tables: give view=table as well")
    return Form(
        is_binary=given.choice("valueFormat", "string", "binary") == "binary",
        is_array=given.choice("fieldsFormat", "map", "array") == "array",
        is_table=is_table,
    )


def _table(given: _Given, *, is_query: bool) -> TableOptions:
    if is_query:
        raise OptionError("view=table is for batch reads: in a query a row would change")
    for name in _NOT_OF_TABLES:
        if given.text(name) is not None:
            raise OptionError(
                f"{name} is not for tables: they come from all entries of a stream, up to asOf"
            )
    as_of = given.text("asOf")
    return TableOptions(
        as_of=None if as_of is None else str(parse_id(as_of.strip())),
        key_field=given.text("keyField"),
        tombstone_field=given.text("tombstoneField"),
    )


_OF_TABLES = ("asOf", "keyField", "tombstoneField")
_NOT_OF_TABLES = (
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "minPartitions",
    "pushFilters",
)


def write_options(options: Mapping[str, str], *, is_query: bool) -> WriteOptions:
    """Check and parse the options of a write, whose names Spark gives in lower case."""
    # Spark hands a query's own options to its sink as well.
    ours = {name: text for name, text in options.items() if name not in _OF_SPARK}
    if not is_query:
        ours = _of_view(ours)
    given = _Given(ours, WRITING, "writing")
    job_id = given.text("jobId")
    job_batch = given.number("jobBatch", minimum=0)
    if is_query and (job_id is not None or job_batch is not None):
        raise OptionError("jobId and jobBatch are for batch writes: a query has an id of its own")
    if job_batch is not None and job_id is None:
        raise OptionError("jobBatch numbers the writes of a job: give its jobId as well")
    return WriteOptions(
        connection=given.connection(),
        stream=given.text("stream"),
        is_exactly_once=given.choice("deliveryGuarantee", "exactly-once", "at-least-once")
        == "exactly-once",
        nested_as_json=given.choice("nestedFormat", "fail", "json") == "json",
        skip_empty=given.choice("emptyRows", "fail", "skip") == "skip",
        job_id=job_id,
        job_batch=job_batch or 0,
    )


_OF_SPARK = frozenset({"checkpointlocation", "path", "queryname", "trigger", "outputmode"})


_OF_TABLE = "option."
"""Spark gives the options of a table twice, among its other properties."""

TABLE_HINT = (
    "Spark gives the options of a table to none of its reads and writes: write"
    " SELECT … FROM t WITH (url='…', subscribe='…') and INSERT INTO t WITH (url='…', stream='…') …,"
    " or CREATE TEMPORARY VIEW v USING headgate OPTIONS (…)"
)


def _of_view(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options for a write to a table made for reading: a view of one stream."""
    known = {name.lower() for name in WRITING}
    names = {name.lower(): text for name, text in options.items()}
    others = {name for name in READING if name.lower() in names and name.lower() not in known}
    if not {"subscribe", "assign", "view"} & others:
        return dict(options)
    ours = {name: text for name, text in names.items() if name in known}
    if "stream" not in ours:
        streams, _ = _subscription(_Given(names, READING | WRITING, "a view of"))
        if streams is not None and len(streams) == 1:
            ours["stream"] = streams[0]
    return ours


class _Given:
    def __init__(self, options: Mapping[str, str], table: Mapping[str, str], doing: str) -> None:
        if options.get("provider", "").lower() == "headgate":
            marked = {name: text for name, text in options.items() if name.startswith(_OF_TABLE)}
            options = {name.removeprefix(_OF_TABLE): text for name, text in marked.items()}
        self._options = {name.lower(): text for name, text in options.items()}
        known = {name.lower(): name for name in table}
        for name in self._options:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = (
                    f"did you mean {known[close[0]]}?"
                    if close
                    else f"there are {', '.join(sorted(table))}"
                )
                raise OptionError(f"{name} is no option of {doing} headgate: {hint}")

    @property
    def is_empty(self) -> bool:
        return not self._options

    def text(self, name: str) -> str | None:
        return self._options.get(name.lower())

    def either(self, first: str, second: str) -> tuple[str | None, str | None]:
        texts = self.text(first), self.text(second)
        if None not in texts:
            raise OptionError(f"{first} and {second}: give one of them")
        return texts

    def number(self, name: str, *, minimum: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not re.fullmatch(r"[0-9]{1,18}", text.strip(), re.ASCII) or int(text) < minimum:
            raise OptionError(f"{name}: {text!r} is not a whole number from {minimum}")
        return int(text)

    def choice(self, name: str, usual: str | None, *others: str) -> str | None:
        text = self.text(name)
        if text is None:
            return usual
        choices = [choice for choice in (usual, *others) if choice is not None]
        if text.strip().lower() not in choices:
            raise OptionError(f"{name}: {text!r} is not {' or '.join(choices)}")
        return text.strip().lower()

    def connection(self) -> Connection:
        try:
            url = ",".join(urls_of(self.text("url")))
        except ValueError as error:
            raise OptionError(f"url: {error}") from None
        token, file = self.either("token", "tokenFile")
        if token == "":
            raise CredentialError("the option token has no token")
        insecure = self.choice("insecure", None, "true", "false")
        retry_ms = self.number("retryTimeoutMs", minimum=0)
        return Connection(
            url,
            token if file is None else TokenFile(file),
            ca=self.text("ca"),
            insecure=None if insecure is None else insecure == "true",
            retry_s=RETRY_S if retry_ms is None else retry_ms / 1000,
        )


def _subscription(given: _Given) -> tuple[tuple[str, ...] | None, str | None]:
    names = ("stream", "subscribe", "subscribePattern", "assign")
    chosen = [name for name in names if given.text(name) is not None]
    if len(chosen) != 1:
        given_names = " and ".join(chosen) if chosen else "none"
        hint = f". {TABLE_HINT}" if given.is_empty else ""
        raise OptionError(
            f"which streams? Give one of {', '.join(names)}; {given_names} is there{hint}"
        )
    text = given.text(chosen[0]) or ""
    if chosen == ["subscribePattern"]:
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(f"subscribePattern: {text!r} is no pattern: {error}") from None
        return None, text
    if chosen == ["stream"]:
        streams = [text]
    elif chosen == ["assign"]:
        streams = _names(text)
    else:
        streams = [name.strip() for name in text.split(",")]
    if not streams or not all(streams):
        raise OptionError(f"{chosen[0]}: {text!r} names no stream, or has an empty name")
    return tuple(dict.fromkeys(streams)), None


def _names(text: str) -> list[str]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise OptionError(f'assign: {text!r} is not JSON such as ["a,b", "c"]')
    return names


def _time(text: str | None, option: str) -> str | None:
    return None if text is None else before_ms(parse_time(text, option))
