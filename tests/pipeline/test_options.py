from typing import Any

import pytest

from headgate.pipeline.options import (
    READING,
    WRITING,
    OptionError,
    ReadOptions,
    read_options,
    write_options,
)
from headgate.pipeline.source import HeadgateDataSource


def read(*, is_query: bool = False, **options: Any) -> ReadOptions:
    return read_options({"subscribe": "a", **options}, is_query=is_query)


def test_an_unknown_option_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(OptionError, match="did you mean startingOffsets"):
        read(startingoffset="earliest")
    with pytest.raises(OptionError, match="no option of writing headgate: did you mean jobId"):
        write_options({"jobid2": "x"}, is_query=False)


def test_names_of_options_are_case_insensitive() -> None:
    options = read_options({"SUBSCRIBE": "a, b", "MINPARTITIONS": "3"}, is_query=False)
    assert options.subscribe == ("a", "b")
    assert options.partitions_min == 3


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "a", "subscribePattern": "b"},
        {"subscribe": "a,,b"},
        {"subscribePattern": "("},
        {"assign": "a"},
        {"assign": '{"a": [0]}'},
        {},
    ],
)
def test_the_streams_are_said_once_and_well(options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        read_options(options, is_query=False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("url", "ftp://localhost"),
        ("retryTimeoutMs", "-1"),
        ("minPartitions", "0"),
        ("maxRecordsPerPartition", "many"),
        ("failOnDataLoss", "maybe"),
        ("valueFormat", "json"),
        ("fieldsFormat", "list"),
        ("compression", "gzip"),
        ("view", "rows"),
    ],
)
def test_a_value_an_option_cannot_have_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(OptionError, match=name):
        read_options({"subscribe": "a", name: text}, is_query=False)


@pytest.mark.parametrize("name", ["nestedFormat", "emptyRows", "deliveryGuarantee"])
def test_a_way_of_writing_that_there_is_not_is_refused_by_name(name: str) -> None:
    with pytest.raises(OptionError, match=name):
        write_options({name: "maybe"}, is_query=False)


def test_options_of_a_table_are_not_those_of_entries() -> None:
    with pytest.raises(OptionError, match="asOf is for tables: give view=table"):
        read(asOf="1-0")
    with pytest.raises(OptionError, match="endingOffsets is not for tables"):
        read(view="table", endingOffsets="latest")
    with pytest.raises(OptionError, match="view=table is for batch reads"):
        read(view="table", is_query=True)


def test_options_of_a_batch_are_not_those_of_a_query() -> None:
    with pytest.raises(OptionError, match="endingOffsets is for batch reads"):
        read(is_query=True, endingOffsets="latest")
    with pytest.raises(OptionError, match="maxOffsetsPerTrigger is for queries"):
        read(maxOffsetsPerTrigger="5")
    with pytest.raises(OptionError, match="nothing to read"):
        read(startingOffsets="latest")
    with pytest.raises(OptionError, match="jobId and jobBatch are for batch writes"):
        write_options({"jobId": "x"}, is_query=True)


def test_a_start_is_said_once() -> None:
    with pytest.raises(OptionError, match="give one of them"):
        read(startingOffsets="earliest", startingTimestamp="5")


@pytest.mark.parametrize("given", ["localhost:8080", "http://localhost:8080/"])
def test_where_the_gateway_is_needs_no_scheme(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(url=given).connection.url == "http://localhost:8080"

    monkeypatch.setenv("HEADGATE_URL", given)
    assert read().connection.url == "http://localhost:8080"
    assert read(url="gw.example").connection.url == "http://gw.example"


def test_every_option_is_documented() -> None:
    text = HeadgateDataSource.__doc__ or ""
    for name in READING | WRITING:
        assert f"| {name} |" in text
