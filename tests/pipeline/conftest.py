"""One Spark and one gateway for all tests of a process; names of streams are a test's own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from headgate.pipeline.java import JavaMissing, find_java
from headgate.pipeline.session import session
from tests.pipeline.gateway import Gateway
from tests.pipeline.java import SHORT_LIVED


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    try:
        find_java()
    except JavaMissing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    started = session(
        master="local[2]",
        app="headgate tests",
        conf={
            "spark.driver.extraJavaOptions": SHORT_LIVED,
            "spark.log.level": "OFF",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    yield started
    started.stop()


@pytest.fixture(scope="session")
def gateway() -> Iterator[Gateway]:
    started = Gateway(":memory:")
    yield started
    started.stop()


@pytest.fixture
def name() -> str:
    """A name for a stream that no other test has."""
    return f"s-{uuid.uuid4().hex[:12]}"


settings.register_profile("pipeline", deadline=None)  # the first call of Arrow loads it
settings.load_profile("pipeline")
