"""`format("headgate")`: streams as a batch or as a streaming query, to read and to write."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from headgate.pipeline.options import form_of, read_options, write_options
from headgate.pipeline.reader import BatchReader, FilteringReader, StreamReader, TableReader
from headgate.pipeline.rows.schema import Rows, entry_schema
from headgate.pipeline.sink import BatchWriter, StreamWriter


class HeadgateDataSource(DataSource):
    """Streams of a Headgate gateway.

    ```python
    spark.read.format("headgate").option("subscribe", "orders").load()
    spark.read.format("headgate").option("stream", "stock").option("view", "table").load()
    spark.readStream.format("headgate").option("subscribePattern", "orders-.*").load()
    df.write.format("headgate").mode("append").option("stream", "orders").save()
    df.writeStream.format("headgate").option("stream", "orders").start()
    ```

    Rows are whole entries: `stream string, id string, ms bigint, seq bigint, timestamp timestamp,
    fields map<string,string>`. In a map the last value of a repeated name stays;
    `fieldsFormat=array` keeps all of them in order. Names and values that are no UTF-8 fail in
    this form: `valueFormat=binary` takes values as bytes. `seq` is null beyond 63 bits, and
    `timestamp` beyond the year 294246: the `id` is the truth.

    With a schema, as in `.schema("user string, amount double, _id string, _rescued string")`,
    each column is the field of that name (the last of its name), cast to its type, null where an
    entry has none. `_id`, `_stream` and `_timestamp` are the entry's own. Where a value does not
    fit, the column is null and `_rescued` holds it, as JSON by column; without a column
    `_rescued` the query fails and names the entry. Spark takes the schema as it stands, so name
    all you want.

    Options for reading (those up to `retryTimeoutMs` for writing, too):

    | option | meaning |
    |---|---|
    | url | where the gateway is; by default that of HEADGATE_URL, or http://127.0.0.1:8080 |
    | token | key or token; by default that of the variable HEADGATE_TOKEN |
    | tokenFile | file of the key or token, on each machine; by default HEADGATE_TOKEN_FILE |
    | ca | file of certificates to trust, as those of a private CA, on each machine |
    | insecure | true: send the token over plain http to another machine, too; false |
    | retryTimeoutMs | how long a gateway that cannot be reached is tried again; 60000 |
    | stream | name of one stream |
    | subscribe | names of streams, separated by commas |
    | subscribePattern | regular expression; streams whose whole name matches, new ones too |
    | assign | names of streams as JSON, such as `["a,b", "c"]` |
    | startingOffsets | earliest, latest or JSON per stream of the id to read behind |
    | endingOffsets | (batch) latest, or JSON per stream of the last id to read |
    | startingTimestamp | entries of this time or later; milliseconds or ISO 8601 |
    | endingTimestamp | (batch) entries before this time; milliseconds or ISO 8601 |
    | maxOffsetsPerTrigger | (query) entries of a micro-batch at most; no bound |
    | minPartitions | tasks to cut the work into at least; 1 |
    | maxRecordsPerPartition | entries a task reads at most; 100000 |
    | failOnDataLoss | true: fail when entries that were to be read are gone; false: go on |
    | coldTier | path of a lake; entries the stream no longer has are read from there |
    | valueFormat | string, or binary: values as bytes |
    | fieldsFormat | map, or array: of name and value, in order and with repeats |
    | compression | none or zstd; zstd from another machine, none from this one |
    | pushFilters | (batch) true: ask only for what filters let through; false. See below |
    | view | (batch) entries, or table: the latest entry of each key. See below |
    | asOf | (of a table) the id that rows are as of; by default the last one there is |
    | keyField | (of a table) the field of the key; by default that of the stream |
    | tombstoneField | (of a table) a field that removes the row; by default that of the stream |

    A batch begins at earliest, a query at latest; a checkpoint goes before either. A DataFrame is
    read as of its first use; `load` again to see what came later.

    Of a schema the gateway sends only the fields that are its columns. Spark asks a source in
    Python for all columns, whatever is selected later: name those that you want in the schema
    (`_id string` alone is enough to count).

    With `pushFilters=true` the gateway is asked only for what filters leave: ranges by `stream`,
    `ms`, `id` and `timestamp`, and entries by the fields that are columns (equal to a text, one of
    several, prefix, suffix, bounds of a number, not null). A value that a filter leaves out is not
    looked at, so it cannot be one that does not fit. Spark (4.3) keeps the first filter with the
    DataFrame: filter such a DataFrame once, and `load` again for the next filter. It needs
    `spark.sql.python.filterPushdown.enabled=true`, which `pipeline.session` sets.

    With `view=table` a row is the latest entry of its key, among the entries with an id up to
    `asOf`, as the gateway has it at that id. Whole entries have a column `key string` as well, in
    the form of the gateway: `base64:` and base64 text where a key is no text. An entry without the
    key field, or whose key has more than 1,024 bytes, is in no row; one with the tombstone field
    removes the row. With `coldTier` what the lake holds is read from there, and the rest from the
    stream. One task reads a whole stream, in order, and keeps the rows in memory.

    Options for writing:

    | option | meaning |
    |---|---|
    | stream | where to; by default the column `stream` says it, row by row |
    | deliveryGuarantee | exactly-once, or at-least-once: without a staging area |
    | nestedFormat | fail, or json: arrays, structs and maps are written as JSON |
    | emptyRows | fail, or skip: rows whose values are all null are left out |
    | jobId | (batch) name of this write: the same once more changes nothing |
    | jobBatch | (batch) number of this write under its jobId, growing; 0 |

    A column `fields` (a map, or an array of name and value) holds what is written; without it
    every column but `stream`, `id` and those of times becomes a field, as text, left out where it
    is null. A column `id` keeps ids. Columns `delay_ms`, `deliver_at_ms`, `ttl_ms` and
    `expires_at_ms` (bigint, null is none) say when groups deliver the entry, and until when.
    """

    @classmethod
    def name(cls) -> str:
        return "headgate"

    def schema(self) -> StructType:
        return entry_schema(**form_of(self.options)._asdict())

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options, is_query=False)
        if options.table is not None:
            return TableReader(options, options.table, Rows(schema))
        kind = FilteringReader if options.pushes_filters else BatchReader
        return kind(options, Rows(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return StreamReader(read_options(self.options, is_query=True), Rows(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(write_options(self.options, is_query=False), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802, ARG002
        return StreamWriter(write_options(self.options, is_query=True), schema)
