"""A Spark session with the data source: Java is found, Python workers are the same Python.

```python
from headgate.pipeline.session import session

spark = session()                                   # this machine, all its cores
spark.read.format("headgate").option("subscribe", "orders").load().show()
```
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headgate.pipeline.java import find_java
from headgate.pipeline.source import HeadgateDataSource

TOKENS = r"hg_[0-9A-Za-z]+_[\w-]+|eyJ[\w-]+\.[\w-]+\.[\w-]*"
"""Form of keys and tokens, for `spark.sql.redaction.string.regex`."""

_ROOT = Path(__file__).parents[2]

_CONF = {
    "spark.sql.python.filterPushdown.enabled": "true",  # without it a reader with filters fails
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 has no zone
    # A Connect server writes every request of a client down, with all its options.
    "spark.sql.redaction.string.regex": TOKENS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}


class LibraryMissing(RuntimeError):
    """The Python of a Spark Connect server lacks a library; the text says which."""


def session(
    *,
    master: str | None = None,
    app: str = "headgate",
    remote: str | None = None,
    conf: dict[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session with `format("headgate")` registered; a running one is reused.

    Workers in other processes import this package from an archive that is sent to them, so that
    driver and executors always have the same version. They must have its dependencies:
    headgate[spark].

    Args:
        master: where it runs, such as local[2] or spark://host:7077; local[*] by default.
        app: its name.
        remote: a Spark Connect server instead, such as sc://host:15002.
        conf: settings of Spark, which override ours.

    Raises:
        JavaMissing: there is no Java to run it on (never with `remote`).
        LibraryMissing: the Python of the server `remote` lacks what this package imports.
    """
    if remote is not None:
        builder = SparkSession.builder.remote(remote)
    else:
        master = master or "local[*]"
        os.environ["JAVA_HOME"] = str(find_java().home)
        # Workers begin as another python3 otherwise, and without this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        if str(_ROOT) not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
            os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        builder = SparkSession.builder.appName(app).master(master)
    # local-cluster[2,1,1024] is on this machine too, but its executors are processes elsewhere.
    is_here = remote is None and str(master).startswith("local")
    is_one_process = is_here and not str(master).startswith("local-cluster")
    settings = _CONF | (_LOCAL_CONF if is_here else {}) | (conf or {})
    for name, value in settings.items():
        if remote is None or not name.startswith(("spark.ui", "spark.driver")):
            builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if remote is not None:
        spark.addArtifacts(str(_package()), pyfile=True)
    elif not is_one_process:
        spark.sparkContext.addPyFile(str(_package()))
    register(spark)
    if remote is not None:
        _check_libraries(spark, remote)
    return spark


def _check_libraries(spark: SparkSession, remote: str) -> None:
    """Load the source on a Connect server without reading; that imports its libraries."""
    try:
        spark.read.format(HeadgateDataSource.name()).option("subscribe", "any").load().schema  # noqa: B018
    except PySparkException as error:
        missing = re.search(r"No module named '([\w.]+)'", str(error))
        if missing is None:
            return  # who reads is told
        raise LibraryMissing(
            f"the Python of the Spark server {remote} lacks {missing[1]}: pip install"
            " 'headgate[spark]' there, in the Python that its PYSPARK_PYTHON names"
        ) from None


def register(spark: SparkSession) -> None:
    """Make `format("headgate")` known to a session."""
    spark.dataSource.register(HeadgateDataSource)


@cache
def _package() -> Path:
    """Return this package as an archive that workers elsewhere import it from.

    It is one file for the life of the process: Spark does not accept a second one of its name.
    """
    package = Path(__file__).parents[1]
    folders = [package / "client", package / "pipeline"]
    sources = [package / "__init__.py", *(path for each in folders for path in each.rglob("*.py"))]
    archive = Path(tempfile.mkdtemp(prefix="headgate-")) / "headgate_pipeline.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(sources):
            file.write(path, path.relative_to(_ROOT))
    return archive
