"""Java of tests: it starts quickly, as each job has one of its own and ends soon.

`python -m tests.pipeline.java` writes the class archive, which `make test` does once. Without it
tests run as well, and take longer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack

from tests.pipeline.gateway import ROOT, Gateway
from tests.pipeline.in_turn import line_of

_ARCHIVE = ROOT / ".venv" / "spark-classes.jsa"
_FLAGS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -Xlog:cds*=off"
)

SHORT_LIVED = f"{_FLAGS} -XX:SharedArchiveFile={_ARCHIVE}" if _ARCHIVE.exists() else _FLAGS
"""For a Java that ends before compiling well, or looking through what it loads, would pay.

The classes that Spark loads are mapped from an archive (JEP 350), if there is one.
"""


def write_archive() -> None:
    """Write the classes that jobs on Spark load, as Java has them in memory."""
    new = _ARCHIVE.with_suffix(".new")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        gateway = Gateway(":memory:")
        stack.callback(gateway.stop)
        gateway.append("orders", [{"n": "1"}, {"n": "2"}])
        where = ("--streams", "orders", "--url", gateway.url)
        lake = ("--lake", f"{folder}/lake", "--spark")
        jobs = (
            ("archive", *where, *lake),
            ("replay", *where, *lake, "--to", "again", "--checkpoint", f"{folder}/replay"),
            ("changes", *where, "--key", "n", "--spark"),
        )
        # Output is read to its end, which comes when Java has written the archive.
        subprocess.run(
            [sys.executable, "-m", "tests.pipeline.in_turn", *map(line_of, jobs)],
            cwd=ROOT,
            env={**os.environ, "JAVA_TOOL_OPTIONS": f"{_FLAGS} -XX:ArchiveClassesAtExit={new}"},
            capture_output=True,
            check=True,
        )
    new.rename(_ARCHIVE)


if __name__ == "__main__":
    try:
        write_archive()
    except subprocess.CalledProcessError:
        sys.exit("Spark does not run here: its tests say why, and take longer without its classes")
